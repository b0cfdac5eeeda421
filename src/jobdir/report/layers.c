/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: what happened last, scripts, logs, health. jobdir/layers makes them. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "jobdir/analysis/sampled.h"
#include "jobdir/analysis/why.h"
#include "jobdir/layers/last.h"
#include "jobdir/layers/sections.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/look.h"
#include "jobdir/record/mirror.h"
#include "jobdir/report/failed.h"
#include "jobdir/report/internal.h"
#include "jobdir/report/mpi_report.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"

enum { SILENT_SAMPLES = 4 };
static const double LEAST_SILENT_SECONDS = 4; /* without any record of a node that takes samples each second */
static const double NEAR_SECONDS = 30,
                    AT_ONCE_SECONDS = 1; /* before the end; before the last of those that failed alike */

/* Whether it ended as nobody wants it; of a job that runs nothing is known yet. */
static bool has_failed(const struct job_report *report, const struct job_result *result)
{
    if (report->info.ended || report->model.end)
        return result->exit_code != 0 || result->signal;
    return report->state == JOB_LOST || report->state == JOB_UNWATCHED;
}

/* The crashes as job.json has them, which knows their places, with the numbers that their records have in the spool. */
static json_t *numbered_crashes(const struct job_report *report)
{
    json_t *crashes = json_deep_copy(report_longer(report->info.crashes, report->model.crashes)), *crash, *record;
    size_t index, at;
    json_array_foreach(crashes, index, crash)
    {
        json_array_foreach(report->model.crashes, at, record)
        {
            json_t *seq = json_object_get(record, "seq");
            if (seq && json_equal(json_object_get(record, "pid"), json_object_get(crash, "pid")))
                json_object_set(crash, "seq", seq);
        }
    }
    return crashes;
}

/* ---- ranks ---- */

/* Without MPI_Finalize, or with another status than 0 behind it; not ended by its launcher, or as that was. */
static bool rank_failed(const struct mpi_stats *stats)
{
    if (stats->rank >= 0 && stats->aborted)
        return true; /* whatever is known of its end */
    if (!stats->end.known || stats->end.status == JOB_STATUS_UNKNOWN || stats->rank < 0)
        return false;
    bool failed = mpi_ended_by_itself(stats) || WTERMSIG(stats->end.status) == SIGKILL;
    return mpi_ended_badly(stats) ? failed : stats->state == MPIA_ENDED && stats->end.status != 0 && failed;
}

/* Launchers kill the others within milliseconds: who ended by itself then was the first. */
static bool failed_before(const struct mpi_stats *stats, const struct mpi_stats *other)
{
    static const double together_seconds = 0.05;
    if (stats->aborted != other->aborted)
        return stats->aborted;
    if (mpi_ended_by_itself(stats) != mpi_ended_by_itself(other) &&
        fabs(stats->end.seconds - other->end.seconds) < together_seconds)
        return mpi_ended_by_itself(stats);
    return stats->end.seconds < other->end.seconds;
}

/* "in MPI_Recv at receive (a.c:3)": where it was when it ended; of one that computed, with `after`, what it had come out of. */
static void put_last_call(struct buf *out, const struct mpi_stats *stats, const char *after)
{
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    bool inside = thread && thread->now.call != CALL_NONE;
    const struct mpi_stats_now *now = inside ? &thread->now : thread && *after ? &thread->last : NULL;
    _cleanup_(buf_done) struct buf site = BUF_INIT;
    if (!now || now->call == CALL_NONE || stats->uncounted)
        return;
    mpi_text_site(&site, &now->site);
    if (stats->aborted) {
        buf_printf(out, site.len && now->call == CALL_MPI_Abort ? " at %s" : "", site.data);
        return;
    }
    buf_printf(out, "%s%s", !*after ? "" : inside ? ", in " : after, mpi_text_call(now->call));
    if (site.len)
        buf_printf(out, " at %s", site.data);
}

/* Of ranks that were killed at once nobody saw which had failed: what they were in may say it. NULL: it does not. */
static const struct mpi_stats *find_failed(const struct job_report *report, struct buf *ret_call)
{
    struct arena arena = {0};
    struct mpi_why why;
    const struct mpi_stats *found = NULL;
    uint32_t failed = mpi_why_failed_at_end(&why, &report->mpi->set, &arena);
    for (size_t i = 0; failed != MPI_WHY_NONE && i < report->mpi->set.count; i++) {
        const struct mpi_stats *stats = &report->mpi->set.ranks[i], *its = why.ranks[failed].stats;
        if (stats->pid == its->pid && stats->rank == its->rank && rank_failed(stats))
            found = stats;
    }
    if (found)
        mpi_why_call_at(ret_call, &why.ranks[failed]);
    arena_done(&arena);
    return found;
}

