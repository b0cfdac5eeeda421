/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "shm/waits.h"

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
static void look_once(struct mpi_stats_set *set)
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

static enum mpi_attends compare(const struct sample *before, const struct sample *now, uint64_t passed_ns)
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
            compare(&look->samples[i], &now, wait_now_ns() - look->when_ns) == MPI_STARVED)
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
static void look_at_all(const struct mpi_look *look, struct mpi_stats *stats, struct arena *arena)
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
            look_at_all(look, &set->ranks[i], set->arena);
        }
    look_once(set);
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
                thread->attends = compare(before && before->in_mpi ? before : NULL, &now, passed_ns);
            else if (waits_is_stopped(now.thread.state))
                thread->attends = stopped_how(thread, before, &now);
            else
                thread->attends = MPI_ATTENDS_UNKNOWN; /* no longer */
        }
    }
    look_free(look);
}
