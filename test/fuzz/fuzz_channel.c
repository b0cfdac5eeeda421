/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of any bytes for an end of a channel: length (2 bytes), message, ... Nothing that comes makes it keep more than a
 * window and what it holds, or hand out what was not next.
 */
#include <string.h>

#include "fuzz.h"
#include "wire/channel.h"

enum { KEPT = CHANNEL_HELD + CHANNEL_WINDOW * CHANNEL_PART };

static void put_some(struct channel *channel)
{
    struct buf out = BUF_INIT;
    struct channel_header header;
    uint64_t when;
    channel_put(channel, span_str("some bytes"));
    while (channel_next(channel, 1, 0, &out, &when))
        fuzz_expect(channel_parse(span_of(out.data, out.len), &header) == 0);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t session[CHANNEL_SESSION];
    struct channel channel;
    channel_init(&channel, session, true, 1);
    channel.stream = size % 2;
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = (size_t)data[at] | (size_t)data[at + 1] << 8;
        struct channel_header header;
        at += 2;
        len = len < size - at ? len : size - at;
        if (channel_parse(span_of((const char *)data + at, len), &header) == 0) {
            uint32_t before = channel.received;
            fuzz_expect(header.bytes.len + CHANNEL_HEADER == len);
            if (channel_take(&channel, &header, 1) < 0)
                break;
            fuzz_expect(channel.received - before <= CHANNEL_WINDOW && channel.in.len < KEPT);
            fuzz_expect(channel.last - channel.acknowledged <= CHANNEL_WINDOW);
            channel_clock(&header);
        }
        put_some(&channel);
        if (len & 1)
            channel_drop(&channel, channel.in.len / 2);
        if (len & 2)
            channel_resume(&channel, 1);
        at += len;
    }
    channel_done(&channel);
    return 0;
}
