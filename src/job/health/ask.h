/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks a file system how much is left. One that is on another machine may not answer for hours: it is asked in a
 * thread, for which nobody waits. Functions are for the thread that started it.
 */
#ifndef SCRY_JOB_HEALTH_ASK_H
#define SCRY_JOB_HEALTH_ASK_H

#include <stdbool.h>
#include <stdint.h>

struct ask_answer {
    bool there;
    uint64_t device;
    bool elsewhere;                  /* it may be on another machine */
    int64_t total_bytes, free_bytes; /* free for this user */
    int64_t inodes, free_inodes;     /* inodes 0: it has no limit */
};
typedef void ask_fn(const char *path, struct ask_answer *ret_answer);

/* Asks here and now. */
void ask_now(const char *path, struct ask_answer *ret_answer);

struct ask;
/* The path is copied. NULL: no memory, or no thread. */
struct ask *ask_start(const char *path, ask_fn *how);
/* Whether it has answered, within so many milliseconds; then it is freed. */
bool ask_take(struct ask *ask, int wait_ms, struct ask_answer *ret_answer);
/* Nobody wants to know any more. NULL is fine. */
void ask_drop(struct ask *ask);

#endif
