/* SPDX-License-Identifier: Apache-2.0 */
#include "store/follow.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "broker/link.h"
#include "broker/local.h"
#include "broker/topics.h"
#include "keys/signed.h"
#include "jobdir/record/output.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct followed {
    struct follower *follower;
    struct stored_job *job;
    struct followed *next; /* of all */
    struct parts parts;
    bool seen_state, over, connected, completing;
    bool is_signed;          /* the job signs what it says: nothing else is taken */
    enum signed_by by;       /* of the last message */
    uint64_t lease_until_ns; /* connected: until then, if no other beat comes; 0: no beat came */
    bool dropped;      /* something was, since it was last asked for: an answer does not say that the rest is lost */
    bool files_wanted; /* all files are to be asked for */
    bool told;         /* a person was told that it is stored */
    bool changed;      /* `stored` is to be said again */
    bool said_complete;
    int64_t said_seq;
    uint64_t said_ns;
    /* the question that is not answered yet; "": none */
    char reader[48];
    bool asked_files, answered; /* its end came */
    bool doubt;                 /* whether it ever reached the publisher */
    int64_t asked_from, asked_to, answered_to;
    int64_t vain_from; /* of the last answer that did not bring what it began with, and how often */
    unsigned vain;
    uint64_t asked_ns; /* of the question, or the last answer to it */
    int64_t missing;   /* the first number that was missing when it was last looked, and since when */
    uint64_t missing_ns, next_ask_ns;
    unsigned failures; /* questions that nobody answered */
};

struct follower {
    struct store *store;
    const struct follow_options *options;
    struct loop *loop;
    struct link *link;
    struct signed_readers_key *key; /* to see what a job has signed; NULL: nobody can tell */
    struct loop_source *flush_timer;
    struct followed *list;
    char id[32], where[512], lost[256], trouble[ERR_TEXT_SIZE];
    bool flush_armed, refused;
    bool follows;                /* all subscriptions were granted, and that was said */
    unsigned asked_for, granted; /* subscriptions of this connection */
    unsigned asking;
    uint64_t heard_ns, keep_ns, dropped;
    uint64_t again_ns;    /* until what was not written is written again */
    unsigned vain;        /* flushes in a row that failed */
    uint64_t parts_bytes; /* of files of all jobs that are not whole */
    struct notifier notifier;
    uint64_t messages;
    double started, flushed; /* wall clock */
    int status;
};

static void follower_flush_soon(struct follower *follower);

/* ---- jobs: what is missing of each, and what is said of it ---- */

static const uint64_t MS = 1000000;
static const double LEASE_MOST = 3600;
enum {
    ASKS_AT_ONCE = 8,
    FAILURES = 7,
    VAIN_MOST = 3,
    NEAR = 1000, /* holes so near to each other are asked for together */
};

/* Makes it, if it is new; NULL: out of memory. */
static struct followed *followed_find(struct follower *follower, const char *owner, const char *id)
{
    struct stored_job *job = store_job(follower->store, owner, id);
    if (!job || job->user)
        return job ? job->user : NULL;
    struct followed *followed = calloc(1, sizeof *followed);
    if (!followed)
        return NULL;
    store_look(follower->store, job, NULL); /* what it has already: without, all of it is asked for and known */
    *followed =
        (struct followed){.follower = follower, .job = job, .next = follower->list, .missing = -1, .said_seq = -1};
    followed->parts.shared_bytes = &follower->parts_bytes;
    followed->files_wanted = !job->row.complete;
    followed->told = job->row.complete;
    followed->is_signed = job->row.is_signed == ROW_SIGNED || job->row.is_signed == ROW_SIGNED_PARTLY;
    followed->by = followed->is_signed ? SIGNED_JOB : SIGNED_UNKNOWN;
    job->user = follower->list = followed;
    return followed;
}

static void followed_done(struct follower *follower)
{
    for (struct followed *next, *each = follower->list; each; each = next) {
        next = each->next;
        parts_done(&each->parts);
        each->job->user = NULL;
        free(each);
    }
    follower->list = NULL;
}

/* Is this the name of its question? */
static bool followed_asked(struct followed *followed, const char *reader)
{
    bool ours = *followed->reader && strcmp(followed->reader, reader) == 0;
    if (ours) {
        followed->asked_ns = clock_now_ns();
        followed->doubt = false;
    }
    return ours;
}

