/* SPDX-License-Identifier: Apache-2.0 */
/* The MPI part in the life of a process: what the agents call from its hello to its end (struct agents_mpi). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/system/log.h"
#include "monitor/recorder/agent_mpi.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/message_internal.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"

/* ---- settings ---- */

static void apply(struct agent *agent)
{
    const struct mpi_process *process = agent->mpi;
    const struct trace_job *job = mpi_job(process);
    const struct trace_settings *settings = job ? &job->settings : NULL;
    struct mpi_area *area = process->head;
    uint64_t selected[MPI_CALL_WORDS];
    if (!settings)
        return;
    if (!mpi_calls_parse(settings->mpi_distributions, selected))
        memset(selected, 0xff, sizeof selected);
    for (size_t i = 0; i < MPI_CALL_WORDS; i++)
        atomic_store(&area->selected[i], selected[i]);
    atomic_store(&area->bits, settings->mpi_bits);
    mpi_tell_calls(process);
    /* its threads look at all of these when one of the switches changes */
    uint32_t poke = (atomic_load(&area->metrics) ^ MPIA_METRIC_POKE) & MPIA_METRIC_POKE;
    atomic_store(&area->metrics, settings->mpi_metrics | mpi_tell_bits(process) | poke);
    atomic_store(&area->on, (uint32_t)(settings->mpi != TRACE_MPI_OFF));
}

/* ---- it begins ---- */

static const char *check(const struct hello_mpi *hello)
{
    if (hello->version != MPIA_AREA_VERSION || hello->calls_hash != CALLS_HASH)
        return "the interposer of MPI and the monitor are of different versions of scry";
    if (!memchr(hello->namespace, 0, sizeof hello->namespace) ||
        (hello->library != MPIA_LIBRARY_OPENMPI && hello->library != MPIA_LIBRARY_MPICH))
        return "the hello of an MPI program is malformed";
    return NULL;
}

static int make(struct agent *agent, const struct hello_mpi *hello, struct err *err)
{
    if (!agent->agents->monitor->mpi)
        return err_set(err, -EPROTO, "this monitor takes no statistics of MPI");
    struct mpi_process *process = mpi_process_new(agent);
    if (!process)
        return err_set(err, -ENOMEM, "out of memory");
    int code = mpi_area_make(process, hello, err);
    if (code < 0) {
        if (agent->job)
            job_set_problem(agent->job, NOTE(nothing_recorded, .reason = err->text));
        mpi_process_free(process);
        return code;
    }
    agent->rank = (struct agent_rank){.library = hello->library,
                                      .incarnation = -1,
                                      .hint = hello->hint_rank >= 0 ? hello->hint_rank : -1,
                                      .hint_size = hello->hint_size >= 0 ? hello->hint_size : -1};
    if (hello->metrics & MPIA_METRIC_MESSAGES)
        mpi_process_want(process, MPIA_METRIC_MESSAGES, 1);
    apply(agent);
    return 0;
}

static int adopt(struct agent *agent, uint64_t size)
{
    struct mpi_process *process = mpi_process_new(agent);
    int code = process ? mpi_area_adopt(process, size) : -ENOMEM;
    if (code < 0) {
        if (process)
            mpi_process_free(process);
        return code;
    }
    process->told_reports = atomic_load(&process->head->reports);
    mpi_message_commands_adopt(process);
    mpi_messages_adopt(process);
    return 0;
}

static void moved(struct agent *agent)
{
    agent->mpi->agent = agent;
}

/* ---- MPI_Comm_spawn ---- */

/* The thread of a rank that is in MPI_Comm_spawn; NULL: not known, or more than one. */
static struct thread *thread_that_spawns(struct mpi_process *rank, struct process *process)
{
    struct arena arena = ARENA_INIT;
    struct mpi_stats stats;
    struct err err;
    pid_t tid = 0;
    unsigned found = 0;
    bool known = mpi_process_snapshot_now(rank, &stats, &arena, &err) == 0;
    for (size_t i = 0; known && i < stats.thread_count; i++) {
        const struct mpi_stats_thread *thread = &stats.threads[i];
        if (thread->ended || !call_is(thread->now.call, CALL_IS_SPAWNS))
            continue;
        tid = (pid_t)thread->tid;
        found++;
    }
    arena_done(&arena);
    return found == 1 ? process_thread(process, tid) : NULL;
}

