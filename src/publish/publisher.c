/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/publisher.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "keys/signed.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t NS_PER_MS = 1000000;

/* ---- state and beat ---- */

/* Looks again. true: it says something else than before. */
static bool about_look(struct about *about)
{
    struct job_info info;
    enum job_state state;
    if (job_info_read_state(about->dir, &info, &state, NULL) < 0) {
        job_info_done(&info);
        if (!about->known)
            return false;
        state = job_state(about->dir, &about->info); /* the directory is gone: what it said holds */
        bool changed = state != about->state;
        about->state = state;
        return changed;
    }
    bool other = !about->known || state != about->state || !json_equal(info.json, about->info.json);
    job_info_done(&about->info);
    about->info = info;
    about->state = state;
    about->known = true;
    return other;
}

static void about_done(struct about *about)
{
    if (about->known)
        job_info_done(&about->info);
    about->known = false;
}

/* Nothing more will be written: the command has ended, and whoever watched it. */
static bool about_is_over(const struct about *about)
{
    return about->known && (about->state == JOB_ENDED || about->state == JOB_LOST);
}

static const char *state_name(const struct about *about)
{
    if (about->state == JOB_ENDED)
        return job_end_name(&about->info.result);
    return about->state == JOB_LOST ? "lost" : "running";
}

static void put_json_take(struct buf *out, json_t *json)
{
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    if (text)
        buf_puts(out, text);
}

/* last_seq -1: there are no records. address: for sealed requests; NULL: it takes none. */
static void about_put_state(const struct about *about, int64_t last_seq, const char *address, bool complete,
                            struct buf *out)
{
    char path[PATH_MAX];
    const struct job_info *info = &about->info;
    put_json_take(out,
                  json_pack("{s:i, s:s, s:o, s:s, s:s, s:O?, s:o, s:s, s:I, s:s?, s:b, s:b}", "version", 1, "job",
                            info->id, "owner", text_json(about->owner), "node", info->host, "state", state_name(about),
                            "info", info->json, "dir", text_json(realpath(about->dir, path) ? path : about->dir),
                            "boot_id", info->boot_id, "last_seq", (json_int_t)last_seq, "address", address, "watched",
                            about->state != JOB_UNWATCHED, "complete", (int)complete));
}

/* beat 0: the last will. */
static void about_put_beat(const struct about *about, uint64_t beat, bool connected, int64_t last_seq, struct buf *out)
{
    json_t *json =
        json_pack("{s:b, s:f, s:f, s:I}", "connected", (int)connected, "time", (double)clock_wall_ns() / NS_PER_SECOND,
                  "lease_seconds", (double)PUBLISH_LEASE_SECONDS, "last_seq", (json_int_t)last_seq);
    if (beat)
        json_object_set_new(json, "beat", json_integer((json_int_t)beat));
    if (beat && (about->state == JOB_RUNNING || about->state == JOB_UNWATCHED))
        json_object_set_new(json, "age", json_real(job_age_seconds(about->dir, &about->info, 0)));
    put_json_take(out, json);
}

/* ---- what is under way ---- */

bool sent_has_room(const struct sent *sent)
{
    return sent->count < SENT_MOST && sent->under_way < SENT_UNDER_WAY;
}

bool sent_wants_sign(const struct sent *sent)
{
    return sent->figures >= SENT_MOST / 4;
}

void sent_add(struct sent *sent, struct sent_one one)
{
    if (sent->count == SENT_MOST)
        return; /* sent_has_room was not asked: nobody follows it */
    sent->under_way++;
    sent->figures = one.qos0 ? sent->figures + 1 : 0;
    sent->list[sent->count++] = one;
}

void sent_over(struct sent *sent, int id)
{
    for (size_t i = 0; i < sent->count; i++) {
        struct sent_one *one = &sent->list[i];
        if (one->id != id || one->over)
            continue;
        one->over = true;
        sent->under_way--;
        return;
    }
}

static void sent_take_out(struct sent *sent, size_t at, struct sent_one *ret_one)
{
    *ret_one = sent->list[at];
    sent->under_way -= !ret_one->over;
    memmove(sent->list + at, sent->list + at + 1, (--sent->count - at) * sizeof *sent->list);
}