/* The publisher said its state: it does so when it connects, and may not have heard what was asked before. */
static void followed_spoke(struct followed *followed)
{
    followed->doubt = *followed->reader;
    followed->next_ask_ns = 0;
}

/* ---- questions ---- */

static void followed_publish(struct follower *follower, struct followed *followed, const char *name, const char *rest,
                             bool retain, json_t *json, bool *ret_sent)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    const char *owner = followed->job->name, *id = owner + strlen(owner) + 1;
    json_decref(json);
    topic_put(&topic, owner, id, name, rest);
    *ret_sent = text && !topic.failed && link_publish(follower->link, topic.data, span_str(text), 1, retain, NULL) == 0;
}

static void question_subscribe(struct follower *follower, struct followed *followed, bool on)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    const char *owner = followed->job->name, *id = owner + strlen(owner) + 1;
    topic_put_again(&topic, owner, id, followed->reader, "+");
    if (topic.failed)
        return;
    if (on)
        link_subscribe(follower->link, topic.data, 1, NULL);
    else
        link_unsubscribe(follower->link, topic.data);
}

static void question_end(struct follower *follower, struct followed *followed)
{
    if (!*followed->reader)
        return;
    question_subscribe(follower, followed, false);
    *followed->reader = '\0';
    follower->asking--;
}

/* A new connection: what was asked before is not answered any more. */
static void followed_connected(struct follower *follower)
{
    for (struct followed *each = follower->list; each; each = each->next) {
        if (*each->reader) {
            *each->reader = '\0';
            follower->asking--;
        }
        each->next_ask_ns = 0;
        each->changed = true;
    }
}

static void question_ask(struct follower *follower, struct followed *followed, int64_t from, int64_t to,
                         uint64_t now_ns)
{
    bool sent;
    topic_name_question(follower->id, followed->reader, sizeof followed->reader);
    follower->asking++;
    question_subscribe(follower, followed, true);
    json_t *question = json_pack("{s:s, s:I, s:I, s:b}", "reader", followed->reader, "from", (json_int_t)from, "to",
                                 (json_int_t)to, "files", (int)followed->files_wanted);
    followed->asked_files = followed->files_wanted;
    followed->asked_from = from;
    followed->asked_to = to;
    followed->asked_ns = now_ns;
    followed->answered = followed->doubt = false;
    followed->dropped = false;
    followed_publish(follower, followed, "ask", NULL, false, question, &sent);
    if (!sent)
        question_end(follower, followed);
}

/* `again/READER/end` came. */
static void followed_answered(struct follower *follower, struct followed *followed, const json_t *end)
{
    int64_t from = json_integer_value(json_object_get(end, "from")),
            to = json_integer_value(json_object_get(end, "to"));
    if (!topic_is_end_of(end, followed->reader, (uint64_t)followed->asked_from, followed->is_signed))
        return;
    followed->answered = true;
    followed->answered_to = from != followed->asked_from || to < from ? followed->asked_from
                            : to > followed->asked_to                 ? followed->asked_to
                                                                      : to;
}

/* Some brokers change the order, so what was answered may still come behind the end of the answer. */
static bool answer_came(const struct follower *follower, const struct followed *followed, uint64_t now_ns)
{
    int64_t behind, to = followed->answered_to;
    if (now_ns - followed->asked_ns > time_hasten(STORE_GRACE_MS * MS))
        return true;
    return !followed->asked_files && !store_pending(follower->store) &&
           ranges_missing(&followed->job->ranges, followed->asked_from, to, &behind) >= to;
}

/* What lies in an answer and did not come, several times, is not on the job's disk either. */
static void answer_take(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    int64_t from = followed->asked_from, to = followed->answered_to, behind;
    bool vain = to > from && !followed->dropped && ranges_missing(&followed->job->ranges, from, to, &behind) == from;
    followed->vain = vain && from == followed->vain_from ? followed->vain + 1 : vain;
    followed->vain_from = from;
    if (vain && followed->vain >= VAIN_MOST)
        store_put_lost(follower->store, followed->job, from, to);
    if (followed->asked_files && !followed->dropped)
        followed->files_wanted = false;
    bool useful = to > from || followed->asked_from == followed->asked_to;
    followed->failures = useful ? 0 : followed->failures + 1;
    followed->next_ask_ns = useful ? 0 : now_ns + time_hasten(STORE_REST_MS * MS) * (1u << (followed->failures & 7));
    question_end(follower, followed);
}