/* What MPICH says of the rank that ends all: "Abort(14) on node 1 (rank 1 in comm 0): Fatal error in ...", where that node is its rank of
 * MPI_COMM_WORLD. NULL: it says nothing. */
static const struct mpi_stats *find_named(const struct job_report *report, struct buf *ret_call)
{
    const json_t *lines = report->model.layers.logs.records, *line;
    const struct mpi_stats *found = NULL;
    int rank;
    size_t index;
    json_array_foreach(lines, index, line)
    {
        if (sscanf(member_text(line, "text"), "Abort(%*d) on node %d (rank", &rank) != 1 || report->mpi->worlds > 1)
            continue;
        for (size_t i = 0; i < report->mpi->set.count; i++)
            if (report->mpi->set.ranks[i].rank == rank && rank_failed(&report->mpi->set.ranks[i]))
                found = &report->mpi->set.ranks[i];
    }
    if (found)
        put_last_call(ret_call, found, "");
    return found;
}

const struct job_rank *report_failed_rank(const struct job_report *report, struct job_rank *ret_rank,
                                          struct buf *ret_how, struct buf *ret_call)
{
    const struct job_report *its = report;
    const struct mpi_stats *found = NULL, *failed;
    for (size_t i = 0; report->mpi && i < report->mpi->set.count; i++) {
        const struct mpi_stats *stats = &report->mpi->set.ranks[i];
        if (rank_failed(stats) && (!found || failed_before(stats, found)))
            found = stats;
    }
    if (!found)
        return NULL;
    bool killed = found->end.known && found->end.status == SIGKILL && !found->aborted;
    const struct mpi_stats *named = killed ? find_named(report, ret_call) : NULL;
    if (killed && (failed = named ? named : find_failed(report, ret_call)) != NULL)
        found = failed;
    if (mpi_ended_badly(found)) {
        mpi_end_predicate(ret_how, found);
        if (found->aborted || (found->end.known && WIFEXITED(found->end.status)))
            put_last_call(ret_how, found, ", after ");
    } else {
        char room[32];
        if (WIFSIGNALED(found->end.status))
            buf_printf(ret_how, "was killed by %s", text_signal(WTERMSIG(found->end.status), room, sizeof room));
        else
            buf_printf(ret_how, "exited with status %d", WEXITSTATUS(found->end.status));
        buf_puts(ret_how, " after MPI_Finalize");
    }
    for (size_t i = 0; i < report->part_count; i++)
        its = found->dir && strcmp(found->dir, report->parts[i].path) == 0 ? &report->parts[i] : its;
    *ret_rank =
        (struct job_rank){.rank = found->rank,
                          .ranks = found->world_size,
                          .pid = found->pid,
                          .node = report->part_count ? found->node : NULL,
                          .how = ret_how->data ? ret_how->data : "failed",
                          .status = found->end.known ? found->end.status : JOB_STATUS_UNKNOWN,
                          .aborted = found->aborted,
                          .named = named,
                          .call = ret_call->len && !ret_call->failed ? ret_call->data : NULL,
                          .seconds = found->end.known ? found->end.seconds : job_report_result(its).wall_seconds,
                          .model = &its->model,
                          .crashes = report_longer(its->info.crashes, its->model.crashes)};
    return ret_rank;
}

bool job_report_was_idle(const struct job_report *report, const struct mpi_stats *stats, uint64_t ns)
{
    enum { IDLE = 20 }; /* it has used the processor for less than that part of it */
    const struct job_model *model = &report->model;
    for (size_t i = 0; i < report->part_count; i++)
        if (stats->dir && strcmp(stats->dir, report->parts[i].path) == 0)
            model = &report->parts[i].model;
    const struct job_process *process = job_model_ended(model, stats->pid);
    return process && process->cpu_ns < ns / IDLE;
}

