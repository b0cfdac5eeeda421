/* SPDX-License-Identifier: Apache-2.0 */
/* What the MPI programs of two runs did, side by side. Times are of all ranks together. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/report/mpi_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

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
static size_t compare(const struct mpi_report *a, const struct mpi_report *b, const struct report_waited *waited,
                      struct report_compared ret_rows[ROWS])
{
    static const struct mpi_report none;
    a = a ? a : &none;
    b = b ? b : &none;
    const struct report_compared rows[ROWS] = {
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

struct pair {
    struct mpi_stats_row a, b;
    uint64_t most_ns, change_ns;
    const char *name;
};

static int by_change(const void *left, const void *right)
{
    const struct pair *one = left, *other = right;
    if (one->change_ns != other->change_ns)
        return one->change_ns < other->change_ns ? 1 : -1;
    if (one->most_ns != other->most_ns)
        return one->most_ns < other->most_ns ? 1 : -1;
    uint32_t first = one->a.count ? one->a.call : one->b.call, second = other->a.count ? other->a.call : other->b.call;
    return first < second ? -1 : first > second;
}

/* The calls that either has made, those whose time changed most first. Returns how many. */
static size_t find_pairs(const struct mpi_report *a, const struct mpi_report *b, struct pair ret_pairs[CALL_COUNT])
{
    size_t count = 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        struct pair pair = {0};
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
        qsort(ret_pairs, count, sizeof *ret_pairs, by_change);
    return count;
}

static const struct field side_fields[] = {
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, count)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, total_ns), .about = "of all ranks together"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, args_bytes), .about = "by the arguments"},
    {0}};

static void put_change(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct pair *pair = row;
    report_change_text(out, (double)pair->a.total_ns, (double)pair->b.total_ns);
}

static const struct field call_fields[] = {
    {"name", FIELD_TEXT, FIELD_AT(struct pair, name), .column = {6, 2, 0, "call"}},
    {"a", FIELD_OBJECT, FIELD_AT(struct pair, a), .of = side_fields},
    {"b", FIELD_OBJECT, FIELD_AT(struct pair, b), .of = side_fields},
    {.type = FIELD_NS, FIELD_AT(struct pair, a.total_ns), .column = {1, 0, 35, "Calls of MPI, all time            A"}},
    {.type = FIELD_NS, FIELD_AT(struct pair, b.total_ns), .column = {2, 0, 15, "B"}},
    {.type = FIELD_SHOWN, .column = {3, 1, 10, "change", .text = put_change}},
    {.type = FIELD_COUNT, FIELD_AT(struct pair, a.count), .column = {4, 1, 11, "calls A"}},
    {.type = FIELD_COUNT, FIELD_AT(struct pair, b.count), .column = {5, 1, 11, "calls B"}},
    {0}};

void mpi_report_diff_text(struct buf *out, const struct mpi_report *a, const struct mpi_report *b,
                          const struct report_waited *waited)
{
    static const struct field_table table = {call_fields, .most = SHOWN_CALLS,
                                             .more = " that changed less (--json lists them)"};
    struct report_compared rows[ROWS];
    struct pair pairs[CALL_COUNT];
    if (!a && !b)
        return;
    size_t row_count = compare(a, b, waited, rows);
    fields_table(out, &(struct field_table){report_compared_fields, "MPI"}, rows, row_count, sizeof *rows, NULL);
    size_t count = find_pairs(a, b, pairs);
    fields_table(out, &table, pairs, count, sizeof *pairs, NULL);
}

/* ---- for programs ---- */

static const struct field value_fields[] = {{"name", FIELD_CHOICE, FIELD_AT(struct report_compared, name),
                                             .choices = "ranks|run_ns|communication_ns|share|messages|bytes|waited_ns"},
                                            {"", FIELD_PART, .of = report_compared_fields},
                                            {0}};

struct diff {
    json_t *values, *calls;
};

const struct field report_mpi_diff_fields[] = {
    {"values", FIELD_LIST, FIELD_AT(struct diff, values), .of = value_fields},
    {"calls", FIELD_LIST, FIELD_AT(struct diff, calls), .of = call_fields},
    {0}};

json_t *mpi_report_diff_json(const struct mpi_report *a, const struct mpi_report *b, const struct report_waited *waited)
{
    struct report_compared rows[ROWS];
    struct pair pairs[CALL_COUNT];
    if (!a && !b)
        return json_null();
    size_t row_count = compare(a, b, waited, rows), count = find_pairs(a, b, pairs);
    struct diff diff = {.values = fields_list(value_fields, rows, row_count, sizeof *rows, NULL),
                        .calls = fields_list(call_fields, pairs, count, sizeof *pairs, NULL)};
    json_t *json = fields_json(report_mpi_diff_fields, &diff, NULL);
    json_decref(diff.values);
    json_decref(diff.calls);
    return json;
}
