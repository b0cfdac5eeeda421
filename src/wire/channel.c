/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/waits.h"
#include "wire/channel.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum { VERSION = 1 };

enum { MUCH = CHANNEL_WINDOW / 4 };

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static void put_header(struct buf *out, enum channel_what what, const uint8_t session[CHANNEL_SESSION], uint32_t number,
                       uint32_t acknowledged)
{
    const char head[4] = {VERSION, (char)what, 0, 0};
    buf_append(out, head, sizeof head);
    buf_append(out, (const char *)session, CHANNEL_SESSION);
    buf_put_u32(out, number);
    buf_put_u32(out, acknowledged);
}

int channel_parse(struct span message, struct channel_header *ret_header)
{
    if (message.len < CHANNEL_HEADER || message.ptr[0] != VERSION || message.ptr[2] || message.ptr[3])
        return -EBADMSG;
    struct channel_header header = {
        .what = (enum channel_what)(unsigned char)message.ptr[1],
        .number = get_u32(message.ptr + 4 + CHANNEL_SESSION),
        .acknowledged = get_u32(message.ptr + 8 + CHANNEL_SESSION),
        .bytes = span_of(message.ptr + CHANNEL_HEADER, message.len - CHANNEL_HEADER),
    };
    if ((header.what != CHANNEL_DATA && header.what != CHANNEL_END) || header.bytes.len > CHANNEL_PART)
        return -EBADMSG;
    memcpy(header.session, message.ptr + 4, CHANNEL_SESSION);
    *ret_header = header;
    return 0;
}

void channel_put_end(struct buf *out, const uint8_t session[CHANNEL_SESSION], const char *why)
{
    put_header(out, CHANNEL_END, session, 0, 0);
    buf_append(out, why, strnlen(why, CHANNEL_REASON));
}

void channel_put_clock(struct buf *message, int64_t seconds)
{
    if (message->len != CHANNEL_HEADER)
        return;
    buf_put_u32(message, (uint32_t)seconds);
    buf_put_u32(message, (uint32_t)((uint64_t)seconds >> 32));
}

int64_t channel_clock(const struct channel_header *header)
{
    if (header->number || header->bytes.len != 8)
        return 0;
    return (int64_t)(get_u32(header->bytes.ptr) | (uint64_t)get_u32(header->bytes.ptr + 4) << 32);
}

void channel_init(struct channel *channel, const uint8_t session[CHANNEL_SESSION], bool answers, uint64_t now_ns)
{
    *channel = (struct channel){.answers = answers, .spoke_ns = now_ns, .heard_ns = now_ns};
    memcpy(channel->session, session, CHANNEL_SESSION);
}

void channel_resume(struct channel *channel, uint64_t now_ns)
{
    for (size_t i = 0; i < CHANNEL_WINDOW; i++)
        channel->sent[i].sent_ns = 0;
    channel->told = channel->received - MUCH; /* at once */
    channel->owes = true;
    channel->heard_ns = now_ns;
}

void channel_done(struct channel *channel)
{
    for (size_t i = 0; i < CHANNEL_WINDOW; i++) {
        buf_done(&channel->sent[i].bytes);
        buf_done(&channel->early[i].bytes);
    }
    buf_done(&channel->out);
    buf_done(&channel->in);
}

/* ---- what is sent ---- */

void channel_put(struct channel *channel, struct span bytes)
{
    buf_append(&channel->out, bytes.ptr, bytes.len);
}

size_t channel_waiting(const struct channel *channel)
{
    size_t bytes = channel->out.len;
    for (size_t i = 0; i < CHANNEL_WINDOW; i++)
        bytes += channel->sent[i].there ? channel->sent[i].bytes.len : 0;
    return bytes;
}

bool channel_settled(const struct channel *channel)
{
    return channel->acknowledged == channel->last && !channel->out.len;
}

static bool message_put(struct channel *channel, struct buf *out, uint32_t number, struct span bytes, uint64_t now_ns)
{
    buf_clear(out);
    put_header(out, CHANNEL_DATA, channel->session, number, channel->received);
    buf_append(out, bytes.ptr, bytes.len);
    channel->owes = false;
    channel->told = channel->received;
    channel->spoke_ns = now_ns;
    return !out->failed;
}

/* Puts the next bytes into a message. */
static void channel_fill(struct channel *channel)
{
    while (channel->out.len && channel->last - channel->acknowledged < CHANNEL_WINDOW) {
        struct channel_part *part = &channel->sent[(channel->last + 1) % CHANNEL_WINDOW];
        size_t len = channel->out.len < CHANNEL_PART ? channel->out.len : CHANNEL_PART;
        buf_clear(&part->bytes);
        buf_append(&part->bytes, channel->out.data, len);
        if (part->bytes.failed)
            return;
        buf_drop(&channel->out, len);
        channel->last++;
        part->there = true;
        part->sent_ns = 0;
        part->tries = 0;
    }
}

