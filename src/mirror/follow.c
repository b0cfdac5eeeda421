/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows a job into its mirror. It goes through these steps, and through the later ones again whenever the connection
 * comes back:
 *
 *   find      which job is meant, by the retained states (states.h)
 *   lock      the mirror; while another process writes it, only look whether that has caught up
 *   live      subscribe to all that the publisher sends
 *   question  ask the publisher for what is missing, until nothing is
 *   ready     tell scry
 *
 * The mirror's spool is that of the job, byte for byte; what nobody can give any more is a record `gap`. It holds back what comes
 * too early. Whether a job runs is said by a beat that came now, not by one from the broker's memory, and for how long by clocks
 * that nobody sets: clocks of two machines are not compared. Of a job that signs (keys/signed.h) only what it has signed is
 * believed, if there is a key of its user. The result is written behind the last record, so nobody who follows stops too early.
 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "broker/topics.h"
#include "jobdir/record/info.h"
#include "jobdir/record/mirror.h"
#include "mirror/states.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is asked of the publisher. One question at a time. */
struct question {
    bool open, asked;
    char id[64];
    int subscription;  /* of the answer: it is asked when that is granted */
    uint64_t from, to; /* to UINT64_MAX: all there is */
    bool files;
    uint64_t moved_ns;         /* when an answer, or a part of it, came last */
    unsigned silent;           /* so many times nobody answered */
    unsigned fruitless;        /* so many answers had not what was asked for */
    uint64_t wait_ns, next_ns; /* before the next one: longer each time that nothing came of it */
};

struct follow {
    struct reader *reader;
    struct states states;
    struct parts parts;
    struct question question;
    struct mirror *mirror; /* NULL: another process writes it */
    char job[256], path[PATH_MAX];
    json_t *remote;
    json_t *last_state; /* of the job that is over, until its records are here: nobody is to stop reading too early */
    int subscription;
    bool is_live, is_ready, is_dirty;
    bool is_signed;                         /* the job signs what it says: nothing else is taken */
    bool has_unsigned;                      /* something that it has not signed was taken, though there is a key */
    uint64_t doubt_ns;                      /* since when only that keeps it from being ready; 0: it did not yet */
    bool was_granted;                       /* a subscription, by this broker */
    uint64_t refused_ns;                    /* the last one; 0: none was */
    bool looking_around;                    /* whether the node was started again, by the states of other jobs */
    bool has_state, is_over, all_published; /* what the state says */
    int progress;                           /* of the state: state_progress */
    bool has_files;                         /* they were asked for, and came */
    bool has_gaps;                          /* some records cannot be had any more */
    bool gone, mute;    /* nobody publishes the job now, as far as is known; or somebody who does not answer */
    bool looked_at_all; /* for the job that is meant */
    uint64_t gone_ns;
    bool beats;                  /* a beat came since the question */
    uint64_t end;                /* behind the last record that the publisher has told of */
    uint64_t target;             /* what is to be there before it is ready; 0: not known yet */
    uint64_t seen_next, seen_ns; /* the mirror's next record, and since when */
    double written;              /* wall clock of remote.json */
    uint64_t refused;            /* messages that were none */
};

static void follow_is_gone(struct follow *follow, bool beats);

/* ---- what is asked of the publisher: the records that are lacking, and the small files ---- */

enum {
    SILENT_MOST = 2,    /* questions that nobody answers, and the publisher is taken for gone */
    SILENT_BEATING = 5, /* the same while its beats come: who asks too often is answered later */
    FRUITLESS_MOST = 3, /* answers without what was asked for, and it is taken for lost */
};

