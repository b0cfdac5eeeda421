/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/client/number_problem.h"

#include <string.h>

static const struct {
    const char *word, *text;
} kinds[NUMBER_PROBLEMS] = {
    [NUMBER_FINE] = {"", ""},
    [NUMBER_NO_VARIABLE] = {"variable", "no such variable here"},
    [NUMBER_NO_MEMBER] = {"member", "no such member"},
    [NUMBER_NO_BOUNDS] = {"bounds", "no such element to be had: only the program knows the bounds"},
    [NUMBER_NO_INDEX] = {"index", "no such element: the index is no integer"},
    [NUMBER_LARGE_INDEX] = {"large-index", "the index is too large"},
    [NUMBER_INDEX_BY_0] = {"index-by-0", "the index is divided by 0"},
    [NUMBER_NO_DIMENSION] = {"dimension", "an index for each dimension is needed"},
    [NUMBER_NO_ARRAY] = {"array", "no array"},
    [NUMBER_NO_POINTER] = {"pointer", "no pointer to something"},
    [NUMBER_NO_STRUCT] = {"struct", "no struct, class or union before this"},
    [NUMBER_NO_ADDRESS] = {"address", "it has no address"},
    [NUMBER_NO_NUMBER] = {"number", "it is no number"},
    [NUMBER_NO_SIZE] = {"size", "its size is not known"},
    [NUMBER_NO_EXPRESSION] = {"expression", "something that is not understood"},
    [NUMBER_TOO_DEEP] = {"deep", "too many operators"},
    [NUMBER_OPTIMISED_OUT] = {"optimised-out", "optimised out here"},
    [NUMBER_NOT_AVAILABLE] = {"not-available", "not available here"},
};

const char *number_problem_word(enum number_problem_kind kind)
{
    return kinds[kind].word;
}

enum number_problem_kind number_problem_of_word(const char *word)
{
    for (size_t i = NUMBER_FINE + 1; i < NUMBER_PROBLEMS; i++)
        if (strcmp(word, kinds[i].word) == 0)
            return (enum number_problem_kind)i;
    return NUMBER_FINE;
}

bool number_problem_is_lasting(enum number_problem_kind kind)
{
    return kind > NUMBER_FINE && kind < NUMBER_OPTIMISED_OUT;
}

void number_problem_print(const struct number_problem *problem, const char *expression, struct buf *out)
{
    buf_printf(out, "%s: %s at character %u", expression, kinds[problem->kind].text, problem->at);
}
