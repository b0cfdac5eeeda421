/* SPDX-License-Identifier: Apache-2.0 */
/* Why an expression of a condition is no number in a function: what scry-symbols finds, and what people read of it. */
#ifndef SCRY_SYMBOLS_CLIENT_NUMBER_PROBLEM_H
#define SCRY_SYMBOLS_CLIENT_NUMBER_PROBLEM_H

#include <stdbool.h>

#include "base/data/buf.h"

enum number_problem_kind {
    NUMBER_FINE,
    NUMBER_NO_VARIABLE, /* called `name`, nor an enumerator */
    NUMBER_NO_MEMBER,   /* called `name` */
    NUMBER_NO_BOUNDS,   /* of an array in Fortran */
    NUMBER_NO_INDEX,
    NUMBER_LARGE_INDEX,
    NUMBER_INDEX_BY_0,
    NUMBER_NO_DIMENSION,
    NUMBER_NO_ARRAY,
    NUMBER_NO_POINTER,
    NUMBER_NO_STRUCT,
    NUMBER_NO_ADDRESS,
    NUMBER_NO_NUMBER,
    NUMBER_NO_SIZE,
    NUMBER_NO_EXPRESSION, /* something else stands there */
    NUMBER_TOO_DEEP,
    NUMBER_OPTIMISED_OUT, /* from here on: at this place; elsewhere in the function it may be there */
    NUMBER_NOT_AVAILABLE,
    NUMBER_PROBLEMS
};

enum { NUMBER_NAME_SIZE = 64 };

struct number_problem {
    enum number_problem_kind kind;
    unsigned at;                 /* character of the expression, from 1 on */
    char name[NUMBER_NAME_SIZE]; /* that is unknown, cut where it is longer; "": none */
};

/* The word for it in the helper's language (symbols/client/helper.h); kinds by their words, NUMBER_FINE: there is none.
 */
const char *number_problem_word(enum number_problem_kind kind);
enum number_problem_kind number_problem_of_word(const char *word);

/* A condition with such an expression never holds in this function. */
bool number_problem_is_lasting(enum number_problem_kind kind);

/* Appends "EXPRESSION: what is wrong at character N". */
void number_problem_print(const struct number_problem *problem, const char *expression, struct buf *out);

#endif
