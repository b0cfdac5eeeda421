/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting may block for minutes, in the look-up of a name or in the system's attempts. So a thread does it, with
 * nothing but its own handle, and the loop goes on.
 */
#ifndef SCRY_BROKER_ATTEMPT_H
#define SCRY_BROKER_ATTEMPT_H

#include <stdbool.h>

#include "base/system/loop.h"

struct mosquitto;
struct attempt;

/* Connects the handle to a host, or a unix socket (port 0), which
 * is the private broker's if local: that is started, if it does not run. And calls done in the loop. The handle is the attempt's from
 * now on: it must have no callbacks yet. NULL: no memory, or no thread; the handle stays the caller's. */
struct attempt *attempt_begin(struct loop *loop, struct mosquitto *mosq_take, const char *host, int port, bool local,
                              int keepalive, loop_timer_fn *done, void *ctx);
/* In done or later: the connected handle, or NULL and why. Frees the attempt. */
struct mosquitto *attempt_take(struct attempt *attempt, char *ret_why, int size);
/* Whenever it ends, nobody hears of it. NULL is fine. */
void attempt_abandon(struct attempt *attempt);
/* Whether a thread still tries, also of one that was abandoned. */
bool attempt_runs(void);

#endif
