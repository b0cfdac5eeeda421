/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a job as server-sent events. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "shm/waits.h"
#include "web/serve/follow.h"
#include "web/serve/jobs.h"
#include "web/serve/routes.h"

struct stream {
    struct follower follower;
    struct visit *visit;
    unsigned char types[RECORD_TYPES + 1]; /* wanted */
    struct buf rest;                       /* of an event that did not fit into a piece */
    size_t rest_at;
    bool quiet, last;
    lws_sorted_usec_list_t timer;
};

static void on_more(struct follower *follower)
{
    visit_more(lws_container_of(follower, struct stream, follower)->visit);
}

/* Proxies and browsers end connections that are silent; a session may have ended. */
static void on_quiet(lws_sorted_usec_list_t *timer)
{
    struct stream *stream = lws_container_of(timer, struct stream, timer);
    struct visit *visit = stream->visit;
    stream->quiet = true;
    lws_sul_schedule(visit->server->context, 0, &stream->timer, on_quiet, STREAM_QUIET_SECONDS * LWS_US_PER_SEC);
    visit_more(visit);
}

static void done(struct visit *visit)
{
    struct stream *stream = visit->extra;
    lws_sul_schedule(visit->server->context, 0, &stream->timer, NULL, LWS_SET_TIMER_USEC_CANCEL);
    follow_end(&stream->follower);
    buf_done(&stream->rest);
    free(stream);
}

/* What did not fit into the last piece goes first. */
static size_t put(struct stream *stream, unsigned char *room, size_t size, const char *text, size_t len)
{
    size_t part = len < size ? len : size;
    memcpy(room, text, part);
    if (part < len) {
        buf_clear(&stream->rest);
        buf_append(&stream->rest, text + part, len - part);
        stream->rest_at = 0;
    }
    return part;
}

static size_t put_rest(struct stream *stream, unsigned char *room, size_t size)
{
    size_t left = stream->rest.len - stream->rest_at, part = left < size ? left : size;
    if (part)
        memcpy(room, stream->rest.data + stream->rest_at, part);
    stream->rest_at += part;
    return part;
}

static size_t put_lost(struct stream *stream, unsigned char *room, size_t size, uint64_t lost)
{
    char text[96], number[24] = "null";
    if (lost != UINT64_MAX)
        snprintf(number, sizeof number, "%" PRIu64, lost);
    snprintf(text, sizeof text, "event: lost\ndata: {\"records\":%s}\n\n", number);
    return put(stream, room, size, text, strlen(text));
}

static ssize_t more(struct visit *visit, unsigned char *room, size_t size)
{
    static const char comment[] = ": \n\n";
    struct stream *stream = visit->extra;
    const struct event *event;
    uint64_t lost;
    size_t len = put_rest(stream, room, size);
    if (!visit_is_let_in(visit) || stream->rest.failed) /* for want of memory: who comes back gets the event whole */
        return -1;
    if (stream->last && !len)
        return -1;
    while (!stream->last && len < size && stream->rest_at == stream->rest.len &&
           ((event = follow_next(&stream->follower, &lost)) || lost)) {
        if (lost)
            len += put_lost(stream, room + len, size - len, lost);
        else if (stream->types[event->type])
            len += put(stream, room + len, size - len, event->text, event->len);
        if (!lost)
            follow_got(&stream->follower);
    }
    event = follow_last(&stream->follower);
    if (event && !stream->last && len < size && stream->rest_at == stream->rest.len) {
        stream->last = true;
        len += put(stream, room + len, size - len, event->text, event->len);
        visit_more(visit);
    }
    if (!len && stream->quiet)
        len = put(stream, room, size, comment, sizeof comment - 1);
    if (len) {
        stream->quiet = false;
        lws_set_timeout(visit->wsi, PENDING_TIMEOUT_HTTP_CONTENT, STREAM_PATIENCE_SECONDS);
    }
    return (ssize_t)len;
}

static void read_types(struct stream *stream, const char *types)
{
    struct span list = span_str(types ? types : ""), name;
    memset(stream->types, !list.len, sizeof stream->types);
    while (foreign_next(&list, ',', &name)) {
        size_t type = 0;
        while (type < RECORD_TYPES && !span_is(name, record_kinds[type].type))
            type++;
        if (type < RECORD_TYPES || span_is(name, "record"))
            stream->types[type] = 1;
    }
}

void answer_records(struct visit *visit)
{
    struct named_job job;
    if (!job_of_visit_here(visit, &job))
        return;
    struct stream *stream = calloc(1, sizeof *stream);
    struct position *behind = visit->behind ? calloc(1, sizeof *behind) : NULL;
    if (behind && !position_parse(span_str(visit->behind), behind)) {
        free(behind);
        behind = NULL;
    }
    int code = stream ? follow_begin(visit->server->follows, job.path, job.followed ? job.word : NULL, behind,
                                     &stream->follower)
                      : -ENOMEM;
    if (!stream)
        free(behind); /* follow_begin takes it */
    if (code < 0) {
        free(stream);
        visit->refusal.retry = "5";
        visit_answer_error(visit, 503, "busy", "too many jobs are looked at; try again later");
        return;
    }
    stream->visit = visit;
    stream->follower.more = on_more;
    read_types(stream, visit_argument(visit, "types"));
    visit->extra = stream;
    visit->done = done;
    lws_http_mark_sse(visit->wsi);
    lws_sul_schedule(visit->server->context, 0, &stream->timer, on_quiet, LWS_US_PER_SEC);
    visit_answer_more(visit,
                      &(struct reply){.status = 200, .type = "text/event-stream", .cache = "no-store, no-transform"},
                      UINT64_MAX, more);
}