bool sent_take(struct sent *sent, struct sent_one *ret_one)
{
    bool there = false;
    if (sent->count && !sent->list[0].qos0)
        there = sent->list[0].over;
    for (size_t i = 1; i < sent->count && sent->list[0].qos0 && !there; i++)
        there = sent->list[i].over && !sent->list[i].qos0;
    if (there)
        sent_take_out(sent, 0, ret_one);
    return there;
}

bool sent_take_figures(struct sent *sent, struct sent_one *ret_one)
{
    for (size_t i = 0; i < sent->count; i++)
        if (sent->list[i].qos0 && sent->list[i].over) {
            sent_take_out(sent, i, ret_one);
            return true;
        }
    sent->figures = 0;
    return false;
}

/* The broker acknowledges what it is sent, and gives nothing of it back: MQTT 3.1.1 has no other way to refuse it. */
static bool publisher_is_dropped(const struct publisher *publisher)
{
    return !publisher->heard && publisher->echo_ns &&
           clock_now_ns() - publisher->echo_ns >= time_hasten(PUBLISHER_HEARD_MS * NS_PER_MS);
}

/*
 * Between scry run and its publisher: lines of JSON. scry run sends the settings, then {"type": "over"} when all is in
 * the job directory. The publisher says how far it is (job/run/publish.h).
 */

enum { LINE_MOST = 64 << 10 };

/* Reads what has come. false: the other side is gone. */
static bool channel_fill(struct publisher *publisher)
{
    for (;;) {
        char *room = publisher->in.len < LINE_MOST ? buf_reserve(&publisher->in, 4096) : NULL;
        ssize_t got = room ? read(publisher->channel, room, 4096) : -1;
        if (!room)
            return false;
        if (got < 0 && errno == EINTR)
            continue;
        if (got > 0)
            publisher->in.len += (size_t)got;
        return got > 0 || (got < 0 && errno == EAGAIN);
    }
}

/* A new reference, or NULL: there is no whole line. */
static json_t *channel_take_line(struct publisher *publisher)
{
    const char *end = publisher->in.len ? memchr(publisher->in.data, '\n', publisher->in.len) : NULL;
    if (!end)
        return NULL;
    size_t len = (size_t)(end - publisher->in.data);
    json_t *json = json_loadb(publisher->in.data, len, 0, NULL);
    buf_drop(&publisher->in, len + 1);
    return json ? json : json_null();
}

int channel_begin(struct publisher *publisher, struct err *err)
{
    json_t *settings = NULL;
    while (!(settings = channel_take_line(publisher)))
        if (!channel_fill(publisher))
            return err_set(err, -EINVAL, "it is started by scry run and scry publish, which say what to publish");
    char url[PATH_MAX];
    snprintf(url, sizeof url, "%s", member_text(settings, "url"));
    snprintf(publisher->dir, sizeof publisher->dir, "%s", member_text(settings, "dir"));
    snprintf(publisher->job, sizeof publisher->job, "%s", member_text(settings, "job"));
    snprintf(publisher->key_option, sizeof publisher->key_option, "%s", member_text(settings, "key"));
    snprintf(publisher->owner, sizeof publisher->owner, "%s", member_text(settings, "owner"));
    publisher->alone = json_is_true(json_object_get(settings, "alone"));
    publisher->output = json_is_true(json_object_get(settings, "output"));
    const char *hide = json_string_value(json_object_get(settings, "hide"));
    publisher->hide_args = hide ? strdup(hide) : NULL;
    if (hide && !publisher->hide_args)
        publisher->output = false; /* out of memory */
    json_int_t from = json_integer_value(json_object_get(settings, "from"));
    publisher->from = publisher->published = from > 0 ? (uint64_t)from : 0;
    json_decref(settings);
    if (!publisher->dir[0] || !publisher->job[0] || !publisher->owner[0])
        return err_set(err, -EINVAL, "the settings are incomplete");
    int code = broker_url_parse(url, &publisher->url, err);
    explicit_bzero(url, sizeof url);
    if (publisher->in.data)
        explicit_bzero(publisher->in.data, publisher->in.cap);
    return code;
}

