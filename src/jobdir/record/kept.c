/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/record/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/hash.h"

const struct field kept_omitted_fields[] = {
    {"kind", FIELD_TEXT, .about = "their note, or where they have none their kind"}, {"count", FIELD_COUNT}, {0}};

int kept_init(struct kept *kept)
{
    *kept = (struct kept){.records = json_array()};
    return kept->records ? 0 : -ENOMEM;
}

void kept_done(struct kept *kept)
{
    HASH_FREE_ALL(kept->kinds);
    json_decref(kept->records);
    *kept = (struct kept){0};
}

static const char *kind_name(const json_t *record)
{
    const char *note = json_string_value(json_object_get(record, "note"));
    const char *kind = note ? note : json_string_value(json_object_get(record, "kind"));
    return kind ? kind : "";
}

static struct kept_kind *kind_of(struct kept *kept, const char *name)
{
    struct kept_kind *kind;
    HASH_FIND_STR(kept->kinds, name, kind);
    if (kind)
        return kind;
    if (HASH_COUNT(kept->kinds) >= KEPT_KINDS) {
        name = "";
        HASH_FIND_STR(kept->kinds, name, kind);
    }
    size_t size = strlen(name) + 1;
    kind = kind ? kind : calloc(1, sizeof *kind + size);
    if (kind && !kind->name[0] && !kind->total) {
        memcpy(kind->name, name, size);
        HASH_ADD_STR(kept->kinds, name, kind);
    }
    return kind;
}

/* Leaves of a kind the first and the last KEPT_EACH. Done once for KEPT_EACH records, for it looks at all. */
static void thin_out(struct kept *kept, const struct kept_kind *kind)
{
    json_t *left = json_array(), *record;
    size_t index, seen = 0;
    json_array_foreach(kept->records, index, record)
    {
        struct kept_kind *its;
        HASH_FIND_STR(kept->kinds, kind_name(record), its);
        bool is_one = its ? its == kind : !kind->name[0];
        if (is_one && seen++ >= KEPT_EACH && seen <= kind->kept - KEPT_EACH)
            continue;
        json_array_append(left, record);
    }
    json_array_clear(kept->records); /* others have borrowed the array */
    json_array_extend(kept->records, left);
    json_decref(left);
}

void kept_add(struct kept *kept, const json_t *record)
{
    struct kept_kind *kind = kind_of(kept, kind_name(record));
    kept->total++;
    if (!kind)
        return; /* no memory: only counted */
    kind->total++;
    json_array_append(kept->records, (json_t *)record);
    if (++kind->kept < 3 * KEPT_EACH)
        return;
    thin_out(kept, kind);
    kind->kept = 2 * KEPT_EACH;
}

json_t *kept_omitted(const struct kept *kept)
{
    json_t *list = json_array();
    for (const struct kept_kind *kind = kept->kinds; kind; kind = kind->hh.next)
        if (kind->total > kind->kept)
            json_array_append_new(
                list, json_pack("{s:s, s:I}", "kind", kind->name, "count", (json_int_t)(kind->total - kind->kept)));
    return list;
}
