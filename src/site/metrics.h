/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `scry record --metrics` answers, from which doc/reference/metrics.md is made: the text of Prometheus (0.0.4), or OpenMetrics
 * 1.0. The number of series has a limit, whatever jobs there are: of METRICS_JOBS jobs that run, METRICS_NODES nodes
 * and METRICS_USERS users.
 */
#ifndef SCRY_SITE_METRICS_H
#define SCRY_SITE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "site/site.h"
#include "store/follow.h"

/* ---- OTLP (otlp.c) ---- */

/*
 * The records of all jobs as logs of OpenTelemetry, in the JSON of OTLP/HTTP 1.0 (opentelemetry-proto, logs/v1):
 * which come next, from the record, and up to where they were taken, in its table `exported`. So nothing is kept in
 * memory but the batch under way, and what was not taken is sent after a restart, too. A batch that a collector
 * refuses, or does not take in time, is dropped and counted.
 */

enum { OTLP_RECORDS = 1000, OTLP_BYTES = 1 << 20 /* of a batch, about */, OTLP_JOBS = 64 /* in it */ };

struct otlp_counts {
    uint64_t sent, dropped, retries, batches; /* records, but for the last two */
};

/* A batch: what is sent, and where each of its jobs is behind it. */
struct otlp_batch {
    struct buf body;
    size_t records;
    struct otlp_part {
        int64_t job, next;
    } parts[OTLP_JOBS];
    size_t part_count;
};

/* The next batch; without records, there is none. The body is empty before. 0 or errors of the database, or -ENOMEM. */
int otlp_next(struct store *store, const char *target, struct otlp_batch *ret_batch, struct err *err);
/* It was taken, or dropped. */
int otlp_done(struct store *store, const char *target, const struct otlp_batch *batch, struct err *err);

/* Appends one record as a logRecord; -EBADMSG: it is none. For otlp_next, and tests. */
int otlp_put_record(struct buf *out, double started, double observed, int64_t seq, const char *stream,
                    struct span record);

/* ---- metrics ---- */

enum { METRICS_JOBS = 1000, METRICS_NODES = 1000, METRICS_USERS = 1000 };

struct metrics {
    const struct site *site;            /* NULL: the database could not be read */
    const struct record_health *health; /* of the recorder */
    const struct otlp_counts *otlp;     /* NULL: nothing is sent */
    uint64_t requests;                  /* that were answered */
};

void metrics_put(struct buf *out, const struct metrics *metrics, bool open_metrics);

#endif
