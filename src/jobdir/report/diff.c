/* SPDX-License-Identifier: Apache-2.0 */
/* Two runs compared. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

enum { COMPARED = 7 };

/* A value of two runs: the lines of a table, and its members but for the name. */
struct compared {
    const char *name, *label; /* label: NULL: not in the table */
    double a, b;              /* < 0: not measured */
    enum { COMPARED_COUNT, COMPARED_SECONDS, COMPARED_NS, COMPARED_BYTES, COMPARED_SHARE } kind;
};

/* Returns how many rows there are. */
static size_t compare(const struct job_report *a, const struct job_report *b, struct compared ret_rows[COMPARED])
{
    struct job_result left = job_report_total(a), right = job_report_total(b);
    bool shared = left.peak_tree_pss_bytes || right.peak_tree_pss_bytes;
    const struct compared rows[COMPARED] = {
        {"wall_seconds", "wall time", left.wall_seconds, right.wall_seconds, COMPARED_SECONDS},
        {"cpu_seconds", "cpu time", left.cpu_seconds, right.cpu_seconds, COMPARED_SECONDS},
        {"peak_rss_bytes", "peak of one process", (double)left.peak_rss_bytes, (double)right.peak_rss_bytes,
         COMPARED_BYTES},
        {shared ? "peak_tree_pss_bytes" : "peak_tree_rss_bytes", "peak in all", (double)job_result_memory(&left),
         (double)job_result_memory(&right), COMPARED_BYTES},
        {"process_count", "processes", (double)left.processes, (double)right.processes},
        {"threads_at_once", "threads at once", (double)left.threads_at_once, (double)right.threads_at_once},
        {"peak_tree_rss_bytes", NULL, (double)left.peak_tree_rss_bytes, (double)right.peak_tree_rss_bytes,
         COMPARED_BYTES},
    };
    memcpy(ret_rows, rows, sizeof rows);
    return COMPARED - !shared;
}

static void put_value(struct buf *out, const void *at, const void *row, const void *all)
{
    double value = *(const double *)at;
    if (value < 0) {
        buf_putc(out, '-');
        return;
    }
    switch (((const struct compared *)row)->kind) {
    case COMPARED_NS:
        text_ns(out, value);
        break;
    case COMPARED_SECONDS:
        text_seconds(out, value);
        break;
    case COMPARED_BYTES:
        text_size(out, (uint64_t)value);
        break;
    case COMPARED_SHARE:
        buf_printf(out, "%.1f %%", 100 * value);
        break;
    default:
        buf_printf(out, "%.0f", value);
    }
}

/* "+12.5%", "300x"; "new" if it was 0 before. */
static void change_text(struct buf *out, double a, double b)
{
    enum { TIMES = 10 }; /* so many as much, nobody reads percents */
    if (a > 0 && b >= TIMES * a)
        buf_printf(out, "%.0fx", b / a);
    else if (a > 0)
        buf_printf(out, "%+.1f%%", 100 * (b / a - 1));
    else
        buf_puts(out, b > 0 ? "new" : "");
}

static void put_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct compared *compared = row;
    if (compared->a >= 0 && compared->b >= 0)
        change_text(out, compared->a, compared->b);
}

static json_t *ratio_json(const void *row, const void *all)
{
    const struct compared *compared = row;
    return compared->a > 0 && compared->b >= 0 ? json_real(compared->b / compared->a) : json_null();
}

static const struct field compared_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct compared, label), .column = FIELD_COLUMN(1, 0, -22)},
    {"a", FIELD_NUMBER, FIELD_AT(struct compared, a), FIELD_NEGATIVE_IS_NULL, .about = "null: not measured",
     .column = FIELD_COLUMN(2, 1, 14, "A", .text = put_value)},
    {"b", FIELD_NUMBER, FIELD_AT(struct compared, b), FIELD_NEGATIVE_IS_NULL,
     .column = FIELD_COLUMN(3, 1, 14, "B", .text = put_value)},
    {"ratio", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = ratio_json,
     .about = "b / a; null when a is 0, or one is null",
     .column = FIELD_COLUMN(4, 1, 10, "change", .text = put_change)},
    {0}};

