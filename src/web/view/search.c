/* SPDX-License-Identifier: Apache-2.0 */
/* Where calls of certain functions are. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "shm/waits.h"
#include "web/view/ask.h"
#include "web/view/call.h"

enum {
    CHUNKS = 64,        /* parts that are searched one after the other: the first calls are found first */
    WITH_VALUES = 1000, /* calls that have their values in one answer */
};

struct search {
    struct view *view;
    const char *glob;
    signed char *matches; /* by function: 0: not looked */
    size_t match_room;
    const struct view_lane *lane;
    int64_t from, to;
    struct found {
        const struct view_lane *lane;
        struct lane_call call;
    } * list;
    size_t count, room, limit;
    bool failed;
};

static bool is_match(struct search *search, uint32_t function)
{
    if (function == UINT32_MAX || !GROW_ZERO_TO(search->matches, (size_t)function + 1, search->match_room))
        return false;
    if (!search->matches[function])
        search->matches[function] = fnmatch(search->glob, search->view->function_list[function]->name, 0) == 0 ? 1 : -1;
    return search->matches[function] > 0;
}

static bool take_call(void *ctx, const struct lane_call *call)
{
    struct search *search = ctx;
    if (call->begin < search->from || call->begin >= search->to ||
        !is_match(search, view_function(search->view, search->lane->key.trace, call->id)))
        return true;
    if (!GROW(search->list, search->count, search->room)) {
        search->failed = true;
        return false;
    }
    search->list[search->count++] = (struct found){search->lane, *call};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    if (left->call.begin != right->call.begin)
        return left->call.begin < right->call.begin ? -1 : 1;
    if (left->lane != right->lane)
        return left->lane->number < right->lane->number ? -1 : 1;
    return left->call.row < right->call.row ? -1 : left->call.row > right->call.row;
}

/* Only the first `limit` are kept. */
static void cut(struct search *search, size_t from)
{
    if (search->count > from)
        qsort(search->list + from, search->count - from, sizeof *search->list, by_begin);
    if (search->count > search->limit)
        search->count = search->limit;
}

/* *ret_next: from where on nothing was looked at. */
static int find(struct search *search, const bool *lanes, int64_t from, int64_t to, int64_t *ret_next, struct err *err)
{
    const struct lane_reader reader = {.call = take_call, .ctx = search};
    const struct pyramid part = {.from = from, .to = to};
    uint64_t deadline = clock_now_ns() + VIEW_SEARCH_NS;
    int code = 0;
    *ret_next = from;
    for (unsigned i = 0; code == 0 && i < CHUNKS && search->count < search->limit && clock_now_ns() < deadline; i++) {
        size_t before = search->count;
        search->from = pyramid_part(&part, 6, i);
        search->to = pyramid_part(&part, 6, i + 1);
        for (size_t k = 0; code == 0 && k < search->view->lane_count; k++) {
            search->lane = search->view->lane_list[k];
            if (lanes[k])
                code = lane_read(search->view, search->lane, search->from, search->to, &reader, err);
        }
        cut(search, before);
        *ret_next = search->count < search->limit ? search->to : search->list[search->count - 1].call.begin;
    }
    return search->failed ? err_set(err, -ENOMEM, "out of memory") : code;
}
_Static_assert(CHUNKS == 1 << 6, "find() divides by it");

static int put_values(struct buf *out, struct view *view, const struct view_lane *lane, const struct lane_call *call,
                      struct err *err)
{
    _cleanup_(values_done) struct values values = {0};
    int code = values_read(&values, view, lane, call, err);
    values_put_list(out, "arguments", &values.arguments);
    values_put_result(out, &values);
    return code < 0 ? code : view_between(view);
}

static int put_found(struct buf *out, struct view *view, const struct found *found, bool with_values, struct err *err)
{
    struct lane_call call = found->call;
    if (call.open)
        lane_call_end(view, found->lane, &found->call, &call);
    buf_printf(
        out,
        "{\"lane\":%" PRIu32 ",\"begin\":%" PRId64 ",\"end\":%" PRId64 ",\"depth\":%" PRIu32 ",\"function\":%" PRIu32,
        found->lane->number, call.begin, call.end, call.row, view_function(view, found->lane->key.trace, call.id));
    int code = with_values ? put_values(out, view, found->lane, &call, err) : 0;
    buf_putc(out, '}');
    return code;
}

int answer_search(struct view *view, const struct asked *asked, struct buf *out, struct err *err)
{
    struct search search = {.view = view, .glob = asked->function, .limit = (size_t)asked->limit};
    _cleanup_(freep) bool *lanes = calloc(view->lane_count + 1, sizeof *lanes);
    int64_t from, to, next;
    if (asked->values && search.limit > WITH_VALUES)
        search.limit = WITH_VALUES;
    if (!lanes)
        return err_set(err, -ENOMEM, "out of memory");
    asked_part(view, asked, &from, &to);
    from = from < view->from_ns ? view->from_ns : from;
    to = to > view->to_ns ? view->to_ns + 1 : to;
    int code = asked_numbers(asked->lanes, view->lane_count, lanes, err);
    if (code == 0 && to > from)
        code = find(&search, lanes, from, to, &next, err);
    else
        next = to;
    buf_puts(out, "{\"calls\":[");
    for (size_t i = 0; code == 0 && i < search.count; i++) {
        buf_puts(out, i ? "," : "");
        code = put_found(out, view, &search.list[i], asked->values, err);
    }
    buf_printf(out, "],\"complete\":%s,\"next_ns\":%" PRId64 "}", next >= to ? "true" : "false", next);
    free(search.list);
    free(search.matches);
    return code;
}
