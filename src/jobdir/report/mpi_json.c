/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI programs did, for programs: .mpi of doc/reference/report.schema.json. What all rows belong to is the struct
 * mpi_report. */
#include "jobdir/text/fields.h"
#include "jobdir/mpi/ends.h"
#include "jobdir/report/mpi_internal.h"
#include "jobdir/mpi/text.h"
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

/* ---- calls ---- */

static json_t *call_json(const void *row, const void *all)
{
    return json_string(mpi_text_call(((const struct mpi_stats_row *)row)->call));
}

static json_t *class_json(const void *row, const void *all)
{
    return json_string(call_class_names[call_infos[((const struct mpi_stats_row *)row)->call].class]);
}

static const struct field row_fields[] = {
    {"name", FIELD_TEXT, .json = call_json},
    {"class", FIELD_TEXT, .json = class_json,
     .about = "p2p, completion, collective, onesided, io, comm, type, group, info, env, other, tool"},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, count)},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, args_bytes),
     .about = "as the arguments say: count times size of the datatype"},
    {"sent_bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, sent_bytes), .about = "transferred"},
    {"received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_stats_row, got_bytes)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, total_ns)},
    {"min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, min_ns)},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, max_ns)},
    {"other_threads_calls", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, others_count),
     .about = "of calls, those of threads that are not the rank"},
    {"other_threads_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, others_ns), .about = "of total_ns"},
    {"open", FIELD_COUNT, FIELD_AT(struct mpi_stats_row, open),
     .about = "further calls, that had not ended: in total_ns only"},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_row, open_ns), .about = "of total_ns"},
    {0}};

static json_t *rows_json(const struct mpi_stats_row *rows, size_t count, const void *all)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if ((rows[i].count || rows[i].open) && rows[i].call > CALL_NONE && rows[i].call < CALL_COUNT)
            json_array_append_new(list, fields_json(row_fields, &rows[i], all));
    return list;
}

