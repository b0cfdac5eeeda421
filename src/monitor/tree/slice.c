/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tree/slice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lang/token.h"

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
