/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lang/reply.h"

static void add(struct reply_builder *reply, const char *objects, Omis_status status, const char *text)
{
    struct span span = span_str(text ? text : "");
    reply_result(reply, span_str(objects), status, text ? &span : NULL);
}

static Omis_reply decode(const struct reply_builder *reply)
{
    assert_false(reply->bytes.failed);
    /* exactly as long, so that the sanitizer sees a read too far */
    char *copy = malloc(reply->bytes.len);
    assert_non_null(copy);
    memcpy(copy, reply->bytes.data, reply->bytes.len);
    Omis_reply decoded = NULL;
    assert_int_equal(reply_decode(span_of(copy, reply->bytes.len), &decoded), 0);
    free(copy);
    return decoded;
}

static void assert_result(const Omis_object_result *result, const char *objects, Omis_status status, const char *text)
{
    assert_string_equal(result->obj_list, objects);
    assert_int_equal(result->status, status);
    if (text)
        assert_string_equal(result->result, text);
    else
        assert_null(result->result);
}

static void replies_round_trip(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    add(&reply, "", OMIS_CSR_DEFINED, "c_1_1");
    reply_service(&reply);
    reply_service(&reply);
    add(&reply, "p_1_1", OMIS_OK, "1,\"a\"");
    add(&reply, "p_1_2", OMIS_OS_ERROR | OMIS_FATAL, "it broke");
    add(&reply, "p_1_3", OMIS_OK, NULL);
    add(&reply, "", OMIS_OK, "");
    Omis_reply decoded = decode(&reply);
    assert_result(&decoded[0][0], "", OMIS_CSR_DEFINED, "c_1_1");
    assert_null(decoded[0][1].obj_list);
    assert_null(decoded[1][0].obj_list);
    assert_result(&decoded[2][0], "p_1_1", OMIS_OK, "1,\"a\"");
    assert_result(&decoded[2][1], "p_1_2", OMIS_OS_ERROR | OMIS_FATAL, "it broke");
    assert_result(&decoded[2][2], "p_1_3", OMIS_OK, NULL);
    assert_result(&decoded[2][3], "", OMIS_OK, "");
    assert_null(decoded[2][4].obj_list);
    assert_null(decoded[3]);
    free(decoded);
    buf_done(&reply.bytes);
}

static void equal_neighbours_are_merged(void **state)
{
    struct reply_builder reply = {0};
    reply_begin(&reply);
    reply_service(&reply);
    add(&reply, "", OMIS_OK, NULL);
    reply_service(&reply);
    add(&reply, "t_1", OMIS_OK, "7");
    add(&reply, "t_2", OMIS_OK, "7");
    add(&reply, "t_3", OMIS_OK, "7");
    add(&reply, "t_4", OMIS_OK, "8");
    add(&reply, "t_5", OMIS_OK, "7"); /* not a neighbour */
    add(&reply, "t_6", OMIS_OK, NULL);
    add(&reply, "t_7", OMIS_OK, NULL);
    add(&reply, "t_8", OMIS_OK, ""); /* "" is not NULL */
    add(&reply, "t_9", OMIS_OS_ERROR, "");
    add(&reply, "", OMIS_OS_ERROR, ""); /* no object: never merged */
    add(&reply, "", OMIS_OS_ERROR, "");
    add(&reply, "t_10", OMIS_OS_ERROR, "");
    reply_service(&reply);
    add(&reply, "t_11", OMIS_OS_ERROR, ""); /* another service */
    Omis_reply decoded = decode(&reply);
    assert_result(&decoded[1][0], "t_1,t_2,t_3", OMIS_OK, "7");
    assert_result(&decoded[1][1], "t_4", OMIS_OK, "8");
    assert_result(&decoded[1][2], "t_5", OMIS_OK, "7");
    assert_result(&decoded[1][3], "t_6,t_7", OMIS_OK, NULL);
    assert_result(&decoded[1][4], "t_8", OMIS_OK, "");
    assert_result(&decoded[1][5], "t_9", OMIS_OS_ERROR, "");
    assert_result(&decoded[1][6], "", OMIS_OS_ERROR, "");
    assert_result(&decoded[1][7], "", OMIS_OS_ERROR, "");
    assert_result(&decoded[1][8], "t_10", OMIS_OS_ERROR, "");
    assert_null(decoded[1][9].obj_list);
    assert_result(&decoded[2][0], "t_11", OMIS_OS_ERROR, "");
    assert_null(decoded[3]);
    free(decoded);
    buf_done(&reply.bytes);
}

static void a_thousand_objects_become_one_entry(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    reply_service(&reply);
    struct buf want = BUF_INIT;
    for (int i = 0; i < 1000; i++) {
        char token[16];
        snprintf(token, sizeof token, "p_1_%d", i);
        buf_printf(&want, "%s%s", i ? "," : "", token);
        add(&reply, token, OMIS_OK, NULL);
    }
    Omis_reply decoded = decode(&reply);
    assert_result(&decoded[1][0], want.data, OMIS_OK, NULL);
    assert_null(decoded[1][1].obj_list);
    free(decoded);
    buf_done(&want);
    buf_done(&reply.bytes);
}