void channel_tell(struct publisher *publisher)
{
    bool up = publisher->link && link_is_up(publisher->link), dropped = up && publisher_is_dropped(publisher);
    char refused[256];
    control_refusals(publisher->control, refused, sizeof refused);
    if (dropped)
        snprintf(
            publisher->why, sizeof publisher->why,
            "the broker takes it, and gives nothing of it back: may this user write and read below scry/v1/%.100s?",
            publisher->owner);
    json_t *json = json_pack("{s:s, s:b, s:b, s:b, s:I, s:b, s:s, s:s}", "type", "status", "in_vain",
                             publisher->link && link_is_in_vain(publisher->link), "connected", (int)up, "dropped",
                             (int)dropped, "published", (json_int_t)publisher->published, "complete",
                             publisher->phase >= PUBLISHER_COMPLETE && publisher->heard, "why",
                             up && !dropped ? "" : publisher->why, "refused", refused);
    _cleanup_(freep) char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    if (publisher->channel < 0 || !text || strcmp(text, publisher->told) == 0)
        return;
    struct buf line = BUF_INIT;
    buf_puts(&line, text);
    buf_putc(&line, '\n');
    if (!line.failed && send(publisher->channel, line.data, line.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)line.len)
        snprintf(publisher->told, sizeof publisher->told, "%s", text);
    buf_done(&line);
}

bool channel_read(struct publisher *publisher)
{
    bool there = channel_fill(publisher);
    for (json_t *line; (line = channel_take_line(publisher));) {
        const char *type = json_string_value(json_object_get(line, "type"));
        if (type && strcmp(type, "over") == 0)
            publisher->over_told = true;
        json_decref(line);
    }
    return there;
}

static int64_t last_seq(const struct publisher *publisher)
{
    return (int64_t)publisher->follow.next_seq - 1;
}

/* ---- what comes from the broker. All of it is foreign: it is read with limits, and what is wrong is dropped ---- */

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

/* A row for each kind of topic, which is subscribed to with QoS 1. */
static const struct {
    enum topic_kind kind;
    const char *name, *rest; /* as topic_put takes them */
    void (*message)(struct publisher *publisher, const struct topic *topic, struct span payload);
} handlers[] = {
    {TOPIC_ASK, "ask", NULL, on_ask},
    {TOPIC_BEAT, "beat", NULL, on_own_beat},
    {TOPIC_STATE, "state", NULL, on_own_state},
    {TOPIC_STORED, "stored", "+", on_stored},
    {TOPIC_REVOKED, NULL, NULL, on_revoked}, /* before requests of those in the list can come */
    {TOPIC_REQUEST, "request", NULL, on_request},
};
static const size_t handler_count = sizeof handlers / sizeof *handlers;

/* ---- sending ---- */

/* In place of the payload, `room` with the job's signature behind it, if it has a key. */
static struct span message_sign(const struct publisher *publisher, const char *name, uint64_t last_seq,
                                struct span payload, struct buf *room)
{
    struct topic topic;
    const char *kind = publisher->key && topic_parse(name, &topic) ? topic_signed(&topic) : NULL;
    if (!kind)
        return payload;
    buf_append(room, payload.ptr, payload.len);
    int code = room->failed ? -ENOMEM : signed_put(publisher->key, kind, publisher->job, last_seq, room);
    if (code == 0)
        return span_of(room->data, room->len);
    log_warning("a message of %s is not signed: %s", publisher->job, strerror(-code));
    return payload;
}

/* Everything that is published goes through here, so that it is known what is under way. 0, or as link_publish. */
static int send_one(struct publisher *publisher, const char *name, const char *rest, struct span payload, bool retain,
                    struct sent_one one)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT, room = BUF_INIT;
    if (!sent_has_room(&publisher->sent))
        return -EAGAIN;
    if (strcmp(name, "again") == 0)
        topic_put_again(&topic, publisher->owner, publisher->job, rest, publisher->asks.name);
    else
        topic_put(&topic, publisher->owner, publisher->job, name, rest);
    if (topic.failed)
        return -ENOMEM;
    payload = message_sign(publisher, topic.data, one.end ? one.end - 1 : publisher->asks.last, payload, &room);
    int code = link_publish(publisher->link, topic.data, payload, one.qos0 ? 0 : 1, retain, &one.id);
    if (code == 0 && retain && strcmp(name, "state") == 0) {
        buf_clear(&publisher->state_sent);
        buf_append(&publisher->state_sent, payload.ptr, payload.len);
    }
    if (code == 0)
        sent_add(&publisher->sent, one);
    return code;
}

int publisher_send(struct publisher *publisher, const char *name, const char *rest, struct span payload)
{
    return send_one(publisher, name, rest, payload, false, (struct sent_one){.kind = SENT_OTHER});
}

