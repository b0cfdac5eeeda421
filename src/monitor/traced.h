/* SPDX-License-Identifier: Apache-2.0 */
/* Turns what the tracer saw into events of the specification. */
#ifndef SCRY_MONITOR_TRACED_H
#define SCRY_MONITOR_TRACED_H

#include "probe/tracer.h"

/* A tracer_event_fn; ctx is the monitor. Raises the events, runs their lists, releases the hold. */
void traced_event(void *ctx, const struct tracer_event *event);

#endif
