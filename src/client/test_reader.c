/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of replies: every kind of value, every way a reply can be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <scry/omis.h>
#include <stdio.h>
#include <string.h>

#include "client/client.h"
#include "client/decode.h"
#include "lang/results.h"

/* A reply of one action with one result. */
struct one {
    Omis_object_result whole[2], action[2];
    Omis_service_result services[3];
    char text[256];
};

static struct omis_reader *read_one(struct one *one, const char *objects, Omis_status status, const char *text,
                                    size_t len)
{
    static char no_objects[] = "";
    memset(one, 0, sizeof *one);
    memcpy(one->text, text, len);
    one->whole[0].obj_list = no_objects;
    one->action[0] = (Omis_object_result){(char *)objects, status, one->text};
    one->services[0] = one->whole;
    one->services[1] = one->action;
    struct omis_reader *reader = omis_reader_new(one->services);
    assert_int_equal(omis_reader_find(reader, 1), 1);
    return reader;
}

static void values_have_their_kinds(void **state)
{
    static const char text[] =
        "-1, 18446744073709551615, 2.5, \"a\\tb\\0c\", p_1_3, 4#\0,\"], [t_1_1,[]], inf, \"plain\"";
    struct one one;
    struct omis_reader *reader = read_one(&one, "p_1_3,p_1_4", OMIS_OK, text, sizeof text - 1);
    const struct omis_value *values = omis_reader_values(reader);
    size_t len;
    assert_null(omis_reader_error(reader));
    assert_int_equal(omis_count(values), 9);
    assert_int_equal(omis_integer(omis_item(values, 0)), -1);
    assert_int_equal(omis_unsigned(omis_item(values, 0)), 0);
    assert_true(omis_unsigned(omis_item(values, 1)) == UINT64_MAX);
    assert_true(omis_integer(omis_item(values, 1)) == INT64_MAX);
    assert_true(omis_floating(omis_item(values, 1)) == 0x1p64);
    assert_true(omis_floating(omis_item(values, 2)) == 2.5 && omis_integer(omis_item(values, 2)) == 0);
    assert_memory_equal(omis_text(omis_item(values, 3), &len), "a\tb\0c", 6);
    assert_int_equal(len, 5);
    assert_string_equal(omis_text(omis_item(values, 4), NULL), "p_1_3");
    assert_memory_equal(omis_text(omis_item(values, 5), &len), "\0,\"]", 5);
    assert_int_equal(len, 4);
    const struct omis_value *list = omis_item(values, 6);
    assert_int_equal(omis_count(list), 2);
    assert_string_equal(omis_text(omis_item(list, 0), NULL), "t_1_1");
    assert_int_equal(omis_kind(omis_item(list, 1)), OMIS_KIND_LIST);
    assert_true(isinf(omis_floating(omis_item(values, 7))) && isinf(omis_long_floating(omis_item(values, 7))));
    assert_string_equal(omis_text(omis_item(values, 8), NULL), "plain");
    static const enum omis_kind kinds[] = {OMIS_KIND_INTEGER, OMIS_KIND_INTEGER, OMIS_KIND_FLOATING, OMIS_KIND_STRING,
                                           OMIS_KIND_TOKEN,   OMIS_KIND_BINARY,  OMIS_KIND_LIST,     OMIS_KIND_FLOATING,
                                           OMIS_KIND_STRING,  OMIS_KIND_NONE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        assert_int_equal(omis_kind(omis_item(values, i)), kinds[i]);
    assert_string_equal(omis_reader_object(reader, 0), "p_1_3");
    assert_string_equal(omis_reader_object(reader, 1), "p_1_4");
    assert_null(omis_reader_object(reader, 2));
    assert_ptr_equal(omis_reader_text(reader), one.text);
    assert_memory_equal(one.text, text, sizeof text); /* the reply is as it was */
    omis_reader_free(reader);
}

/* What is asked of the wrong thing is answered, not a crash. */
static void nothing_crashes(void **state)
{
    struct one one;
    size_t len = 7;
    assert_string_equal(omis_text(NULL, &len), "");
    assert_int_equal(len, 0);
    assert_int_equal(omis_count(NULL) + (size_t)omis_integer(NULL) + (size_t)omis_floating(NULL), 0);
    assert_null(omis_item(NULL, 0));
    assert_non_null(omis_reader_error(NULL));
    assert_int_equal(omis_count(omis_reader_values(NULL)), 0);
    assert_int_equal(omis_reader_next(NULL), 0);
    assert_string_equal(omis_reader_text(NULL), "");
    omis_reader_free(NULL);
    struct omis_reader *reader = omis_reader_new(NULL);
    assert_int_equal(omis_reader_next(reader) + omis_reader_find(reader, 0), 0);
    assert_null(omis_reader_object(reader, 0));
    assert_null(omis_reader_error(reader));
    omis_reader_free(reader);
    static const char *const broken[] = {"[1,2", "\"open", "1 2", "9999999999999999999999", ",", "\"\\q\""};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        reader = read_one(&one, "", OMIS_OK, broken[i], strlen(broken[i]));
        assert_int_equal(omis_count(omis_reader_values(reader)), 0);
        assert_non_null(strstr(omis_reader_error(reader), "the result is not in the language"));
        omis_reader_free(reader);
    }
}

