/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-mirror relay: a tool's frames, as they would go to a monitor, through a broker to a job and back. Standard input is
 * a socket of libomis, which started us: first the URL, as a line, then frames in both directions. What cannot be done is
 * said by FRAME_GOODBYE, as a monitor does. The other end is publish/control.c.
 *
 * The messages can be opened by the job alone, and are valid until a time by its clock. That is asked for first, with a
 * message that does nothing: whoever can keep messages back, or lie about the time in beats, cannot have a request carried
 * out hours later.
 */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/text/fields.h"
#include "keys/sealed.h"
#include "mirror/states.h"
#include "shm/waits.h"
#include "wire/channel.h"
#include "wire/frame.h"
#include "wire/stream.h"

enum { WAITING_BYTES = 1 << 20 };

struct relay {
    struct reader *reader;
    struct states states;
    struct key *key;
    struct sealed_box *box;
    struct channel channel;
    struct buf address, revoked, out; /* out: what the tool has not read */
    char job[TOPIC_LEVEL_SIZE], session[2 * CHANNEL_SESSION + 1], refused[256];
    int64_t clock; /* of the job, seconds before ours */
    bool found, answered, over;
    uint64_t asked_ns;
    struct loop_source *input, *timer;
};

static void relay_pump(struct relay *relay);
static void relay_update_input(struct relay *relay);

/* ---- the tool ---- */

static void relay_flush(struct relay *relay)
{
    int code = local_send(STDIN_FILENO, &relay->out);
    if (code < 0 && code != -EAGAIN)
        relay->over = true;
    if (relay->over && code != -EAGAIN)
        loop_stop(relay->reader->loop);
}

/* The tool is told why, and nothing more is done. A frame that has only begun is lost with all before it. */
static void relay_give_up(struct relay *relay, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void relay_give_up(struct relay *relay, const char *format, ...)
{
    char why[512];
    va_list args;
    if (relay->over)
        return;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    frame_append(&relay->out, FRAME_GOODBYE, 0, 0, span_str(why), span_of("", 0));
    relay->over = true;
    relay->reader->status = 1;
    relay_flush(relay);
    relay_update_input(relay);
}

int relay_refuse(const struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    frame_append(&out, FRAME_GOODBYE, 0, 0, span_str(err->text), span_of("", 0));
    if (!out.failed && send(STDIN_FILENO, out.data, out.len, MSG_NOSIGNAL) < 0)
        return 1;
    return 1;
}

static void relay_update_input(struct relay *relay)
{
    bool reads = relay->answered && !relay->over && channel_waiting(&relay->channel) < WAITING_BYTES;
    if (relay->input)
        loop_set_events(relay->input, (reads ? (uint32_t)EPOLLIN : 0u) | (relay->out.len ? (uint32_t)EPOLLOUT : 0u));
}

/* Before the job has answered, frames wait in the socket. */
static void relay_read_tool(struct relay *relay)
{
    size_t waiting = channel_waiting(&relay->channel);
    if (!relay->answered || waiting >= WAITING_BYTES ||
        local_receive(STDIN_FILENO, &relay->channel.out, WAITING_BYTES - waiting) == 0)
        return;
    relay->over = true;
    loop_stop(relay->reader->loop);
}

static void on_input(void *ctx, int fd, uint32_t events)
{
    struct relay *relay = ctx;
    (void)fd;
    if (events & (EPOLLHUP | EPOLLERR)) {
        relay_read_tool(relay);
        relay->over = true;
        loop_stop(relay->reader->loop);
        return;
    }
    relay_flush(relay);
    relay_read_tool(relay);
    relay_pump(relay);
}

/* ---- the job ---- */

static time_t job_time(const struct relay *relay)
{
    return time(NULL) + (time_t)relay->clock;
}

/* 0; -EAGAIN: it is not sent now, and repeated. */
static int relay_send(struct relay *relay, struct span text)
{
    _cleanup_(buf_done) struct buf sealed = BUF_INIT, topic = BUF_INIT;
    uint8_t nonce[16];
    struct err err = {0};
    struct span address = span_of(relay->address.data, relay->address.len);
    int code = sealed_put(relay->box, address, NULL, job_time(relay) + RELAY_VALID_SECONDS, text, &sealed, nonce, &err);
    if (code < 0) {
        relay_give_up(relay, "the job %s cannot be asked: %s", relay->job, err.text);
        return code;
    }
    topic_put(&topic, relay->reader->owner, relay->job, "request", NULL);
    return topic.failed
               ? -EAGAIN
               : link_publish(relay->reader->link, topic.data, span_of(sealed.data, sealed.len), 1, false, NULL);
}

/* How long nothing came of the job. */
static double relay_silence(const struct relay *relay)
{
    uint64_t since = relay->answered ? relay->channel.heard_ns : relay->asked_ns;
    return (double)(clock_now_ns() - since) / 1e9;
}

static void relay_look_at_silence(struct relay *relay)
{
    if (relay_silence(relay) * 1e3 < time_hasten(wait_policies[WAIT_RELAY].limit_ms))
        return;
    if (!link_is_up(relay->reader->link))
        relay_give_up(relay, "the job %s is unreachable: the connection to the broker %s was lost: %s", relay->job,
                      relay->reader->via, relay->reader->last_loss);
    else if (relay->answered)
        relay_give_up(relay, "the job %s is unreachable: nothing was heard of its node for %.0f s", relay->job,
                      relay_silence(relay));
    else
        relay_give_up(
            relay,
            "the job %s does not answer: it is unreachable, or it does not take this key (`scry keys list` shows "
            "whether it is revoked)%s%s",
            relay->job, relay->refused[0] ? "; an answer was refused: " : "", relay->refused);
}

static void relay_pump(struct relay *relay)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    uint64_t now = clock_now_ns(), when = now + NS_PER_SECOND;
    if (!relay->found || relay->over)
        return;
    relay_look_at_silence(relay);
    while (!relay->over && link_is_up(relay->reader->link) &&
           channel_next(&relay->channel, now, time_hasten(relay->answered ? RELAY_QUIET_NS : RELAY_ASK_NS), &text,
                        &when) &&
           relay_send(relay, span_of(text.data, text.len)) == 0)
        ;
    uint64_t soon = now + NS_PER_SECOND;
    when = when < soon ? when : soon;
    loop_set_timer(relay->timer, when > now ? when - now : 1, 0);
    relay_update_input(relay);
}

