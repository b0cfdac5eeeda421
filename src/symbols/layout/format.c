/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a capture as text: `n = 5, s = "abc", p = 0x7ffd10 -> {x = 1, y = 2.5}`. What people know from gdb and
 * printf, with these choices:
 *
 *   characters   of type char and the wide kinds as 'a'; signed char and unsigned char are small integers (int8_t)
 *   strings      "abc", followed by ... where there is more; a null pointer is 0x0
 *   pointers     0x7ffd10 -> what it points to; a reference is only what it refers to
 *   arrays       {1, 2, 3}, with ... where there are more; ten or more equal ones as `0 <repeats 12 times>`
 *   unions       all members, each as if it were the one
 *   maps         {[key] = value, ...}; of a variant the alternative that it has, of an optional its value or nullopt
 *   flags        A|B, the rest as a hexadecimal number; a number that is no enumerator as that number
 *   missing      <optimised out>, <not available>, <invalid 0x...>, <cut>, <of unknown size>
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/buf.h"
#include "shm/capture.h"
#include "symbols/layout/internal.h"

enum {
    OUT_LIMIT = 1 << 20, /* bytes of one part as text */
    REPEATS = 10,        /* equal elements that are shown as one */
};

struct printer {
    const uint8_t *at, *end;
    const struct layout_style *style;
    struct buf *out;
    size_t begin; /* length of out when the part began */
    bool cut;     /* there were not bytes enough, or too much text: nothing more comes */
    bool silent;  /* that is not said in the text */
};

/* The next n bytes; NULL: there are none, and that is in the text. */
static const uint8_t *printer_take(struct printer *printer, size_t n)
{
    if (printer->cut)
        return NULL;
    if ((size_t)(printer->end - printer->at) < n || printer->out->len - printer->begin > OUT_LIMIT) {
        if (!printer->silent)
            buf_puts(printer->out, "<cut>");
        printer->cut = true;
        return NULL;
    }
    const uint8_t *bytes = printer->at;
    printer->at += n;
    return bytes;
}

static void put_type(struct printer *printer, const struct layout_type *type);

/* Of "(*)(int)", "(*const)[3]" or "(Class::*)()": where the name of what is declared belongs. NULL: it is not that. */
static const char *place_in_group(const char *group)
{
    const char *place = NULL;
    while (*group == '(') { /* a further one: of a function that returns such a pointer */
        const char *at = group + 1;
        for (unsigned depth = 0; *at && (depth || !strchr("(),*&", *at)); at++)
            depth = *at == '<' ? depth + 1 : depth - (depth && *at == '>');
        if ((*at != '*' && *at != '&') || (at > group + 1 && at[-1] != ':'))
            break;
        for (size_t word = 1; word; at += word) {
            word = strspn(at, "*& ");
            if (!word && strncmp(at, "const", strlen("const")) == 0)
                word = strlen("const");
            if (!word && strncmp(at, "volatile", strlen("volatile")) == 0)
                word = strlen("volatile");
        }
        place = group = at;
    }
    return place;
}

/* As C declares: the name stands within the type of a pointer to a function or an array, else behind. */
static void put_declared(struct buf *out, const char *type, const char *name)
{
    const char *place = NULL, *at = type;
    for (unsigned depth = 0; *at && !place; at++) {
        depth = *at == '<' ? depth + 1 : depth - (depth && *at == '>');
        place = !depth && *at == '(' ? place_in_group(at) : NULL;
    }
    size_t before = place ? (size_t)(place - type) : strlen(type);
    bool joined = !*name || !before || strchr("*& ", type[before - 1]);
    buf_append(out, type, before);
    buf_printf(out, "%s%s%s", joined ? "" : " ", name, type + before);
}

static void put_field(struct printer *printer, const struct layout_field *field)
{
    if (printer->style->types && field->type->name)
        put_declared(printer->out, field->type->name, field->name);
    else
        buf_puts(printer->out, field->name);
    if (*field->name)
        buf_puts(printer->out, " = ");
    put_type(printer, field->type);
}

static void put_fields(struct printer *printer, const struct layout_type *type)
{
    for (size_t i = 0; i < type->field_count && !printer->cut; i++) {
        if (type->fields[i].type->kind == LAYOUT_PAD) {
            printer->at += printer->at < printer->end;
            continue;
        }
        if (i > 0)
            buf_puts(printer->out, ", ");
        put_field(printer, &type->fields[i]);
    }
}

/* ---- what has a status ---- */

