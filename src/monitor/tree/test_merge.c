/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system/clock.h"
#include "monitor/tree/slice.h"

/* A request, the answers to it, and the reply. */
struct box {
    struct arena arena;
    struct request request;
    struct merge *merge;
    struct reply_builder answer, reply;
    Omis_reply decoded;
};

static void box_init(struct box *box, const char *request)
{
    struct err err;
    *box = (struct box){0};
    assert_int_equal(request_parse(&box->arena, span_str(request), &box->request, &err), 0);
    assert_int_equal(merge_new(&box->merge, box->request.action_count), 0);
}

static void box_done(struct box *box)
{
    arena_done(&box->arena);
    merge_free(box->merge);
    reply_done(&box->answer);
    reply_done(&box->reply);
    free(box->decoded);
}

static struct reply_builder *answer(struct box *box)
{
    reply_begin(&box->answer);
    reply_service(&box->answer);
    reply_result(&box->answer, span_str(""), OMIS_OK, NULL);
    return &box->answer;
}

static void result(struct box *box, const char *objects, Omis_status status, const char *text)
{
    struct span span = span_str(text ? text : "");
    reply_result(&box->answer, span_str(objects), status, text ? &span : NULL);
}

static int add(struct box *box, const size_t *actions, size_t count)
{
    /* exactly as long, so that the sanitizer sees a read too far; and gone afterwards */
    char *copy = malloc(box->answer.bytes.len);
    assert_non_null(copy);
    memcpy(copy, box->answer.bytes.data, box->answer.bytes.len);
    int code = merge_add(box->merge, span_of(copy, box->answer.bytes.len), actions, count, span_str("n_9"));
    free(copy);
    return code;
}

static void add_one(struct box *box, size_t action)
{
    assert_int_equal(add(box, &action, 1), 0);
}

static void finish(struct box *box)
{
    reply_begin(&box->reply);
    reply_service(&box->reply);
    reply_result(&box->reply, span_str(""), OMIS_OK, NULL);
    merge_finish(box->merge, &box->request, &box->reply);
    assert_false(box->reply.bytes.failed);
    assert_int_equal(reply_decode(span_of(box->reply.bytes.data, box->reply.bytes.len), &box->decoded), 0);
}

/* An action's results: "OBJECTS=TEXT" (no text: "OBJECTS"; an error: "OBJECTS!TEXT") with "; " between. */
static void assert_action(const struct box *box, size_t action, const char *want)
{
    struct buf got = BUF_INIT;
    buf_puts(&got, "");
    for (const Omis_object_result *at = box->decoded[action + 1]; at->obj_list; at++) {
        buf_printf(&got, "%s%s", got.len ? "; " : "", at->obj_list);
        if (at->result)
            buf_printf(&got, "%c%s", at->status == OMIS_OK ? '=' : '!', at->result);
    }
    assert_string_equal(got.data, want);
    buf_done(&got);
}

static void objects_stand_as_asked(void **state)
{
    struct box box;
    box_init(&box, ":f([p_2_9,p_1_1,p_3_4,p_2_2],1)");
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_2_2", OMIS_OK, "22");
    result(&box, "p_2_9", OMIS_OK, "29");
    add_one(&box, 0);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_3_4", OMIS_OK, "34");
    add_one(&box, 0);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_1_1", OMIS_OS_ERROR, "it \"broke\"");
    add_one(&box, 0);
    finish(&box);
    assert_action(&box, 0, "p_2_9=29; p_1_1!it \"broke\"; p_3_4=34; p_2_2=22");
    assert_int_equal(box.reply.first_error, OMIS_OS_ERROR);
    box_done(&box);
}

static void equal_results_become_one(void **state)
{
    struct box box;
    box_init(&box, ":f([p_2_9,p_1_1,p_3_4,p_2_2,p_1_2,p_1_3])");
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_1_1", OMIS_OK, "a");
    result(&box, "p_1_2", OMIS_OK, "b");
    result(&box, "p_1_3", OMIS_OK, NULL);
    add_one(&box, 0);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_2_2,p_2_9", OMIS_OK, "b");
    add_one(&box, 0);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_3_4", OMIS_OS_ERROR, "b");
    result(&box, "p_3_5", OMIS_OK, ""); /* no text is another one than none */
    add_one(&box, 0);
    finish(&box);
    assert_action(&box, 0, "p_2_9,p_2_2,p_1_2=b; p_1_1=a; p_3_4!b; p_3_5=; p_1_3");
    box_done(&box);
}

