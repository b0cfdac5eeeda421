/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from the broker, by topics. All of it is foreign: it is read with limits, and what is wrong is dropped. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "publish/control.h"
#include "publish/publisher.h"

enum { PAYLOAD_MOST = 4096 };

static void on_ask(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    struct ask ask;
    (void)topic;
    if (payload.len <= PAYLOAD_MOST && ask_parse(payload, &ask)) {
        asks_add(&publisher->asks, &ask);
        publisher->asked_ns = clock_now_ns();
    } else {
        log_debug("bad-ask job=%s text=%s", publisher->job, LOG_BYTES(payload.ptr, payload.len));
    }
}

static void on_own_beat(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    (void)topic, (void)payload;
    publisher->heard = true;
}

/* Whoever may write there can put another state in its place, and readers that come later would have only that. */
static void on_own_state(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    (void)topic;
    const struct buf *sent = &publisher->state_sent;
    if (!publisher->alone && payload.len && !span_eq(payload, span_of(sent->data, sent->len)))
        publisher->overwritten = true;
}

static void on_stored(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    json_t *json = payload.len <= PAYLOAD_MOST ? json_loadb(payload.ptr, payload.len, 0, NULL) : NULL;
    json_t *number = json_object_get(json, "last_seq");
    size_t at = 0;
    while (at < publisher->recorder_count && strcmp(publisher->recorders[at].name, topic->rest) != 0)
        at++;
    if (json_is_integer(number) && at < PUBLISHER_RECORDERS) {
        struct publisher_recorder *recorder = &publisher->recorders[at];
        snprintf(recorder->name, sizeof recorder->name, "%s", topic->rest);
        recorder->last_seq = json_integer_value(number);
        recorder->complete = json_is_true(json_object_get(json, "complete"));
        publisher->recorder_count += at == publisher->recorder_count;
    }
    json_decref(json);
}

static void on_request(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    (void)topic;
    control_message(publisher->control, payload);
}

static void on_revoked(struct publisher *publisher, const struct topic *topic, struct span payload)
{
    (void)topic;
    control_revoked(publisher->control, payload);
}

const struct topic_handler publisher_handlers[] = {
    {TOPIC_ASK, "ask", NULL, on_ask},
    {TOPIC_BEAT, "beat", NULL, on_own_beat},
    {TOPIC_STATE, "state", NULL, on_own_state},
    {TOPIC_STORED, "stored", "+", on_stored},
    {TOPIC_REVOKED, NULL, NULL, on_revoked}, /* before requests of those in the list can come */
    {TOPIC_REQUEST, "request", NULL, on_request},
};
const size_t publisher_handler_count = sizeof publisher_handlers / sizeof *publisher_handlers;
