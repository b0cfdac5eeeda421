/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a report: what happened last, scripts, logs, health. jobdir/layers makes them. */
#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/analysis/why.h"
#include "jobdir/layers/culprit.h"
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

enum {
    SAID_COLUMNS = 160,
    SHELL_SIGNAL = 128, /* and the signal's number: the status that a shell gives to it */
    LOOKS_MOST = 64,    /* each takes a look at all processes */
    SILENT_SAMPLES = 4
};
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

/* The first rank that failed; NULL: none is known. Pass *ret_how and *ret_call to buf_done. */
static const struct job_rank *find_rank(const struct job_report *report, struct job_rank *ret_rank, struct buf *ret_how,
                                        struct buf *ret_call)
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
    if (killed && (failed = find_failed(report, ret_call)) != NULL)
        found = failed;
    if (mpi_ended_badly(found)) {
        mpi_end_predicate(ret_how, found);
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
    for (size_t i = model->ended_count; i-- > 0;)
        if (model->ended[i].pid == stats->pid)
            return model->ended[i].cpu_ns < ns / IDLE;
    return false;
}

/* Where it was seen to compute meanwhile; NULL: it was not. */
static const char *late_place(const struct job_report *report, pid_t pid)
{
    const char *place = NULL;
    size_t index;
    json_t *warning;
    json_array_foreach(job_report_warnings(report), index, warning)
    {
        const json_t *fields = json_object_get(warning, "fields");
        if (note_json_kind(warning) == NOTE_mpi_late && json_integer_value(json_object_get(fields, "pid")) == pid)
            place = json_string_value(json_object_get(fields, "where"));
    }
    return place;
}

/* "rank 1 computed in f (a.c:2) for 67 s while 3 ranks waited for it, rank 0 in MPI_Barrier at solve (a.c:4)". */
static void put_late(struct buf *out, const struct job_report *report, const struct mpi_why *why,
                     const struct mpi_why_finding *finding)
{
    const struct mpi_why_rank *late = &why->ranks[finding->ranks[0]], *victim = &why->ranks[finding->victims[0]];
    bool idle = job_report_was_idle(report, late->stats, why->still_ns);
    const char *place = idle ? NULL : late_place(report, late->stats->pid);
    buf_printf(out, "rank %d %s%s%s for ", late->stats->rank, idle ? "slept or waited outside of MPI" : "computed",
               place ? " in " : "", place ? place : "");
    text_seconds(out, (double)why->still_ns / NS_PER_SECOND);
    buf_printf(out, " while %zu rank%s waited for it, ", finding->victim_count, finding->victim_count == 1 ? "" : "s");
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
            ended = fmax(ended, report->mpi->set.ranks[i].end.seconds);
    ended = ended > 0 ? ended : job_report_result(report).wall_seconds;
    return ago_ns ? ended - (double)ago_ns / NS_PER_SECOND : 0;
}

/* What the ranks waited for each other in when they were ended, or for one that was late. */
static void find_waits(const struct job_report *report, struct buf *ret_text, struct job_end *ret_end)
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
        int status = WIFSIGNALED(rank->status) ? 128 + WTERMSIG(rank->status) : WEXITSTATUS(rank->status);
        *ret_chain = report_failed_with_json(rank->model, status);
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

/* What ranks waited for was seen as the job ended. Those that it left may have gone on, or were ended in another way. */
static void keep_wait(const struct job_report *report, json_t *last)
{
    json_t *seen = report->info.cause;
    enum note_kind kind = note_json_kind(seen);
    if (kind == NOTE_cause_mpi_stall || kind == NOTE_cause_mpi_late)
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
                          .rank = find_rank(report, &rank, &how, &call),
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
    find_waits(report, &stuck, &end);
    json_t *last = last_json(&end);
    look_elsewhere(report, &end, last);
    keep_wait(report, last);
    if (job_report_is_lost(report)) /* nobody knows that it failed */
        json_object_set_new(last, "unknown", json_null());
    json_decref(failed);
    json_decref(crashes);
    return last;
}

/* ---- exit status 0 ---- */

/* Whether the line is of standard output, which may be data (`grep ERROR big.log >hits`), and which --log does not name. */
static bool may_be_data(const struct layers *layers, const json_t *record)
{
    static const char output[] = "stdout";
    const char *file = json_string_value(json_object_get(record, "file"));
    const struct layer_last *state;
    HASH_FIND_STR(layers->log_files, output, state);
    return file && strcmp(file, output) == 0 &&
           !(state && json_array_size(json_object_get(state->record, "expressions")));
}

