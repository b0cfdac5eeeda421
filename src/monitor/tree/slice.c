/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tree/slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/token.h"

/* ---- slices ---- */

/* Where an action goes: by its tokens, or as a whole. */
struct route {
    const struct value *tokens; /* of its objects; NULL: not by tokens */
    size_t token_count;
    size_t arg;      /* the argument that they are in */
    size_t *place;   /* of each token: an index into the cutter's places; NOWHERE */
    bool everywhere; /* else at the home */
};

static const size_t NOWHERE = SIZE_MAX;

/* One slice while it is made: what its request consists of. */
struct draft {
    size_t count; /* of its actions */
    struct call_text *calls;
    size_t *actions;
    size_t last;        /* action of which it has something, + 1 */
    size_t token_count; /* of that one */
    struct value *tokens;
};

struct cutter {
    struct arena *arena;
    const struct request *request;
    const struct slice_map *map;
    struct route *routes; /* of the actions */
    int *places;          /* that the request concerns, ascending */
    size_t place_count, place_cap;
    struct draft *drafts; /* one for each place */
    size_t *used;         /* which of them the phase has something for */
    size_t used_count;
    size_t calls, bytes; /* of all slices */
    int code;
    struct cut cut;
};

/* ---- where the actions go ---- */

/* The index of the first place not below this one. */
static size_t place_index(const struct cutter *cutter, int place)
{
    size_t from = 0, to = cutter->place_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (cutter->places[middle] < place)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool add_place(struct cutter *cutter, int place)
{
    size_t at = place_index(cutter, place);
    if (at < cutter->place_count && cutter->places[at] == place)
        return true;
    if (cutter->place_count == cutter->place_cap) {
        size_t cap = cutter->place_cap ? cutter->place_cap * 2 : 16;
        int *places = arena_alloc(cutter->arena, cap * sizeof *places);
        if (!places)
            return false;
        if (cutter->place_count)
            memcpy(places, cutter->places, cutter->place_count * sizeof *places);
        cutter->places = places;
        cutter->place_cap = cap;
    }
    memmove(cutter->places + at + 1, cutter->places + at, (cutter->place_count - at) * sizeof *cutter->places);
    cutter->places[at] = place;
    cutter->place_count++;
    return true;
}

static int place_of(const struct cutter *cutter, const struct value *value)
{
    struct token token;
    if (value->kind != VALUE_TOKEN || !token_parse(value->text, &token) || !token.node)
        return PLACE_HOME;
    return cutter->map->place_of(cutter->map->ctx, token.node);
}

/* The first argument of tokens says where its objects are, also one that takes any class. */
static bool find_objects(const struct cutter *cutter, size_t action, const struct service *service,
                         struct route *ret_route)
{
    const struct call_text *call = &cutter->request->actions[action];
    const struct signature *signature = &service->signature;
    size_t arg = 0;
    while (arg < signature->param_count && signature->params[arg].kind != TYPE_TOKEN)
        arg++;
    if (arg >= signature->param_count || arg >= call->argc)
        return false;
    const struct value *value = &call->args[arg];
    bool list = value->kind == VALUE_LIST;
    if (!list && value->kind != VALUE_TOKEN)
        return false;
    ret_route->arg = arg;
    ret_route->tokens = list ? value->list.items : value;
    ret_route->token_count = list ? value->list.count : 1;
    return true;
}

static bool add_unknown(struct cutter *cutter, size_t action, struct span token)
{
    struct cut *cut = &cutter->cut;
    if ((cut->unknown_count & (cut->unknown_count - 1)) == 0) { /* it doubles */
        struct unknown_token *more =
            arena_alloc(cutter->arena, (cut->unknown_count ? cut->unknown_count * 2 : 1) * sizeof *more);
        if (!more)
            return false;
        if (cut->unknown_count)
            memcpy(more, cut->unknown, cut->unknown_count * sizeof *more);
        cut->unknown = more;
    }
    cut->unknown[cut->unknown_count++] = (struct unknown_token){action, token};
    return true;
}

/* `alone`: it is not cut when it goes everywhere. */
static bool find_route(struct cutter *cutter, size_t action, const struct service *service, bool alone)
{
    const struct slice_map *map = cutter->map;
    struct route *route = &cutter->routes[action];
    *route = (struct route){0};
    bool objects = find_objects(cutter, action, service, route);
    if (objects && route->token_count) {
        for (size_t i = 0; i < route->token_count; i++) {
            int place = place_of(cutter, &route->tokens[i]);
            if (place == PLACE_UNKNOWN ? !add_unknown(cutter, action, route->tokens[i].text)
                                       : !add_place(cutter, place))
                return false;
        }
        return true;
    }
    route->tokens = NULL;
    route->everywhere =
        objects && (map->place_count || alone) && map->on_nodes(map->ctx, service->signature.params[route->arg].class);
    for (size_t i = 0; route->everywhere && !alone && i < map->place_count; i++)
        if (!add_place(cutter, map->places[i]))
            return false;
    return route->everywhere || add_place(cutter, PLACE_HOME);
}

/* When all places are known. */
static bool settle_route(struct cutter *cutter, struct route *route)
{
    route->place = route->tokens ? arena_alloc(cutter->arena, route->token_count * sizeof *route->place) : NULL;
    for (size_t i = 0; route->place && i < route->token_count; i++) {
        int place = place_of(cutter, &route->tokens[i]);
        route->place[i] = place == PLACE_UNKNOWN ? NOWHERE : place_index(cutter, place);
    }
    return route->place || !route->tokens;
}

/* ---- slices ---- */

/* Whether this action is new to the slice. */
static bool is_new(struct draft *draft, size_t action)
{
    bool added = draft->last != action + 1;
    draft->last = action + 1;
    return added;
}

static void count_call(struct cutter *cutter, size_t place, size_t action)
{
    struct draft *draft = &cutter->drafts[place];
    if (!is_new(draft, action))
        return;
    if (draft->count++ == 0)
        cutter->used[cutter->used_count++] = place;
    cutter->calls++;
}

static void count_action(struct cutter *cutter, size_t action)
{
    const struct route *route = &cutter->routes[action];
    const struct slice_map *map = cutter->map;
    for (size_t i = 0; route->tokens && i < route->token_count; i++)
        if (route->place[i] != NOWHERE)
            count_call(cutter, route->place[i], action);
    for (size_t i = 0; route->everywhere && i < map->place_count; i++)
        count_call(cutter, place_index(cutter, map->places[i]), action);
    if (!route->tokens && !route->everywhere)
        count_call(cutter, place_index(cutter, PLACE_HOME), action);
}

/* With the ';' of those before it that do not go there. Only a single place gets any. */
static struct call_text *add_call(const struct cutter *cutter, struct draft *draft, size_t action)
{
    const struct request *request = cutter->request;
    struct call_text *call = &draft->calls[draft->count];
    *call = request->actions[action];
    for (size_t i = action; cutter->place_count == 1 && draft->count && i > draft->actions[draft->count - 1]; i--)
        call->barrier |= request->actions[i].barrier;
    draft->actions[draft->count++] = action;
    return call;
}

/* The tokens that are behind one place, in the call that goes there. */
static bool put_tokens(const struct cutter *cutter, size_t action, struct draft *draft)
{
    const struct call_text *call = &cutter->request->actions[action];
    const struct route *route = &cutter->routes[action];
    struct value *args = arena_alloc(cutter->arena, call->argc * sizeof *args);
    if (!args)
        return false;
    memcpy(args, call->args, call->argc * sizeof *args);
    if (args[route->arg].kind == VALUE_LIST)
        args[route->arg] = value_list(draft->tokens, draft->token_count);
    add_call(cutter, draft, action)->args = args;
    return true;
}

static bool split_action(const struct cutter *cutter, size_t action)
{
    struct draft *drafts = cutter->drafts;
    const struct route *route = &cutter->routes[action];
    for (size_t i = 0; i < route->token_count; i++)
        if (route->place[i] != NOWHERE) {
            struct draft *draft = &drafts[route->place[i]];
            draft->token_count = is_new(draft, action) ? 1 : draft->token_count + 1;
        }
    for (size_t i = 0; i < route->token_count; i++) {
        struct draft *draft = route->place[i] == NOWHERE ? NULL : &drafts[route->place[i]];
        if (!draft)
            continue;
        if (draft->last == action + 1) { /* its first one: memory for all */
            draft->last = 0;
            draft->tokens = arena_alloc(cutter->arena, draft->token_count * sizeof *draft->tokens);
            if (!draft->tokens || !put_tokens(cutter, action, draft))
                return false;
            draft->token_count = 0;
        }
        draft->tokens[draft->token_count++] = route->tokens[i];
    }
    return true;
}

static bool fill_action(const struct cutter *cutter, size_t action)
{
    struct draft *drafts = cutter->drafts;
    const struct route *route = &cutter->routes[action];
    const struct slice_map *map = cutter->map;
    if (route->tokens)
        return split_action(cutter, action);
    for (size_t i = 0; route->everywhere && i < map->place_count; i++)
        add_call(cutter, &drafts[place_index(cutter, map->places[i])], action);
    if (!route->everywhere)
        add_call(cutter, &drafts[place_index(cutter, PLACE_HOME)], action);
    return true;
}

struct edge_numbers {
    const struct slice_map *map;
    int place;
};

static uint32_t number_there(void *ctx, uint32_t node)
{
    const struct edge_numbers *numbers = ctx;
    return numbers->map->theirs(numbers->map->ctx, numbers->place, node);
}

static bool write_text(const struct cutter *cutter, const struct draft *draft, struct slice *slice)
{
    struct request request = {.actions = draft->calls, .action_count = draft->count, .locked = cutter->request->locked};
    struct buf here = BUF_INIT;
    request_print(&here, &request);
    if (slice->place == PLACE_HOME) {
        slice->text = here;
        return !here.failed;
    }
    struct edge_numbers edge = {cutter->map, slice->place};
    const struct renumber numbers = {.ctx = &edge, .ours = number_there};
    if (!here.failed)
        renumber_text(&slice->text, span_of(here.data, here.len), &numbers);
    bool done = !here.failed && !slice->text.failed;
    buf_done(&here);
    return done;
}

static int compare_indices(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static bool within_limits(struct cutter *cutter)
{
    bool within = cutter->calls <= CUT_CALL_LIMIT && cutter->bytes <= CUT_SIZE_LIMIT;
    if (!within)
        cutter->code = -E2BIG;
    return within;
}

static bool begin_draft(struct cutter *cutter, struct draft *draft)
{
    draft->calls = arena_alloc(cutter->arena, draft->count * sizeof *draft->calls);
    draft->actions = arena_alloc(cutter->arena, draft->count * sizeof *draft->actions);
    draft->count = draft->last = 0;
    return draft->calls && draft->actions;
}

static bool end_draft(struct cutter *cutter, size_t place, struct phase *phase)
{
    struct draft *draft = &cutter->drafts[place];
    struct slice *slice = &phase->slices[phase->slice_count++];
    *slice = (struct slice){.place = cutter->places[place], .actions = draft->actions, .action_count = draft->count};
    bool done = write_text(cutter, draft, slice);
    cutter->bytes += slice->text.len;
    *draft = (struct draft){0};
    return done && within_limits(cutter);
}

static bool cut_phase(struct cutter *cutter, size_t first, size_t count)
{
    struct phase *phase = &cutter->cut.phases[cutter->cut.phase_count++];
    *phase = (struct phase){.first = first, .count = count};
    cutter->used_count = 0;
    for (size_t i = first; i < first + count; i++)
        count_action(cutter, i);
    if (!within_limits(cutter))
        return false;
    qsort(cutter->used, cutter->used_count, sizeof *cutter->used, compare_indices);
    phase->slices = arena_alloc(cutter->arena, cutter->used_count * sizeof *phase->slices);
    if (!phase->slices)
        return false;
    for (size_t i = 0; i < cutter->used_count; i++)
        if (!begin_draft(cutter, &cutter->drafts[cutter->used[i]]))
            return false;
    for (size_t i = first; i < first + count; i++)
        if (!fill_action(cutter, i))
            return false;
    for (size_t i = 0; i < cutter->used_count; i++)
        if (!end_draft(cutter, cutter->used[i], phase))
            return false;
    return true;
}

/* The routes of the actions that can be cut now. */
static bool find_routes(struct cutter *cutter, struct service *const *services, size_t from)
{
    const struct request *request = cutter->request;
    const struct slice_map *map = cutter->map;
    size_t end = from;
    bool more = false; /* nodes of the tool */
    for (; end < request->action_count; end++) {
        struct route *route = &cutter->routes[end];
        if (!find_route(cutter, end, services[end], more))
            return false;
        if (more && route->everywhere)
            break;
        more = more || (!request->locked && map->attaches && map->attaches(map->ctx, &request->actions[end]));
    }
    cutter->cut.end = end;
    for (size_t i = from; i < end; i++)
        if (!settle_route(cutter, &cutter->routes[i]))
            return false;
    return true;
}

static bool cut_all(struct cutter *cutter, struct service *const *services, size_t from)
{
    const struct request *request = cutter->request;
    cutter->routes = arena_alloc(cutter->arena, request->action_count * sizeof *cutter->routes);
    if (!cutter->routes || !find_routes(cutter, services, from))
        return false;
    size_t phases = 1, first = from, end = cutter->cut.end;
    bool one_place = cutter->place_count <= 1;
    for (size_t i = from + 1; i < end; i++)
        phases += request->actions[i].barrier && !one_place;
    cutter->cut.phases = arena_alloc(cutter->arena, phases * sizeof *cutter->cut.phases);
    cutter->drafts = arena_zalloc(cutter->arena, cutter->place_count, sizeof *cutter->drafts);
    cutter->used = arena_alloc(cutter->arena, cutter->place_count * sizeof *cutter->used);
    if (!cutter->cut.phases || !cutter->drafts || !cutter->used)
        return false;
    for (size_t i = from + 1; i <= end; i++)
        if (i == end || (request->actions[i].barrier && !one_place)) {
            if (!cut_phase(cutter, first, i - first))
                return false;
            first = i;
        }
    return true;
}

int cut_request(struct arena *arena, const struct request *request, struct service *const *services, size_t from,
                const struct slice_map *map, struct cut *ret_cut)
{
    struct cutter cutter = {.arena = arena, .request = request, .map = map, .code = -ENOMEM};
    bool done = cut_all(&cutter, services, from);
    if (!done)
        cut_done(&cutter.cut);
    *ret_cut = cutter.cut;
    return done ? 0 : cutter.code;
}

void cut_done(struct cut *cut)
{
    for (size_t i = 0; i < cut->phase_count; i++)
        for (size_t j = 0; j < cut->phases[i].slice_count; j++)
            buf_done(&cut->phases[i].slices[j].text);
    *cut = (struct cut){0};
}

/* ---- answers ---- */

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
