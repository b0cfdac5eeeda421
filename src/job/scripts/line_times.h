/* SPDX-License-Identifier: Apache-2.0 */
/* How long a shell was in which lines of its script, as seen from outside. */
#ifndef SCRY_JOB_SCRIPTS_LINE_TIMES_H
#define SCRY_JOB_SCRIPTS_LINE_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "job/scripts/place.h"

enum { LINE_TIMES_MOST = 4096, LINE_TIMES_SHOWN = 20 };

struct line_times {
    struct line_time {
        uint32_t first_line, last_line;
        bool exact; /* one command */
        uint64_t ns;
    } * list;
    size_t count, room;
};

/* What has no room is left out. */
void line_times_add(struct line_times *times, const struct place *place, uint64_t ns);
/* As script_end.lines: those of most time first. A new reference; NULL: there are none, or no memory. */
json_t *line_times_json(struct line_times *times, const struct script_text *text, const char *file);
void line_times_done(struct line_times *times);

#endif