static bool is_no_space(const json_t *record)
{
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    return pattern && strcmp(pattern, "no_space") == 0;
}

/* Whether something ran then that shows the text of others. */
static bool was_text_shown(const struct job_model *model, double seconds)
{
    static const char *const names[] = {"grep", "egrep", "fgrep", "zgrep", "rg",   "sed",  "awk",        "gawk",
                                        "mawk", "cat",   "zcat",  "tail",  "head", "less", "journalctl", "dmesg"};
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            if (process->start <= seconds && process->end >= seconds - AT_ONCE_SECONDS &&
                strcmp(process->name, names[k]) == 0)
                return true;
    }
    return false;
}

/* "(attempt 2)": what is said once more is no failure of a job that ended well, nor that there is no version to be told. */
static bool is_of_attempt(const char *text)
{
    static const char *const words[] = {"attempt ",  "attempt#",     "attempt #",           "retry ",
                                        "try again", "trying again", "not a git repository"};
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i]))
            return true;
    return false;
}

/* "srun: error: Unable to create step": a launcher that did not get over it has failed, too, which is told by itself. */
static bool is_of_launcher(const char *text)
{
    char name[JOB_NAME_SIZE];
    size_t len = text ? strcspn(text, ": ") : 0;
    if (!len || len >= sizeof name || text[len] != ':')
        return false;
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    return starter_of(name) == STARTER_LAUNCHER;
}

/* git that was asked for the version of what is no repository, or has none: a script that goes on does not need it. */
static bool asks_for_version(const struct job_process *process)
{
    static const char *const asked[] = {"status", "describe", "rev-parse", "log", "show", "diff", "branch"};
    size_t index;
    const json_t *word;
    if (strcmp(process->name, "git") != 0)
        return false;
    json_array_foreach(process->argv, index, word)
    {
        for (size_t i = 0; index && i < sizeof asked / sizeof *asked; i++)
            if (strcmp(json_string_value(word), asked[i]) == 0)
                return true;
    }
    return false;
}

/* Whether it begins with that name, or with a path to it. */
static bool begins_with_name(const char *text, const char *name)
{
    size_t len = strlen(name), path = strcspn(text, ": \t");
    const char *base = memrchr(text, '/', path);
    return (strncmp(text, name, len) == 0 && text[len] == ':') ||
           (base && text[path] == ':' && (size_t)(text + path - base - 1) == len && strncmp(base + 1, name, len) == 0);
}

/* Whether what started it, or that, failed, and that was handled. */
static bool is_below_handled(const struct job_model *model, const struct job_process *process)
{
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *parent = &model->ended[i];
        if (parent->pid == process->ppid && parent->start <= process->start && parent->end >= process->end)
            return culprit_has_failed(parent) && culprit_is_handled(model, parent);
    }
    return false;
}

/* Whether it is of processes alone whose failure whoever started them has handled: it begins with their name, or is what Python says of
 * an exception. */
static bool is_of_handled(const struct job_model *model, const json_t *record)
{
    static const char python[] = "python";
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    bool exception = pattern && (strcmp(pattern, "exception") == 0 || strcmp(pattern, "traceback") == 0), any = false;
    double seconds = record_seconds(record);
    size_t looks = 0;
    for (size_t i = model->ended_count; text && i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        bool its = (exception && strncmp(process->name, python, sizeof python - 1) == 0) ||
                   begins_with_name(text, process->name);
        if (!its || !culprit_has_failed(process) || process->start > seconds ||
            process->end < seconds - AT_ONCE_SECONDS)
            continue;
        if (looks++ >= LOOKS_MOST || !culprit_is_handled(model, process))
            return false;
        any = true;
    }
    return any;
}

/* The last one that failed shortly before: a line is read a little after it was written, and others may have begun since. */
static const struct job_process *last_failure(const struct job_model *model, double seconds)
{
    static const double LATE_SECONDS = 0.2;
    const struct job_process *found = NULL;
    for (size_t i = model->ended_count; i-- > 0 && model->ended[i].end >= seconds - AT_ONCE_SECONDS;) {
        const struct job_process *process = &model->ended[i];
        if (culprit_has_failed(process) && process->end <= seconds && process->end >= seconds - LATE_SECONDS &&
            (!found || process->end > found->end))
            found = process;
    }
    return found;
}

