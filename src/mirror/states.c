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
#include "jobdir/text/fields.h"
#include "shm/waits.h"

enum {
    JOBS_MOST = 100000,
    ASKED_AT_ONCE = 500, /* states: less than the shortest queue of a broker */
    SILENT_MOST = 2,
};
static const char MARKER_JOB[] = "-";

/* ---- collecting ---- */

static void states_wait_for_quiet(struct states *states);

/* Markers have numbers: one that comes twice, or late, says nothing of what was asked for since. */
static void states_publish_marker(struct states *states)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    topic_put_again(&topic, states->reader->owner, MARKER_JOB, states->marker, "end");
    reader_publish_json(states->reader, topic.data, json_pack("{s:i}", "round", (int)++states->round));
    states_wait_for_quiet(states);
}

static bool states_is_marker_of_now(const struct states *states, struct span payload)
{
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL), *round = json_object_get(json, "round");
    bool is_now = json_is_integer(round) && json_integer_value(round) == (json_int_t)states->round;
    json_decref(json);
    return is_now;
}

/* Those that were not asked in this pass. How many were now. */
static size_t states_ask(struct states *states)
{
    size_t asked = 0;
    for (struct state *job = states->jobs; job && asked < ASKED_AT_ONCE; job = job->hh.next) {
        if (!job->state == !job->beat || job->asked == states->pass)
            continue;
        job->asked = states->pass;
        asked += reader_subscribe(states->reader, job->job, job->state ? "beat" : "state", 1) >= 0;
    }
    return asked;
}

/* Asks for those that are missing, as long as that is of use. false: there are none, or it is not. The first ones may be
 * such that nobody has published: all have their turn. Where no marker comes back, and each turn takes long, only as long
 * as something came of the last one. */
static bool states_ask_for_lacking(struct states *states, bool marked)
{
    size_t lacking = 0, beatless = 0;
    for (const struct state *job = states->jobs; states->beats_too && job; job = job->hh.next) {
        lacking += !job->state && job->beat;
        beatless += job->state && !job->beat;
    }
    size_t all = lacking + beatless;
    bool of_use = all && (marked || !states->asked_for || all < states->asked_for);
    size_t asked = of_use ? states_ask(states) : 0;
    if (!states->pass_began) {
        states->pass_began = all;
    } else if (of_use && !asked && all < states->pass_began) {
        states->pass++;
        states->pass_began = all;
        asked = states_ask(states);
    }
    states->unsure |= beatless > 0; /* publishers begin with a beat: some were dropped, perhaps also of other jobs */
    states->lacking = lacking;
    states->asked_for = all;
    if (asked)
        states_publish_marker(states);
    return asked > 0;
}

static void states_settle(struct states *states, bool marked)
{
    if (!states->running || states_ask_for_lacking(states, marked))
        return;
    if (!marked && ++states->silent < SILENT_MOST) { /* it may only be slow */
        states_publish_marker(states);
        return;
    }
    states->unsure |= states->lacking || HASH_COUNT(states->jobs) >= JOBS_MOST;
    states_stop(states);
    states->all_came(states->ctx);
}

static void on_quiet(void *ctx)
{
    states_settle(ctx, false);
}

static void states_wait_for_quiet(struct states *states)
{
    loop_remove(states->quiet);
    states->quiet = loop_add_timer(states->reader->loop, time_hasten(MIRROR_STATES_NS), 0, on_quiet, states);
}

void states_start(struct states *states, const char *job)
{
    struct reader *reader = states->reader;
    states->running = true;
    states->silent = 0;
    states->lacking = states->asked_for = states->pass_began = 0;
    states->pass++;
    HASH_FREE_ALL(states->nodes);
    reader_question(reader, states->marker);
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    int id = 0;
    if (states->beats_too)
        reader_subscribe(reader, job, "beat", 0);
    reader_subscribe(reader, job, "state", 1);
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
    if (states->running && id == states->subscription)
        states_publish_marker(states);
}

static struct state *states_job(struct states *states, const char *id)
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

static void json_keep(json_t **slot, json_t *json)
{
    json_decref(*slot);
    *slot = json;
}

int state_progress(const json_t *state)
{
    if (json_is_true(json_object_get(state, "complete")))
        return 2;
    return json_is_object(json_object_get(json_object_get(state, "info"), "result"));
}

/* Whether a state may take the place of another: what the job has signed is there until it has signed a later one. */
static bool state_may_follow(const json_t *before, enum signed_by before_by, const json_t *state, enum signed_by by)
{
    return !before || before_by != SIGNED_JOB || (by == SIGNED_JOB && state_progress(state) >= state_progress(before));
}

void state_put_signed(json_t *remote, enum signed_by by)
{
    if (by == SIGNED_UNKNOWN)
        json_object_del(remote, "signed");
    else
        json_object_set_new(remote, "signed", json_boolean(by == SIGNED_JOB));
}

/* A state, or a beat. Of a job that signs, only what it has signed. */
static void state_take(struct states *states, struct state *job, bool is_state, json_t *json_take, enum signed_by by,
                       bool retained)
{
    bool forged = is_state ? !state_may_follow(job->state, job->state_by, json_take, by)
                           : by != SIGNED_JOB && job->state_by == SIGNED_JOB;
    if (forged) {
        states->forged += by != SIGNED_JOB;
        json_decref(json_take);
        return;
    }
    if (is_state && by == SIGNED_JOB && job->beat && job->beat_by != SIGNED_JOB) {
        json_keep(&job->beat, NULL);
        job->beats = false;
        states->forged++;
    }
    if (!is_state)
        job->beats = !retained && json_is_true(json_object_get(json_take, "connected"));
    json_keep(is_state ? &job->state : &job->beat, json_take);
    *(is_state ? &job->state_by : &job->beat_by) = by;
}

