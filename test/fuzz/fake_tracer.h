/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tracer that traces nothing: the functions of tracer/tracer.h over a table of idle children of this program. It
 * succeeds or fails as it is told, remembers what the engine has set up, and stops the program when the engine breaks
 * the contract (a watch on a process that was not seized, a hold released twice, ...).
 */
#ifndef SCRY_TEST_FAKE_TRACER_H
#define SCRY_TEST_FAKE_TRACER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "tracer/tracer.h"

enum { FAKE_CHILDREN = 4, FAKE_THREADS = 3 };

struct fake_child {
    pid_t pid;
    pid_t tids[FAKE_THREADS]; /* the first is the pid */
    size_t thread_count;
    bool seized;
};

enum fake_mode { FAKE_WORKS, FAKE_DENIED, FAKE_LOST, FAKE_SLOW, FAKE_GONE, FAKE_PARTLY, FAKE_MODES };

extern struct fake_child fake_children[FAKE_CHILDREN];

/* Events may be held for longer than their lists run here. */
extern bool fake_tracer_may_keep;

/* Of this program, by pid or tid; NULL: it is none. */
struct fake_child *fake_child_of(pid_t tid);

/* For each input: nothing is set up, everything works. */
void fake_tracer_reset(void);
void fake_tracer_mode(enum fake_mode mode);

/* Something happens in a child that is seized: queued, or done in place if only programs wait for it. */
void fake_tracer_happens(enum tracer_event_kind kind, size_t child, size_t thread, unsigned detail, bool held);

/* The child ended. */
void fake_tracer_child_ended(struct fake_child *child);

/* Whether anything is still set up: a seized process, a breakpoint, a hold. */
bool fake_tracer_is_clean(void);

#endif