/* Whether only processes can have said it whose failure was handled: beside the last one that failed, or at that time, no others were
 * there but shells and make. */
static bool is_of_handled_alone(const struct job_model *model, double seconds)
{
    const struct job_process *last = last_failure(model, seconds);
    double from = last ? last->start : seconds - AT_ONCE_SECONDS, until = last ? last->end : seconds;
    bool any = false;
    size_t looks = 0;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        bool failed = culprit_has_failed(process);
        if (process->start >= until || process->end < (failed ? seconds - AT_ONCE_SECONDS : from) ||
            starter_is_shell(process->name, process->argv) || strcmp(process->name, "make") == 0)
            continue;
        if (looks++ >= LOOKS_MOST || !(failed ? culprit_is_handled(model, process) : is_below_handled(model, process)))
            return false;
        any |= failed;
    }
    return any;
}

/* What Python says of an exception that it has caught: it ended well, and it was none that ended a thread, or a task. */
static bool is_caught(const struct job_model *model, const json_t *record)
{
    static const char python[] = "python";
    const char *pattern = json_string_value(json_object_get(record, "pattern"));
    double seconds = record_seconds(record);
    size_t index;
    const json_t *other;
    if (!pattern || strcmp(pattern, "exception") != 0 || !json_is_string(json_object_get(record, "place")))
        return false;
    json_array_foreach(model->layers.logs.records, index, other)
    {
        const char *its = json_string_value(json_object_get(other, "pattern"));
        if (its && strcmp(its, "python_unraised") == 0 && record_seconds(other) >= seconds - AT_ONCE_SECONDS &&
            record_seconds(other) <= seconds)
            return false;
    }
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (process->start <= seconds && process->end >= seconds - AT_ONCE_SECONDS &&
            strncmp(process->name, python, sizeof python - 1) == 0)
            return !process->status;
    }
    return false;
}

/* Whether it is that a pipe is broken, and its reader was in a pipeline and wanted no more. */
static bool is_of_unread(const struct job_model *model, const char *text, double seconds)
{
    static const char system[] = "broken pipe", python[] = "BrokenPipe";
    size_t looks = 0;
    if (!text || (!strcasestr(text, system) && !strstr(text, python)))
        return false;
    for (size_t i = model->ended_count; i-- > 0 && looks < LOOKS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || process->start > seconds || process->end < seconds - AT_ONCE_SECONDS)
            continue;
        looks++;
        if (culprit_is_unread(model, process))
            return true;
    }
    return false;
}

/* Whether tests of Python's unittest said it which then all passed: they try what fails, too. */
static bool is_of_tests(const struct job_model *model, const json_t *record)
{
    static const char all[] = "s OK";
    double seconds = record_seconds(record);
    size_t index;
    const json_t *other;
    json_array_foreach(model->layers.logs.records, index, other)
    {
        const char *pattern = json_string_value(json_object_get(other, "pattern"));
        const char *text = json_string_value(json_object_get(other, "text"));
        double passed = record_seconds(other);
        if (!pattern || strcmp(pattern, "tests") != 0 || !text || !strstr(text, all) || passed < seconds ||
            !json_equal(json_object_get(other, "file"), json_object_get(record, "file")))
            continue;
        for (size_t i = model->ended_count; i-- > 0;) {
            const struct job_process *process = &model->ended[i];
            if (process->start <= seconds && process->end >= passed - AT_ONCE_SECONDS && !process->status &&
                !starter_is_shell(process->name, process->argv) && strcmp(process->name, "make") != 0)
                return true;
        }
    }
    return false;
}

/* The last error of a log. The job has got over those of long before its end, but what a full disk did not take is missing. Programs
 * that go on after that often say it in standard output. */
static const json_t *last_error(const struct job_model *model, double end)
{
    const struct layers *layers = &model->layers;
    const json_t *record;
    for (size_t i = json_array_size(layers->errors.records); i-- > 0;) {
        record = json_array_get(layers->errors.records, i);
        const char *text = json_string_value(json_object_get(record, "text"));
        bool full = is_no_space(record), data = may_be_data(layers, record);
        if ((full || record_seconds(record) >= end - NEAR_SECONDS) &&
            (!data || (full && !was_text_shown(model, record_seconds(record)))) && !is_of_attempt(text) &&
            !is_of_launcher(text) && !is_of_handled(model, record) &&
            !is_of_handled_alone(model, record_seconds(record)) && !is_caught(model, record) &&
            !is_of_unread(model, text, record_seconds(record)) && !is_of_tests(model, record))
            return record;
    }
    return NULL;
}

