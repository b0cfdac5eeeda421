/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scry run finds out about a job (lines of logs and scripts, commands that failed, warnings ...) as events. It
 * raises them itself, by job_raise, and only those that somebody waits for: job_events_wanted tells it which.
 */
#ifndef SCRY_SERVICE_JOB_RAISE_H
#define SCRY_SERVICE_JOB_RAISE_H

#include "monitor/engine/object.h"

extern const struct scry_service job_event_services[];

#endif