static void question_ask(struct follow *follow, uint64_t now_ns)
{
    struct question *question = &follow->question;
    bool holds = mirror_held(follow->mirror) != UINT64_MAX;
    *question = (struct question){.open = true,
                                  .from = mirror_next(follow->mirror),
                                  .to = holds ? mirror_lacks_to(follow->mirror) : UINT64_MAX,
                                  .files = !follow->has_files,
                                  .moved_ns = now_ns,
                                  .silent = question->silent,
                                  .fruitless = question->fruitless,
                                  .wait_ns = question->wait_ns};
    reader_question(follow->reader, question->id);
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put_again(&pattern, follow->reader->owner, follow->job, question->id, "+");
    if (pattern.failed || link_subscribe(follow->reader->link, pattern.data, 1, &question->subscription) < 0)
        question->open = false;
}

static void question_subscribed(struct follow *follow, int id)
{
    struct question *question = &follow->question;
    if (!question->open || question->asked || id != question->subscription)
        return;
    question->asked = true;
    question->moved_ns = clock_now_ns();
    _cleanup_(buf_done) struct buf topic = BUF_INIT;
    topic_put(&topic, follow->reader->owner, follow->job, "ask", NULL);
    reader_publish_json(follow->reader, topic.data,
                        json_pack("{s:s, s:I, s:I, s:b}", "reader", question->id, "from", (json_int_t)question->from,
                                  "to", question->to == UINT64_MAX ? (json_int_t)-1 : (json_int_t)question->to, "files",
                                  question->files));
}

static void question_close(struct follow *follow)
{
    struct question *question = &follow->question;
    _cleanup_(buf_done) struct buf pattern = BUF_INIT;
    topic_put_again(&pattern, follow->reader->owner, follow->job, question->id, "+");
    if (question->open && !pattern.failed)
        link_unsubscribe(follow->reader->link, pattern.data);
    question->open = false;
}

static void question_forget(struct follow *follow)
{
    follow->question = (struct question){0};
}

/* A part of an answer came. */
static void question_moved(struct follow *follow)
{
    follow->question.moved_ns = clock_now_ns();
    follow->question.silent = 0;
}

/* A number that may be trusted to be one, and `more`; 0: it is not. */
static uint64_t number_behind(const json_t *json, const char *key, uint64_t more)
{
    json_int_t number = json_integer_value(json_object_get(json, key));
    return number >= 0 && number < INT64_MAX / 2 ? (uint64_t)number + more : 0;
}

/* The end of one: what it says was answered. */
static void question_end(struct follow *follow, struct span payload)
{
    struct question *question = &follow->question;
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    uint64_t to = number_behind(json, "to", 0), end = number_behind(json, "last_seq", 1),
             next = mirror_next(follow->mirror);
    bool is_end = question->open && topic_is_end_of(json, question->id, question->from, follow->is_signed);
    json_decref(json);
    if (!is_end)
        return;
    question_moved(follow);
    to = to < end ? to : end;
    follow->end = end > follow->end ? end : follow->end;
    follow->target = follow->target ? follow->target : end;
    follow->has_files |= question->files;
    question->wait_ns = next > question->from ? 0 : question->wait_ns ? 2 * question->wait_ns : NS_PER_SECOND;
    question->wait_ns = question->wait_ns < QUESTION_MOST_NS ? question->wait_ns : QUESTION_MOST_NS;
    question->next_ns = clock_now_ns() + time_hasten(question->wait_ns);
    question->fruitless = next > question->from || next >= to ? 0 : question->fruitless + 1;
    question_close(follow);
    if (next > question->from && next < follow->end) /* an answer has a limit: the rest at once */
        question_ask(follow, clock_now_ns());
    if (question->fruitless < FRUITLESS_MOST)
        return;
    uint64_t held = mirror_held(follow->mirror);
    follow->has_gaps = true;
    mirror_skip(follow->mirror, held < to ? held : to, "the publisher had no such records any more");
    question->fruitless = 0;
}

