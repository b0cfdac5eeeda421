/* SPDX-License-Identifier: Apache-2.0 */
/* What the MPI programs of two runs did, side by side. Times are of all ranks together. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi_report_internal.h"
#include "jobdir/mpi_text.h"
#include "jobdir/text.h"

enum { SHOWN_CALLS = 12, ROWS = 6 };

struct compared {
    const char *name, *label;
    double a, b;
    enum { COUNT, TIME, SIZE, PERCENT } kind;
};

static double share_of(const struct mpi_report *report)
{
    return mpi_report_percent(report->outermost.communicate_ns, report->outermost.total_ns) / 100;
}

static void compare(const struct mpi_report *a, const struct mpi_report *b, struct compared ret_rows[ROWS])
{
    static const struct mpi_report none;
    a = a ? a : &none;
    b = b ? b : &none;
    const struct compared rows[ROWS] = {
        {"ranks", "ranks", (double)a->set.count, (double)b->set.count, COUNT},
        {"run_ns", "run time of all", (double)a->outermost.total_ns, (double)b->outermost.total_ns, TIME},
        {"communication_ns", "communication", (double)a->outermost.communicate_ns, (double)b->outermost.communicate_ns,
         TIME},
        {"share", "in MPI", share_of(a), share_of(b), PERCENT},
        {"messages", "messages", (double)a->matrix.messages, (double)b->matrix.messages, COUNT},
        {"bytes", "bytes of them", (double)a->matrix.bytes, (double)b->matrix.bytes, SIZE},
    };
    memcpy(ret_rows, rows, sizeof rows);
}

static void put_value(struct buf *out, const struct compared *row, double value)
{
    buf_putc(out, ' ');
    if (row->kind == TIME)
        text_ns_in(out, value, 14);
    else if (row->kind == SIZE)
        text_size_in(out, (uint64_t)value, 14);
    else if (row->kind == PERCENT)
        buf_printf(out, "%12.1f %%", 100 * value);
    else
        buf_printf(out, "%14.0f", value);
}

static void put_change(struct buf *out, double a, double b)
{
    if (a > 0)
        buf_printf(out, " %+9.1f%%", 100 * (b / a - 1));
    else if (b > 0)
        buf_puts(out, "        new");
    else
        buf_printf(out, "%11s", "");
}

struct pair {
    struct mpi_stats_row a, b;
    uint64_t most_ns;
};

static int by_most(const void *left, const void *right)
{
    const struct pair *one = left, *other = right;
    if (one->most_ns != other->most_ns)
        return one->most_ns < other->most_ns ? 1 : -1;
    uint32_t first = one->a.count ? one->a.call : one->b.call, second = other->a.count ? other->a.call : other->b.call;
    return first < second ? -1 : first > second;
}

/* The calls that either has made, those that took most first. Returns how many. */
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
        ret_pairs[count++] = pair;
    }
    if (count)
        qsort(ret_pairs, count, sizeof *ret_pairs, by_most);
    return count;
}

static const char *name_of(const struct pair *pair)
{
    return mpi_text_call(pair->a.count ? pair->a.call : pair->b.call);
}

void mpi_report_diff_text(struct buf *out, const struct mpi_report *a, const struct mpi_report *b)
{
    struct compared rows[ROWS];
    struct pair pairs[CALL_COUNT];
    if (!a && !b)
        return;
    compare(a, b, rows);
    buf_printf(out, "\n%-22s %14s %14s %10s\n", "MPI", "A", "B", "change");
    for (size_t i = 0; i < ROWS; i++) {
        buf_printf(out, "%-22s", rows[i].label);
        put_value(out, &rows[i], rows[i].a);
        put_value(out, &rows[i], rows[i].b);
        put_change(out, rows[i].a, rows[i].b);
        buf_putc(out, '\n');
    }
    size_t count = find_pairs(a, b, pairs);
    buf_puts(out, "\nCalls of MPI, all time            A              B     change     calls A     calls B  call\n");
    for (size_t i = 0; i < count && i < SHOWN_CALLS; i++) {
        buf_printf(out, "%20s", "");
        text_ns_in(out, (double)pairs[i].a.total_ns, 15);
        text_ns_in(out, (double)pairs[i].b.total_ns, 15);
        put_change(out, (double)pairs[i].a.total_ns, (double)pairs[i].b.total_ns);
        buf_printf(out, " %11" PRIu64 " %11" PRIu64 "  %s\n", pairs[i].a.count, pairs[i].b.count, name_of(&pairs[i]));
    }
    if (count > SHOWN_CALLS)
        buf_printf(out, "  ... and %zu more with less time (--json lists them)\n", count - SHOWN_CALLS);
}

static json_t *call_json(const struct mpi_stats_row *row)
{
    return json_pack("{s:I, s:I, s:I}", "calls", (json_int_t)row->count, "total_ns", (json_int_t)row->total_ns, "bytes",
                     (json_int_t)row->args_bytes);
}

json_t *mpi_report_diff_json(const struct mpi_report *a, const struct mpi_report *b)
{
    struct compared rows[ROWS];
    struct pair pairs[CALL_COUNT];
    if (!a && !b)
        return json_null();
    compare(a, b, rows);
    json_t *values = json_array(), *calls = json_array();
    for (size_t i = 0; i < ROWS; i++)
        json_array_append_new(values,
                              json_pack("{s:s, s:f, s:f, s:o}", "name", rows[i].name, "a", rows[i].a, "b", rows[i].b,
                                        "ratio", rows[i].a > 0 ? json_real(rows[i].b / rows[i].a) : json_null()));
    size_t count = find_pairs(a, b, pairs);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(calls, json_pack("{s:s, s:o, s:o}", "name", name_of(&pairs[i]), "a",
                                               call_json(&pairs[i].a), "b", call_json(&pairs[i].b)));
    return json_pack("{s:o, s:o}", "values", values, "calls", calls);
}
