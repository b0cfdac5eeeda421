/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of services, in the words of the specification:
 *
 *     "token<p>* proc_list, integer addr, any* params -> void"
 *     "token<n>* node_list, string exec -> token"
 *     "token<p> proc, integer<bytes> size -> floating<s>"                           (with the units of numbers)
 *     "token<p>* proc_list, integer flags -> { [integer global_id]; [string* argv] }"
 *     "token<e> user_event -> void ! OMIS_NO_PERMISSION"    (with a status that does not follow from its form)
 *     "token<t>* thread_list, integer* sig_list -> { integer sig }"      (an event, with its parameters)
 *
 * token<C> names the class to which localisation and expansion convert the argument. C is a token prefix without its
 * last underscore: p, t, n, c, e, pa_c ... Plain `token` takes any token and converts nothing. The text after "->" is
 * for reference pages. The engine uses only "void" and, for events, the names in { }: the event's context parameters
 * ("..." at the end: any further parN). Parameters in brackets at the end may be left out, "token<p>* proc_list,
 * [string condition] -> void"; then they are empty strings, empty lists, and 0.
 */
#ifndef SCRY_LANG_SIGNATURE_H
#define SCRY_LANG_SIGNATURE_H

#include "base/data/err.h"
#include "lang/value.h"

enum type_kind { TYPE_INTEGER, TYPE_FLOATING, TYPE_STRING, TYPE_BINARY, TYPE_TOKEN, TYPE_ANY };

enum { SIGNATURE_PARAMS = 8, SIGNATURE_OUTPUTS = 16, TOKEN_CLASS_SIZE = 16 };

struct param_type {
    enum type_kind kind;
    bool list;                    /* followed by '*' */
    char class[TOKEN_CLASS_SIZE]; /* TYPE_TOKEN: "p", "pa_c", ...; "" is any */
    struct span name;
};

struct signature {
    const struct param_type *params;
    size_t param_count, required_count;
    bool returns_void;
    bool open_outputs; /* "...": not all names of the outputs are known before */
    const struct param_type *outputs;
    size_t output_count;  /* members of { }, in order */
    struct span result;   /* the text after "->", */
    struct span statuses; /* and after the "!" that follows: names with spaces between them; or "" */
};

/* text is borrowed for the life of the signature; its parameters are in the arena. 0, or -EINVAL or -ENOMEM with err. */
int signature_parse(struct arena *arena, const char *text, struct signature *ret_signature, struct err *err);

enum check_result { CHECK_OK, CHECK_TYPE_MISMATCH, CHECK_NO_MEMORY };

/*
 * Checks arguments against a signature and brings them into its form. For a declared list, a single value becomes a
 * list of one; for a declared token, a list of one becomes the token; for a declared floating, an integer becomes one;
 * missing arguments are added. Event context parameters ($x, VALUE_PARAM) pass: they are checked when they have values.
 * The result has exactly param_count values, in the arena. On CHECK_TYPE_MISMATCH, err has the service, the argument,
 * and what was expected.
 */
enum check_result signature_check(const struct signature *signature, struct span service, const struct value *args,
                                  size_t argc, struct arena *arena, const struct value **ret_args, struct err *err);

#endif
