/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layout as a structure of TSDL (CTF 1.8, 7.3): the same bytes for every reader of CTF. Names get an underscore in
 * front, which readers take away again, so that none is a keyword; what has no bytes is an empty structure whose name
 * says why. Structures of programs are written out where they stand: babeltrace2 2.0 takes one underscore more from the
 * names of fields with each use of a `struct name` or a typealias inside of another, so that `__lock` would be `lock`,
 * and tags that begin with one are not found. What is named here has no such fields.
 */
#include <inttypes.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "symbols/layout/internal.h"

static void put_declaration(struct buf *out, const struct layout_type *type, const char *name);

/* Letters, digits and _ of a name, and which field it is where that is needed to tell two apart. `odd`: names of the
 * fields before it were changed, and is set where its own is. */
static void put_name(struct buf *to, const struct layout_field *fields, size_t index, bool *odd)
{
    const char *name = fields[index].name;
    buf_putc(to, '_');
    for (const char *p = name; *p; p++) {
        bool good = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '_';
        *odd |= !good;
        if (good)
            buf_putc(to, *p);
        else if (*p != '<' && *p != '>')
            buf_putc(to, '_');
    }
    if (!*name)
        buf_puts(to, "value");
    /* another field may have become the same: all but the first of those get their number */
    bool same = *odd && index > 0;
    for (size_t i = 0; i < index && !same; i++)
        same = *fields[i].name == *name && strcmp(fields[i].name, name) == 0;
    if (same)
        buf_printf(to, "_%zu", index);
}

static void put_fields(struct buf *out, const struct layout_type *type)
{
    _cleanup_(buf_done) struct buf name = BUF_INIT;
    bool odd = false;
    buf_puts(out, "struct { ");
    for (size_t i = 0; i < type->field_count; i++) {
        buf_clear(&name);
        put_name(&name, type->fields, i, &odd);
        if (name.data)
            put_declaration(out, type->fields[i].type, name.data);
    }
    buf_puts(out, "}");
}

static void put_integer(struct buf *out, size_t size, bool is_signed)
{
    buf_printf(out, "%c%zu ", is_signed ? 'i' : 'u', size * 8);
}

#define NOTHING "nothing null; nothing invalid; nothing cut; nothing absent; nothing odd; "
#define COUNTED_TEXT "u16 shown; utf8 text[shown]; "

void layout_tsdl_types(struct buf *out)
{
    for (unsigned bits = 8; bits <= 64; bits *= 2) {
        buf_printf(out, "typealias integer { size = %u; align = 8; signed = false; } := u%u;\n", bits, bits);
        buf_printf(out, "typealias integer { size = %u; align = 8; signed = true; } := i%u;\n", bits, bits);
    }
    buf_puts(out,
             "typealias integer { size = 8; align = 8; signed = false; base = 16; } := x8;\n"
             "typealias integer { size = 64; align = 8; signed = false; base = 16; } := x64;\n"
             "typealias integer { size = 8; align = 8; signed = false; encoding = UTF8; } := utf8;\n"
             "typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;\n"
             "typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;\n"
             "typealias enum : u8 { content = 0 ... 1, \"null\" = 2, invalid = 3, cut = 4, absent = 5, odd = 6 } := "
             "capture_status;\n"
             "typealias struct { } := nothing;\n"
             "typealias struct { x64 address; capture_status status; variant <status> { struct { " COUNTED_TEXT
             "} content; " NOTHING "} to; } := text_pointer;\n"
             "typealias struct { capture_status status; variant <status> { struct { u32 count; " COUNTED_TEXT
             "} content; " NOTHING "} to; } := text_object;\n");
}

static void put_enum(struct buf *out, const struct layout_type *type)
{
    buf_puts(out, "enum : ");
    put_integer(out, type->size, !type->flagged);
    buf_puts(out, "{ ");
    for (size_t i = 0; i < type->name_count; i++) {
        buf_puts(out, i ? ", \"" : "\"");
        for (const char *p = type->names[i].name; *p; p++)
            buf_putc(out, *p == '"' || *p == '\\' || (unsigned char)*p < 0x20 ? '_' : *p);
        if (type->flagged)
            buf_printf(out, "\" = %" PRIu64,
                       type->size < 8 ? (uint64_t)type->names[i].value & ((UINT64_C(1) << type->size * 8) - 1)
                                      : (uint64_t)type->names[i].value);
        else
            buf_printf(out, "\" = %" PRId64, type->names[i].value);
    }
    if (type->name_count == 0)
        buf_puts(out, "\"0\" = 0");
    buf_puts(out, " } ");
}

static const char *float_of(size_t size)
{
    return size == 4 ? "f32 " : "f64 ";
}