/* The first hole, and the holes behind it that are near. */
static bool followed_find_missing(const struct followed *followed, int64_t *ret_from, int64_t *ret_to)
{
    int64_t end = followed->job->row.known_seq + 1, behind, next;
    *ret_from = ranges_missing(&followed->job->ranges, 0, end, &behind);
    *ret_to = behind;
    if (*ret_from >= end)
        return false;
    while ((next = ranges_missing(&followed->job->ranges, *ret_to, end, &behind)) < end && next < *ret_to + NEAR)
        *ret_to = behind;
    return true;
}

/* It has a connection. A beat of the broker's memory may be of a publisher that is long gone, so it counts for its lease only. */
static bool publisher_answers(const struct followed *followed, uint64_t now_ns)
{
    return followed->connected && now_ns < followed->lease_until_ns;
}

static void followed_look(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    int64_t from, to;
    bool missing = followed_find_missing(followed, &from, &to);
    if (*followed->reader && followed->answered) {
        if (answer_came(follower, followed, now_ns))
            answer_take(follower, followed, now_ns);
    } else if (*followed->reader &&
               now_ns - followed->asked_ns > time_hasten((followed->doubt ? STORE_DOUBT_MS : STORE_ANSWER_MS) * MS)) {
        followed->failures++;
        followed->next_ask_ns =
            followed->doubt ? 0 : now_ns + time_hasten(STORE_REST_MS * MS) * (1u << (followed->failures & 7));
        question_end(follower, followed);
    }
    if (!missing)
        from = to = followed->job->row.known_seq + 1;
    if (from != followed->missing) {
        followed->missing = from;
        followed->missing_ns = now_ns;
    }
    bool waits = missing && !followed->over && followed->job->row.last_seq >= 0 &&
                 now_ns - followed->missing_ns < time_hasten(STORE_TIMEOUT_MS * MS);
    if (*followed->reader || (!missing && !followed->files_wanted) || waits || !publisher_answers(followed, now_ns) ||
        now_ns < followed->next_ask_ns || follower->asking >= ASKS_AT_ONCE || !link_is_up(follower->link))
        return;
    question_ask(follower, followed, from, to, now_ns);
}

/* ---- what is said ---- */

static void followed_say_stored(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    const struct job_row *row = &followed->job->row;
    bool sent;
    if (!followed->changed || !link_is_up(follower->link) ||
        (row->last_seq == followed->said_seq && (bool)row->complete == followed->said_complete) ||
        (!row->complete && now_ns - followed->said_ns < time_hasten(STORE_SAY_MS * MS)))
        return;
    json_t *json = json_pack("{s:I, s:b, s:f}", "last_seq", (json_int_t)row->last_seq, "complete", (int)row->complete,
                             "time", (double)clock_wall_ns() / NS_PER_SECOND);
    followed_publish(follower, followed, "stored", follower->id, true, json, &sent);
    if (!sent)
        return;
    followed->changed = false;
    followed->said_seq = row->last_seq;
    followed->said_complete = row->complete;
    followed->said_ns = now_ns;
}

static void followed_tell(struct follower *follower, struct followed *followed, const char *what)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    if (followed->told)
        return;
    followed->told = true;
    text_show(&shown, followed->job->owner);
    buf_putc(&shown, '/');
    text_show(&shown, followed->job->id);
    if (!follower->options->quiet)
        printf("%s  %s, %lld records\n", shown.data ? shown.data : "", what, (long long)followed->job->row.records);
    fflush(stdout);
}

/* It has ended, or its publisher is gone, and nobody answers any more. */
static bool publisher_is_gone(const struct followed *followed, uint64_t now_ns)
{
    if (!followed->lease_until_ns && now_ns - followed->follower->heard_ns < time_hasten(STORE_QUIET_MS * MS))
        return false; /* its beat may be on its way */
    return !publisher_answers(followed, now_ns) || followed->failures >= FAILURES;
}

