/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node's and the job's health: what runs out, what hangs, what expires. Each file here looks at one thing. All of
 * them read below a root directory, "" but in tests, so that /proc and /sys/fs/cgroup may be a folder. What is not
 * known is -1.
 */
#ifndef SCRY_JOB_HEALTH_LOOK_H
#define SCRY_JOB_HEALTH_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/notes.h"

/* One look at everything. */
struct look {
    const char *root;
    uint64_t now_ns; /* CLOCK_MONOTONIC */
    bool quiet;      /* the first look of an observer that was started again: all this was said before */
    void (*say)(void *ctx, struct note note);
    void *ctx;
};

/* A warning that is given once, again when it is twice as bad, and again after all was fine. */
struct alarm {
    double said; /* how bad it was then; 0: it is not on */
};

/* Whether to say it now. `worse` is greater than 0, and grows the worse it is. */
static inline bool alarm_rings(struct alarm *alarm, const struct look *look, bool bad, bool fine, double worse)
{
    if (fine)
        alarm->said = 0;
    if (!bad || (alarm->said > 0 && worse < 2 * alarm->said))
        return false;
    alarm->said = worse;
    return !look->quiet;
}

/* ---- small files ---- */

/* Reads the beginning of a file below the root, ended by a NUL. Waits for no fifo and no terminal. 0 or -errno. */
int look_read(const char *root, char *ret_text, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The number that a file is; INT64_MAX for "max", -1: there is none. */
int64_t look_number(const char *root, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number behind "NAME " or "NAME: " at the start of a line; -1: there is none. */
int64_t look_find(const char *text, const char *name);
/* The next line after this one; NULL: this was the last. */
const char *look_next_line(const char *line);

#endif
