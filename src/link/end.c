/* SPDX-License-Identifier: Apache-2.0 */
#include "link/end.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "link/link.h"
#include "shm/waits.h"
#include "wire/frame.h"
#include "wire/stream.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

/* ---- the greeting, and messages ---- */

static const char magic[8] = "SCRYLINK";
enum { HELLO_HEAD = sizeof magic + 4 + CHANNEL_SESSION };

void hello_put(struct buf *out, const struct hello *hello)
{
    size_t len = strlen(hello->text);
    const char head[4] = {(char)(hello->version & 0xff), (char)(hello->version >> 8), (char)hello->flags, (char)len};
    buf_append(out, magic, sizeof magic);
    buf_append(out, head, sizeof head);
    buf_append(out, (const char *)hello->session, CHANNEL_SESSION);
    buf_append(out, hello->text, len);
}

/* Where it begins, or where it may still do so. */
static size_t skip_noise(struct span bytes)
{
    const char *found = memmem(bytes.ptr, bytes.len, magic, sizeof magic);
    if (found)
        return (size_t)(found - bytes.ptr);
    return bytes.len < sizeof magic ? 0 : bytes.len - sizeof magic + 1;
}

ssize_t hello_parse(struct span bytes, bool noisy, struct hello *ret_hello)
{
    size_t at = noisy && bytes.len ? skip_noise(bytes) : 0;
    if (at > HELLO_NOISE_BYTES)
        return -EBADMSG;
    struct span rest = span_of(bytes.ptr + at, bytes.len - at);
    size_t known = rest.len < sizeof magic ? rest.len : sizeof magic;
    if (!noisy && known && memcmp(rest.ptr, magic, known) != 0)
        return -EBADMSG;
    if (rest.len < HELLO_HEAD)
        return 0;
    const unsigned char *head = (const unsigned char *)rest.ptr + sizeof magic;
    size_t len = head[3];
    if (rest.len < HELLO_HEAD + len)
        return 0;
    *ret_hello = (struct hello){.version = (uint16_t)(head[0] | head[1] << 8), .flags = head[2]};
    memcpy(ret_hello->session, head + 4, CHANNEL_SESSION);
    memcpy(ret_hello->text, rest.ptr + HELLO_HEAD, len);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)ret_hello->text[i] < ' ' || ret_hello->text[i] == 0x7f)
            return -EBADMSG;
    return (ssize_t)(at + HELLO_HEAD + len);
}

ssize_t hello_message(struct span bytes, struct span *ret_message)
{
    uint32_t len;
    if (bytes.len < sizeof len)
        return 0;
    memcpy(&len, bytes.ptr, sizeof len);
    len = le32toh(len);
    if (len < CHANNEL_HEADER || len > HELLO_MESSAGE_BYTES)
        return -EBADMSG;
    if (bytes.len < sizeof len + len)
        return 0;
    *ret_message = span_of(bytes.ptr + sizeof len, len);
    return (ssize_t)(sizeof len + len);
}

void frame_edges_pass(struct frame_edges *edges, struct span bytes)
{
    while (bytes.len) {
        size_t part = edges->left < bytes.len ? (size_t)edges->left : bytes.len;
        if (!edges->left) {
            part = FRAME_HEADER_SIZE - edges->have < bytes.len ? FRAME_HEADER_SIZE - edges->have : bytes.len;
            memcpy(edges->head + edges->have, bytes.ptr, part);
            edges->have += part;
            if (edges->have == FRAME_HEADER_SIZE) {
                uint32_t len;
                memcpy(&len, edges->head, sizeof len);
                edges->left = le32toh(len);
                edges->have = 0;
            }
        } else {
            edges->left -= part;
        }
        bytes = span_of(bytes.ptr + part, bytes.len - part);
    }
}

bool frame_edges_between(const struct frame_edges *edges)
{
    return !edges->left && !edges->have;
}

