/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of MPI processes, and their statistics on the way to disk. */
#include "monitor/mpi/mpi.h"

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
#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/messages.h"
#include "monitor/recorder/agent.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "shm/waits.h"

enum {
    NS_PER_MS = 1000000,
};

/* ---- looking at all ---- */

static void on_watch(void *ctx)
{
    struct mpi_registry *registry = ctx;
    if (registry->watch_fn(registry->watch_ctx))
        return;
    loop_remove(registry->watch);
    registry->watch = NULL;
}

int mpi_watch(struct mpi_registry *registry, uint64_t period_ns, bool (*fn)(void *ctx), void *ctx)
{
    registry->watch_fn = fn;
    registry->watch_ctx = ctx;
    if (registry->watch && registry->watch_ns <= period_ns)
        return 0;
    registry->watch_ns = period_ns;
    if (registry->watch)
        loop_set_timer(registry->watch, period_ns, period_ns);
    else
        registry->watch = loop_add_timer(registry->agents->monitor->loop, period_ns, period_ns, on_watch, registry);
    return registry->watch ? 0 : -ENOMEM;
}

/* ---- their files ---- */

static uint64_t mark_of(const struct mpi_process *process)
{
    bool in_call;
    return mpi_process_mark(process, &in_call);
}

static int mpi_process_write(struct mpi_process *process, bool distributions, struct err *err);

int mpi_process_flush(struct mpi_process *process, struct err *err)
{
    return mpi_process_write(process, true, err);
}

void mpi_process_reset(struct mpi_process *process)
{
    atomic_store(&process->head->reset_at, agent_clock_ticks());
    atomic_fetch_add(&process->head->reset, 1);
}

static void note_problem(struct mpi_process *process, const struct err *err)
{
    struct trace_job *job = mpi_job(process);
    log_warning("%s", err->text);
    if (job)
        job_set_problem(job, NOTE(mpi_unwritten, .reason = err->text));
}

static bool mpi_process_status(const struct mpi_process *process, int32_t *ret_status);

/* What is known of one that has ended, from then on, though its area may stay until all is written: that it is not
 * there any more matters to the others. */
static void past_add(struct mpi_process *process)
{
    struct mpi_registry *registry = process->registry;
    const struct mpi_area *area = process->head;
    const struct trace_job *job = mpi_job(process);
    struct mpi_past *past = job ? calloc(1, sizeof *past) : NULL;
    if (!past)
        return;
    *past = (struct mpi_past){.job = strdup(job->dir),
                              .next = registry->past,
                              .pid = process->agent->pid,
                              .rank = area->rank >= 0 ? area->rank : process->agent->rank.hint,
                              .size = area->rank >= 0 ? area->world_size : process->agent->rank.hint_size,
                              .state = atomic_load(&area->state),
                              .aborted = atomic_load(&area->aborted) != 0,
                              .abort_code = area->abort_code};
    past->status_known = mpi_process_status(process, &past->status);
    snprintf(past->namespace, sizeof past->namespace, "%.*s", (int)sizeof area->namespace - 1, area->namespace);
    if (!past->job || past->rank < 0) {
        free(past->job);
        free(past);
        return;
    }
    registry->past = past;
}

void mpi_past_free(struct mpi_registry *registry, const char *dir)
{
    for (struct mpi_past **at = &registry->past; *at;) {
        struct mpi_past *past = *at;
        if (dir && strcmp(past->job, dir) != 0) {
            at = &past->next;
            continue;
        }
        *at = past->next;
        free(past->job);
        free(past);
    }
}

void mpi_past_each(struct mpi_registry *registry, const char *dir, void (*fn)(void *ctx, const struct mpi_past *past),
                   void *ctx)
{
    for (const struct mpi_past *past = registry ? registry->past : NULL; past; past = past->next)
        if (!dir || strcmp(past->job, dir) == 0)
            fn(ctx, past);
}

/* Started with others by a launcher that its MPI does not understand (mpirun of another one): each is a program of its
 * own, as MPI_COMM_WORLD has it. */
static void find_alone(struct mpi_process *process)
{
    struct mpi_area *area = process->head;
    if (area->world_size == 1 && process->agent->rank.hint_size > 1)
        snprintf(area->namespace, sizeof area->namespace, "pid %d", process->agent->pid);
}

void mpi_process_off(struct agent *agent, const char *why)
{
    struct mpi_area *area = agent->mpi->head;
    snprintf(area->fault, sizeof area->fault, "%s: nothing was counted",
             why ? why : "the monitor did not answer in time on this busy node");
    atomic_store(&area->state, MPIA_OFF);
}

/* Of one that has ended. false: try again later. */
static bool process_finish(struct mpi_process *process)
{
    struct err err = {.text = ""};
    const struct mpi_area *area = process->head;
    if (process->finished)
        return true;
    if (atomic_load(&area->state) == MPIA_LOADED && !atomic_load(&area->taken))
        mpi_process_off(process->agent, NULL);
    int code = mpi_job(process) ? mpi_process_write(process, true, &err) : 0;
    process->finished = code == 0;
    if (code == 0)
        return true;
    if (!process->write_failed)
        note_problem(process, &err);
    process->write_failed = true;
    return mpi_job(process)->ended || (code != -ENOSPC && code != -EDQUOT);
}