/* Threads of processes: where the first token of their node stands, else by their node. */
static void what_was_not_named(void **state)
{
    struct box box;
    box_init(&box, ":f([p_2_9,p_1_1,t_2_7]) f([])");
    static const size_t both[] = {0, 1};
    for (int node = 3; node >= 1; node--) {
        answer(&box);
        for (int action = 0; action < 2; action++) {
            reply_service(&box.answer);
            for (int i = 9; i >= 7; i--) {
                char token[32], text[32];
                snprintf(token, sizeof token, "t_%d_%d", node, i);
                snprintf(text, sizeof text, "%d%d", node, i);
                result(&box, token, OMIS_OK, text);
            }
        }
        assert_int_equal(add(&box, both, 2), 0);
    }
    finish(&box);
    assert_action(&box, 0, "t_2_9=29; t_2_8=28; t_1_9=19; t_1_8=18; t_1_7=17; t_2_7=27; t_3_9=39; t_3_8=38; t_3_7=37");
    assert_action(&box, 1, "t_1_9=19; t_1_8=18; t_1_7=17; t_2_9=29; t_2_8=28; t_2_7=27; t_3_9=39; t_3_8=38; t_3_7=37");
    box_done(&box);
}

static void results_without_object(void **state)
{
    struct box box;
    box_init(&box, ":f([]) f([]) f([]) print([1]) f([])");
    static const size_t all[] = {0, 1, 2, 3};
    answer(&box);
    reply_service(&box.answer);
    result(&box, "", OMIS_OK, NULL);
    reply_service(&box.answer);
    result(&box, "", OMIS_OK, NULL);
    reply_service(&box.answer);
    result(&box, "", OMIS_OS_ERROR, "no");
    reply_service(&box.answer);
    result(&box, "", OMIS_OK, "1");
    assert_int_equal(add(&box, all, 4), 0);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "", OMIS_OK, NULL);
    reply_service(&box.answer);
    result(&box, "n_2", OMIS_OK, NULL);
    reply_service(&box.answer);
    result(&box, "", OMIS_OS_ERROR, "no");
    result(&box, "n_3", OMIS_OK, "x");
    reply_service(&box.answer);
    assert_int_equal(add(&box, all, 4), 0);
    finish(&box);
    assert_action(&box, 0, "");
    assert_null(box.decoded[1][0].result);
    assert_string_equal(box.decoded[1][0].obj_list, "");
    assert_null(box.decoded[1][1].obj_list);
    assert_action(&box, 1, "n_2");
    assert_action(&box, 2, "n_3=x; !no");
    assert_action(&box, 3, "=1");
    assert_string_equal(box.decoded[5][0].obj_list, ""); /* nobody answered: an OK */
    assert_null(box.decoded[5][1].obj_list);
    box_done(&box);
}

static void places_that_fail(void **state)
{
    struct box box;
    box_init(&box, ":f([p_1_1,p_9_2]) print([]) f([]);f([n_3])");
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_1_1", OMIS_OK, "1");
    add_one(&box, 0);
    static const size_t some[] = {0, 2};
    reply_begin(&box.answer);
    reply_service(&box.answer);
    result(&box, "", OMIS_NO_MEMORY, "too long");
    assert_int_equal(add(&box, some, 2), 0);
    assert_int_equal(merge_fail(box.merge, (const size_t[]){3}, 1, span_str("n_3,n_4"), OMIS_OS_ERROR,
                                span_str("n_3 does not answer since 12 s")),
                     0);
    finish(&box);
    assert_action(&box, 0, "p_1_1=1; n_9!too long");
    assert_action(&box, 1, "");
    assert_action(&box, 2, "n_9!too long");
    assert_action(&box, 3, "n_3,n_4!n_3 does not answer since 12 s");
    box_done(&box);
}

static void places_that_all_refuse(void **state)
{
    struct box box;
    struct reply_part why;
    static const size_t all[] = {0};
    box_init(&box, ":f([])");
    assert_false(merge_is_refused(box.merge, &why));
    for (int i = 0; i < 2; i++) {
        reply_begin(&box.answer);
        reply_service(&box.answer);
        result(&box, "", OMIS_UNSUPPORTED_SERVICE, "not in this version");
        assert_int_equal(add(&box, all, 1), 0);
        assert_true(merge_is_refused(box.merge, &why));
    }
    assert_int_equal(why.status, OMIS_UNSUPPORTED_SERVICE);
    assert_true(span_is(why.text, "not in this version"));
    reply_begin(&box.answer);
    reply_service(&box.answer);
    result(&box, "", OMIS_UNSUPPORTED_SERVICE, "not on this node");
    assert_int_equal(add(&box, all, 1), 0);
    assert_false(merge_is_refused(box.merge, &why));
    finish(&box);
    assert_action(&box, 0, "n_9,n_9!not in this version; n_9!not on this node");
    box_done(&box);
}

static void bytes_that_are_no_answer(void **state)
{
    struct box box;
    static const size_t two[] = {0, 1};
    box_init(&box, ":f([]) f([])");
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_2_1", OMIS_OK, "1");
    assert_int_equal(add(&box, two, 2), -EBADMSG); /* one element too few */
    reply_service(&box.answer);
    reply_service(&box.answer);
    assert_int_equal(add(&box, two, 2), -EBADMSG); /* too many */
    assert_int_equal(merge_add(box.merge, span_of("\0\0\0\0", 4), two, 2, span_str("n_1")), -EBADMSG);
    assert_int_equal(merge_add(box.merge, span_of("", 0), two, 2, span_str("n_1")), -EBADMSG);
    for (size_t len = 0; len < box.answer.bytes.len; len++)
        assert_int_equal(merge_add(box.merge, span_of(box.answer.bytes.data, len), two, 2, span_str("n_1")), -EBADMSG);
    finish(&box);
    assert_action(&box, 0, "");
    assert_action(&box, 1, "");
    box_done(&box);
}

