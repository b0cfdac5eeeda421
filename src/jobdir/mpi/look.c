/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/look.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "jobdir/mpi/text.h"
#include "jobdir/record/info.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { SLACK_SECONDS = 1 }; /* of clocks: a process is not its predecessor of the same number */

/* ---- the records ---- */

static int by_pid(const void *a, const void *b)
{
    const struct mpi_stats *left = *(struct mpi_stats *const *)a, *right = *(struct mpi_stats *const *)b;
    return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static size_t first_of(struct mpi_stats *const *ranks, size_t count, int32_t pid)
{
    return COUNT_BEFORE(count, i, ranks[i]->pid < pid);
}

/* Whether it may be a process of the job, or the part of it, that these records are of. */
static bool is_of(const struct mpi_stats *stats, const struct mpi_ends_of *of)
{
    if (of->dir && stats->dir && strcmp(of->dir, stats->dir) == 0)
        return true;
    return !of->host || !stats->node || !*stats->node || strcmp(stats->node, of->host) == 0;
}

/* A number may have been given to several processes: a rank's is the last that began before it called MPI_Init. */
static bool process_fits(const struct mpi_stats *stats, const struct job_process *process, double init)
{
    if (stats->end.known && stats->end.seconds > process->end)
        return false;
    double slack = stats->running ? 0 : SLACK_SECONDS; /* the last of one that runs is no predecessor's end */
    return !stats->started_wall_ns || (process->start <= init + SLACK_SECONDS && process->end + slack >= init);
}

static void find_first(struct mpi_stats_set *set, size_t from, size_t to)
{
    struct mpi_stats *first = NULL;
    bool tie = false, later = false;
    for (size_t i = from; i < to; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        stats->end.first = false; /* of what was known before */
        if (!mpi_ended_badly(stats))
            continue;
        if (stats->end.later && !stats->aborted) {
            later = true;
            continue;
        }
        if (stats->aborted && (!first || !first->aborted)) {
            first = stats; /* whoever else ended, was ended by that */
            tie = false;
        } else if (first && first->aborted == stats->aborted &&
                   (!stats->end.known || !first->end.known || stats->end.seconds == first->end.seconds)) {
            tie = true; /* nobody knows */
            first = !stats->end.known ? stats : first;
        } else if (!first || (first->aborted == stats->aborted && stats->end.seconds < first->end.seconds)) {
            tie = first && !first->end.known;
            first = tie ? first : stats;
        }
    }
    if (first && !tie && (first->end.known || first->aborted || !later))
        first->end.first = true;
}

static size_t end_of_world(const struct mpi_stats_set *set, size_t from)
{
    size_t to = from;
    while (to < set->count && strcmp(set->ranks[to].namespace, set->ranks[from].namespace) == 0)
        to++;
    return to;
}

/* Ends are recorded in their order: one that has none yet comes after those that have one, unless records were lost. */
static bool is_in_order(const struct job_model *model)
{
    size_t index;
    json_t *warning;
    json_array_foreach(model->warnings.records, index, warning)
    {
        const char *kind = member_text(warning, "kind");
        if (strcmp(kind, "lost") == 0)
            return false;
    }
    return true;
}

static void find_later(struct mpi_stats *stats, const struct job_model *model, uint64_t started_ns)
{
    static const double SOON_SECONDS = 5;
    const struct job_process *process;
    double init = ((double)stats->started_wall_ns - (double)started_ns) / 1e9;
    double taken = ((double)stats->taken_wall_ns - (double)started_ns) / 1e9;
    HASH_FIND_INT(model->alive, &stats->pid, process);
    stats->end.later =
        !stats->end.known && process && (!stats->started_wall_ns || process->start <= init + SLACK_SECONDS);
    stats->end.left = stats->end.later && taken <= model->last_seconds + SOON_SECONDS;
}

int mpi_ends_find(struct mpi_stats_set *set, const struct mpi_ends_of *of)
{
    const struct job_model *model = of->model;
    uint64_t started_ns = of->started_ns;
    _cleanup_(freep) struct mpi_stats **ranks = calloc(set->count + 1, sizeof *ranks);
    size_t count = 0;
    if (!ranks)
        return -ENOMEM;
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        if (is_of(stats, of))
            ranks[count++] = stats;
    }
    qsort(ranks, count, sizeof(struct mpi_stats *), by_pid);
    for (size_t i = 0; i < model->ended_count; i++) {
        const struct job_process *process = &model->ended[i];
        for (size_t k = first_of(ranks, count, process->pid); k < count && ranks[k]->pid == process->pid; k++) {
            double init = ((double)ranks[k]->started_wall_ns - (double)started_ns) / 1e9;
            if (!process_fits(ranks[k], process, init))
                continue;
            ranks[k]->end = (struct mpi_stats_end){
                .known = true, .status = process->status, .seconds = process->end + of->shift, .first = false};
            ranks[k]->running = false; /* its last statistics may come later than the news of its end */
        }
    }
    for (size_t i = 0; i < count && of->lost; i++)
        if (ranks[i]->running && ranks[i]->dir && strcmp(ranks[i]->dir, of->dir) == 0) {
            ranks[i]->running = false;
            ranks[i]->end.lost = ranks[i]->state != MPIA_ENDED;
        }
    bool in_order = !of->lost && is_in_order(model);
    for (size_t i = 0; i < count && in_order; i++)
        find_later(ranks[i], model, started_ns);
    for (size_t from = 0, to; from < set->count; from = to)
        find_first(set, from, to = end_of_world(set, from));
    return 0;
}