static void on_timer(void *ctx)
{
    relay_pump(ctx);
}

static void relay_write_tool(struct relay *relay)
{
    while (relay->channel.in.len && relay->out.len < WAITING_BYTES) {
        size_t len = relay->channel.in.len;
        buf_append(&relay->out, relay->channel.in.data, len);
        if (relay->out.failed || channel_drop(&relay->channel, len) < 0)
            relay_give_up(relay, "out of memory");
        relay_flush(relay);
        if (relay->over)
            return;
    }
}

static void relay_take_reply(struct relay *relay, struct span payload)
{
    _cleanup_(buf_done) struct buf room = BUF_INIT;
    struct sealed_sender sender;
    struct channel_header header;
    struct span text;
    enum sealed_refusal refusal =
        sealed_open(relay->box, payload, job_time(relay), relay->channel.session, &room, &text, &sender);
    if ((refusal == SEALED_EXPIRED || refusal == SEALED_HOUR) &&
        !relay->answered) /* its clock is another one: by the beats */
        snprintf(relay->refused, sizeof relay->refused, "%s", sealed_refusal_name(refusal));
    if (refusal != SEALED_FINE || channel_parse(text, &header) < 0 ||
        memcmp(header.session, relay->channel.session, CHANNEL_SESSION) != 0)
        return;
    if (header.what == CHANNEL_END) {
        relay_give_up(relay, "%.*s", SPAN_ARG(header.bytes));
        return;
    }
    int64_t clock = channel_clock(&header);
    if (clock)
        relay->clock = clock - (int64_t)time(NULL);
    if (channel_take(&relay->channel, &header, clock_now_ns()) < 0) {
        relay_give_up(relay, "what answers for the job is no scry of this version");
        return;
    }
    relay->answered |= clock != 0;
    relay_write_tool(relay);
    if (!relay->over)
        relay_read_tool(relay);
    relay_pump(relay);
}

