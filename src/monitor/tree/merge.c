/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tree/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/token.h"

/* A result as a place gave it. */
struct part {
    struct part *next;
    struct reply_part result; /* its bytes are in the arena */
    size_t group;             /* of equal results, while the action is put together */
};

struct merge {
    struct arena arena;
    size_t action_count;
    struct reply_part refusal; /* of the first place that refused its slice; its bytes are in the arena */
    size_t refusals, others;   /* so many places said the same, and something else */
    struct answers {
        struct part *first, **last;
    } actions[];
};

int merge_new(struct merge **ret_merge, size_t action_count)
{
    struct merge *merge = NULL;
    size_t size;
    if (!__builtin_mul_overflow(action_count, sizeof merge->actions[0], &size) && size < SIZE_MAX - sizeof *merge)
        merge = calloc(1, sizeof *merge + size);
    if (!merge)
        return -ENOMEM;
    merge->action_count = action_count;
    for (size_t i = 0; i < action_count; i++)
        merge->actions[i].last = &merge->actions[i].first;
    *ret_merge = merge;
    return 0;
}

void merge_free(struct merge *merge)
{
    if (!merge)
        return;
    arena_done(&merge->arena);
    free(merge);
}

/* ---- answers ---- */

/* Of one node: an object takes little of its reply, and much more here. */
enum { PARTS_MOST = 1 << 21 };

static bool is_too_much(struct reply_reader reader)
{
    size_t count = 0;
    for (uint32_t i = 0; i < reader.service_count; i++)
        for (uint32_t left = reply_read_service(&reader); left; left--) {
            struct span objects = reply_read_part(&reader).objects;
            for (const char *at = objects.ptr, *end = at + objects.len; at && count <= PARTS_MOST; at++, count++)
                if (!(at = memchr(at, ',', (size_t)(end - at))))
                    break;
            if (++count > PARTS_MOST)
                return true;
        }
    return false;
}

static void add_part(struct merge *merge, size_t action, const struct reply_part *result)
{
    struct part *part = arena_alloc(&merge->arena, sizeof *part);
    if (!part)
        return;
    *part = (struct part){.result = *result};
    *merge->actions[action].last = part;
    merge->actions[action].last = &part->next;
}

static void add_all(struct merge *merge, const size_t *actions, size_t action_count, const struct reply_part *result)
{
    for (size_t i = 0; i < action_count; i++)
        add_part(merge, actions[i], result);
}

/* `refusal`: of the slice as a whole. */
static void count_answer(struct merge *merge, const struct reply_part *refusal)
{
    const struct reply_part *first = &merge->refusal;
    if (refusal && !merge->refusals)
        merge->refusal = *refusal;
    if (refusal && first->status == refusal->status && first->has_text == refusal->has_text &&
        span_eq(first->text, refusal->text))
        merge->refusals++;
    else
        merge->others++;
}

bool merge_is_refused(const struct merge *merge, struct reply_part *ret_why)
{
    *ret_why = merge->refusal;
    ret_why->objects = span_of("", 0);
    return merge->refusals && !merge->others;
}

int merge_add(struct merge *merge, struct span reply, const size_t *actions, size_t action_count, struct span node)
{
    struct reply_reader reader;
    if (!reply_read_begin(&reader, reply) || !reader.service_count || is_too_much(reader))
        return -EBADMSG;
    struct span bytes = arena_span(&merge->arena, reply);
    if (!bytes.ptr)
        return -ENOMEM;
    reply_read_begin(&reader, bytes);
    struct reply_part failure = {.status = OMIS_OK};
    for (uint32_t count = reply_read_service(&reader); count; count--) {
        struct reply_part word = reply_read_part(&reader);
        if (failure.status < OMIS_FIRST_ERROR)
            failure = word;
    }
    bool failed = failure.status >= OMIS_FIRST_ERROR;
    count_answer(merge, failed ? &failure : NULL);
    if (failed ? reader.service_count - 1 > action_count : reader.service_count - 1 != action_count)
        return -EBADMSG;
    if (failed) {
        failure.objects = arena_span(&merge->arena, node);
        add_all(merge, actions, action_count, &failure);
    }
    for (uint32_t i = 0; i + 1 < reader.service_count; i++)
        for (uint32_t count = reply_read_service(&reader); count; count--) {
            struct reply_part result = reply_read_part(&reader);
            add_part(merge, actions[i], &result);
        }
    return merge->arena.failed ? -ENOMEM : 0;
}