/* Asks, if something is missing and nothing is asked; and looks whether somebody answers. */
static void question_look(struct follow *follow, uint64_t now_ns)
{
    struct question *question = &follow->question;
    uint64_t next = mirror_next(follow->mirror), end = mirror_end(follow->mirror);
    end = follow->end > end ? follow->end : end;
    if (question->open && now_ns - question->moved_ns > time_hasten(QUESTION_ANSWER_NS)) {
        question->silent++;
        question_close(follow);
        if (question->silent >= (follow->beats ? SILENT_BEATING : SILENT_MOST))
            follow_is_gone(follow, follow->beats);
    }
    bool stalled = now_ns - follow->seen_ns > (follow->is_ready ? QUESTION_STALLED_NS : QUESTION_STALLED_NS / 4);
    if (!question->open && now_ns >= question->next_ns && !follow->gone && follow->has_state &&
        (!follow->has_files || !follow->target || (next < end && stalled)))
        question_ask(follow, now_ns);
}

/* ---- what is here ---- */

enum { DOUBT_LOOKS = 5 }; /* so long is waited for what the job has signed, once something came that it has not */

static double wall_seconds(void)
{
    return (double)clock_wall_ns() / NS_PER_SECOND;
}

static void remote_set(struct follow *follow, const char *key, json_t *value_take)
{
    json_object_set_new(follow->remote, key, value_take);
    follow->is_dirty = true;
}

static void follow_fail(struct follow *follow, int code, const char *what)
{
    struct err err = {0};
    err_errno(&err, code, "%s %s", what, follow->path);
    reader_fail(follow->reader, &err);
}

/* Of what comes from the job itself, and now. */
static void follow_was_heard(struct follow *follow)
{
    double now = wall_seconds();
    if (now - json_number_value(json_object_get(follow->remote, "heard")) < 1)
        return;
    remote_set(follow, "heard", json_real(now));
    remote_set(follow, "connected", json_true());
}

/* ---- the mirror ---- */

static void remote_write(struct follow *follow)
{
    int code = mirror_remote(follow->mirror, follow->remote);
    if (code < 0)
        follow_fail(follow, code, "cannot write the mirror");
    follow->written = wall_seconds();
    follow->is_dirty = false;
}

static void follow_start_live(struct follow *follow)
{
    if (!follow->mirror || !follow->job[0] || !link_is_up(follow->reader->link) || follow->is_live)
        return;
    follow->is_live = true;
    follow->subscription = reader_subscribe(follow->reader, follow->job, "+", 1);
}

/* Takes the mirror, or waits for the process that has it. */
static void follow_take_mirror(struct follow *follow)
{
    struct err err = {0};
    int code = mirror_open(&follow->mirror, follow->path, &err);
    if (code == -EWOULDBLOCK) {
        json_t *remote = mirror_read_remote(follow->path);
        if (!follow->is_ready && json_is_true(json_object_get(remote, "caught_up"))) {
            follow->is_ready = true;
            const char *note = json_string_value(json_object_get(remote, "note"));
            if (note)
                reader_say("note", note);
            reader_say("ready", follow->path);
        }
        json_decref(remote);
        return;
    }
    if (code < 0) {
        reader_fail(follow->reader, &err);
        return;
    }
    json_t *remote = mirror_read_remote(follow->path);
    json_decref(follow->remote);
    follow->remote = remote ? remote : json_object();
    follow->has_gaps = json_is_true(json_object_get(follow->remote, "gaps"));
    follow->is_signed = json_is_true(json_object_get(follow->remote, "signed"));
    follow->seen_next = mirror_next(follow->mirror);
    remote_set(follow, "caught_up", json_boolean(follow->is_ready));
    remote_write(follow);
    follow_start_live(follow);
}

