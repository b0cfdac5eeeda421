/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request over nodes from any bytes, and the answers of two places: LENGTH of the request, request, LENGTH of the
 * first answer, answers (lengths: two bytes). What is cut must be requests again, with each object asked for once, where
 * it lies; what is merged must be a reply that says as much as the answers did.
 */
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "monitor/tree/slice.h"

static int place_of(void *ctx, uint32_t node)
{
    (void)ctx;
    return node == 1 ? PLACE_HOME : node % 7 == 6 ? PLACE_UNKNOWN : (int)(node % 7 + 1);
}

static uint32_t theirs(void *ctx, int place, uint32_t node)
{
    (void)ctx;
    fuzz_expect(place != PLACE_HOME);
    return place_of(NULL, node) == place ? node : 0;
}

static bool on_nodes(void *ctx, const char *class_name)
{
    (void)ctx;
    return *class_name != 'c';
}

static const int places[] = {PLACE_HOME, 2, 9};
static const struct slice_map map = {
    .place_of = place_of, .theirs = theirs, .on_nodes = on_nodes, .places = places, .place_count = 3};

static struct service *make_service(const char *signature)
{
    static struct service services[3];
    static size_t count;
    static struct arena arena; /* for ever */
    struct err err;
    fuzz_expect(count < 3 && signature_parse(&arena, signature, &services[count].signature, &err) == 0);
    return &services[count++];
}

/* By the first letter of its name. NULL: the arguments are not such. */
static struct service *service_of(struct arena *arena, struct call_text *call)
{
    static struct service *services[3];
    static const char *const signatures[] = {"token<t>* list, any* more -> any", "any* args -> any",
                                             "integer a, token* list -> any"};
    struct err err;
    for (size_t i = 0; i < 3 && !services[i]; i++)
        services[i] = make_service(signatures[i]);
    struct service *service = services[(unsigned char)call->name.ptr[0] % 3];
    if (signature_check(&service->signature, call->name, call->args, call->argc, arena, &call->args, &err) != CHECK_OK)
        return NULL;
    call->argc = service->signature.param_count;
    return service;
}

static size_t objects_of(const struct service *service, const struct call_text *call)
{
    const struct value *arg = service->signature.params[0].kind == TYPE_TOKEN ? &call->args[0]
                              : call->argc > 1                                ? &call->args[1]
                                                                              : NULL;
    return !arg ? 0 : arg->kind == VALUE_LIST ? arg->list.count : arg->kind == VALUE_TOKEN;
}

static void check_slice(struct arena *arena, const struct request *request, const struct slice *slice, size_t *objects)
{
    struct request part;
    struct err err;
    fuzz_expect(slice->place >= 0 && slice->action_count);
    fuzz_expect(request_parse(arena, span_of(slice->text.data, slice->text.len), &part, &err) == 0);
    fuzz_expect(part.action_count == slice->action_count && part.locked == request->locked);
    for (size_t i = 0; i < part.action_count; i++) {
        struct call_text *call = &part.actions[i];
        fuzz_expect(i == 0 || slice->actions[i] > slice->actions[i - 1]);
        fuzz_expect(span_eq(call->name, request->actions[slice->actions[i]].name));
        struct service *service = service_of(arena, call);
        fuzz_expect(service != NULL);
        *objects += service->signature.params[0].kind == TYPE_ANY ? 0 : objects_of(service, call);
    }
}

static void check_cut(struct arena *arena, const struct request *request, struct service *const *services)
{
    struct cut cut;
    size_t next = 0, asked = 0, found = 0;
    fuzz_expect(cut_request(arena, request, services, 0, &map, &cut) == 0);
    for (size_t i = 0; i < request->action_count; i++)
        asked += services[i]->signature.params[0].kind == TYPE_ANY ? 0 : objects_of(services[i], &request->actions[i]);
    for (size_t i = 0; i < cut.phase_count; i++) {
        const struct phase *phase = &cut.phases[i];
        fuzz_expect(phase->first == next && phase->count);
        next += phase->count;
        for (size_t j = 0; j < phase->slice_count; j++) {
            fuzz_expect(j == 0 || phase->slices[j].place > phase->slices[j - 1].place);
            check_slice(arena, request, &phase->slices[j], &found);
        }
    }
    fuzz_expect(next == request->action_count && found + cut.unknown_count == asked);
    cut_done(&cut);
}

