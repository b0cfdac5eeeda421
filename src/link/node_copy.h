/* SPDX-License-Identifier: Apache-2.0 */
/* Puts scry onto a node that has none, by ssh: into the user's cache directory there, in a place of its own for each build. */
#ifndef SCRY_LINK_NODE_COPY_H
#define SCRY_LINK_NODE_COPY_H

#include "link/link.h"
#include "link/node_parcel.h"

/* 0: it is there now, and its programs can be loaded. Else -errno with one line for people. */
int node_copy(const struct link_way *way, const struct parcel *parcel, struct err *err);

/* Executes a script of node_script.h there and hands out each line that it says behind `beginning`, until line() returns
 * anything but 0, or ssh ends, or SECONDS have passed without a word. What line() appends to *answer is sent. Returns what
 * line() returned, or -errno with err. */
typedef int node_line_fn(void *ctx, char *line, struct buf *answer, struct err *err);
int node_talk(const struct link_way *way, const char *script, const char *beginning, unsigned seconds,
              node_line_fn *line, void *ctx, struct err *err);

#endif
