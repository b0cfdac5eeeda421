/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_HEALTH_H
#define SCRY_JOB_HEALTH_HEALTH_H

#include "base/data/notes.h"
#include "job/health/cgroup.h"
#include "job/health/node.h"
#include "job/observe/observe.h"
#include "jobdir/record/kinds.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The source `health` of the observer: looks at the node, the control group, file systems, processes and credentials.
 */

/* When a record of the health is due, and what is in it: maxima since the one before. */

struct health_window {
    struct node_state from, last; /* of the record before, and of the last look */
    struct cgroup_state group;    /* at the record before */
    double cpu_peak;
    int64_t available_least;
    double rooms; /* filesystems_least_share at the record before */
};

void window_begin(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                  double rooms);
/* Whether so much has changed that a record is due, or it is time for one. */
bool window_add(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                double rooms);
/* Whether there is less or more room in memory or on disks than at the record before, however long ago that was. */
bool window_rooms_moved(const struct health_window *window, const struct cgroup_state *group, double rooms);
/* The figures of the last look; filesystems, cgroup and processes are the caller's. */
struct health_record window_record(const struct health_window *window);

/*
 * Asks what may not answer for hours, such as a file system on another machine: in a thread, for which nobody waits.
 * Functions are for the thread that started it.
 */

/* Runs in the thread: it has only what it is given. ret_answer is zero. */
typedef void ask_fn(const void *question, void *ret_answer);

struct ask;
/* The question is copied. NULL: no memory, or no thread. */
struct ask *ask_start(ask_fn *how, const void *question, size_t question_size, size_t answer_size);
/* Whether it has answered, within so many milliseconds; then it is freed. */
bool ask_take(struct ask *ask, int wait_ms, void *ret_answer);
/* Nobody wants to know any more. NULL is fine. */
void ask_drop(struct ask *ask);

/* How much is left in a file system. */
struct ask_answer {
    bool there;
    uint64_t device;
    bool elsewhere;                  /* it may be on another machine */
    int64_t total_bytes, free_bytes; /* free for this user */
    int64_t inodes, free_inodes;     /* inodes 0: it has no limit */
};
/* An ask_fn: a path, and a struct ask_answer. */
void ask_now(const void *path, void *ret_answer);

/*
 * The node's and the job's health: what runs out, what hangs, what expires. Each file here looks at one thing. All of
 * them read below a root directory, "" but in tests, so that /proc and /sys/fs/cgroup may be a folder. What is not
 * known is -1.
 */

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
