/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_LAYOUT_LAYOUT_H
#define SCRY_SYMBOLS_LAYOUT_LAYOUT_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Layouts: what the bytes of a capture mean. A layout is written once into the trace (file .layouts, one a line) and as
 * a CTF type into its metadata; it needs no binaries to be understood. Its text is one line:
 *
 *     role '(' field (',' field)* ')'        role: args, locals, caller, result; an exit's has locals and result
 *     field: name ':' type
 *
 * with the types of symbols/layout/layout.c, where the grammar stands, and references to parts (layout_expand).
 * Behind a role may stand, in quotes, the function that it is of: of the caller's locals the one that made the call.
 * layout_parse takes any text and any bytes: fuzzed.
 */

struct layout;

int layout_parse(struct layout **ret_layout, const char *text, struct err *err);
void layout_free(struct layout *layout);

/* Names a code address for function pointers; writes nothing and returns false where it knows none. */
typedef bool layout_name_fn(void *ctx, uint64_t address, struct buf *out);

struct layout_style {
    layout_name_fn *name_address; /* NULL: none */
    void *ctx;
    size_t string_limit; /* bytes of a string shown; 0: all */
    bool types;          /* with types: `int n = 5` */
    bool known_first;    /* of layout_format: fields that are never known come last */
};

enum layout_part { LAYOUT_ARGS, LAYOUT_LOCALS, LAYOUT_CALLER, LAYOUT_RESULT, LAYOUT_STATICS, LAYOUT_PARTS };

/* Whether the layout has fields of that part. */
bool layout_has(const struct layout *layout, enum layout_part part);
/* Where the integer or pointer called `name` lies in the bytes of a part, if that is the same in all values (whatever
 * stands before it has a fixed size). Of the first part of a layout, for its bytes begin there. */
bool layout_find(const struct layout *layout, enum layout_part part, const char *name, size_t *ret_at,
                 size_t *ret_size);
/* The function that a part is of; NULL: the layout does not say. */
const char *layout_function(const struct layout *layout, enum layout_part part);

/* Appends the fields of one part: `n = 5, s = "abc", p = 0x7ffd10 -> {x = 1, y = 2.5}`; of LAYOUT_RESULT only the
 * value. Bytes that are too few for the layout are shown as far as they go, then `<cut>`. */
void layout_format(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                   const struct layout_style *style, struct buf *out);

/* Appends the types of one part as in a declaration: `int n, const char *text`; of LAYOUT_RESULT `int`. */
void layout_declare(const struct layout *layout, enum layout_part part, struct buf *out);

/* The same as the request language's flat list of strings: name,value,name,value (escaped). */
void layout_format_list(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                        const struct layout_style *style, struct buf *out);

/* One JSON object of a part, values as numbers where they are, else strings. The second field of the same name is
 * name#2, and so on. */
void layout_format_json(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                        const struct layout_style *style, struct buf *out);

/* The same as values, of LAYOUT_RESULT only the value: structures are objects, arrays and containers lists (of more elements
 * than were captured {"first", "total"}), maps lists of {"key", "value"}, complex numbers {"re", "im"}, enumerators {"value",
 * "name"}, pointers {"address", "to"} or null; what is not known is null. A structure of the C++ library with one member of a reserved
 * name is that member, here and in the texts; one whose elements have no names, a tuple, is a list. */
void layout_format_values(const struct layout *layout, enum layout_part part, const void *bytes, size_t size,
                          const struct layout_style *style, struct buf *out);

/* The layout as a TSDL struct type (without name), whose fields are exactly the bytes, made of the types that
 * layout_tsdl_types() declares: those are to stand before it, once. */
void layout_tsdl_types(struct buf *out);
void layout_tsdl(const struct layout *layout, struct buf *out);

/*
 * Layouts of one program have most of their text in common: what a struct is made of. So a layout may have, instead of
 * a part of it, `@N;`: the text whose number is N less than its own. Such a text is numbered as layouts are, and comes
 * before them; it begins with `{`, as no layout does. Plain code, safe on any bytes.
 */

/* The text of a number, borrowed; NULL: there is none. */
typedef const char *layout_text_fn(void *ctx, uint32_t id);

/* Appends the text of layout `id` as layout_parse() takes it. 0; -EBADMSG: it refers to what is not there, or is too
 * long; -ENOMEM. */
int layout_expand(const char *text, uint32_t id, layout_text_fn *find, void *ctx, struct buf *out);
/* Whether it is only a part of layouts. */
static inline bool layout_is_part(const char *text)
{
    return *text == '{';
}
/* Behind the group in braces that begins at `text`; NULL: it does not end. */
const char *layout_group_end(const char *text);
/* The next brace that opens a group; NULL: there is none. */
const char *layout_group(const char *text);
/* The next `@N;`; NULL: there is none. */
const char *layout_ref(const char *text);

#endif
