/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of all jobs as logs of OpenTelemetry, in the JSON of OTLP/HTTP 1.0 (opentelemetry-proto, logs/v1):
 * which come next, from the record, and up to where they were taken, in its table `exported`. So nothing is kept in
 * memory but the batch under way, and what was not taken is sent after a restart, too. A batch that a collector
 * refuses, or does not take in time, is dropped and counted.
 */
#ifndef SCRY_SITE_OTLP_H
#define SCRY_SITE_OTLP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "store/store.h"

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

#endif
