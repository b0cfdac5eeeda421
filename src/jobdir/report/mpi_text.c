/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: what MPI programs did. Ranks, calls, call sites and communicators have files of their own. What
 * all rows belong to is the struct mpi_report. */
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/text/text.h"

/* ---- volume ---- */

struct volume {
    const char *name;
    struct mpi_stats_row sum; /* only its bytes */
};

static void put_got(struct buf *out, const void *at, const void *row, const void *all)
{
    mpi_report_put_received(out, &((const struct volume *)row)->sum);
}

static const struct field volume_fields[] = {
    {.type = FIELD_TEXT, FIELD_AT(struct volume, name), .column = {1, 2, -22, "Volume"}},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, sum.args_bytes), .column = {2, 1, 12, "as arguments"}},
    {.type = FIELD_BYTES, FIELD_AT(struct volume, sum.sent_bytes), .column = {3, 0, 11, "sent"}},
    {.type = FIELD_SHOWN, .column = {4, 0, 11, "received", .text = put_got}},
    {0}};

static void put_volume(struct buf *out, const struct mpi_report *report)
{
    static const struct {
        uint8_t class;
        const char *name;
    } classes[] = {{CALL_CLASS_P2P, "the user's messages"},
                   {CALL_CLASS_COLLECTIVE, "collectives"},
                   {CALL_CLASS_ONESIDED, "one-sided"},
                   {CALL_CLASS_IO, "files"}};
    bool titled = false;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        struct volume volume = {.name = classes[i].name};
        struct mpi_stats_row *sum = &volume.sum;
        for (uint32_t call = 1; call < CALL_COUNT; call++)
            if (call_infos[call].class == classes[i].class) {
                sum->args_bytes += report->calls[call].args_bytes;
                sum->sent_bytes += report->calls[call].sent_bytes;
                sum->got_bytes += report->calls[call].got_bytes;
                sum->got_unknown |= report->calls[call].got_unknown;
                sum->got_least |= report->calls[call].got_least;
            }
        /* also what was received by non-blocking and persistent receives */
        if (classes[i].class == CALL_CLASS_P2P && !report->peers_off) {
            sum->sent_bytes = report->matrix.bytes;
            sum->got_bytes = report->matrix.got_bytes;
        }
        if (!sum->args_bytes && !sum->sent_bytes && !sum->got_bytes)
            continue;
        if (!titled) {
            buf_putc(out, '\n');
            fields_title(out, volume_fields, report);
        }
        titled = true;
        fields_row(out, volume_fields, &volume, report);
    }
}

/* ---- for people ---- */

static void put_one(struct buf *out, const struct mpi_report *report, size_t index)
{
    const struct mpi_stats *stats = &report->set.ranks[index];
    struct mpi_report_calls calls = {.rows = stats->rows,
                                     .row_count = stats->row_count,
                                     .spans = stats->spans,
                                     .span_count = stats->span_count,
                                     .outermost = mpi_report_clock(stats, false),
                                     .blocking = mpi_report_clock(stats, true),
                                     .finalized = stats->state == MPIA_ENDED};
    mpi_report_others(stats, &calls.others_count, &calls.others_ns);
    mpi_report_put_rank(out, report, index);
    mpi_report_put_calls(out, &calls);
    mpi_report_put_threads(out, stats);
}

static void put_all(struct buf *out, const struct mpi_report *report)
{
    const struct mpi_report_calls calls = {.rows = report->calls,
                                           .row_count = CALL_COUNT,
                                           .spans = report->spans,
                                           .span_count = CALL_COUNT,
                                           .outermost = &report->outermost,
                                           .blocking = &report->blocking,
                                           .finalized = report->finalized,
                                           .others_count = report->others_count,
                                           .others_ns = report->others_ns};
    mpi_report_put_ranks(out, report);
    mpi_report_put_balance(out, report);
    mpi_report_put_calls(out, &calls);
}

void mpi_report_text(struct buf *out, const struct mpi_report *report, int rank)
{
    if (!report)
        return;
    if (!report->set.count) {
        buf_puts(out, "\nMPI\n");
        mpi_report_put_problems(out, report);
        return;
    }
    mpi_report_put_head(out, report);
    mpi_report_put_problems(out, report);
    for (size_t i = 0; i < report->set.count && rank >= 0; i++)
        if (report->set.ranks[i].rank == rank)
            put_one(out, report, i);
    if (rank < 0)
        put_all(out, report);
    mpi_report_put_sites(out, report);
    put_volume(out, report);
    mpi_report_put_comms(out, report);
    mpi_matrix_text(out, &report->matrix, report->worlds);
}

void report_mpi_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    if (whole)
        mpi_report_text(out, report->mpi, report->one_rank ? report->mpi_rank : -1);
    else
        mpi_report_summary(out, report->mpi);
}

/* ---- for programs ---- */

static const struct field own_fields[] = {{"name", FIELD_TEXT}, {"calls", FIELD_COUNT, .about = "made in it"}, {0}};