static void process_end(struct mpi_process *process)
{
    struct agent *agent = process->agent;
    if (!process_finish(process))
        return;
    mpi_process_free(process);
    agent_mpi_done(agent);
}

/* ---- turns ---- */

static void on_deferred(void *ctx);

static void finish_soon(struct mpi_registry *registry)
{
    if (!registry->deferred)
        registry->deferred = loop_add_deferred(registry->agents->monitor->loop, on_deferred, registry);
}

/* One at a time: a hundred ranks end together, and others have to have their turn. */
static void on_deferred(void *ctx)
{
    struct mpi_registry *registry = ctx;
    registry->deferred = NULL;
    for (struct mpi_process *process = registry->list; process; process = process->next) {
        if (!process->agent->ended || process->write_failed)
            continue;
        process_end(process);
        finish_soon(registry);
        return;
    }
}

int mpi_job_flush(struct mpi_registry *registry, const char *dir, bool living, struct err *err)
{
    int code = 0;
    for (struct mpi_process *process = registry ? registry->list : NULL, *next; process; process = next) {
        next = process->next;
        if (!mpi_job(process) || (!living && !process->agent->ended) ||
            (dir && strcmp(mpi_process_job(process), dir) != 0))
            continue;
        struct err why = {.text = ""};
        /* the files of one that has ended are not written again at its turn */
        int result = process->agent->ended && process_finish(process) ? 0 : mpi_process_write(process, true, &why);
        if (result < 0 && code == 0) {
            code = result;
            err_set(err, code, "%s", why.text);
        }
    }
    return code;
}

/* When to look at it again: soon while MPI_Init goes on, and if the file does not say what it is since. */
static uint64_t due_ns(const struct mpi_process *process)
{
    uint32_t state = atomic_load(&process->head->state);
    bool soon = !process->agent->ended && mpi_job(process) &&
                (state == MPIA_LOADED ? process->agent->rank.hint >= 0 : state != process->written_state);
    return process->looked_ns + (uint64_t)(soon ? MPI_WRITE_FIRST_MS : MPI_WRITE_EVERY_MS) * NS_PER_MS;
}

static struct mpi_process *next_due(const struct mpi_registry *registry)
{
    struct mpi_process *first = NULL;
    for (struct mpi_process *process = registry->list; process; process = process->next)
        if (!first || due_ns(process) < due_ns(first))
            first = process;
    return first;
}

static uint64_t turn_ns(const struct mpi_registry *registry)
{
    const struct mpi_process *first = next_due(registry);
    uint64_t now_ns = clock_now_ns(), due = first ? due_ns(first) : 0, least_ns = MPI_LOOK_LEAST_MS * NS_PER_MS;
    uint64_t turn = (uint64_t)MPI_WRITE_EVERY_MS * NS_PER_MS / (registry->count ? registry->count : 1);
    uint64_t left = due > now_ns ? due - now_ns : 0;
    turn = left < turn ? left : turn;
    return turn < least_ns ? least_ns : turn;
}

/* The one that has waited for longest. */
static void on_timer(void *ctx)
{
    struct mpi_registry *registry = ctx;
    struct mpi_process *oldest = next_due(registry);
    if (!oldest) {
        loop_remove(registry->timer);
        registry->timer = NULL;
        return;
    }
    oldest->looked_ns = clock_now_ns();
    struct err err = {.text = ""};
    if (oldest->agent->ended) {
        if (oldest->write_failed)
            process_end(oldest);
    } else if (mpi_job(oldest) && mark_of(oldest) != oldest->written_mark &&
               mpi_process_write(oldest, false, &err) < 0) {
        note_problem(oldest, &err);
    }
    loop_set_timer(registry->timer, turn_ns(registry), 0);
}

/* ---- processes ---- */

struct mpi_process *mpi_process_new(struct agent *agent)
{
    struct mpi_process *process = calloc(1, sizeof *process);
    if (!process)
        return NULL;
    process->registry = agent->agents->monitor->mpi;
    process->agent = agent;
    agent->mpi = process;
    return process;
}

void mpi_process_free(struct mpi_process *process)
{
    struct mpi_registry *registry = process->registry;
    if (process->announced) {
        if (process->previous)
            process->previous->next = process->next;
        else
            registry->list = process->next;
        if (process->next)
            process->next->previous = process->previous;
        else
            registry->last = process->previous;
        registry->count--;
    }
    mpi_messages_forget(process);
    if (process->head)
        munmap(process->head, AREA_PAGE);
    area_file_end(registry->agents, &process->agent->files[AREA_MPI]);
    process->agent->mpi = NULL;
    free(process->call_wishes);
    free(process);
}

