/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-view (web/view/view.h), one for each job that is looked at. It reads a job's traces while nobody asks, so it is
 * kept: those that were asked last, and no longer than a while.
 */
#ifndef SCRY_WEB_SERVE_VIEWER_H
#define SCRY_WEB_SERVE_VIEWER_H

#include <jansson.h>

#include "base/data/buf.h"
#include "web/http/server.h"

/* kind NULL: `bytes` are the JSON of the answer, to be taken. Otherwise the text says what is wrong. */
typedef void viewer_done_fn(void *ctx, const char *kind, const char *text, struct buf *bytes);

struct viewers;
struct viewers *viewers_new(struct server *server); /* NULL: out of memory */
void viewers_free(struct viewers *viewers);         /* after the context */

/* The question is an object without an id, and gets one. fn is called once, never before this returns 0. -EAGAIN: it is asked too much at once;
 * -EINVAL: the question is too long; -ENOMEM: no more processes, memory or open files. */
int viewer_ask(struct viewers *viewers, const char *jobdir, json_t *question, viewer_done_fn *fn, void *ctx);
/* Nobody waits for the answer of the question that got this id: it comes soon, and may be an error. */
void viewer_forget(struct viewers *viewers, const char *jobdir, int64_t id);

#endif