static bool followed_settle(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    struct stored_job *job = followed->job;
    int64_t from, to;
    if (job->row.complete) {
        followed_tell(follower, followed, "stored");
        return true;
    }
    bool whole = !followed_find_missing(followed, &from, &to) && !store_pending(follower->store);
    if (followed->over && whole && (!followed->files_wanted || publisher_is_gone(followed, now_ns)) &&
        !*followed->reader) {
        store_put_complete(follower->store, job);
        return false;
    }
    if (publisher_is_gone(followed, now_ns) && !*followed->reader && !store_pending(follower->store)) {
        if (follower->options->once) {
            followed_tell(follower, followed, "is not whole, and nobody publishes it any more");
            follower->status = 1;
        }
        return true;
    }
    return false;
}

/* Asks for what is missing, says what is stored. true: all are over and stored, or can never be. */
static bool followed_tick(struct follower *follower, uint64_t now_ns)
{
    bool all = true;
    for (struct followed *each = follower->list; each; each = each->next) {
        if (each->job->uncommitted) { /* the database fails: nothing is known for sure */
            all = false;
            continue;
        }
        if (!each->job->row.complete)
            followed_look(follower, each, now_ns);
        all &= followed_settle(follower, each, now_ns);
        followed_say_stored(follower, each, now_ns);
    }
    return all;
}

static double wall_seconds(void)
{
    return (double)clock_wall_ns() / NS_PER_SECOND;
}

/* ---- the database ---- */

static void on_changed(void *ctx, struct stored_job *job)
{
    struct followed *followed = job->user;
    if (followed)
        followed->changed = true;
}

static void follower_fail(struct follower *follower, const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    follower->status = 1;
    loop_stop(follower->loop);
}

static void follower_tell_trouble(struct follower *follower, const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    if (strcmp(follower->trouble, err->text) == 0)
        return;
    snprintf(follower->trouble, sizeof follower->trouble, "%s", err->text);
    text_show(&shown, err->text);
    log_error("%s; nothing is lost yet, and it is tried again", shown.data ? shown.data : "out of memory");
}

enum { OWNER_TRIES = 3 }; /* until another one has the record: it may be a connection of our own, just ended */

/* What is not written stays pending. false: it could not be. */
static bool follower_flush(struct follower *follower)
{
    struct err err = {0};
    int code = store_flush(follower->store, &err);
    if (code == -EBUSY && follower->vain >= OWNER_TRIES) { /* it has taken over while the database was away */
        follower_fail(follower, &err);
        return false;
    }
    if (code < 0) {
        follower_tell_trouble(follower, &err);
        follower->vain++;
        /* a server may have many clients; a disk has one */
        unsigned in_a_row = code == -ENOTCONN || follower->vain < AGAIN_MANY ? follower->vain : AGAIN_MANY - 1;
        follower->again_ns = time_hasten(waits_again_ns(in_a_row, STORE_AGAIN_MS * MS, STORE_AGAIN_MOST_MS * MS));
        return false;
    }
    if (*follower->trouble)
        log_warning("the record %s is written again", store_name(follower->store));
    *follower->trouble = '\0';
    follower->vain = 0;
    follower->flushed = wall_seconds();
    store_changed(follower->store, on_changed, follower);
    return true;
}

static void on_flush(void *ctx)
{
    struct follower *follower = ctx;
    if (follower_flush(follower))
        followed_tick(follower, clock_now_ns()); /* a job that is whole now is said to be, soon */
    follower->flush_armed = false;
    follower_flush_soon(follower);
}

/* Writes what is pending within a moment. */
static void follower_flush_soon(struct follower *follower)
{
    if (!store_pending(follower->store) || follower->flush_armed)
        return;
    follower->flush_armed = true;
    loop_set_timer(follower->flush_timer, *follower->trouble ? follower->again_ns : time_hasten(STORE_FLUSH_MS * MS),
                   0);
}

/* Of a store_put_...: makes room if there is none. false: put it in once more. */
static bool follower_took(struct follower *follower, struct followed *followed, int code, bool first)
{
    if (code == -EAGAIN && first && !*follower->trouble && follower_flush(follower))
        return false;
    if (code == -EAGAIN || code == -ENOMEM) {
        followed->dropped = true; /* so it is not lost, but missing: it is asked for again */
        follower->dropped++;
    }
    return true;
}

#define PUT(follower, followed, call) \
    do { \
        if (!follower_took(follower, followed, call, true)) \
            follower_took(follower, followed, call, false); \
    } while (0)

/* ---- messages ---- */