bool states_message(struct states *states, const struct topic *topic, struct span payload, bool retained)
{
    if (topic->kind == TOPIC_AGAIN && strcmp(topic->rest, states->marker) == 0) {
        if (states_is_marker_of_now(states, payload))
            states_settle(states, true);
        return true;
    }
    if (topic->kind != TOPIC_STATE && topic->kind != TOPIC_BEAT)
        return false;
    if (states->running)
        states_wait_for_quiet(states);
    struct state *job = states_job(states, topic->job);
    enum signed_by by = reader_check(states->reader, topic, payload, &payload);
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    if (!job || !json_is_object(json)) {
        json_decref(json); /* an empty message: the broker is to forget the job */
        return true;
    }
    state_take(states, job, topic->kind == TOPIC_STATE, json, by, retained);
    return true;
}

void states_done(struct states *states)
{
    states_stop(states);
    HASH_FREE_ALL(states->nodes);
    HASH_FREE_ALL(states->jobs, free(each->job), json_decref(each->state), json_decref(each->beat));
}

/* ---- which one is meant ---- */

/* By the job's clock. */
static double state_started_ns(const json_t *state)
{
    return json_number_value(json_object_get(json_object_get(state, "info"), "started_ns"));
}

static const struct state *state_newer(const struct state *a, const struct state *b)
{
    if (!a || state_started_ns(a->state) < state_started_ns(b->state))
        return b;
    return state_started_ns(a->state) > state_started_ns(b->state) || strcmp(a->job, b->job) > 0 ? a : b;
}

const struct state *states_find(const struct states *states, const char *word, struct err *err)
{
    const struct state *named = NULL, *last = NULL, *prefixed = NULL, *other = NULL;
    for (const struct state *job = states->jobs; job; job = job->hh.next) {
        const char *name = member_text(json_object_get(job->state, "info"), "name");
        if (!job->state)
            continue;
        if (strcmp(job->job, word) == 0)
            return job;
        last = state_newer(last, job);
        if (strcmp(name, word) == 0)
            named = state_newer(named, job);
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

static bool same_boot(const struct state *a, const struct state *b)
{
    return strcmp(member_text(a->state, "boot_id"), member_text(b->state, "boot_id")) == 0;
}

static void states_add_to_node(struct states *states, const struct state *job)
{
    const char *name = member_text(job->state, "node");
    size_t len = strlen(name);
    struct node *node;
    if (!len || !*member_text(job->state, "boot_id"))
        return;
    HASH_FIND(hh, states->nodes, name, len, node);
    if (!node && (node = calloc(1, sizeof *node + len + 1))) {
        memcpy(node->name, name, len);
        HASH_ADD_KEYPTR(hh, states->nodes, node->name, len, node);
    }
    if (!node)
        return;
    if (!node->newest || state_newer(node->newest, job) == job) {
        if (node->newest && !same_boot(node->newest, job))
            node->other = node->newest;
        node->newest = job;
    } else if (!same_boot(node->newest, job)) {
        node->other = state_newer(node->other, job);
    }
}

bool states_node_restarted(struct states *states, const struct state *job)
{
    const char *name = member_text(job->state, "node");
    struct node *node;
    for (const struct state *each = states->nodes ? NULL : states->jobs; each; each = each->hh.next)
        states_add_to_node(states, each);
    HASH_FIND(hh, states->nodes, name, strlen(name), node);
    const struct state *later = node && same_boot(node->newest, job) ? node->other : node ? node->newest : NULL;
    return later && *member_text(job->state, "boot_id") &&
           state_started_ns(later->state) > state_started_ns(job->state);
}

/* ---- what a mirror gets of it ---- */

const json_t *state_info(const json_t *state, const char *job)
{
    const json_t *info = json_object_get(state, "info");
    return strcmp(member_text(info, "format"), "scry-job") == 0 && strcmp(member_text(info, "id"), job) == 0 ? info
                                                                                                             : NULL;
}

static void remote_copy(json_t *to, const char *key, const json_t *from, bool is_right)
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
    remote_copy(remote, "dir", state, json_is_string(json_object_get(state, "dir")));
    remote_copy(remote, "state", state, json_is_string(json_object_get(state, "state")));
    remote_copy(remote, "watched", state, json_is_boolean(json_object_get(state, "watched")));
    remote_copy(remote, "address", state, json_is_string(address) || json_is_null(address));
    remote_copy(remote, "lease_seconds", beat, json_is_number(json_object_get(beat, "lease_seconds")));
    remote_copy(remote, "connected", beat, json_is_boolean(json_object_get(beat, "connected")));
    if (!json_is_number(json_object_get(beat, "age")))
        return;
    double now = (double)clock_wall_ns() / NS_PER_SECOND, sent = json_number_value(json_object_get(beat, "time")),
           lease = json_number_value(json_object_get(beat, "lease_seconds"));
    remote_copy(remote, "age", beat, true);
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