/* What is here was not signed, and the job is one that signs: all of it is had anew. */
static void follow_begin_anew(struct follow *follow)
{
    struct err err = {0};
    if (follow->is_ready) { /* somebody has seen it */
        err_set(&err, -EBADMSG,
                "what was shown of %s until now was not signed, and the job signs all that it says: look at it again",
                follow->job);
        reader_fail(follow->reader, &err);
        return;
    }
    mirror_close(follow->mirror);
    follow->mirror = NULL;
    mirror_remove(follow->path, NULL); /* another process may have it now: then follow_take_mirror waits */
    parts_done(&follow->parts);
    follow->parts = (struct parts){0};
    json_decref(follow->last_state);
    follow->last_state = NULL;
    follow->has_state = follow->is_over = follow->all_published = follow->has_files = follow->is_live = false;
    follow->end = follow->target = 0;
    question_forget(follow);
    follow_take_mirror(follow);
}

/* Whether what came may be taken: from the first message on that the job has signed, only such. */
static bool follow_believes(struct follow *follow, enum signed_by by)
{
    if (follow->is_signed && by != SIGNED_JOB) {
        follow->refused += by == SIGNED_NOT;
        if (by == SIGNED_NOT)
            return false;
        follow->is_signed = false; /* this time without the key */
    } else if (!follow->is_signed && by == SIGNED_JOB) {
        if (mirror_end(follow->mirror) || follow->has_state)
            follow_begin_anew(follow);
        if (!follow->mirror)
            return false;
        follow->is_signed = true;
    }
    follow->has_unsigned |= by == SIGNED_NOT;
    json_t *said = json_object_get(follow->remote, "signed");
    if (by == SIGNED_UNKNOWN ? said != NULL : !said || json_is_true(said) != follow->is_signed) {
        state_put_signed(follow->remote, by);
        follow->is_dirty = true;
    }
    return true;
}

static void follow_found(struct follow *follow, const char *job)
{
    struct err err = {0};
    snprintf(follow->job, sizeof follow->job, "%s", job);
    if (mirror_path(follow->reader->via, follow->reader->owner, job, follow->path, sizeof follow->path, &err) < 0)
        reader_fail(follow->reader, &err);
    else
        follow_take_mirror(follow);
}

/* ---- ready ---- */

static uint64_t records_missing(const struct follow *follow)
{
    uint64_t next = mirror_next(follow->mirror), end = mirror_end(follow->mirror);
    end = follow->end > end ? follow->end : end;
    return end - next;
}

/* What a person should know of the mirror; nothing: "". */
static void follow_put_note(const struct follow *follow, char *ret_text, size_t size)
{
    uint64_t lacks = records_missing(follow);
    const char *who = follow->mute      ? "the job's publisher does not answer"
                      : follow->is_over ? "the job is over, and nobody publishes it any more"
                                        : "nobody publishes the job now";
    *ret_text = 0;
    if (follow->gone && lacks)
        snprintf(ret_text, size, "%s: %llu of its records are not to be had", who, (unsigned long long)lacks);
    else if (follow->gone && !follow->has_files)
        snprintf(ret_text, size, "%s: its statistics may be missing, or old", who);
    else if (follow->gone && !follow->is_over)
        snprintf(ret_text, size, "%s: whether it runs is not known", who);
    else if (follow->has_gaps)
        snprintf(ret_text, size, "some records of the job are lost: the report lists when");
}

static void info_write(struct follow *follow, const json_t *state)
{
    int code = state_put_info(follow->mirror, follow->path, state, follow->job);
    if (code < 0)
        follow_fail(follow, code, "cannot write the mirror");
}

/* Now that all is written that will be. */
static void info_write_last(struct follow *follow)
{
    json_t *state = follow->last_state;
    follow->last_state = NULL;
    if (state)
        info_write(follow, state);
    json_decref(state);
}

