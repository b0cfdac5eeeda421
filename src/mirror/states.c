/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror/states.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/record/mirror.h"
#include "shm/waits.h"

enum { JOBS_MOST = 100000 };
static const char MARKER_JOB[] = "-";

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "";
}

/* ---- collecting ---- */

static void all_came(void *ctx)
{
    struct states *states = ctx;
    if (!states->running)
        return;
    states_stop(states);
    states->all_came(states->ctx);
}

static void wait_for_quiet(struct states *states)
{
    loop_remove(states->quiet);
    states->quiet = loop_add_timer(states->reader->loop, time_hasten(MIRROR_STATES_NS), 0, all_came, states);
}

void states_start(struct states *states, const char *job)
{
    struct reader *reader = states->reader;
    states->running = true;
    reader_question(reader, states->marker);
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    int id = 0;
    if (states->beats_too)
        reader_subscribe(reader, job, "beat");
    reader_subscribe(reader, job, "state");
    topic_put_again(&pattern, reader->owner, MARKER_JOB, states->marker, "+");
    link_subscribe(reader->link, pattern.data, 1, &id);
    states->subscription = id;
}

void states_stop(struct states *states)
{
    states->running = false;
    loop_remove(states->quiet);
    states->quiet = NULL;
}

void states_subscribed(struct states *states, int id)
{
    if (!states->running || id != states->subscription)
        return;
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    topic_put_again(&topic, states->reader->owner, MARKER_JOB, states->marker, "end");
    reader_publish_json(states->reader, topic.data, json_object());
    wait_for_quiet(states);
}

static struct state *job_of(struct states *states, const char *id)
{
    struct state *job;
    HASH_FIND_STR(states->jobs, id, job);
    if (job || HASH_COUNT(states->jobs) >= JOBS_MOST)
        return job;
    job = calloc(1, sizeof *job);
    if (job && !(job->job = strdup(id))) {
        free(job);
        return NULL;
    }
    if (job)
        HASH_ADD_KEYPTR(hh, states->jobs, job->job, strlen(job->job), job);
    return job;
}

static void keep(json_t **slot, json_t *json)
{
    json_decref(*slot);
    *slot = json;
}

bool states_message(struct states *states, const struct topic *topic, struct span payload, bool retained)
{
    if (topic->kind == TOPIC_AGAIN && strcmp(topic->rest, states->marker) == 0) {
        all_came(states);
        return true;
    }
    if (topic->kind != TOPIC_STATE && topic->kind != TOPIC_BEAT)
        return false;
    if (states->running)
        wait_for_quiet(states);
    struct state *job = job_of(states, topic->job);
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    if (!job || !json_is_object(json)) {
        json_decref(json); /* an empty message: the broker is to forget the job */
        return true;
    }
    if (topic->kind == TOPIC_BEAT)
        job->beats = !retained && json_is_true(json_object_get(json, "connected"));
    keep(topic->kind == TOPIC_STATE ? &job->state : &job->beat, json);
    return true;
}

void states_done(struct states *states)
{
    states_stop(states);
    HASH_FREE_ALL(states->jobs, free(each->job), json_decref(each->state), json_decref(each->beat));
}

/* ---- which one is meant ---- */

/* By the job's clock. */
static double state_started_ns(const json_t *state)
{
    return json_number_value(json_object_get(json_object_get(state, "info"), "started_ns"));
}

static const struct state *newer(const struct state *a, const struct state *b)
{
    if (!a || state_started_ns(a->state) < state_started_ns(b->state))
        return b;
    return state_started_ns(a->state) > state_started_ns(b->state) || strcmp(a->job, b->job) > 0 ? a : b;
}

