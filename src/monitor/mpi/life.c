/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPI part in the life of a process: what the agents call from its hello to its end (struct agents_mpi), its area, and
 * which of its calls are told.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/recorder/agent.h"
#include "monitor/mpi/messages.h"
#include "monitor/tracing/tracing.h"

/* ---- its area (shm/mpi_area.h) ---- */

/* All of the file has memory before the program gets it; the kernel clears the pages only when they are touched. */

static int map_head(struct mpi_process *process)
{
    void *page = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, mpi_process_fd(process), 0);
    if (page == MAP_FAILED)
        return -errno;
    process->head = page;
    return 0;
}

static void fill_head(struct mpi_process *process, const struct hello_mpi *hello)
{
    const struct agent *agent = process->agent;
    struct mpi_area *area = process->head;
    area->version = MPIA_AREA_VERSION;
    area->calls_hash = CALLS_HASH;
    area->pid = agent->pid;
    area->size = MPIA_AREA_SIZE;
    area->start_ticks = agent->start_ticks;
    area->serial = agent->files[AREA_MPI].serial;
    memcpy(area->namespace, hello->namespace, sizeof area->namespace);
    mpi_namespace_find(agent->pid, area->namespace, sizeof area->namespace);
    if (!*area->namespace && hello->hint_rank < 0) /* started without a launcher: a job of its own */
        snprintf(area->namespace, sizeof area->namespace, "pid %d", agent->pid);
    area->library = hello->library;
    area->rank = area->world_size = -1;
    atomic_store(&area->bits, (uint32_t)MPIA_BITS_DEFAULT);
    atomic_store(&area->metrics, (uint32_t)MPIA_METRIC_ALL);
    for (size_t i = 0; i < MPI_CALL_WORDS; i++)
        atomic_store(&area->selected[i], UINT64_MAX);
    atomic_store(&area->ticks_per_second, agent->agents->ticks_per_second);
    atomic_store(&area->on, 1u);
    area->magic = MPIA_AREA_MAGIC;
}

static int area_fill(struct agent *agent, void *ctx)
{
    struct area_file *file = &agent->files[AREA_MPI];
    int code = ftruncate(file->fd, MPIA_AREA_SIZE) < 0 ? -errno : 0;
    if (code == 0)
        code = area_file_reserve(agent->agents, file, 0, MPIA_AREA_SIZE);
    return code < 0 ? code : map_head(ctx);
}

static int area_make(struct mpi_process *process, const struct hello_mpi *hello, struct err *err)
{
    struct agent *agent = process->agent;
    struct agents *agents = agent->agents;
    int code = area_file_make(agent, AREA_MPI, area_fill, process);
    if (code == -ENOMEM)
        return err_set(
            err, code,
            "no statistics of MPI of pid %d: the limit of memory leaves too little room for them (%d MB); raise "
            "it, or run the job with --mpi off",
            agent->pid, MPIA_AREA_SIZE >> 20);
    if (code < 0)
        return err_errno(err, code,
                         "no room for the statistics of MPI of pid %d in %s: free some, or set "
                         "XDG_RUNTIME_DIR",
                         agent->pid, agents->spill ? agents->spill : agents->rings);
    agent_clock_calibrate(agents);
    fill_head(process, hello);
    return 0;
}

static int area_adopt(struct mpi_process *process, uint64_t size)
{
    int code = size == MPIA_AREA_SIZE ? map_head(process) : -EBADMSG;
    const struct mpi_area *area = process->head;
    if (code < 0)
        return code;
    return area->magic == MPIA_AREA_MAGIC && area->version == MPIA_AREA_VERSION && area->calls_hash == CALLS_HASH
               ? 0
               : -EBADMSG;
}

/* ---- which processes tell of their calls: those whose job traces MPI, and those that somebody wants to hear of ---- */

static bool is_traced(const struct mpi_process *process)
{
    const struct trace_job *job = mpi_job(process);
    return job && job->settings.mpi == TRACE_MPI_TRACE;
}

/* The agent's area says so, where it is: it has what records them in place first, and may have to wait for that. */
static bool is_recorded(const struct mpi_process *process)
{
    const struct agent *agent = process->agent;
    return is_traced(process) && (!agent_mpi_tells(agent) || atomic_load(&agent->view.area->messages));
}

uint32_t mpi_tell_bits(const struct mpi_process *process)
{
    const struct trace_settings *settings = mpi_job(process) ? &mpi_job(process)->settings : NULL;
    bool numbered = settings && (settings->mpi == TRACE_MPI_MESSAGES || settings->mpi_metrics & MPIA_METRIC_MESSAGES);
    return (is_traced(process) || process->tell_wishes > 0 ? MPIA_METRIC_TELL : 0u) |
           (is_recorded(process) ? MPIA_METRIC_RECORD : 0u) |
           (numbered || process->message_wishes > 0 ? MPIA_METRIC_MESSAGES : 0u);
}

void mpi_tell_calls(const struct mpi_process *process)
{
    /* whoever wants calls of a process without saying which wants them all */
    bool all = is_traced(process) || process->tell_wishes > process->call_requests || !process->call_wishes;
    for (uint32_t word = 0; word < MPI_CALL_WORDS; word++) {
        uint64_t told = all ? UINT64_MAX : 0;
        for (uint32_t call = word * 64; !all && call < CALL_COUNT && call < word * 64 + 64; call++)
            told |= (uint64_t)(process->call_wishes[call] > 0) << call % 64;
        atomic_store(&process->head->untold[word], ~told);
    }
}

