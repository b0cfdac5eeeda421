/* SPDX-License-Identifier: Apache-2.0 */
/* One request POST at a time, to a collector: http or https, over a connection of its own. */
#ifndef SCRY_SITE_POST_H
#define SCRY_SITE_POST_H

#include <stdbool.h>

#include <libwebsockets.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/span.h"

struct post;

/* status: of the answer; 0: there was none, and why says why. `answer`: its beginning. */
typedef void post_done_fn(void *ctx, int status, const char *why, struct span answer);

/* Its protocol among those of the context; a pointer to the struct post * is lws_context_user. */
int post_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);

/* The URL without a path gets /v1/logs. Headers are those of $OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE,NAME=VALUE, with %XX. 0, or
 * -EINVAL with err. */
int post_new(struct post **ret_post, const char *url, post_done_fn *fn, void *ctx, struct err *err);
void post_free(struct post *post);
bool post_is_tls(const struct post *post);
/* The body is borrowed until fn is called, which may be at once. */
void post_send(struct post *post, struct lws_context *context, struct span body);

#endif