static uint64_t due_ns(const struct channel *channel, const struct channel_part *part)
{
    uint64_t wait = CHANNEL_FIRST_NS;
    if (channel->stream && part->sent_ns)
        return UINT64_MAX;
    for (unsigned i = 1; i < part->tries && wait < CHANNEL_LONGEST_NS; i++)
        wait *= 2;
    return part->sent_ns ? part->sent_ns + wait : 0;
}

/* When an acknowledgement is due that travels alone. */
static uint64_t acknowledgement_ns(const struct channel *channel)
{
    if (!channel->owes)
        return UINT64_MAX;
    return channel->stream && channel->received - channel->told < MUCH ? channel->owed_ns + CHANNEL_LATER_NS : 0;
}

static void channel_owe(struct channel *channel, uint64_t now_ns)
{
    if (!channel->owes)
        channel->owed_ns = now_ns;
    channel->owes = true;
}

bool channel_next(struct channel *channel, uint64_t now_ns, uint64_t quiet_ns, struct buf *out, uint64_t *ret_when_ns)
{
    uint64_t when = UINT64_MAX;
    channel_fill(channel);
    for (uint32_t number = channel->acknowledged + 1; number != channel->last + 1; number++) {
        struct channel_part *part = &channel->sent[number % CHANNEL_WINDOW];
        uint64_t due = due_ns(channel, part);
        if (due <= now_ns) {
            channel->repeated += part->tries > 0;
            part->sent_ns = now_ns ? now_ns : 1;
            part->tries++;
            return message_put(channel, out, number, span_of(part->bytes.data, part->bytes.len), now_ns);
        }
        when = due < when ? due : when;
    }
    uint64_t quiet = quiet_ns ? channel->spoke_ns + quiet_ns : UINT64_MAX;
    uint64_t owed = acknowledgement_ns(channel);
    quiet = owed < quiet ? owed : quiet;
    if (quiet <= now_ns)
        return message_put(channel, out, 0, span_of("", 0), now_ns);
    *ret_when_ns = quiet < when ? quiet : when;
    return false;
}

/* ---- what is received ---- */

static int channel_acknowledge(struct channel *channel, uint32_t number)
{
    if (number - channel->acknowledged > channel->last - channel->acknowledged) /* an old one; or it was never sent */
        return channel->acknowledged - number < UINT32_MAX / 2 ? 0 : -EBADMSG;
    while (channel->acknowledged != number) {
        struct channel_part *part = &channel->sent[++channel->acknowledged % CHANNEL_WINDOW];
        part->there = false;
        buf_clear(&part->bytes);
    }
    return 0;
}

/* What is next, as long as there is room. */
static int hand_out(struct channel *channel)
{
    struct channel_part *part;
    while (channel->in.len < CHANNEL_HELD &&
           (part = &channel->early[(channel->received + 1) % CHANNEL_WINDOW])->there) {
        buf_append(&channel->in, part->bytes.data, part->bytes.len);
        if (channel->in.failed)
            return -ENOMEM;
        buf_done(&part->bytes);
        part->there = false;
        channel->received++;
    }
    return 0;
}

int channel_take(struct channel *channel, const struct channel_header *header, uint64_t now_ns)
{
    if (channel_acknowledge(channel, header->acknowledged) < 0)
        return -EBADMSG;
    channel->heard_ns = now_ns;
    if (!header->number) { /* it asks whether we live, or only acknowledges */
        channel->owes |= channel->answers && now_ns - channel->spoke_ns >= CHANNEL_FIRST_NS;
        return 0;
    }
    channel_owe(channel, now_ns);
    uint32_t ahead = header->number - channel->received;
    if (ahead == 0 || ahead > CHANNEL_WINDOW) { /* had before, or come before it was allowed to */
        channel->repeated++;
        return channel->received - header->number < UINT32_MAX / 2 ? 0 : -EBADMSG;
    }
    struct channel_part *part = &channel->early[header->number % CHANNEL_WINDOW];
    if (part->there) {
        channel->repeated++;
        return 0;
    }
    buf_append(&part->bytes, header->bytes.ptr, header->bytes.len);
    if (part->bytes.failed) { /* as if it had not come: it will again, over a stream when that is another one */
        buf_done(&part->bytes);
        return channel->stream ? -ENOMEM : 0;
    }
    part->there = true;
    return hand_out(channel);
}

int channel_drop(struct channel *channel, size_t bytes)
{
    uint32_t before = channel->received;
    buf_drop(&channel->in, bytes);
    int code = hand_out(channel);
    channel->owes |= channel->received != before;
    return code;
}
