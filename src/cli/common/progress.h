/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a person how far long work is: on standard error, if that is a terminal, after the first second. The line
 * disappears when the work is done, and when somebody ends the command.
 */
#ifndef SCRY_CLI_COMMON_PROGRESS_H
#define SCRY_CLI_COMMON_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "reading the trace" */
    uint64_t next_ns; /* 0: not begun */
    bool off, shown;
};

void progress_begin(struct progress *progress, const char *what);
void progress_show(void *progress, double share); /* 0 to 1; cheap, for up to some thousand calls a second */
void progress_say(struct progress *progress, const char *text); /* a whole line, in place of that */
void progress_end(struct progress *progress);

#endif
