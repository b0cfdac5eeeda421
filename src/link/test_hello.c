/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "link/hello.h"
#include "wire/frame.h"

static struct buf made(const char *before, const char *text)
{
    struct buf bytes = BUF_INIT;
    struct hello hello = {.version = HELLO_VERSION, .flags = HELLO_RESUME, .session = "0123456789abcde"};
    snprintf(hello.text, sizeof hello.text, "%s", text);
    buf_puts(&bytes, before);
    hello_put(&bytes, &hello);
    return bytes;
}

static void test_whole(void **state)
{
    _cleanup_(buf_done) struct buf bytes = made("", "climate-3");
    struct hello hello;
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(hello_parse(span_of(bytes.data, len), false, &hello), 0);
    assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), false, &hello), bytes.len);
    assert_int_equal(hello.version, HELLO_VERSION);
    assert_int_equal(hello.flags, HELLO_RESUME);
    assert_string_equal(hello.session, "0123456789abcde");
    assert_string_equal(hello.text, "climate-3");
    bytes.data[3] ^= 1;
    assert_int_equal(hello_parse(span_of(bytes.data, 4), false, &hello), -EBADMSG);
    (void)state;
}

static void test_controls(void **state)
{
    _cleanup_(buf_done) struct buf bytes = made("", "a\nb");
    struct hello hello;
    assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), false, &hello), -EBADMSG);
    (void)state;
}

/* What a shell says before it may be anything, also the beginning of a hello. */
static void test_noise(void **state)
{
    static const char *const noises[] = {"", "S", "Welcome!\r\n", "SCRYLIN", "SCRYSCRYLSCRYLINSCRYLI\n"};
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        _cleanup_(buf_done) struct buf bytes = made(noises[i], "0.1");
        struct hello hello;
        for (size_t len = 0; len < bytes.len; len++)
            assert_int_equal(hello_parse(span_of(bytes.data, len), true, &hello), 0);
        assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), true, &hello), bytes.len);
        assert_string_equal(hello.text, "0.1");
    }
    _cleanup_(buf_done) struct buf much = BUF_INIT;
    struct hello hello;
    while (much.len < HELLO_NOISE_BYTES)
        buf_puts(&much, "y\n");
    assert_int_equal(hello_parse(span_of(much.data, much.len), true, &hello), 0);
    buf_puts(&much, "12345678");
    assert_int_equal(hello_parse(span_of(much.data, much.len), true, &hello), -EBADMSG);
    (void)state;
}

static void test_messages(void **state)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    struct span message;
    buf_put_u32(&bytes, CHANNEL_HEADER);
    for (size_t i = 0; i < CHANNEL_HEADER; i++) {
        assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), 0);
        buf_putc(&bytes, 'x');
    }
    assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), bytes.len);
    assert_int_equal(message.len, CHANNEL_HEADER);
    static const uint32_t wrong[] = {0, CHANNEL_HEADER - 1, HELLO_MESSAGE_BYTES + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        buf_clear(&bytes);
        buf_put_u32(&bytes, wrong[i]);
        assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), -EBADMSG);
    }
    (void)state;
}

/* Wherever a stream is cut, it is known whether a frame has only begun. */
static void test_edges(void **state)
{
    _cleanup_(buf_done) struct buf stream = BUF_INIT;
    frame_append(&stream, FRAME_HELLO, 0, 0, span_str("12345678"), span_str("tool"));
    size_t first = stream.len;
    frame_append(&stream, FRAME_FINALIZE, 0, 0, span_str(""), span_str(""));
    for (size_t cut = 0; cut <= stream.len; cut++)
        for (size_t step = 1; step < 15; step++) {
            struct frame_edges edges = {.left = 0};
            for (size_t at = 0; at < cut; at += step)
                frame_edges_pass(&edges, span_of(stream.data + at, cut - at < step ? cut - at : step));
            assert_int_equal(frame_edges_between(&edges), cut == 0 || cut == first || cut == stream.len);
        }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),    cmocka_unit_test(test_controls), cmocka_unit_test(test_noise),
        cmocka_unit_test(test_messages), cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
