/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and spans. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"

static void bytes_are_appended(void **state)
{
    struct buf buf = BUF_INIT;
    for (int i = 0; i < 10000; i++) {
        buf_putc(&buf, (char)i);
        assert_int_equal(buf.data[buf.len], 0);
    }
    assert_int_equal(buf.len, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(buf.data[i], (char)i);
    buf_append(&buf, NULL, 0);
    assert_int_equal(buf.len, 10000);
    buf_clear(&buf);
    assert_int_equal(buf.len, 0);
    assert_string_equal(buf.data, "");
    buf_puts(&buf, "again");
    assert_string_equal(buf.data, "again");
    buf_done(&buf);
    assert_null(buf.data);
}

static void formats_of_every_length(void **state)
{
    struct buf buf = BUF_INIT;
    char text[400];
    for (size_t len = 0; len < sizeof text; len++) { /* across the size of the small buffer */
        memset(text, 'x', len);
        text[len] = 0;
        buf_clear(&buf);
        buf_printf(&buf, "%s|%d", text, 7);
        assert_int_equal(buf.len, len + 2);
        assert_memory_equal(buf.data, text, len);
        assert_string_equal(buf.data + len, "|7");
    }
    buf_done(&buf);
}

static void numbers_are_little_endian(void **state)
{
    struct buf buf = BUF_INIT;
    buf_put_u32(&buf, 0x01020304);
    buf_put_u64(&buf, 0x1112131415161718);
    assert_int_equal(buf.len, 12);
    assert_memory_equal(buf.data, "\4\3\2\1\x18\x17\x16\x15\x14\x13\x12\x11", 12);
    buf_done(&buf);
}

static void the_front_is_dropped(void **state)
{
    struct buf buf = BUF_INIT;
    buf_drop(&buf, 0);
    buf_puts(&buf, "abcdef");
    buf_drop(&buf, 2);
    assert_string_equal(buf.data, "cdef");
    assert_int_equal(buf.len, 4);
    buf_drop(&buf, 4);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.len, 0);
    buf_done(&buf);
}

static void content_is_handed_over(void **state)
{
    struct buf buf = BUF_INIT;
    char *empty = buf_take(&buf);
    assert_string_equal(empty, "");
    free(empty);
    buf_puts(&buf, "text");
    char *text = buf_take(&buf);
    assert_string_equal(text, "text");
    assert_null(buf.data);
    assert_int_equal(buf.len, 0);
    free(text);
}

static void failure_is_sticky(void **state)
{
    struct buf buf = BUF_INIT;
    buf_puts(&buf, "kept");
    assert_null(buf_reserve(&buf, SIZE_MAX - 2));
    assert_true(buf.failed);
    buf_puts(&buf, "ignored");
    buf_printf(&buf, "%d", 1);
    buf_put_u64(&buf, 1);
    assert_string_equal(buf.data, "kept");
    assert_null(buf_take(&buf));
    assert_false(buf.failed);
    buf_done(&buf);
}

static void reserved_room_is_usable(void **state)
{
    struct buf buf = BUF_INIT;
    for (size_t more = 0; more < 300; more++) {
        char *to = buf_reserve(&buf, more);
        assert_non_null(to);
        assert_ptr_equal(to, buf.data + buf.len);
        assert_true(buf.cap > buf.len + more);
        memset(to, 'x', more + 1); /* one more than asked for: the closing NUL */
        buf.len += more;
    }
    buf_done(&buf);
}

static void spans_are_compared(void **state)
{
    assert_true(span_is(span_of("abc", 2), "ab"));
    assert_false(span_is(span_of("abc", 3), "ab"));
    assert_true(span_eq(span_of(NULL, 0), span_str("")));
    assert_false(span_eq(span_of("a\0b", 3), span_of("a\0c", 3)));
    char text[8];
    snprintf(text, sizeof text, "%.*s", SPAN_ARG(span_of("abcdef", 3)));
    assert_string_equal(text, "abc");
}

static void scopes_clean_up(void **state)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    {
        _cleanup_(closep) int fd = pipes[0];
        _cleanup_(closep) int kept = pipes[1];
        _cleanup_(freep) char *block = malloc(1);
        assert_int_equal(TAKE_FD(kept), pipes[1]);
        assert_int_equal(kept, -1);
        char *taken = TAKE_PTR(block);
        assert_null(block);
        free(taken);
        assert_true(fd >= 0);
    }
    assert_int_equal(close(pipes[0]), -1); /* closed by the scope */
    assert_int_equal(close(pipes[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_appended),        cmocka_unit_test(formats_of_every_length),
        cmocka_unit_test(numbers_are_little_endian), cmocka_unit_test(the_front_is_dropped),
        cmocka_unit_test(content_is_handed_over),    cmocka_unit_test(failure_is_sticky),
        cmocka_unit_test(reserved_room_is_usable),   cmocka_unit_test(spans_are_compared),
        cmocka_unit_test(scopes_clean_up),
    };
    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
