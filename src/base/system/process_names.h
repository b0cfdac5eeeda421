/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that ps shows for processes that must not be called scry: `pkill -9 scry` kills the monitor, and a signal to
 * all processes of that name is for scry run.
 */
#ifndef SCRY_BASE_SYSTEM_PROCESS_NAMES_H
#define SCRY_BASE_SYSTEM_PROCESS_NAMES_H

/* scry-tracer, which has breakpoints in the job's programs, and its guard (tracer/guard.c). Both remove their
 * breakpoints and end by themselves. */
#define TRACER_PROCESS_NAME "job-tracer"
#define GUARD_PROCESS_NAME "job-guard"
/* Children of scry run (job/launch/witness.h, job/record/scribe.h, job/observe/observer.h, job/run/publish.h). */
#define WITNESS_PROCESS_NAME "job-signals"
#define SCRIBE_PROCESS_NAME "job-writer"
#define OBSERVER_PROCESS_NAME "job-observer"
#define PUBLISHER_PROCESS_NAME "job-publisher"

#endif
