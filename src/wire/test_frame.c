/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "wire/frame.h"

/* Feeds bytes as a transport would, as much at once as there is room for. */
static void feed(struct frame_reader *reader, const char *bytes, size_t len)
{
    while (len) {
        size_t room = 0;
        char *to = frame_reader_room(reader, &room);
        assert_non_null(to);
        assert_true(room >= 4096);
        size_t take = len < room ? len : room;
        memcpy(to, bytes, take);
        frame_reader_fed(reader, take);
        bytes += take;
        len -= take;
    }
}

static void assert_frame(const struct frame *frame, uint8_t type, uint8_t flags, uint32_t id, const char *payload)
{
    assert_int_equal(frame->type, type);
    assert_int_equal(frame->flags, flags);
    assert_int_equal(frame->id, id);
    assert_true(span_is(frame->payload, payload));
}

static struct buf three_frames(void)
{
    struct buf out = BUF_INIT;
    frame_append(&out, FRAME_HELLO, 0, 0, span_of(NULL, 0), span_of(NULL, 0));
    frame_append(&out, FRAME_REQUEST, 0, 0xdeadbeef, span_str("head"), span_str("tail"));
    frame_append(&out, FRAME_REPLY, FRAME_LAST, 7, span_of(NULL, 0), span_str("only tail"));
    assert_int_equal(out.len, 3 * FRAME_HEADER_SIZE + 8 + 9);
    return out;
}

static void the_layout_is_as_documented(void **state)
{
    struct buf out = BUF_INIT;
    frame_append(&out, FRAME_REPLY, FRAME_LAST, 0x01020304, span_str("ab"), span_str("c"));
    assert_int_equal(out.len, 15);
    assert_memory_equal(out.data, "\3\0\0\0\4\1\0\0\4\3\2\1abc", 15);
    buf_done(&out);
}

static void frames_arrive_whatever_the_pieces(void **state)
{
    struct buf sent = three_frames();
    for (size_t piece = 1; piece <= sent.len; piece++) {
        struct frame_reader reader = {0};
        struct frame frame;
        int got = 0;
        for (size_t at = 0; at < sent.len; at += piece) {
            feed(&reader, sent.data + at, sent.len - at < piece ? sent.len - at : piece);
            int code;
            while ((code = frame_reader_next(&reader, &frame)) == 1) {
                if (got == 0)
                    assert_frame(&frame, FRAME_HELLO, 0, 0, "");
                else if (got == 1)
                    assert_frame(&frame, FRAME_REQUEST, 0, 0xdeadbeef, "headtail");
                else
                    assert_frame(&frame, FRAME_REPLY, FRAME_LAST, 7, "only tail");
                got++;
            }
            assert_int_equal(code, 0);
        }
        assert_int_equal(got, 3);
        assert_int_equal(frame_reader_next(&reader, &frame), 0);
        frame_reader_done(&reader);
    }
    buf_done(&sent);
}

static void a_cut_at_every_byte_loses_nothing(void **state)
{
    struct buf sent = three_frames();
    for (size_t cut = 0; cut <= sent.len; cut++) {
        struct frame_reader reader = {0};
        struct frame frame;
        int got = 0;
        feed(&reader, sent.data, cut);
        while (frame_reader_next(&reader, &frame) == 1)
            got++;
        feed(&reader, sent.data + cut, sent.len - cut);
        while (frame_reader_next(&reader, &frame) == 1)
            got++;
        assert_int_equal(got, 3);
        assert_frame(&frame, FRAME_REPLY, FRAME_LAST, 7, "only tail");
        frame_reader_done(&reader);
    }
    buf_done(&sent);
}

static void put_header(struct buf *out, uint32_t length, uint8_t type)
{
    char rest[4] = {(char)type, 0, 0, 0};
    buf_put_u32(out, length);
    buf_append(out, rest, 4);
    buf_put_u32(out, 42);
}

static void an_oversized_frame_costs_one_error(void **state)
{
    struct buf sent = BUF_INIT;
    struct frame_reader reader = {0};
    struct frame frame;
    put_header(&sent, FRAME_PAYLOAD_LIMIT + 1, FRAME_REQUEST);
    feed(&reader, sent.data, sent.len);
    assert_int_equal(frame_reader_next(&reader, &frame), -EMSGSIZE);
    assert_frame(&frame, FRAME_REQUEST, 0, 42, "");
    assert_int_equal(frame_reader_next(&reader, &frame), 0);
    char *payload = malloc(1 << 20);
    assert_non_null(payload);
    memset(payload, FRAME_HELLO, 1 << 20); /* would look like headers */
    size_t capacity = 0;
    for (uint64_t left = (uint64_t)FRAME_PAYLOAD_LIMIT + 1; left;) {
        size_t piece = left < 1 << 20 ? (size_t)left : 1 << 20;
        feed(&reader, payload, piece);
        assert_int_equal(frame_reader_next(&reader, &frame), 0);
        left -= piece;
        capacity = reader.bytes.cap > capacity ? reader.bytes.cap : capacity;
    }
    assert_true(capacity <= 1 << 20); /* skipped, not collected */
    free(payload);
    buf_clear(&sent);
    frame_append(&sent, FRAME_REQUEST, 0, 43, span_of(NULL, 0), span_str("next"));
    feed(&reader, sent.data, sent.len);
    assert_int_equal(frame_reader_next(&reader, &frame), 1);
    assert_frame(&frame, FRAME_REQUEST, 0, 43, "next");
    frame_reader_done(&reader);
    buf_done(&sent);
}

