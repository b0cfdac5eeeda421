/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks what may not answer for hours, such as a file system on another machine: in a thread, for which nobody waits.
 * Functions are for the thread that started it.
 */
#ifndef SCRY_JOB_HEALTH_ASK_H
#define SCRY_JOB_HEALTH_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
