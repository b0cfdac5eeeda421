/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

/* What stands between { and }. */
struct place {
    const char *name, *form; /* form: what stands behind the name, "" or from . : ? on */
    size_t name_len, form_len;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct place place_at(const char *text, size_t len)
{
    size_t end = 0;
    while (end < len && text[end] != ':' && text[end] != '?' && !(text[end] == '.' && is_digit(text[end + 1])))
        end++;
    return (struct place){text, text + end, end, len - end};
}

/* The field by its name, also in parts; NULL: there is none. */
static const struct field *find_field(const struct field *fields, const char *name, size_t len)
{
    for (const struct field *field = fields; field && field->type != FIELD_END; field++) {
        const struct field *part = field->type == FIELD_PART ? find_field(field->of, name, len) : NULL;
        if (part)
            return part;
        if (field->type != FIELD_PART && strlen(field->name) == len && memcmp(field->name, name, len) == 0)
            return field;
    }
    return NULL;
}

/* The member of an object, or that of a member: name.other. */
static const json_t *find_member(const struct field *fields, const json_t *object, const struct place *place,
                                 const struct field **ret_field)
{
    const char *at = place->name, *end = at + place->name_len;
    for (;;) {
        const char *dot = memchr(at, '.', (size_t)(end - at));
        size_t len = (size_t)((dot ? dot : end) - at);
        const struct field *field = find_field(fields, at, len);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        object = json_object_get(object, name);
        *ret_field = field;
        if (!dot)
            return object;
        fields = field ? field->of : NULL;
        at = dot + 1;
    }
}

/* It says something: neither null nor 0, empty or false. */
static bool is_something(const json_t *json)
{
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_STRING:
        return json_string_length(json) > 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(json) != 0;
    case JSON_ARRAY:
        return json_array_size(json) > 0;
    case JSON_OBJECT:
        return json_object_size(json) > 0;
    default:
        return json_is_true(json);
    }
}

static void put_value(struct buf *out, const struct field *field, const json_t *json);

static void put_words(struct buf *out, const json_t *list)
{
    size_t i;
    json_t *word;
    json_array_foreach(list, i, word)
    {
        buf_puts(out, i ? " " : "");
        text_word(out, json_is_string(word) ? json_string_value(word) : "?");
    }
}

static void put_members(struct buf *out, const struct field *fields, const json_t *object)
{
    const char *name, *gap = "";
    json_t *member;
    json_object_foreach((json_t *)object, name, member)
    {
        buf_printf(out, "%s%s=", gap, name);
        put_value(out, find_field(fields, name, strlen(name)), member);
        gap = ", ";
    }
}

static void put_object(struct buf *out, const struct field *field, const json_t *object)
{
    if (field && field->say)
        fields_say(out, field->of, field->say, object);
    else
        put_members(out, field ? field->of : NULL, object);
}

static void put_elements(struct buf *out, const struct field *field, const json_t *list)
{
    size_t i;
    json_t *element;
    bool single = field && field->of && field->of->type != FIELD_PART && !*field->of->name;
    json_array_foreach(list, i, element)
    {
        const char *between = field && field->between ? field->between : json_is_object(element) ? "; " : " ";
        buf_puts(out, i == 0 ? "" : between);
        if (json_is_object(element))
            put_object(out, field, element);
        else
            put_value(out, single ? field->of : NULL, element);
    }
}

static void put_value(struct buf *out, const struct field *field, const json_t *json)
{
    enum field_type type = field ? field->type : FIELD_TEXT;
    if (json_is_object(json))
        put_object(out, field, json);
    else if (json_is_array(json))
        put_elements(out, field, json);
    else if (json_is_string(json))
        buf_puts(out, json_string_value(json));
    else if (json_is_boolean(json))
        buf_puts(out, json_is_true(json) ? "yes" : "no");
    else if (!json_is_number(json))
        buf_putc(out, '?');
    else if (type == FIELD_BYTES)
        text_size(out, (uint64_t)json_number_value(json));
    else if (type == FIELD_NS)
        text_ns(out, json_number_value(json));
    else if (type == FIELD_SECONDS)
        text_seconds(out, json_number_value(json));
    else if (json_is_integer(json))
        buf_printf(out, "%lld", (long long)json_integer_value(json));
    else
        buf_printf(out, "%.6g", json_real_value(json));
}

static void put_signal(struct buf *out, int signo)
{
    char room[32];
    buf_puts(out, text_signal(signo, room, sizeof room));
}

static void put_formed(struct buf *out, const struct place *place, const struct field *field, const json_t *json)
{
    const char *form = place->form, *end = form + place->form_len;
    const char *bar = place->form_len ? memchr(form, '|', place->form_len) : NULL;
    int number = (int)json_integer_value(json);
    if (*form == '?' && bar && place->form_len) {
        bool one = json_is_true(json) || (json_is_number(json) && json_number_value(json) == 1);
        buf_append(out, one ? form + 1 : bar + 1, (size_t)(one ? bar - form - 1 : end - bar - 1));
    } else if (place->form_len == 2 && *form == '.') {
        buf_printf(out, "%.*f", form[1] - '0', json_number_value(json));
    } else if (place->form_len == 8 && memcmp(form, ":percent", 8) == 0) {
        buf_printf(out, "%.0f %%", json_number_value(json) * 100);
    } else if (place->form_len == 6 && memcmp(form, ":words", 6) == 0) {
        put_words(out, json);
    } else if (place->form_len == 7 && memcmp(form, ":signal", 7) == 0) {
        put_signal(out, number);
    } else if (place->form_len == 5 && memcmp(form, ":wait", 5) == 0) {
        if (WIFSIGNALED(number))
            put_signal(out, WTERMSIG(number));
        else
            buf_printf(out, "exit status %d", WEXITSTATUS(number));
    } else {
        put_value(out, field, json);
    }
}

/* Appends the form's `len` bytes, in which there are no brackets any more. false: some member says nothing. */
static bool put_places(struct buf *out, const struct field *fields, const char *form, size_t len, const json_t *object)
{
    bool all = true;
    for (const char *at = form, *end = form + len; at < end;) {
        const char *open = memchr(at, '{', (size_t)(end - at));
        const char *close = open ? memchr(open, '}', (size_t)(end - open)) : NULL;
        if (!close) {
            buf_append(out, at, (size_t)(end - at));
            break;
        }
        buf_append(out, at, (size_t)(open - at));
        struct place place = place_at(open + 1, (size_t)(close - open - 1));
        const struct field *field;
        const json_t *json = find_member(fields, object, &place, &field);
        all &= is_something(json);
        put_formed(out, &place, field, json);
        at = close + 1;
    }
    return all;
}

void fields_say(struct buf *out, const struct field *fields, const char *form, const json_t *object)
{
    if (!form)
        put_members(out, fields, object);
    while (form && *form) {
        size_t plain = strcspn(form, "["), inner = form[plain] ? strcspn(form + plain + 1, "]") : 0;
        put_places(out, fields, form, plain, object);
        size_t before = out->len;
        if (inner && !put_places(out, fields, form + plain + 1, inner, object) && out->len > before)
            out->data[out->len = before] = '\0';
        form += plain;
        form += *form ? inner + 1 : 0;
        form += *form != 0;
    }
}
