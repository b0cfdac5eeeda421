/* SPDX-License-Identifier: Apache-2.0 */
/* What the traces of two runs say, side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

static const struct job_function *same_in(const struct job_functions *functions, const struct job_function *function)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->name, function->name) == 0 && strcmp(text_base(each->file), text_base(function->file)) == 0)
            return each;
    return NULL;
}

struct pair { /* a, b: NULL where it is in one run only */
    const struct job_function *a, *b, *any;
    double a_ns, b_ns; /* of its own */
    uint64_t a_calls, b_calls;
};

static struct pair pair_of(const struct job_function *a, const struct job_function *b)
{
    return (struct pair){.a = a,
                         .b = b,
                         .any = a ? a : b,
                         .a_ns = a ? a->self_ns : 0,
                         .b_ns = b ? b->self_ns : 0,
                         .a_calls = a ? a->calls : 0,
                         .b_calls = b ? b->calls : 0};
}

static int by_change(const void *left, const void *right)
{
    const struct pair *x = left, *y = right;
    double dx = fabs(x->b_ns - x->a_ns), dy = fabs(y->b_ns - y->a_ns);
    return dx > dy ? -1 : dx < dy;
}

/* The hottest functions of both, those that changed most first; malloc'ed. */
static struct pair *pairs_of(const struct job_functions *a, const struct job_functions *b, size_t *ret_count)
{
    struct pair *pairs = calloc(2 * SHOWN_FUNCTIONS, sizeof *pairs);
    size_t count = 0, seen = 0;
    for (const struct job_function *each = a->functions; pairs && each && seen < SHOWN_FUNCTIONS;
         each = each->hh.next, seen++)
        pairs[count++] = pair_of(each, same_in(b, each));
    seen = 0;
    for (const struct job_function *each = b->functions; pairs && each && seen < SHOWN_FUNCTIONS;
         each = each->hh.next, seen++) {
        const struct job_function *other = same_in(a, each);
        bool known = false;
        for (size_t i = 0; i < count && other && !known; i++)
            known = pairs[i].a == other;
        if (!known)
            pairs[count++] = pair_of(other, each);
    }
    if (pairs)
        qsort(pairs, count, sizeof *pairs, by_change);
    *ret_count = pairs ? count : 0;
    return pairs;
}

static json_t *side_json(const struct job_function *function)
{
    return function ? report_function_json(function) : json_null();
}

static json_t *a_json(const void *row, const void *all)
{
    return side_json(((const struct pair *)row)->a);
}

static json_t *b_json(const void *row, const void *all)
{
    return side_json(((const struct pair *)row)->b);
}

static void put_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct pair *pair = row;
    if (pair->a_ns > 0)
        report_change_text(out, pair->a_ns, pair->b_ns);
    else
        buf_puts(out, "new");
}

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    report_put_function(out, row);
}

static const struct field any_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct job_function, name), .column = {6, 2, 0, "function", .text = put_name}},
    {"file", FIELD_TEXT, FIELD_AT(struct job_function, file)},
    {0}};

const struct field report_function_diff_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct pair, any), FIELD_POINTER, .of = any_fields},
    {"a", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = a_json, .of = report_function_fields},
    {"b", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = b_json, .of = report_function_fields},
    {.type = FIELD_NS, FIELD_AT(struct pair, a_ns), .column = {1, 0, 16, "Functions: own A"}},
    {.type = FIELD_NS, FIELD_AT(struct pair, b_ns), .column = {2, 0, 11, "own B"}},
    {.type = FIELD_SHOWN, .column = {3, 1, 9, "change", .text = put_change}},
    {.type = FIELD_COUNT, FIELD_AT(struct pair, a_calls), .column = {4, 1, 11, "calls A"}},
    {.type = FIELD_COUNT, FIELD_AT(struct pair, b_calls), .column = {5, 1, 11, "calls B"}},
    {0}};

void job_functions_diff_text(struct buf *out, const struct job_functions *a, const struct job_functions *b)
{
    size_t count;
    if (!a || !b || (!a->functions && !b->functions))
        return;
    _cleanup_(freep) struct pair *pairs = pairs_of(a, b, &count);
    count = count < SHOWN_FUNCTIONS ? count : SHOWN_FUNCTIONS;
    fields_table(out, &(struct field_table){report_function_diff_fields}, pairs, count, sizeof *pairs, NULL);
    bool a_lacks = !job_functions_complete(a), b_lacks = !job_functions_complete(b);
    if (a_lacks || b_lacks)
        buf_printf(out, "  of %s calls are missing: `scry report` says why\n",
                   a_lacks && b_lacks ? "both"
                   : a_lacks          ? "A"
                                      : "B");
}

json_t *job_functions_diff_json(const struct job_functions *a, const struct job_functions *b)
{
    size_t count = 0;
    _cleanup_(freep) struct pair *pairs = a && b ? pairs_of(a, b, &count) : NULL;
    return fields_list(report_function_diff_fields, pairs, count, sizeof *pairs, NULL);
}
