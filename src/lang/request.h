/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grammar of requests (specification 7.2.1):
 *
 *     request ::= [ event_definition ] ':' action_list
 *
 * The tree is in the caller's arena. Tokens, and strings without escapes, point into the text, which must outlive it.
 * Pure and reentrant.
 */
#ifndef SCRY_LANG_REQUEST_H
#define SCRY_LANG_REQUEST_H

#include "base/data/err.h"
#include "lang/value.h"

enum {
    REQUEST_SIZE_LIMIT = 64 << 20, /* bytes of one request */
    REQUEST_DEPTH_LIMIT = 64,      /* nested lists */
    REQUEST_VALUE_LIMIT = 8 << 20, /* values of one request: their tree takes many times the memory of their text */
};

struct call_text { /* service_name '(' parameters ')' */
    struct span name;
    uint32_t offset;
    bool barrier; /* a ';' stands before it */
    const struct value *args;
    size_t argc;
};

struct request {
    struct call_text *event; /* NULL: unconditional */
    struct call_text *actions;
    size_t action_count;
    bool locked; /* the list is in braces */
};

/* 0, -EINVAL (syntax: err says at which byte, what was expected and found), -ERANGE (a number out of range:
 * OMIS_PARAMETER_ERROR), -E2BIG (a limit above) or -ENOMEM. White space may stand between any two symbols. */
int request_parse(struct arena *arena, struct span text, struct request *ret_request, struct err *err);

/* The length of a request in a C string that may contain binary data (LENGTH#BYTES with NULs): up to the first NUL
 * outside of such data. For libomis, which gets only a char pointer. */
size_t request_length(const char *text);

/* Appends the request in its canonical form: reading it back gives the same tree. */
void request_print(struct buf *out, const struct request *request);

/* Parses "value, value, ..." (a result string, 7.3.2). The same errors. */
int values_parse(struct arena *arena, struct span text, const struct value **ret_values, size_t *ret_count,
                 struct err *err);

#endif