bool publisher_has_room(const struct publisher *publisher)
{
    return publisher->link && link_is_up(publisher->link) && sent_has_room(&publisher->sent);
}

static int send_state(struct publisher *publisher)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!publisher->about.known)
        return 0;
    about_put_state(&publisher->about, last_seq(publisher), publisher->address, publisher->phase >= PUBLISHER_SAYS,
                    &text);
    int code =
        send_one(publisher, "state", NULL, span_of(text.data, text.len), true, (struct sent_one){.kind = SENT_OTHER});
    if (code == -EMSGSIZE) {
        log_warning("job.json of %s is too long for a message", publisher->dir);
        code = 0;
    }
    return code;
}

static int send_beat(struct publisher *publisher)
{
    bool echoed = publisher->subscribed == handler_count;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    about_put_beat(&publisher->about, publisher->beat + 1, publisher->phase < PUBLISHER_LEAVES, last_seq(publisher),
                   &text);
    int code = send_one(publisher, "beat", NULL, span_of(text.data, text.len), true,
                        (struct sent_one){.kind = echoed ? SENT_BEAT : SENT_OTHER});
    publisher->beat += code == 0;
    return code;
}

/* false: no room for more. */
static bool send_records(struct publisher *publisher, uint64_t now_ns)
{
    struct follow *follow = &publisher->follow;
    while (sent_has_room(&publisher->sent)) {
        bool idle = publisher->sent.under_way == 0 || publisher->phase != PUBLISHER_FOLLOWS;
        const struct batch *batch = follow_next(follow, now_ns, idle);
        if (!batch)
            return true;
        int code = send_one(publisher, batch->name, NULL, span_of(batch->lines.data, batch->lines.len), false,
                            (struct sent_one){.kind = SENT_RECORDS,
                                              .qos0 = batch->figures,
                                              .at = batch->stream,
                                              .first = batch->first_seq,
                                              .end = batch->last_seq + 1,
                                              .offset = batch->offset});
        if (code == -EMSGSIZE)
            log_warning("records %llu to %llu are too long for a message", (unsigned long long)batch->first_seq,
                        (unsigned long long)batch->last_seq);
        else if (code < 0)
            return false;
        follow_sent(follow);
        if (sent_wants_sign(&publisher->sent) && send_beat(publisher) < 0)
            return false;
    }
    return false;
}

static bool send_files(struct publisher *publisher, uint64_t now_ns)
{
    struct files *files = &publisher->files;
    struct file_load *load = &publisher->load;
    for (;;) {
        if (load->parts && load->part == load->parts)
            file_load_done(load);
        if (!load->parts) {
            size_t at = files_wanted(files);
            if (at == files->count)
                return true;
            files->list[at].wanted = false;
            files->list[at].sent_ns = now_ns;
            if (!files_load(files, at, load))
                continue;
        }
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        file_load_message(load, &text);
        int code = !text.len || text.failed
                       ? -EMSGSIZE
                       : send_one(publisher, "file", NULL, span_of(text.data, text.len), false,
                                  (struct sent_one){.kind = SENT_FILE, .at = (unsigned)load->at, .end = load->version});
        if (code < 0 && code != -EMSGSIZE)
            return false;
        files->list[load->at].open_parts += code == 0;
        load->part++;
    }
}

static bool send_answers(struct publisher *publisher, uint64_t now_ns, uint64_t *ret_due_ns)
{
    struct asks *asks = &publisher->asks;
    while (asks_next(asks, &publisher->follow, &publisher->files, now_ns, ret_due_ns)) {
        int code = send_one(publisher, "again", asks->list[0].reader, span_of(asks->message.data, asks->message.len),
                            false, (struct sent_one){.kind = SENT_OTHER});
        if (code < 0 && code != -EMSGSIZE)
            return false;
        asks_sent(asks);
    }
    return true;
}

/* ---- the end ---- */

static void publisher_leave(struct publisher *publisher, bool says)
{
    control_stop(publisher->control, "the job has ended");
    publisher->control = NULL;
    link_close(publisher->link, says);
    publisher->link = NULL;
    loop_stop(publisher->loop);
}

/* Recorders that have begun to store the job and have not all of it. */
static bool is_being_stored(const struct publisher *publisher)
{
    for (size_t i = 0; i < publisher->recorder_count; i++)
        if (!publisher->recorders[i].complete && publisher->recorders[i].last_seq < last_seq(publisher))
            return true;
    return false;
}

