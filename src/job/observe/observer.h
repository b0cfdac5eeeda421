/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_OBSERVE_OBSERVER_H
#define SCRY_JOB_OBSERVE_OBSERVER_H

#include "base/data/buf.h"
#include "job/observe/observe.h"
#include "job/record/writer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The observer as scry run sees it: a process that is started, told of processes and settings, read from, and ended. If
 * it dies, it is started again a few times; what it found until then is kept. No function here blocks but
 * observer_await, observer_finish and observer_end. Not thread-safe.
 */

enum { OBSERVER_STARTS = 3 };

struct observer_link {
    int fd; /* -1: no process */
    pid_t pid;
    struct buf in, out;
    unsigned starts;
    bool ready;      /* its sources have started */
    bool over, shut; /* it is to be told nothing more, once it has been told all; it has */
    struct recorder *recorder;
    const struct observe_source *const *sources; /* ends with NULL */
    struct observer given;                       /* what the process is started with */
};

/* Starts it, with what `link` has in recorder, sources and given (options, root, dir, cwd). Without it, a note says so.
 */
void observer_start(struct observer_link *link);
/* Waits until its sources have started, but not for one that hangs, and records what they found. */
void observer_await(struct observer_link *link);
/* Call it when `fd` is readable, and now and then: records what has come, and sends what is left. */
void observer_handle(struct observer_link *link);
/* The command is about to be executed: recorder->start_ns is set. */
void observer_started(struct observer_link *link);
/* Adopts a record that concerns it, of a process or a setting; it never blocks. */
void observer_tell_take(struct observer_link *link, json_t *record);
/* The command has ended, its processes are not all known to have. */
void observer_ending(struct observer_link *link);
/* They are: it looks a last time. */
void observer_over(struct observer_link *link);
/* After observer_over: waits until it has looked a last time, but not for one that hangs. */
void observer_finish(struct observer_link *link);
/* After observer_finish: waits until the process has ended. */
void observer_reap(struct observer_link *link);
/* Has it end without a word. Any link, also twice. */
void observer_end(struct observer_link *link);

/* Between scry run and its observer: records as lines of JSON, in both directions. */

/* In the place of a type: the observer has started. */
#define CHANNEL_READY "ready"
/* The command is about to be executed: "ns" is the time from which "t" counts (CLOCK_MONOTONIC). */
#define CHANNEL_STARTED "started"
/* The command has ended; more about its processes follows. */
#define CHANNEL_ENDING "ending"

/* Appends the record as a line; adopts it (NULL: false). false: out of memory. */
bool channel_put_take(struct buf *out, json_t *record);
bool channel_is(const json_t *record, const char *type);
json_t *channel_note_json(const struct note *note);
/* Reads what there is, and calls `each` for each whole record, which it may borrow, and its line without the end.
 * false: the other side is gone. */
bool channel_read(int fd, struct buf *in, void (*each)(void *ctx, json_t *record, struct span line), void *ctx);

/* The observer's life. */
_Noreturn void channel_serve(struct observer *observer, const struct observe_source *const *sources, int fd);

#endif