/* Whether the line begins with its name, or with that of the script that it executes. */
static bool is_of_process(const char *text, const struct job_process *process)
{
    size_t index;
    const json_t *word;
    if (begins_with_name(text, process->name))
        return true;
    json_array_foreach(process->argv, index, word)
    {
        const char *script = json_string_value(word);
        if (index && script && *script != '-')
            return begins_with_name(text, text_base(script));
    }
    return false;
}

/* Of a process that failed, the line that begins with its name, also of the last ones: what fails and says nothing may be a test, or end by
 * SIGPIPE because nobody wants more. */
static const char *said_by(const struct layers *layers, const struct job_process *process)
{
    size_t index;
    json_t *record;
    const char *file = json_string_value(json_object_get(layers->last_lines, "file"));
    json_array_foreach(layers->logs.records, index, record)
    {
        const char *text = json_string_value(json_object_get(record, "text"));
        enum line_level level = line_level_of(json_string_value(json_object_get(record, "level")));
        if (text && level <= LINE_WARNING && is_of_process(text, process) && !may_be_data(layers, record))
            return text;
    }
    json_array_foreach(json_object_get(layers->last_lines, "lines"), index, record)
    {
        const char *text = json_string_value(record);
        if (file && strcmp(file, "stderr") == 0 && text && is_of_process(text, process))
            return text;
    }
    return NULL;
}

/* With the status that shells give to a signal by which others are ended that are wanted no more: programs that handle it end so, too. */
static bool ended_as_wanted(const struct job_process *process)
{
    int signo = WIFEXITED(process->status) ? WEXITSTATUS(process->status) - SHELL_SIGNAL : 0;
    return signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGPIPE;
}

/* The last line of standard error, if it has words of failure, was written while the process was there, and has no other's name. `alone`: nor was there another
 * program, but shells. */
static const char *said_meanwhile(const struct job_model *model, const struct job_process *process, bool alone)
{
    static const double COARSE_SECONDS = 0.01; /* times of files */
    const json_t *last = model->layers.last_lines, *lines = json_object_get(last, "lines");
    const char *file = json_string_value(json_object_get(last, "file"));
    const char *line = json_string_value(json_array_get(lines, json_array_size(lines) - 1));
    double quiet = json_number_value(json_object_get(last, "quiet_seconds")), at = record_seconds(last) - quiet;
    if (!file || strcmp(file, "stderr") != 0 || !line || !*line || isspace((unsigned char)*line) || quiet < 0 ||
        at < process->start - COARSE_SECONDS || at > process->end + COARSE_SECONDS || is_of_attempt(line) ||
        ended_as_wanted(process) || !cause_is_complaint(line) || starter_is_shell(process->name, process->argv))
        return NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *other = &model->ended[i];
        bool beside = other->start < process->end && other->end > process->start;
        if (other != process &&
            ((alone && beside && !starter_is_shell(other->name, other->argv)) || begins_with_name(line, other->name)))
            return NULL;
    }
    return line;
}

static void put_said(struct buf *out, const char *said)
{
    buf_printf(out, ": %.*s", (int)text_fit(said, strlen(said), SAID_COLUMNS), said);
}

/* Where standard error is not read, or goes to tee, nothing is known of what it said. What has said nothing, and ended with 1, may be a
 * test. */
static bool find_hidden_stage(const struct job_model *model, struct buf *out)
{
    const struct layer_last *state;
    HASH_FIND_STR(model->layers.log_files, "stderr", state);
    const char *how = json_string_value(json_object_get(state ? state->record : NULL, "state"));
    size_t looks = 0;
    for (size_t i = model->ended_count; how && i-- > 0 && looks < LOOKS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || !WIFEXITED(process->status) || culprit_is_answer(process) ||
            asks_for_version(process) || ended_as_wanted(process))
            continue;
        looks++;
        const char *said = culprit_is_stage(model, process) ? said_meanwhile(model, process, false) : NULL;
        if (!culprit_is_stage(model, process) ||
            (strcmp(how, "watched") == 0 && !said && culprit_status(process) == 1 &&
             !culprit_has_tee(model, process->pid)))
            continue;
        buf_printf(out, "%s (pid %d) failed with %d in a pipeline", process->name, (int)process->pid,
                   WEXITSTATUS(process->status));
        if (said)
            put_said(out, said);
        return true;
    }
    return false;
}