/* Everything that there is now was given to the connection. */
static void publisher_advance(struct publisher *publisher, uint64_t now_ns)
{
    if (publisher->phase == PUBLISHER_ENDS && publisher->sent.under_way == 0) {
        publisher->phase = PUBLISHER_SAYS;
        publisher->state_wanted = true;
    } else if (publisher->phase == PUBLISHER_SAYS && !publisher->heard && !publisher_is_dropped(publisher)) {
        return; /* on_message, or `echo`, brings it here again */
    } else if (publisher->phase == PUBLISHER_SAYS && !publisher->state_wanted && publisher->sent.count == 0) {
        publisher->phase = PUBLISHER_COMPLETE;
        publisher->complete_ns = now_ns;
        channel_tell(publisher);
    } else if (publisher->phase == PUBLISHER_LEAVES && !publisher->beat_wanted && publisher->sent.count == 0) {
        publisher->status = !publisher->heard;
        publisher_leave(publisher, true);
        return;
    }
    bool stored = !is_being_stored(publisher) ||
                  now_ns - publisher->complete_ns > time_hasten(PUBLISHER_STORED_SECONDS * (uint64_t)NS_PER_SECOND);
    uint64_t linger_ns = time_hasten((publisher->alone ? PUBLISHER_ALONE_LINGER_MS : PUBLISHER_LINGER_MS) * NS_PER_MS);
    uint64_t last_ns = publisher->asked_ns > publisher->complete_ns ? publisher->asked_ns : publisher->complete_ns;
    bool quiet = !publisher->asks.count && now_ns > last_ns && now_ns - last_ns >= linger_ns;
    if (publisher->phase == PUBLISHER_COMPLETE && !quiet)
        loop_set_timer(publisher->due, linger_ns, 0);
    if (publisher->phase == PUBLISHER_COMPLETE && stored && quiet) {
        publisher->phase = PUBLISHER_LEAVES;
        publisher->beat_wanted = true;
    }
}

static void publisher_pump(void *ctx);

static void publisher_wake(struct publisher *publisher)
{
    if (!publisher->pump)
        publisher->pump = loop_add_deferred(publisher->loop, publisher_pump, publisher);
}

/* Sends what there is to send, as far as there is room; acknowledgements bring it here again. */
static void publisher_pump(void *ctx)
{
    struct publisher *publisher = ctx;
    uint64_t now_ns = clock_now_ns(), asked_ns = 0;
    publisher->pump = NULL;
    if (!publisher->link || !link_is_up(publisher->link))
        return;
    /* The beat first: a job whose state is known, and no beat, would seem to be unreachable. */
    if (publisher->beat_wanted && send_beat(publisher) == 0)
        publisher->beat_wanted = false;
    if (publisher->state_wanted && send_state(publisher) == 0)
        publisher->state_wanted = false;
    control_pump(publisher->control); /* few, and somebody waits for them */
    bool all =
        send_records(publisher, now_ns) && send_files(publisher, now_ns) && send_answers(publisher, now_ns, &asked_ns);
    uint64_t due_ns = follow_due_ns(&publisher->follow);
    due_ns = asked_ns && (!due_ns || asked_ns < due_ns) ? asked_ns : due_ns;
    if (all && due_ns) /* without room, an acknowledgement brings it here again */
        loop_set_timer(publisher->due, due_ns > now_ns ? due_ns - now_ns : 1, 0);
    enum publisher_phase phase = publisher->phase;
    if (all)
        publisher_advance(publisher, now_ns);
    if (publisher->phase != phase && publisher->link)
        publisher_wake(publisher);
}

static void on_due(void *ctx)
{
    publisher_wake(ctx);
}

/* ---- the connection ---- */

static void on_connected(void *ctx, bool session_present)
{
    struct publisher *publisher = ctx;
    (void)session_present;
    log_debug("connected job=%s published=%llu", publisher->job, (unsigned long long)publisher->published);
    publisher->was_up = true;
    publisher->subscribed = 0;
    publisher->echo_ns = 0;
    publisher->why[0] = 0;
    publisher->progress_ns = clock_now_ns();
    for (size_t i = 0; i < handler_count; i++) {
        _cleanup_(buf_done) struct buf topic = BUF_INIT;
        if (handlers[i].kind == TOPIC_REVOKED)
            topic_put_revoked(&topic, publisher->owner);
        else
            topic_put(&topic, publisher->owner, publisher->job, handlers[i].name, handlers[i].rest);
        int id, code = topic.failed ? -ENOMEM : link_subscribe(publisher->link, topic.data, 1, &id);
        if (code < 0)
            log_warning("cannot subscribe to %s: %s", topic.data ? topic.data : "", strerror(-code));
    }
    publisher->state_wanted = publisher->beat_wanted = true;
    channel_tell(publisher);
    publisher_wake(publisher);
}