static void results_come_in_order(void **state)
{
    static char none[] = "", a[] = "p_1_1", b[] = "p_1_2,p_1_3", why[] = "gone, 3#", token[] = "c_1_1", one[] = "1";
    Omis_object_result whole[] = {{none, OMIS_CSR_DEFINED, token}, {0}}, empty[] = {{0}},
                       two[] = {{a, OMIS_OK, one}, {b, OMIS_UNKNOWN_OBJECT | OMIS_FATAL, why}, {0}};
    Omis_service_result reply[] = {whole, empty, two, NULL};
    struct omis_reader *reader = omis_reader_new(reply);
    assert_string_equal(omis_reader_first_error(reader), "OMIS_UNKNOWN_OBJECT|OMIS_FATAL: gone, 3#");
    assert_int_equal(omis_reader_next(reader), 1);
    assert_int_equal(omis_reader_action(reader), 0);
    assert_int_equal(omis_reader_status(reader), OMIS_CSR_DEFINED);
    assert_null(omis_reader_object(reader, 0));
    assert_string_equal(omis_text(omis_item(omis_reader_values(reader), 0), NULL), "c_1_1");
    assert_int_equal(omis_reader_next(reader), 1);
    assert_int_equal(omis_reader_action(reader), 2);
    assert_string_equal(omis_reader_object(reader, 0), "p_1_1");
    assert_int_equal(omis_reader_next(reader), 1);
    assert_int_equal(omis_count(omis_reader_values(reader)), 0);
    assert_string_equal(omis_reader_error(reader), "OMIS_UNKNOWN_OBJECT|OMIS_FATAL: gone, 3#");
    assert_string_equal(omis_reader_object(reader, 1), "p_1_3");
    assert_int_equal(omis_reader_next(reader) + omis_reader_next(reader), 0);
    assert_int_equal(omis_reader_find(reader, 1) + omis_reader_find(reader, 3) + omis_reader_find(reader, SIZE_MAX), 0);
    assert_null(omis_reader_error(reader));
    assert_int_equal(omis_reader_find(reader, 2), 1);
    assert_int_equal(omis_unsigned(omis_item(omis_reader_values(reader), 0)), 1);
    omis_reader_free(reader);
    whole[0].status = OMIS_SYNTAX_ERROR; /* refused as a whole: a reader of action 1 gets the reason */
    reader = omis_reader_new(reply);
    assert_int_equal(omis_reader_find(reader, 1), 0);
    assert_string_equal(omis_reader_error(reader), "OMIS_SYNTAX_ERROR: c_1_1");
    assert_int_equal(omis_count(omis_reader_values(reader)), 0);
    omis_reader_free(reader);
}

/* Answers taken apart by what the rows of services say. */

static struct omis_reader *read_result(const char *text)
{
    struct omis_reader *reader = omis_reader_take(client_reply(OMIS_OK, "%s", text));
    assert_int_equal(omis_reader_next(reader), 1);
    return reader;
}

struct process {
    uint64_t rss;
    int64_t whole;
    int32_t pid;
    const char *name;
    const struct omis_value *args;
};
static const struct decode_field process_fields[] = {DECODE(struct process, pid),  DECODE(struct process, rss),
                                                     DECODE(struct process, name), DECODE(struct process, whole),
                                                     DECODE(struct process, args), {0}};

