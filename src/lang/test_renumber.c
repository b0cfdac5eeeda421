/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>

#include "lang/token.h"
#include "lang/reply.h"

/* 7 is not known. */
static uint32_t plus_forty(void *ctx, uint32_t theirs)
{
    (void)ctx;
    assert_int_not_equal(theirs, 0);
    return theirs == 7 ? 0 : theirs + 40;
}

static const struct renumber numbers = {.ours = plus_forty};

static void check_span(struct span text, struct span want)
{
    struct buf out = BUF_INIT;
    buf_puts(&out, "before ");
    char *exact = malloc(text.len + !text.len); /* so that the sanitizer sees a read too far */
    assert_non_null(exact);
    memcpy(exact, text.ptr, text.len);
    renumber_text(&out, span_of(exact, text.len), &numbers);
    free(exact);
    assert_int_equal(out.len, 7 + want.len);
    assert_memory_equal(out.data, "before ", 7);
    assert_memory_equal(out.data + 7, want.ptr, want.len);
    buf_done(&out);
}

static void check(const char *text, const char *want)
{
    check_span(span_str(text), span_str(want));
}

static void tokens_in_values(void **state)
{
    check("", "");
    check("p_1_3", "p_41_3");
    check("p_1_3,p_2_18446744073709551615", "p_41_3,p_42_18446744073709551615");
    check("n_2", "n_42");
    check("[p_1_3, [t_2_4,[ n_3 ]]],12,pa_c_2_4", "[p_41_3, [t_42_4,[ n_43 ]]],12,pa_c_42_4");
    check("c_9_1\t,e_99_2\n", "c_49_1\t,e_139_2\n");
    check("p_7_3,n_7,[pa_c_7_1]", "u_0,u_0,[u_0]"); /* of a node that is not known */
    check("u_0,p_0_3,n_0", "u_0,p_0_3,n_0");
}

static void what_is_no_token(void **state)
{
    check("12,0x1f,1e5,-3,1.5,inf,nan:0x7ff8000000000001,12u", "12,0x1f,1e5,-3,1.5,inf,nan:0x7ff8000000000001,12u");
    check("p_1,p_1_02,p_1_3_,_p_1_3,proc_1_3,abc,p__1_3,p_4294967296_1",
          "p_1,p_1_02,p_1_3_,_p_1_3,proc_1_3,abc,p__1_3,p_4294967296_1");
    check("\"p_1_3\",p_1_3,\"a\\\"p_1_3\",[\"\\\\\",p_1_3]", "\"p_1_3\",p_41_3,\"a\\\"p_1_3\",[\"\\\\\",p_41_3]");
    check("$p_1_3", "$p_1_3");
}

static void binary_data(void **state)
{
    check("5#p_1_3,p_1_3", "5#p_1_3,p_41_3");
    check("5#ab\"_c,p_1_3", "5#ab\"_c,p_41_3");
    check("[0#,p_1_3,6#,p_1_3]", "[0#,p_41_3,6#,p_1_3]");
    check("99#p_1_3 p_1_3", "99#p_1_3 p_41_3"); /* an error's text: so many bytes do not follow */
    check("-5#p_1_3,99999999999999999999#p_1_3", "-5#p_1_3,99999999999999999999#p_1_3");
    check_span(span_of("3#\0\"\0,p_1_3", 11), span_of("3#\0\"\0,p_41_3", 12));
}

static void texts_of_errors(void **state)
{
    check("p_1_3 (pid 4) is not attached: proc_attach([p_1_3]) first",
          "p_41_3 (pid 4) is not attached: proc_attach([p_41_3]) first");
    check("there is no object p_1_3. See n_1: 'p_1_4'; p_1_5...",
          "there is no object p_41_3. See n_41: 'p_41_4'; p_41_5...");
    check("cannot open /tmp/p_1_3, log_1_2, p_1_3/x, p_1_3.so, ~p_1_3, a-p_1_3, p_1_3-b, p_1_3@host",
          "cannot open /tmp/p_1_3, log_1_2, p_1_3/x, p_1_3.so, ~p_1_3, a-p_1_3, p_1_3-b, p_1_3@host");
    check("the string \"p_1_3 of p_1_3", "the string \"p_1_3 of p_41_3"); /* open */
    check("\"a\" p_1_3 \" p_1_4 \\\" p_1_5", "\"a\" p_41_3 \" p_41_4 \\\" p_41_5");
}

