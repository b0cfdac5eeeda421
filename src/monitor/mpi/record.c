/* SPDX-License-Identifier: Apache-2.0 */
/* What an MPI process has done: out of its area, and into its files in the job directory. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"

enum { INCARNATIONS = 100000 };

/* ---- reading ---- */

struct mapping {
    void *base;
};

/* Only while it is read: hundreds of areas need no place in the monitor. */
static int map_whole(const struct mpi_process *process, struct mapping *ret_mapping)
{
    struct stat st;
    if (fstat(mpi_process_fd(process), &st) < 0)
        return -errno;
    if (st.st_size != MPIA_AREA_SIZE)
        return -EBADMSG;
    void *base = mmap(NULL, MPIA_AREA_SIZE, PROT_READ, MAP_SHARED, mpi_process_fd(process), 0);
    if (base == MAP_FAILED)
        return -errno;
    ret_mapping->base = base;
    return 0;
}

static void unmap(struct mapping *mapping)
{
    munmap(mapping->base, MPIA_AREA_SIZE);
}

uint64_t mpi_process_mark(const struct mpi_process *process, bool *ret_in_call)
{
    struct mapping mapping;
    uint64_t mark = 1 + atomic_load(&process->head->state);
    *ret_in_call = false;
    if (map_whole(process, &mapping) < 0)
        return 0;
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = mpi_thread_at(mapping.base, i);
        if (atomic_load(&thread->state) != MPIA_THREAD_USED)
            continue;
        mark = mark * 31 + atomic_load(&thread->now.seq) + thread->outermost.count;
        *ret_in_call |= thread->now.call != CALL_NONE;
    }
    unmap(&mapping);
    return mark;
}

/* Threads that have ended stand there as if they computed. */
static void mark_ended(const struct mpi_process *process, struct mpi_stats *stats)
{
    char path[64];
    for (size_t i = 0; i < stats->thread_count && !process->agent->ended; i++) {
        snprintf(path, sizeof path, "/proc/%d/task/%d", process->agent->pid, stats->threads[i].tid);
        stats->threads[i].ended = access(path, F_OK) < 0 && errno == ENOENT;
    }
}

/* Threads that tools have stopped say so. */
static void mark_held(const struct mpi_process *process, struct mpi_stats *stats, struct arena *arena)
{
    struct process *known = process_find(process->registry->agents->monitor, process->agent->pid);
    for (size_t i = 0; i < stats->thread_count && known && !process->agent->ended; i++) {
        struct thread *thread;
        HASH_FIND_INT(known->threads, &stats->threads[i].tid, thread);
        const char *by = thread ? runstate_held_by(thread) : NULL;
        const char *text = !by   ? NULL
                           : *by ? arena_printf(arena, "a rule of scry (%s)", by)
                                 : arena_dup(arena, "a tool of scry", sizeof "a tool of scry");
        if (text)
            stats->threads[i].held = text;
    }
}

/* Where a thread is that called from a module for the first time: the interposer notes it only afterwards. */
static void find_modules(const struct mpi_process *process, struct mpi_stats *stats, struct arena *arena)
{
    struct proc_module *modules = NULL;
    size_t count = 0;
    bool looked = false;
    for (size_t i = 0; i < stats->thread_count && !process->agent->ended; i++) {
        struct mpi_stats_site *site = &stats->threads[i].now.site;
        if (*site->module || !site->offset)
            continue;
        if (!looked && proc_modules(process->agent->pid, &modules, &count) < 0)
            return;
        looked = true;
        for (size_t k = 0; k < count; k++) {
            const struct proc_module *module = &modules[k];
            if (site->offset < module->code_start || site->offset - module->code_start >= module->code_len)
                continue;
            const char *path = arena_dup(arena, module->path, strlen(module->path));
            if (!path)
                break;
            site->module = path;
            site->offset -= module->bias;
            break;
        }
    }
    if (looked)
        proc_modules_free(modules, count);
}

bool mpi_process_status(const struct mpi_process *process, int32_t *ret_status)
{
    const struct agent *agent = process->agent;
    return agent->ended && agent->pidfd >= 0 && proc_pidfd_exit_status(agent->pidfd, ret_status) == 0;
}

static const char *node_name(const struct mpi_process *process)
{
    const struct node *node = process->registry->agents->monitor->node;
    return node && *node->name ? node->name : "localhost";
}

typedef int take_fn(struct mpi_stats *ret_stats, const void *area, uint64_t now_ticks, struct arena *arena);

