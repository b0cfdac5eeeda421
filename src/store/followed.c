/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs that the recorder follows: what is missing of each, and what is said of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "store/follower.h"

static const uint64_t MS = 1000000;
enum {
    FAILURES = 7,
    VAIN_MOST = 3,
    NEAR = 1000, /* holes so near to each other are asked for together */
};

struct followed *followed_find(struct follower *follower, const char *owner, const char *id)
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

void followed_done(struct follower *follower)
{
    for (struct followed *next, *each = follower->list; each; each = next) {
        next = each->next;
        parts_done(&each->parts);
        each->job->user = NULL;
        free(each);
    }
    follower->list = NULL;
}

void followed_changed(struct follower *follower, struct followed *followed)
{
    followed->changed = true;
    (void)follower;
}

bool followed_asked(struct followed *followed, const char *reader)
{
    bool ours = *followed->reader && strcmp(followed->reader, reader) == 0;
    if (ours) {
        followed->asked_ns = clock_now_ns();
        followed->doubt = false;
    }
    return ours;
}

void followed_spoke(struct followed *followed)
{
    followed->doubt = *followed->reader;
    followed->next_ask_ns = 0;
}

/* ---- questions ---- */

static void send(struct follower *follower, struct followed *followed, const char *name, const char *rest, bool retain,
                 json_t *json, bool *ret_sent)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    const char *owner = followed->job->name, *id = owner + strlen(owner) + 1;
    json_decref(json);
    topic_put(&topic, owner, id, name, rest);
    *ret_sent = text && !topic.failed && link_publish(follower->link, topic.data, span_str(text), 1, retain, NULL) == 0;
}

static void subscribe_answer(struct follower *follower, struct followed *followed, bool on)
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

static void end_question(struct follower *follower, struct followed *followed)
{
    if (!*followed->reader)
        return;
    subscribe_answer(follower, followed, false);
    *followed->reader = '\0';
    follower->asking--;
}

void followed_connected(struct follower *follower)
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

static void ask(struct follower *follower, struct followed *followed, int64_t from, int64_t to, uint64_t now_ns)
{
    bool sent;
    topic_name_question(follower->id, followed->reader, sizeof followed->reader);
    follower->asking++;
    subscribe_answer(follower, followed, true);
    json_t *question = json_pack("{s:s, s:I, s:I, s:b}", "reader", followed->reader, "from", (json_int_t)from, "to",
                                 (json_int_t)to, "files", (int)followed->files_wanted);
    followed->asked_files = followed->files_wanted;
    followed->asked_from = from;
    followed->asked_to = to;
    followed->asked_ns = now_ns;
    followed->answered = followed->doubt = false;
    followed->dropped = false;
    send(follower, followed, "ask", NULL, false, question, &sent);
    if (!sent)
        end_question(follower, followed);
}

void followed_answered(struct follower *follower, struct followed *followed, const json_t *end)
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
static bool all_came(const struct follower *follower, const struct followed *followed, uint64_t now_ns)
{
    int64_t behind, to = followed->answered_to;
    if (now_ns - followed->asked_ns > time_hasten(STORE_GRACE_MS * MS))
        return true;
    return !followed->asked_files && !store_pending(follower->store) &&
           ranges_missing(&followed->job->ranges, followed->asked_from, to, &behind) >= to;
}

/* What lies in an answer and did not come, several times, is not on the job's disk either. */
static void take_answer(struct follower *follower, struct followed *followed, uint64_t now_ns)
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
    end_question(follower, followed);
}

/* The first hole, and the holes behind it that are near. */
static bool find_missing(const struct followed *followed, int64_t *ret_from, int64_t *ret_to)
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
static bool answers(const struct followed *followed, uint64_t now_ns)
{
    return followed->connected && now_ns < followed->lease_until_ns;
}

static void look_at(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    int64_t from, to;
    bool missing = find_missing(followed, &from, &to);
    if (*followed->reader && followed->answered) {
        if (all_came(follower, followed, now_ns))
            take_answer(follower, followed, now_ns);
    } else if (*followed->reader &&
               now_ns - followed->asked_ns > time_hasten((followed->doubt ? STORE_DOUBT_MS : STORE_ANSWER_MS) * MS)) {
        followed->failures++;
        followed->next_ask_ns =
            followed->doubt ? 0 : now_ns + time_hasten(STORE_REST_MS * MS) * (1u << (followed->failures & 7));
        end_question(follower, followed);
    }
    if (!missing)
        from = to = followed->job->row.known_seq + 1;
    if (from != followed->missing) {
        followed->missing = from;
        followed->missing_ns = now_ns;
    }
    bool patient = missing && !followed->over && followed->job->row.last_seq >= 0 &&
                   now_ns - followed->missing_ns < time_hasten(STORE_PATIENCE_MS * MS);
    if (*followed->reader || (!missing && !followed->files_wanted) || patient || !answers(followed, now_ns) ||
        now_ns < followed->next_ask_ns || follower->asking >= ASKS_AT_ONCE || !link_is_up(follower->link))
        return;
    ask(follower, followed, from, to, now_ns);
}

/* ---- what is said ---- */

static void say_stored(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    const struct job_row *row = &followed->job->row;
    bool sent;
    if (!followed->changed || !link_is_up(follower->link) ||
        (row->last_seq == followed->said_seq && (bool)row->complete == followed->said_complete) ||
        (!row->complete && now_ns - followed->said_ns < time_hasten(STORE_SAY_MS * MS)))
        return;
    json_t *json = json_pack("{s:I, s:b, s:f}", "last_seq", (json_int_t)row->last_seq, "complete", (int)row->complete,
                             "time", (double)clock_wall_ns() / NS_PER_SECOND);
    send(follower, followed, "stored", follower->id, true, json, &sent);
    if (!sent)
        return;
    followed->changed = false;
    followed->said_seq = row->last_seq;
    followed->said_complete = row->complete;
    followed->said_ns = now_ns;
}

static void tell(struct follower *follower, struct followed *followed, const char *what)
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
static bool is_gone(const struct followed *followed, uint64_t now_ns)
{
    if (!followed->lease_until_ns && now_ns - followed->follower->heard_ns < time_hasten(STORE_QUIET_MS * MS))
        return false; /* its beat may be on its way */
    return !answers(followed, now_ns) || followed->failures >= FAILURES;
}

static bool settle(struct follower *follower, struct followed *followed, uint64_t now_ns)
{
    struct stored_job *job = followed->job;
    int64_t from, to;
    if (job->row.complete) {
        tell(follower, followed, "stored");
        return true;
    }
    bool whole = !find_missing(followed, &from, &to) && !store_pending(follower->store);
    if (followed->over && whole && (!followed->files_wanted || is_gone(followed, now_ns)) && !*followed->reader) {
        store_put_complete(follower->store, job);
        return false;
    }
    if (is_gone(followed, now_ns) && !*followed->reader && !store_pending(follower->store)) {
        if (follower->options->once) {
            tell(follower, followed, "is not whole, and nobody publishes it any more");
            follower->status = 1;
        }
        return true;
    }
    return false;
}

bool followed_tick(struct follower *follower, uint64_t now_ns)
{
    bool all = true;
    for (struct followed *each = follower->list; each; each = each->next) {
        if (each->job->uncommitted) { /* the database fails: nothing is known for sure */
            all = false;
            continue;
        }
        if (!each->job->row.complete)
            look_at(follower, each, now_ns);
        all &= settle(follower, each, now_ns);
        say_stored(follower, each, now_ns);
    }
    return all;
}
