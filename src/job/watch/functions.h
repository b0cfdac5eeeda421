/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of traced functions in all processes of a job, from time to time: asks the monitor for their profiles, and
 * records what was added since the last time, of the functions with the most time of their own. It asks so seldom that
 * the monitor spends little time on it. Nothing here blocks. Not thread-safe.
 */
#ifndef SCRY_JOB_WATCH_FUNCTIONS_H
#define SCRY_JOB_WATCH_FUNCTIONS_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include "job/record/recorder.h"

enum { FUNCTIONS_LISTED = 10 };

struct known_process;

struct function_watch {
    bool asking;
    uint64_t asked_ns, next_ns; /* when; not before */
    uint64_t recorded_ns;       /* of the last record; 0: none */
    uint32_t round;
    struct recorder *recorder;
    struct known_process *processes; /* hash, by token */
    size_t known;                    /* functions of all of them */
    bool from_here;                  /* the next answer only tells from where to count */
};

/* Asks if it is time. */
void functions_ask(struct function_watch *functions);
/* What the answer adds: a record if something was called. Borrows the reply; now_ns: CLOCK_MONOTONIC. */
void functions_take(struct function_watch *functions, Omis_reply reply, uint64_t now_ns);
/* The connection is lost, and with it the question. Another monitor has other processes and counts. */
void functions_lost(struct function_watch *functions);
void functions_done(struct function_watch *functions);

#endif
