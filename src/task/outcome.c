/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/spool.h"
#include "jobdir/report/report.h"
#include "task/advance.h"
#include "task/launch.h"
#include "task/spec.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Why a run or a build is no success, for people. */

/* The last line of a file of output, for people. */
static void last_line(const struct task *task, const char *what, uint64_t run, struct buf *out)
{
    enum { TAIL = 2000, SHOWN = 300 };
    char path[PATH_MAX], tail[TAIL + 1] = "";
    snprintf(path, sizeof path, "%.*s/runs/%s%llu%s", PATH_MAX - 64, task->dir,
             what[0] == 'b' || what[0] == 'g' ? what : "", (unsigned long long)run, what[0] == '.' ? what : ".err");
    FILE *file = file_open_plain(path);
    if (!file)
        return;
    if (fseek(file, -TAIL, SEEK_END) < 0)
        rewind(file);
    size_t len = fread(tail, 1, TAIL, file);
    fclose(file);
    tail[len] = 0;
    while (len && strchr("\n\r -=*#", tail[len - 1])) /* nor a rule below a text */
        tail[--len] = 0;
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    line += strspn(line, " \t");
    if (*line)
        buf_printf(out, ": %.*s", SHOWN, line);
}

/* Does the reason say only who ended, and how? */
static bool is_wordless(const json_t *cause)
{
    enum note_kind kind = note_json_kind(cause);
    bool ended = kind == NOTE_cause_process || kind == NOTE_cause_crash || kind == NOTE_cause_rank;
    return kind == NOTE_NONE || (ended && !*member_text(json_object_get(cause, "fields"), "said"));
}

/* The reason of its job, as reports and lists of jobs have it; below one without words, and where there is none, what it said last. */
static void put_reason(const struct task *task, const char *what, uint64_t run, const struct job_info *info,
                       struct buf *out)
{
    char dir[PATH_MAX];
    struct job_report report;
    bool unknown = note_json_kind(info->cause) == NOTE_cause_unknown;
    const char *words = member_text(json_object_get(info->cause, "fields"), "words");
    const char *reason = unknown ? words : json_string_value(json_object_get(info->cause, "text"));
    buf_printf(out, "%s%s", reason && *reason ? ": " : "", reason ? reason : "");
    snprintf(dir, sizeof dir, "%.*s/runs/%s%llu", PATH_MAX - 64, task->dir, what, (unsigned long long)run);
    if (!is_wordless(info->cause))
        return;
    json_t *last = job_report_load(&report, dir, NULL) == 0 ? job_report_last(&report) : NULL;
    /* of a rank that crashed, the last is what MPI's handler of signals says of the same */
    bool handled = note_json_kind(info->cause) == NOTE_cause_rank && json_array_size(report.model.crashes);
    const json_t *lines = json_object_get(last, "said_last");
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    line = line ? line + strspn(line, " \t") : "";
    if (*line && !handled && !(reason && strstr(reason, line)))
        buf_printf(out, "%s%s", reason ? "; it said last: " : ": ", line);
    json_decref(last);
    job_report_done(&report);
}

/* Has its job a warning of that note (base/data/notes.h)? */
static bool was_noted(const struct job_info *info, const char *note)
{
    json_t *warning;
    size_t i;
    json_array_foreach(info->warnings, i, warning)
    {
        const char *its = json_string_value(json_object_get(warning, "note"));
        if (its && strcmp(its, note) == 0)
            return true;
    }
    return false;
}

/* Over hosts, no rank of it began, and its files are here: most likely they are nowhere else. */
static bool lacks_files(const struct task *task, const struct job_info *info)
{
    return strcmp(task_text(task->spec, "launch.by"), "mpirun") == 0 &&
           json_array_size(task_member(task->spec, "launch.hosts")) && !task_text(task->spec, "directory") &&
           was_noted(info, "mpi_not_seen");
}

/* Why not all of a run came here. */
static const char *why_not_here(const struct task *task, enum far_came came, uint64_t run, bool some, struct buf *out)
{
    const char *host = json_string_value(json_array_get(task_member(task->spec, "launch.hosts"), 0));
    unsigned long long number = run;
    if (came == FAR_NOTHING) { /* it may have run: nobody here knows */
        buf_printf(out,
                   some ? "there is no more of run %llu on %s, and not all of it is here"
                        : "nothing came of run %llu on %s",
                   number, host);
        size_t len = out->len;
        last_line(task, "", run, out);
        if (out->len == len)
            last_line(task, "gather", run, out);
        return "run";
    }
    buf_printf(out, came == FAR_PART ? "not all of run %llu came from %s" : "run %llu cannot be gathered from %s",
               number, host);
    last_line(task, "gather", run, out);
    buf_printf(out, json_is_true(json_object_get(task->state, "gathered_again"))
                        ? "; it stays there; a rerun runs it again"
                        : "; it stays there, and a rerun gathers it first");
    return "gather";
}

