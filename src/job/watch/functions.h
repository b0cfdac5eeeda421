/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_WATCH_FUNCTIONS_H
#define SCRY_JOB_WATCH_FUNCTIONS_H

#include "job/record/writer.h"

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The calls of traced functions in all processes of a job, from time to time: asks the monitor for their profiles, and
 * records what was added since the last time, of the functions with the most time of their own. It asks so seldom that
 * the monitor spends little time on it. Nothing here blocks. Not thread-safe.
 */

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

/*
 * Programs of the job without the agent, for instance statically linked or privileged ones. A process with the agent
 * reports its command line; these do not. Their files are read once, when the job has ended.
 */

struct untraced; /* NULL: there are none */
struct recorder;

/* Adds a process that ended without reporting its command line. `name` is the kernel's. `command`, the first word of
 * its command line, and `directory`, where it ran, may be NULL. */
void untraced_add(struct untraced **untraced, const char *name, const char *command, const char *directory);

/* Makes a note for each program. `directory` is searched for names, beside PATH. */
void untraced_note(struct untraced *untraced, struct recorder *recorder, const char *directory);

void untraced_free(struct untraced *untraced);

#endif
