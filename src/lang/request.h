/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LANG_REQUEST_H
#define SCRY_LANG_REQUEST_H

#include "base/data/arena.h"
#include "base/data/err.h"
#include "lang/value.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The grammar of requests (specification 7.2.1):
 *
 *     request ::= [ event_definition ] ':' action_list
 *
 * The tree is in the caller's arena. Tokens, and strings without escapes, point into the text, which must outlive it.
 * Pure and reentrant.
 */

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

/* Event context parameters in the arguments of actions (specification 7.2.4): which there are, and their values put in. */

/* The names that a request's actions use, each once, in the order of the text. false: out of memory. */
bool substitute_names(struct arena *arena, const struct request *request, struct span **ret_names, size_t *ret_count);

/* The value of a parameter; false: this event does not set it. */
typedef bool substitute_fn(const void *ctx, struct span name, struct value *ret_value);

/* Replaces parameters by their values, copying only what has some: *ret_changed is set then, else left alone. false: one
 * is not set (*ret_missing is its name), or out of memory (its ptr is NULL). */
bool substitute(struct arena *arena, substitute_fn *value_of, const void *ctx, const struct value *values, size_t count,
                const struct value **ret_values, bool *ret_changed, struct span *ret_missing);

#endif
