/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOBDIR_TEXT_FIELDS_H
#define SCRY_JOBDIR_TEXT_FIELDS_H

#include "base/data/buf.h"
#include "base/data/notes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * An object of a report, declared once. From one list of fields come its JSON, the JSON Schema of that, and the columns
 * of its table. A list ends with {0}. Fields read a struct, the row; `all` is what the row belongs to, for the
 * functions of fields that need more than the row: each list says what both are.
 */

enum field_type {
    FIELD_END,
    FIELD_SHOWN, /* no value of a type: a column has its text */
    FIELD_TEXT,
    FIELD_CHOICE, /* a text, one of `choices` */
    FIELD_BOOL,
    FIELD_INTEGER, /* may be negative */
    FIELD_COUNT,   /* this and the next two: integers from 0 on */
    FIELD_BYTES,
    FIELD_NS,
    FIELD_NUMBER,
    FIELD_SECONDS, /* an integer in the row is nanoseconds */
    FIELD_OBJECT,  /* of the fields `of`; NULL: of any */
    FIELD_LIST,    /* of such objects; of single values if `of` is one field whose name is ""; NULL: of any */
    FIELD_PART,    /* the fields `of` stand in this object itself; null, all of them, where the row's pointer is NULL */
};

enum { /* what a field may lack: the schema says so */
       FIELD_OR_NULL = 1,
       FIELD_ZERO_IS_NULL = 2,     /* 0, "" */
       FIELD_NEGATIVE_IS_NULL = 4, /* a number below 0 */
       FIELD_OPTIONAL = 8,         /* it may be missing */
       FIELD_OPEN = 16,            /* an object that may have other members, too */
       FIELD_FROM_ZERO = 32,       /* a number that is not negative */
       FIELD_POINTER = 64,         /* of objects and parts: the row has a pointer to theirs */
       FIELD_LEFT_OUT = 128,       /* what is false, or a pointer that is NULL, is not in the object */
       FIELD_WHERE_KNOWN = FIELD_OPTIONAL | FIELD_LEFT_OUT,
       FIELD_OR_WORD = 256, /* a number in whose place a text may stand */
       FIELD_NULLS = FIELD_OR_NULL | FIELD_ZERO_IS_NULL | FIELD_NEGATIVE_IS_NULL,
};

/* How a row has the value; found by FIELD_AT. */
enum field_held {
    HELD_NOTHING,
    HELD_BOOL,
    HELD_I32,
    HELD_U32,
    HELD_I64,
    HELD_U64,
    HELD_DOUBLE,
    HELD_TEXT,   /* char *; NULL: null, or "" where that may not be */
    HELD_JSON,   /* json_t *; NULL: null */
    HELD_INSIDE, /* an array of char, or a struct */
    HELD_NAMED,  /* uint32_t, of which `named` says the text */
    HELD_ROWS,   /* a pointer to rows, which stand one behind the other */
};

/* Of a table. Columns stand in the order of their numbers. Of a part the columns of its fields stand among the others; of an object
 * too, if it has a number itself. */
struct field_column {
    /* So many spaces before it; width < 0: to the left, cut if it is longer; 0: the last. Without both, the last one stands right behind
     * the text before it. */
    int16_t place, gap, width;
    const char *heading;
    const char *none; /* in place of what is null in JSON, or has no row */
    bool zero;        /* 0 is shown as that, too */
    bool whole;       /* not cut: takes of the room before the next column */
    bool (*when)(const void *all);
    int (*fit)(const void *all); /* in place of `width`: the columns of a text to the left */
    /* NULL: the JSON's value by its type. `at` is the member that the field has. */
    void (*text)(struct buf *out, const void *at, const void *row, const void *all);
};
#define FIELD_COLUMN(...) (&(const struct field_column){__VA_ARGS__})

/* Small: the tables are relocated, and so in memory, at each start of scry, and in each of its forks. */
struct field {
    const char *name; /* in JSON; NULL: for people only */
    enum field_type type : 8;
    enum field_held held : 8;
    unsigned flags : 16;
    uint32_t at;
    union {
        struct {
            uint32_t count_at, row_size;
        };                                     /* of HELD_ROWS */
        const char *(*named)(uint32_t number); /* of HELD_NAMED */
        /* Of others, in place of a member of the row: a new reference; NULL when out of memory. */
        json_t *(*json)(const void *row, const void *all);
    };
    const struct field *of;
    const char *choices; /* "one|two" */
    const char *about;   /* the schema's description */
    /* Of objects, and of lists of them: what each says to people, as fields_say has it, and what stands between two.
     * NULL: all members, and "; ". */
    const char *say, *between;
    const struct field_column *column; /* NULL: none */
};