void mpi_ends_lost(struct mpi_stats_set *set)
{
    for (size_t from = 0, to; from < set->count; from = to) {
        to = end_of_world(set, from);
        for (size_t i = from; i < to && (int64_t)(to - from) < set->ranks[from].world_size; i++)
            set->ranks[i].end.first &= mpi_ended_by_itself(&set->ranks[i]);
    }
}

/* ---- text ---- */

bool mpi_ended_badly(const struct mpi_stats *stats)
{
    return stats->aborted || (!stats->running && (stats->state == MPIA_RUNNING || stats->end.lost));
}

bool mpi_ended_by_itself(const struct mpi_stats *stats)
{
    int status = stats->end.status;
    return stats->aborted || WIFEXITED(status) || job_signal_is_fault(WTERMSIG(status));
}

static void put_death(struct buf *out, const struct mpi_stats *stats, const char *was)
{
    char name[32];
    int status = stats->end.known ? stats->end.status : JOB_STATUS_UNKNOWN;
    if (status == JOB_STATUS_UNKNOWN && stats->status_known)
        status = stats->status;
    if (status == JOB_STATUS_UNKNOWN)
        buf_puts(out, "died without MPI_Finalize");
    else if (WIFSIGNALED(status))
        buf_printf(out, "%skilled by %s", was, text_signal(WTERMSIG(status), name, sizeof name));
    else
        buf_printf(out, "exited with status %d without MPI_Finalize", WEXITSTATUS(status));
}

static bool is_in_init(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->thread_count; i++)
        if (call_info(stats->threads[i].now.call)->waits == CALL_WAITS_START)
            return true;
    return false;
}

const char *mpi_ended_before(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call == CALL_MPI_Session_init)
            return "has sessions, no MPI_Init: only counted";
    return is_in_init(stats) ? "ended inside of MPI_Init" : "never called MPI_Init";
}

static void put_end(struct buf *out, const struct mpi_stats *stats, const char *was)
{
    if (stats->aborted)
        buf_printf(out, "called MPI_Abort with %d", stats->abort_code);
    else if (stats->running)
        return;
    else if (stats->end.lost)
        buf_printf(out, "%slost with its node", was);
    else if (stats->state == MPIA_LOADED)
        buf_puts(out, mpi_ended_before(stats));
    else if (stats->state == MPIA_RUNNING)
        put_death(out, stats, was);
    else if (stats->state == MPIA_OFF)
        buf_puts(out, "not counted to the end");
}

void mpi_end_text(struct buf *out, const struct mpi_stats *stats)
{
    put_end(out, stats, "");
}

void mpi_end_predicate(struct buf *out, const struct mpi_stats *stats)
{
    put_end(out, stats, "was ");
}

void mpi_ends_text(struct buf *out, const struct mpi_stats_set *set, const char *indent)
{
    bool several = set->count && end_of_world(set, 0) < set->count;
    uint32_t program = 0;
    for (size_t from = 0, to; from < set->count; from = to) {
        const struct mpi_stats *first = NULL, *only = NULL;
        size_t bad = 0;
        to = end_of_world(set, from);
        program++;
        for (size_t i = from; i < to; i++) {
            const struct mpi_stats *stats = &set->ranks[i];
            bad += mpi_ended_badly(stats);
            only = mpi_ended_badly(stats) ? stats : only;
            first = stats->end.first ? stats : first;
        }
        if (!bad)
            continue;
        buf_puts(out, indent);
        first = bad == 1 ? only : first;
        if (first) {
            mpi_text_who(out, (struct mpi_who){first->rank, several ? program : 0});
            buf_putc(out, ' ');
            mpi_end_predicate(out, first);
            if (bad > 1)
                buf_printf(out, ", the first of %zu ranks that ended without MPI_Finalize", bad);
        } else {
            buf_printf(out, "%zu ranks ", bad);
            if (several)
                buf_printf(out, "of program %u ", program);
            buf_puts(out, "ended without MPI_Finalize");
        }
        buf_putc(out, '\n');
    }
}

