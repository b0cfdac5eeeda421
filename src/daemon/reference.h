/* SPDX-License-Identifier: Apache-2.0 */
/* The reference page of services, printed from the table of the services themselves. */
#ifndef SCRY_DAEMON_REFERENCE_H
#define SCRY_DAEMON_REFERENCE_H

#include <stdio.h>

struct monitor;

/* Markdown: a table per extension with name, kind, class, signature, state on this machine, description. */
void reference_print(const struct monitor *monitor, FILE *out);

#endif
