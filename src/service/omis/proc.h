/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SERVICE_OMIS_PROC_H
#define SCRY_SERVICE_OMIS_PROC_H

#include "base/data/buf.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/process.h"

/* Priorities of processes and threads: nice values. On Linux every thread has its own. */

/* Is argument 1 of the call a nice value? Answers the call if not. */
bool priority_check(struct scry_call *call);

/* Sets the nice value of one thread, or with tid 0 of all threads of a process, to argument 1. Answers for the call's
 * object. */
void priority_set(struct scry_call *call, struct scry_object *object, pid_t pid, pid_t tid);

#endif