/* True if content follows. `address` is shown where it could not be read; 0: not known. */
static bool put_status(struct printer *printer, unsigned status, uint64_t address)
{
    switch (status) {
    case CAPTURE_OK:
    case CAPTURE_PART:
        return true;
    case CAPTURE_NULL:
        buf_puts(printer->out, "0x0");
        return false;
    case CAPTURE_INVALID:
        if (address)
            buf_printf(printer->out, "<invalid 0x%" PRIx64 ">", address);
        else
            buf_puts(printer->out, "<invalid>");
        return false;
    case CAPTURE_ABSENT:
    case CAPTURE_ODD:
        buf_puts(printer->out, "<not available>");
        return false;
    default:
        buf_puts(printer->out, "<cut>");
        return false;
    }
}

static void put_choice(struct printer *printer, const struct layout_type *type)
{
    bool any = false;
    for (size_t i = 0; i < type->field_count && !printer->cut; i++) {
        const uint8_t *status = printer_take(printer, 1);
        if (!status || *status == CAPTURE_ABSENT)
            continue;
        if (any)
            buf_puts(printer->out, ", ");
        any = true;
        if (put_status(printer, *status, 0))
            put_type(printer, type->fields[i].type->inner);
    }
    if (!any && !printer->cut)
        buf_puts(printer->out, type->none);
}

static void put_entry(struct printer *printer, const struct layout_type *type)
{
    buf_putc(printer->out, '[');
    put_type(printer, type->fields[0].type);
    buf_puts(printer->out, "] = ");
    put_type(printer, type->fields[1].type);
}

static void put_followed(struct printer *printer, const struct layout_type *type)
{
    const uint8_t *head = printer_take(printer, 9);
    if (!head)
        return;
    uint64_t address = layout_unsigned(head, 8);
    bool shown = type->kind == LAYOUT_FOLLOWED && (head[8] == CAPTURE_OK || head[8] == CAPTURE_CUT);
    if (shown)
        buf_printf(printer->out, "0x%" PRIx64 " -> ", address);
    if (put_status(printer, head[8], address))
        put_type(printer, type->inner);
}

static void put_characters(struct printer *printer, size_t length, bool part)
{
    const uint8_t *text = printer->at;
    size_t there = (size_t)(printer->end - printer->at);
    bool missing = length > there;
    length = missing ? there : length;
    printer->at += length;
    size_t limit = printer->style->string_limit;
    bool shortened = limit && length > limit;
    layout_put_text(printer->out, text, shortened ? limit : length, part || shortened);
    if (missing)
        printer_take(printer, 1);
}

static void put_string(struct printer *printer)
{
    const uint8_t *head = printer_take(printer, 9);
    if (!head || !put_status(printer, head[8], layout_unsigned(head, 8)))
        return;
    const uint8_t *length = printer_take(printer, 2);
    if (length)
        put_characters(printer, (size_t)layout_unsigned(length, 2), head[8] == CAPTURE_PART);
}

/* The head of a counted string or vector; false: nothing is in it. */
static bool put_counts(struct printer *printer, bool *ret_part, size_t *ret_shown)
{
    const uint8_t *status = printer_take(printer, 1);
    if (!status || !put_status(printer, *status, 0))
        return false;
    const uint8_t *counts = printer_take(printer, 6);
    if (!counts)
        return false;
    *ret_part = *status == CAPTURE_PART;
    *ret_shown = (size_t)layout_unsigned(counts + 4, 2);
    return true;
}

/* ---- arrays ---- */

static void put_repeated(struct buf *out, const struct buf *text, size_t times, bool *first)
{
    size_t shown = times >= REPEATS ? 1 : times;
    for (size_t i = 0; i < shown; i++) {
        if (!*first)
            buf_puts(out, ", ");
        *first = false;
        buf_append(out, text->data, text->len);
    }
    if (times >= REPEATS)
        buf_printf(out, " <repeats %zu times>", times);
}

static void put_elements(struct printer *printer, const struct layout_type *inner, size_t count, bool part)
{
    _cleanup_(buf_done) struct buf last = BUF_INIT;
    _cleanup_(buf_done) struct buf next = BUF_INIT;
    struct buf *out = printer->out;
    size_t begin = printer->begin;
    bool first = true;
    size_t times = 0;
    buf_putc(out, '{');
    for (size_t i = 0; i < count && !printer->cut && out->len - begin < OUT_LIMIT; i++) {
        buf_clear(&next);
        printer->out = &next;
        printer->begin = 0;
        put_type(printer, inner);
        printer->out = out;
        printer->begin = begin;
        bool same = next.len == last.len && (!last.len || memcmp(next.data, last.data, last.len) == 0);
        if (times > 0 && same && !printer->cut) {
            times++;
            continue;
        }
        if (times > 0)
            put_repeated(out, &last, times, &first);
        struct buf swap = last;
        last = next;
        next = swap;
        times = 1;
    }
    if (times > 0 && last.data)
        put_repeated(out, &last, times, &first);
    if (part && !printer->cut)
        buf_puts(out, first ? "..." : ", ...");
    buf_putc(out, '}');
}

