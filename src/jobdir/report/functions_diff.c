/* SPDX-License-Identifier: Apache-2.0 */
/* What the traces of two runs say, side by side. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
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

struct pair {
    const struct job_function *a, *b;
};

static double self_of(const struct job_function *function)
{
    return function ? function->self_ns : 0;
}

static int by_change(const void *left, const void *right)
{
    const struct pair *x = left, *y = right;
    double dx = self_of(x->b) - self_of(x->a), dy = self_of(y->b) - self_of(y->a);
    dx = dx < 0 ? -dx : dx;
    dy = dy < 0 ? -dy : dy;
    return dx > dy ? -1 : dx < dy;
}

/* The hottest functions of both, those that changed most first; malloc'ed. */
static struct pair *pairs_of(const struct job_functions *a, const struct job_functions *b, size_t *ret_count)
{
    struct pair *pairs = calloc(2 * SHOWN_FUNCTIONS, sizeof *pairs);
    size_t count = 0, seen = 0;
    for (const struct job_function *each = a->functions; pairs && each && seen < SHOWN_FUNCTIONS;
         each = each->hh.next, seen++)
        pairs[count++] = (struct pair){each, same_in(b, each)};
    seen = 0;
    for (const struct job_function *each = b->functions; pairs && each && seen < SHOWN_FUNCTIONS;
         each = each->hh.next, seen++) {
        const struct job_function *other = same_in(a, each);
        bool known = false;
        for (size_t i = 0; i < count && other && !known; i++)
            known = pairs[i].a == other;
        if (!known)
            pairs[count++] = (struct pair){other, each};
    }
    if (pairs)
        qsort(pairs, count, sizeof *pairs, by_change);
    *ret_count = pairs ? count : 0;
    return pairs;
}

void job_functions_diff_text(struct buf *out, const struct job_functions *a, const struct job_functions *b)
{
    size_t count;
    if (!a || !b || (!a->functions && !b->functions))
        return;
    _cleanup_(freep) struct pair *pairs = pairs_of(a, b, &count);
    buf_puts(out, "\nFunctions: own A      own B    change     calls A     calls B  function\n");
    for (size_t i = 0; i < count && i < SHOWN_FUNCTIONS; i++) {
        const struct job_function *left = pairs[i].a, *right = pairs[i].b;
        text_ns_in(out, self_of(left), 16);
        text_ns_in(out, self_of(right), 11);
        if (self_of(left) > 0)
            buf_printf(out, " %+8.1f%%", 100 * (self_of(right) / self_of(left) - 1));
        else
            buf_puts(out, "       new");
        buf_printf(out, " %10" PRIu64 " %11" PRIu64 "  ", left ? left->calls : 0, right ? right->calls : 0);
        text_function(out, (left ? left : right)->name, (left ? left : right)->file);
        report_put_source(out, left ? left : right);
        buf_putc(out, '\n');
    }
}

/* ---- for programs ---- */

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

static const struct job_function *one_of(const void *row)
{
    const struct pair *pair = row;
    return pair->a ? pair->a : pair->b;
}

static json_t *name_json(const void *row, const void *all)
{
    return text_json(one_of(row)->name);
}

static json_t *file_json(const void *row, const void *all)
{
    return text_json(one_of(row)->file);
}

const struct field report_function_diff_fields[] = {
    {"name", FIELD_TEXT, .json = name_json},
    {"file", FIELD_TEXT, .json = file_json},
    {"a", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = a_json, .of = report_function_fields},
    {"b", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = b_json, .of = report_function_fields},
    {0}};

json_t *job_functions_diff_json(const struct job_functions *a, const struct job_functions *b)
{
    size_t count = 0;
    _cleanup_(freep) struct pair *pairs = a && b ? pairs_of(a, b, &count) : NULL;
    return fields_list(report_function_diff_fields, pairs, count, sizeof *pairs, NULL);
}