/* Results with objects, with one counted for each object, of the elements 1 and up. */
static size_t count_results(struct span reply)
{
    struct reply_reader reader;
    size_t count = 0;
    fuzz_expect(reply_read_begin(&reader, reply));
    for (uint32_t i = 0; i < reader.service_count; i++)
        for (uint32_t left = reply_read_service(&reader); left; left--) {
            struct reply_part part = reply_read_part(&reader);
            count += i > 0 && part.objects.len;
            for (size_t j = 0; i > 0 && j < part.objects.len; j++)
                count += part.objects.ptr[j] == ',';
        }
    return count;
}

static bool is_error(struct span reply)
{
    struct reply_reader reader;
    bool error = false;
    reply_read_begin(&reader, reply);
    for (uint32_t left = reply_read_service(&reader); left; left--)
        error |= reply_read_part(&reader).status >= OMIS_FIRST_ERROR;
    return error;
}

static void check_merge(const struct request *request, const struct span answers[2])
{
    struct merge *merge;
    struct reply_builder reply = {0};
    size_t *actions = calloc(request->action_count, sizeof *actions), expected = 0;
    fuzz_expect(actions && merge_new(&merge, request->action_count) == 0);
    for (size_t i = 0; i < request->action_count; i++)
        actions[i] = i;
    for (int i = 0; i < 2; i++) {
        int code = merge_add(merge, answers[i], actions, request->action_count, span_str("n_2"));
        fuzz_expect(code == 0 || code == -EBADMSG);
        if (code == 0)
            expected += count_results(answers[i]) + (is_error(answers[i]) ? request->action_count : 0);
    }
    fuzz_expect(merge_fail(merge, actions, 1, span_str("p_1_1,p_2_2"), OMIS_OS_ERROR, span_str("gone")) == 0);
    reply_begin(&reply);
    reply_service(&reply);
    merge_finish(merge, request, &reply);
    fuzz_expect(!reply.bytes.failed && !reply.full);
    fuzz_expect(count_results(span_of(reply.bytes.data, reply.bytes.len)) == expected + 2);
    fuzz_expect(reply.service_count == request->action_count + 1);
    reply_done(&reply);
    merge_free(merge);
    free(actions);
}

static struct span take_sized(struct span *data)
{
    size_t len = data->len < 2 ? 0 : (unsigned char)data->ptr[0] | (size_t)(unsigned char)data->ptr[1] << 8;
    size_t skip = data->len < 2 ? data->len : 2;
    len = len > data->len - skip ? data->len - skip : len;
    struct span taken = span_of(data->ptr + skip, len);
    *data = span_of(taken.ptr + len, data->len - skip - len);
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span rest = span_of((const char *)data, size), text = take_sized(&rest), first = take_sized(&rest);
    struct arena arena = ARENA_INIT;
    struct request request;
    struct err err;
    bool shaped = request_parse(&arena, text, &request, &err) == 0 && !request.event;
    struct service **services = shaped ? arena_alloc(&arena, request.action_count * sizeof(struct service *)) : NULL;
    for (size_t i = 0; shaped && i < request.action_count; i++) {
        services[i] = service_of(&arena, &request.actions[i]);
        shaped = services[i] != NULL;
    }
    if (shaped) {
        check_cut(&arena, &request, services);
        check_merge(&request, (const struct span[]){first, rest});
    }
    arena_done(&arena);
    return 0;
}
