/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ps shows of scry-tracer, which has breakpoints in the job's programs, and of its guard (probe/tracer/guard.c).
 * `pkill -9 scry` ends the monitor; these two undo what there is to undo, and end by themselves.
 */
#ifndef SCRY_BASE_PROCESS_NAMES_H
#define SCRY_BASE_PROCESS_NAMES_H

#define TRACER_PROCESS_NAME "job-tracer"
#define GUARD_PROCESS_NAME "job-guard"

#endif
