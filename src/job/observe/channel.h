/* SPDX-License-Identifier: Apache-2.0 */
/* Between scry run and its observer: records as lines of JSON, in both directions. */
#ifndef SCRY_JOB_OBSERVE_CHANNEL_H
#define SCRY_JOB_OBSERVE_CHANNEL_H

#include <stdbool.h>

#include <jansson.h>

#include "base/data/span.h"
#include "job/observe/observe.h"

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