/* What was seen of it meanwhile, by the last such note; NULL: nothing. */
static const char *late_seen(const struct job_report *report, pid_t pid, enum note_kind kind, const char *field)
{
    const char *seen = NULL;
    size_t index;
    json_t *warning;
    json_array_foreach(job_report_warnings(report), index, warning)
    {
        const json_t *fields = json_object_get(warning, "fields");
        if (note_json_kind(warning) == kind && json_integer_value(json_object_get(fields, "pid")) == pid)
            seen = json_string_value(json_object_get(fields, field));
    }
    return seen;
}

bool job_report_stood(const struct job_report *report, const struct mpi_stats *stats, uint64_t ns, struct buf *out)
{
    if (late_seen(report, stats->pid, NOTE_mpi_late, "where"))
        return false; /* it computed */
    const char *waits = late_seen(report, stats->pid, NOTE_mpi_late_waits, "what");
    if (waits)
        text_show(out, waits);
    return waits ||
           sampled_put_stood(out, stats->dir ? stats->dir : report->path, stats->pid, (double)ns / NS_PER_SECOND);
}

/* "rank 1 computed in f (a.c:2) for 67 s while 3 ranks waited for it, rank 0 in MPI_Barrier at solve (a.c:4)", or
 * "rank 1 sleeps, at f (a.c:2), and for 67 s 3 ranks waited for it, ...". */
static void put_late(struct buf *out, const struct job_report *report, const struct mpi_why *why,
                     const struct mpi_why_finding *finding)
{
    const struct mpi_why_rank *late = &why->ranks[finding->ranks[0]], *victim = &why->ranks[finding->victims[0]];
    const char *place = late_seen(report, late->stats->pid, NOTE_mpi_late, "where");
    const char *plural = finding->victim_count == 1 ? "" : "s";
    _cleanup_(buf_done) struct buf stood = BUF_INIT;
    bool waits = job_report_stood(report, late->stats, why->still_ns, &stood) && !stood.failed;
    bool idle = job_report_was_idle(report, late->stats, why->still_ns);
    if (waits)
        buf_printf(out, "rank %d %s, and for ", late->stats->rank, stood.data);
    else
        buf_printf(out, "rank %d %s%s%s for ", late->stats->rank, idle ? "slept or waited outside of MPI" : "computed",
                   place && !idle ? " in " : "", place && !idle ? place : "");
    text_seconds(out, (double)why->still_ns / NS_PER_SECOND);
    if (waits)
        buf_printf(out, " %zu rank%s waited for it, ", finding->victim_count, plural);
    else
        buf_printf(out, " while %zu rank%s waited for it, ", finding->victim_count, plural);
    if (finding->victim_count > 1)
        buf_printf(out, "rank %d ", victim->stats->rank);
    buf_puts(out, "in ");
    mpi_why_call_at(out, victim);
}

/* When the first of the stuck ones came to MPI_Finalize, if others of them did not; 0: none did, or all. */
static double find_left(const struct job_report *report, const struct mpi_why *why)
{
    uint64_t ago_ns = mpi_why_finalizing_ns(why);
    double ended = 0;
    for (size_t i = 0; i < report->mpi->set.count; i++)
        if (report->mpi->set.ranks[i].end.known)
            ended = number_max(ended, report->mpi->set.ranks[i].end.seconds);
    ended = ended > 0 ? ended : job_report_result(report).wall_seconds;
    return ago_ns ? ended - (double)ago_ns / NS_PER_SECOND : 0;
}

void report_last_waits(const struct job_report *report, struct buf *ret_text, struct job_end *ret_end)
{
    struct arena arena = {0};
    struct mpi_why why;
    if (report->mpi && mpi_why_find_at_end(&why, &report->mpi->set, &arena)) {
        if (mpi_why_is_stuck(&why)) {
            mpi_why_reason(ret_text, &why);
            ret_end->stuck_ranks = why.stuck;
            ret_end->stuck = ret_text->data;
            ret_end->left = find_left(report, &why);
        } else if (mpi_why_asked(&why)) {
            mpi_why_reason(ret_text, &why);
            ret_end->waited = ret_text->data;
        } else {
            put_late(ret_text, report, &why, mpi_why_waited(&why));
            ret_end->late_ranks = why.waiting;
            *(mpi_why_late(&why) ? &ret_end->late : &ret_end->waited) = ret_text->data;
        }
    }
    arena_done(&arena);
    if (!ret_text->len || ret_text->failed)
        ret_end->stuck = ret_end->late = ret_end->waited = NULL;
}

/* ---- over several nodes ---- */

static double seconds_of(const json_t *chain)
{
    return json_number_value(json_object_get(json_array_get(chain, 0), "end_seconds"));
}

