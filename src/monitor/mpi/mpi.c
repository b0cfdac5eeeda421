/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of MPI processes, and their statistics on the way to disk. */
#include "monitor/mpi/mpi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/recorder/agent_files.h"
#include "monitor/mpi/messages.h"
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

/* What is known of one that has ended, from then on, though its area may stay until all is written: that it is not
 * there any more matters to the others. */
static void remember(struct mpi_process *process)
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
static bool finish(struct mpi_process *process)
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

static void end(struct mpi_process *process)
{
    struct agent *agent = process->agent;
    if (!finish(process))
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
        end(process);
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
        int result = process->agent->ended && finish(process) ? 0 : mpi_process_write(process, true, &why);
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
            end(oldest);
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
    remember(process);
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
        finish(process);
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