enum { READ_BYTES = 64 << 10, OUT_BYTES = 256 << 10, LOCAL_BYTES = 256 << 10, READ_TURNS = 32, KEEP_BYTES = 64 << 10 };

static const uint64_t QUIET_NS = LINK_QUIET_SECONDS * (uint64_t)NS_PER_SECOND;
static const uint64_t DEAD_NS = LINK_DEAD_SECONDS * (uint64_t)NS_PER_SECOND;
static const uint64_t CLOSING_NS = LINK_CLOSING_SECONDS * (uint64_t)NS_PER_SECOND;

static void end_break(struct end *end, int code, const char *text)
{
    if (!end->broken)
        err_set(&end->why, code, "%s", text);
    end->broken = true;
}

/* A quiet session of which there may be thousands needs no memory. */
static void buf_trim(struct buf *buf)
{
    if (!buf->len && buf->cap > KEEP_BYTES)
        buf_done(buf);
}

/* ---- the local side ---- */

static void local_close(struct end *end)
{
    loop_remove(end->local_source);
    end->local_source = NULL;
    if (end->local >= 0)
        close(end->local);
    end->local = -1;
    end->hung_up = false;
    end->closing = true;
    end->closing_ns = clock_now_ns();
    buf_done(&end->to_local);
}

static void local_read(struct end *end)
{
    size_t waiting = channel_waiting(&end->channel);
    if (end->local >= 0 && waiting < end->most && local_receive(end->local, &end->channel.out, end->most - waiting) < 0)
        local_close(end);
}

static void local_write(struct end *end)
{
    int code = end->local >= 0 ? local_send(end->local, &end->to_local) : 0;
    if (code < 0 && code != -EAGAIN) { /* it reads nothing any more; what it has said is read still */
        end->hung_up = true;
        buf_clear(&end->to_local);
    } else if (code == 0) {
        buf_trim(&end->to_local);
    }
}

/* What came from the other end, as far as the local side takes it. */
static void local_pass(struct end *end)
{
    struct buf *in = &end->channel.in;
    while (in->len && (end->local >= 0 || end->closing) && end->to_local.len < LOCAL_BYTES) {
        size_t len = in->len;
        if (end->local >= 0 && !end->hung_up) {
            buf_append(&end->to_local, in->data, len);
            frame_edges_pass(&end->edges, span_of(in->data, len));
        }
        if (end->to_local.failed || channel_drop(&end->channel, len) < 0) {
            end->ended = true;
            snprintf(end->end_why, sizeof end->end_why, "out of memory");
            return;
        }
        local_write(end);
    }
    buf_trim(in);
}

/* ---- the connection ---- */

static void message_take(struct end *end, struct span bytes)
{
    struct channel_header header;
    int code = channel_parse(bytes, &header);
    if (code < 0 || memcmp(header.session, end->channel.session, CHANNEL_SESSION) != 0) {
        end_break(end, -EPROTO, "what came is no message of scry");
        return;
    }
    if (header.what == CHANNEL_END) {
        end->ended = true;
        snprintf(end->end_why, sizeof end->end_why, "%.*s", SPAN_ARG(header.bytes));
        return;
    }
    code = channel_take(&end->channel, &header, clock_now_ns());
    if (code < 0)
        end_break(end, code, code == -ENOMEM ? "out of memory" : "what came is no message of this session");
}

static void messages_take(struct end *end)
{
    size_t at = 0;
    while (!end->broken && !end->ended) {
        struct span message;
        ssize_t took = hello_message(span_of(end->in.data + at, end->in.len - at), &message);
        if (took < 0)
            end_break(end, -EPROTO, "what came is no message of scry");
        if (took <= 0)
            break;
        message_take(end, message);
        at += (size_t)took;
    }
    if (at)
        buf_drop(&end->in, at);
}

