/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes apart what services answer: the members of a structure are filled in by their names, and where they stand is
 * what the result in the service's row says (lang/results.h).
 *
 *     struct alive { uint64_t pid, rss; const char *name; };
 *     static const struct decode_field alive_fields[] = {
 *         DECODE(struct alive, pid), DECODE(struct alive, rss), DECODE(struct alive, name), {0}};
 *     struct decoder decoder;
 *     decoder_init(&decoder, JOB_ALIVE, 0, alive_fields);
 *     for (size_t i = 0; i < decoder_rows(&decoder, list); i++)
 *         decode(&decoder, list, i, &alive);
 *
 * Safe on any answer: a member that is not there, or of another type, is as if it were not known.
 */
#ifndef SCRY_CLIENT_DECODE_H
#define SCRY_CLIENT_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <scry/omis.h>

#include "base/data/buf.h"

enum { DECODE_FIELDS = 24 }; /* of one structure, at most */

enum decode_type {
    DECODE_UNSIGNED, /* uint64_t; 0: not known */
    DECODE_INTEGER,  /* int64_t; -1: not known */
    DECODE_SHORT,    /* int32_t; -1: not known, or out of range */
    DECODE_FLOATING, /* double; 0: not known */
    DECODE_FLAG,     /* bool: an integer that is not 0 */
    DECODE_TEXT,     /* const char *, of the reader; never NULL */
    DECODE_VALUE,    /* const struct omis_value *, of the reader; NULL: not there */
};

struct decode_field {
    const char *name;
    enum decode_type type;
    size_t offset;
};

#define DECODE(type, member) \
    { \
#member, \
            _Generic(((type *)0)->member, uint64_t \
                     : DECODE_UNSIGNED, int64_t \
                     : DECODE_INTEGER, int32_t \
                     : DECODE_SHORT, double \
                     : DECODE_FLOATING, bool \
                     : DECODE_FLAG, const char * \
                     : DECODE_TEXT, const struct omis_value * \
                     : DECODE_VALUE), \
            offsetof(type, member) \
    }

struct decoder {
    size_t members; /* of a row */
    const struct decode_field *fields;
    unsigned short at[DECODE_FIELDS];
};

/* result: "{ ... }", the part of a row behind "->", or a structure in it. flags: what was asked for, where the result
 * has brackets: a bit for each pair. fields end with an empty one. A
 * member that the result does not have is a mistake in the program: an assertion. */
void decoder_init(struct decoder *ret_decoder, const char *result, uint64_t flags, const struct decode_field *fields);

/* How many rows a flat list has. */
size_t decoder_rows(const struct decoder *decoder, const struct omis_value *list);
/* Row `row` of a flat list; a result that is no list is row 0 of its values. What the fields do not name stays. */
void decode(const struct decoder *decoder, const struct omis_value *list, size_t row, void *ret_struct);

/* The same of an action that prints what an event says: appends "print([$NAME, ...])", each field by its name. */
void decode_request(struct buf *out, const struct decode_field *fields);
/* Takes apart its result. false: it did not print as many values. */
bool decode_printed(const struct omis_value *result, const struct decode_field *fields, void *ret_struct);

#endif
