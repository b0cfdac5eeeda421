/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures of services, in the words of the specification:
 *
 *     "token<p>* proc_list, integer addr, any* params -> void"
 *     "token<n>* node_list, string exec -> token"
 *     "token<p> proc, integer<bytes> size -> floating<s>"                           (with the units of numbers)
 *     "token<p>* proc_list, integer flags -> { [integer global_id]; [string* argv] }"
 *     "token<e> user_event -> void ! OMIS_NO_PERMISSION"    (a status that its shape does not say it may answer with)
 *     "token<t>* thread_list, integer* sig_list -> { integer sig }"      (an event: what follows are its
 * parameters)
 *
 * token<C> names the class the argument is converted to by localisation and expansion (C is a token prefix without its
 * last underscore: p, t, n, c, e, pa_c ...); plain `token` takes any and converts nothing. What stands after "->" is
 * kept as text for reference pages; only "void" matters to the engine, and for events the names in { } which are the
 * event's context parameters ("..." at the end: any further parN). Parameters in brackets at the end may be left out:
 * "token<p>* proc_list, [string condition] -> void"; they are empty strings and lists, and 0, then.
 */
#ifndef SCRY_LANG_SIGNATURE_H
#define SCRY_LANG_SIGNATURE_H

#include "base/err.h"
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
    struct param_type params[SIGNATURE_PARAMS];
    size_t param_count, required_count;
    bool returns_void;
    bool open_outputs; /* "...": the names of the outputs are not all known before */
    struct param_type outputs[SIGNATURE_OUTPUTS];
    size_t output_count;  /* members of { }, in order */
    struct span result;   /* the text after "->", */
    struct span statuses; /* and that after the "!" behind it, names with spaces between them; "" without */
};

/* text is borrowed for the life of the signature. 0 or -EINVAL with err. */
int signature_parse(const char *text, struct signature *ret_signature, struct err *err);

enum check_result { CHECK_OK, CHECK_TYPE_MISMATCH, CHECK_NO_MEMORY };

/*
 * Checks arguments against a signature and brings them into its shape: a single value where a list is declared becomes
 * a list of one; a list of one where a token is declared becomes the token; an integer where a floating is declared
 * becomes one; what was left out is added. Event context parameters ($x, VALUE_PARAM) pass unchecked: they are checked
 * again when they have values. The result has exactly param_count values, in the arena. On CHECK_TYPE_MISMATCH err says
 * which argument of which service and what was expected.
 */
enum check_result signature_check(const struct signature *signature, struct span service, const struct value *args,
                                  size_t argc, struct arena *arena, const struct value **ret_args, struct err *err);

#endif