static int take_by(struct mpi_process *process, take_fn *take, struct mpi_stats *ret_stats, struct arena *arena,
                   struct err *err)
{
    struct mapping mapping;
    int code = map_whole(process, &mapping);
    if (code == 0) {
        uint64_t now = process->agent->ended ? process->agent->ended_ticks : agent_clock_ticks();
        code = take(ret_stats, mapping.base, now, arena);
        unmap(&mapping);
    }
    if (code < 0)
        return err_errno(err, code, "the statistics of MPI of pid %d cannot be read", process->agent->pid);
    ret_stats->pid = process->agent->pid;
    ret_stats->node = arena_dup(arena, node_name(process), strlen(node_name(process)));
    ret_stats->exe = arena_dup(arena, process->agent->exe, strlen(process->agent->exe));
    ret_stats->running = !process->agent->ended;
    ret_stats->status_known = mpi_process_status(process, &ret_stats->status);
    ret_stats->taken_wall_ns = clock_wall_ns();
    if (ret_stats->rank < 0 && process->agent->rank.hint >= 0) {
        ret_stats->rank = process->agent->rank.hint;
        ret_stats->world_size = process->agent->rank.hint_size;
    }
    mark_ended(process, ret_stats);
    mark_held(process, ret_stats, arena);
    return ret_stats->node && ret_stats->exe ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int mpi_process_snapshot_now(struct mpi_process *process, struct mpi_stats *ret_stats, struct arena *arena,
                             struct err *err)
{
    return take_by(process, mpi_stats_take_now, ret_stats, arena, err);
}

int mpi_process_snapshot(struct mpi_process *process, struct mpi_stats *ret_stats, struct arena *arena, struct err *err)
{
    bool in_call;
    process->taken_mark = mpi_process_mark(process, &in_call);
    int code = take_by(process, mpi_stats_take, ret_stats, arena, err);
    if (code == 0)
        find_modules(process, ret_stats, arena);
    return code;
}

/* ---- writing ---- */

/* N of its trace, if it has one, else the first that is free. */
static void choose_incarnation(struct mpi_process *process, const char *dir)
{
    const char *trace = agent_trace_path(process->agent);
    const char *last = strrchr(trace, '-');
    char path[PATH_MAX + 64];
    int32_t n = last ? (int32_t)strtol(last + 1, NULL, 10) : 0;
    for (; n >= 0 && n < INCARNATIONS; n++) {
        snprintf(path, sizeof path, "%s/%d-%" PRId32 ".json", dir, process->agent->pid, n);
        if (access(path, F_OK) < 0)
            break;
    }
    process->agent->rank.incarnation = n < 0 ? 0 : n;
    agent_note(process->agent);
}

static int directory_of(const struct mpi_process *process, char ret_dir[PATH_MAX], struct err *err)
{
    struct stat st;
    char node[256];
    if (!mpi_job(process))
        return err_set(err, -ENOENT, "pid %d belongs to no job", process->agent->pid);
    if (stat(mpi_process_job(process), &st) < 0)
        return err_errno(err, -errno, "cannot write statistics to the job directory %s", mpi_process_job(process));
    snprintf(node, sizeof node, "%s", node_name(process));
    for (char *c = node; *c; c++)
        if (*c == '/')
            *c = '_';
    if (node[0] == '.')
        node[0] = '_';
    if (snprintf(ret_dir, PATH_MAX - 64, "%s/stats/%s", mpi_process_job(process), node) >= PATH_MAX - 64)
        return err_set(err, -ENAMETOOLONG, "the path of the job directory is too long: %s", mpi_process_job(process));
    return 0;
}

/* A program that has MPI in it but never used it, and was not started as a rank. */
static bool is_nothing(const struct mpi_stats *stats)
{
    return stats->state == MPIA_LOADED && stats->rank < 0 && stats->row_count == 0;
}

int mpi_process_record(struct mpi_process *process, const struct mpi_stats *stats, struct err *err)
{
    char dir[PATH_MAX];
    int code = directory_of(process, dir, err);
    if (code == 0 && !is_nothing(stats)) {
        if (process->agent->rank.incarnation < 0)
            choose_incarnation(process, dir);
        code = mpi_stats_write(stats, dir, (uint32_t)process->agent->rank.incarnation, err);
    }
    if (code == 0) {
        process->written_mark = process->taken_mark;
        process->written_state = stats->state;
    }
    return code;
}

int mpi_process_write(struct mpi_process *process, bool distributions, struct err *err)
{
    struct mpi_stats stats;
    struct arena arena = ARENA_INIT;
    int code = mpi_process_snapshot(process, &stats, &arena, err);
    if (code == 0) {
        if (!distributions)
            stats.distribution_count = 0;
        code = mpi_process_record(process, &stats, err);
    }
    arena_done(&arena);
    return code;
}
