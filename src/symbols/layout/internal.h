/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: a parsed layout, shared by layout*.c. */
#ifndef SCRY_SYMBOLS_LAYOUT_INTERNAL_H
#define SCRY_SYMBOLS_LAYOUT_INTERNAL_H

#include "base/data/arena.h"
#include "symbols/layout/layout.h"

enum layout_kind {
    LAYOUT_SIGNED,
    LAYOUT_UNSIGNED,
    LAYOUT_CHAR, /* `flagged`: unsigned */
    LAYOUT_BOOL,
    LAYOUT_FLOAT,
    LAYOUT_COMPLEX, /* two floats of `size` */
    LAYOUT_ENUM,    /* `flagged`: unsigned */
    LAYOUT_POINTER,
    LAYOUT_CODE_POINTER,
    LAYOUT_CALLABLE,  /* std::function: the address of what calls the target, the target's first eight bytes */
    LAYOUT_FOLLOWED,  /* pointer, status, inner */
    LAYOUT_REFERENCE, /* likewise */
    LAYOUT_STRING,    /* pointer, status, u16, bytes */
    LAYOUT_BYTES,     /* status, u32 in all, u16 shown, bytes */
    LAYOUT_ARRAY,     /* count of total elements */
    LAYOUT_TEXT,      /* char array: count of total bytes */
    LAYOUT_VECTOR,    /* status, u32 in all, u16 shown, elements */
    LAYOUT_STRUCT,
    LAYOUT_UNION,
    LAYOUT_ENTRY,  /* [key] = value: two fields */
    LAYOUT_CHOICE, /* those of its fields, all LAYOUT_CHECKED, that are not absent; none: `none` */
    LAYOUT_RAW,
    LAYOUT_OPTIMISED_OUT, /* these take no bytes */
    LAYOUT_NOT_AVAILABLE,
    LAYOUT_NO_ROOM,
    LAYOUT_UNSIZED,
    LAYOUT_CHECKED, /* status, inner */
    LAYOUT_PAD,     /* a byte that is not shown */
    LAYOUT_KINDS
};

struct layout_enumerator {
    const char *name;
    int64_t value;
};

struct layout_field;

struct layout_type {
    enum layout_kind kind;
    bool flagged;
    uint16_t size; /* bytes, of numbers and raw */
    uint32_t count;
    uint64_t total;
    size_t least; /* bytes it takes at least */
    const struct layout_type *inner;
    const struct layout_field *fields; /* of structs and their like */
    size_t field_count;
    const struct layout_enumerator *names;
    size_t name_count;
    const char *name; /* of the type, for people; NULL */
    const char *none; /* of LAYOUT_CHOICE */
};

struct layout_field {
    const char *name; /* "": unnamed */
    const struct layout_type *type;
};

struct layout {
    struct arena arena;
    struct layout_type parts[LAYOUT_PARTS]; /* structs; in the order of the bytes: as in the enum */
    bool has[LAYOUT_PARTS];
};

extern const char *const layout_part_names[LAYOUT_PARTS];

/* layout/layout.c: single values as text. */
void layout_put_text(struct buf *out, const void *bytes, size_t size, bool cut); /* "..." */
void layout_put_char(struct buf *out, uint32_t c, unsigned size);
void layout_put_integer(struct buf *out, const uint8_t *bytes, size_t size, bool is_signed);
void layout_put_float(struct buf *out, const uint8_t *bytes, size_t size);
void layout_put_enum(struct buf *out, const struct layout_type *type, const uint8_t *bytes);
uint64_t layout_unsigned(const uint8_t *bytes, size_t size); /* at most 8 bytes */

#endif
