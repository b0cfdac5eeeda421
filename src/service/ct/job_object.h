/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as objects: what services of calls and of MPI ask about a job that a tool follows (service/job/job.c). */
#ifndef SCRY_SERVICE_CT_JOB_OBJECT_H
#define SCRY_SERVICE_CT_JOB_OBJECT_H

#include <stdbool.h>

#include "base/data/buf.h"

struct monitor;
struct scry_object;
struct tool;

extern const char JOB_CLASS[];

/* The data of an object of that class begins with it. */
struct job_object {
    char *dir; /* the job directory, its name in the registry of agents */
};

/* A job by its directory, the last part of that (its id), or its token; NULL: nobody follows such a job. */
struct scry_object *job_object_find(struct monitor *monitor, struct span name);
/* Is this the job that is named, or its part on this node: a job whose `home` (jobdir/record/parts.h) has the name? */
bool job_object_is(struct monitor *monitor, const struct scry_object *object, struct span name);
/* The last part of a directory. */
struct span job_object_id(struct span dir);

/* The tool that follows the job with this directory; NULL: nobody does. */
struct tool *job_tool(struct monitor *monitor, const char *dir);
/* The directory of the job that is named; NULL: nobody follows such a job. */
const char *job_directory(struct monitor *monitor, struct span name);

#endif
