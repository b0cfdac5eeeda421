/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/notes.h"

#include <inttypes.h>
#include <stdlib.h>
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

/* ---- in memory ---- */

void note_keep(struct kept_note *kept, const struct note *note)
{
    const struct note_field *fields = note_fields(note->kind);
    size_t len = 0;
    if (note == &kept->note)
        return;
    kept->note = *note;
    for (size_t i = 0; fields[i].name[0]; i++) {
        if (fields[i].type != NOTE_STRING)
            continue;
        const char *text = note->words[i].string ? note->words[i].string : "";
        size_t room = sizeof kept->texts - 1 - len, part = strnlen(text, room);
        char *to = kept->texts + len;
        memcpy(to, text, part);
        to[part] = 0;
        kept->note.words[i].string = to;
        len += part < room ? part + 1 : part;
    }
}

bool note_equal(const struct note *one, const struct note *other)
{
    const struct note_field *fields = note_fields(one->kind);
    bool equal = one->kind == other->kind;
    for (size_t i = 0; equal && fields[i].name[0]; i++) {
        const union note_word *a = &one->words[i], *b = &other->words[i];
        if (fields[i].type == NOTE_STRING)
            equal = strcmp(a->string ? a->string : "", b->string ? b->string : "") == 0;
        else
            equal = a->integer == b->integer; /* floating: the same bits */
    }
    return equal;
}

/* ---- as a line ---- */

static void put_text(struct buf *out, const char *text)
{
    for (; text && *text; text++) {
        if (*text == '\t' || *text == '\\')
            buf_putc(out, '\\');
        buf_putc(out, *text);
    }
}

void note_put_line(struct buf *out, const struct note *note)
{
    const struct note_field *fields = note_fields(note->kind);
    struct buf text = BUF_INIT;
    buf_puts(out, note_name(note->kind));
    for (size_t i = 0; fields[i].name[0]; i++) {
        buf_putc(out, '\t');
        if (fields[i].type == NOTE_STRING)
            put_text(out, note->words[i].string);
        else if (fields[i].type == NOTE_FLOATING)
            buf_printf(out, "%.17g", note->words[i].floating);
        else
            buf_printf(out, "%" PRIu64, note->words[i].integer);
    }
    buf_putc(out, '\t');
    note_text(&text, note);
    put_text(out, text.data);
    buf_done(&text);
}

/* Cuts the next part off the line, and takes the backslashes out of it. NULL: there is none. */
static char *next_part(char **line)
{
    char *part = *line, *from = part, *to = part;
    if (!part)
        return NULL;
    for (; *from && *from != '\t'; from++) {
        from += *from == '\\' && from[1];
        *to++ = *from;
    }
    *line = *from ? from + 1 : NULL;
    *to = 0;
    return part;
}

static bool read_word(union note_word *ret_word, enum note_field_type type, const char *text)
{
    char *end = NULL;
    if (type == NOTE_STRING)
        ret_word->string = text;
    else if (type == NOTE_FLOATING)
        ret_word->floating = strtod(text, &end);
    else
        ret_word->integer = strtoull(text, &end, 10);
    return type == NOTE_STRING || (end != text && !*end);
}

void note_read_line(struct kept_note *ret_note, const char *line)
{
    char *copy = strdup(line), *rest = copy;
    const char *name = next_part(&rest), *text = name;
    struct note note = {.kind = name && rest ? note_find(name) : NOTE_NONE};
    const struct note_field *fields = note_fields(note.kind);
    bool whole = note.kind != NOTE_NONE;
    for (size_t i = 0; rest; i++) {
        text = next_part(&rest);
        if (!fields->name[0])
            continue; /* a field of a later version, or the text */
        whole = whole && rest && read_word(&note.words[i], fields->type, text);
        fields++;
    }
    whole = whole && !fields->name[0];
    note_keep(ret_note, whole ? &note : &NOTE(said, .text = text ? text : line));
    free(copy);
}