static void follow_get_ready(struct follow *follow)
{
    char note[256];
    follow_put_note(follow, note, sizeof note);
    if (follow->gone && mirror_held(follow->mirror) != UINT64_MAX) { /* the last that was heard of it is worth more */
        follow->has_gaps = true;
        mirror_skip(follow->mirror, mirror_end(follow->mirror), "nobody could be asked for these records");
    }
    bool complete = follow->is_over && follow->all_published && !records_missing(follow) && follow->has_files;
    remote_set(follow, "caught_up", json_true());
    remote_set(follow, "complete", json_boolean(complete));
    remote_set(follow, "gaps", json_boolean(follow->has_gaps));
    if (note[0])
        remote_set(follow, "note", json_string(note));
    else
        json_object_del(follow->remote, "note");
    int code = mirror_flush(follow->mirror);
    if (code < 0) {
        follow_fail(follow, code, "cannot write the mirror");
        return;
    }
    info_write_last(follow);
    remote_write(follow);
    if (follow->is_ready)
        return;
    follow->is_ready = true;
    if (note[0])
        reader_say("note", note);
    reader_say("ready", follow->path);
}

/* The job itself may be about to say that it signs: nobody is to be shown what has to be taken back then. */
static bool follow_is_in_doubt(struct follow *follow)
{
    uint64_t now_ns = clock_now_ns();
    if (!follow->has_unsigned || follow->is_signed || follow->is_ready)
        return false;
    follow->doubt_ns = follow->doubt_ns ? follow->doubt_ns : now_ns;
    return now_ns - follow->doubt_ns < time_hasten(DOUBT_LOOKS * MIRROR_FOLLOW_MS * UINT64_C(1000000));
}

static void follow_look_if_ready(struct follow *follow)
{
    bool has_all =
        follow->has_state && follow->has_files && follow->target && mirror_next(follow->mirror) >= follow->target;
    if ((has_all || (follow->gone && follow->has_state && !follow->looking_around)) && !follow_is_in_doubt(follow))
        follow_get_ready(follow);
}

/* Once more, when the job's end has come since, or what was missing. */
static void follow_look_if_complete(struct follow *follow)
{
    if (follow->is_over && follow->all_published && follow->has_files && !records_missing(follow) &&
        !json_is_true(json_object_get(follow->remote, "complete")))
        follow_get_ready(follow);
}

/* That the publisher is not there, or (`beats`) is there and does not answer. It may come back. */
static void follow_is_gone(struct follow *follow, bool beats)
{
    if (follow->gone)
        return;
    follow->gone = true;
    follow->mute = beats;
    follow->gone_ns = clock_now_ns();
    question_forget(follow);
    if (beats)
        return;
    remote_set(follow, "connected", json_false());
    if (follow->is_over || !link_is_up(follow->reader->link))
        return;
    follow->looking_around = true; /* lost, or only not to be reached? */
    states_start(&follow->states, NULL);
}

static void follow_came_back(struct follow *follow)
{
    if (!follow->gone)
        return;
    follow->gone = follow->looking_around = false;
    json_object_del(follow->remote, "note");
    states_stop(&follow->states);
    question_forget(follow);
}

/* ---- what is published ---- */

static uint64_t end_of(const json_t *json)
{
    return json_is_integer(json_object_get(json, "last_seq")) ? number_behind(json, "last_seq", 1) : 0;
}

static void follow_take_state(struct follow *follow, const json_t *state)
{
    if (!state_info(state, follow->job)) {
        follow->refused++;
        return;
    }
    const char *name = json_string_value(json_object_get(state, "state"));
    if (follow->is_signed && follow->has_state && state_progress(state) < follow->progress) /* shown again */
        return;
    follow->progress = state_progress(state);
    follow->has_state = true;
    follow->is_over = json_is_object(json_object_get(state_info(state, follow->job), "result")) ||
                      (name && strcmp(name, "lost") == 0);
    follow->all_published = json_is_true(json_object_get(state, "complete"));
    follow->end = end_of(state) > follow->end ? end_of(state) : follow->end;
    state_put_remote(follow->remote, follow->reader, state, NULL, false);
    follow->is_dirty = true;
    json_decref(follow->last_state);
    follow->last_state = NULL;
    if (follow->is_over && !(follow->all_published && mirror_next(follow->mirror) >= end_of(state)))
        follow->last_state = json_incref((json_t *)state);
    else
        info_write(follow, state);
}