const struct state *states_find(const struct states *states, const char *word, struct err *err)
{
    const struct state *named = NULL, *last = NULL, *prefixed = NULL, *other = NULL;
    for (const struct state *job = states->jobs; job; job = job->hh.next) {
        const char *name = text_of(json_object_get(job->state, "info"), "name");
        if (!job->state)
            continue;
        if (strcmp(job->job, word) == 0)
            return job;
        last = newer(last, job);
        if (strcmp(name, word) == 0)
            named = newer(named, job);
        if (strncmp(job->job, word, strlen(word)) == 0) {
            other = prefixed;
            prefixed = job;
        }
    }
    if (strcmp(word, "@last") == 0 && last)
        return last;
    if (named || (prefixed && !other))
        return named ? named : prefixed;
    if (prefixed)
        err_set(err, -ENOTUNIQ, "several jobs of %s start with '%s', for instance %s and %s: give more of the id",
                states->reader->owner, word, other->job, prefixed->job);
    else
        err_set(err, -ENOENT, "%s has no job '%s' at %s: `scry ps '%s'` lists the jobs there", states->reader->owner,
                word, states->reader->via, states->reader->via);
    return NULL;
}

bool states_node_restarted(const struct states *states, const struct state *job)
{
    const char *node = text_of(job->state, "node"), *boot = text_of(job->state, "boot_id");
    for (const struct state *each = states->jobs; each && *node && *boot; each = each->hh.next) {
        const char *its = text_of(each->state, "boot_id");
        if (strcmp(text_of(each->state, "node"), node) == 0 && *its && strcmp(its, boot) != 0 &&
            state_started_ns(each->state) > state_started_ns(job->state))
            return true;
    }
    return false;
}

/* ---- what a mirror gets of it ---- */

const json_t *state_info(const json_t *state, const char *job)
{
    const json_t *info = json_object_get(state, "info");
    return strcmp(text_of(info, "format"), "scry-job") == 0 && strcmp(text_of(info, "id"), job) == 0 ? info : NULL;
}

static void copy(json_t *to, const char *key, const json_t *from, bool is_right)
{
    if (is_right)
        json_object_set(to, key, json_object_get(from, key));
}

void state_put_remote(json_t *remote, const struct reader *reader, const json_t *state, const json_t *beat,
                      bool retained)
{
    const json_t *address = json_object_get(state, "address");
    json_object_set_new(remote, "via", json_string(reader->via));
    json_object_set_new(remote, "owner", json_string(reader->owner));
    copy(remote, "dir", state, json_is_string(json_object_get(state, "dir")));
    copy(remote, "state", state, json_is_string(json_object_get(state, "state")));
    copy(remote, "watched", state, json_is_boolean(json_object_get(state, "watched")));
    copy(remote, "address", state, json_is_string(address) || json_is_null(address));
    copy(remote, "lease_seconds", beat, json_is_number(json_object_get(beat, "lease_seconds")));
    copy(remote, "connected", beat, json_is_boolean(json_object_get(beat, "connected")));
    if (!json_is_number(json_object_get(beat, "age")))
        return;
    double now = (double)clock_wall_ns() / NS_PER_SECOND, sent = json_number_value(json_object_get(beat, "time")),
           lease = json_number_value(json_object_get(beat, "lease_seconds"));
    copy(remote, "age", beat, true);
    json_object_set_new(remote, "age_heard", json_real(retained && now - sent > 0 && now - sent < lease ? sent : now));
}

int state_put_info(struct mirror *mirror, const char *path, const json_t *state, const char *job)
{
    const json_t *info = state_info(state, job);
    char file[PATH_MAX];
    size_t len = 0;
    _cleanup_(freep) char *text = info ? json_dumps(info, JSON_INDENT(1)) : NULL;
    _cleanup_(freep) char *old = NULL;
    if (!text)
        return info ? -ENOMEM : 0;
    if ((size_t)snprintf(file, sizeof file, "%s/job.json", path) < sizeof file && file_read(file, &old, &len) == 0 &&
        len == strlen(text) && memcmp(old, text, len) == 0)
        return 0;
    return mirror_file(mirror, "job.json", span_str(text));
}
