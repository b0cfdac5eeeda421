/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ssh executes on a node: scripts of sh, as one word in single quotes that every login shell passes on unchanged. In
 * the scripts there is no single quote, no "!" (csh), and no end of line.
 *
 * `id` is of the parcel (node_parcel.h) that is, or will be, below the user's cache directory there.
 */
#ifndef SCRY_LINK_NODE_SCRIPT_H
#define SCRY_LINK_NODE_SCRIPT_H

#include "base/data/buf.h"

/* Beginnings of the lines of node_script_copy. */
#define NODE_SCRIPT_COPY "scry-copy: "

/* Finds scry-link there, and becomes `scry-link bridge`: `here` is its path on this machine, which may be the same there.
 * Ends with 127 if there is none. */
void node_script_bridge(struct buf *out, const char *id, const char *here);

/* Puts an archive there. It prints, each on a line of its own behind NODE_SCRIPT_COPY:
 *     fits KERNEL MACHINE      then it reads the archive's size, as a line, and the archive
 *     differs KERNEL MACHINE   scry was not built for it
 *     done                     it is there, and all programs can be loaded
 *     lacks PROGRAM TEXT       the loader misses something
 *     failed TEXT */
void node_script_copy(struct buf *out, const char *id);

/* Prints facts about the node, for people who ask what is there, as lines "scry-node: WORD TEXT". */
void node_script_look(struct buf *out, const char *id, const char *here);
#define NODE_SCRIPT_LOOK "scry-node: "

#endif