/* ---- functions: what the traces of both say ---- */

static const struct job_function *same_in(const struct job_functions *functions, const struct job_function *function)
{
    for (const struct job_function *each = functions->functions; each; each = each->hh.next)
        if (strcmp(each->name, function->name) == 0 && strcmp(text_base(each->file), text_base(function->file)) == 0)
            return each;
    return NULL;
}

struct function_pair { /* a, b: NULL where it is in one run only */
    const struct job_function *a, *b, *any;
    double a_ns, b_ns; /* of its own */
    uint64_t a_calls, b_calls;
};

static struct function_pair pair_of(const struct job_function *a, const struct job_function *b)
{
    return (struct function_pair){.a = a,
                                  .b = b,
                                  .any = a ? a : b,
                                  .a_ns = a ? a->self_ns : 0,
                                  .b_ns = b ? b->self_ns : 0,
                                  .a_calls = a ? a->calls : 0,
                                  .b_calls = b ? b->calls : 0};
}

static int by_function_change(const void *left, const void *right)
{
    const struct function_pair *x = left, *y = right;
    double dx = fabs(x->b_ns - x->a_ns), dy = fabs(y->b_ns - y->a_ns);
    return dx > dy ? -1 : dx < dy;
}

/* The hottest functions of both, those that changed most first; malloc'ed. */
static struct function_pair *pairs_of(const struct job_functions *a, const struct job_functions *b, size_t *ret_count)
{
    struct function_pair *pairs = calloc(2 * SHOWN_FUNCTIONS, sizeof *pairs);
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
        qsort(pairs, count, sizeof *pairs, by_function_change);
    *ret_count = pairs ? count : 0;
    return pairs;
}

static json_t *side_json(const struct job_function *function)
{
    return function ? report_function_json(function) : json_null();
}

static json_t *a_json(const void *row, const void *all)
{
    return side_json(((const struct function_pair *)row)->a);
}

static json_t *b_json(const void *row, const void *all)
{
    return side_json(((const struct function_pair *)row)->b);
}

static void put_function_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct function_pair *pair = row;
    if (pair->a_ns > 0)
        change_text(out, pair->a_ns, pair->b_ns);
    else
        buf_puts(out, "new");
}

static void put_name(struct buf *out, const void *at, const void *row, const void *all)
{
    report_put_function(out, row);
}

static const struct field any_fields[] = {{"name", FIELD_TEXT, FIELD_AT(struct job_function, name),
                                           .column = FIELD_COLUMN(6, 2, 0, "function", .text = put_name)},
                                          {"file", FIELD_TEXT, FIELD_AT(struct job_function, file)},
                                          {0}};

static const struct field function_diff_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct function_pair, any), FIELD_POINTER, .of = any_fields},
    {"a", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = a_json, .of = report_function_fields},
    {"b", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = b_json, .of = report_function_fields},
    {.type = FIELD_NS, FIELD_AT(struct function_pair, a_ns), .column = FIELD_COLUMN(1, 0, 16, "Functions: own A")},
    {.type = FIELD_NS, FIELD_AT(struct function_pair, b_ns), .column = FIELD_COLUMN(2, 0, 11, "own B")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 1, 9, "change", .text = put_function_change)},
    {.type = FIELD_COUNT, FIELD_AT(struct function_pair, a_calls), .column = FIELD_COLUMN(4, 1, 11, "calls A")},
    {.type = FIELD_COUNT, FIELD_AT(struct function_pair, b_calls), .column = FIELD_COLUMN(5, 1, 11, "calls B")},
    {0}};

static void functions_diff_text(struct buf *out, const struct job_functions *a, const struct job_functions *b)
{
    size_t count;
    if (!a || !b || (!a->functions && !b->functions))
        return;
    _cleanup_(freep) struct function_pair *pairs = pairs_of(a, b, &count);
    count = count < SHOWN_FUNCTIONS ? count : SHOWN_FUNCTIONS;
    fields_table(out, &(struct field_table){function_diff_fields}, pairs, count, sizeof *pairs, NULL);
    bool a_lacks = !job_functions_complete(a), b_lacks = !job_functions_complete(b);
    if (a_lacks || b_lacks)
        buf_printf(out, "  of %s calls are missing: `scry report` says why\n",
                   a_lacks && b_lacks ? "both"
                   : a_lacks          ? "A"
                                      : "B");
}