/* Its threads look at all that was switched when this changes. They raise it themselves, too. */
static void metrics_set(const struct mpi_process *process, uint32_t counted)
{
    _Atomic uint32_t *metrics = &process->head->metrics;
    uint32_t bits = counted | mpi_tell_bits(process), old = atomic_load(metrics);
    while (!atomic_compare_exchange_weak(metrics, &old, bits | ((old & -MPIA_METRIC_POKE) + MPIA_METRIC_POKE)))
        ;
}

void mpi_process_want(struct mpi_process *process, uint32_t bit, int change)
{
    if (bit & MPIA_METRIC_TELL)
        process->tell_wishes += change;
    if (bit & MPIA_METRIC_MESSAGES)
        process->message_wishes += change;
    if (process->agent->ended || !process->head)
        return;
    mpi_tell_calls(process);
    metrics_set(process, atomic_load(&process->head->metrics) & MPIA_METRIC_ALL);
}

int mpi_process_want_calls(struct mpi_process *process, const uint64_t *calls, int change)
{
    if (!process->call_wishes && !(process->call_wishes = calloc(CALL_COUNT, sizeof *process->call_wishes)))
        return -ENOMEM;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (calls[call / 64] >> call % 64 & 1)
            process->call_wishes[call] = (uint16_t)(process->call_wishes[call] + change);
    process->call_requests += change;
    mpi_process_want(process, MPIA_METRIC_TELL, change);
    return 0;
}

/* ---- settings ---- */

static void settings_apply(struct agent *agent)
{
    const struct mpi_process *process = agent->mpi;
    const struct trace_job *job = mpi_job(process);
    const struct trace_settings *settings = job ? &job->settings : NULL;
    struct mpi_area *area = process->head;
    uint64_t selected[MPI_CALL_WORDS];
    if (!settings || !area)
        return;
    if (!mpi_calls_parse(settings->mpi_distributions, selected))
        memset(selected, 0xff, sizeof selected);
    for (size_t i = 0; i < MPI_CALL_WORDS; i++)
        atomic_store(&area->selected[i], selected[i]);
    atomic_store(&area->bits, settings->mpi_bits);
    mpi_tell_calls(process);
    metrics_set(process, settings->mpi_metrics);
    atomic_store(&area->on, (uint32_t)(settings->mpi != TRACE_MPI_OFF));
}

/* ---- it begins ---- */

static const char *hello_check(const struct hello_mpi *hello)
{
    if (hello->version != MPIA_AREA_VERSION || hello->calls_hash != CALLS_HASH)
        return "the interposer of MPI and the monitor are of different versions of scry";
    if (!memchr(hello->namespace, 0, sizeof hello->namespace) ||
        (hello->library != MPIA_LIBRARY_OPENMPI && hello->library != MPIA_LIBRARY_MPICH))
        return "the hello of an MPI program is malformed";
    return NULL;
}

static int part_make(struct agent *agent, const struct hello_mpi *hello, struct err *err)
{
    if (!agent->agents->monitor->mpi)
        return err_set(err, -EPROTO, "this monitor takes no statistics of MPI");
    struct mpi_process *process = mpi_process_new(agent);
    if (!process)
        return err_set(err, -ENOMEM, "out of memory");
    int code = area_make(process, hello, err);
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
    settings_apply(agent);
    return 0;
}

static int part_adopt(struct agent *agent, uint64_t size)
{
    struct mpi_process *process = mpi_process_new(agent);
    int code = process ? area_adopt(process, size) : -ENOMEM;
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

static void part_moved(struct agent *agent)
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

static void part_came(struct agent *agent)
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

static bool part_drains(const struct agent *agent)
{
    return !agent->mpi->write_failed;
}

/* ---- messages, for the engine ---- */

static bool process_has_queue(const struct process *process)
{
    return mpi_process_find(process->object.monitor->mpi, process->pid) != NULL;
}

static struct process *rank_process(struct monitor *monitor, uint64_t world, int32_t rank)
{
    return mpi_rank_process(monitor->mpi, world, rank);
}

static enum message_state message_state_of(struct monitor *monitor, const struct message_id *id)
{
    struct mpi_queued about;
    return mpi_message_state(monitor->mpi, id, &about);
}

static int messages_queued(struct process *process, struct message_id **ret_ids, size_t *ret_count, struct arena *arena,
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

static const struct message_source message_source = {process_has_queue, rank_process, message_state_of,
                                                     messages_queued};

static int parts_start(struct agents *agents, struct err *err)
{
    struct mpi_registry *registry;
    if (mpi_registry_new(&registry, agents) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    agents->monitor->mpi = registry;
    agents->monitor->message_source = &message_source;
    mpi_message_files_remove(agents);
    return 0;
}

static void parts_stop(struct agents *agents)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    agents->monitor->mpi = NULL;
    agents->monitor->message_source = NULL;
    mpi_registry_free(registry);
}

static void parts_rung(struct agents *agents)
{
    if (agents->monitor->mpi)
        mpi_registry_rung(agents->monitor->mpi);
}

static void parts_job_end(struct agents *agents, const char *dir)
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
    .start = parts_start,
    .stop = parts_stop,
    .rung = parts_rung,
    .check = hello_check,
    .make = part_make,
    .adopt = part_adopt,
    .came = part_came,
    .refused = mpi_process_off,
    .moved = part_moved,
    .ended = mpi_process_ended,
    .drains = part_drains,
    .leave = mpi_process_leave,
    .describe = mpi_process_describe,
    .apply = settings_apply,
    .job_end = parts_job_end,
    .state_print = state_print,
};
