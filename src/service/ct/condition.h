/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of ct_function_called and ct_function_returned: compiled to instructions (shm/code.h) that run where the
 * event happens.
 *
 *     condition  ::= [ value ] [ ';' expression { ',' expression } ]
 *     value      ::= operand | '!' value | '~' value | '-' value | '+' value | '(' type ')' value | '(' value ')' |
 *                    value operator value
 *     operator   ::= '*' '/' '%' '+' '-' '<<' '>>' '<' '<=' '>' '>=' '==' '!=' '&' '^' '|' '&&' '||' -- C's precedence
 *     operand    ::= expression | number | character | 'true' | 'false' | 'NULL' | 'nullptr' | 'duration' |
 *                    'sizeof' '(' type ')'
 *     expression ::= { '*' | '&' } name { '.' name | '->' name | '[' ... ']' | '::' name } | 'sizeof' '(' ... ')'
 *
 * A type is one of a number (base/number_type.h). What is in brackets, and enumerators: symbols/capture/numbers.c.
 * 'duration', how long the call took, in seconds, is there at returns.
 *
 * The expressions, each once, in the order in which they first stand there, are the parameters par0, par1, ...; those
 * behind the semicolon are only parameters.
 */
#ifndef SCRY_SERVICE_CT_CONDITION_H
#define SCRY_SERVICE_CT_CONDITION_H

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"
#include "shm/code.h"

enum { CT_OPERATIONS = 32 }; /* of one condition */

struct ct_condition {
    struct code_program program; /* passes if the condition holds */
    const char *params[CODE_PARAMS];
    unsigned param_count;
};

/* 0, -EINVAL with err (where, and what was expected), or -ENOMEM. The expressions lie in the arena. */
int ct_condition_compile(struct arena *arena, struct span text, bool at_exit, struct ct_condition *ret_condition,
                         struct err *err);

#endif