static json_t *functions_diff_json(const struct job_functions *a, const struct job_functions *b)
{
    size_t count = 0;
    _cleanup_(freep) struct function_pair *pairs = a && b ? pairs_of(a, b, &count) : NULL;
    return fields_list(function_diff_fields, pairs, count, sizeof *pairs, NULL);
}

/* ---- functions: what the samples of both say ---- */

enum { SHOWN_SAMPLED = 10 };

struct sampled_pair { /* a, b: NULL where it is in one run only */
    const struct sampled_function *a, *b, *any;
    double a_seconds, b_seconds; /* of its own */
    double a_share, b_share, share_change;
};

static struct sampled *sampled_of(const struct job_report *report)
{
    struct sampled *sampled = NULL;
    bool has = report->path && report->path[0] && (report->info.profile_hz || !report->info.json);
    return has && sampled_read(&sampled, report->path, report->part_count > 0) == 0 ? sampled : NULL;
}

/* Another build has other lines, and its module may lie elsewhere. */
static int by_what(const void *left, const void *right)
{
    const struct sampled_function *x = *(const struct sampled_function *const *)left,
                                  *y = *(const struct sampled_function *const *)right;
    int order = strcmp(x->name ? x->name : "", y->name ? y->name : "");
    if (order == 0)
        order = strcmp(text_base(x->file), text_base(y->file));
    if (order == 0 && (!x->name || !*x->file))
        order = strcmp(text_base(x->module), text_base(y->module));
    return order ? order : strcmp(x->language, y->language);
}

/* Of those with samples of their own, by what they are called; malloc'ed. */
static const struct sampled_function **sampled_sorted(const struct sampled *sampled, size_t *ret_count)
{
    const struct sampled_function **list = calloc(sampled->count + 1, sizeof *list);
    *ret_count = 0;
    for (size_t i = 0; list && i < sampled->count; i++)
        if (sampled->functions[i].self)
            list[(*ret_count)++] = &sampled->functions[i];
    if (list)
        qsort(list, *ret_count, sizeof *list, by_what);
    return list;
}

/* Takes those that are called alike out of the list, as one. */
static const struct sampled_function *sampled_take(const struct sampled_function **list, size_t count, size_t *at,
                                                   double *ret_seconds)
{
    const struct sampled_function *function = list[*at];
    do
        *ret_seconds += list[(*at)++]->self_seconds;
    while (*at < count && by_what(&list[*at], &function) == 0);
    return function;
}

static int by_sampled_change(const void *left, const void *right)
{
    const struct sampled_pair *x = left, *y = right;
    double dx = fabs(x->b_seconds - x->a_seconds), dy = fabs(y->b_seconds - y->a_seconds);
    return dx > dy ? -1 : dx < dy ? 1 : by_what(&x->any, &y->any);
}

/* Those that changed most first; malloc'ed. */
static struct sampled_pair *sampled_pairs(const struct sampled *a, const struct sampled *b, size_t *ret_count)
{
    size_t left_count, right_count, count = 0;
    _cleanup_(freep) const struct sampled_function **left = sampled_sorted(a, &left_count);
    _cleanup_(freep) const struct sampled_function **right = sampled_sorted(b, &right_count);
    struct sampled_pair *pairs = calloc(left_count + right_count + 1, sizeof *pairs);
    for (size_t i = 0, k = 0; pairs && (i < left_count || k < right_count); count++) {
        struct sampled_pair *pair = &pairs[count];
        int order = i == left_count ? 1 : k == right_count ? -1 : by_what(&left[i], &right[k]);
        if (order <= 0)
            pair->a = sampled_take(left, left_count, &i, &pair->a_seconds);
        if (order >= 0)
            pair->b = sampled_take(right, right_count, &k, &pair->b_seconds);
        pair->any = pair->a ? pair->a : pair->b;
        pair->a_share = a->seconds > 0 ? pair->a_seconds / a->seconds : 0;
        pair->b_share = b->seconds > 0 ? pair->b_seconds / b->seconds : 0;
        pair->share_change = pair->b_share - pair->a_share;
    }
    if (count)
        qsort(pairs, count, sizeof *pairs, by_sampled_change);
    *ret_count = count;
    return pairs;
}

