/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of jobdir: between replay.c (for people) and replay_json.c (for programs). */
#ifndef SCRY_JOBDIR_EXPORT_REPLAY_INTERNAL_H
#define SCRY_JOBDIR_EXPORT_REPLAY_INTERNAL_H

#include "jobdir/export/replay.h"

struct replay_line {
    struct call *call; /* that waits; NULL: it is `text` */
    struct buf text;
    struct replay_line *previous, *next;
};

struct replay {
    struct replay_options options;
    const struct trace *trace;
    struct calls *calls;
    struct call_visitor visitor;
    uint64_t hold_ticks, min_ticks;
    struct replay_line *first, *last; /* that are not printed yet, in the order of their times */
    struct buf out;
    FILE *file;
    bool failed;
};

extern const struct call_visitor replay_json; /* its ctx is the replay */

#endif
