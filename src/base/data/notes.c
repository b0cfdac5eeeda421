/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/notes.h"

#include <inttypes.h>
#include <string.h>

/* clang-format off */
#define FIELD_INTEGER(name) {NOTE_INTEGER, #name},
#define FIELD_FLOATING(name) {NOTE_FLOATING, #name},
#define FIELD_STRING(name) {NOTE_STRING, #name},
#define FIELD_FLAG(name) {NOTE_FLAG, #name},
#define ROW(name, group, text, fields) [NOTE_##name] = {#name, group, text, {fields}},
/* clang-format on */

static const struct {
    const char *name, *group, *text;
    struct note_field fields[NOTE_FIELDS + 1];
} rows[NOTE_KINDS] = {[NOTE_NONE] = {"", "", "", {{0}}},
                      NOTES(ROW, FIELD_INTEGER, FIELD_FLOATING, FIELD_STRING, FIELD_FLAG)};

_Static_assert(sizeof(((struct note *)0)->words) == sizeof(struct note) - offsetof(struct note, words),
               "a note has more fields than NOTE_FIELDS");

const struct note_field *note_fields(enum note_kind kind)
{
    return rows[kind].fields;
}

const char *note_name(enum note_kind kind)
{
    return rows[kind].name;
}

const char *note_group(enum note_kind kind)
{
    return rows[kind].group;
}

const char *note_template(enum note_kind kind)
{
    return rows[kind].text;
}

enum note_kind note_find(const char *name)
{
    for (enum note_kind kind = NOTE_NONE + 1; kind < NOTE_KINDS; kind++)
        if (strcmp(rows[kind].name, name) == 0)
            return kind;
    return NOTE_NONE;
}

/* "only 0 MB of 0 MB" says nothing. */
static int digits_of(double number, int digits)
{
    return digits == 0 && number >= 0.005 && number < 0.995 ? 2 : digits;
}

/* What a field looks like; `form` is what stands behind its name: nothing, ".DIGIT", or "?ONE|OTHER". */
static void put_field(struct buf *out, enum note_field_type type, union note_word word, const char *form, size_t len)
{
    const char *bar = memchr(form, '|', len);
    if (len && *form == '?' && bar && word.integer == 1)
        buf_append(out, form + 1, (size_t)(bar - form - 1));
    else if (len && *form == '?' && bar)
        buf_append(out, bar + 1, (size_t)(form + len - bar - 1));
    else if (type == NOTE_STRING)
        buf_puts(out, word.string ? word.string : "");
    else if (type == NOTE_FLOATING)
        buf_printf(out, "%.*f", digits_of(word.floating, len > 1 ? form[1] - '0' : 1), word.floating);
    else
        buf_printf(out, "%" PRIu64, word.integer);
}

/* What stands between { and }. */
static void put_place(struct buf *out, const struct note *note, const char *place, size_t len)
{
    const struct note_field *fields = rows[note->kind].fields;
    size_t name = strcspn(place, ".?}");
    for (size_t i = 0; fields[i].name; i++)
        if (strlen(fields[i].name) == name && memcmp(fields[i].name, place, name) == 0) {
            put_field(out, fields[i].type, note->words[i], place + name, len - name);
            return;
        }
}

void note_text(struct buf *out, const struct note *note)
{
    for (const char *at = rows[note->kind].text; *at;) {
        size_t plain = strcspn(at, "{"), place = plain + strcspn(at + plain, "}");
        buf_append(out, at, plain);
        if (at[plain])
            put_place(out, note, at + plain + 1, place - plain - 1);
        at += place + (at[place] != 0);
    }
}