static void followed_take_lines(struct follower *follower, struct followed *followed, const char *stream,
                                struct span lines)
{
    for (struct span line; lines_next(&lines, &line);)
        PUT(follower, followed, store_put_record(follower->store, followed->job, stream, line));
}

static int followed_take_file(void *ctx, const char *path, int64_t version, struct span bytes)
{
    struct followed *followed = ctx;
    if (strncmp(path, OUTPUT_DIR "/", strlen(OUTPUT_DIR "/")) == 0)
        return 0; /* what a job prints is not for a record */
    PUT(followed->follower, followed, store_put_file(followed->follower->store, followed->job, path, version, bytes));
    return 0;
}

/* A publisher that is late is not gone yet. */
static uint64_t lease_of(const json_t *beat)
{
    double seconds = json_number_value(json_object_get(beat, "lease_seconds"));
    return (uint64_t)(2 * (seconds > 0 && seconds < LEASE_MOST ? seconds : LEASE_MOST) * NS_PER_SECOND);
}

static void followed_take_json(struct follower *follower, struct followed *followed, const struct topic *topic,
                               struct span payload, bool retained)
{
    double now = retained ? -wall_seconds() : wall_seconds(); /* what was kept may have been said long ago */
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    if (topic->kind == TOPIC_STATE && json_is_object(json)) {
        bool complete = json_is_true(json_object_get(json, "complete")), is_signed = followed->by == SIGNED_JOB;
        followed->over = complete || (is_signed && followed->over); /* an earlier one may be shown again */
        followed->seen_state = true;
        if (!retained)
            followed_spoke(followed);
        if (!is_signed)
            PUT(follower, followed, store_put_state(follower->store, followed->job, json, now));
        else if (complete || !followed->over)
            PUT(follower, followed, store_put_signed_state(follower->store, followed->job, json, now));
    } else if (topic->kind == TOPIC_BEAT && json_is_object(json)) {
        followed->connected = json_is_true(json_object_get(json, "connected"));
        followed->lease_until_ns = clock_now_ns() + lease_of(json);
        PUT(follower, followed, store_put_beat(follower->store, followed->job, json, now));
    } else if (topic->kind == TOPIC_AGAIN && json_is_object(json)) {
        followed_answered(follower, followed, json);
    }
    json_decref(json);
}

/* Whether what came may be taken: of a job that signs, only what it has signed. */
static bool followed_believes(struct follower *follower, struct followed *followed, enum signed_by by)
{
    if (followed->is_signed && by == SIGNED_NOT) {
        PUT(follower, followed, store_put_refused(follower->store, followed->job));
        return false;
    }
    if (by != followed->by)
        PUT(follower, followed, store_put_signed(follower->store, followed->job, by));
    followed->by = by;
    if (by == SIGNED_JOB && !followed->is_signed)
        followed->over = false; /* so said somebody else */
    followed->is_signed |= by == SIGNED_JOB;
    return true;
}

static void on_message(void *ctx, const char *name, struct span payload, bool retained)
{
    struct follower *follower = ctx;
    struct topic topic;
    follower->heard_ns = clock_now_ns();
    follower->messages++;
    if (!topic_parse(name, &topic) || !*topic.job ||
        (!follower->options->all && strcmp(topic.owner, follower->options->owner) != 0))
        return;
    struct followed *followed = followed_find(follower, topic.owner, topic.job);
    if (!followed)
        return;
    const char *kind = topic_signed(&topic);
    enum signed_by by =
        kind ? signed_check(follower->key, topic.owner, topic.job, kind, payload, &payload) : SIGNED_UNKNOWN;
    if (kind && !followed_believes(follower, followed, by))
        return;
    bool again = topic.kind == TOPIC_AGAIN, ours = again && followed_asked(followed, topic.rest);
    if (topic.kind == TOPIC_STREAM)
        followed_take_lines(follower, followed, topic.name, payload);
    else if (ours && strcmp(topic.name, "records") == 0)
        followed_take_lines(follower, followed, NULL, payload);
    else if (topic.kind == TOPIC_FILE || (ours && strcmp(topic.name, "file") == 0))
        parts_take(&followed->parts, payload, followed_take_file, followed);
    else if (topic.kind == TOPIC_STATE || topic.kind == TOPIC_BEAT || (ours && strcmp(topic.name, "end") == 0))
        followed_take_json(follower, followed, &topic, payload, retained);
    if (store_pending(follower->store) > STORE_PENDING_BYTES / 4 && !*follower->trouble)
        follower_flush(follower);
    follower_flush_soon(follower);
}