/* A launcher ends with the status of a rank that failed, and ends the others by SIGTERM or SIGKILL: did the first one here
 * fail by itself? */
static bool failed_by_itself(const json_t *chain, int status)
{
    const json_t *first = json_array_get(chain, 0), *code = json_object_get(first, "exit_code");
    int signo = (int)json_integer_value(json_object_get(first, "signal"));
    return json_array_size(chain) > 1 &&
           (json_is_integer(code) ? json_integer_value(code) == status : signo && signo != SIGTERM && signo != SIGKILL);
}

/* The part on which a process failed with the command's status: of all that failed so at the end of the job, the first
 * one. NULL: it failed on the job's own node, or that is not known. */
static const struct job_report *find_elsewhere(const struct job_report *report, const struct job_end *end,
                                               json_t **ret_chain)
{
    const struct job_report *found = NULL;
    bool here = failed_by_itself(end->chain, end->exit_code);
    double last = here ? seconds_of(end->chain) : -1, first = here ? last : end->seconds + NEAR_SECONDS;
    _cleanup_(freep) json_t **chains = calloc(report->part_count + 1, sizeof(json_t *));
    for (size_t i = 0; chains && i < report->part_count; i++) {
        chains[i] = report_failed_with_json(&report->parts[i].model, end->exit_code);
        double seconds = chains[i] ? seconds_of(chains[i]) + report->parts[i].shift : -1;
        last = seconds > last ? seconds : last;
    }
    first = here && first >= last - AT_ONCE_SECONDS ? first : end->seconds + NEAR_SECONDS;
    for (size_t i = 0; chains && i < report->part_count; i++) {
        double seconds = chains[i] ? seconds_of(chains[i]) + report->parts[i].shift : -1;
        if (chains[i] && seconds >= last - AT_ONCE_SECONDS && seconds < first) {
            first = seconds;
            found = &report->parts[i];
            json_decref(*ret_chain);
            *ret_chain = json_incref(chains[i]);
        }
        json_decref(chains[i]);
    }
    return found;
}

static void shift_chain(json_t *chain, double seconds)
{
    static const char *const names[] = {"start_seconds", "end_seconds"};
    size_t index;
    json_t *process;
    json_array_foreach(chain, index, process) for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    {
        const json_t *at = json_object_get(process, names[i]);
        if (at)
            json_object_set_new(process, names[i], json_real(json_number_value(at) + seconds));
    }
}

/* Where the first rank that failed was; NULL: on the job's own node. */
static const struct job_report *part_of_rank(const struct job_report *report, const struct job_rank *rank,
                                             json_t **ret_chain)
{
    for (size_t i = 0; i < report->part_count; i++) {
        if (rank->model != &report->parts[i].model)
            continue;
        *ret_chain = report_failed_with_json(rank->model, starter_shell_status(rank->status));
        return *ret_chain ? &report->parts[i] : NULL;
    }
    return NULL;
}

/* Why the command failed, if that happened on another node: it becomes the reason, and .elsewhere. */
static void look_elsewhere(const struct job_report *report, const struct job_end *end, json_t *last)
{
    json_t *chain = NULL, *said = json_object_get(last, "reason");
    bool rank = note_json_kind(said) == NOTE_cause_rank;
    bool silent = note_json_kind(said) == NOTE_cause_node_lost && end->lost->silent;
    if (!report->part_count || !end->exit_code || end->signal ||
        (json_is_true(json_object_get(said, "sure")) && !rank) || note_json_kind(said) == NOTE_cause_signal ||
        note_json_kind(said) == NOTE_cause_asked || silent)
        return;
    const struct job_report *part =
        rank ? part_of_rank(report, end->rank, &chain) : find_elsewhere(report, end, &chain);
    if (part) {
        const char *name = json_string_value(json_array_get(report->info.argv, 0));
        const char *node = part->info.host && *part->info.host ? part->info.host : text_base(part->path);
        json_array_append_new(chain,
                              json_pack("{s:i, s:o, s:f, s:f, s:i, s:n, s:O?, s:b, s:n}", "pid", 0, "name",
                                        text_json(name ? text_base(name) : "the command"), "start_seconds",
                                        -part->shift, "end_seconds", end->seconds - part->shift, "exit_code",
                                        end->exit_code, "signal", "argv", report->info.argv, "argv_cut", 0, "cwd"));
        json_t *crashes = numbered_crashes(part);
        const struct job_end there = {.model = &part->model,
                                      .dir = part->path,
                                      .warnings = job_report_warnings(part),
                                      .crashes = crashes,
                                      .chain = chain,
                                      .exit_code = end->exit_code,
                                      .seconds = end->seconds - part->shift};
        json_t *reason = last_reason_json(&there);
        const char *text = json_string_value(json_object_get(reason, "text"));
        if (text && !rank) {
            json_object_set_new(reason, "text", json_sprintf("on node %s: %s", node, text));
            json_object_set(last, "reason", reason);
        }
        shift_chain(chain, part->shift);
        json_object_set_new(last, "elsewhere", json_pack("{s:o, s:O}", "node", text_json(node), "chain", chain));
        json_decref(reason);
        json_decref(crashes);
    }
    json_decref(chain);
}

