/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/publisher.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "keys/sealed.h"
#include "shm/waits.h"
#include "wire/channel.h"
#include "wire/frame.h"
#include "wire/stream.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    CONTROL_KEY_SESSIONS = 8,      /* of one key, so that it locks out nobody else */
    CONTROL_SESSIONS = 32,         /* at once */
    CONTROL_FRAME_BYTES = 1 << 20, /* of a request; a longer one ends the session */
    CONTROL_WAITING_BYTES =
        1 << 20,       /* of answers that are not there yet; no more are read from the monitor meanwhile */
    CONTROL_OVER = 64, /* sessions that were over last: they are not begun again by what comes late */
};

struct control_session {
    struct control *control;
    struct channel channel;
    struct key_about who;
    struct buf address; /* of the other end */
    char name[2 * CHANNEL_SESSION + 1];
    int fd; /* to the monitor; -1: it has closed */
    struct loop_source *source;
    struct buf out;      /* what the monitor has not read */
    uint64_t frame_left; /* bytes of the request that is being handed on */
    bool closing;        /* when all has arrived, it is over */
    struct control_session *next;
};

struct control {
    struct publisher *publisher;
    struct sealed_box *box;
    struct buf address;
    struct control_session *sessions;
    unsigned count, over_next;
    uint64_t checked_ns; /* when the keys of the sessions were looked at last */
    uint8_t over[CONTROL_OVER][CHANNEL_SESSION];
    struct loop_source *timer;
    uint64_t said_ns, said; /* refusals in the log: when, and how many there were, */
    uint64_t said_hours;    /* and of those the ones of another hour */
};

static void session_advance(struct control_session *session);

/* ---- sealed messages ---- */

/* To the other end, whose key is valid until then. 0; -EAGAIN: later; other errors: its key is not taken any more. */
static int control_send(struct control *control, struct span address, time_t until,
                        const uint8_t session[CHANNEL_SESSION], const char *name, struct span text)
{
    _cleanup_(buf_done) struct buf sealed = BUF_INIT;
    uint8_t nonce[16];
    struct err err;
    if (!link_is_up(control->publisher->link))
        return -EAGAIN;
    time_t expires = time(NULL) + CONTROL_ANSWER_SECONDS;
    expires = until < expires ? until : expires;
    int code = sealed_put(control->box, address, session, expires, text, &sealed, nonce, &err);
    if (code < 0)
        return code;
    code = publisher_send(control->publisher, "reply", name, span_of(sealed.data, sealed.len));
    return code == -ENOTCONN || code == -ENOMEM ? -EAGAIN : code;
}

static void session_put_name(const uint8_t session[CHANNEL_SESSION], char ret_name[2 * CHANNEL_SESSION + 1])
{
    for (size_t i = 0; i < CHANNEL_SESSION; i++)
        snprintf(ret_name + 2 * i, 3, "%02x", session[i]);
}

static void control_send_end(struct control *control, struct span address, time_t until,
                             const uint8_t session[CHANNEL_SESSION], const char *why)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char name[2 * CHANNEL_SESSION + 1];
    session_put_name(session, name);
    channel_put_end(&text, session, why);
    if (!text.failed)
        control_send(control, address, until, session, name,
                     span_of(text.data, text.len)); /* lost: it hears nothing more */
}

/* ---- sessions ---- */

static void session_free(struct control_session *session)
{
    struct control *control = session->control;
    struct control_session **at = &control->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    control->count--;
    memcpy(control->over[control->over_next++ % CONTROL_OVER], session->channel.session, CHANNEL_SESSION);
    loop_remove(session->source);
    if (session->fd >= 0)
        close(session->fd);
    channel_done(&session->channel);
    buf_done(&session->address);
    buf_done(&session->out);
    free(session);
}

/* Over, with a reason for the other end; NULL: it knows, or must not be told. */
static void session_end(struct control_session *session, const char *why)
{
    log_info("control session=%s key=%s state=over why=%s", session->name, session->who.serial,
             LOG_TEXT(why ? why : "the other end closed it"));
    if (why)
        control_send_end(session->control, span_of(session->address.data, session->address.len), session->who.until,
                         session->channel.session, why);
    session_free(session);
}

static void session_close_monitor(struct control_session *session)
{
    loop_remove(session->source);
    session->source = NULL;
    if (session->fd >= 0)
        close(session->fd);
    session->fd = -1;
    session->closing = true;
}

