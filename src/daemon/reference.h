/* SPDX-License-Identifier: Apache-2.0 */
/* The reference pages of services, of MPI calls and of notes, printed from the tables themselves. */
#ifndef SCRY_DAEMON_REFERENCE_H
#define SCRY_DAEMON_REFERENCE_H

#include <stdio.h>

struct monitor;

/* Markdown: a table per extension with name, kind, class, signature, state on this machine, description. */
void reference_print(const struct monitor *monitor, FILE *out);

/* The page of MPI calls: what the events of each have for parameters. */
void reference_print_mpi_calls(FILE *out);

/* The page of notes: what warnings and problems of a job have as "note" and "fields". */
void reference_print_notes(FILE *out);

#endif