/* The broker has a state that is not the job's, in place of what is known from before. */
static void follow_take_known_state(struct follow *follow)
{
    struct job_info info;
    if (job_info_read(follow->path, &info, NULL) == 0) {
        follow->has_state = true;
        follow->is_over = info.ended;
    }
    job_info_done(&info);
}

static void follow_take_beat(struct follow *follow, const json_t *beat, bool retained)
{
    const json_t *is_connected = json_object_get(beat, "connected"), *sent = json_object_get(beat, "time");
    if (!json_is_boolean(is_connected)) {
        follow->refused++;
        return;
    }
    follow->end = end_of(beat) > follow->end ? end_of(beat) : follow->end;
    state_put_remote(follow->remote, follow->reader, NULL, beat, retained);
    follow->is_dirty = true;
    if (json_is_false(is_connected)) {
        follow_is_gone(follow, false);
        return;
    }
    /* The broker's memory is believed for its lease, until the job itself is heard: others look at the mirror meanwhile. */
    double age = wall_seconds() - json_number_value(sent),
           lease = json_number_value(json_object_get(beat, "lease_seconds"));
    if (retained && !json_object_get(follow->remote, "heard") && json_is_number(sent) && age < lease && age > -lease)
        remote_set(follow, "heard", json_real(wall_seconds() - (age > 0 ? age : 0)));
    if (retained)
        return;
    follow->beats = true;
    follow_was_heard(follow);
    if (json_is_number(sent))
        remote_set(follow, "clock", json_real(json_number_value(sent) - wall_seconds()));
    follow_came_back(follow);
}

static void follow_take_records(struct follow *follow, struct span lines)
{
    for (struct span line; lines_next(&lines, &line);) {
        int code = mirror_record(follow->mirror, line);
        follow->refused += code == -EBADMSG;
        if (code < 0 && code != -EBADMSG && code != -EEXIST) {
            follow_fail(follow, code, "cannot write the mirror");
            return;
        }
    }
    int code = mirror_flush(follow->mirror);
    if (code < 0)
        follow_fail(follow, code, "cannot write the mirror");
}

static int put_file(void *ctx, const char *path, int64_t version, struct span bytes)
{
    struct follow *follow = ctx;
    return mirror_file(follow->mirror, path, bytes);
}

static void follow_take_file(struct follow *follow, struct span payload)
{
    int code = parts_take(&follow->parts, payload, put_file, follow);
    if (code == -ENOSPC || code == -EDQUOT)
        follow_fail(follow, code, "cannot write the mirror");
    follow->refused += code < 0;
}

static void follow_take_json(struct follow *follow, enum topic_kind kind, struct span payload, bool retained)
{
    json_t *json = json_loadb(payload.ptr, payload.len, 0, NULL);
    if (!json_is_object(json))
        follow->refused++;
    else if (kind == TOPIC_STATE)
        follow_take_state(follow, json);
    else
        follow_take_beat(follow, json, retained);
    json_decref(json);
}

static void follow_take_again(struct follow *follow, const struct topic *topic, struct span payload)
{
    bool is_end = strcmp(topic->name, "end") == 0;
    if (!is_end)
        question_moved(follow);
    if (strcmp(topic->name, "records") == 0)
        follow_take_records(follow, payload);
    else if (strcmp(topic->name, "file") == 0)
        follow_take_file(follow, payload);
    else if (is_end && strcmp(topic->rest, follow->question.id) == 0)
        question_end(follow, payload);
    follow_was_heard(follow);
    follow_came_back(follow);
    follow_look_if_ready(follow);
}