/* How much of what came may be handed on: whole parts of requests that are not too long. -EMSGSIZE: one is. */
static ssize_t session_passable(struct control_session *session)
{
    const struct buf *in = &session->channel.in;
    size_t bytes = 0;
    for (;;) {
        size_t part = in->len - bytes < session->frame_left ? in->len - bytes : (size_t)session->frame_left;
        bytes += part;
        session->frame_left -= part;
        if (session->frame_left || in->len - bytes < FRAME_HEADER_SIZE)
            return (ssize_t)bytes;
        uint32_t len;
        memcpy(&len, in->data + bytes, sizeof len);
        if (le32toh(len) > CONTROL_FRAME_BYTES)
            return -EMSGSIZE;
        session->frame_left = FRAME_HEADER_SIZE + (uint64_t)le32toh(len);
    }
}

/* From the other end to the monitor. false: the session is over. */
static bool session_write_monitor(struct control_session *session)
{
    for (;;) {
        /* One that has closed: what it said before is read first. */
        if (session->fd >= 0 && local_send(session->fd, &session->out) == -EAGAIN)
            return true;
        ssize_t bytes = session_passable(session);
        if (bytes < 0) {
            session_end(session, "a request through a broker has at most 1 MB");
            return false;
        }
        if (!bytes)
            return true;
        if (session->fd >= 0)
            buf_append(&session->out, session->channel.in.data, (size_t)bytes);
        if (session->out.failed || channel_drop(&session->channel, (size_t)bytes) < 0) {
            session_end(session, "out of memory at the job's node");
            return false;
        }
        if (session->fd >= 0 && session->out.len > CONTROL_FRAME_BYTES)
            return true;
    }
}

static void session_update_events(struct control_session *session)
{
    bool full = channel_waiting(&session->channel) >= CONTROL_WAITING_BYTES;
    if (session->source)
        loop_set_events(session->source,
                        (full ? 0u : (uint32_t)EPOLLIN) | (session->out.len ? (uint32_t)EPOLLOUT : 0u));
}

/* From the monitor to the other end. */
static void session_read_monitor(struct control_session *session)
{
    size_t waiting = channel_waiting(&session->channel);
    if (session->fd >= 0 && waiting < CONTROL_WAITING_BYTES &&
        local_receive(session->fd, &session->channel.out, CONTROL_WAITING_BYTES - waiting) < 0)
        session_close_monitor(session);
}

static void on_monitor(void *ctx, int fd, uint32_t events)
{
    struct control_session *session = ctx;
    (void)fd;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        session_read_monitor(session);
    session_advance(session);
}

/* ---- beginning ---- */

static int connect_monitor(struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 16];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    snprintf(path, sizeof path, "%s/monitor.sock", dir);
    return local_connect(path, err);
}

static struct control_session *session_new(struct control *control, const struct channel_header *header,
                                           const struct sealed_sender *sender, struct err *err)
{
    int fd = connect_monitor(err);
    if (fd < 0) {
        err_set(err, fd, "no monitor runs on the job's node");
        return NULL;
    }
    struct control_session *session = calloc(1, sizeof *session);
    if (!session) {
        close(fd);
        err_set(err, -ENOMEM, "out of memory at the job's node");
        return NULL;
    }
    session->control = control;
    session->fd = fd;
    session->who = sender->about;
    session->next = control->sessions;
    control->sessions = session;
    control->count++;
    channel_init(&session->channel, header->session, true, clock_now_ns());
    session->channel.owes = true; /* the other end waits for our clock */
    session_put_name(header->session, session->name);
    buf_append(&session->address, sender->address.ptr, sender->address.len);
    /* The first thing that the monitor hears, before anything of the other end. */
    frame_append_confine(&session->out, session->who.rights, control->publisher->dir, session->who.name,
                         session->who.serial);
    session->source = loop_add_fd(control->publisher->loop, fd, EPOLLIN, on_monitor, session);
    if (!session->source || session->address.failed || session->out.failed) {
        session_free(session);
        err_set(err, -ENOMEM, "out of memory at the job's node");
        return NULL;
    }
    log_info("control session=%s key=%s name=%s rights=%u state=begun", session->name, session->who.serial,
             LOG_TEXT(session->who.name), session->who.rights);
    return session;
}

static bool session_was_over(const struct control *control, const uint8_t session[CHANNEL_SESSION])
{
    for (size_t i = 0; i < CONTROL_OVER; i++)
        if (memcmp(control->over[i], session, CHANNEL_SESSION) == 0)
            return true;
    return false;
}

static struct control_session *session_find(const struct control *control, const uint8_t session[CHANNEL_SESSION])
{
    struct control_session *at = control->sessions;
    while (at && memcmp(at->channel.session, session, CHANNEL_SESSION) != 0)
        at = at->next;
    return at;
}