/* The link sends again what is under way. Figures that the system took are lost, perhaps: they are read again. */
static void on_lost(void *ctx, const char *why)
{
    struct publisher *publisher = ctx;
    uint64_t offset = UINT64_MAX, unsent = follow_unsent(&publisher->follow, publisher->follow.reader.offset);
    for (struct sent_one one; sent_take_figures(&publisher->sent, &one);)
        offset = one.offset < offset ? one.offset : offset;
    if (offset != UINT64_MAX)
        follow_rewind(&publisher->follow, offset < unsent ? offset : unsent);
    if (publisher->phase == PUBLISHER_SAYS)
        publisher->phase = PUBLISHER_ENDS;
    snprintf(publisher->why, sizeof publisher->why, "%s", why ? why : "the connection was lost");
    log_debug("lost job=%s why=%s", publisher->job, LOG_TEXT(publisher->why));
    channel_tell(publisher);
    if (publisher->phase >= PUBLISHER_COMPLETE && !is_being_stored(publisher)) { /* the broker has all of it */
        publisher->status = 0;
        publisher_leave(publisher, false);
    }
}

/* Behind the last record of which, and of all before it, it is known that they are there. */
static void count_published(struct publisher *publisher)
{
    const struct follow *follow = &publisher->follow;
    uint64_t end = follow->ready ? follow->out.first_seq : follow->next_seq;
    for (size_t i = 0; i < FOLLOW_STREAMS; i++)
        if (follow->batches[i].lines.len && follow->batches[i].first_seq < end)
            end = follow->batches[i].first_seq;
    for (size_t i = 0; i < publisher->sent.count; i++)
        if (publisher->sent.list[i].kind == SENT_RECORDS && publisher->sent.list[i].first < end)
            end = publisher->sent.list[i].first;
    if (end > publisher->published)
        publisher->published = end;
}

static void on_published(void *ctx, int id)
{
    struct publisher *publisher = ctx;
    struct sent_one one;
    sent_over(&publisher->sent, id);
    while (sent_take(&publisher->sent, &one)) {
        if (one.kind == SENT_RECORDS)
            follow_confirm(&publisher->follow, one.at, one.end);
        if (one.kind == SENT_FILE && publisher->files.list[one.at].open_parts)
            publisher->files.list[one.at].open_parts--;
        if (one.kind == SENT_BEAT && !publisher->echo_ns) {
            publisher->echo_ns = clock_now_ns();
            loop_set_timer(publisher->echo, time_hasten(PUBLISHER_HEARD_MS * NS_PER_MS), 0);
        }
    }
    count_published(publisher);
    publisher->progress_ns = clock_now_ns();
    publisher_wake(publisher);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct publisher *publisher = ctx;
    (void)id;
    if (!granted)
        log_warning("the broker refuses what readers of %s may ask for", publisher->job);
    if (++publisher->subscribed == handler_count)
        publisher->beat_wanted = true; /* this one comes back */
    publisher_wake(publisher);
}

static void on_message(void *ctx, const char *text, struct span payload, bool retained)
{
    struct publisher *publisher = ctx;
    struct topic topic;
    if (!topic_parse(text, &topic) || strcmp(topic.owner, publisher->owner) != 0 ||
        (topic.kind != TOPIC_REVOKED && strcmp(topic.job, publisher->job) != 0))
        return;
    if (retained && topic.kind == TOPIC_STATE) /* from before: its own comes now */
        return;
    for (size_t i = 0; i < handler_count; i++)
        if (handlers[i].kind == topic.kind)
            handlers[i].message(publisher, &topic, payload);
    publisher_wake(publisher);
}

/* ---- the job ---- */

