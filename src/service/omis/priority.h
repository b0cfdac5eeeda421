/* SPDX-License-Identifier: Apache-2.0 */
/* Priorities of processes and threads: nice values, which are every thread's own on Linux. */
#ifndef SCRY_SERVICE_OMIS_PRIORITY_H
#define SCRY_SERVICE_OMIS_PRIORITY_H

#include "monitor/engine/call.h"

/* Whether argument 1 of the call is a nice value; answers the call if not. */
bool priority_check(struct scry_call *call);

/* Gives one thread, or with tid 0 all threads of a process, the nice value of argument 1, and answers for the call's
 * object. */
void priority_set(struct scry_call *call, struct scry_object *object, pid_t pid, pid_t tid);

#endif