/* ---- what is known of the job ---- */

static void relay_take_clock(struct relay *relay, const struct state *job)
{
    double time_there = json_number_value(json_object_get(job->beat, "time"));
    /* The job's own answers tell it better, but none comes if that clock was set: all that is asked has expired then. */
    bool silent = clock_now_ns() - relay->channel.heard_ns > 2 * time_hasten(RELAY_QUIET_NS);
    if ((!relay->answered || silent) && time_there > 0 && time_there < 1e11)
        relay->clock = (int64_t)time_there - (int64_t)time(NULL);
}

static void relay_subscribe(struct relay *relay)
{
    _cleanup_(buf_done) struct buf topic = BUF_INIT, revoked = BUF_INIT;
    topic_put(&topic, relay->reader->owner, relay->job, "reply", relay->session);
    topic_put_revoked(&revoked, relay->reader->owner);
    if (topic.failed || revoked.failed || link_subscribe(relay->reader->link, topic.data, 1, NULL) < 0 ||
        link_subscribe(relay->reader->link, revoked.data, 1, NULL) < 0)
        relay_give_up(relay, "out of memory");
}

static void relay_take_revoked(struct relay *relay, struct span payload)
{
    struct err err;
    buf_clear(&relay->revoked);
    buf_append(&relay->revoked, payload.ptr, payload.len);
    if (relay->box && sealed_box_revoke(relay->box, payload, &err) == 0 && sealed_box_is_revoked(relay->box))
        relay_give_up(relay, "this key was revoked: `scry keys issue` makes another one");
}

/* The job that is meant is known: begins to ask it. */
static void on_all_came(void *ctx)
{
    struct relay *relay = ctx;
    struct err err = {0};
    if (relay->found)
        return;
    const struct state *job = states_find(&relay->states, relay->reader->url.job, &err);
    if (!job) {
        relay_give_up(relay, "%s", err.text);
        return;
    }
    const char *address = member_text(job->state, "address");
    const char *state = member_text(job->state, "state"),
               *name = member_text(json_object_get(job->state, "info"), "name");
    snprintf(relay->job, sizeof relay->job, "%s", job->job);
    if (*state && strcmp(state, "running") != 0) {
        relay_give_up(relay, "the job %s is over: %s", job->job, state);
        return;
    }
    if (!*address) {
        relay_give_up(relay,
                      "the job %s takes no requests: it was started without a key (`scry keys init`, before the job)",
                      job->job);
        return;
    }
    relay_take_clock(relay, job);
    if (sealed_box_new(&relay->box, relay->key, job->job, name, &err) < 0) {
        relay_give_up(relay, "%s", err.text);
        return;
    }
    buf_puts(&relay->address, address);
    relay->found = true;
    relay->asked_ns = clock_now_ns();
    relay->channel.owes = true; /* the first message: it only asks */
    if (relay->revoked.len)
        relay_take_revoked(relay, span_of(relay->revoked.data, relay->revoked.len));
    if (!relay->over)
        relay_subscribe(relay);
    relay_pump(relay);
}

/* The job was published anew, by a program that knows nothing of our session; or is over. */
static void relay_look_at_state(struct relay *relay)
{
    struct state *job;
    HASH_FIND_STR(relay->states.jobs, relay->job, job);
    if (!relay->found || !job || !job->state)
        return;
    const char *address = member_text(job->state, "address");
    if (*address && !span_is(span_of(relay->address.data, relay->address.len), address))
        relay_give_up(relay, "the job %s is published by another program since: connect again", relay->job);
    else
        relay_take_clock(relay, job);
}

/* ---- the broker ---- */

static void on_connected(void *ctx, bool session_present)
{
    struct relay *relay = ctx;
    _cleanup_(buf_done) struct buf revoked = BUF_INIT;
    (void)session_present;
    if (relay->found) {
        reader_subscribe(relay->reader, relay->job, "state", 1);
        relay_subscribe(relay);
        relay_pump(relay);
        return;
    }
    topic_put_revoked(&revoked, relay->reader->owner);
    if (!revoked.failed)
        link_subscribe(relay->reader->link, revoked.data, 1, NULL);
    states_start(&relay->states, NULL);
}

