/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry run hears of requests that changed its job (monitor/engine/change.h): the event job_was_requested. Of a job at
 * most ASKED_BURST at once and then ASKED_PER_SECOND; what is more is counted,
 * and told before the next one, and with samples: an event with left_out, and nothing else.
 */
#ifndef SCRY_SERVICE_JOB_ASKED_H
#define SCRY_SERVICE_JOB_ASKED_H

#include "monitor/engine/change.h"
#include "monitor/engine/event.h"

struct monitor;

enum { ASKED_BURST = 64, ASKED_PER_SECOND = 4 };

/* Of one job; zeroed at the start. */
struct asked {
    uint64_t turn_ns;  /* when the burst is whole again; 0: it is */
    uint64_t left_out; /* not told of yet */
};

#define ASKED_EVENT "job_was_requested"
#define ASKED_RESULT \
    "{ string who; string serial; integer pid; integer uid; string request; string status; string why; " \
    "integer left_out; string job }"
extern const struct event_ops asked_ops;

void asked_tell(struct asked *asked, struct monitor *monitor, const struct change *change, const char *dir);
/* Tells how many were left out, if any were. */
void asked_flush(struct asked *asked, struct monitor *monitor, const char *dir);

#endif
