/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the broker forget a job that is over: for each message that it retains of the job, an empty one. First those of the
 * recorders and the beat, the state last: as long as that is there, the job is found, and this can be done again. What
 * somebody may not write, some brokers acknowledge and drop. So it is over only when all of the empty ones came back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/record/mirror.h"
#include "mirror/states.h"
#include "shm/waits.h"

/* FORGET_BACK_SECONDS: an empty message comes back, after the broker has acknowledged all */
enum { TRIES = 3, TOPICS_MOST = 10000 };

enum how { FORGET, FORGET_UNREACHABLE, FORGET_NOTHING };

struct retained {
    char *topic;
    bool cleared; /* its empty message came back */
};

struct forgetting {
    struct reader *reader;
    enum how how;
    struct states states;
    char job[TOPIC_LEVEL_SIZE]; /* its id, or what the person wrote */
    bool exact;                 /* only the job of this id is looked at; else all of the owner */
    bool saw_all;
    bool waiting; /* the job is over, and its publisher says the last of it: it leaves in some seconds */
    struct retained *topics;
    size_t count, room, next, acknowledged; /* next: the first that was not sent on this connection */
    bool sending;
    unsigned lost;   /* connections, after something was sent */
    unsigned failed; /* attempts to connect, before the first that did not */
    bool was_up;
};

static void forget_fail(struct forgetting *forgetting, const struct err *err)
{
    states_stop(&forgetting->states);
    reader_fail(forgetting->reader, err);
}

static void topic_add(struct forgetting *forgetting, const char *topic)
{
    for (size_t i = 0; i < forgetting->count; i++)
        if (strcmp(forgetting->topics[i].topic, topic) == 0)
            return;
    if (forgetting->count == TOPICS_MOST || !GROW(forgetting->topics, forgetting->count, forgetting->room))
        return;
    char *copy = strdup(topic);
    if (copy)
        forgetting->topics[forgetting->count++] = (struct retained){.topic = copy};
}

static void topic_add_of_job(struct forgetting *forgetting, const char *name)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    topic_put(&topic, forgetting->reader->owner, forgetting->job, name, NULL);
    if (!topic.failed)
        topic_add(forgetting, topic.data);
}

/* ---- which job, and may it go? ---- */

/* A name that several jobs have is refused, for this cannot be undone. */
static const struct state *forget_find_only(const struct forgetting *forgetting, struct err *err)
{
    const struct state *found = states_find(&forgetting->states, forgetting->job, err);
    if (!found || strcmp(found->job, forgetting->job) == 0 || strcmp(forgetting->job, "@last") == 0)
        return found;
    for (const struct state *job = forgetting->states.jobs; job; job = job->hh.next) {
        const char *name = json_string_value(json_object_get(json_object_get(job->state, "info"), "name"));
        if (job != found && name && strcmp(name, forgetting->job) == 0) {
            err_set(err, -ENOTUNIQ, "several jobs of %s have the name '%s', for instance %s and %s: give an id",
                    forgetting->reader->owner, name, job->job, found->job);
            return NULL;
        }
    }
    return found;
}

/* By the last beat, and the clocks of both nodes. */
static bool job_is_published(const struct state *job)
{
    double age = (double)clock_wall_ns() / NS_PER_SECOND - json_number_value(json_object_get(job->beat, "time"));
    double lease = json_number_value(json_object_get(job->beat, "lease_seconds"));
    return json_is_true(json_object_get(job->beat, "connected")) && (job->beats || (age < lease && age > -lease));
}

static bool job_is_over(const struct state *job)
{
    return json_is_object(json_object_get(json_object_get(job->state, "info"), "result"));
}

static int forget_check(struct forgetting *forgetting, const struct state *job, struct err *err)
{
    if (!job_is_over(job) && job_is_published(job))
        return err_set(err, -EBUSY, "job %s still runs: the broker forgets it only when it is over", job->job);
    if (!job_is_over(job) && forgetting->how != FORGET_UNREACHABLE && !states_node_restarted(&forgetting->states, job))
        return err_set(err, -EBUSY,
                       "job %s is unreachable, and may still run; --force makes the broker forget it anyway", job->job);
    return 0;
}

/* ---- forgetting ---- */

static void forget_say_ready(struct forgetting *forgetting)
{
    struct reader *reader = forgetting->reader;
    char path[PATH_MAX];
    struct err err = {0};
    if (mirror_path(reader->via, reader->owner, forgetting->job, path, sizeof path, &err) < 0) {
        forget_fail(forgetting, &err);
        return;
    }
    reader_say("ready", path);
    loop_stop(reader->loop);
}

static void forget_send(struct forgetting *forgetting)
{
    while (forgetting->sending && forgetting->next < forgetting->count &&
           link_publish(forgetting->reader->link, forgetting->topics[forgetting->next].topic, span_str(""), 1, true,
                        NULL) == 0)
        forgetting->next++;
}

static void forget_start(struct forgetting *forgetting)
{
    struct reader *reader = forgetting->reader;
    if (forgetting->exact) {
        _cleanup_(buf_done) struct buf pattern = BUF_INIT;
        topic_put(&pattern, reader->owner, forgetting->job, "stored", "+");
        if (!pattern.failed)
            link_subscribe(reader->link, pattern.data, 1, NULL);
    }
    states_start(&forgetting->states, forgetting->exact ? forgetting->job : NULL);
}