const char *task_why_failed(const struct task *task, enum task_step step, uint64_t run, const struct job_info *info,
                            enum job_state state, int code, struct buf *out)
{
    const struct job_result *result = &info->result;
    bool build = step == TASK_BUILD;
    enum far_came came = step == TASK_GATHER ? far_came(task, run) : FAR_WHOLE;
    if (came != FAR_WHOLE)
        return why_not_here(task, came, run, code == 0, out);
    if (build)
        buf_puts(out, "the build");
    else
        buf_printf(out, "run %llu", (unsigned long long)run);
    if (code < 0) {
        buf_puts(out, " did not begin");
        last_line(task, build ? "build" : "", run, out);
        if (!build && strcmp(task_text(task->spec, "launch.by"), "slurm") == 0)
            last_line(task, ".batch.err", run, out);
    } else if (state != JOB_ENDED) {
        buf_puts(out, " is gone: its scry run and its command were killed, or the machine was started again");
    } else if (result->signal == SIGXFSZ || result->exit_code == 128 + SIGXFSZ) {
        buf_puts(out, " wrote a file that is larger than its limit of space (limits.disk_bytes)");
        return "space";
    } else if (result->signal) {
        buf_printf(out, " was ended by signal %d (%s)", result->signal, strsignal(result->signal));
        put_reason(task, build ? "build" : "", run, info, out);
    } else if (result->exit_code) {
        buf_printf(out, " ended with exit status %d", result->exit_code);
        put_reason(task, build ? "build" : "", run, info, out);
        if (step == TASK_RUN && lacks_files(task, info))
            buf_printf(
                out,
                "; no rank began: its hosts need %s/files, by a file system that they share; or submit it without "
                "--file, by a path that each of them has",
                task->dir);
    } else {
        buf_clear(out);
    }
    return was_noted(info, "out_of_memory") ? "memory" : build ? "build" : "run";
}

/* Which ranks of a run are in what was recorded: a monitor that does not answer in time lets a process go without it. And what
 * may keep them from being faster. */

static bool has_trace(const struct mpi_stats *rank)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/trace/%s", rank->dir ? rank->dir : "", rank->name);
    return access(path, F_OK) == 0;
}

/* How many processes of the job its notes name that were let go (base/data/notes.h). */
static uint64_t untraced_processes(const struct job_info *info)
{
    static const char *const names[] = {"late", "refused"};
    uint64_t count = 0;
    json_t *warning;
    size_t i;
    json_array_foreach(info->warnings, i, warning)
    {
        const char *note = json_string_value(json_object_get(warning, "note"));
        json_t *processes = json_object_get(json_object_get(warning, "fields"), "processes");
        for (size_t k = 0; note && k < sizeof names / sizeof *names; k++)
            if (strcmp(note, names[k]) == 0 &&
                json_integer_value(processes) > 0) /* another machine may have written it */
                count += (uint32_t)json_integer_value(processes);
    }
    return count;
}

/* One after the other: those of a program stand together, by their ranks, and one that has executed another program is there twice. */
static void count_ranks(const struct mpi_stats_set *set, uint64_t *ret_ranks, uint64_t *ret_counted,
                        uint64_t *ret_traced)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *rank = &set->ranks[i], *before = i ? rank - 1 : NULL;
        bool same_world = before && strcmp(before->namespace, rank->namespace) == 0;
        if (!same_world && rank->world_size > 0)
            *ret_ranks += (uint64_t)rank->world_size;
        if (same_world && before->rank == rank->rank)
            continue;
        *ret_counted += 1;
        *ret_traced += has_trace(rank);
    }
}

static const struct mpi_stats_clock *clock_of(const struct mpi_stats *rank)
{
    for (size_t i = 0; i < rank->thread_count; i++)
        if (rank->threads[i].is_main && rank->threads[i].outermost.total_ns && !rank->clocks_off)
            return &rank->threads[i].outermost;
    return NULL;
}

/* Of the ranks' time: the share in MPI, and the part of it that they would not be there if each computed as long as the one that computes
 * longest. NULL: not known of all ranks, or they are of several programs. */
static json_t *limits_json(const struct mpi_stats_set *set)
{
    double total = 0, computes = 0, most = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats_clock *clock = clock_of(&set->ranks[i]);
        if (!clock || strcmp(set->ranks[i].namespace, set->ranks[0].namespace) != 0)
            return NULL;
        total += (double)clock->total_ns;
        computes += (double)clock->compute_ns;
        most = (double)clock->compute_ns > most ? (double)clock->compute_ns : most;
    }
    return total > 0 ? json_pack("{s:f, s:f}", "mpi_share", 1 - computes / total, "uneven_share",
                                 (most * (double)set->count - computes) / total)
                     : NULL;
}

/* What its node has; 0: not known. The record is among the first. */
static json_int_t node_processors(const char *jobdir)
{
    enum { LOOKED = 1000 };
    struct spool_reader reader;
    json_t *record;
    json_int_t cpus = 0;
    if (spool_reader_open(&reader, jobdir, NULL) < 0)
        return 0;
    for (int i = 0; i < LOOKED && !cpus && (record = spool_reader_next(&reader)); i++) {
        if (strcmp(member_text(record, "type"), "node") == 0)
            cpus = json_integer_value(json_object_get(record, "cpus"));
        json_decref(record);
    }
    spool_reader_close(&reader);
    return cpus;
}

json_t *task_ranks(const char *jobdir, const struct job_info *info)
{
    struct mpi_stats_set set = {0};
    uint64_t ranks = 0, counted = 0, traced = 0, let_go = untraced_processes(info);
    json_t *facts = json_pack("{s:I, s:b, s:I}", "untraced_processes", (json_int_t)let_go, "node_shared",
                              was_noted(info, "processors_taken"), "processors", node_processors(jobdir));
    if (mpi_stats_read(&set, jobdir, NULL) >= 0) {
        count_ranks(&set, &ranks, &counted, &traced);
        json_object_update_new(facts, limits_json(&set));
    }
    mpi_stats_set_done(&set);
    if (ranks)
        json_object_update_new(
            facts, json_pack("{s:I, s:I}", "ranks", (json_int_t)ranks, "ranks_counted", (json_int_t)counted));
    if (ranks && (traced || let_go)) /* else none was to be */
        json_object_set_new(facts, "ranks_traced", json_integer((json_int_t)traced));
    return facts;
}