static void put_percent(struct buf *out, const void *at, const void *row, const void *all)
{
    buf_printf(out, "%.1f", 100 * *(const double *)at);
}

static void put_difference(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct sampled_pair *pair = row;
    double seconds = pair->b_seconds - pair->a_seconds;
    buf_putc(out, seconds < 0 ? '-' : '+');
    text_seconds(out, fabs(seconds));
}

static void put_sampled_name(struct buf *out, const void *at, const void *row, const void *all)
{
    sampled_put_name(out, ((const struct sampled_pair *)row)->any);
}

static const struct field any_sampled_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct sampled_function, name), FIELD_OR_NULL,
     .about = "null: only the module is known"},
    {"module", FIELD_TEXT, FIELD_AT(struct sampled_function, module)},
    {"file", FIELD_TEXT, FIELD_AT(struct sampled_function, file)},
    {"language", FIELD_CHOICE, FIELD_AT(struct sampled_function, language), .choices = "native|python|kernel"},
    {0}};

static const struct field sampled_pair_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct sampled_pair, any), FIELD_POINTER, .of = any_sampled_fields},
    {"a_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_pair, a_seconds), .about = "of processor time of its own",
     .column = FIELD_COLUMN(1, 0, 22, "Processor time: own A")},
    {"b_seconds", FIELD_SECONDS, FIELD_AT(struct sampled_pair, b_seconds), .column = FIELD_COLUMN(2, 0, 11, "own B")},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 1, 10, "B - A", .text = put_difference)},
    {"a_share", FIELD_NUMBER, FIELD_AT(struct sampled_pair, a_share), .about = "of all samples of the run",
     .column = FIELD_COLUMN(4, 1, 6, "A %", .text = put_percent)},
    {"b_share", FIELD_NUMBER, FIELD_AT(struct sampled_pair, b_share),
     .column = FIELD_COLUMN(5, 1, 6, "B %", .text = put_percent)},
    {"share_change", FIELD_NUMBER, FIELD_AT(struct sampled_pair, share_change), .about = "b_share - a_share"},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(6, 2, 0, "function, by samples", .text = put_sampled_name)},
    {0}};

static void sampled_diff_text(struct buf *out, const struct job_report *a, const struct job_report *b)
{
    static const struct field_table table = {sampled_pair_fields, .most = SHOWN_SAMPLED,
                                             .more = " that changed less (--json lists them)"};
    struct sampled *left = sampled_of(a), *right = left ? sampled_of(b) : NULL;
    size_t count = 0;
    _cleanup_(freep) struct sampled_pair *pairs = right ? sampled_pairs(left, right, &count) : NULL;
    fields_table(out, &table, pairs, count, sizeof *pairs, NULL);
    sampled_free(left);
    sampled_free(right);
}

static json_t *sampled_diff_json(const struct job_report *a, const struct job_report *b)
{
    struct sampled *left = sampled_of(a), *right = left ? sampled_of(b) : NULL;
    size_t count = 0;
    _cleanup_(freep) struct sampled_pair *pairs = right ? sampled_pairs(left, right, &count) : NULL;
    json_t *json = pairs ? fields_list(sampled_pair_fields, pairs, count, sizeof *pairs, NULL) : json_null();
    sampled_free(left);
    sampled_free(right);
    return json;
}

/* ---- what their MPI programs did; times are of all ranks together ---- */

struct waited { /* for other ranks, by the traces of messages; -1: not known */
    int64_t a_ns, b_ns;
};

enum { SHOWN_CALLS = 12, ROWS = 7 };