/* The member of a struct, as designators of a field; flags may follow. */
#define FIELD_AT(type, member) .at = offsetof(type, member), .held = FIELD_HELD(((type *)0)->member)
#define FIELD_NAMED(type, member, name) .named = (name), .at = offsetof(type, member), .held = HELD_NAMED
/* A list: the member points to its rows, the other one says how many there are. */
#define FIELD_ROWS(type, member, count) \
    .count_at = offsetof(type, count), .row_size = sizeof *((type *)0)->member, .at = offsetof(type, member), \
    .held = HELD_ROWS
/* clang-format off */
#define FIELD_HELD(value) \
    _Generic(&(value), bool *: HELD_BOOL, int32_t *: HELD_I32, uint32_t *: HELD_U32, int64_t *: HELD_I64, \
             uint64_t *: HELD_U64, double *: HELD_DOUBLE, char **: HELD_TEXT, const char **: HELD_TEXT, \
             json_t **: HELD_JSON, default: HELD_INSIDE)
/* clang-format on */

/* Lists of texts, of integers, and of numbers or null. */
extern const struct field fields_texts[], fields_integers[], fields_numbers[];

/* The object; a new reference, or NULL when out of memory. fields_add adds its members to one that is there. */
json_t *fields_json(const struct field *fields, const void *row, const void *all);
void fields_add(json_t *object, const struct field *fields, const void *row, const void *all);
/* Of `count` rows of so many bytes, one behind the other. */
json_t *fields_list(const struct field *fields, const void *rows, size_t count, size_t size, const void *all);

/* The other way: members of the object go to the row, which is cleared before. What the object lacks or has of another
 * type stays 0; a number that may be unknown is -1. Objects that the row points to are not read. Texts and JSON are the
 * object's. */
void fields_read(const struct field *fields, const json_t *object, void *ret_row, size_t size);

/* Appends what an object says to people, as `form` has it, in which {name} is the member of that name, and {name.other}
 * the member of a member: sizes and times with their units, lists and objects as what is in them. {name.1} has one
 * decimal, {name:signal} and {name:wait} are of signals and wait statuses, {name:percent} is of a share, {name:words}
 * is of the words of a command, quoted as a shell needs it, {name:line} is of a text's first line, {name?one|other} is the one for 1 and true.
 * [...] is there only if all members in it are: not null, 0, empty or false. form NULL: all members, as name=value.
 * Nothing is escaped. */
void fields_say(struct buf *out, const struct field *fields, const char *form, const json_t *object);

/* "string", "integer", "object"...: as JSON Schema has it. */
const char *field_type_name(enum field_type type);
/* The schema of such an object. A new reference, or NULL when out of memory. */
json_t *fields_schema(const struct field *fields);

/* Tables: the line of headings, and a line for each row, without spaces at the end. Appends both with their ends. */
void fields_title(struct buf *out, const struct field *fields, const void *all);
void fields_row(struct buf *out, const struct field *fields, const void *row, const void *all);

struct field_table {
    const struct field *fields;
    const char *title; /* the first heading; NULL: the column's */
    size_t most;       /* rows that are shown; 0: all */
    const char *more;  /* about the others, behind "... and 5 more"; NULL: nothing */
};
/* A whole table below an empty line; nothing without rows. Rows stand as in fields_list; size 0: pointers to them. */
void fields_table(struct buf *out, const struct field_table *table, const void *rows, size_t count, size_t size,
                  const void *all);

/* Notes in records and reports. */

/* {"kind", "note", "fields", "text"}: its group, its name, its fields by their names, and what a person reads. Notes
 * recorded by versions before have "kind" and "text" only. NULL: out of memory. */
json_t *note_json(const struct note *note);
extern const struct field notes_fields[];            /* of it, for schemas */
enum note_kind note_json_kind(const json_t *record); /* NOTE_NONE: of another version */

/* ---- members of JSON that others wrote: what is missing, or of another type, is "", or 0 ---- */

static inline const char *member_text(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));
    return text ? text : "";
}

/* The same, but NULL. */
static inline const char *member_string(const json_t *json, const char *name)
{
    return json_string_value(json_object_get(json, name));
}

/* A number below 0 is 0. */
static inline uint64_t member_count(const json_t *json, const char *name)
{
    json_int_t number = json_integer_value(json_object_get(json, name));
    return number > 0 ? (uint64_t)number : 0;
}

static inline double member_number(const json_t *json, const char *name)
{
    return json_number_value(json_object_get(json, name));
}

#endif