static void binary_results(void **state)
{
    struct box box;
    box_init(&box, ":f([p_2_1,p_1_1,p_3_1])");
    static const struct {
        const char *token;
        struct span text;
    } rows[] = {{"p_1_1", {"5#ab\"\0c", 7}}, {"p_2_1", {"5#ab\"\0d", 7}}, {"p_3_1", {"5#ab\"\0d", 7}}};
    for (size_t i = 0; i < 3; i++) {
        answer(&box);
        reply_service(&box.answer);
        reply_result(&box.answer, span_str(rows[i].token), OMIS_OK, &rows[i].text);
        add_one(&box, 0);
    }
    finish(&box);
    const Omis_object_result *results = box.decoded[1];
    assert_string_equal(results[0].obj_list, "p_2_1,p_3_1");
    assert_memory_equal(results[0].result, "5#ab\"\0d", 8);
    assert_string_equal(results[1].obj_list, "p_1_1");
    assert_memory_equal(results[1].result, "5#ab\"\0c", 8);
    assert_null(results[2].obj_list);
    box_done(&box);
}

static void a_reply_that_gets_too_long(void **state)
{
    struct box box;
    box_init(&box, ":f([]) f([])");
    char *text = calloc(1, 1001);
    assert_non_null(text);
    memset(text, '7', 1000);
    answer(&box);
    reply_service(&box.answer);
    result(&box, "p_1_1", OMIS_OK, text);
    reply_service(&box.answer);
    result(&box, "p_1_1", OMIS_OK, text);
    free(text);
    assert_int_equal(add(&box, (const size_t[]){0, 1}, 2), 0);
    box.reply.limit = 1500;
    finish(&box);
    assert_true(box.reply.full);
    box_done(&box);
}

/* Twice as many take about twice as long, not four times: from 250 nodes, asked for in another order, half of them equal. */
static double merge_many(size_t count)
{
    struct buf text = BUF_INIT;
    struct box box;
    buf_puts(&text, ":f([");
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%sp_%zu_%zu", i ? "," : "", i % 250 + 1, i);
    buf_puts(&text, "])");
    box_init(&box, text.data);
    uint64_t spent = 0;
    size_t action = 0;
    for (size_t node = 250; node-- > 0;) {
        answer(&box);
        reply_service(&box.answer);
        for (size_t i = node; i < count; i += 250) {
            char token[48], number[32];
            snprintf(token, sizeof token, "p_%zu_%zu", node + 1, i);
            snprintf(number, sizeof number, "%zu", i % 500 >= 250 ? i : 0);
            result(&box, token, OMIS_OK, number);
        }
        uint64_t before = clock_now_ns();
        assert_int_equal(
            merge_add(box.merge, span_of(box.answer.bytes.data, box.answer.bytes.len), &action, 1, span_str("n_1")), 0);
        spent += clock_now_ns() - before;
    }
    uint64_t before = clock_now_ns();
    finish(&box);
    spent += clock_now_ns() - before;
    size_t entries = 0;
    while (box.decoded[1][entries].obj_list)
        entries++;
    assert_int_equal(entries, count / 2 + 1);
    box_done(&box);
    buf_done(&text);
    return (double)spent / 1e6;
}

/* Of a node that was broken into: they take 30 times the memory here. */
static void too_many_objects(void **state)
{
    struct box box;
    struct buf text = BUF_INIT;
    static const size_t one[] = {0};
    box_init(&box, ":f([])");
    answer(&box);
    reply_service(&box.answer);
    for (size_t i = 0; i < 3 << 20; i++)
        buf_puts(&text, "n_2,");
    result(&box, text.data, OMIS_OK, "1");
    assert_int_equal(add(&box, one, 1), -EBADMSG);
    box_done(&box);
    buf_done(&text);
}

static void many_objects(void **state)
{
    double some = merge_many(20000), all = merge_many(100000);
    printf("# merged: 20000 objects in %.1f ms, 100000 in %.1f ms\n", some, all);
    assert_true(all < 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_stand_as_asked),     cmocka_unit_test(equal_results_become_one),
        cmocka_unit_test(what_was_not_named),         cmocka_unit_test(results_without_object),
        cmocka_unit_test(places_that_fail),           cmocka_unit_test(places_that_all_refuse),
        cmocka_unit_test(bytes_that_are_no_answer),   cmocka_unit_test(binary_results),
        cmocka_unit_test(a_reply_that_gets_too_long), cmocka_unit_test(many_objects),
        cmocka_unit_test(too_many_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