static void put_text_array(struct printer *printer, const struct layout_type *type)
{
    const uint8_t *text = printer_take(printer, type->count);
    if (!text)
        return;
    size_t length = strnlen((const char *)text, type->count);
    size_t limit = printer->style->string_limit;
    bool part = length == type->count && type->total > type->count;
    if (limit && length > limit) {
        length = limit;
        part = true;
    }
    layout_put_text(printer->out, text, length, part);
}

/* ---- numbers ---- */

/* Its sign is the operator, as one would write it. */
static void put_imaginary(struct buf *out, const uint8_t *bytes, size_t size)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    layout_put_float(&text, bytes, size);
    bool negative = text.len > 0 && text.data[0] == '-';
    buf_puts(out, negative ? " - " : " + ");
    buf_append(out, text.data + negative, text.len - negative);
    buf_putc(out, 'i');
    out->failed |= text.failed;
}

static bool name_of(const struct printer *printer, uint64_t address, struct buf *ret_name)
{
    const struct layout_style *style = printer->style;
    return address && style->name_address && style->name_address(style->ctx, address, ret_name) && ret_name->len > 0;
}

static void put_address(struct printer *printer, uint64_t address, bool code)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    buf_printf(printer->out, "0x%" PRIx64, address);
    if (code && name_of(printer, address, &name))
        buf_printf(printer->out, " <%s>", name.data);
}

/* The index-th argument of a template that begins at text, behind its '<'; its length. */
static size_t template_argument(const char *text, unsigned index, const char **ret_argument)
{
    unsigned depth = 0;
    const char *at = text;
    for (*ret_argument = text; *at; at++) {
        if (strchr("<({[", *at))
            depth++;
        else if (depth == 0 && (*at == ',' || *at == '>')) {
            if (index-- == 0)
                return (size_t)(at - *ret_argument);
            *ret_argument = at + 1 + (at[1] == ' ');
            if (*at == '>')
                break;
        } else if (strchr(">)}]", *at))
            depth--;
    }
    return 0;
}

/* What the code that calls the target is called has the target's type. A function's address is the target itself. */
static void put_callable(struct printer *printer)
{
    static const struct {
        const char *name;
        unsigned index;
    } callers[] = {{"_Function_handler<", 1}, {"__func<", 0}};
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    const uint8_t *bytes = printer_take(printer, 16);
    const char *type = "function";
    size_t length = strlen(type);
    if (!bytes)
        return;
    bool named = name_of(printer, layout_unsigned(bytes, 8), &name);
    for (size_t i = 0; named && i < sizeof callers / sizeof *callers; i++) {
        const char *found = strstr(name.data, callers[i].name), *argument;
        size_t known = found ? template_argument(found + strlen(callers[i].name), callers[i].index, &argument) : 0;
        if (known) {
            type = argument;
            length = known;
        }
    }
    if (memmem(type, length, "(*)(", 4))
        put_address(printer, layout_unsigned(bytes + 8, 8), true);
    else
        buf_printf(printer->out, "<%.*s>", (int)length, type);
}

static void put_number(struct printer *printer, const struct layout_type *type)
{
    struct buf *out = printer->out;
    size_t size = type->kind == LAYOUT_POINTER || type->kind == LAYOUT_CODE_POINTER ? 8 : type->size;
    const uint8_t *bytes = printer_take(printer, type->kind == LAYOUT_COMPLEX ? 2 * size : size);
    if (!bytes)
        return;
    uint64_t value = layout_unsigned(bytes, size);
    switch (type->kind) {
    case LAYOUT_SIGNED:
    case LAYOUT_UNSIGNED:
        layout_put_integer(out, bytes, size, type->kind == LAYOUT_SIGNED);
        break;
    case LAYOUT_CHAR:
        layout_put_char(out, (uint32_t)value, (unsigned)size);
        break;
    case LAYOUT_BOOL:
        buf_puts(out, value == 0 ? "false" : value == 1 ? "true" : "<not available>"); /* no other byte is one */
        break;
    case LAYOUT_FLOAT:
        layout_put_float(out, bytes, size);
        break;
    case LAYOUT_COMPLEX:
        layout_put_float(out, bytes, size);
        put_imaginary(out, bytes + size, size);
        break;
    case LAYOUT_ENUM:
        layout_put_enum(out, type, bytes);
        break;
    case LAYOUT_POINTER:
    case LAYOUT_CODE_POINTER:
        put_address(printer, value, type->kind == LAYOUT_CODE_POINTER);
        break;
    default: /* LAYOUT_RAW */
        buf_puts(out, "<bytes ");
        for (size_t i = 0; i < size; i++)
            buf_printf(out, "%02x", bytes[i]);
        buf_putc(out, '>');
    }
}

