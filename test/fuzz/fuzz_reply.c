/* SPDX-License-Identifier: Apache-2.0 */
/* Replies from any bytes: what is accepted can be walked to its end, and built again gives a reply that says the same.
 */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Omis_reply reply = NULL, again = NULL, third = NULL;
    int code = reply_decode(span_of((const char *)data, size), &reply);
    fuzz_expect(code == 0 || code == -EBADMSG);
    if (code < 0) {
        fuzz_expect(reply == NULL);
        return 0;
    }
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