enum {
    ATTENDS_NS = 1000000, /* who polls has looked some thousand times in so long; */
    ATTENDS_PART = 50,    /* between looks that are close together, this part of the time is enough */
};

struct sample {
    int32_t pid, tid;
    bool in_mpi; /* in a call: looked at for its processor time */
    struct wait_thread thread;
};

struct process { /* all threads of one, as they were first seen */
    int32_t pid;
    struct thread_seen *threads;
    size_t count;
};

struct mpi_look {
    uint64_t when_ns;
    struct sample *samples; /* in the order of their numbers */
    size_t count;
    struct process *processes;
    size_t process_count;
};

static struct sample sample_of(int32_t pid, int32_t tid)
{
    return (struct sample){.pid = pid, .tid = tid, .thread = wait_look_thread(pid, tid)};
}

static bool is_here(const struct mpi_stats *stats)
{
    return stats->running && stats->pid > 0;
}

/* Its monitor has traps in it, perhaps: each stops a thread for the moment that the monitor needs. */
static bool is_traced_by_scry(int32_t pid, int32_t tid)
{
    char name[32];
    int64_t tracer = proc_status_number(pid, tid, "TracerPid");
    if (tracer <= 0)
        return false;
    proc_comm((pid_t)tracer, 0, name, sizeof name);
    return strcmp(name, TRACER_PROCESS_NAME) == 0;
}

/* `before` NULL: nothing is known of it. */
static bool ran_since(const struct sample *before, const struct sample *now)
{
    return !before || before->thread.state != now->thread.state || !before->thread.timed || !now->thread.timed ||
           before->thread.ran_ns != now->thread.ran_ns;
}

/* How a thread is stopped whose state says that it is. */
static enum mpi_attends stopped_how(const struct mpi_stats_thread *thread, const struct sample *before,
                                    const struct sample *now)
{
    bool said = thread->held && *thread->held;
    return !said && now->thread.state == 't' && ran_since(before, now) && is_traced_by_scry(now->pid, now->tid)
               ? MPI_STOPPED_UNSAID
               : MPI_STOPPED;
}

/* Who is stopped. */
static void look_for_stopped(struct mpi_stats_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        for (size_t k = 0; k < stats->thread_count && is_here(stats); k++) {
            struct mpi_stats_thread *thread = &stats->threads[k];
            if (!thread->ended && thread->tid > 0)
                thread->attends = waits_is_stopped(wait_look_thread(stats->pid, thread->tid).state)
                                      ? MPI_STOPPED
                                      : MPI_ATTENDS_UNKNOWN;
        }
    }
}

static int by_thread(const void *a, const void *b)
{
    const struct sample *left = a, *right = b;
    if (left->pid != right->pid)
        return left->pid < right->pid ? -1 : 1;
    return left->tid < right->tid ? -1 : left->tid > right->tid;
}

static void look_free(struct mpi_look *look)
{
    for (size_t i = 0; look && i < look->process_count; i++)
        free(look->processes[i].threads);
    if (look) {
        free(look->processes);
        free(look->samples);
    }
    free(look);
}

int mpi_look_begin(struct mpi_look **ret_look, const struct mpi_stats_set *set)
{
    struct mpi_look *look = calloc(1, sizeof *look);
    size_t count = 0;
    *ret_look = NULL;
    for (size_t i = 0; i < set->count; i++)
        count += is_here(&set->ranks[i]) ? set->ranks[i].thread_count : 0;
    if (look) {
        look->samples = calloc(count + 1, sizeof *look->samples);
        look->processes = calloc(set->count + 1, sizeof *look->processes);
    }
    if (!look || !look->samples || !look->processes) {
        look_free(look);
        return -ENOMEM;
    }
    look->when_ns = wait_now_ns();
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        struct process *process = &look->processes[look->process_count];
        if (is_here(stats) && threads_look(&process->threads, &process->count, stats->pid) == 0) {
            process->pid = stats->pid;
            look->process_count++;
        }
        for (size_t k = 0; k < stats->thread_count && is_here(stats); k++)
            if (!stats->threads[k].ended && stats->threads[k].tid > 0) {
                struct sample *sample = &look->samples[look->count++];
                *sample = sample_of(stats->pid, stats->threads[k].tid);
                sample->in_mpi = stats->threads[k].now.call != CALL_NONE;
            }
    }
    qsort(look->samples, look->count, sizeof *look->samples, by_thread);
    *ret_look = look;
    return 0;
}

