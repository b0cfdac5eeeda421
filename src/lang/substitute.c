/* SPDX-License-Identifier: Apache-2.0 */
#include "lang/substitute.h"

#include <string.h>

/* ---- names ---- */

struct names {
    struct arena *arena;
    struct span *list;
    size_t count, cap;
};

static bool add_name(struct names *names, struct span name)
{
    for (size_t i = 0; i < names->count; i++)
        if (span_eq(names->list[i], name))
            return true;
    if (names->count == names->cap) {
        size_t cap = names->cap ? 2 * names->cap : 8;
        struct span *list = arena_alloc(names->arena, cap * sizeof *list);
        if (!list)
            return false;
        if (names->count)
            memcpy(list, names->list, names->count * sizeof *list);
        names->list = list;
        names->cap = cap;
    }
    names->list[names->count++] = name;
    return true;
}

static bool add_names(struct names *names, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_PARAM && !add_name(names, values[i].text))
            return false;
        if (values[i].kind == VALUE_LIST && !add_names(names, values[i].list.items, values[i].list.count))
            return false;
    }
    return true;
}

bool substitute_names(struct arena *arena, const struct request *request, struct span **ret_names, size_t *ret_count)
{
    struct names names = {.arena = arena};
    for (size_t i = 0; i < request->action_count; i++)
        if (!add_names(&names, request->actions[i].args, request->actions[i].argc))
            return false;
    *ret_names = names.list;
    *ret_count = names.count;
    return true;
}

/* ---- values ---- */

bool substitute(struct arena *arena, substitute_fn *value_of, const void *ctx, const struct value *values, size_t count,
                const struct value **ret_values, bool *ret_changed, struct span *ret_missing)
{
    struct value *copy = NULL;
    for (size_t i = 0; i < count; i++) {
        struct value replacement = values[i];
        bool changed = false;
        if (values[i].kind == VALUE_LIST) {
            const struct value *items;
            if (!substitute(arena, value_of, ctx, values[i].list.items, values[i].list.count, &items, &changed,
                            ret_missing))
                return false;
            replacement.list.items = items;
        } else if (values[i].kind == VALUE_PARAM) {
            *ret_missing = values[i].text;
            if (!value_of(ctx, values[i].text, &replacement))
                return false;
            changed = true;
        }
        if (!changed)
            continue;
        if (!copy) {
            copy = arena_alloc(arena, count * sizeof *copy);
            *ret_missing = span_of(NULL, 0);
            if (!copy)
                return false;
            memcpy(copy, values, count * sizeof *copy);
        }
        copy[i] = replacement;
        *ret_changed = true;
    }
    *ret_values = copy ? copy : values;
    return true;
}