static void on_message(void *ctx, const char *name, struct span payload, bool retained)
{
    struct follow *follow = ctx;
    struct topic topic;
    if (!topic_parse(name, &topic) || strcmp(topic.owner, follow->reader->owner) != 0)
        return;
    if (states_message(&follow->states, &topic, payload, retained) && topic.kind == TOPIC_AGAIN)
        return;
    if (!follow->mirror || strcmp(topic.job, follow->job) != 0)
        return;
    enum signed_by by = reader_check(follow->reader, &topic, payload, &payload);
    if (topic_signed(&topic) && !follow_believes(follow, by))
        return;
    if (topic.kind == TOPIC_STATE || topic.kind == TOPIC_BEAT) {
        follow_take_json(follow, topic.kind, payload, retained);
    } else if (topic.kind == TOPIC_AGAIN) {
        follow_take_again(follow, &topic, payload);
    } else if (topic.kind == TOPIC_STREAM && !retained) {
        follow_take_records(follow, payload);
        follow_was_heard(follow);
    } else if (topic.kind == TOPIC_FILE && !retained) {
        follow_take_file(follow, payload);
    }
}

/* ---- the connection ---- */

static void on_all_came(void *ctx)
{
    struct follow *follow = ctx;
    struct err err = {0};
    if (follow->looking_around) {
        const struct state *own;
        HASH_FIND_STR(follow->states.jobs, follow->job, own);
        if (own && states_node_restarted(&follow->states, own))
            remote_set(follow, "state", json_string("lost"));
        follow->looking_around = false;
        return;
    }
    const struct state *job = states_find(&follow->states, follow->reader->url.job, &err);
    if (job) {
        follow_found(follow, job->job);
        if (follow->mirror && follow_believes(follow, job->state_by))
            follow_take_state(follow, job->state);
        else if (follow->mirror)
            follow_take_known_state(follow);
    } else if (!follow->looked_at_all) { /* it is no id */
        follow->looked_at_all = true;
        states_start(&follow->states, NULL);
    } else {
        reader_fail(follow->reader, &err);
    }
}

static void on_connected(void *ctx, bool session_present)
{
    struct follow *follow = ctx;
    follow->reader->last_loss[0] = 0;
    follow->is_live = false;
    question_forget(follow);
    const char *word = follow->reader->url.job;
    follow->looked_at_all = strcmp(word, "@last") == 0;
    if (!follow->job[0])
        states_start(&follow->states, follow->looked_at_all ? NULL : word);
    else
        follow_start_live(follow);
}

static void on_lost(void *ctx, const char *why)
{
    struct follow *follow = ctx;
    if (reader_lost(follow->reader, why))
        return;
    follow->is_live = false;
    follow->looking_around = false;
    states_stop(&follow->states);
    question_forget(follow);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct follow *follow = ctx;
    /* The nodes of a NATS cluster refuse for some seconds after one of them has died. */
    if (!granted && follow->was_granted) {
        question_forget(follow);
        follow->is_live = false;
        follow->refused_ns = clock_now_ns();
        return;
    }
    follow->was_granted |= granted;
    if (!granted) {
        struct err err = {0};
        err_set(&err, -EACCES, "the broker %s does not let you read jobs of %s", follow->reader->via,
                follow->reader->owner);
        reader_fail(follow->reader, &err);
        return;
    }
    states_subscribed(&follow->states, id);
    if (follow->mirror)
        question_subscribed(follow, id);
}

static void on_look(void *ctx)
{
    struct follow *follow = ctx;
    uint64_t now_ns = clock_now_ns();
    if (!follow->mirror) {
        if (follow->job[0])
            follow_take_mirror(follow);
        return;
    }
    if (!follow->is_live && now_ns - follow->refused_ns > NS_PER_SECOND)
        follow_start_live(follow);
    if (mirror_next(follow->mirror) != follow->seen_next || !follow->seen_ns) {
        follow->seen_next = mirror_next(follow->mirror);
        follow->seen_ns = now_ns;
        if (!follow->is_ready && follow->end)
            reader_progress(follow->seen_next, follow->end);
    }
    if (follow->is_live)
        question_look(follow, now_ns);
    if (!follow->is_ready)
        follow_look_if_ready(follow);
    else
        follow_look_if_complete(follow);
    if (follow->last_state && follow->all_published && mirror_next(follow->mirror) >= end_of(follow->last_state))
        info_write_last(follow);
    /* the last that was heard of it; what is missing before will not come, or not soon */
    bool rest = follow->last_state || mirror_held(follow->mirror) != UINT64_MAX;
    if (follow->gone && follow->is_ready && rest &&
        (follow->all_published || now_ns - follow->gone_ns > time_hasten(MIRROR_GONE_NS)))
        follow_get_ready(follow);
    if (follow->is_dirty && wall_seconds() - follow->written >= 1)
        remote_write(follow);
}