static void stream_read(struct end *end)
{
    end->again = false;
    for (int turn = 0; end->transport && !end->broken && !end->ended; turn++) {
        char *room = buf_reserve(&end->in, READ_BYTES);
        if (turn == READ_TURNS || !room) {
            end->again = true;
            return;
        }
        ssize_t got = transport_read(end->transport, room, READ_BYTES, &end->why);
        if (got == -EAGAIN)
            break;
        if (got == 0)
            end_break(end, -ECONNRESET, "the other end closed the connection");
        end->broken |= got < 0;
        if (got > 0) {
            end->in.len += (size_t)got;
            messages_take(end);
            local_pass(end);
        }
    }
    buf_trim(&end->in);
}

static void message_put(struct end *end)
{
    buf_put_u32(&end->out, (uint32_t)end->message.len);
    buf_append(&end->out, end->message.data, end->message.len);
    if (end->out.failed)
        end_break(end, -ENOMEM, "out of memory");
}

static void stream_write(struct end *end)
{
    while (end->transport && !end->broken && end->sent < end->out.len) {
        ssize_t put = transport_write(end->transport, end->out.data + end->sent, end->out.len - end->sent, &end->why);
        if (put == -EAGAIN)
            return;
        if (put < 0)
            end->broken = true;
        else
            end->sent += (size_t)put;
    }
    buf_clear(&end->out);
    end->sent = 0;
    buf_trim(&end->out);
}

/* Sends what is due. Returns when more may be. */
static uint64_t send_due(struct end *end, uint64_t now)
{
    uint64_t when = UINT64_MAX;
    while (end->transport && !end->broken && !end->said_end) {
        if (end->out.len - end->sent >= OUT_BYTES)
            stream_write(end);
        if (end->out.len - end->sent >= OUT_BYTES ||
            !channel_next(&end->channel, now, time_hasten(QUIET_NS), &end->message, &when))
            break;
        message_put(end);
    }
    stream_write(end);
    buf_trim(&end->message);
    buf_trim(&end->channel.out);
    return when;
}

/* ---- the end of it ---- */

static void end_say(struct end *end, uint64_t now)
{
    bool late = end->closing && now - end->closing_ns > CLOSING_NS;
    if (!end->closing || end->said_end || !end->transport || (!channel_settled(&end->channel) && !late))
        return;
    end->said_end = true;
    buf_clear(&end->message);
    channel_put_end(&end->message, end->channel.session, end->end_why);
    message_put(end);
    stream_write(end);
}

static bool end_is_over(const struct end *end)
{
    if (end->closing && !end->begun) /* nobody has heard of it */
        return true;
    if (end->said_end)
        return !end->out.len || end->broken;
    return end->ended && (end->closing || (!end->to_local.len && !end->channel.in.len));
}

static void events_update(struct end *end)
{
    bool full = channel_waiting(&end->channel) >= end->most;
    uint32_t local = (full ? 0u : (uint32_t)EPOLLIN) | (end->to_local.len ? (uint32_t)EPOLLOUT : 0u);
    uint32_t wire = EPOLLIN;
    if (end->transport && (end->out.len || end->transport->wants_output))
        wire |= EPOLLOUT;
    if (end->local_source && local != end->local_events)
        loop_set_events(end->local_source, local);
    if (end->transport_source && wire != end->transport_events)
        loop_set_events(end->transport_source, wire);
    end->local_events = local;
    end->transport_events = wire;
}

static void timer_update(struct end *end, uint64_t when, uint64_t now)
{
    uint64_t dead = end->channel.heard_ns + time_hasten(DEAD_NS);
    when = dead < when ? dead : when;
    if (end->closing && end->closing_ns + CLOSING_NS < when && !end->said_end)
        when = end->closing_ns + CLOSING_NS + 1;
    if (end->again)
        when = now;
    if (end->transport)
        loop_set_timer(end->timer, when > now ? when - now : 1, 0);
}

static void end_detach(struct end *end);

