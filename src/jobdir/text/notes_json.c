/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/notes_json.h"

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"

static json_t *field_json(enum note_field_type type, union note_word word)
{
    switch (type) {
    case NOTE_FLAG:
        return json_boolean(word.integer);
    case NOTE_INTEGER:
        return json_integer((json_int_t)word.integer);
    case NOTE_FLOATING:
        return json_real(word.floating);
    default:
        return text_json(word.string ? word.string : "");
    }
}

enum note_kind note_json_kind(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "note"));
    return name ? note_find(name) : NOTE_NONE;
}

const struct field notes_fields[] = {
    {"kind", FIELD_TEXT}, {"note", FIELD_TEXT}, {"fields", FIELD_OBJECT}, {"text", FIELD_TEXT}, {0}};

json_t *note_json(const struct note *note)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    const struct note_field *fields = note_fields(note->kind);
    json_t *values = json_object();
    for (size_t i = 0; fields[i].name[0]; i++)
        json_object_set_new(values, fields[i].name, field_json(fields[i].type, note->words[i]));
    note_text(&text, note);
    return json_pack("{s:s, s:s, s:o, s:o}", "kind", note_group(note->kind), "note", note_name(note->kind), "fields",
                     values, "text", text_json(text.data ? text.data : ""));
}