static void the_largest_frame_arrives_and_its_memory_goes(void **state)
{
    char *payload = malloc(FRAME_PAYLOAD_LIMIT);
    assert_non_null(payload);
    memset(payload, 'x', FRAME_PAYLOAD_LIMIT);
    struct buf sent = BUF_INIT;
    struct frame_reader reader = {0};
    struct frame frame;
    frame_append(&sent, FRAME_REQUEST, 0, 1, span_of(payload, FRAME_PAYLOAD_LIMIT), span_of(NULL, 0));
    frame_append(&sent, FRAME_REQUEST, 0, 2, span_of(NULL, 0), span_str("small"));
    free(payload);
    feed(&reader, sent.data, sent.len);
    assert_int_equal(frame_reader_next(&reader, &frame), 1);
    assert_int_equal(frame.payload.len, FRAME_PAYLOAD_LIMIT);
    assert_int_equal(frame.payload.ptr[FRAME_PAYLOAD_LIMIT - 1], 'x');
    assert_int_equal(frame_reader_next(&reader, &frame), 1);
    assert_frame(&frame, FRAME_REQUEST, 0, 2, "small");
    size_t room;
    assert_non_null(frame_reader_room(&reader, &room));
    assert_true(reader.bytes.cap < 1 << 20);
    frame_reader_done(&reader);
    buf_done(&sent);
}

static void an_announcement_allocates_nothing(void **state)
{
    struct buf sent = BUF_INIT;
    struct frame_reader reader = {0};
    struct frame frame;
    size_t room;
    put_header(&sent, FRAME_PAYLOAD_LIMIT, FRAME_REQUEST);
    feed(&reader, sent.data, sent.len);
    assert_int_equal(frame_reader_next(&reader, &frame), 0);
    assert_non_null(frame_reader_room(&reader, &room));
    assert_true(reader.bytes.cap <= 1 << 20);
    frame_reader_done(&reader);
    buf_done(&sent);
}

static void other_protocols_are_refused(void **state)
{
    static const char *const rows[] = {
        "GET / HTTP/1.1\r\n",                 /* what a browser sends */
        "\1\0\0\0\0\0\0\0\0\0\0\0x",          /* type 0 */
        "\1\0\0\0\23\0\0\0\0\0\0\0x",         /* type 19 */
        "\377\377\377\377\377\0\0\0\0\0\0\0", /* too long, but no frame either */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct frame_reader reader = {0};
        struct frame frame = {.id = 4711};
        feed(&reader, rows[i], 12);
        assert_int_equal(frame_reader_next(&reader, &frame), -EBADMSG);
        assert_int_equal(frame_reader_next(&reader, &frame), -EBADMSG); /* and so it stays */
        assert_int_equal(frame.id, 4711);
        frame_reader_done(&reader);
    }
    struct frame_reader reader = {0};
    struct frame frame;
    assert_int_equal(frame_reader_next(&reader, &frame), 0); /* nothing came yet */
    frame_reader_done(&reader);
}

static void a_frame_that_cannot_be_told_is_not_begun(void **state)
{
    struct buf out = BUF_INIT;
    frame_append(&out, FRAME_REPLY, 0, 1, span_of("", SIZE_MAX), span_of("", 2));
    assert_true(out.failed);
    assert_int_equal(out.len, 0);
    buf_done(&out);
    frame_append(&out, FRAME_REPLY, 0, 1, span_of("", (size_t)UINT32_MAX + 1), span_of("", 0));
    assert_true(out.failed);
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layout_is_as_documented),
        cmocka_unit_test(frames_arrive_whatever_the_pieces),
        cmocka_unit_test(a_cut_at_every_byte_loses_nothing),
        cmocka_unit_test(an_oversized_frame_costs_one_error),
        cmocka_unit_test(the_largest_frame_arrives_and_its_memory_goes),
        cmocka_unit_test(an_announcement_allocates_nothing),
        cmocka_unit_test(other_protocols_are_refused),
        cmocka_unit_test(a_frame_that_cannot_be_told_is_not_begun),
    };
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