static void on_lost(void *ctx, const char *why)
{
    struct relay *relay = ctx;
    snprintf(relay->reader->last_loss, sizeof relay->reader->last_loss, "%s", why);
    if (link_is_in_vain(relay->reader->link))
        relay_give_up(relay, "the broker %s: %s", relay->reader->via, why);
    states_stop(&relay->states);
}

static void on_subscribed(void *ctx, int id, bool granted)
{
    struct relay *relay = ctx;
    if (granted)
        states_subscribed(&relay->states, id);
    else
        relay_give_up(relay, "the broker %s does not let you read jobs of %s", relay->reader->via,
                      relay->reader->owner);
}

static void on_message(void *ctx, const char *name, struct span payload, bool retained)
{
    struct relay *relay = ctx;
    struct topic topic;
    if (relay->over || !topic_parse(name, &topic) || strcmp(topic.owner, relay->reader->owner) != 0)
        return;
    if (topic.kind == TOPIC_REVOKED) {
        relay_take_revoked(relay, payload);
    } else if (topic.kind == TOPIC_REPLY) {
        if (relay->found && strcmp(topic.rest, relay->session) == 0)
            relay_take_reply(relay, payload);
    } else if (!relay->found || strcmp(topic.job, relay->job) == 0) {
        states_message(&relay->states, &topic, payload, retained);
        relay_look_at_state(relay);
    }
}

static void on_timeout(void *ctx)
{
    struct relay *relay = ctx;
    if (!relay->found)
        relay_give_up(relay, "the broker %s does not answer%s%s", relay->reader->via,
                      relay->reader->last_loss[0] ? ": " : "", relay->reader->last_loss);
}

/* ---- the whole ---- */

static int relay_begin(struct relay *relay, struct err *err)
{
    static const struct link_events events = {.connected = on_connected,
                                              .lost = on_lost,
                                              .published = reader_published,
                                              .subscribed = on_subscribed,
                                              .message = on_message};
    struct reader *reader = relay->reader;
    uint8_t session[CHANNEL_SESSION];
    int code = key_own(&relay->key, err);
    if (code < 0)
        return code;
    if (getrandom(session, sizeof session, 0) != sizeof session)
        return err_errno(err, -errno, "no random numbers");
    for (size_t i = 0; i < sizeof session; i++)
        snprintf(relay->session + 2 * i, 3, "%02x", session[i]);
    channel_init(&relay->channel, session, false, clock_now_ns());
    relay->states = (struct states){.reader = reader, .beats_too = true, .all_came = on_all_came, .ctx = relay};
    relay->input = loop_add_fd(reader->loop, STDIN_FILENO, 0, on_input, relay);
    relay->timer = loop_add_timer(reader->loop, UINT64_MAX / 4, 0, on_timer, relay);
    if (!relay->input || !relay->timer ||
        !loop_add_timer(reader->loop, time_hasten(RELAY_BROKER_SECONDS * (uint64_t)NS_PER_SECOND), 0, on_timeout,
                        relay))
        return err_set(err, -ENOMEM, "out of memory");
    return reader_connect(reader, &events, relay, err);
}

/* The job's end need not wait until nothing is heard any more. */
static void relay_say_end(struct relay *relay)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!relay->answered || !link_is_up(relay->reader->link))
        return;
    relay->over = true; /* nobody is told if this fails */
    channel_put_end(&text, relay->channel.session, "");
    if (!text.failed && relay_send(relay, span_of(text.data, text.len)) == 0)
        for (int i = 0; i < 20 && link_in_flight(relay->reader->link); i++)
            loop_step(relay->reader->loop, NS_PER_SECOND / 20);
}

int relay_run(struct reader *reader)
{
    struct relay relay = {.reader = reader};
    struct err err = {0};
    if (relay_begin(&relay, &err) < 0)
        reader->status = relay_refuse(&err);
    else if (loop_run(reader->loop) < 0)
        reader->status = 1;
    relay_say_end(&relay);
    states_done(&relay.states);
    channel_done(&relay.channel);
    sealed_box_free(relay.box);
    key_free(relay.key);
    buf_done(&relay.address);
    buf_done(&relay.revoked);
    buf_done(&relay.out);
    return reader->status;
}