/* ---- nodes that were lost ---- */

/* Whether it is the ssh that led there, and the connection broke: else it has the status of what it ran. */
static bool is_broken_ssh(const struct job_process *process, const char *node)
{
    enum { SSH_BROKE = 255 };
    size_t index;
    json_t *argument;
    if (strcmp(process->name, "ssh") != 0 || process->status == JOB_STATUS_UNKNOWN || !WIFEXITED(process->status) ||
        WEXITSTATUS(process->status) != SSH_BROKE)
        return false;
    json_array_foreach(process->argv, index, argument)
    {
        const char *word = json_string_value(argument), *at = word ? strchr(word, '@') : NULL;
        if (word && strcmp(at ? at + 1 : word, node) == 0)
            return true;
    }
    return false;
}

bool report_node_broke(const struct job_model *model, const char *node, double *ret_seconds)
{
    bool broke = false;
    for (size_t i = 0; i < model->ended_count; i++) {
        if (!is_broken_ssh(&model->ended[i], node))
            continue;
        *ret_seconds = broke && *ret_seconds > model->ended[i].end ? *ret_seconds : model->ended[i].end;
        broke = true;
    }
    return broke;
}

/* Those of it, and those that nothing is known of, as their statistics went with it. */
static void put_lost_ranks(struct buf *out, const struct job_report *report, const char *node)
{
    const struct mpi_stats_set *set = report->mpi ? &report->mpi->set : NULL;
    int size = set && set->count ? set->ranks[0].world_size : 0, shown = 0;
    enum { RANKS_SHOWN = 8 };
    for (int rank = 0; rank < size && report->mpi->worlds <= 1; rank++) {
        const struct mpi_stats *found = NULL;
        for (size_t i = 0; i < set->count; i++)
            found = set->ranks[i].rank == rank ? &set->ranks[i] : found;
        if (found && strcmp(found->node, node) != 0)
            continue;
        if (shown++ < RANKS_SHOWN)
            buf_printf(out, "%s %d", shown == 1 ? ", with rank" : ",", rank);
    }
    if (shown > RANKS_SHOWN)
        buf_printf(out, " and %d more", shown - RANKS_SHOWN);
}

/* Nothing comes from it any more: so its monitor is asked in vain, or its records, which are seen here, do not grow. In a mirror, that
 * is said of what is mirrored. */
static bool is_silent(const struct job_report *report, const struct job_report *part)
{
    json_t *own = mirror_read_remote(report->path), *remote = own ? NULL : mirror_read_remote(part->path);
    bool silent =
        !own && (remote ? json_is_false(json_object_get(remote, "connected")) : part->state == JOB_UNREACHABLE);
    json_decref(own);
    json_decref(remote);
    return silent && part->info.host && report->info.host && strcmp(part->info.host, report->info.host) != 0;
}

/* The one that was lost last, to which an ssh led if there is one; NULL: none is known to be. Pass *ret_ranks to buf_done. */
static const struct job_lost *find_lost(const struct job_report *report, struct job_lost *ret_lost,
                                        struct buf *ret_ranks)
{
    *ret_lost = (struct job_lost){0};
    for (size_t i = 0; i < report->part_count; i++) {
        const struct job_report *part = &report->parts[i];
        double heard = part->model.last_seconds + part->shift;
        struct job_lost lost = {.node = text_base(part->path), .seconds = heard, .broke = heard};
        if (part->info.ended)
            continue;
        if (!report_node_broke(&report->model, lost.node, &lost.broke)) {
            double samples = SILENT_SAMPLES * part->info.sample_seconds;
            lost.silent = samples > LEAST_SILENT_SECONDS ? samples : LEAST_SILENT_SECONDS;
            if (!is_silent(report, part))
                continue;
        }
        bool better = !ret_lost->node || (!lost.silent && ret_lost->silent) ||
                      (!lost.silent == !ret_lost->silent && lost.broke > ret_lost->broke);
        *ret_lost = better ? lost : *ret_lost;
    }
    if (!ret_lost->node)
        return NULL;
    put_lost_ranks(ret_ranks, report, ret_lost->node);
    ret_lost->ranks = ret_ranks->data ? ret_ranks->data : "";
    return ret_lost;
}