static void publisher_watch_spool(struct publisher *publisher)
{
    _cleanup_(buf_done) struct buf path = BUF_INIT;
    struct err err = {0};
    uint64_t from = publisher->from;
    if (publisher->follow.open || follow_open(&publisher->follow, publisher->dir, &err) < 0)
        return;
    for (unsigned i = 0; i < FOLLOW_STREAMS && from; i++)
        follow_confirm(&publisher->follow, i, from);
    buf_printf(&path, "%s/spool/records.jsonl", publisher->dir);
    if (publisher->watch_fd >= 0 && !path.failed)
        inotify_add_watch(publisher->watch_fd, path.data, IN_MODIFY); /* without: each tick */
}

/* The spool has grown. */
static void on_grown(void *ctx)
{
    struct publisher *publisher = ctx;
    char events[4096];
    ssize_t got = read(publisher->watch_fd, events, sizeof events);
    (void)got; /* what happened is of no interest */
    publisher_wake(publisher);
}

/* Whoever writes the directory is done with it. */
static bool is_written(struct publisher *publisher, uint64_t now_ns)
{
    char path[PATH_MAX + 16];
    if (!about_is_over(&publisher->about))
        return false;
    if (!publisher->over_ns)
        publisher->over_ns = now_ns;
    snprintf(path, sizeof path, "%s/report.txt", publisher->dir);
    bool done = publisher->over_told || publisher->about.state == JOB_LOST ||
                (publisher->channel < 0 && access(path, F_OK) == 0);
    return (done && !publisher->files.parts_come) ||
           now_ns - publisher->over_ns > time_hasten(PUBLISHER_REPORT_SECONDS * (uint64_t)NS_PER_SECOND);
}

static void publisher_look(struct publisher *publisher)
{
    uint64_t now_ns = clock_now_ns();
    publisher_watch_spool(publisher);
    if (about_look(&publisher->about))
        publisher->state_wanted = true;
    if (publisher->phase == PUBLISHER_FOLLOWS)
        files_look(&publisher->files, now_ns, false);
    if (publisher->phase == PUBLISHER_FOLLOWS && is_written(publisher, now_ns)) {
        publisher->phase = PUBLISHER_ENDS;
        if (publisher->link) /* a broker that was long away may be there, and nobody waits much longer */
            link_hurry(publisher->link);
    }
    if (publisher->phase == PUBLISHER_ENDS)
        files_look(&publisher->files, now_ns, true);
    publisher_wake(publisher);
}

static void publisher_give_up(struct publisher *publisher)
{
    if (!publisher->why[0])
        snprintf(publisher->why, sizeof publisher->why, "the broker does not answer");
    publisher_leave(publisher, false); /* the last will says that nobody publishes it any more */
}

static void on_tick(void *ctx)
{
    struct publisher *publisher = ctx;
    if (publisher->overwritten) /* once a tick, whoever goes on with it */
        publisher->state_wanted = true;
    publisher->overwritten = false;
    publisher_look(publisher);
    channel_tell(publisher);
    uint64_t now_ns = clock_now_ns();
    uint64_t alone_ns =
                 (publisher->was_up ? PUBLISHER_ALONE_SECONDS : PUBLISHER_NEVER_SECONDS) * (uint64_t)NS_PER_SECOND,
             left_ns = PUBLISHER_LEFT_SECONDS * (uint64_t)NS_PER_SECOND;
    bool ends = publisher->phase != PUBLISHER_FOLLOWS;
    bool late = publisher->alone
                    ? (ends || !publisher->was_up) && now_ns - publisher->progress_ns > time_hasten(alone_ns)
                    : publisher->over_ns && now_ns - publisher->over_ns > time_hasten(left_ns);
    if (late && publisher->link)
        publisher_give_up(publisher);
}

static void on_echo_late(void *ctx)
{
    struct publisher *publisher = ctx;
    channel_tell(publisher);
    publisher_wake(publisher);
}

static void on_beat(void *ctx)
{
    struct publisher *publisher = ctx;
    if (publisher->phase < PUBLISHER_LEAVES)
        publisher->beat_wanted = true;
    publisher_wake(publisher);
}

static void on_channel(void *ctx, int fd, uint32_t events)
{
    struct publisher *publisher = ctx;
    (void)fd, (void)events;
    if (!channel_read(publisher)) {
        loop_remove(publisher->channel_source);
        close(publisher->channel);
        publisher->channel = -1;
    }
    publisher_look(publisher);
}