/* What the C++ library hides in a structure of one member, by a reserved name, is that member: a duration its number, a
 * complex number both of its parts. LLVM's has a member for each part. */
static const struct layout_type *type_inside(const struct layout_type *type)
{
    static const struct layout_type complex[] = {
        {.kind = LAYOUT_COMPLEX, .size = 4}, {.kind = LAYOUT_COMPLEX, .size = 8}, {.kind = LAYOUT_COMPLEX, .size = 16}};
    while (type->kind == LAYOUT_STRUCT && type->field_count == 1) {
        const char *name = type->fields[0].name;
        name += *name == '<';
        if (name[0] != '_' || (name[1] != '_' && (name[1] < 'A' || name[1] > 'Z')))
            break;
        type = type->fields[0].type;
    }
    if (type->kind != LAYOUT_STRUCT || type->field_count != 2 || strcmp(type->fields[0].name, "__re_") != 0)
        return type;
    const struct layout_type *re = type->fields[0].type, *im = type->fields[1].type;
    if (re->kind != LAYOUT_FLOAT || im->kind != LAYOUT_FLOAT || re->size != im->size)
        return type;
    return &complex[re->size == 4 ? 0 : re->size == 8 ? 1 : 2];
}

static void put_type(struct printer *printer, const struct layout_type *type)
{
    bool part = false;
    size_t shown = 0;
    const uint8_t *status;
    type = type_inside(type);
    switch (type->kind) {
    case LAYOUT_CALLABLE:
        put_callable(printer);
        break;
    case LAYOUT_FOLLOWED:
    case LAYOUT_REFERENCE:
        put_followed(printer, type);
        break;
    case LAYOUT_STRING:
        put_string(printer);
        break;
    case LAYOUT_BYTES:
        if (put_counts(printer, &part, &shown))
            put_characters(printer, shown, part);
        break;
    case LAYOUT_VECTOR:
        if (put_counts(printer, &part, &shown))
            put_elements(printer, type->inner, shown, part);
        break;
    case LAYOUT_ARRAY:
        put_elements(printer, type->inner, type->count, type->total > type->count);
        break;
    case LAYOUT_TEXT:
        put_text_array(printer, type);
        break;
    case LAYOUT_STRUCT:
    case LAYOUT_UNION:
        buf_putc(printer->out, '{');
        put_fields(printer, type);
        buf_putc(printer->out, '}');
        break;
    case LAYOUT_ENTRY:
        put_entry(printer, type);
        break;
    case LAYOUT_CHOICE:
        put_choice(printer, type);
        break;
    case LAYOUT_OPTIMISED_OUT:
        buf_puts(printer->out, "<optimised out>");
        break;
    case LAYOUT_NOT_AVAILABLE:
        buf_puts(printer->out, "<not available>");
        break;
    case LAYOUT_PAD:
        printer_take(printer, 1);
        break;
    case LAYOUT_NO_ROOM:
        buf_puts(printer->out, "<cut>");
        break;
    case LAYOUT_UNSIZED:
        buf_puts(printer->out, "<of unknown size>");
        break;
    case LAYOUT_CHECKED:
        status = printer_take(printer, 1);
        if (status && put_status(printer, *status, 0))
            put_type(printer, type->inner);
        break;
    default:
        put_number(printer, type);
    }
}

/* ---- skipping what comes before a part ---- */

static const struct layout_style plain;

/* The printer at the first byte of a part: the parts before it are printed to nowhere. */
static struct printer printer_at(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                                 const struct layout_style *style, struct buf *out)
{
    _cleanup_(buf_done) struct buf nowhere = BUF_INIT;
    struct printer printer = {.at = bytes, .end = (const uint8_t *)bytes + size, .style = &plain, .out = &nowhere};
    for (unsigned i = 0; i < (unsigned)part; i++)
        put_fields(&printer, &layout->parts[i]);
    printer.style = style ? style : &plain;
    printer.out = out;
    printer.begin = out->len;
    if (printer.cut) { /* say it once more, here */
        printer.cut = false;
        printer.at = printer.end;
    }
    return printer;
}