static void put_bytes(struct buf *out, size_t size, const char *name)
{
    if (size == 0)
        buf_printf(out, "nothing %s; ", name);
    else
        buf_printf(out, "x8 %s[%zu]; ", name, size);
}

static void put_optional(struct buf *out, const struct layout_type *type, const char *name)
{
    buf_puts(out, "struct { ");
    if (type->kind == LAYOUT_FOLLOWED || type->kind == LAYOUT_REFERENCE)
        buf_puts(out, "x64 _address; ");
    buf_puts(out, "capture_status _status; variant <_status> { struct { ");
    if (type->kind == LAYOUT_VECTOR) {
        buf_puts(out, "u32 _count; u16 _shown; struct { ");
        put_declaration(out, type->inner, "_element");
        buf_puts(out, "} _elements[_shown]; ");
    } else
        put_declaration(out, type->inner, "_value");
    buf_printf(out, "} content; " NOTHING "} _to; } %s; ", name);
}

/* A field that has bytes; false: it has none. */
static void put_number(struct buf *out, const struct layout_type *type, const char *name)
{
    switch (type->kind) {
    case LAYOUT_SIGNED:
    case LAYOUT_UNSIGNED:
    case LAYOUT_BOOL:
        if (type->size > 8) {
            put_bytes(out, type->size, name);
            return;
        }
        put_integer(out, type->size, type->kind == LAYOUT_SIGNED);
        break;
    case LAYOUT_CHAR:
        put_integer(out, type->size, !type->flagged);
        break;
    case LAYOUT_POINTER:
    case LAYOUT_CODE_POINTER:
        buf_puts(out, "x64 ");
        break;
    case LAYOUT_ENUM:
        put_enum(out, type);
        break;
    case LAYOUT_FLOAT:
        if (type->size > 8) {
            put_bytes(out, type->size, name);
            return;
        }
        buf_puts(out, float_of(type->size));
        break;
    case LAYOUT_COMPLEX:
        if (type->size > 8) {
            put_bytes(out, 2 * (size_t)type->size, name);
            return;
        }
        buf_printf(out, "struct { %s_real; %s_imaginary; } ", float_of(type->size), float_of(type->size));
        break;
    default:
        put_bytes(out, type->size, name);
        return;
    }
    buf_printf(out, "%s; ", name);
}

static void put_declaration(struct buf *out, const struct layout_type *type, const char *name)
{
    switch (type->kind) {
    case LAYOUT_OPTIMISED_OUT:
        buf_printf(out, "nothing %s_optimised_out; ", name);
        break;
    case LAYOUT_NOT_AVAILABLE:
        buf_printf(out, "nothing %s_not_available; ", name);
        break;
    case LAYOUT_NO_ROOM:
        buf_printf(out, "nothing %s_cut; ", name);
        break;
    case LAYOUT_UNSIZED:
        buf_printf(out, "nothing %s_of_unknown_size; ", name);
        break;
    case LAYOUT_PAD:
        put_bytes(out, 1, name);
        break;
    case LAYOUT_CALLABLE:
        buf_printf(out, "struct { x64 _caller; x64 _target; } %s; ", name);
        break;
    case LAYOUT_STRUCT:
    case LAYOUT_UNION:
    case LAYOUT_ENTRY:
    case LAYOUT_CHOICE:
        put_fields(out, type);
        buf_printf(out, " %s; ", name);
        break;
    case LAYOUT_ARRAY:
        buf_puts(out, "struct { ");
        if (type->count > 0) {
            buf_puts(out, "struct { ");
            put_declaration(out, type->inner, "_element");
            buf_printf(out, "} _elements[%" PRIu32 "]; ", type->count);
        }
        buf_printf(out, "} %s; ", name);
        break;
    case LAYOUT_TEXT:
        if (type->count > 0)
            buf_printf(out, "utf8 %s[%" PRIu32 "]; ", name, type->count);
        else
            buf_printf(out, "nothing %s; ", name);
        break;
    case LAYOUT_STRING:
        buf_printf(out, "text_pointer %s; ", name);
        break;
    case LAYOUT_BYTES:
        buf_printf(out, "text_object %s; ", name);
        break;
    case LAYOUT_FOLLOWED:
    case LAYOUT_REFERENCE:
    case LAYOUT_VECTOR:
    case LAYOUT_CHECKED:
        put_optional(out, type, name);
        break;
    default:
        put_number(out, type, name);
    }
}

void layout_tsdl(const struct layout *layout, struct buf *out)
{
    buf_puts(out, "struct { ");
    for (unsigned i = 0; i < LAYOUT_PARTS; i++)
        if (layout->has[i]) {
            put_fields(out, &layout->parts[i]);
            buf_printf(out, " _%s; ", layout_part_names[i]);
        }
    buf_puts(out, "}");
}
