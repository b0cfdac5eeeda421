/* SPDX-License-Identifier: Apache-2.0 */
/* Replies from any bytes: what is accepted can be walked to its end, by the reader of libomis, too, and built again
 * gives a reply that says the same. */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "lang/reply.h"

static bool same_result(const Omis_object_result *a, const Omis_object_result *b)
{
    if (strcmp(a->obj_list, b->obj_list) != 0 || a->status != b->status || !a->result != !b->result)
        return false;
    return !a->result || strcmp(a->result, b->result) == 0;
}

/* A rebuilt reply may have merged neighbours: compared is what it gives when it is built a second time. */
static void rebuild(Omis_reply reply, struct reply_builder *builder)
{
    reply_begin(builder);
    for (size_t i = 0; reply[i]; i++) {
        reply_service(builder);
        for (Omis_object_result *result = reply[i]; result->obj_list; result++) {
            size_t len = 0;
            if (result->result)
                len = i > 0 && result->status < OMIS_FIRST_ERROR ? reply_result_length(result->result)
                                                                 : strlen(result->result);
            struct span text = span_of(result->result, len);
            fuzz_expect(omis_status_name(result->status) != NULL);
            reply_result(builder, span_str(result->obj_list), result->status, result->result ? &text : NULL);
        }
    }
    fuzz_expect(!builder->bytes.failed);
}

/* Goes through a value as tools do; every text ends with a NUL, and every question has an answer. */
static size_t walk_value(const struct omis_value *value)
{
    size_t len, sum = omis_count(value);
    const char *text = omis_text(value, &len);
    fuzz_expect(text[len] == 0);
    sum += (size_t)omis_integer(value) + omis_unsigned(value) + (omis_floating(value) > 0) +
           (omis_long_floating(value) > 0) + (size_t)omis_kind(value);
    for (size_t i = 0; i <= omis_count(value); i++)
        sum += omis_item(value, i) ? walk_value(omis_item(value, i)) : 0;
    return sum;
}

/* The reader sees every result once, and leaves the reply as it is. */
static void walk(Omis_reply reply)
{
    size_t results = 0, seen = 0, sum = 0;
    struct omis_reader *reader = omis_reader_new(reply);
    for (size_t i = 0; reply[i]; i++)
        for (size_t j = 0; reply[i][j].obj_list; j++)
            results++;
    while (omis_reader_next(reader)) {
        seen++;
        sum += walk_value(omis_reader_values(reader));
        const char *why = omis_reader_error(reader);
        fuzz_expect(omis_reader_status(reader) < OMIS_FIRST_ERROR || why);
        fuzz_expect(!why || !omis_count(omis_reader_values(reader)));
        for (size_t i = 0; omis_reader_object(reader, i); i++)
            sum += strlen(omis_reader_object(reader, i));
    }
    fuzz_expect(seen == results);
    const char *first = omis_reader_first_error(reader);
    fuzz_expect(!first || *first);
    omis_reader_free(reader);
    static volatile size_t sink;
    sink = sum;
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Omis_reply reply = NULL, again = NULL, third = NULL;
    int code = reply_decode(span_of((const char *)data, size), &reply);
    fuzz_expect(code == 0 || code == -EBADMSG);
    if (code < 0) {
        fuzz_expect(reply == NULL);
        return 0;
    }
    walk(reply);
    struct reply_builder once = {0}, twice = {0};
    rebuild(reply, &once);
    fuzz_expect(reply_decode(span_of(once.bytes.data, once.bytes.len), &again) == 0);
    rebuild(again, &twice);
    fuzz_expect(reply_decode(span_of(twice.bytes.data, twice.bytes.len), &third) == 0);
    size_t services = 0;
    for (; again[services]; services++) {
        fuzz_expect(reply[services] && third[services]);
        size_t results = 0;
        for (; again[services][results].obj_list; results++)
            fuzz_expect(same_result(&again[services][results], &third[services][results]));
        fuzz_expect(!third[services][results].obj_list);
    }
    fuzz_expect(!reply[services] && !third[services]);
    free(reply);
    free(again);
    free(third);
    buf_done(&once.bytes);
    buf_done(&twice.bytes);
    return 0;
}
