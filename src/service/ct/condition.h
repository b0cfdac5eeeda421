/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of ct_function_called and ct_function_returned, compiled to instructions (shm/code.h) that run where the
 * event occurs.
 *
 *     condition  ::= [ value ] [ ';' expression { ',' expression } ]
 *     value      ::= operand | '!' value | '~' value | '-' value | '+' value | '(' type ')' value | '(' value ')' |
 *                    value operator value
 *     operator   ::= '*' '/' '%' '+' '-' '<<' '>>' '<' '<=' '>' '>=' '==' '!=' '&' '^' '|' '&&' '||' -- C's precedence
 *     operand    ::= expression | number | character | 'true' | 'false' | 'NULL' | 'nullptr' | 'duration' |
 *                    'sizeof' '(' type ')'
 *     expression ::= { '*' | '&' } name { '.' name | '->' name | '[' ... ']' | '::' name } | 'sizeof' '(' ... ')'
 *
 * A type is a number type (base/data/number_type.h). symbols/capture/numbers.c reads what is in brackets, and
 * enumerators. 'duration' is the time of the call in seconds; only returns have it.
 *
 * The expressions, each once, in the order of their first use, are the parameters par0, par1, ... Those after the
 * semicolon are only parameters.
 */
#ifndef SCRY_SERVICE_CT_CONDITION_H
#define SCRY_SERVICE_CT_CONDITION_H

#include "base/data/arena.h"
#include "base/data/err.h"
#include "base/data/span.h"
#include "shm/code.h"

enum { CT_OPERATIONS = 32 }; /* of one condition */

struct ct_condition {
    struct code_program program; /* passes if the condition holds */
    const char *params[CODE_PARAMS];
    unsigned param_count;
};

/* 0, -EINVAL with err (where, and what was expected), or -ENOMEM. The expressions are in the arena. */
int ct_condition_compile(struct arena *arena, struct span text, bool at_exit, struct ct_condition *ret_condition,
                         struct err *err);

#endif