static bool is_never_known(const struct layout_type *type)
{
    return type->kind == LAYOUT_OPTIMISED_OUT || type->kind == LAYOUT_NOT_AVAILABLE || type->kind == LAYOUT_NO_ROOM ||
           type->kind == LAYOUT_UNSIZED;
}

void layout_declare(const struct layout *layout, enum layout_part part, struct buf *out)
{
    const struct layout_type *type = &layout->parts[part];
    for (size_t i = 0, shown = 0; i < type->field_count; i++) {
        const struct layout_field *field = &type->fields[i];
        const struct layout_type *named = field->type; /* the words stand behind the innermost */
        while (!named->name && named->inner)
            named = named->inner;
        if (field->type->kind == LAYOUT_PAD)
            continue;
        buf_puts(out, shown++ ? ", " : "");
        put_declared(out, named->name ? named->name : "?", field->name);
    }
}

void layout_format(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                   const struct layout_style *style, struct buf *out)
{
    struct printer printer = printer_at(layout, part, bytes, size, style, out);
    struct layout_type fields = layout->parts[part];
    _cleanup_(freep) struct layout_field *sorted =
        style && style->known_first ? calloc(fields.field_count + 1, sizeof *sorted) : NULL;
    if (sorted) { /* those have no bytes: any order will do */
        size_t count = 0;
        for (int last = 0; last < 2; last++)
            for (size_t i = 0; i < fields.field_count; i++)
                if (is_never_known(fields.fields[i].type) == (bool)last)
                    sorted[count++] = fields.fields[i];
        fields.fields = sorted;
    }
    put_fields(&printer, &fields);
}

/* ---- other forms of the same ---- */

static void put_quoted(struct buf *out, const char *text, size_t len, bool json)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            buf_printf(out, json ? "\\u%04x" : "\\%03o", c);
        else
            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

/* JSON has no number for all that C has: integers beyond 2^53 would lose digits in many readers. */
static bool is_json_number(const struct layout_type *type, const char *text)
{
    while (type->kind == LAYOUT_CHECKED || (type->kind == LAYOUT_CHOICE && type->field_count == 1)) {
        if (type->kind == LAYOUT_CHOICE && strcmp(text, type->none) == 0)
            return false;
        type = type->kind == LAYOUT_CHOICE ? type->fields[0].type : type->inner;
    }
    if (type->kind == LAYOUT_SIGNED || type->kind == LAYOUT_UNSIGNED)
        return *text != '<' && strlen(text) <= 15;
    return (type->kind == LAYOUT_FLOAT && *text != '<' && !strpbrk(text, "nN") && strlen(text) <= 30) ||
           (type->kind == LAYOUT_BOOL && (*text == 't' || *text == 'f'));
}

/* The fields of a part, each handed over with its value as text. `same`: its sequence number among those of its name,
 * from 1. */
typedef void field_fn(struct buf *out, const struct layout_field *field, enum layout_part part, size_t same,
                      const struct buf *value);

static size_t same_names(const struct layout_type *fields, size_t index)
{
    size_t same = 1;
    for (size_t i = 0; i < index; i++)
        same += fields->fields[i].type->kind != LAYOUT_PAD &&
                strcmp(fields->fields[i].name, fields->fields[index].name) == 0;
    return same;
}

static void each_field(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                       const struct layout_style *style, struct buf *out, field_fn *fn)
{
    _cleanup_(buf_done) struct buf value = BUF_INIT;
    struct printer printer = printer_at(layout, part, bytes, size, style, out);
    const struct layout_type *fields = &layout->parts[part];
    printer.out = &value;
    printer.begin = 0;
    for (size_t i = 0; i < fields->field_count && !printer.cut && out->len < OUT_LIMIT; i++) {
        if (fields->fields[i].type->kind == LAYOUT_PAD)
            continue;
        buf_clear(&value);
        put_type(&printer, fields->fields[i].type);
        if (i > 0)
            buf_putc(out, ',');
        fn(out, &fields->fields[i], part, same_names(fields, i), &value);
    }
    out->failed |= value.failed;
}

static void put_list_field(struct buf *out, const struct layout_field *field, enum layout_part part, size_t same,
                           const struct buf *value)
{
    put_quoted(out, field->name, strlen(field->name), false);
    buf_putc(out, ',');
    put_quoted(out, value->data ? value->data : "", value->len, false);
}