/* ---- the connection ---- */

static void follower_subscribe(struct follower *follower, const char *name)
{
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put(&pattern, follower->options->all ? NULL : follower->options->owner, NULL, name, NULL);
    if (!pattern.failed && link_subscribe(follower->link, pattern.data, 1, NULL) == 0)
        follower->asked_for++;
}

static void on_connected(void *ctx, bool session_present)
{
    struct follower *follower = ctx;
    (void)session_present; /* to subscribe again brings what is retained */
    follower->asked_for = follower->granted = 0;
    for (int stream = 0; stream < STREAM_COUNT; stream++)
        follower_subscribe(follower, record_stream_name((enum record_stream)stream));
    follower_subscribe(follower, "state");
    follower_subscribe(follower, "beat");
    follower_subscribe(follower, "file");
    follower->heard_ns = clock_now_ns();
    if (*follower->lost && !follower->options->quiet)
        log_warning("%s is reached again", follower->where);
    *follower->lost = '\0';
    followed_connected(follower);
}

static void on_lost(void *ctx, const char *why)
{
    struct follower *follower = ctx;
    bool in_vain = link_is_in_vain(follower->link) && !link_has_been_up(follower->link);
    bool ends = in_vain || (follower->options->once && !follower->asked_for);
    if (ends)
        log_error("%s: %s", follower->where, why);
    else if (strcmp(follower->lost, why) != 0)
        log_warning("%s: %s; it is tried again", follower->where, why);
    snprintf(follower->lost, sizeof follower->lost, "%s", why);
    if (ends) {
        follower->status = 1;
        loop_stop(follower->loop);
    }
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct follower *follower = ctx;
    follower->granted++;
    if (!granted && !follower->refused)
        log_error("%s does not let us read the jobs of %s", follower->where,
                  follower->options->all ? "all users" : follower->options->owner);
    follower->refused |= !granted;
    if (follower->follows || follower->refused || follower->granted < follower->asked_for || follower->options->quiet)
        return;
    follower->follows = true; /* from now on no job is missed that begins */
    printf("following the jobs of %s at %s into %s\n", follower->options->all ? "all users" : follower->options->owner,
           follower->where, store_name(follower->store));
    fflush(stdout);
}

static void on_published(void *ctx, int id)
{
}

/* ---- the loop ---- */

static void follower_drop_old(struct follower *follower)
{
    const struct follow_options *options = follower->options;
    struct err err = {0};
    size_t days = 0;
    uint64_t now_ns = clock_now_ns();
    if ((options->keep_seconds <= 0 && options->keep_minutes_seconds <= 0) || now_ns < follower->keep_ns)
        return;
    follower->keep_ns = now_ns + STORE_KEEP_MS * MS;
    if (store_keep(follower->store, options->keep_seconds, options->keep_minutes_seconds, wall_seconds(), &days, &err) <
        0)
        follower_tell_trouble(follower, &err);
}

static void follower_say_health(struct follower *follower, uint64_t now_ns)
{
    const struct record_health health = {.written = store_written(follower->store),
                                         .repeated = store_repeated(follower->store),
                                         .dropped = follower->dropped,
                                         .pending_bytes = store_pending(follower->store),
                                         .messages = follower->messages,
                                         .started = follower->started,
                                         .flushed = follower->flushed,
                                         .connected = link_is_up(follower->link),
                                         .writable = !*follower->trouble};
    notifier_tick(&follower->notifier, &health, now_ns);
}

static void on_tick(void *ctx)
{
    struct follower *follower = ctx;
    uint64_t now_ns = clock_now_ns();
    bool all_over = followed_tick(follower, now_ns);
    follower_drop_old(follower);
    follower_flush_soon(follower);
    follower_say_health(follower, now_ns);
    bool settled = follower->asked_for && follower->granted >= follower->asked_for &&
                   now_ns - follower->heard_ns > time_hasten(STORE_QUIET_MS * MS) && !store_pending(follower->store);
    if (follower->options->once && settled && all_over)
        loop_stop(follower->loop);
}

