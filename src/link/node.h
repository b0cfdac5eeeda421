/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LINK_NODE_H
#define SCRY_LINK_NODE_H

#include "base/data/buf.h"
#include "link/link.h"
#include "link/node_parcel.h"

#include <limits.h>

/*
 * Nodes by their names: what a monitor has done for node_attach2, and what people ask when that does not work. A name is HOST or
 * USER@HOST (ssh, with the user's own configuration, no question asked), ssh://, tls:// (way.c), or unix:PATH.
 *
 * ssh executes one script in single quotes, which every login shell passes on: it looks for scry-link of this very build first,
 * copied or at the same path as here, then beside the scry that it finds. A copy (node_parcel.h) gets its name when the loader
 * finds all libraries, so nobody sees half of one, and several builds live side by side. A user begins GATE_PLACES logins at a
 * time on a machine. A name is of the node that was reached by it: what a monitor calls itself gives nobody a name.
 */

/* Carries frames between fd and the monitor of the node, or says on fd by FRAME_GOODBYE why not. An exit status. */
int node_run(const char *name, int fd);

/* Puts scry there. An exit status; says on standard error what was wrong. */
int node_install(const char *name);
/* Brings the monitor here to the one that SCRY_JOIN names, in the background. An exit status. */
int node_join(const char *text);
/* Prints what is there, one finding a line: "ok|warn|fail NAME TEXT TAB REMEDY". 0. */
int node_look(const char *name);

#endif
