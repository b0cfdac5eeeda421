/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far long work is, for a person who waits: on standard error, if that is a terminal, from the second second on; it
 * is gone when the work is done, and when somebody ends the command.
 */
#ifndef SCRY_CLI_PROGRESS_H
#define SCRY_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *what; /* "reading the trace" */
    uint64_t next_ns; /* 0: it has not begun */
    bool off, shown;
};

void progress_begin(struct progress *progress, const char *what);
void progress_show(void *progress, double share); /* 0 to 1; cheap, but no more than some thousand times a second */
void progress_end(struct progress *progress);

#endif