static const struct field clock_fields[] = {
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, total_ns),
     .about = "computation and communication, to the nanosecond"},
    {"computation_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_ns)},
    {"communication_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_ns)},
    {"count", FIELD_COUNT, FIELD_AT(struct mpi_stats_clock, count), .about = "intervals of communication"},
    {"computation_min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_min_ns)},
    {"computation_max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_max_ns)},
    {"communication_min_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_min_ns)},
    {"communication_max_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_max_ns)},
    {"computation_open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_open_ns),
     .about = "of a running program: of the total, what goes on and has no length yet"},
    {"communication_open_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, communicate_open_ns)},
    {0}};

static const struct field thread_fields[] = {
    {"tid", FIELD_INTEGER, FIELD_AT(struct mpi_stats_thread, tid)},
    {"is_rank", FIELD_BOOL, FIELD_AT(struct mpi_stats_thread, is_main), .about = "it called MPI_Init"},
    {"name", FIELD_TEXT, FIELD_AT(struct mpi_stats_thread, name)},
    {"errors", FIELD_COUNT, FIELD_AT(struct mpi_stats_thread, errors),
     .about = "calls that returned another than MPI_SUCCESS"},
    {"time", FIELD_OBJECT, FIELD_AT(struct mpi_stats_thread, outermost), .of = clock_fields},
    {"blocking", FIELD_OBJECT, FIELD_AT(struct mpi_stats_thread, blocking), .of = clock_fields},
    {0}};

/* ---- ranks ---- */

struct rank_row {
    const struct mpi_stats *stats;
    const struct mpi_stats_clock *time, *blocking;
    uint32_t world;
};

static json_t *end_signal_json(const void *row, const void *all)
{
    int status = ((const struct mpi_stats_end *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFSIGNALED(status) ? json_integer(WTERMSIG(status)) : json_null();
}

static json_t *end_code_json(const void *row, const void *all)
{
    int status = ((const struct mpi_stats_end *)row)->status;
    return status != JOB_STATUS_UNKNOWN && WIFEXITED(status) ? json_integer(WEXITSTATUS(status)) : json_null();
}

static const struct field end_fields[] = {
    {"seconds", FIELD_SECONDS, FIELD_AT(struct mpi_stats_end, seconds), .about = "since the start of the job"},
    {"signal", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = end_signal_json},
    {"exit_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = end_code_json},
    {"first", FIELD_BOOL, FIELD_AT(struct mpi_stats_end, first),
     .about = "of its MPI_COMM_WORLD the first that ended, and without MPI_Finalize"},
    {0}};

/* As the records of the job have it. */
static json_t *end_json(const void *row, const void *all)
{
    const struct mpi_stats_end *end = &((const struct mpi_stats *)row)->end;
    return end->known ? fields_json(end_fields, end, all) : json_null();
}

static json_t *state_json(const void *row, const void *all)
{
    const char *fate = mpi_report_fate(row);
    return json_string(*fate ? fate : "ended");
}

static json_t *abort_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    return stats->aborted ? json_integer(stats->abort_code) : json_null();
}

static json_t *reset_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    return stats->resets ? json_integer((json_int_t)stats->reset_ns) : json_null();
}

static json_t *calls_json(const void *row, const void *all)
{
    return rows_json(((const struct mpi_stats *)row)->rows, ((const struct mpi_stats *)row)->row_count, all);
}

static json_t *spans_json(const void *row, const void *all)
{
    return rows_json(((const struct mpi_stats *)row)->spans, ((const struct mpi_stats *)row)->span_count, all);
}

static json_t *threads_json(const void *row, const void *all)
{
    const struct mpi_stats *stats = row;
    return fields_list(thread_fields, stats->threads, stats->thread_count, sizeof *stats->threads, all);
}

static const struct field stats_fields[] = {
    {"rank", FIELD_INTEGER, FIELD_AT(struct mpi_stats, rank)},
    {"node", FIELD_TEXT, FIELD_AT(struct mpi_stats, node)},
    {"pid", FIELD_INTEGER, FIELD_AT(struct mpi_stats, pid)},
    {"program", FIELD_TEXT, FIELD_AT(struct mpi_stats, exe)},
    {"library", FIELD_TEXT, FIELD_AT(struct mpi_stats, library), .about = "openmpi or mpich"},
    {"thread_level", FIELD_INTEGER, FIELD_AT(struct mpi_stats, thread_level),
     .about = "0 MPI_THREAD_SINGLE to 3 MPI_THREAD_MULTIPLE; -1: not known"},
    {"state", FIELD_TEXT, .json = state_json,
     .about = "ended, running, died without MPI_Finalize, called MPI_Abort, never called MPI_Init, ended inside of "
              "MPI_Init, not counted to the end"},
    {"end", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = end_json, .of = end_fields,
     .about = "how its process ended; null: it runs, or nobody saw it"},
    {"spawned", FIELD_BOOL, FIELD_AT(struct mpi_stats, spawned), .about = "its program was started by MPI_Comm_spawn"},
    {"abort_code", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = abort_json},
    {"fault", FIELD_TEXT, FIELD_AT(struct mpi_stats, fault), FIELD_ZERO_IS_NULL, .about = "why counting stopped"},
    {"omitted", FIELD_COUNT, FIELD_AT(struct mpi_stats, omitted),
     .about = "calls, requests and bytes that found no room"},
    {"receives_freed", FIELD_COUNT, FIELD_AT(struct mpi_stats, receives_freed),
     .about = "receives given up by MPI_Request_free: what they got is in no number"},
    {"resets", FIELD_COUNT, FIELD_AT(struct mpi_stats, resets),
     .about = "how often counting began anew: what was before is in no number"},
    {"reset_ns", FIELD_INTEGER, .flags = FIELD_OR_NULL, .json = reset_json,
     .about = "when, the last time: after MPI_Init; null: never"},
    {"paused_ns", FIELD_NS, FIELD_AT(struct mpi_stats, paused_ns),
     .about = "between MPI_Init and MPI_Finalize, in which nothing was counted; but before a reset"},
    {"init_ns", FIELD_NS, FIELD_AT(struct mpi_stats, init_ns)},
    {"finalize_ns", FIELD_NS, FIELD_AT(struct mpi_stats, finalize_ns)},
    {"started_seconds", FIELD_SECONDS, FIELD_AT(struct mpi_stats, started_wall_ns), .about = "since 1970"},
    {"calls", FIELD_LIST, .json = calls_json, .of = row_fields},
    {"spans", FIELD_LIST, .json = spans_json, .of = row_fields,
     .about = "non-blocking operations, from their begin to their completion"},
    {"threads", FIELD_LIST, .json = threads_json, .of = thread_fields},
    {0}};

static json_t *share_json(const void *row, const void *all)
{
    const struct mpi_stats_clock *clock = row;
    return json_real(clock->total_ns ? (double)clock->communicate_ns / (double)clock->total_ns : 0);
}

static const struct field share_fields[] = {{"run_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, total_ns),
                                             .about = "from MPI_Init's return to MPI_Finalize's entry"},
                                            {"computation_ns", FIELD_NS, FIELD_AT(struct mpi_stats_clock, compute_ns)},
                                            {"communication_ns", FIELD_NS,
                                             FIELD_AT(struct mpi_stats_clock, communicate_ns),
                                             .about = "inside any outermost call"},
                                            {"share", FIELD_NUMBER, .json = share_json, .about = "of communication"},
                                            {0}};

static const struct field rank_fields[] = {
    {"", FIELD_PART, FIELD_AT(struct rank_row, stats), FIELD_POINTER, .of = stats_fields},
    {"", FIELD_PART, FIELD_AT(struct rank_row, time), FIELD_POINTER, .of = share_fields},
    {"world", FIELD_COUNT, FIELD_AT(struct rank_row, world), .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"blocking", FIELD_OBJECT, FIELD_AT(struct rank_row, blocking), FIELD_POINTER, .of = clock_fields,
     .about = "inside blocking calls only"},
    {"time", FIELD_OBJECT, FIELD_AT(struct rank_row, time), FIELD_POINTER, .of = clock_fields},
    {0}};

static json_t *ranks_json(const void *row, const void *all)
{
    const struct mpi_report *report = row;
    json_t *list = json_array();
    for (size_t i = 0; i < report->set.count; i++) {
        const struct mpi_stats *stats = &report->set.ranks[i];
        const struct rank_row rank = {stats, mpi_report_clock(stats, false), mpi_report_clock(stats, true),
                                      report->world_of[i]};
        json_array_append_new(list, fields_json(rank_fields, &rank, all));
    }
    return list;
}

/* ---- call sites ---- */

static json_t *site_world_json(const void *row, const void *all)
{
    const struct mpi_report *report = all;
    return json_integer(report->world_of[((const struct mpi_report_site_rank *)row)->index]);
}

static const struct field site_rank_fields[] = {
    {"rank", FIELD_COUNT, FIELD_AT(struct mpi_report_site_rank, rank)},
    {"world", FIELD_COUNT, .json = site_world_json, .about = "which MPI_COMM_WORLD of the job, from 0"},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site_rank, count)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report_site_rank, total_ns)},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_report_site_rank, open_ns)},
    {0}};

static json_t *site_ranks_json(const void *row, const void *all)
{
    const struct mpi_report_site *site = row;
    return fields_list(site_rank_fields, site->by_rank, site->ranks, sizeof *site->by_rank, all);
}

static json_t *site_call_json(const void *row, const void *all)
{
    return json_string(mpi_text_call(((const struct mpi_report_site *)row)->call));
}

static const struct field place_fields[] = {
    {"function", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, function), FIELD_ZERO_IS_NULL},
    {"file", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, file), FIELD_ZERO_IS_NULL},
    {"line", FIELD_INTEGER, FIELD_AT(struct mpi_stats_site, line), FIELD_ZERO_IS_NULL},
    {"module", FIELD_TEXT, FIELD_AT(struct mpi_stats_site, module)},
    {"offset", FIELD_COUNT, FIELD_AT(struct mpi_stats_site, offset), .about = "in the module, of the return address"},
    {0}};

