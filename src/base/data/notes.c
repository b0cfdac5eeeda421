/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/notes.h"

#include <inttypes.h>
#include <string.h>

/* clang-format off */
#define FIELD_INTEGER(name) {NOTE_INTEGER, #name},
#define FIELD_FLOATING(name) {NOTE_FLOATING, #name},
#define FIELD_STRING(name) {NOTE_STRING, #name},
#define FIELD_FLAG(name) {NOTE_FLAG, #name},
#define TEXTS_MEMBER(name, group, text, fields) \
    char name##_name[sizeof #name], name##_group[sizeof group], name##_text[sizeof text];
#define TEXTS_ROW(name, group, text, fields) #name, group, text,
#define ROW(name, group, text, fields) \
    [NOTE_##name] = {AT(name##_name), AT(name##_group), AT(name##_text), {fields}},
/* clang-format on */

/* Both tables have no addresses: they would be relocated in each process, which then has the tables as its own memory. */
struct texts {
    char none[1];
    NOTES(TEXTS_MEMBER, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF)
};
static const struct texts texts = {"", NOTES(TEXTS_ROW, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF, NOTE_NONE_OF)};

#define AT(member) offsetof(struct texts, member)
_Static_assert(sizeof texts <= UINT16_MAX, "places of texts have 16 bits");

static const struct {
    uint16_t name_at, group_at, text_at; /* in texts */
    struct note_field fields[NOTE_FIELDS + 1];
} rows[NOTE_KINDS] = {[NOTE_NONE] = {0}, NOTES(ROW, FIELD_INTEGER, FIELD_FLOATING, FIELD_STRING, FIELD_FLAG)};

static const char *text_at(uint16_t at)
{
    return (const char *)&texts + at;
}

_Static_assert(sizeof(((struct note *)0)->words) == sizeof(struct note) - offsetof(struct note, words),
               "a note has more fields than NOTE_FIELDS");

const struct note_field *note_fields(enum note_kind kind)
{
    return rows[kind].fields;
}

const char *note_name(enum note_kind kind)
{
    return text_at(rows[kind].name_at);
}

const char *note_group(enum note_kind kind)
{
    return text_at(rows[kind].group_at);
}

const char *note_template(enum note_kind kind)
{
    return text_at(rows[kind].text_at);
}

enum note_kind note_find(const char *name)
{
    for (enum note_kind kind = NOTE_NONE + 1; kind < NOTE_KINDS; kind++)
        if (strcmp(note_name(kind), name) == 0)
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
    for (size_t i = 0; fields[i].name[0]; i++)
        if (strlen(fields[i].name) == name && memcmp(fields[i].name, place, name) == 0) {
            put_field(out, fields[i].type, note->words[i], place + name, len - name);
            return;
        }
}

void note_text(struct buf *out, const struct note *note)
{
    for (const char *at = note_template(note->kind); *at;) {
        size_t plain = strcspn(at, "{"), place = plain + strcspn(at + plain, "}");
        buf_append(out, at, plain);
        if (at[plain])
            put_place(out, note, at + plain + 1, place - plain - 1);
        at += place + (at[place] != 0);
    }
}