static void an_open_quote_costs_no_time(void **state)
{
    enum { COUNT = 1 << 20 };
    struct buf text = BUF_INIT, out = BUF_INIT;
    for (int i = 0; i < COUNT; i++)
        buf_puts(&text, "\"\\");
    renumber_text(&out, span_of(text.data, text.len), &numbers);
    assert_int_equal(out.len, text.len);
    assert_memory_equal(out.data, text.data, text.len);
    buf_done(&text);
    buf_done(&out);
}

static void put(struct reply_builder *reply, const char *objects, Omis_status status, struct span text)
{
    reply_result(reply, span_str(objects), status, text.ptr ? &text : NULL);
}

static void replies(void **state)
{
    struct reply_builder reply = {0};
    struct buf out = BUF_INIT;
    reply_begin(&reply);
    reply_service(&reply);
    put(&reply, "", OMIS_CSR_DEFINED, span_str("c_1_1"));
    reply_service(&reply);
    put(&reply, "p_1_1", OMIS_OK, span_of("2#p\0,p_1_1", 10));
    put(&reply, "p_1_2", OMIS_OK, span_of("2#p\0,p_1_1", 10));
    put(&reply, "p_7_2", OMIS_OS_ERROR | OMIS_FATAL, span_str("p_1_9 said \"no"));
    reply_service(&reply);
    put(&reply, "n_1", OMIS_OK, span_of(NULL, 0));
    put(&reply, "n_2", OMIS_OK, span_str(""));
    assert_int_equal(renumber_reply(&out, span_of(reply.bytes.data, reply.bytes.len), &numbers), 0);
    struct reply_reader reader;
    assert_true(reply_read_begin(&reader, span_of(out.data, out.len)));
    assert_int_equal(reader.service_count, 3);
    assert_int_equal(reply_read_service(&reader), 1);
    struct reply_part part = reply_read_part(&reader);
    assert_true(span_is(part.text, "c_41_1") && part.status == OMIS_CSR_DEFINED);
    assert_int_equal(reply_read_service(&reader), 2);
    part = reply_read_part(&reader);
    assert_true(span_is(part.objects, "p_41_1,p_41_2") && span_eq(part.text, span_of("2#p\0,p_41_1", 11)));
    part = reply_read_part(&reader);
    assert_true(span_is(part.objects, "u_0") && span_is(part.text, "p_41_9 said \"no"));
    assert_int_equal(part.status, OMIS_OS_ERROR | OMIS_FATAL);
    assert_int_equal(reply_read_service(&reader), 2);
    part = reply_read_part(&reader);
    assert_true(span_is(part.objects, "n_41") && !part.has_text);
    part = reply_read_part(&reader);
    assert_true(span_is(part.objects, "n_42") && part.has_text && part.text.len == 0);
    for (size_t len = 0; len < reply.bytes.len; len++)
        assert_int_equal(renumber_reply(&out, span_of(reply.bytes.data, len), &numbers), -EBADMSG);
    buf_done(&out);
    reply_done(&reply);
}

static void objects_that_are_no_tokens(void **state)
{
    static const char *const bad[] = {
        "n_1]) proc_create([n_1", "p_1_1 ", "n_1,", ",", ",n_1", "n_1,,n_1", "\"", "n_1\n", "\377"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct reply_builder reply = {0};
        struct buf out = BUF_INIT;
        reply_begin(&reply);
        reply_service(&reply);
        put(&reply, bad[i], OMIS_OK, span_str("1"));
        assert_int_equal(renumber_reply(&out, span_of(reply.bytes.data, reply.bytes.len), &numbers), -EBADMSG);
        buf_done(&out);
        reply_done(&reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_in_values),
        cmocka_unit_test(what_is_no_token),
        cmocka_unit_test(binary_data),
        cmocka_unit_test(texts_of_errors),
        cmocka_unit_test(objects_that_are_no_tokens),
        cmocka_unit_test(replies),
        cmocka_unit_test(an_open_quote_costs_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