static enum mpi_attends attends_between(const struct sample *before, const struct sample *now, uint64_t passed_ns)
{
    if (!before || !before->thread.state || !now->thread.state)
        return MPI_ATTENDS_UNKNOWN;
    if ((before->thread.state == 'S' || before->thread.state == 'D') &&
        (now->thread.state == 'S' || now->thread.state == 'D'))
        return MPI_ATTENDS;
    if (!before->thread.timed || !now->thread.timed || now->thread.ran_ns < before->thread.ran_ns)
        return MPI_ATTENDS_UNKNOWN;
    uint64_t enough = passed_ns / ATTENDS_PART < ATTENDS_NS ? passed_ns / ATTENDS_PART : ATTENDS_NS;
    return now->thread.ran_ns - before->thread.ran_ns >= enough ? MPI_ATTENDS : MPI_STARVED;
}

static bool any_starves(const struct mpi_look *look)
{
    for (size_t i = 0; i < look->count; i++) {
        if (!look->samples[i].in_mpi)
            continue;
        struct sample now = sample_of(look->samples[i].pid, look->samples[i].tid);
        if (!waits_is_stopped(now.thread.state) &&
            attends_between(&look->samples[i], &now, wait_now_ns() - look->when_ns) == MPI_STARVED)
            return true;
    }
    return false;
}

bool mpi_look_goes_on(const struct mpi_look *look)
{
    const struct wait_seen seen = {.passed_ns = wait_now_ns() - look->when_ns, .state = any_starves(look) ? 'R' : 'S'};
    return waits_judge(&wait_policies[WAIT_RANKS], &seen) == WAIT_ON;
}

bool mpi_look_is_unsaid(const struct mpi_stats_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        for (size_t k = 0; k < set->ranks[i].thread_count; k++)
            if (set->ranks[i].threads[k].attends == MPI_STOPPED_UNSAID)
                return true;
    return false;
}

static const struct process *process_of(const struct mpi_look *look, int32_t pid)
{
    for (size_t i = 0; i < look->process_count; i++)
        if (look->processes[i].pid == pid)
            return &look->processes[i];
    return NULL;
}

/* Into stats->seen, if both looks succeed. */
static void look_at_process(const struct mpi_look *look, struct mpi_stats *stats, struct arena *arena)
{
    const struct process *before = process_of(look, stats->pid);
    struct thread_seen *threads = NULL;
    size_t count = 0;
    if (!before || !arena || threads_look(&threads, &count, stats->pid) < 0)
        return;
    if (threads_settle(&threads, &count, before->threads, before->count) == 0) {
        stats->seen = (const void *)arena_dup(arena, threads, count * sizeof *threads);
        stats->seen_count = stats->seen ? count : 0;
    }
    free(threads);
}

static void look_again(const struct mpi_look *look, struct mpi_stats_set *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (is_here(&set->ranks[i])) {
            set->ranks[i].looked = true;
            look_at_process(look, &set->ranks[i], set->arena);
        }
    look_for_stopped(set);
}

void mpi_look_end_at_once(struct mpi_look *look, struct mpi_stats_set *set)
{
    look_again(look, set);
    look_free(look);
}

void mpi_look_end(struct mpi_look *look, struct mpi_stats_set *set)
{
    uint64_t passed_ns = look ? wait_now_ns() - look->when_ns : 0;
    if (look && set)
        look_again(look, set);
    for (size_t i = 0; look && set && i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        for (size_t k = 0; k < stats->thread_count && is_here(stats); k++) {
            struct mpi_stats_thread *thread = &stats->threads[k];
            const struct sample key = {.pid = stats->pid, .tid = thread->tid};
            const struct sample *before = bsearch(&key, look->samples, look->count, sizeof *look->samples, by_thread);
            struct sample now = before || thread->attends == MPI_STOPPED ? sample_of(stats->pid, thread->tid) : key;
            if (thread->attends != MPI_STOPPED)
                thread->attends = attends_between(before && before->in_mpi ? before : NULL, &now, passed_ns);
            else if (waits_is_stopped(now.thread.state))
                thread->attends = stopped_how(thread, before, &now);
            else
                thread->attends = MPI_ATTENDS_UNKNOWN; /* no longer */
        }
    }
    look_free(look);
}
