/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI programs did, for programs: .mpi of doc/reference/report.schema.json. */
#include "jobdir/mpi_ends.h"
#include "jobdir/mpi_report.h"
#include "jobdir/mpi_text.h"
#include "jobdir/report_internal.h"
#include "jobdir/text.h"

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* .bytes: as the arguments say. */
static json_t *row_json(const struct mpi_stats_row *row)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     mpi_text_call(row->call), "class", call_class_names[call_infos[row->call].class], "calls",
                     number(row->count), "bytes", number(row->args_bytes), "sent_bytes", number(row->sent_bytes),
                     "received_bytes", number(row->got_bytes), "total_ns", number(row->total_ns), "min_ns",
                     number(row->min_ns), "max_ns", number(row->max_ns), "other_threads_calls",
                     number(row->others_count), "other_threads_ns", number(row->others_ns), "open", number(row->open),
                     "open_ns", number(row->open_ns));
}

static json_t *rows_json(const struct mpi_stats_row *rows, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if ((rows[i].count || rows[i].open) && rows[i].call > CALL_NONE && rows[i].call < CALL_COUNT)
            json_array_append_new(list, row_json(&rows[i]));
    return list;
}

static json_t *clock_json(const struct mpi_stats_clock *clock)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "total_ns", number(clock->total_ns),
                     "computation_ns", number(clock->compute_ns), "communication_ns", number(clock->communicate_ns),
                     "count", number(clock->count), "computation_min_ns", number(clock->compute_min_ns),
                     "computation_max_ns", number(clock->compute_max_ns), "communication_min_ns",
                     number(clock->communicate_min_ns), "communication_max_ns", number(clock->communicate_max_ns),
                     "computation_open_ns", number(clock->compute_open_ns), "communication_open_ns",
                     number(clock->communicate_open_ns));
}

static json_t *threads_json(const struct mpi_stats *stats)
{
    json_t *list = json_array();
    for (size_t i = 0; i < stats->thread_count; i++) {
        const struct mpi_stats_thread *thread = &stats->threads[i];
        json_array_append_new(list, json_pack("{s:i, s:b, s:o, s:o, s:o, s:o}", "tid", thread->tid, "is_rank",
                                              thread->is_main, "name", text_json(thread->name ? thread->name : ""),
                                              "errors", number(thread->errors), "time", clock_json(&thread->outermost),
                                              "blocking", clock_json(&thread->blocking)));
    }
    return list;
}

/* As the records of the job have it; null: it runs, or they do not know. */
static json_t *end_json(const struct mpi_stats *stats)
{
    const struct mpi_stats_end *end = &stats->end;
    if (!end->known)
        return json_null();
    bool way = end->status != JOB_STATUS_UNKNOWN;
    return json_pack("{s:f, s:o, s:o, s:b}", "seconds", end->seconds, "signal",
                     way && WIFSIGNALED(end->status) ? json_integer(WTERMSIG(end->status)) : json_null(), "exit_code",
                     way && WIFEXITED(end->status) ? json_integer(WEXITSTATUS(end->status)) : json_null(), "first",
                     end->first);
}

static json_t *rank_json(const struct mpi_report *report, size_t index)
{
    static const struct mpi_stats_clock none;
    const struct mpi_stats *stats = &report->set.ranks[index];
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    const struct mpi_stats_clock *clock = thread ? &thread->outermost : &none;
    const char *fate = mpi_report_fate(stats);
    json_t *json = json_pack("{s:i, s:i, s:o, s:i, s:o, s:o, s:i, s:o, s:o, s:o, s:f}", "rank", stats->rank, "world",
                             (int)report->world_of[index], "node", text_json(stats->node), "pid", stats->pid, "program",
                             text_json(stats->exe), "library", text_json(stats->library), "thread_level",
                             stats->thread_level, "run_ns", number(clock->total_ns), "computation_ns",
                             number(clock->compute_ns), "communication_ns", number(clock->communicate_ns), "share",
                             clock->total_ns ? (double)clock->communicate_ns / (double)clock->total_ns : 0.0);
    if (!json)
        return NULL;
    json_object_set_new(json, "state", json_string(*fate ? fate : "ended"));
    json_object_set_new(json, "end", end_json(stats));
    json_object_set_new(json, "spawned", json_boolean(stats->spawned));
    json_object_set_new(json, "abort_code", stats->aborted ? json_integer(stats->abort_code) : json_null());
    json_object_set_new(json, "fault", stats->fault && *stats->fault ? text_json(stats->fault) : json_null());
    json_object_set_new(json, "omitted", number(stats->omitted));
    json_object_set_new(json, "receives_freed", number(stats->receives_freed));
    json_object_set_new(json, "resets", number(stats->resets));
    json_object_set_new(json, "reset_ns", stats->resets ? number(stats->reset_ns) : json_null());
    json_object_set_new(json, "paused_ns", number(stats->paused_ns));
    json_object_set_new(json, "init_ns", number(stats->init_ns));
    json_object_set_new(json, "finalize_ns", number(stats->finalize_ns));
    json_object_set_new(json, "started_seconds", json_real((double)stats->started_wall_ns / 1e9));
    json_object_set_new(json, "blocking", clock_json(thread ? &thread->blocking : &none));
    json_object_set_new(json, "time", clock_json(clock));
    json_object_set_new(json, "calls", rows_json(stats->rows, stats->row_count));
    json_object_set_new(json, "spans", rows_json(stats->spans, stats->span_count));
    json_object_set_new(json, "threads", threads_json(stats));
    return json;
}