static const struct field site_fields[] = {
    {"name", FIELD_TEXT, .json = site_call_json, .about = "of the call"},
    {"", FIELD_PART, FIELD_AT(struct mpi_report_site, site), FIELD_POINTER, .of = place_fields},
    {"ranks", FIELD_COUNT, FIELD_AT(struct mpi_report_site, ranks), .about = "how many called from there"},
    {"calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, count)},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_report_site, args_bytes)},
    {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, total_ns)},
    {"min_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, min_ns)},
    {"max_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, max_ns)},
    {"other_threads_calls", FIELD_COUNT, FIELD_AT(struct mpi_report_site, others_count),
     .about = "of calls, those of threads that are not the rank"},
    {"other_threads_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, others_ns), .about = "of total_ns"},
    {"open", FIELD_COUNT, FIELD_AT(struct mpi_report_site, open),
     .about = "further calls, that had not ended: in total_ns only"},
    {"open_ns", FIELD_NS, FIELD_AT(struct mpi_report_site, open_ns), .about = "of total_ns"},
    {"by_rank", FIELD_LIST, .json = site_ranks_json, .of = site_rank_fields, .about = "the ranks that call from there"},
    {0}};

static json_t *sites_json(const void *row, const void *all)
{
    const struct mpi_report *report = row;
    return fields_list(site_fields, report->sites, report->site_count, sizeof *report->sites, all);
}

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

static const struct field cell_fields[] = {
    {"world", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, world)},
    {"from", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, from), FIELD_NEGATIVE_IS_NULL,
     .about = "rank of MPI_COMM_WORLD; null: of another one"},
    {"to", FIELD_INTEGER, FIELD_AT(struct mpi_matrix_cell, to), FIELD_NEGATIVE_IS_NULL},
    {"messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, sent_count),
     .about = "of the user, as the sender counted"},
    {"bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, sent_bytes)},
    {"received_messages", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, got_count), .about = "as the receiver counted"},
    {"received_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, got_bytes)},
    {"one_sided", FIELD_COUNT, FIELD_AT(struct mpi_matrix_cell, put_count), .about = "operations of `from` on `to`"},
    {"one_sided_bytes", FIELD_BYTES, FIELD_AT(struct mpi_matrix_cell, put_bytes)},
    {0}};

static json_t *matrix_json(const void *row, const void *all)
{
    const struct mpi_matrix *matrix = &((const struct mpi_report *)row)->matrix;
    return fields_list(cell_fields, matrix->cells, matrix->count, sizeof *matrix->cells, all);
}

/* ---- all ---- */

static json_t *all_calls_json(const void *row, const void *all)
{
    return rows_json(((const struct mpi_report *)row)->calls, CALL_COUNT, all);
}

static json_t *all_spans_json(const void *row, const void *all)
{
    return rows_json(((const struct mpi_report *)row)->spans, CALL_COUNT, all);
}

static const struct field others_fields[] = {{"calls", FIELD_COUNT, FIELD_AT(struct mpi_report, others_count)},
                                             {"total_ns", FIELD_NS, FIELD_AT(struct mpi_report, others_ns)},
                                             {0}};

static const struct field mpi_fields[] = {
    {"ranks", FIELD_LIST, .json = ranks_json, .of = rank_fields},
    {"calls", FIELD_LIST, .json = all_calls_json, .of = row_fields, .about = "of all ranks"},
    {"spans", FIELD_LIST, .json = all_spans_json, .of = row_fields},
    {"time", FIELD_OBJECT, FIELD_AT(struct mpi_report, outermost), .of = clock_fields},
    {"blocking", FIELD_OBJECT, FIELD_AT(struct mpi_report, blocking), .of = clock_fields},
    {"sites", FIELD_LIST, .json = sites_json, .of = site_fields},
    {"matrix", FIELD_LIST, .json = matrix_json, .of = cell_fields},
    {"communicators", FIELD_LIST, .json = mpi_report_comms_json, .of = mpi_comm_fields},
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