static double clock_of(const struct mpi_report *report, uint64_t ns)
{
    return report->clocks_off ? -1 : (double)ns;
}

static double share_of(const struct mpi_report *report)
{
    return report->clocks_off ? -1
                              : mpi_report_percent(report->outermost.communicate_ns, report->outermost.total_ns) / 100;
}

static double moved_of(const struct mpi_report *report, uint64_t count)
{
    return report->peers_off ? -1 : (double)count;
}

/* Returns how many rows there are: waiting is the last, and known where messages were traced. */
static size_t mpi_compare(const struct mpi_report *a, const struct mpi_report *b, const struct waited *waited,
                          struct compared ret_rows[ROWS])
{
    static const struct mpi_report none;
    a = a ? a : &none;
    b = b ? b : &none;
    const struct compared rows[ROWS] = {
        {"ranks", "ranks", (double)a->set.count, (double)b->set.count, COMPARED_COUNT},
        {"run_ns", "run time of all", clock_of(a, a->outermost.total_ns), clock_of(b, b->outermost.total_ns),
         COMPARED_NS},
        {"communication_ns", "communication", clock_of(a, a->outermost.communicate_ns),
         clock_of(b, b->outermost.communicate_ns), COMPARED_NS},
        {"share", "in MPI", share_of(a), share_of(b), COMPARED_SHARE},
        {"messages", "messages", moved_of(a, a->matrix.messages), moved_of(b, b->matrix.messages), COMPARED_COUNT},
        {"bytes", "bytes of them", moved_of(a, a->matrix.bytes), moved_of(b, b->matrix.bytes), COMPARED_BYTES},
        {"waited_ns", "lost waiting", (double)waited->a_ns, (double)waited->b_ns, COMPARED_NS},
    };
    memcpy(ret_rows, rows, sizeof rows);
    return waited->a_ns < 0 && waited->b_ns < 0 ? ROWS - 1 : ROWS;
}

struct call_pair {
    struct mpi_stats_row a, b;
    uint64_t most_ns, change_ns;
    const char *name;
};

static int by_call_change(const void *left, const void *right)
{
    const struct call_pair *one = left, *other = right;
    if (one->change_ns != other->change_ns)
        return one->change_ns < other->change_ns ? 1 : -1;
    if (one->most_ns != other->most_ns)
        return one->most_ns < other->most_ns ? 1 : -1;
    uint32_t first = one->a.count ? one->a.call : one->b.call, second = other->a.count ? other->a.call : other->b.call;
    return first < second ? -1 : first > second;
}

/* The calls that either has made, those whose time changed most first. Returns how many. */
static size_t find_pairs(const struct mpi_report *a, const struct mpi_report *b, struct call_pair ret_pairs[CALL_COUNT])
{
    size_t count = 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        struct call_pair pair = {0};
        if (a)
            pair.a = a->calls[call];
        if (b)
            pair.b = b->calls[call];
        if (!pair.a.count && !pair.b.count)
            continue;
        pair.most_ns = pair.a.total_ns > pair.b.total_ns ? pair.a.total_ns : pair.b.total_ns;
        pair.change_ns = pair.most_ns - (pair.a.total_ns + pair.b.total_ns - pair.most_ns);
        pair.name = mpi_text_call(call);
        ret_pairs[count++] = pair;
    }
    if (count)
        qsort(ret_pairs, count, sizeof *ret_pairs, by_call_change);
    return count;
}

static const struct field side_fields[] = {
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, count)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, total_ns), .about = "of all ranks together"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, args_bytes), .about = "by the arguments"},
    {0}};

static void put_call_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct call_pair *pair = row;
    change_text(out, (double)pair->a.total_ns, (double)pair->b.total_ns);
}

