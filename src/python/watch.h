/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PYTHON_WATCH_H
#define SCRY_PYTHON_WATCH_H

#include "python/start.h"
#include "shm/script_ring.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What is counted, whatever tells of it (start.h, start.h): functions with their calls and times, lines with
 * theirs, and exceptions, for code that is the user's: neither the standard library's nor an installed package's. All
 * of it wants the GIL, which is its lock, and leaves an exception that is set alone. Times are of the time stamp
 * counter.
 */

struct watch_code; /* what is known of a code object */

struct watch {
    const char *directory; /* of rings; NULL: off for good */
    bool lines;
    struct script_writer *writer; /* NULL: not open yet */
    struct script_ring *ring;
    const struct py *thread_end; /* the code that calls a thread's function, as soon as it was called */
    uint32_t generation;         /* grows when sums are others: in a child of a fork */
    char program[SCRIPT_TEXT_MOST];
};
extern struct watch watch;

/* Once, when Python is ready and no code of the program has run. false: no room for it, nothing is watched. */
bool watch_start(const char *directory, bool lines, struct py *program);
/* In its place, before Python is initialised: this Python cannot be watched. */
void watch_refuse(const char *directory, const char *reason);
/* The tracer does not go on, at least in this thread. */
void watch_step_aside(const char *reason);
/* After that: what this thread was in may have been left. */
void watch_go_on(void);

/* May be called whenever a function of this file is about to be: after a fork there is another ring. false: off. */
bool watch_renew(void);
static inline bool watch_ready(void)
{
    return watch.writer && script_writer_mine(watch.writer) ? true : watch_renew();
}

/* NULL: of no interest, or no memory. The code object is borrowed. */
struct watch_code *watch_code_of(struct py *code);

/* A function of that code begins, or goes on (`counted` false: a generator); ends, by an exception if `failed`. */
void watch_enter(struct watch_code *code, bool counted);
void watch_leave(struct watch_code *code, bool failed);
void watch_line(struct watch_code *code, int line);
/* An exception of that class is on its way through this code, at this line (-1: ask the frame). As long as it is not
 * made, `exception` is its argument. */
void watch_raised(struct watch_code *code, int line, struct py *exception, struct py *type);
/* The same in code that is of no interest: is that the one in which Python ends a thread? */
void watch_passed(const struct py *code, struct py *exception);
/* Python reports an exception that it cannot give to anyone. */
void watch_unraisable(void);
/* The exception reached the end of the program. */
void watch_uncaught(struct py *type, struct py *exception, struct py *traceback);

#endif