/* The launcher has made it, for a rank that asked for it: that is who has created it (thread_creates_proc). */
static void tell_spawner(const struct mpi_process *child)
{
    struct monitor *monitor = child->agent->agents->monitor;
    char namespace[sizeof child->head->namespace];
    int32_t rank;
    if (!mpi_spawner_find(child->agent->pid, namespace, sizeof namespace, &rank))
        return;
    for (struct mpi_process *each = child->registry->list; each; each = each->next) {
        struct process *process =
            each->agent->ended || each->head->rank != rank || strcmp(each->head->namespace, namespace) != 0
                ? NULL
                : process_find(monitor, each->agent->pid);
        if (process) {
            traced_started_for(process, thread_that_spawns(each, process), child->agent->pid);
            return;
        }
    }
}

static void came(struct agent *agent)
{
    monitor_enter(agent->agents->monitor);
    mpi_process_came(agent->mpi);
    if (!agent->ended)
        tell_spawner(agent->mpi);
    monitor_leave(agent->agents->monitor);
}

/* ---- rank and world of a process, for its trace, as soon as they are known ---- */

void mpi_process_describe(struct agent *agent)
{
    const struct mpi_area *head = agent->mpi->head;
    char world[sizeof head->namespace + 1] = "";
    if (agent->mpi_described || !agent->writer || atomic_load(&head->state) < MPIA_RUNNING || head->rank < 0)
        return;
    memcpy(world, head->namespace, sizeof head->namespace);
    trace_writer_set(agent->writer, "mpi_rank", "%d", head->rank);
    trace_writer_set(agent->writer, "mpi_size", "%d", head->world_size);
    trace_writer_set(agent->writer, "mpi_world", "%s", world);
    agent->mpi_described = true;
}

/* ---- it ends ---- */

static bool drains(const struct agent *agent)
{
    return !agent->mpi->write_failed;
}

/* ---- messages, for the engine ---- */

static bool has_queue(const struct process *process)
{
    return mpi_process_find(process->object.monitor->mpi, process->pid) != NULL;
}

static struct process *rank(struct monitor *monitor, uint64_t world, int32_t rank)
{
    return mpi_rank_process(monitor->mpi, world, rank);
}

static enum message_state state(struct monitor *monitor, const struct message_id *id)
{
    struct mpi_queued about;
    return mpi_message_state(monitor->mpi, id, &about);
}

static int queued(struct process *process, struct message_id **ret_ids, size_t *ret_count, struct arena *arena,
                  struct err *err)
{
    struct mpi_queue queue = {0};
    const struct mpi_process *mpi = mpi_process_find(process->object.monitor->mpi, process->pid);
    bool running = mpi && atomic_load(&mpi_process_head(mpi)->state) == MPIA_RUNNING; /* else none are sent to it */
    int code = running ? mpi_queue_certain(process, &queue, arena, err) : 0;
    if (code < 0)
        return code;
    *ret_ids = arena_alloc(arena, (queue.count + 1) * sizeof **ret_ids);
    if (!*ret_ids)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < queue.count; i++)
        (*ret_ids)[i] = queue.items[i].id;
    *ret_count = queue.count;
    return 0;
}

static const struct message_source message_source = {has_queue, rank, state, queued};

static int start(struct agents *agents, struct err *err)
{
    struct mpi_registry *registry;
    if (mpi_registry_new(&registry, agents) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    agents->monitor->mpi = registry;
    agents->monitor->message_source = &message_source;
    mpi_message_files_remove(agents);
    return 0;
}

static void stop(struct agents *agents)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    agents->monitor->mpi = NULL;
    agents->monitor->message_source = NULL;
    mpi_registry_free(registry);
}

static void rung(struct agents *agents)
{
    if (agents->monitor->mpi)
        mpi_registry_rung(agents->monitor->mpi);
}

static void job_end(struct agents *agents, const char *dir)
{
    if (agents->monitor->mpi)
        mpi_past_free(agents->monitor->mpi, dir);
}

static void state_print(const struct agent *agent, struct buf *out)
{
    const struct mpi_area *area = agent->mpi->head;
    buf_printf(out, "rank pid=%d rank=%d state=%s job=%s area_bytes=%llu refused_bytes=%llu on=%u program=%s\n",
               agent->pid, area->rank, agent->ended ? "ended" : "running", LOG_TEXT(agent->job ? agent->job->dir : ""),
               (unsigned long long)agent->files[AREA_MPI].memory_taken,
               (unsigned long long)atomic_load(&area->pool_refused), atomic_load(&area->on), LOG_TEXT(agent->exe));
}

const struct agents_mpi agents_mpi = {
    .start = start,
    .stop = stop,
    .rung = rung,
    .check = check,
    .make = make,
    .adopt = adopt,
    .came = came,
    .refused = mpi_process_off,
    .moved = moved,
    .ended = mpi_process_ended,
    .drains = drains,
    .leave = mpi_process_leave,
    .describe = mpi_process_describe,
    .apply = apply,
    .job_end = job_end,
    .state_print = state_print,
};
