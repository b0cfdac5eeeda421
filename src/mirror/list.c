/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the jobs of an owner: each becomes a mirror that has job.json and remote.json, and its path is told. Which of them
 * run is known by the broker, who knows which publishers are connected. It may be wrong after it was itself away, and the
 * clocks of the nodes may be: a publisher whose last beat seems old is believed when the next one comes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "mirror/states.h"
#include "shm/waits.h"

enum {
    LEASE_MOST = 20,
    PUT_AT_ONCE = 100, /* jobs, before it is looked whether somebody still waits */
};

struct listing {
    struct reader *reader;
    struct states states;
    bool all_came, newest; /* newest: of those that are over only so many */
    uint64_t came_ns;
    const struct state **list;         /* when all came, the newest first */
    size_t count, done, over, strange; /* strange: what says that it is a job, and cannot be read */
    size_t unsigned_jobs;              /* of those that are told */
    struct loop_source *turn;
};

static double number_of(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static bool job_is_over(const struct state *job)
{
    return !job->state || json_is_object(json_object_get(json_object_get(job->state, "info"), "result"));
}

/* Whether its publisher is there, as far as is known by now. */
static bool job_is_connected(const struct state *job)
{
    double age = (double)clock_wall_ns() / NS_PER_SECOND - number_of(job->beat, "time");
    double lease = number_of(job->beat, "lease_seconds");
    return json_is_true(json_object_get(job->beat, "connected")) &&
           (job->beats || (age < lease + 1 && age > -lease - 1));
}

static void job_put_remote(struct listing *listing, const struct state *job, json_t *remote)
{
    state_put_remote(remote, listing->reader, job->state, job->beat, !job->beats);
    state_put_signed(remote, job->state_by);
    listing->unsigned_jobs += job->state_by == SIGNED_NOT;
    json_object_set_new(remote, "connected", json_boolean(job_is_connected(job)));
    if (job_is_connected(job) && !job_is_over(job))
        json_object_set_new(remote, "heard", json_real((double)clock_wall_ns() / NS_PER_SECOND));
    if (!job_is_over(job) && !job_is_connected(job) && states_node_restarted(&listing->states, job))
        json_object_set_new(remote, "state", json_string("lost"));
    if (job->beats)
        json_object_set_new(remote, "clock",
                            json_real(number_of(job->beat, "time") - (double)clock_wall_ns() / NS_PER_SECOND));
}

/* 0, or why its mirror cannot be written. One that another process follows is as new as this. */
static int job_put(struct listing *listing, const struct state *job, struct err *err)
{
    char path[PATH_MAX];
    struct mirror *mirror = NULL;
    int code = mirror_path(listing->reader->via, listing->reader->owner, job->job, path, sizeof path, err);
    if (code == 0)
        code = mirror_open(&mirror, path, err);
    if (code == 0) {
        json_t *old = mirror_read_remote(path), *remote = old ? json_deep_copy(old) : json_object();
        job_put_remote(listing, job, remote);
        code = state_put_info(mirror, path, job->state, job->job);
        if (code == 0 && (!old || !json_equal(old, remote)))
            code = mirror_remote(mirror, remote);
        json_decref(old);
        json_decref(remote);
        if (code < 0)
            err_errno(err, code, "cannot write the mirror %s", path);
        mirror_close(mirror);
    }
    if (code == 0 || code == -EWOULDBLOCK)
        reader_say("job", path);
    return code == -EWOULDBLOCK ? 0 : code;
}

static int by_start(const void *a, const void *b)
{
    return strcmp((*(const struct state *const *)b)->job,
                  (*(const struct state *const *)a)->job); /* ids begin with it */
}

static void list_put_end(struct listing *listing)
{
    char text[200];
    if (listing->states.unsure) {
        snprintf(text, sizeof text,
                 listing->states.lacking
                     ? "the list is not complete: the broker has not sent the state of %zu more jobs"
                     : "the list may not be complete: the broker does not say that it has sent all",
                 listing->states.lacking);
        reader_say("note", text);
    }
    if (listing->strange) {
        snprintf(text, sizeof text, "%zu jobs there cannot be read: they are of another version of scry, or no jobs",
                 listing->strange);
        reader_say("note", text);
    }
    if (listing->unsigned_jobs) {
        snprintf(text, sizeof text, "%zu of them unsigned: whoever can write to the broker may have said so",
                 listing->unsigned_jobs);
        reader_say("note", text);
    }
    if (listing->states.forged) {
        snprintf(text, sizeof text, "%zu messages in the names of jobs were not signed by these jobs, and are left out",
                 listing->states.forged);
        reader_say("note", text);
    }
    if (listing->newest && listing->over > LIST_NEWEST) {
        snprintf(text, sizeof text, "%zu", listing->over - LIST_NEWEST);
        reader_say("more", text);
    }
    reader_say("ready", "");
    loop_stop(listing->reader->loop);
}

static void list_put_some(void *ctx)
{
    struct listing *listing = ctx;
    struct err err = {0};
    for (unsigned put = 0; listing->done < listing->count; listing->done++) {
        const struct state *job = listing->list[listing->done];
        bool over = job_is_over(job);
        if (put == PUT_AT_ONCE) {
            reader_progress(listing->done, listing->count);
            loop_set_timer(listing->turn, 1, 0);
            return;
        }
        if (over && listing->over++ >= LIST_NEWEST && listing->newest)
            continue;
        put++;
        if (job_put(listing, job, &err) < 0) {
            reader_fail(listing->reader, &err);
            return;
        }
    }
    list_put_end(listing);
}

static void list_put_all(struct listing *listing)
{
    if (listing->list)
        return;
    listing->list = calloc(HASH_COUNT(listing->states.jobs) + 1, sizeof *listing->list);
    for (const struct state *job = listing->states.jobs; job && listing->list; job = job->hh.next)
        if (job->state &&
            json_integer_value(json_object_get(state_info(job->state, job->job), "version")) == JOB_VERSION)
            listing->list[listing->count++] = job;
        else
            listing->strange += job->state != NULL;
    listing->turn = loop_add_timer(listing->reader->loop, 1, 0, list_put_some, listing);
    if (!listing->list || !listing->turn) {
        reader_fail(listing->reader, &(struct err){-ENOMEM, "out of memory"});
        return;
    }
    qsort(listing->list, listing->count, sizeof *listing->list, by_start);
}

/* Those that say that they run must have said so now, or have been given the time to. */
static void on_look(void *ctx)
{
    struct listing *listing = ctx;
    double waited = (double)(clock_now_ns() - listing->came_ns) / NS_PER_SECOND, most = 0;
    if (!listing->all_came || listing->list)
        return;
    for (const struct state *job = listing->states.jobs; job; job = job->hh.next) {
        double lease = number_of(job->beat, "lease_seconds");
        if (!job_is_over(job) && json_is_true(json_object_get(job->beat, "connected")) && !job_is_connected(job) &&
            lease > most)
            most = lease;
    }
    most = most < LEASE_MOST ? most : LEASE_MOST;
    if (waited * 1e3 >= (double)time_hasten((uint64_t)(most * 1e3)))
        list_put_all(listing);
    else
        reader_progress((uint64_t)(waited * 1000), (uint64_t)(most * 1000));
}

static void on_all_came(void *ctx)
{
    struct listing *listing = ctx;
    listing->all_came = true;
    listing->came_ns = clock_now_ns();
    on_look(listing);
}

static void on_connected(void *ctx, bool session_present)
{
    struct listing *listing = ctx;
    if (!listing->all_came)
        states_start(&listing->states, NULL);
}

static void on_lost(void *ctx, const char *why)
{
    struct listing *listing = ctx;
    if (reader_lost(listing->reader, why))
        return;
    states_stop(&listing->states);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct listing *listing = ctx;
    struct err err = {0};
    if (granted) {
        states_subscribed(&listing->states, id);
    } else {
        err_set(&err, -EACCES, "the broker %s does not let you read jobs of %s", listing->reader->via,
                listing->reader->owner);
        reader_fail(listing->reader, &err);
    }
}

static void on_message(void *ctx, const char *name, struct span payload, bool retained)
{
    struct listing *listing = ctx;
    struct topic topic;
    if (topic_parse(name, &topic) && strcmp(topic.owner, listing->reader->owner) == 0)
        states_message(&listing->states, &topic, payload, retained);
}

static void on_timeout(void *ctx)
{
    struct listing *listing = ctx;
    struct reader *reader = listing->reader;
    struct err err = {0};
    if (listing->all_came)
        return;
    if (listing->states.jobs) { /* a slow way to the broker: what came by now is better than nothing */
        listing->states.unsure = true;
        states_stop(&listing->states);
        on_all_came(listing);
        return;
    }
    err_set(&err, -ETIMEDOUT, "the broker %s does not answer%s%s", reader->via, reader->last_loss[0] ? ": " : "",
            reader->last_loss);
    reader_fail(reader, &err);
}

static int list_some(struct reader *reader, bool newest)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = reader_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct listing listing = {.reader = reader, .newest = newest};
    struct err err = {0};
    reader_read_key(reader);
    listing.states = (struct states){.reader = reader, .beats_too = true, .all_came = on_all_came, .ctx = &listing};
    if (reader_connect(reader, &events, &listing, &err) < 0) {
        reader_say_err("error", &err);
        return 1;
    }
    loop_add_timer(reader->loop, MIRROR_LIST_MS * UINT64_C(1000000), MIRROR_LIST_MS * UINT64_C(1000000), on_look,
                   &listing);
    loop_add_timer(reader->loop, time_hasten((uint64_t)MIRROR_LIST_SECONDS * NS_PER_SECOND), 0, on_timeout, &listing);
    int code = loop_run(reader->loop);
    free(listing.list);
    states_done(&listing.states);
    return code < 0 ? 1 : reader->status;
}

int list_run(struct reader *reader)
{
    return list_some(reader, false);
}

int list_newest_run(struct reader *reader)
{
    return list_some(reader, true);
}
