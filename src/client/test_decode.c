/* SPDX-License-Identifier: Apache-2.0 */
/* Answers taken apart by what the rows of services say. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "client/decode.h"
#include "client/client.h"
#include "lang/results.h"

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
        cmocka_unit_test(members_are_found_by_name),
        cmocka_unit_test(brackets_count_where_they_were_asked_for),
        cmocka_unit_test(what_was_printed_has_the_names_of_the_request),
        cmocka_unit_test(lists_of_structures_are_one_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