/* After everything that happens. Nothing may follow: the end may be gone. */
static void end_advance(struct end *end)
{
    uint64_t now = clock_now_ns();
    local_pass(end);
    if (end->hung_up)
        local_read(end);
    uint64_t when = send_due(end, now);
    end_say(end, now);
    if (end->ended) /* nothing comes any more but its end */
        end_detach(end);
    if (end_is_over(end)) {
        if (end->lingers && end->said_end && !end->broken)
            transport_linger(end->transport);
        end_detach(end);
        end->events->over(end->ctx, end->end_why);
        return;
    }
    if (end->broken && end->transport) {
        struct err why = end->why;
        transport_why(end->transport, &why);
        end_detach(end);
        end->events->lost(end->ctx, &why);
        return;
    }
    events_update(end);
    timer_update(end, when, now);
}

static void on_local(void *ctx, int fd, uint32_t events)
{
    struct end *end = ctx;
    (void)fd;
    if (events & (EPOLLHUP | EPOLLERR)) { /* it would be reported for ever */
        loop_remove(end->local_source);
        end->local_source = NULL;
        end->hung_up = true;
    }
    if (events & EPOLLOUT)
        local_write(end);
    local_read(end);
    end_advance(end);
}

static void on_transport(void *ctx, int fd, uint32_t events)
{
    struct end *end = ctx;
    (void)fd;
    (void)events;
    stream_read(end);
    end_advance(end);
}

static void on_timer(void *ctx)
{
    struct end *end = ctx;
    if (!end->transport)
        return;
    stream_read(end); /* what came while we did not run has come */
    if (!end->ended && clock_now_ns() - end->channel.heard_ns >= time_hasten(DEAD_NS))
        end_break(end, -ETIMEDOUT, "the other end has not answered for 10 s");
    end_advance(end);
}

/* ---- from outside ---- */

int end_init(struct end *end, struct loop *loop, const uint8_t session[CHANNEL_SESSION],
             const struct end_events *events, void *ctx)
{
    *end = (struct end){.loop = loop, .events = events, .ctx = ctx, .local = -1, .most = END_WAITING_BYTES};
    channel_init(&end->channel, session, false, clock_now_ns());
    end->channel.stream = true;
    end->timer = loop_add_timer(loop, UINT64_MAX / 4, 0, on_timer, end);
    return end->timer ? 0 : -ENOMEM;
}

static void end_detach(struct end *end)
{
    loop_remove(end->transport_source);
    end->transport_source = NULL;
    transport_free(end->transport);
    end->transport = NULL;
    end->broken = end->again = false;
    end->sent = 0;
    buf_done(&end->in);
    buf_done(&end->out);
}

void end_done(struct end *end)
{
    end_detach(end);
    local_close(end);
    loop_remove(end->timer);
    channel_done(&end->channel);
    buf_done(&end->message);
}

int end_set_local_take(struct end *end, int fd)
{
    end->local = fd;
    end->local_events = EPOLLIN;
    end->local_source = loop_add_fd(end->loop, fd, EPOLLIN, on_local, end);
    return end->local_source ? 0 : -ENOMEM;
}

int end_attach_take(struct end *end, struct transport *transport, struct span early)
{
    end_detach(end);
    end->transport = transport;
    end->begun = true;
    end->transport_events = EPOLLIN;
    end->transport_source = loop_add_fd(end->loop, transport->fd, EPOLLIN, on_transport, end);
    buf_append(&end->in, early.ptr, early.len);
    if (!end->transport_source || end->in.failed) {
        end_detach(end);
        return -ENOMEM;
    }
    channel_resume(&end->channel, clock_now_ns());
    end->said_end = false;
    messages_take(end);
    stream_read(end);
    end_advance(end);
    return 0;
}

void end_stop(struct end *end, const char *why)
{
    snprintf(end->end_why, sizeof end->end_why, "%s", why);
    end->closing = end->transport != NULL;
    end->closing_ns = 0;
    end_say(end, clock_now_ns());
}