static unsigned sessions_of(const struct control *control, const char *serial)
{
    unsigned count = 0;
    for (const struct control_session *at = control->sessions; at; at = at->next)
        count += strcmp(at->who.serial, serial) == 0;
    return count;
}

static struct control_session *session_begin(struct control *control, const struct channel_header *header,
                                             const struct sealed_sender *sender)
{
    struct err err = {0};
    struct control_session *session = NULL;
    if (session_was_over(control, header->session) ||
        header->number) /* it begins with nothing that could be done late */
        err_set(&err, -ECONNRESET, "the job's end knows no such session any more");
    else if (control->count >= CONTROL_SESSIONS)
        err_set(&err, -EBUSY, "%d others speak with the job already", CONTROL_SESSIONS);
    else if (sessions_of(control, sender->about.serial) >= CONTROL_KEY_SESSIONS)
        err_set(&err, -EBUSY, "this key has %d sessions with the job already: end one", CONTROL_KEY_SESSIONS);
    else
        session = session_new(control, header, sender, &err);
    if (!session)
        control_send_end(control, sender->address, sender->about.until, header->session, err.text);
    return session;
}

/* ---- what comes ---- */

static void control_tell_refusals(struct control *control)
{
    char text[256];
    uint64_t all = 0, now = clock_now_ns();
    for (enum sealed_refusal i = SEALED_FINE + 1; i < SEALED_REFUSALS; i++)
        all += sealed_box_count(control->box, i);
    if (all == control->said ||
        (control->said_ns && now - control->said_ns < CONTROL_REFUSED_SECONDS * (uint64_t)NS_PER_SECOND))
        return;
    uint64_t hours = sealed_box_count(control->box, SEALED_HOUR);
    bool other = all - hours > control->said - control->said_hours;
    if (hours > control->said_hours)
        log_warning("%llu requests that came through the broker were %s", (unsigned long long)hours,
                    sealed_refusal_name(SEALED_HOUR));
    control->said = all;
    control->said_hours = hours;
    control->said_ns = now;
    control_refusals(control, text, sizeof text);
    if (other)
        log_warning("requests that came through the broker were refused: %s", text);
}

void control_message(struct control *control, struct span payload)
{
    _cleanup_(buf_done) struct buf room = BUF_INIT;
    struct sealed_sender sender;
    struct channel_header header;
    struct span text;
    if (!control || sealed_open(control->box, payload, time(NULL), NULL, &room, &text, &sender) != SEALED_FINE)
        return;
    if (channel_parse(text, &header) < 0) {
        sealed_box_refuse(control->box, SEALED_DAMAGED);
        return;
    }
    struct control_session *session = session_find(control, header.session);
    bool same = session && strcmp(session->who.serial, sender.about.serial) == 0 &&
                span_eq(span_of(session->address.data, session->address.len), sender.address);
    if (!sender.about.rights || (session && !same)) { /* another's session */
        sealed_box_refuse(control->box, SEALED_RIGHTS);
        return;
    }
    if (header.what == CHANNEL_END) {
        if (session)
            session_end(session, NULL);
        return;
    }
    if (!session && !(session = session_begin(control, &header, &sender)))
        return;
    if (channel_take(&session->channel, &header, clock_now_ns()) < 0) {
        session_end(session, "that is no channel of scry");
        return;
    }
    session_read_monitor(session);
    session_advance(session);
}

void control_revoked(struct control *control, struct span payload)
{
    struct err err;
    if (!control)
        return;
    int code = sealed_box_revoke(control->box, payload, &err);
    if (code < 0 && code != -ESTALE)
        log_warning("a list of revoked keys is not taken: %s", err.text);
    control->checked_ns = 0;
    control_pump(control); /* sessions of those in the list end */
}

/* ---- what goes ---- */

static bool session_is_lost(const struct control_session *session, uint64_t now)
{
    return now - session->channel.heard_ns > time_hasten(CONTROL_LEASE_SECONDS * (uint64_t)NS_PER_SECOND);
}

/* Whether its key is taken still: it is sealed for, and thrown away. */
static bool session_is_valid(const struct control_session *session)
{
    _cleanup_(buf_done) struct buf ignored = BUF_INIT;
    uint8_t nonce[16];
    struct err err;
    struct span address = span_of(session->address.data, session->address.len);
    int code = sealed_put(session->control->box, address, NULL, time(NULL), span_of("", 0), &ignored, nonce, &err);
    return code == 0 || code == -ENOMEM;
}

