/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the reference pages of services, MPI calls and notes from the tables. */
#ifndef SCRY_DAEMON_REFERENCE_H
#define SCRY_DAEMON_REFERENCE_H

#include <stdio.h>

struct monitor;

/* Markdown: a table for each extension, with name, kind, class, signature, state on this machine, description. */
void reference_print(const struct monitor *monitor, FILE *out);

/* The page of MPI calls: the parameters of their events. */
void reference_print_mpi_calls(FILE *out);

/* The page of notes: "note" and "fields" of a job's warnings and problems. */
void reference_print_notes(FILE *out);

#endif