static void members_are_found_by_name(void **state)
{
    struct omis_reader *reader =
        read_result("7,1,0,0,4096,0,1,\"R\",\"sh\",1,\"/\",[\"sh\"], 8,7,0,0,\"?\",0,1,\"S\",\"cat\",-1,\"\",[]");
    struct decoder decoder;
    struct process process;
    decoder_init(&decoder, JOB_ALIVE, 0, process_fields);
    const struct omis_value *values = omis_reader_values(reader);
    assert_int_equal(decoder_rows(&decoder, values), 2);
    decode(&decoder, values, 0, &process);
    assert_int_equal(process.pid, 7);
    assert_int_equal(process.rss, 4096);
    assert_string_equal(process.name, "sh");
    assert_int_equal(process.whole, 1);
    assert_int_equal(omis_count(process.args), 1);
    decode(&decoder, values, 1, &process);
    assert_int_equal(process.pid, 8);
    assert_int_equal(process.rss, 0);
    assert_int_equal(process.whole, -1);
    decode(&decoder, values, 2, &process); /* behind the end */
    assert_int_equal(process.pid, -1);
    assert_string_equal(process.name, "");
    assert_null(process.args);
    omis_reader_free(reader);
}

static void what_was_printed_has_the_names_of_the_request(void **state)
{
    struct said {
        double seconds;
        const char *text;
    } said;
    static const struct decode_field fields[] = {DECODE(struct said, text), DECODE(struct said, seconds), {0}};
    struct buf request = BUF_INIT;
    (void)state;
    decode_request(&request, fields);
    assert_string_equal(request.data, "print([$text, $seconds])");
    buf_done(&request);
    struct omis_reader *reader = read_result("2,[\"why\",1.5]");
    assert_true(decode_printed(omis_reader_values(reader), fields, &said));
    assert_string_equal(said.text, "why");
    assert_true(said.seconds == 1.5);
    omis_reader_free(reader);
    reader = read_result("1,[\"why\"]");
    assert_false(decode_printed(omis_reader_values(reader), fields, &said));
    omis_reader_free(reader);
}

static void brackets_count_where_they_were_asked_for(void **state)
{
    struct node {
        const char *name;
        int64_t mem_freepages;
        double cpu_rql1;
    } node;
    static const struct decode_field dynamic[] = {
        DECODE(struct node, cpu_rql1), DECODE(struct node, mem_freepages), {0}};
    static const struct decode_field all[] = {DECODE(struct node, name), DECODE(struct node, mem_freepages), {0}};
    struct decoder decoder;
    decoder_init(&decoder, NODE_INFO_RESULT, 0x300, dynamic);
    assert_int_equal(decoder.members, 11);
    struct omis_reader *reader = read_result("1,2,3,4,5,0.5,7,8,99,10,11");
    decode(&decoder, omis_reader_values(reader), 0, &node);
    assert_true(node.cpu_rql1 == 0.5);
    assert_int_equal(node.mem_freepages, 99);
    omis_reader_free(reader);
    decoder_init(&decoder, NODE_INFO_RESULT, 0x201, all);
    assert_int_equal(decoder.members, 4);
    reader = read_result("\"here\",5,6,7");
    decode(&decoder, omis_reader_values(reader), 0, &node);
    assert_string_equal(node.name, "here");
    assert_int_equal(node.mem_freepages, 5);
    omis_reader_free(reader);
}

static void lists_of_structures_are_one_member(void **state)
{
    struct job {
        uint64_t cursor, unclocked_ns;
        const struct omis_value *alive_list;
    } job;
    static const struct decode_field fields[] = {
        DECODE(struct job, cursor), DECODE(struct job, unclocked_ns), DECODE(struct job, alive_list), {0}};
    struct decoder decoder;
    decoder_init(&decoder, JOB_INFO_RESULT, 0, fields);
    assert_int_equal(decoder.members, 18);
    struct omis_reader *reader = read_result("1,2,3,\"\",5,6,7,8,9,10,11,12,[],14,[1,2],16,17,18");
    decode(&decoder, omis_reader_values(reader), 0, &job);
    assert_int_equal(job.cursor, 1);
    assert_int_equal(job.unclocked_ns, 18);
    assert_int_equal(omis_count(job.alive_list), 2);
    omis_reader_free(reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_their_kinds),
        cmocka_unit_test(nothing_crashes),
        cmocka_unit_test(results_come_in_order),
        cmocka_unit_test(members_are_found_by_name),
        cmocka_unit_test(brackets_count_where_they_were_asked_for),
        cmocka_unit_test(what_was_printed_has_the_names_of_the_request),
        cmocka_unit_test(lists_of_structures_are_one_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
