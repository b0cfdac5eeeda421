/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SITE_SERVE_H
#define SCRY_SITE_SERVE_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <libwebsockets.h>
#include <stdbool.h>

/*
 * What runs beside a recorder (store/teller.h): answers Prometheus on the socket 3, and sends records to a collector.
 * It reads how the recorder is from its standard input; at the end of that, it sends the rest and ends.
 */

/* otlp: URL or NULL. The exit status. */
int serve_run(const char *record, bool metrics, const char *otlp, double retry_seconds);

#endif
