/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/note_line.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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