static int open_link(struct publisher *publisher, struct err *err)
{
    static const struct link_events events = {on_connected, on_lost, on_published, on_subscribed, on_message};
    _cleanup_(buf_done) struct buf will = BUF_INIT, topic = BUF_INIT, client = BUF_INIT, room = BUF_INIT;
    about_put_beat(&publisher->about, 0, false, last_seq(publisher), &will);
    topic_put(&topic, publisher->owner, publisher->job, "beat", NULL);
    struct span said = span_of(will.data, will.len);
    if (!will.failed && !topic.failed)
        said = message_sign(publisher, topic.data, 0, said, &room);
    buf_puts(&client, publisher->alone ? "scry-again-" : "scry-job-");
    topic_put_level(&client, publisher->job);
    if (will.failed || topic.failed || client.failed)
        return err_set(err, -ENOMEM, "out of memory");
    struct link_options options = {.url = &publisher->url,
                                   .client = client.data,
                                   .what = "publisher of this job",
                                   .will_topic = topic.data,
                                   .will = said,
                                   .events = &events,
                                   .ctx = publisher};
    return link_open(&publisher->link, publisher->loop, &options, err);
}

/* Without a key, nothing that is sent is signed, and the job takes no requests. */
static void publisher_read_key(struct publisher *publisher)
{
    const char *option = publisher->key_option[0] ? publisher->key_option : NULL;
    struct err err = {0};
    if (key_for_job(publisher->job, option, &publisher->key, &err) < 0 && err.text[0] && !publisher->alone)
        log_warning("%s takes no requests through the broker, and signs nothing: %s", publisher->job, err.text);
    explicit_bzero(publisher->key_option, sizeof publisher->key_option);
}

static int publisher_begin(struct publisher *publisher, struct err *err)
{
    struct loop *loop = publisher->loop;
    files_init(&publisher->files, publisher->dir, publisher->output ? &publisher->about.info : NULL,
               publisher->hide_args);
    asks_init(&publisher->asks, publisher->dir);
    publisher->about = (struct about){.dir = publisher->dir, .owner = publisher->owner};
    publisher->progress_ns = clock_now_ns();
    publisher->watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (publisher->watch_fd >= 0)
        publisher->watch = throttle_new(loop, publisher->watch_fd, PUBLISHER_GROWN_NS, on_grown, publisher);
    publisher->due = loop_add_timer(loop, UINT64_MAX / 4, 0, on_due, publisher);
    publisher->echo = loop_add_timer(loop, UINT64_MAX / 4, 0, on_echo_late, publisher);
    publisher->tick =
        loop_add_timer(loop, time_hasten(PUBLISHER_TICK_NS), time_hasten(PUBLISHER_TICK_NS), on_tick, publisher);
    publisher->beats = loop_add_timer(loop, PUBLISH_BEAT_SECONDS * (uint64_t)NS_PER_SECOND,
                                      PUBLISH_BEAT_SECONDS * (uint64_t)NS_PER_SECOND, on_beat, publisher);
    if (publisher->channel >= 0)
        publisher->channel_source = loop_add_fd(loop, publisher->channel, EPOLLIN, on_channel, publisher);
    if (!publisher->due || !publisher->echo || !publisher->tick || !publisher->beats)
        return err_set(err, -ENOMEM, "out of memory");
    publisher_look(publisher);
    publisher_read_key(publisher);
    if (!publisher->alone)
        control_start(publisher, &publisher->control);
    return open_link(publisher, err);
}

int publisher_run(struct publisher *publisher)
{
    struct err err = {0};
    publisher->status = 1;
    int code = loop_new(&publisher->loop);
    if (code < 0)
        err_errno(&err, code, "cannot start");
    else if (publisher_begin(publisher, &err) == 0 && (code = loop_run(publisher->loop)) < 0)
        err_errno(&err, code, "cannot wait");
    if (err.code) {
        snprintf(publisher->why, sizeof publisher->why, "%.255s", err.text);
        channel_tell(publisher);
    }
    control_stop(publisher->control, "the job is not published any more");
    if (publisher->link)
        link_close(publisher->link, false);
    if (publisher->channel >= 0)
        channel_tell(publisher);
    throttle_free(publisher->watch);
    if (publisher->watch_fd >= 0)
        close(publisher->watch_fd);
    asks_clear(&publisher->asks);
    follow_done(&publisher->follow);
    file_load_done(&publisher->load);
    publisher->file_count = publisher->files.count;
    files_done(&publisher->files);
    about_done(&publisher->about);
    buf_done(&publisher->state_sent);
    key_free(publisher->key);
    loop_free(publisher->loop);
    return publisher->status;
}