void mpi_process_ended(struct agent *agent)
{
    struct mpi_process *process = agent->mpi;
    mpi_process_describe(agent);
    log_debug("rank pid=%d rank=%d state=ended", agent->pid, process->head->rank);
    find_alone(process);
    past_add(process);
    finish_soon(process->registry);
}

void mpi_process_came(struct mpi_process *process)
{
    struct mpi_registry *registry = process->registry;
    struct loop *loop = registry->agents->monitor->loop;
    process->previous = registry->last;
    if (registry->last)
        registry->last->next = process;
    else
        registry->list = process;
    registry->last = process;
    registry->count++;
    process->announced = true;
    process->looked_ns = clock_now_ns();
    if (process->agent->ended) {
        mpi_process_ended(process->agent);
        return;
    }
    if (!registry->timer)
        registry->timer = loop_add_timer(loop, turn_ns(registry), 0, on_timer, registry);
    else
        loop_set_timer(registry->timer, turn_ns(registry), 0);
    if (registry->on_change)
        registry->on_change(registry->change_ctx, process, MPI_CAME);
}

struct mpi_process *mpi_process_find(struct mpi_registry *registry, pid_t pid)
{
    const struct agent *agent = registry ? agents_known(registry->agents, pid) : NULL;
    return agent ? agent->mpi : NULL;
}

void mpi_process_each(struct mpi_registry *registry, const char *dir,
                      void (*fn)(void *ctx, struct mpi_process *process), void *ctx)
{
    if (!registry)
        return;
    for (struct mpi_process *process = registry->list, *next; process; process = next) {
        next = process->next;
        if (!process->agent->ended && (!dir || strcmp(mpi_process_job(process), dir) == 0))
            fn(ctx, process);
    }
}

pid_t mpi_process_pid(const struct mpi_process *process)
{
    return process->agent->pid;
}

const char *mpi_process_job(const struct mpi_process *process)
{
    return mpi_job(process) ? mpi_job(process)->dir : "";
}

const char *mpi_process_exe(const struct mpi_process *process)
{
    return process->agent->exe;
}

const struct mpi_area *mpi_process_head(const struct mpi_process *process)
{
    return process->head;
}

void mpi_on_change(struct mpi_registry *registry,
                   void (*fn)(void *ctx, struct mpi_process *process, enum mpi_change change), void *ctx)
{
    registry->on_change = fn;
    registry->change_ctx = ctx;
}

/* ---- the registry ---- */

static void look_at(struct mpi_process *process)
{
    struct mpi_registry *registry = process->registry;
    uint32_t state = atomic_load(&process->head->state), reports = atomic_load(&process->head->reports);
    if (reports != process->told_reports) {
        struct err err = {.text = ""};
        process->told_reports = reports;
        if (mpi_job(process) && mpi_process_write(process, true, &err) < 0)
            note_problem(process, &err);
    }
    mpi_messages_report(process);
    if (process->agent->ended || state == process->told_state)
        return;
    process->told_state = state;
    find_alone(process);
    if (state == MPIA_RUNNING)
        mpi_messages_started(process);
    if (state == MPIA_RUNNING && registry->on_change)
        registry->on_change(registry->change_ctx, process, MPI_STARTED);
}

void mpi_registry_rung(struct mpi_registry *registry)
{
    for (struct mpi_process *process = registry->list, *next; process; process = next) {
        next = process->next;
        if (!process->agent->ended)
            look_at(process);
    }
}

int mpi_registry_new(struct mpi_registry **ret_registry, struct agents *agents)
{
    struct mpi_registry *registry = calloc(1, sizeof *registry);
    if (!registry)
        return -ENOMEM;
    registry->agents = agents;
    *ret_registry = registry;
    return 0;
}

void mpi_process_leave(struct agent *agent)
{
    struct mpi_process *process = agent->mpi;
    struct err err = {.text = ""};
    if (agent->ended) {
        process_finish(process);
    } else {
        if (mpi_job(process) && mpi_process_write(process, true, &err) < 0)
            note_problem(process, &err);
        area_file_leave(agent->agents, &agent->files[AREA_MPI]);
    }
    mpi_process_free(process);
}

void mpi_registry_free(struct mpi_registry *registry)
{
    if (!registry)
        return;
    registry->on_change = NULL;
    mpi_late_forget_all(registry, NULL);
    mpi_past_free(registry, NULL);
    loop_remove(registry->deferred);
    loop_remove(registry->timer);
    loop_remove(registry->watch);
    free(registry);
}

/* ---- what a process has done: out of its area, and into its files in the job directory ---- */

/* What an MPI process has done: out of its area, and into its files in the job directory. */

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

static void area_unmap(struct mapping *mapping)
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
    area_unmap(&mapping);
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

/* How it has ended, as from wait(2). false: it has not, or the kernel does not tell. */
static bool mpi_process_status(const struct mpi_process *process, int32_t *ret_status)
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
        area_unmap(&mapping);
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

static int mpi_process_write(struct mpi_process *process, bool distributions, struct err *err)
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
