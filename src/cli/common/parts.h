/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a job on other nodes (jobdir/record/parts.h), followed while they grow. */
#ifndef SCRY_CLI_COMMON_PARTS_H
#define SCRY_CLI_COMMON_PARTS_H

#include <stddef.h>

#include "jobdir/report/report.h"
#include "jobdir/record/spool.h"

struct parts {
    struct spool_reader *readers; /* one for each of the report's parts */
    size_t count;
};

/* Adds those that are new to the report's parts, and brings what is known of all up to date. Without memory nothing is
 * new. */
void parts_look(struct parts *parts, struct job_report *report);
/* Reads their new records into their models. */
void parts_read(struct parts *parts, struct job_report *report);
void parts_done(struct parts *parts);

/* What all nodes of the job have now, as their last records say. */
struct parts_now {
    uint64_t processes, threads, rss, cpu_ns, started;
    double cpu_share; /* processors in use */
    size_t nodes;     /* on which something of it may still run */
};
struct parts_now parts_sum(const struct job_report *report);
/* For how long nothing was heard of a part that has not ended; 0: it sends its samples. */
double parts_silent_seconds(const struct job_report *report, const struct job_report *part);

#endif