void layout_format_list(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                        const struct layout_style *style, struct buf *out)
{
    each_field(layout, part, bytes, size, style, out, put_list_field);
}

/* No key comes twice: readers keep only one of them. */
static void put_json_field(struct buf *out, const struct layout_field *field, enum layout_part part, size_t same,
                           const struct buf *value)
{
    const char *name = *field->name ? field->name : layout_part_names[part];
    put_quoted(out, name, strlen(name), true);
    if (same > 1) {
        out->len--; /* the quote */
        buf_printf(out, "#%zu\"", same);
    }
    buf_putc(out, ':');
    if (value->data && is_json_number(field->type, value->data))
        buf_append(out, value->data, value->len);
    else
        put_quoted(out, value->data ? value->data : "", value->len, true);
}

void layout_format_json(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                        const struct layout_style *style, struct buf *out)
{
    buf_putc(out, '{');
    each_field(layout, part, bytes, size, style, out, put_json_field);
    buf_putc(out, '}');
}

/* ---- values for programs ---- */

static void value_put(struct printer *printer, const struct layout_type *type);

/* As it is; bytes that are no UTF-8 are U+FFFD. */
static void value_text(struct buf *out, const uint8_t *bytes, size_t size)
{
    buf_putc(out, '"');
    for (size_t i = 0; i < size;) {
        size_t n = utf8_length(bytes + i, size - i);
        if (n == 1 && (bytes[i] == '"' || bytes[i] == '\\'))
            buf_printf(out, "\\%c", bytes[i]);
        else if (n == 1 && (bytes[i] < 0x20 || bytes[i] == 0x7f))
            buf_printf(out, "\\u%04x", bytes[i]);
        else if (n)
            buf_append(out, bytes + i, n);
        else
            buf_puts(out, "\\ufffd");
        i += n ? n : 1;
    }
    buf_putc(out, '"');
}

/* What has no form of its own: its text for people. */
static void value_shown(struct printer *printer, const struct layout_type *type)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct printer aside = *printer;
    struct buf *out = printer->out;
    aside.out = &text;
    aside.begin = 0;
    put_type(&aside, type);
    printer->at = aside.at;
    printer->cut = aside.cut;
    if (printer->cut || !text.data)
        buf_puts(out, "null");
    else
        put_quoted(out, text.data, text.len, true);
    out->failed |= text.failed;
}

static void value_number(struct printer *printer, const struct layout_type *type)
{
    const uint8_t *bytes = printer_take(printer, type->size);
    struct buf *out = printer->out;
    if (!bytes)
        buf_puts(out, "null");
    else if (type->kind == LAYOUT_BOOL)
        buf_puts(out, *bytes == 0 ? "false" : *bytes == 1 ? "true" : "null");
    else
        layout_put_integer(out, bytes, type->size, type->kind == LAYOUT_SIGNED);
}

/* JSON has no number for infinity and the like. */
static void value_float(struct buf *out, const uint8_t *bytes, size_t size)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    layout_put_float(&text, bytes, size);
    if (!text.data || strpbrk(text.data, "nN<"))
        put_quoted(out, text.data ? text.data : "", text.len, true);
    else
        buf_append(out, text.data, text.len);
}

static void value_floats(struct printer *printer, const struct layout_type *type)
{
    bool complex = type->kind == LAYOUT_COMPLEX;
    const uint8_t *bytes = printer_take(printer, complex ? 2 * (size_t)type->size : type->size);
    if (!bytes) {
        buf_puts(printer->out, "null");
        return;
    }
    buf_puts(printer->out, complex ? "{\"re\":" : "");
    value_float(printer->out, bytes, type->size);
    if (complex) {
        buf_puts(printer->out, ",\"im\":");
        value_float(printer->out, bytes + type->size, type->size);
        buf_putc(printer->out, '}');
    }
}

/* One character is a text of it. */
static void value_char(struct printer *printer, const struct layout_type *type)
{
    const uint8_t *bytes = printer_take(printer, type->size);
    if (bytes && type->size == 1 && *bytes < 0x80)
        value_text(printer->out, bytes, 1);
    else if (bytes)
        layout_put_integer(printer->out, bytes, type->size, !type->flagged);
    else
        buf_puts(printer->out, "null");
}