static const struct field call_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct call_pair, name), .column = FIELD_COLUMN(6, 2, 0, "call")},
    {"a", FIELD_OBJECT, FIELD_AT(struct call_pair, a), .of = side_fields},
    {"b", FIELD_OBJECT, FIELD_AT(struct call_pair, b), .of = side_fields},
    {.type = FIELD_NS,
     FIELD_AT(struct call_pair, a.total_ns),
     .column = FIELD_COLUMN(1, 0, 35, "Calls of MPI, all time            A", .none = "-",
                            .zero = true)}, /* who only asks the library */
    {.type = FIELD_NS,
     FIELD_AT(struct call_pair, b.total_ns),
     .column = FIELD_COLUMN(2, 0, 15, "B", .none = "-", .zero = true)},
    {.type = FIELD_SHOWN, .column = FIELD_COLUMN(3, 1, 10, "change", .text = put_call_change)},
    {.type = FIELD_COUNT, FIELD_AT(struct call_pair, a.count), .column = FIELD_COLUMN(4, 1, 11, "calls A")},
    {.type = FIELD_COUNT, FIELD_AT(struct call_pair, b.count), .column = FIELD_COLUMN(5, 1, 11, "calls B")},
    {0}};

/* Either may be NULL: nothing (null) if both are. */
static void mpi_diff_text(struct buf *out, const struct mpi_report *a, const struct mpi_report *b,
                          const struct waited *waited)
{
    static const struct field_table table = {call_fields, .most = SHOWN_CALLS,
                                             .more = " that changed less (--json lists them)"};
    struct compared rows[ROWS];
    struct call_pair pairs[CALL_COUNT];
    if (!a && !b)
        return;
    size_t row_count = mpi_compare(a, b, waited, rows);
    fields_table(out, &(struct field_table){compared_fields, "MPI"}, rows, row_count, sizeof *rows, NULL);
    size_t count = find_pairs(a, b, pairs);
    fields_table(out, &table, pairs, count, sizeof *pairs, NULL);
}

/* ---- for programs ---- */

static const struct field mpi_value_fields[] = {
    {"name", FIELD_CHOICE, FIELD_AT(struct compared, name),
     .choices = "ranks|run_ns|communication_ns|share|messages|bytes|waited_ns"},
    {"", FIELD_PART, .of = compared_fields},
    {0}};

struct mpi_diff {
    json_t *values, *calls;
};

static const struct field mpi_diff_fields[] = {
    {"values", FIELD_LIST, FIELD_AT(struct mpi_diff, values), .of = mpi_value_fields},
    {"calls", FIELD_LIST, FIELD_AT(struct mpi_diff, calls), .of = call_fields},
    {0}};

static json_t *mpi_diff_json(const struct mpi_report *a, const struct mpi_report *b, const struct waited *waited)
{
    struct compared rows[ROWS];
    struct call_pair pairs[CALL_COUNT];
    if (!a && !b)
        return json_null();
    size_t row_count = mpi_compare(a, b, waited, rows), count = find_pairs(a, b, pairs);
    struct mpi_diff diff = {.values = fields_list(mpi_value_fields, rows, row_count, sizeof *rows, NULL),
                            .calls = fields_list(call_fields, pairs, count, sizeof *pairs, NULL)};
    json_t *json = fields_json(mpi_diff_fields, &diff, NULL);
    json_decref(diff.values);
    json_decref(diff.calls);
    return json;
}

/* ---- the runs ---- */

static const struct field value_fields[] = {{"name", FIELD_CHOICE, FIELD_AT(struct compared, name),
                                             .choices = "wall_seconds|cpu_seconds|peak_rss_bytes|peak_tree_rss_bytes|"
                                                        "peak_tree_pss_bytes|process_count|threads_at_once"},
                                            {"", FIELD_PART, .of = compared_fields},
                                            {0}};

struct run {
    const char *id, *status;
    int exit_code, signal;
    const struct job_functions *functions; /* NULL: none was traced */
};

static json_t *complete_json(const void *row, const void *all)
{
    const struct run *run = row;
    return run->functions ? json_boolean(job_functions_complete(run->functions)) : json_null();
}