/* Nothing failed, but the disk that the job works on became full: who does not look at what its writes return says nothing. */
static bool find_full_disk(const struct job_report *report, struct buf *out)
{
    const struct job_end end = {
        .model = &report->model, .dir = report->path, .seconds = job_report_result(report).wall_seconds};
    const struct layer_filesystem *system = cause_full_disk(&end);
    size_t index;
    const json_t *row;
    json_array_foreach(json_object_get(report->model.layers.health, "filesystems"), index, row)
    {
        const char *path = json_string_value(json_object_get(row, "path"));
        const char *uses = json_string_value(json_object_get(row, "uses"));
        if (!system || system->was_full || !path || strcmp(path, system->path) != 0 || !uses || !strstr(uses, "work"))
            continue;
        buf_printf(out, "the disk of %s became full: what was written there may not be whole", path);
        return true;
    }
    return false;
}

/* The limit that the kernel has killed it for, as the shell calls it; NULL: none. */
static const char *killed_for(const struct job_process *process)
{
    int signo = process->status != JOB_STATUS_UNKNOWN && WIFSIGNALED(process->status) ? WTERMSIG(process->status) : 0;
    return signo == SIGXFSZ ? "ulimit -f" : signo == SIGXCPU ? "ulimit -t" : NULL;
}

/* `named`: what it said begins with its name; else it was alone when that was said. */
static bool find_hidden_process(const struct job_model *model, struct buf *out, bool named)
{
    char room[32];
    size_t looks = 0;
    for (size_t i = model->ended_count; i-- > 0;) {
        const struct job_process *process = &model->ended[i];
        if (!culprit_has_failed(process) || culprit_is_answer(process))
            continue;
        bool crashed = WIFSIGNALED(process->status) && job_signal_is_fault(WTERMSIG(process->status));
        const char *limit = killed_for(process);
        const char *said = !WIFEXITED(process->status) ? NULL
                           : named                     ? said_by(&model->layers, process)
                                                       : said_meanwhile(model, process, true);
        if ((!crashed && !limit && (!said || looks >= LOOKS_MOST || is_of_unread(model, said, process->end))) ||
            (looks++ < LOOKS_MOST && culprit_is_handled(model, process)))
            continue;
        buf_printf(out, "%s (pid %d) ", process->name, (int)process->pid);
        if (crashed) {
            buf_printf(out, "crashed by %s", text_signal(WTERMSIG(process->status), room, sizeof room));
        } else if (limit) {
            buf_printf(out, "was killed by %s, because of a limit (%s)",
                       text_signal(WTERMSIG(process->status), room, sizeof room), limit);
        } else {
            buf_printf(out, "failed with %d", WEXITSTATUS(process->status));
            put_said(out, said);
        }
        return true;
    }
    return false;
}

/* How many of its own processes the kernel has killed for lack of memory: by the samples of its control group, or by the note of its
 * end, which has seen those after the last sample. */
static uint64_t kills_for_memory(const struct job_model *model)
{
    uint64_t kills = model->layers.oom_kills;
    size_t index;
    json_t *warning;
    json_array_foreach(model->warnings.records, index, warning)
    {
        const json_t *fields = json_object_get(warning, "fields"), *count = json_object_get(fields, "processes");
        if (note_json_kind(warning) == NOTE_out_of_memory && json_is_true(json_object_get(fields, "own_group")) &&
            json_integer_value(count) > (json_int_t)kills)
            kills = (uint64_t)json_integer_value(count);
    }
    return kills;
}

/* The process that ended by SIGKILL; NULL: none, or several. */
static const struct job_process *only_killed(const struct job_model *model)
{
    const struct job_process *killed = NULL;
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        if (process->status == JOB_STATUS_UNKNOWN || !WIFSIGNALED(process->status) ||
            WTERMSIG(process->status) != SIGKILL)
            continue;
        if (killed)
            return NULL;
        killed = process;
    }
    return killed;
}

