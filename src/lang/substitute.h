/* SPDX-License-Identifier: Apache-2.0 */
/* Event context parameters in the arguments of actions (specification 7.2.4): which there are, and their values put in. */
#ifndef SCRY_LANG_SUBSTITUTE_H
#define SCRY_LANG_SUBSTITUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/arena.h"
#include "lang/request.h"

/* The names that a request's actions use, each once, in the order of the text. false: out of memory. */
bool substitute_names(struct arena *arena, const struct request *request, struct span **ret_names, size_t *ret_count);

/* The value of a parameter; false: this event does not set it. */
typedef bool substitute_fn(const void *ctx, struct span name, struct value *ret_value);

/* Replaces parameters by their values, copying only what has some: *ret_changed is set then, else left alone. false: one
 * is not set (*ret_missing is its name), or out of memory (its ptr is NULL). */
bool substitute(struct arena *arena, substitute_fn *value_of, const void *ctx, const struct value *values, size_t count,
                const struct value **ret_values, bool *ret_changed, struct span *ret_missing);

#endif