static const struct field run_fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct run, id)},
    {"status", FIELD_TEXT, FIELD_AT(struct run, status)},
    {"exit_code", FIELD_COUNT, FIELD_AT(struct run, exit_code)},
    {"signal", FIELD_COUNT, FIELD_AT(struct run, signal), FIELD_ZERO_IS_NULL,
     .about = "that killed its command; null: none did"},
    {"functions_complete", FIELD_BOOL, .flags = FIELD_OR_NULL, .json = complete_json,
     .about =
         "false: calls of its functions are missing, as trace.complete in report.schema.json; null: none was traced"},
    {0}};

struct diff {
    const char *verdict;
    struct run a, b;
    json_t *values, *functions, *profile, *mpi;
};

static const struct field diff_fields[] = {
    {"verdict", FIELD_TEXT, FIELD_AT(struct diff, verdict), FIELD_OR_NULL,
     .about = "one sentence for people: which failed, or how their times differ; "
              "null: one of them has not ended"},
    {"a", FIELD_OBJECT, FIELD_AT(struct diff, a), .of = run_fields},
    {"b", FIELD_OBJECT, FIELD_AT(struct diff, b), .of = run_fields},
    {"values", FIELD_LIST, FIELD_AT(struct diff, values), .of = value_fields},
    {"functions", FIELD_LIST, FIELD_AT(struct diff, functions), .of = function_diff_fields,
     .about = "the hottest functions of both, those that changed most first"},
    {"profile", FIELD_LIST, FIELD_AT(struct diff, profile), FIELD_OR_NULL, .of = sampled_pair_fields,
     .about = "functions by samples, those whose time changed most first; null: of one run there are none"},
    {"mpi", FIELD_OBJECT, FIELD_AT(struct diff, mpi), FIELD_OR_NULL, .of = mpi_diff_fields,
     .about = "null: neither ran an MPI program"},
    {0}};

static struct run run_of(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    bool traced = report->functions && report->functions->processes;
    return (struct run){report->info.id, job_report_status(report), result.exit_code, result.signal,
                        traced ? report->functions : NULL};
}

static bool has_failed(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    return report->info.ended && (result.signal || result.exit_code || !result.started);
}

/* Why, or, where that is not known, how. */
static void put_failure(struct buf *out, const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    json_t *last = job_report_last(report);
    const json_t *found = json_object_get(last, "reason");
    const char *reason = json_string_value(json_object_get(found, "text"));
    bool only_how =
        note_json_kind(found) == NOTE_cause_unknown && !*member_text(json_object_get(found, "fields"), "words");
    char name[32];
    if (reason && !only_how)
        buf_puts(out, reason);
    else if (result.signal)
        buf_printf(out, "killed by %s", text_signal(result.signal, name, sizeof name));
    else
        buf_printf(out, "exit status %d", result.exit_code);
    json_decref(last);
}

/* Others had the processors, too: how long it took is not its own. */
static bool was_shared(const struct job_report *report)
{
    size_t index;
    json_t *warning;
    bool shared = false;
    json_array_foreach(report->info.warnings, index, warning) shared |=
        note_json_kind(warning) == NOTE_processors_taken;
    return shared;
}

/* "B took 4.1 times as long as A: 40 s, and A 9.8 s". false: one of them is not known. */
static bool put_ratio(struct buf *out, double left, double right, const char *verb, const char *of)
{
    if (left <= 0 || right <= 0)
        return false;
    if (left < 1.05 * right && right < 1.05 * left)
        buf_printf(out, "B %s as %s as A: ", verb, of);
    else
        buf_printf(out, "B %s %.3g times as %s as A: ", verb, right / left, of);
    text_seconds(out, right);
    buf_puts(out, ", and A ");
    text_seconds(out, left);
    return true;
}