int merge_fail(struct merge *merge, const size_t *actions, size_t action_count, struct span objects, Omis_status status,
               struct span why)
{
    struct reply_part result = {.status = status,
                                .objects = arena_span(&merge->arena, objects),
                                .has_text = true,
                                .text = arena_span(&merge->arena, why)};
    merge->others++;
    add_all(merge, actions, action_count, &result);
    return merge->arena.failed ? -ENOMEM : 0;
}

/* ---- a table of texts ---- */

/* Finds the number of a text, or of a number alone, in constant time: for the places of tokens and nodes in the lists,
 * and for equal results. */
struct table {
    struct slot {
        struct span text; /* ptr NULL: free */
        uint64_t salt;
        uint64_t number;
    } * slots;
    size_t mask;
};

static bool table_init(struct table *table, struct arena *arena, size_t most)
{
    size_t size = 16;
    while (size < most * 2)
        size *= 2;
    table->mask = size - 1;
    table->slots = arena_zalloc(arena, size, sizeof *table->slots);
    return table->slots;
}

/* Where the text is, or would be. */
static struct slot *slot_of(const struct table *table, struct span text, uint64_t salt)
{
    uint64_t hash = (salt + 1) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT64_C(0x100000001b3);
    size_t at = (hash ^ hash >> 32) & table->mask;
    while (table->slots[at].text.ptr && !(table->slots[at].salt == salt && span_eq(table->slots[at].text, text)))
        at = (at + 1) & table->mask;
    return &table->slots[at];
}

/* The number of the text: this one if it is new. */
static uint64_t table_put(struct table *table, struct span text, uint64_t salt, uint64_t number)
{
    struct slot *slot = slot_of(table, text, salt);
    if (!slot->text.ptr)
        *slot = (struct slot){.text = text, .salt = salt, .number = number};
    return slot->number;
}

/* ---- the order of objects ---- */

enum { SALT_TOKEN = 0, SALT_NODE = 1 /* and the number of the node */ };

static const uint64_t LAST = UINT64_MAX;

/* Where the objects stand: what is in the lists by its place there, and behind them each node has one. */
struct ranks {
    struct table table;
    uint64_t count; /* tokens in the lists */
};

static void rank_list(struct ranks *ranks, const struct value *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct token token;
        if (items[i].kind != VALUE_TOKEN)
            continue;
        table_put(&ranks->table, items[i].text, SALT_TOKEN, ranks->count);
        if (token_parse(items[i].text, &token))
            table_put(&ranks->table, span_str(""), SALT_NODE + (uint64_t)token.node, ranks->count);
        ranks->count++;
    }
}

static bool ranks_init(struct ranks *ranks, struct arena *arena, const struct call_text *call)
{
    size_t most = 0;
    for (size_t i = 0; i < call->argc; i++)
        most += call->args[i].kind == VALUE_LIST ? call->args[i].list.count : 1;
    *ranks = (struct ranks){0};
    if (!table_init(&ranks->table, arena, most * 2))
        return false;
    for (size_t i = 0; i < call->argc; i++) {
        const struct value *arg = &call->args[i];
        bool list = arg->kind == VALUE_LIST;
        rank_list(ranks, list ? arg->list.items : arg, list ? arg->list.count : 1);
    }
    return true;
}

static uint64_t rank_of(const struct ranks *ranks, struct span object)
{
    if (!object.len)
        return LAST;
    struct token token;
    const struct slot *slot = slot_of(&ranks->table, object, SALT_TOKEN);
    if (slot->text.ptr)
        return slot->number;
    if (!token_parse(object, &token))
        return LAST - 1;
    slot = slot_of(&ranks->table, span_str(""), SALT_NODE + (uint64_t)token.node);
    return slot->text.ptr ? slot->number : ranks->count + token.node;
}

/* ---- one action ---- */

/* A result of one object. */
struct entry {
    struct span object;
    struct part *part;
    uint64_t rank;
    size_t number;      /* as it came */
    struct entry *next; /* of its group */
};

struct group {
    struct entry *first, **last;
};

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* Takes the next token off a list. */
static struct span take_object(struct span *objects)
{
    const char *comma = objects->len ? memchr(objects->ptr, ',', objects->len) : NULL;
    struct span first = span_of(objects->ptr, comma ? (size_t)(comma - objects->ptr) : objects->len);
    size_t used = first.len + (comma != NULL);
    *objects = span_of(objects->ptr + used, objects->len - used);
    return first;
}