static json_t *own_json(const void *row, const void *all)
{
    uint64_t own[CALL_COUNT];
    json_t *list = json_array();
    mpi_report_own(row, own);
    for (uint32_t call = 0; call < CALL_COUNT; call++)
        if (own[call])
            json_array_append_new(
                list, json_pack("{s:s, s:I}", "name", call_infos[call].name, "calls", (json_int_t)own[call]));
    return list;
}

/* ---- who sends to whom ---- */

static json_t *got_json(const void *row, uint64_t number)
{
    return ((const struct mpi_matrix_cell *)row)->got_least ? json_null() : json_integer((json_int_t)number);
}

static json_t *got_count_json(const void *row, const void *all)
{
    return got_json(row, ((const struct mpi_matrix_cell *)row)->got_count);
}

static json_t *got_bytes_json(const void *row, const void *all)
{
    return got_json(row, ((const struct mpi_matrix_cell *)row)->got_bytes);
}

static const struct field cell_fields[] = {
    {"world", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, world)},
    {"from", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, from), FIELD_NEGATIVE_IS_NULL,
     .about = "rank of MPI_COMM_WORLD; null: of another one"},
    {"to", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, to), FIELD_NEGATIVE_IS_NULL},
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, sent_count),
     .about = "of the user, as the sender counted"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, sent_bytes)},
    {"received_messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, got_count), .flags = FIELD_OR_NULL,
     .json = got_count_json,
     .about = "as the receiver counted; a receive that failed, as one whose buffer was too short (MPI_ERR_TRUNCATE), "
              "is none: it is among the errors. null: some of its operations found no room (requests_omitted)"},
    {"received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, got_bytes), .flags = FIELD_OR_NULL,
     .json = got_bytes_json},
    {"one_sided", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, put_count), .about = "operations of `from` on `to`"},
    {"one_sided_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, put_bytes)},
    {0}};

/* ---- all ---- */

static json_t *all_calls_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_report *)row)->calls, CALL_COUNT, all);
}

static json_t *all_spans_json(const void *row, const void *all)
{
    return mpi_report_calls_json(((const struct mpi_report *)row)->spans, CALL_COUNT, all);
}

static json_t *time_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_report *)row)->outermost, all);
}

static json_t *blocking_json(const void *row, const void *all)
{
    return mpi_report_time_json(&((const struct mpi_report *)row)->blocking, all);
}

static json_t *unmeasured_json(const void *row, const void *all)
{
    const struct mpi_report *report = row;
    json_t *list = json_array();
    if (report->clocks_off)
        json_array_append_new(list, json_string("clocks"));
    if (report->peers_off)
        json_array_append_new(list, json_string("peers"));
    if (report->requests_off)
        json_array_append_new(list, json_string("requests"));
    return list;
}

static const struct field others_fields[] = {{"calls", FIELD_COUNT, FIELD_AT(struct mpi_report, others_count)},
                                             {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report, others_ns)},
                                             {0}};

static const struct field mpi_fields[] = {
    {"ranks", FIELD_LIST, .json = mpi_report_ranks_json, .of = mpi_rank_fields},
    {"calls", FIELD_LIST, .json = all_calls_json, .of = mpi_call_fields, .about = "of all ranks"},
    {"spans", FIELD_LIST, .json = all_spans_json, .of = mpi_call_fields},
    {"time", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = time_json, .of = mpi_time_fields,
     .about = "null: not measured, or no rank came out of MPI_Init"},
    {"blocking", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = blocking_json, .of = mpi_time_fields},
    {"unmeasured", FIELD_LIST, .json = unmeasured_json, .of = fields_texts,
     .about = "what was switched off (--mpi-metrics): clocks, peers (matrix is empty then), requests"},
    {"sites", FIELD_LIST, FIELD_ROWS(struct mpi_report, sites, site_count), .of = mpi_site_fields},
    {"matrix", FIELD_LIST, FIELD_ROWS(struct mpi_report, matrix.cells, matrix.count), .of = cell_fields},
    {"communicators", FIELD_LIST, FIELD_ROWS(struct mpi_report, comms, comm_count), .of = mpi_comm_fields},
    {"in_own_functions", FIELD_LIST, .json = own_json, .of = own_fields,
     .about = "functions of MPI that the program itself has, a tool that is linked into it: its calls are counted, not "
              "what the program calls of it"},
    {"unreadable", FIELD_COUNT, FIELD_AT(struct mpi_report, unreadable_count),
     .about = "files of statistics that could not be read"},
    {"other_threads", FIELD_OBJECT, .of = others_fields,
     .about = "calls of threads that are not the rank; in calls and sites, but in no time"},
    {0}};

const struct field report_mpi_fields[] = {
    {"mpi", FIELD_OBJECT, .flags = FIELD_OR_NULL, .of = mpi_fields, .about = "programs that use MPI; null: none"}, {0}};

void mpi_report_json(json_t *json, const struct mpi_report *report)
{
    json_object_set_new(json, "mpi", report ? fields_json(mpi_fields, report, report) : json_null());
}

void report_mpi_json(json_t *object, const struct job_report *report)
{
    mpi_report_json(object, report->mpi);
}