/* Which failed, else how their times differ. Nothing: one of them has not ended. */
static void put_verdict(struct buf *out, const struct job_report *a, const struct job_report *b)
{
    bool a_failed = has_failed(a), b_failed = has_failed(b);
    if (!a->info.ended || !b->info.ended)
        return;
    if (a_failed && b_failed) {
        buf_puts(out, "both failed; A: ");
        put_failure(out, a);
        buf_puts(out, "; B: ");
        put_failure(out, b);
        return;
    }
    if (a_failed || b_failed) {
        buf_puts(out, a_failed ? "A failed, B did not: " : "B failed, A did not: ");
        put_failure(out, a_failed ? a : b);
        return;
    }
    double left = job_report_total(a).wall_seconds, right = job_report_total(b).wall_seconds;
    bool a_shared = was_shared(a), b_shared = was_shared(b);
    if (left <= 0 || right <= 0)
        return;
    if ((a_shared || b_shared) && put_ratio(out, job_report_total(a).cpu_seconds, job_report_total(b).cpu_seconds,
                                            "used", "much processor time")) {
        buf_puts(out, "; ");
        put_ratio(out, left, right, "took", "long");
        buf_printf(out, ", but the node of %s was shared with others", !a_shared ? "B" : b_shared ? "both" : "A");
        return;
    }
    if (left < 1.05 * right && right < 1.05 * left)
        buf_puts(out, "B took as long as A: ");
    else if (right > left)
        buf_printf(out, "B took %.3g times as long as A: ", right / left);
    else
        buf_printf(out, "B was %.3g times as fast as A: ", left / right);
    text_seconds(out, right);
    buf_puts(out, ", and A ");
    text_seconds(out, left);
}

json_t *job_report_diff_json(const struct job_report *a, const struct job_report *b)
{
    struct compared rows[COMPARED];
    size_t row_count = compare(a, b, rows);
    _cleanup_(buf_done) struct buf verdict = BUF_INIT;
    put_verdict(&verdict, a, b);
    const struct waited waited = {mpi_messages_waited_ns(a->messages), mpi_messages_waited_ns(b->messages)};
    struct diff diff = {.verdict = verdict.data,
                        .a = run_of(a),
                        .b = run_of(b),
                        .values = fields_list(value_fields, rows, row_count, sizeof *rows, NULL),
                        .functions = functions_diff_json(a->functions, b->functions),
                        .profile = sampled_diff_json(a, b),
                        .mpi = mpi_diff_json(a->mpi, b->mpi, &waited)};
    json_t *json = fields_json(diff_fields, &diff, NULL);
    json_decref(diff.values);
    json_decref(diff.functions);
    json_decref(diff.profile);
    json_decref(diff.mpi);
    return json;
}

json_t *job_report_diff_schema(void)
{
    return fields_schema(diff_fields);
}

/* ---- for people ---- */

static void put_outcome(struct buf *out, const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    char name[32];
    if (result.signal)
        buf_printf(out, " %14s", text_signal(result.signal, name, sizeof name));
    else if (report->info.ended) {
        snprintf(name, sizeof name, "exit %d", result.exit_code);
        buf_printf(out, " %14s", name);
    } else
        buf_printf(out, " %14s", job_report_status(report));
}

void job_report_diff_text(struct buf *out, const struct job_report *a, const struct job_report *b)
{
    struct compared rows[COMPARED];
    size_t row_count = compare(a, b, rows);
    _cleanup_(buf_done) struct buf verdict = BUF_INIT;
    put_verdict(&verdict, a, b);
    if (verdict.len) {
        text_show(out, verdict.data);
        buf_puts(out, "\n\n");
    }
    for (int i = 0; i < 2; i++) {
        const struct job_info *info = i ? &b->info : &a->info;
        buf_puts(out, i ? "B  " : "A  ");
        text_show(out, info->id);
        buf_putc(out, ' ');
        text_show(out, info->name);
        buf_puts(out, i ? "\n\n" : "\n");
    }
    fields_title(out, compared_fields, NULL);
    buf_printf(out, "%-22s", "end");
    put_outcome(out, a);
    put_outcome(out, b);
    buf_putc(out, '\n');
    for (size_t i = 0; i < row_count; i++)
        if (rows[i].label)
            fields_row(out, compared_fields, &rows[i], NULL);
    const struct waited waited = {mpi_messages_waited_ns(a->messages), mpi_messages_waited_ns(b->messages)};
    mpi_diff_text(out, a->mpi, b->mpi, &waited);
    functions_diff_text(out, a->functions, b->functions);
    sampled_diff_text(out, a, b);
}