/* MPICH's launcher may end with 0 after it has killed all ranks but one that left them. Where MPI was counted the ranks say it. */
static bool find_hidden_leaving(const struct job_model *model, struct buf *out)
{
    enum { LAUNCHERS_MOST = 64 }; /* each takes a look at all processes */
    char room[32];
    struct cause_left left = {0};
    size_t looked = 0;
    pid_t last = 0;
    for (size_t i = model->ended_count; i-- > 0 && !left.left && looked < LAUNCHERS_MOST;) {
        const struct job_process *process = &model->ended[i];
        if (process->status == JOB_STATUS_UNKNOWN || !WIFSIGNALED(process->status) || process->ppid == last)
            continue;
        looked++;
        last = process->ppid;
        cause_find_left(model, last, &left);
    }
    if (!left.left)
        return false;
    struct note note =
        NOTE(cause_left, .program = left.left->name, .pid = (uint64_t)left.left->pid, .launcher = left.launcher,
             .signal = text_signal(WTERMSIG(left.killed->status), room, sizeof room), .said = "");
    note_text(out, &note);
    return true;
}

/* MPICH's launcher may end with 0 when it was ended itself, with its ranks. Without a signal to the job, and where they were not
 * stuck, its script may have wanted that. */
static bool find_hidden_ranks(const struct job_report *report, struct buf *out)
{
    _cleanup_(buf_done) struct buf stuck = BUF_INIT;
    struct job_end end = {.model = &report->model,
                          .warnings = job_report_warnings(report),
                          .dir = report->path,
                          .seconds = job_report_result(report).wall_seconds};
    size_t killed = 0;
    for (size_t i = 0; report->mpi && i < report->mpi->set.count; i++) {
        const struct mpi_stats *stats = &report->mpi->set.ranks[i];
        bool known = stats->end.known && stats->end.status != JOB_STATUS_UNKNOWN;
        if (!known || mpi_ended_by_itself(stats))
            continue;
        killed++;
        end.signal = WTERMSIG(stats->end.status);
    }
    if (!killed)
        return false;
    find_waits(report, &stuck, &end);
    json_t *reason = last_reason_json(&end);
    enum note_kind kind = note_json_kind(reason);
    const char *text = json_string_value(json_object_get(reason, "text"));
    bool found = kind == NOTE_cause_mpi_stall || kind == NOTE_cause_mpi_late || kind == NOTE_cause_signal ||
                 kind == NOTE_cause_asked;
    if (found)
        buf_printf(out, "%zu rank%s killed: %s", killed, killed == 1 ? " was" : "s were", text ? text : "");
    json_decref(reason);
    return found;
}

json_t *job_report_hidden(const struct job_report *report)
{
    struct job_result result = job_report_result(report);
    _cleanup_(buf_done) struct buf what = BUF_INIT, how = BUF_INIT, call = BUF_INIT;
    struct job_rank rank;
    uint64_t kills = kills_for_memory(&report->model);
    const json_t *error;
    if (result.exit_code || result.signal || report->one_rank)
        return NULL;
    bool failed = find_rank(report, &rank, &how, &call);
    bool killed = failed && !rank.aborted && WIFSIGNALED(rank.status) && !job_signal_is_fault(WTERMSIG(rank.status));
    if ((!failed || killed) && find_hidden_ranks(report, &what)) {
        ; /* it says why */
    } else if (failed) {
        buf_printf(&what, "rank %d of %d %s", rank.rank, rank.ranks, rank.how);
    } else if (kills) {
        buf_puts(&what, "for lack of memory the kernel killed ");
        cause_put_killed(&what, &report->model, only_killed(&report->model), result.peak_rss_bytes, kills, true);
    } else if (!find_hidden_process(&report->model, &what, true) && !find_hidden_stage(&report->model, &what) &&
               !find_hidden_process(&report->model, &what, false) &&
               (report->mpi || !find_hidden_leaving(&report->model, &what)) &&
               (error = last_error(&report->model, result.wall_seconds))) {
        const char *said = json_string_value(json_object_get(error, "text"));
        const char *place = json_string_value(json_object_get(error, "place"));
        said = said ? said : "";
        buf_printf(&what, "an error was said: %.*s%s%s", (int)text_fit(said, strlen(said), SAID_COLUMNS), said,
                   place ? ", at " : "", place ? text_base(place) : "");
    } else if (!what.len) {
        find_full_disk(report, &what);
    }
    struct note note = NOTE(hidden_failure, .what = what.data);
    return what.len && !what.failed ? note_json(&note) : NULL;
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

void report_logs_text(struct buf *out, const struct job_report *report, struct report_style style, bool whole)
{
    logs_text(out, &report->model.layers);
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