static void value_enum(struct printer *printer, const struct layout_type *type)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    const uint8_t *bytes = printer_take(printer, type->size);
    if (!bytes) {
        buf_puts(printer->out, "null");
        return;
    }
    layout_put_enum(&name, type, bytes);
    buf_puts(printer->out, "{\"value\":");
    layout_put_integer(printer->out, bytes, type->size, !type->flagged);
    buf_puts(printer->out, ",\"name\":");
    put_quoted(printer->out, name.data ? name.data : "", name.len, true);
    buf_putc(printer->out, '}');
}

/* Its address, and what it points to: `to` is null where that could not be read. NULL itself is null. */
static void value_pointer(struct printer *printer, const struct layout_type *type)
{
    bool followed = type->kind == LAYOUT_FOLLOWED || type->kind == LAYOUT_STRING;
    const uint8_t *bytes = printer_take(printer, followed ? 9 : 8);
    uint64_t address = bytes ? layout_unsigned(bytes, 8) : 0;
    struct buf *out = printer->out;
    if (!address || (followed && bytes[8] == CAPTURE_NULL)) {
        buf_puts(out, "null");
        return;
    }
    buf_printf(out, "{\"address\":\"0x%" PRIx64 "\"", address);
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    if (type->kind == LAYOUT_CODE_POINTER && name_of(printer, address, &name)) {
        buf_puts(out, ",\"function\":");
        put_quoted(out, name.data, name.len, true);
    }
    bool there = followed && (bytes[8] == CAPTURE_OK || bytes[8] == CAPTURE_PART);
    bool part = there && bytes[8] == CAPTURE_PART;
    if (followed)
        buf_puts(out, ",\"to\":");
    if (there && type->kind == LAYOUT_FOLLOWED) {
        value_put(printer, type->inner);
    } else if (there) {
        const uint8_t *length = printer_take(printer, 2);
        const uint8_t *text = length ? printer_take(printer, layout_unsigned(length, 2)) : NULL;
        if (text)
            value_text(out, text, layout_unsigned(length, 2));
        else
            buf_puts(out, "null");
        buf_puts(out, part ? ",\"cut\":true" : "");
    } else if (followed) {
        buf_puts(out, "null");
    }
    buf_putc(out, '}');
}

/* A list, or a text. Of what is longer than was captured: {"first": it, "total": how many there are}. */
static void value_list(struct printer *printer, const struct layout_type *type)
{
    struct buf *out = printer->out;
    uint64_t total = type->total, count = type->count;
    bool part = total > count, text = type->kind == LAYOUT_TEXT || type->kind == LAYOUT_BYTES;
    if (type->kind == LAYOUT_VECTOR || type->kind == LAYOUT_BYTES) {
        const uint8_t *status = printer_take(printer, 1);
        bool there = status && (*status == CAPTURE_OK || *status == CAPTURE_PART);
        const uint8_t *counts = there ? printer_take(printer, 6) : NULL;
        if (!counts) {
            buf_puts(out, "null");
            return;
        }
        total = layout_unsigned(counts, 4);
        count = layout_unsigned(counts + 4, 2);
        part = *status == CAPTURE_PART;
    }
    const uint8_t *bytes = text ? printer_take(printer, count) : NULL;
    size_t length = bytes && type->kind == LAYOUT_TEXT ? strnlen((const char *)bytes, count) : count;
    part &= !bytes || length == count;
    buf_puts(out, part ? "{\"first\":" : "");
    if (bytes) {
        value_text(out, bytes, length);
    } else if (text) {
        buf_puts(out, "null");
    } else {
        buf_putc(out, '[');
        for (uint64_t i = 0; i < count && !printer->cut && out->len - printer->begin < OUT_LIMIT; i++) {
            buf_puts(out, i ? "," : "");
            value_put(printer, type->inner);
        }
        buf_putc(out, ']');
    }
    if (part)
        buf_printf(out, ",\"total\":%" PRIu64 "}", total);
}

static void value_key(struct buf *out, const struct layout_type *fields, size_t index, const char *unnamed)
{
    const struct layout_field *field = &fields->fields[index];
    const char *name = *field->name ? field->name : field->type->name ? field->type->name : unnamed;
    size_t same = same_names(fields, index);
    put_quoted(out, name, strlen(name), true);
    if (same > 1) {
        out->len--; /* the quote */
        buf_printf(out, "#%zu\"", same);
    }
    buf_putc(out, ':');
}