/* What ranks waited for was seen as the job ended, or stands behind the same reason. Those that it left may have gone on, or were ended in
 * another way. */
static void keep_wait(const struct job_report *report, json_t *last)
{
    json_t *seen = report->info.cause;
    enum note_kind kind = note_json_kind(seen);
    const char *before = json_string_value(json_object_get(seen, "text"));
    const char *now = json_string_value(json_object_get(json_object_get(last, "reason"), "text"));
    bool says_more = report->mpi && before && now && strncmp(before, now, strlen(now)) == 0;
    if (kind == NOTE_cause_mpi_stall || kind == NOTE_cause_mpi_late || says_more)
        json_object_set(last, "reason", seen);
}

json_t *job_report_last(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    if (report->last)
        return json_incref(report->last);
    if ((!report->model.layers.records && result.started) || report->one_rank || !has_failed(report, &result))
        return NULL;
    json_t *failed =
        report->failed ? json_incref(report->failed) : report_failed_json(&report->model, report->info.supervisor);
    json_t *crashes = numbered_crashes(report);
    struct job_rank rank;
    struct job_lost lost;
    _cleanup_(buf_done) struct buf how = BUF_INIT, call = BUF_INIT, ranks = BUF_INIT, stuck = BUF_INIT;
    struct job_end end = {.model = &report->model,
                          .rank = report_failed_rank(report, &rank, &how, &call),
                          .lost = find_lost(report, &lost, &ranks),
                          .dir = report->path,
                          .warnings = job_report_warnings(report),
                          .crashes = crashes,
                          .chain = json_object_get(failed, "chain"),
                          .exit_code = result.exit_code,
                          .signal = result.signal,
                          .reason = result.reason,
                          .not_started = !result.started,
                          .peak_rss = result.processes == 1 ? result.peak_rss_bytes : 0,
                          .largest_rss = result.peak_rss_bytes,
                          .seconds = result.wall_seconds};
    report_last_waits(report, &stuck, &end);
    json_t *last = last_json(&end);
    look_elsewhere(report, &end, last);
    keep_wait(report, last);
    if (job_report_is_lost(report)) /* nobody knows that it failed */
        json_object_set_new(last, "unknown", json_null());
    json_decref(failed);
    json_decref(crashes);
    return last;
}

void report_last_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    json_t *last = job_report_last(report);
    if (note_json_kind(report->info.cause) == NOTE_hidden_failure) {
        text_label_in(out, "trouble", style.colour ? TEXT_RED : NULL);
        text_show(out, json_string_value(json_object_get(report->info.cause, "text")));
        buf_putc(out, '\n');
    }
    last_text(out, last, whole, style.colour ? TEXT_RED : NULL);
    json_decref(last);
}

void report_scripts_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    scripts_text(out, &report->model.layers);
}

void report_metrics_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!metrics_brief_text(&text, &report->model.layers))
        return;
    text_label(out, "metrics");
    buf_append(out, text.data, text.len);
    buf_putc(out, '\n');
}

void report_logs_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    logs_text(out, &report->model.layers, style.ascii);
}

void report_health_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    health_text(out, &report->model.layers, style.ascii);
}

static json_t *last_member(const void *row, const void *all)
{
    json_t *last = job_report_last(row), *json = last ? json_copy(last) : json_null();
    json_object_del(json, "elsewhere"); /* it is a member of its own */
    json_decref(last);
    return json;
}

const struct field report_last_fields[] = {
    {"last", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = last_member, .of = last_fields,
     .about = "what happened last in all layers; null: the job did not fail, or nothing but processes was recorded"},
    {0}};

const struct field report_layer_fields[] = {
    {"scripts", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = scripts_fields},
    {"logs", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = logs_fields},
    {"health", FIELD_OBJECT, FIELD_AT(struct job_report, model.layers), .of = health_fields},
    {0}};