static bool says_nothing(const struct reply_part *result)
{
    return !result->objects.len && result->status == OMIS_OK && !result->has_text;
}

static size_t count_objects(const struct answers *answers, size_t *ret_parts)
{
    size_t count = 0;
    *ret_parts = 0;
    for (const struct part *part = answers->first; part; part = part->next) {
        struct span rest = part->result.objects;
        do {
            take_object(&rest);
            count++;
        } while (rest.len);
        ++*ret_parts;
    }
    return count;
}

/* Objects with results, in their order. */
static size_t list_entries(const struct answers *answers, const struct ranks *ranks, struct entry *entries)
{
    size_t count = 0;
    bool sorted = true;
    for (struct part *part = answers->first; part; part = part->next) {
        struct span rest = part->result.objects;
        if (says_nothing(&part->result))
            continue;
        do {
            struct span object = take_object(&rest);
            entries[count] =
                (struct entry){.object = object, .part = part, .rank = rank_of(ranks, object), .number = count};
            sorted = sorted && (count == 0 || entries[count - 1].rank <= entries[count].rank);
            count++;
        } while (rest.len);
    }
    if (!sorted)
        qsort(entries, count, sizeof *entries, compare_entries);
    return count;
}

/* Gives equal results one number; those without object each their own, but errors. */
static bool group_parts(const struct answers *answers, struct arena *arena, size_t part_count)
{
    struct table table;
    size_t count = 0;
    if (!table_init(&table, arena, part_count))
        return false;
    for (struct part *part = answers->first; part; part = part->next) {
        const struct reply_part *result = &part->result;
        struct span text = result->has_text ? result->text : span_str("");
        uint64_t salt = (uint64_t)(uint32_t)result->status << 1 | result->has_text;
        /* of several errors without an object, which each place has for itself, one is enough */
        bool same = result->objects.len || result->status >= OMIS_FIRST_ERROR;
        salt = salt << 1 | !result->objects.len;
        part->group = same ? table_put(&table, text, salt, count) : count;
        count++;
    }
    return true;
}

static void put_group(const struct entry *entry, struct buf *objects, struct reply_builder *reply)
{
    const struct reply_part *result = &entry->part->result;
    buf_clear(objects);
    for (const struct entry *at = entry; at; at = at->next) {
        if (at != entry)
            buf_putc(objects, ',');
        buf_append(objects, at->object.ptr, at->object.len);
    }
    if (objects->failed)
        reply->bytes.failed = true;
    else
        reply_result(reply, span_of(objects->data, objects->len), result->status,
                     result->has_text ? &result->text : NULL);
}

static bool finish_action(const struct answers *answers, const struct call_text *call, struct arena *arena,
                          struct buf *objects, struct reply_builder *reply)
{
    if (!answers->first) {
        reply_result(reply, span_of("", 0), OMIS_OK, NULL);
        return true;
    }
    struct ranks ranks;
    size_t part_count, most = count_objects(answers, &part_count);
    struct entry *entries = arena_alloc(arena, most * sizeof *entries);
    struct group *groups = arena_zalloc(arena, part_count, sizeof *groups);
    if (!entries || !groups || !ranks_init(&ranks, arena, call) || !group_parts(answers, arena, part_count))
        return false;
    size_t count = list_entries(answers, &ranks, entries);
    for (size_t i = 0; i < count; i++) {
        struct group *group = &groups[entries[i].part->group];
        if (group->first && !entries[i].object.len)
            continue;
        if (!group->first)
            group->last = &group->first;
        *group->last = &entries[i];
        group->last = &entries[i].next;
    }
    for (size_t i = 0; i < count; i++) /* where its first object stands */
        if (groups[entries[i].part->group].first == &entries[i])
            put_group(&entries[i], objects, reply);
    if (count == 0)
        reply_result(reply, span_of("", 0), OMIS_OK, NULL);
    return true;
}

void merge_finish(struct merge *merge, const struct request *order, struct reply_builder *reply)
{
    struct arena arena = ARENA_INIT;
    struct buf objects = BUF_INIT;
    for (size_t i = 0; i < merge->action_count; i++) {
        reply_service(reply);
        if (merge->arena.failed || !finish_action(&merge->actions[i], &order->actions[i], &arena, &objects, reply))
            reply->bytes.failed = true;
        arena_reset(&arena);
    }
    buf_done(&objects);
    arena_done(&arena);
}