static void on_all_came(void *ctx)
{
    struct forgetting *forgetting = ctx;
    struct err err = {0};
    const struct state *job = forget_find_only(forgetting, &err);
    /* It is no id, or other jobs know whether its node was started again. */
    if (!forgetting->saw_all && (job ? !job_is_over(job) : err.code == -ENOENT)) {
        forgetting->saw_all = true;
        forgetting->exact = false;
        forget_start(forgetting);
        return;
    }
    forgetting->waiting = job && forgetting->exact && job_is_over(job) && job_is_published(job);
    if (forgetting->waiting)
        return;
    if (!job || forget_check(forgetting, job, &err) < 0) {
        forget_fail(forgetting, &err);
    } else if (!forgetting->exact) {
        snprintf(forgetting->job, sizeof forgetting->job, "%s", job->job);
        forgetting->exact = true;
        forget_start(forgetting);
    } else if (forgetting->how == FORGET_NOTHING) {
        forget_say_ready(forgetting);
    } else {
        topic_add_of_job(forgetting, "beat");
        topic_add_of_job(forgetting, "state");
        forgetting->sending = true;
        forget_send(forgetting);
    }
}

static void on_connected(void *ctx, bool session_present)
{
    struct forgetting *forgetting = ctx;
    forgetting->was_up = true;
    forget_start(forgetting);
}

static void forget_give_up(void *ctx)
{
    struct forgetting *forgetting = ctx;
    struct reader *reader = forgetting->reader;
    struct err err = {0};
    if (forgetting->sending || forgetting->lost)
        err_set(&err, -EACCES, "the broker %s does not let you remove what it retains of job %s", reader->via,
                forgetting->job);
    else if (forgetting->waiting)
        err_set(&err, -EBUSY, "job %s has ended, but is still being published: try again later", forgetting->job);
    else
        err_set(&err, -ETIMEDOUT, "the broker %s does not answer%s%s", reader->via, reader->last_loss[0] ? ": " : "",
                reader->last_loss);
    forget_fail(forgetting, &err);
}

static void on_lost(void *ctx, const char *why)
{
    struct forgetting *forgetting = ctx;
    struct reader *reader = forgetting->reader;
    if (reader_lost(reader, why))
        return;
    states_stop(&forgetting->states);
    forgetting->lost += forgetting->sending;
    forgetting->sending = forgetting->waiting = false;
    forgetting->next = forgetting->acknowledged = 0;
    forgetting->failed += !forgetting->was_up;
    unsigned places = reader->url.place_count ? (unsigned)reader->url.place_count : 1;
    if (forgetting->lost == TRIES || forgetting->failed == TRIES * places)
        forget_give_up(forgetting);
}

static void on_published(void *ctx, int id)
{
    struct forgetting *forgetting = ctx;
    if (forgetting->sending && ++forgetting->acknowledged == forgetting->count)
        loop_add_timer(forgetting->reader->loop, time_hasten((uint64_t)FORGET_BACK_SECONDS * NS_PER_SECOND), 0,
                       forget_give_up, forgetting);
    forget_send(forgetting);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct forgetting *forgetting = ctx;
    struct err err = {0};
    if (granted) {
        states_subscribed(&forgetting->states, id);
        return;
    }
    err_set(&err, -EACCES, "the broker %s does not let you read jobs of %s", forgetting->reader->via,
            forgetting->reader->owner);
    forget_fail(forgetting, &err);
}

static void forget_take_cleared(struct forgetting *forgetting, const char *topic)
{
    size_t cleared = 0;
    for (size_t i = 0; i < forgetting->count; i++) {
        forgetting->topics[i].cleared |= strcmp(forgetting->topics[i].topic, topic) == 0;
        cleared += forgetting->topics[i].cleared;
    }
    if (forgetting->count && cleared == forgetting->count)
        forget_say_ready(forgetting);
}

static void on_message(void *ctx, const char *name, struct span payload, bool retained)
{
    struct forgetting *forgetting = ctx;
    struct topic topic;
    if (!topic_parse(name, &topic) || strcmp(topic.owner, forgetting->reader->owner) != 0)
        return;
    if (forgetting->sending && payload.len == 0)
        forget_take_cleared(forgetting, name);
    else if (topic.kind == TOPIC_STORED && payload.len && !forgetting->sending)
        topic_add(forgetting, name);
    else
        states_message(&forgetting->states, &topic, payload, retained);
    if (forgetting->waiting && topic.kind == TOPIC_BEAT)
        on_all_came(forgetting);
}

static int forget(struct reader *reader, enum how how)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = on_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct forgetting forgetting = {.reader = reader, .how = how, .exact = true};
    struct err err = {0};
    snprintf(forgetting.job, sizeof forgetting.job, "%s", reader->url.job);
    forgetting.states =
        (struct states){.reader = reader, .beats_too = true, .all_came = on_all_came, .ctx = &forgetting};
    int code = reader_connect(reader, &events, &forgetting, &err);
    if (code == 0) {
        loop_add_timer(reader->loop, (uint64_t)FORGET_SECONDS * NS_PER_SECOND, 0, forget_give_up, &forgetting);
        code = loop_run(reader->loop);
    } else {
        reader_say_err("error", &err);
    }
    states_done(&forgetting.states);
    for (size_t i = 0; i < forgetting.count; i++)
        free(forgetting.topics[i].topic);
    free(forgetting.topics);
    return code < 0 ? 1 : reader->status;
}

int forget_run(struct reader *reader)
{
    return forget(reader, FORGET);
}

int forget_unreachable_run(struct reader *reader)
{
    return forget(reader, FORGET_UNREACHABLE);
}

int forget_nothing_run(struct reader *reader)
{
    return forget(reader, FORGET_NOTHING);
}