static void only_ok_is_tracked(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    add(&reply, "", OMIS_CSR_TRIGGERED, "c_1_1"); /* element 0 does not count */
    reply_service(&reply);
    add(&reply, "p_1_1", OMIS_OK, NULL);
    assert_true(reply.only_ok);
    add(&reply, "p_1_2", OMIS_OK, "1");
    assert_false(reply.only_ok);
    reply_begin(&reply);
    assert_true(reply.only_ok);
    reply_service(&reply);
    reply_service(&reply);
    add(&reply, "p_1_1", OMIS_NO_PERMISSION, NULL);
    assert_false(reply.only_ok);
    reply_begin(&reply);
    Omis_reply decoded = decode(&reply);
    assert_null(decoded[0]);
    free(decoded);
    buf_done(&reply.bytes);
}

static void binary_results_keep_their_length(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    reply_service(&reply);
    struct span text = span_of("5#a\0b\0c,7", 9);
    reply_result(&reply, span_str("p_1_1"), OMIS_OK, &text);
    reply_result(&reply, span_str("p_1_2"), OMIS_OK, &text);
    Omis_reply decoded = decode(&reply);
    assert_string_equal(decoded[1][0].obj_list, "p_1_1,p_1_2");
    assert_int_equal(reply_result_length(decoded[1][0].result), 9);
    assert_memory_equal(decoded[1][0].result, text.ptr, 10); /* and the NUL */
    free(decoded);
    buf_done(&reply.bytes);
    assert_int_equal(reply_result_length(NULL), 0);
    assert_int_equal(reply_result_length("\"5#\""), 4);
}

static int decode_copy(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    Omis_reply decoded = (Omis_reply)(void *)copy;
    int code = reply_decode(span_of(copy, len), &decoded);
    if (code == 0)
        free(decoded);
    else
        assert_ptr_equal(decoded, copy); /* untouched */
    free(copy);
    return code;
}

static void foreign_bytes_are_checked(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    add(&reply, "", OMIS_OK, NULL);
    reply_service(&reply);
    add(&reply, "p_1_1,p_1_2", OMIS_OK, "3#abc");
    add(&reply, "p_1_3", OMIS_OS_ERROR, "text 99#");
    for (size_t cut = 0; cut < reply.bytes.len; cut++)
        assert_int_equal(decode_copy(reply.bytes.data, cut), -EBADMSG);
    assert_int_equal(decode_copy(reply.bytes.data, reply.bytes.len), 0);
    for (size_t i = 0; i < reply.bytes.len; i++) /* must not crash, whatever it says */
        for (int bit = 0; bit < 8; bit++) {
            reply.bytes.data[i] ^= (char)(1 << bit);
            int code = decode_copy(reply.bytes.data, reply.bytes.len);
            assert_true(code == 0 || code == -EBADMSG);
            reply.bytes.data[i] ^= (char)(1 << bit);
        }
    buf_putc(&reply.bytes, 'x'); /* something behind the end */
    assert_int_equal(decode_copy(reply.bytes.data, reply.bytes.len), -EBADMSG);
    buf_done(&reply.bytes);
    assert_int_equal(decode_copy("\xff\xff\xff\xff", 4), -EBADMSG);
    assert_int_equal(decode_copy("\1\0\0\0\xff\xff\xff\xff", 8), -EBADMSG);
    assert_int_equal(decode_copy("\1\0\0\0\1\0\0\0\0\0\0\0\xfe\xff\xff\xff\xff\xff\xff\xff", 20), -EBADMSG);
}

static void results_that_a_scan_would_leave_are_refused(void **state)
{
    struct reply_builder reply = {0};
    reply_service(&reply);
    add(&reply, "", OMIS_OK, "text for people 99#"); /* debugging output: any text */
    reply_service(&reply);
    add(&reply, "p_1_1", OMIS_OK, "6#abc");
    assert_int_equal(decode_copy(reply.bytes.data, reply.bytes.len), -EBADMSG);
    reply_begin(&reply);
    reply_service(&reply);
    add(&reply, "", OMIS_OK, "text for people 99#");
    reply_service(&reply);
    add(&reply, "p_1_1", OMIS_PARAMETER_ERROR, "6#abc");
    add(&reply, "p_1\n", OMIS_OK, NULL);
    assert_int_equal(decode_copy(reply.bytes.data, reply.bytes.len), 0);
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("p\0q", 3), OMIS_OK, NULL);
    assert_int_equal(decode_copy(reply.bytes.data, reply.bytes.len), -EBADMSG);
    buf_done(&reply.bytes);
}

static void status_names(void **state)
{
    assert_string_equal(omis_status_name(OMIS_OK), "OMIS_OK");
    assert_string_equal(omis_status_name(OMIS_UNKNOWN_OBJECT), "OMIS_UNKNOWN_OBJECT");
    assert_string_equal(omis_status_name(OMIS_OS_ERROR | OMIS_FATAL), "OMIS_OS_ERROR|OMIS_FATAL");
    assert_string_equal(omis_status_name(OMIS_UNSPECIFIED_ERROR), "OMIS_UNSPECIFIED_ERROR");
    assert_string_equal(omis_status_name(OMIS_UNSPECIFIED_ERROR | 1), "OMIS_UNSPECIFIED_ERROR|OMIS_FATAL");
    assert_string_equal(omis_status_name(1), "unknown status");
    assert_string_equal(omis_status_name(-1), "unknown status");
    assert_string_equal(omis_status_name(38), "unknown status");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_round_trip),
        cmocka_unit_test(equal_neighbours_are_merged),
        cmocka_unit_test(a_thousand_objects_become_one_entry),
        cmocka_unit_test(only_ok_is_tracked),
        cmocka_unit_test(binary_results_keep_their_length),
        cmocka_unit_test(foreign_bytes_are_checked),
        cmocka_unit_test(results_that_a_scan_would_leave_are_refused),
        cmocka_unit_test(status_names),
    };
    return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
