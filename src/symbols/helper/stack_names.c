/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/helper/stack_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct stack_name_entry {
    const char *key; /* the distance from the module's start, and its file */
    const struct stack_name *name;
    UT_hash_handle hh;
};

static const char *keep(struct stack_names *names, const char *text)
{
    const char *copy = text ? arena_dup(&names->arena, text, strlen(text)) : NULL;
    return copy ? copy : "";
}

static const struct stack_name *look(struct stack_names *names, struct lines *lines, uint64_t addr)
{
    struct line_location where;
    const struct stack_name *outer = NULL;
    if (lines_find(lines, addr, &where) < 0 || !where.module)
        return NULL;
    const char *module = keep(names, where.module);
    for (size_t i = where.count; i-- > 0;) {
        struct stack_name *name = arena_alloc(&names->arena, sizeof *name);
        if (!name)
            break;
        *name = (struct stack_name){.function = keep(names, where.frames[i].function),
                                    .file = keep(names, where.frames[i].file),
                                    .module = module,
                                    .line = where.frames[i].file ? where.frames[i].line : 0,
                                    .outer = outer};
        outer = name;
    }
    line_location_done(&where);
    return outer;
}

const struct stack_name *stack_name_of(struct stack_names *names, struct lines *lines, uint64_t addr)
{
    uint64_t start;
    struct stack_name_entry *entry = NULL;
    const char *file = lines_module(lines, addr, &start);
    const char *key = file ? arena_printf(&names->arena, "%" PRIx64 " %s", addr - start, file) : NULL;
    if (!key)
        return NULL;
    HASH_FIND_STR(names->entries, key, entry);
    if (entry)
        return entry->name;
    entry = arena_zalloc(&names->arena, 1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->key = key;
    entry->name = look(names, lines, addr);
    HASH_ADD_KEYPTR(hh, names->entries, entry->key, strlen(entry->key), entry);
    return entry->name;
}

void stack_names_done(struct stack_names *names)
{
    HASH_CLEAR(hh, names->entries);
    arena_done(&names->arena);
}