/* Nobody connects: what is here already is better than nothing. */
static void on_timeout(void *ctx)
{
    struct follow *follow = ctx;
    struct reader *reader = follow->reader;
    struct err err = {0};
    char file[PATH_MAX], text[ERR_TEXT_SIZE];
    if (follow->is_ready || follow->has_state || (link_is_up(reader->link) && follow->job[0]))
        return;
    err_set(&err, -ETIMEDOUT, "the broker %s does not answer%s%s", reader->via, reader->last_loss[0] ? ": " : "",
            reader->last_loss);
    if (mirror_path(reader->via, reader->owner, reader->url.job, follow->path, sizeof follow->path, NULL) < 0 ||
        (size_t)snprintf(file, sizeof file, "%s/job.json", follow->path) >= sizeof file || access(file, F_OK) < 0) {
        reader_fail(reader, &err);
        return;
    }
    snprintf(text, sizeof text, "%.400s; this is what was known before", err.text);
    reader_say("note", text);
    follow->is_ready = true;
    reader_say("ready", follow->path);
    if (!follow->job[0])
        follow_found(follow, reader->url.job);
}

/* All of it is here: nobody need be asked. */
static bool follow_is_complete(struct follow *follow)
{
    struct reader *reader = follow->reader;
    if (mirror_path(reader->via, reader->owner, reader->url.job, follow->path, sizeof follow->path, NULL) < 0)
        return false;
    json_t *remote = mirror_read_remote(follow->path);
    bool complete = json_is_true(json_object_get(remote, "complete"));
    json_decref(remote);
    if (complete && mirror_open(&follow->mirror, follow->path, NULL) == 0) { /* marks it as used */
        mirror_close(follow->mirror);
        follow->mirror = NULL;
    }
    return complete;
}

static void follow_done(struct follow *follow)
{
    if (follow->mirror && follow->last_state)
        state_put_info(follow->mirror, follow->path, follow->last_state, follow->job);
    json_decref(follow->last_state);
    if (follow->mirror && follow->is_dirty)
        mirror_remote(follow->mirror, follow->remote);
    states_done(&follow->states);
    parts_done(&follow->parts);
    mirror_close(follow->mirror);
    json_decref(follow->remote);
}

int follow_run(struct reader *reader)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = reader_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct follow follow = {.reader = reader, .remote = json_object()};
    struct err err = {0};
    reader_read_key(reader);
    follow.states = (struct states){.reader = reader, .all_came = on_all_came, .ctx = &follow};
    if (follow_is_complete(&follow)) {
        reader_say("ready", follow.path);
    } else if (reader_connect(reader, &events, &follow, &err) < 0) {
        reader_say_err("error", &err);
        follow_done(&follow);
        return 1;
    } else {
        loop_add_timer(reader->loop, MIRROR_FOLLOW_MS * UINT64_C(1000000), MIRROR_FOLLOW_MS * UINT64_C(1000000),
                       on_look, &follow);
        loop_add_timer(reader->loop, time_hasten((uint64_t)MIRROR_FOLLOW_SECONDS * NS_PER_SECOND), 0, on_timeout,
                       &follow);
    }
    int code = loop_run(reader->loop);
    follow_done(&follow);
    return code < 0 ? 1 : reader->status;
}