static void control_wake_at(struct control *control, uint64_t when_ns)
{
    uint64_t now = clock_now_ns();
    loop_set_timer(control->timer, when_ns > now ? when_ns - now : 1, 0);
}

static void session_send_due(struct control_session *session, uint64_t *ret_when_ns)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct span address = span_of(session->address.data, session->address.len);
    uint64_t when_ns;
    while (publisher_has_room(session->control->publisher)) {
        if (!channel_next(&session->channel, clock_now_ns(), 0, &text, &when_ns)) {
            *ret_when_ns = when_ns < *ret_when_ns ? when_ns : *ret_when_ns;
            return;
        }
        channel_put_clock(&text, time(NULL));
        if (control_send(session->control, address, session->who.until, session->channel.session, session->name,
                         span_of(text.data, text.len)) < 0)
            break; /* as if it were lost: it is repeated */
    }
    uint64_t soon_ns = clock_now_ns() + NS_PER_SECOND;
    *ret_when_ns = soon_ns < *ret_when_ns ? soon_ns : *ret_when_ns;
}

/* The session may be over then. When more is due. */
static void session_pump(struct control_session *session, uint64_t *ret_when_ns)
{
    session_send_due(session, ret_when_ns);
    session_update_events(session);
    if (session->closing && channel_settled(&session->channel))
        session_end(session, "the monitor has closed the connection");
}

/* After anything that happened to it. */
static void session_advance(struct control_session *session)
{
    struct control *control = session->control;
    uint64_t when_ns = UINT64_MAX;
    if (!session_write_monitor(session))
        return;
    session_pump(session, &when_ns);
    if (when_ns != UINT64_MAX)
        control_wake_at(control, when_ns);
}

void control_pump(struct control *control)
{
    uint64_t now = clock_now_ns(), when_ns = now + NS_PER_SECOND;
    if (!control)
        return;
    bool check = now - control->checked_ns >= NS_PER_SECOND;
    control->checked_ns = check ? now : control->checked_ns;
    for (struct control_session *session = control->sessions, *next; session; session = next) {
        next = session->next;
        if (session_is_lost(session, now)) {
            session_end(session, "nothing was heard any more");
        } else if (check && !session_is_valid(session)) {
            session_end(session, "the key has expired or was revoked");
        } else {
            session_read_monitor(session);
            session_pump(session, &when_ns);
        }
    }
    control_tell_refusals(control);
    if (control->sessions)
        control_wake_at(control, when_ns);
}

static void on_timer(void *ctx)
{
    control_pump(ctx);
}

/* ---- the whole ---- */

void control_start(struct publisher *publisher, struct control **ret_control)
{
    struct err err = {0};
    struct control *control = publisher->key ? calloc(1, sizeof *control) : NULL;
    *ret_control = NULL;
    if (!control)
        return;
    control->publisher = publisher;
    const char *name = publisher->about.info.name ? publisher->about.info.name : "";
    int code = sealed_box_new(&control->box, publisher->key, publisher->job, name, &err);
    if (code == 0 && (code = sealed_address(control->box, &control->address)) == 0) {
        buf_putc(&control->address, 0);
        control->timer = loop_add_timer(publisher->loop, UINT64_MAX / 4, 0, on_timer, control);
        if (control->address.failed || !control->timer)
            code = -ENOMEM;
    }
    if (code == 0) {
        publisher->address = control->address.data;
        *ret_control = control;
        return;
    }
    if (err.text[0])
        log_warning("%s takes no requests through the broker: %s", publisher->job, err.text);
    control_stop(control, NULL);
}

void control_stop(struct control *control, const char *why)
{
    if (!control)
        return;
    while (control->sessions)
        session_end(control->sessions, why);
    if (control->publisher->address == control->address.data)
        control->publisher->address = NULL;
    loop_remove(control->timer);
    sealed_box_free(control->box);
    buf_done(&control->address);
    free(control);
}

void control_refusals(const struct control *control, char *ret_text, size_t size)
{
    size_t at = 0;
    ret_text[0] = 0;
    for (enum sealed_refusal i = SEALED_FINE + 1; control && i < SEALED_REFUSALS && at < size; i++) {
        uint64_t count = sealed_box_count(control->box, i);
        if (count && i != SEALED_HOUR) /* of a person whose clock is wrong */
            at += (size_t)snprintf(ret_text + at, size - at, "%s%llu %s", at ? ", " : "", (unsigned long long)count,
                                   sealed_refusal_name(i));
    }
}
