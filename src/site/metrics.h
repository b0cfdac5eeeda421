/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `scry record --metrics` answers, from which doc/reference/metrics.md is made: the text of Prometheus (0.0.4), or OpenMetrics
 * 1.0. The number of series has a limit, whatever jobs there are: of METRICS_JOBS jobs that run, METRICS_NODES nodes
 * and METRICS_USERS users.
 */
#ifndef SCRY_SITE_METRICS_H
#define SCRY_SITE_METRICS_H

#include <stdbool.h>

#include "base/data/buf.h"
#include "site/otlp.h"
#include "site/site.h"
#include "store/teller.h"

enum { METRICS_JOBS = 1000, METRICS_NODES = 1000, METRICS_USERS = 1000 };

struct metrics {
    const struct site *site;            /* NULL: the database could not be read */
    const struct record_health *health; /* of the recorder */
    const struct otlp_counts *otlp;     /* NULL: nothing is sent */
    uint64_t requests;                  /* that were answered */
};

void metrics_put(struct buf *out, const struct metrics *metrics, bool open_metrics);

#endif