static json_t *site_ranks_json(const struct mpi_report *report, const struct mpi_report_site *site)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < site->ranks; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:o, s:o, s:o}", "rank", site->by_rank[i].rank, "world",
                                        (int)report->world_of[site->by_rank[i].index], "calls",
                                        number(site->by_rank[i].count), "total_ns", number(site->by_rank[i].total_ns),
                                        "open_ns", number(site->by_rank[i].open_ns)));
    return list;
}

static json_t *sites_json(const struct mpi_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->site_count; i++) {
        const struct mpi_report_site *site = &report->sites[i];
        const struct mpi_stats_site *names = site->site;
        bool file = names->file && *names->file;
        json_array_append_new(
            list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                            "name", mpi_text_call(site->call), "function",
                            names->function && *names->function ? text_json(names->function) : json_null(), "file",
                            file ? text_json(names->file) : json_null(), "line",
                            names->line ? json_integer(names->line) : json_null(), "module",
                            text_json(names->module ? names->module : ""), "offset", number(names->offset), "ranks",
                            (int)site->ranks, "calls", number(site->count), "bytes", number(site->args_bytes),
                            "total_ns", number(site->total_ns), "min_ns", number(site->min_ns), "max_ns",
                            number(site->max_ns), "other_threads_calls", number(site->others_count), "other_threads_ns",
                            number(site->others_ns), "open", number(site->open), "open_ns", number(site->open_ns),
                            "by_rank", site_ranks_json(report, site)));
    }
    return list;
}

static json_t *matrix_json(const struct mpi_matrix *matrix)
{
    json_t *list = json_array();
    for (size_t i = 0; i < matrix->count; i++) {
        const struct mpi_matrix_cell *cell = &matrix->cells[i];
        json_array_append_new(
            list, json_pack("{s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "world", (int)cell->world, "from",
                            cell->from >= 0 ? json_integer(cell->from) : json_null(), "to",
                            cell->to >= 0 ? json_integer(cell->to) : json_null(), "messages", number(cell->sent_count),
                            "bytes", number(cell->sent_bytes), "received_messages", number(cell->got_count),
                            "received_bytes", number(cell->got_bytes), "one_sided", number(cell->put_count),
                            "one_sided_bytes", number(cell->put_bytes)));
    }
    return list;
}

static json_t *comms_json(const struct mpi_report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->comm_count; i++) {
        const struct mpi_report_comm *comm = &report->comms[i];
        const struct mpi_stats_comm *own = &comm->stats->comms[comm->index];
        static const char *const kinds[] = {"free", "intra", "inter", "window", "file"};
        struct buf name = BUF_INIT;
        mpi_text_comm(&name, comm->stats, comm->index);
        bool all = !own->ranks && (int64_t)own->size == comm->stats->world_size;
        json_t *ranks = all ? json_null() : json_array();
        for (uint32_t j = 0; j < own->size && !all; j++)
            json_array_append_new(ranks, json_integer(own->ranks ? own->ranks[j] : (int32_t)j));
        json_array_append_new(list,
                              json_pack("{s:o, s:s, s:i, s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                                        text_json(name.data ? name.data : ""), "kind",
                                        own->kind < 5 ? kinds[own->kind] : "?", "size", (int)own->size, "remote_size",
                                        (int)own->remote_size, "ranks", ranks, "seen_by", (int)comm->ranks,
                                        "collectives", number(comm->collectives), "messages", number(comm->messages),
                                        "bytes", number(comm->bytes), "collective_bytes", number(comm->coll_args),
                                        "collective_sent_bytes", number(comm->coll_sent), "collective_received_bytes",
                                        number(comm->coll_got), "one_sided_bytes", number(comm->one_sided)));
        buf_done(&name);
    }
    return list;
}

void mpi_report_json(json_t *json, const struct mpi_report *report)
{
    if (!report) {
        json_object_set_new(json, "mpi", json_null());
        return;
    }
    json_t *ranks = json_array();
    for (size_t i = 0; i < report->set.count; i++)
        json_array_append_new(ranks, rank_json(report, i));
    json_t *mpi = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:i, s:{s:o, s:o}}", "ranks", ranks, "calls",
                            rows_json(report->calls, CALL_COUNT), "spans", rows_json(report->spans, CALL_COUNT), "time",
                            clock_json(&report->outermost), "blocking", clock_json(&report->blocking), "sites",
                            sites_json(report), "matrix", matrix_json(&report->matrix), "communicators",
                            comms_json(report), "unreadable", (int)report->unreadable_count, "other_threads", "calls",
                            number(report->others_count), "total_ns", number(report->others_ns));
    json_object_set_new(json, "mpi", mpi ? mpi : json_null());
}

void report_mpi_json(json_t *object, const struct job_report *report)
{
    mpi_report_json(object, report->mpi);
}
