/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from any bytes. The first byte says in which pieces the rest arrives; whatever they are, the same frames come
 * out, and the reader holds no more memory than what was sent.
 */
#include <errno.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "fuzz.h"
#include "wire/frame.h"

/* Appends to `seen` all that came out: frames as they are, errors as a number. */
static void read_all(const uint8_t *data, size_t size, size_t piece, struct buf *seen)
{
    _cleanup_(frame_reader_done) struct frame_reader reader = {0};
    for (size_t at = 0; at < size;) {
        size_t room = 0;
        char *to = frame_reader_room(&reader, &room);
        fuzz_expect(to && room >= 4096);
        size_t take = size - at < piece ? size - at : piece;
        take = take < room ? take : room;
        memcpy(to, data + at, take);
        frame_reader_fed(&reader, take);
        at += take;
        fuzz_expect(reader.bytes.cap < 4 * size + (1 << 20));
        for (;;) {
            struct frame frame = {0};
            int code = frame_reader_next(&reader, &frame);
            fuzz_expect(code == 0 || code == 1 || code == -EMSGSIZE || code == -EBADMSG);
            if (code == 0)
                break;
            buf_put_u32(seen, (uint32_t)code);
            if (code == -EBADMSG)
                return;
            fuzz_expect(code == 1 || frame.payload.len == 0);
            frame_append(seen, frame.type, frame.flags, frame.id, frame.payload, span_of(NULL, 0));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct buf whole = BUF_INIT, pieces = BUF_INIT;
    read_all(data + 1, size - 1, size, &whole);
    read_all(data + 1, size - 1, (size_t)data[0] + 1, &pieces);
    fuzz_expect(!whole.failed && !pieces.failed);
    fuzz_expect(span_eq(span_of(whole.data, whole.len), span_of(pieces.data, pieces.len)));
    buf_done(&whole);
    buf_done(&pieces);
    return 0;
}