/* What a tuple has: elements without names. One alone may be a union in a structure. */
static bool is_tuple(const struct layout_type *type)
{
    size_t unnamed = 0;
    for (size_t i = 0; i < type->field_count; i++)
        unnamed += !*type->fields[i].name;
    enum layout_kind first = unnamed ? type->fields[0].type->kind : LAYOUT_STRUCT;
    return type->kind == LAYOUT_STRUCT && unnamed == type->field_count &&
           (unnamed > 1 || (first != LAYOUT_STRUCT && first != LAYOUT_UNION));
}

static void value_object(struct printer *printer, const struct layout_type *fields, const char *unnamed)
{
    size_t shown = 0;
    bool tuple = is_tuple(fields);
    buf_putc(printer->out, tuple ? '[' : '{');
    for (size_t i = 0; i < fields->field_count && !printer->cut && printer->out->len - printer->begin < OUT_LIMIT;
         i++) {
        if (fields->fields[i].type->kind == LAYOUT_PAD) {
            printer->at += printer->at < printer->end;
            continue;
        }
        buf_puts(printer->out, shown++ ? "," : "");
        if (!tuple)
            value_key(printer->out, fields, i, unnamed);
        value_put(printer, fields->fields[i].type);
    }
    buf_putc(printer->out, tuple ? ']' : '}');
}

/* The alternative that is there; null: none is. */
static void value_choice(struct printer *printer, const struct layout_type *type)
{
    _cleanup_(buf_done) struct buf others = BUF_INIT;
    struct buf *out = printer->out;
    bool any = false;
    for (size_t i = 0; i < type->field_count && !printer->cut; i++) {
        const uint8_t *status = printer_take(printer, 1);
        if (!status || (*status != CAPTURE_OK && *status != CAPTURE_PART))
            continue;
        struct printer aside = *printer;
        aside.out = any ? &others : out;
        aside.begin = any ? 0 : printer->begin;
        buf_clear(&others);
        value_put(&aside, type->fields[i].type->inner);
        printer->at = aside.at;
        printer->cut = aside.cut;
        any = true;
    }
    buf_puts(out, any ? "" : "null");
}

static void value_put(struct printer *printer, const struct layout_type *type)
{
    const uint8_t *status;
    type = type_inside(type);
    switch (type->kind) {
    case LAYOUT_SIGNED:
    case LAYOUT_UNSIGNED:
    case LAYOUT_BOOL:
        value_number(printer, type);
        break;
    case LAYOUT_FLOAT:
    case LAYOUT_COMPLEX:
        value_floats(printer, type);
        break;
    case LAYOUT_CHAR:
        value_char(printer, type);
        break;
    case LAYOUT_ENUM:
        value_enum(printer, type);
        break;
    case LAYOUT_POINTER:
    case LAYOUT_CODE_POINTER:
    case LAYOUT_FOLLOWED:
    case LAYOUT_STRING:
        value_pointer(printer, type);
        break;
    case LAYOUT_REFERENCE: /* is what it refers to */
        status = printer_take(printer, 9);
        if (status && (status[8] == CAPTURE_OK || status[8] == CAPTURE_PART))
            value_put(printer, type->inner);
        else
            buf_puts(printer->out, "null");
        break;
    case LAYOUT_CHECKED:
        status = printer_take(printer, 1);
        if (status && (*status == CAPTURE_OK || *status == CAPTURE_PART))
            value_put(printer, type->inner);
        else
            buf_puts(printer->out, "null");
        break;
    case LAYOUT_BYTES:
    case LAYOUT_TEXT:
    case LAYOUT_VECTOR:
    case LAYOUT_ARRAY:
        value_list(printer, type);
        break;
    case LAYOUT_STRUCT:
    case LAYOUT_UNION:
        value_object(printer, type, "");
        break;
    case LAYOUT_ENTRY:
        buf_puts(printer->out, "{\"key\":");
        value_put(printer, type->fields[0].type);
        buf_puts(printer->out, ",\"value\":");
        value_put(printer, type->fields[1].type);
        buf_putc(printer->out, '}');
        break;
    case LAYOUT_CHOICE:
        value_choice(printer, type);
        break;
    case LAYOUT_CALLABLE:
    case LAYOUT_RAW:
        value_shown(printer, type);
        break;
    default: /* what is not known takes no bytes */
        buf_puts(printer->out, "null");
    }
}

void layout_format_values(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                          const struct layout_style *style, struct buf *out)
{
    struct printer printer = printer_at(layout, part, bytes, size, style, out);
    const struct layout_type *fields = &layout->parts[part];
    printer.silent = true;
    if (part == LAYOUT_RESULT && fields->field_count)
        value_put(&printer, fields->fields[0].type);
    else
        value_object(&printer, fields, layout_part_names[part]);
}