static void on_signal(void *ctx, int fd, uint32_t signo)
{
    loop_stop(((struct follower *)ctx)->loop);
}

/* Of this record and owner: the same after a restart, so that the broker knows its session. */
static void follower_name_self(struct follower *follower)
{
    char host[256] = "";
    unsigned hash;
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    gethostname(host, sizeof host - 1);
    buf_printf(&all, "%s\n%s\n%s\n%u", store_db(follower->store)->place,
               follower->options->all ? "" : follower->options->owner, host, (unsigned)getuid());
    HASH_JEN(all.data, all.len, hash);
    snprintf(follower->id, sizeof follower->id, "record%08x", hash);
}

/* One that was told to end just now may need a moment. */
static int follower_own_record(struct follower *follower, struct err *err)
{
    uint64_t end_ns = clock_now_ns() + time_hasten(STORE_OWNER_MS * MS);
    int code;
    while ((code = store_own(follower->store, err)) == -EBUSY && clock_now_ns() < end_ns)
        wait_fd(-1, 0, STORE_OWNER_LOOK_MS);
    return code;
}

static int follower_connect(struct follower *follower, const struct broker_url *url, struct err *err)
{
    static const struct link_events events = {on_connected, on_lost, on_published, on_subscribed, on_message};
    char client[64];
    struct broker_url place = *url;
    if (place.local && broker_local_start(NULL, err) < 0 && err->code != -EEXIST)
        return err->code;
    *place.owner = *place.job = '\0';
    broker_url_show(&place, follower->where, sizeof follower->where);
    snprintf(client, sizeof client, "scry-%s", follower->id);
    struct link_options options = {
        .url = url, .client = client, .what = "recorder", .keep_session = true, .events = &events, .ctx = follower};
    return link_open(&follower->link, follower->loop, &options, err);
}

static int follower_start(struct follower *follower, const struct broker_url *url, struct err *err)
{
    if (loop_new(&follower->loop) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    follower->flush_timer = loop_add_timer(follower->loop, STORE_KEEP_MS * MS, 0, on_flush, follower);
    if (!follower->flush_timer ||
        !loop_add_timer(follower->loop, STORE_TICK_MS * MS, STORE_TICK_MS * MS, on_tick, follower) ||
        !loop_add_signal(follower->loop, SIGTERM, on_signal, follower) ||
        !loop_add_signal(follower->loop, SIGINT, on_signal, follower))
        return err_set(err, -ENOMEM, "out of memory");
    return follower_connect(follower, url, err);
}

static void follower_read_key(struct follower *follower)
{
    struct err err = {0};
    int code = signed_key_new(&follower->key, &err);
    if (code < 0 && code != -ENOENT)
        log_warning("nobody can tell what the jobs have signed: %s", err.text);
}

int follow_run(struct store *store, const struct follow_options *said, struct err *err)
{
    struct broker_url url;
    struct follow_options options = *said;
    struct follower follower = {.store = store, .options = &options};
    int code = broker_url_parse(options.broker, &url, err);
    if (code < 0)
        return code;
    if (*url.owner && !options.owner_said) {
        options.owner = url.owner;
        options.all = strcmp(url.owner, "all") == 0;
    }
    code = follower_own_record(&follower, err);
    if (code < 0)
        return code;
    follower_name_self(&follower);
    follower_read_key(&follower);
    follower.started = wall_seconds();
    code = notifier_open(&follower.notifier, &options.tell, err);
    if (code == 0 && options.tell.otlp)
        code = store_export_begin(store, options.tell.otlp, err);
    if (code == 0)
        code = notifier_start(&follower.notifier, err);
    if (code == 0)
        code = follower_start(&follower, &url, err);
    explicit_bzero(url.password, sizeof url.password);
    if (code == 0) {
        if (!options.quiet && *follower.notifier.address)
            printf("metrics are at %s\n", follower.notifier.address);
        fflush(stdout);
        follower_drop_old(&follower);
        code = loop_run(follower.loop);
        if (!follower_flush(&follower))
            follower.status = 1;
    }
    notifier_end(&follower.notifier);
    followed_done(&follower);
    link_close(follower.link, true);
    signed_key_free(follower.key);
    loop_free(follower.loop);
    return code < 0 ? err->code ? code : err_errno(err, code, "cannot follow %s", options.broker) : follower.status;
}
