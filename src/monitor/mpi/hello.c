/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshake with interposers (shm/mpi_area.h), and what ties MPI processes to jobs: their settings, and how it
 * stands with them. Who they really are is the kernel's word, not theirs.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "monitor/recorder/agent_mpi.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/mpi/message_internal.h"
#include "monitor/engine/traced.h"
#include "probe/proc.h"

/* ---- settings ---- */

static void apply(const struct mpi_process *process)
{
    const struct trace_settings *settings = process->job ? &process->job->settings : NULL;
    struct mpi_area *area = process->head;
    uint64_t selected[MPI_SELECTED];
    if (!settings)
        return;
    if (!mpi_calls_parse(settings->mpi_distributions, selected))
        memset(selected, 0xff, sizeof selected);
    for (size_t i = 0; i < MPI_SELECTED; i++)
        atomic_store(&area->selected[i], selected[i]);
    atomic_store(&area->bits, settings->mpi_bits);
    mpi_tell_calls(process);
    /* its threads look at all of these when one of the switches changes */
    uint32_t poke = (atomic_load(&area->metrics) ^ MPIA_METRIC_POKE) & MPIA_METRIC_POKE;
    atomic_store(&area->metrics, settings->mpi_metrics | mpi_tell_bits(process) | poke);
    atomic_store(&area->on, (uint32_t)(settings->mpi != TRACE_MPI_OFF));
}

static void apply_all(struct agents *agents, struct trace_job *job)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    for (struct mpi_process *process = registry ? registry->list : NULL; process; process = process->next)
        if (process->job == job && !process->ended)
            apply(process);
}

static void job_state(struct agents *agents, const struct trace_job *job, struct agents_job_state *inout_state)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    for (struct mpi_process *process = registry ? registry->list : NULL, *next; process; process = next) {
        next = process->next;
        if (process->job != job)
            continue;
        struct pollfd exits = {.fd = process->pidfd, .events = POLLIN};
        if (!process->ended && poll(&exits, 1, 0) > 0) /* whoever asks may know it before the loop does */
            mpi_process_ended(process);
        inout_state->draining += process->ended && !process->write_failed;
        if (!process->ended && !agents_find(agents, process->pid))
            inout_state->living++;
    }
}

static void exec_seen(struct agents *agents, pid_t pid, const char *exe)
{
    struct mpi_process *process = mpi_process_find(agents->monitor->mpi, pid);
    if (process && !mpi_same_exe(process, exe))
        mpi_process_ended(process);
}

/* ---- the handshake ---- */

static int send_welcome(int fd, const struct mpi_process *process, int status, const char *reason)
{
    struct mpi_welcome welcome = {.magic = MPIA_HELLO_MAGIC, .version = MPIA_AREA_VERSION, .status = status};
    snprintf(welcome.reason, sizeof welcome.reason, "%s", reason);
    int fds[2] = {process ? process->fd : -1, process ? process->registry->agents->bell_fd : -1};
    return agent_hello_answer(fd, &welcome, sizeof welcome, fds, process ? 2 : 0);
}

/* What is wrong with a hello; NULL: nothing. */
static const char *check_hello(const struct mpi_hello *hello, ssize_t size)
{
    if (size < (ssize_t)(4 * sizeof(uint32_t)))
        return "the hello of an MPI program is malformed";
    if (hello->version != MPIA_AREA_VERSION || hello->calls_hash != CALLS_HASH)
        return "the interposer of MPI and the monitor are of different versions of scry";
    if (size != sizeof *hello || hello->size != sizeof *hello || !memchr(hello->job, 0, sizeof hello->job) ||
        !memchr(hello->exe, 0, sizeof hello->exe) || !memchr(hello->namespace, 0, sizeof hello->namespace) ||
        strchr(hello->job, '\n') || strchr(hello->exe, '\n') || (*hello->job && *hello->job != '/') ||
        (hello->library != MPIA_LIBRARY_OPENMPI && hello->library != MPIA_LIBRARY_MPICH))
        return "the hello of an MPI program is malformed";
    return NULL;
}

static void job_free(struct agents *agents, struct trace_job *job)
{
    job->agents--;
    job_put(agents, job);
}

static void set_job(struct mpi_process *process, const char *dir)
{
    process->job = *dir == '/' ? job_get(process->registry->agents, dir) : NULL;
    if (process->job && job_is_older(process->job, process->pid))
        process->job = NULL;
    if (process->job)
        process->job->agents++;
}

static void job_leave(struct agents *agents, struct trace_job *job)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    if (registry)
        mpi_past_free(registry, job->dir);
    for (struct mpi_process *process = registry ? registry->list : NULL; process; process = process->next)
        if (process->job == job) {
            process->job = NULL;
            job->agents--;
            mpi_area_note(process);
        }
}

static struct mpi_process *make_process(struct mpi_registry *registry, pid_t pid, int pidfd,
                                        const struct mpi_hello *hello, struct err *err)
{
    struct proc_stat stat;
    if (registry->count >= MPI_LIMIT) {
        err_set(err, -EAGAIN, "statistics of %d MPI processes are taken already", MPI_LIMIT);
        return NULL;
    }
    int code = proc_stat_read(pid, 0, &stat);
    if (code < 0) {
        err_errno(err, code, "pid %d", pid);
        return NULL;
    }
    struct mpi_process *before = mpi_process_find(registry, pid), *process;
    if (before) /* it has executed another program */
        mpi_process_ended(before);
    process = mpi_process_new(registry, pid, hello->exe);
    if (!process) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    process->start_ticks = stat.start_ticks;
    process->hint_rank = hello->hint_rank >= 0 ? hello->hint_rank : -1;
    process->hint_size = hello->hint_size >= 0 ? hello->hint_size : -1;
    set_job(process, hello->job);
    if (mpi_area_make(process, hello, err) < 0) {
        if (process->job)
            job_set_problem(process->job, "%s", err->text);
        mpi_process_free(process);
        return NULL;
    }
    process->pidfd = pidfd;
    if (hello->metrics & MPIA_METRIC_MESSAGES)
        mpi_process_want(process, MPIA_METRIC_MESSAGES, 1);
    apply(process);
    mpi_area_note(process);
    return process;
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
    bool known = mpi_process_take_now(rank, &stats, &arena, &err) == 0;
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
    struct monitor *monitor = child->registry->agents->monitor;
    char namespace[sizeof child->head->namespace];
    int32_t rank;
    if (!mpi_spawner_find(child->pid, namespace, sizeof namespace, &rank))
        return;
    for (struct mpi_process *each = child->registry->list; each; each = each->next) {
        struct process *process =
            each->ended || each->head->rank != rank || strcmp(each->head->namespace, namespace) != 0
                ? NULL
                : process_find(monitor, each->pid);
        if (process) {
            traced_started_for(process, thread_that_spawns(each, process), child->pid);
            return;
        }
    }
}

/* ---- rank and world of a process, for its trace, as soon as they are known ---- */

static void describe_as(struct agent *agent, const struct mpi_process *process)
{
    const struct mpi_area *head = process->head;
    char world[sizeof head->namespace + 1] = "";
    if (agent->mpi_described || !agent->writer || !head || atomic_load(&head->state) < MPIA_RUNNING || head->rank < 0)
        return;
    memcpy(world, head->namespace, sizeof head->namespace);
    trace_writer_set(agent->writer, "mpi_rank", "%d", head->rank);
    trace_writer_set(agent->writer, "mpi_size", "%d", head->world_size);
    trace_writer_set(agent->writer, "mpi_world", "%s", world);
    agent->mpi_described = true;
}

static bool is_same(const struct agent *agent, const struct mpi_process *process)
{
    return process->pid == agent->pid && process->start_ticks == agent->start_ticks;
}

static void describe(struct agent *agent)
{
    const struct mpi_registry *registry = agent->agents->monitor->mpi;
    for (const struct mpi_process *process = registry ? registry->list : NULL; process; process = process->next)
        if (is_same(agent, process))
            describe_as(agent, process);
}

static void known(const struct mpi_process *process)
{
    for (struct agent *agent = process->registry->agents->list; agent; agent = agent->next)
        if (is_same(agent, process))
            describe_as(agent, process);
}

/* ---- taking hellos ---- */

static void take_hello(struct agents *agents, int fd, const struct mpi_hello *hello, ssize_t size,
                       const struct ucred *peer)
{
    const char *wrong = peer ? check_hello(hello, size) : "only processes of the monitor's own user are looked at";
    if (!wrong && !agents->monitor->mpi)
        wrong = "this monitor takes no statistics of MPI";
    if (wrong) {
        log_info("the interposer of an MPI program was refused: %s", wrong);
        log_debug("hello pid=%d interposer=%d refused=%s", peer ? peer->pid : 0, wrong ? hello->library : 0,
                  LOG_TEXT(wrong));
        send_welcome(fd, NULL, -EPROTO, wrong);
        return;
    }
    log_debug("hello pid=%d interposer=%d rank=%d size=%d job=%s program=%s", peer->pid, hello->library,
              hello->hint_rank, hello->hint_size, LOG_TEXT(hello->job), LOG_TEXT(hello->exe));
    struct err err = {.text = ""};
    int pidfd = proc_pidfd(peer->pid);
    struct mpi_process *process = pidfd >= 0 ? make_process(agents->monitor->mpi, peer->pid, pidfd, hello, &err) : NULL;
    if (!process) {
        if (pidfd >= 0)
            close(pidfd);
        if (*err.text)
            log_warning("%s", err.text);
        send_welcome(fd, NULL, err.code ? err.code : -ESRCH, err.text);
        return;
    }
    agent_bell_start(agents);
    monitor_enter(agents->monitor);
    mpi_process_came(process);
    tell_spawner(process);
    monitor_leave(agents->monitor);
    if (process->ended)
        send_welcome(fd, NULL, -ESRCH, "it has ended");
    else if (send_welcome(fd, process, 0, "") < 0) /* it did not wait */
        mpi_process_ended(process);
}

/* ---- start and end ---- */

static int adopt(struct mpi_process *process, const char *dir)
{
    struct mpi_area *area = process->head;
    set_job(process, dir);
    process->told_reports = atomic_load(&area->reports);
    agent_bell_start(process->registry->agents);
    mpi_message_commands_adopt(process);
    mpi_messages_adopt(process);
    mpi_process_came(process);
    return 0;
}

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
    return mpi_message_look(monitor->mpi, id, &about);
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
    registry->job_free = job_free;
    registry->known = known;
    agents->monitor->mpi = registry;
    agents->monitor->message_source = &message_source;
    mpi_message_files_remove(agents);
    mpi_area_adopt_all(registry, adopt);
    return 0;
}

static void stop(struct agents *agents)
{
    struct mpi_registry *registry = agents->monitor->mpi;
    agents->monitor->mpi = NULL;
    agents->monitor->message_source = NULL;
    mpi_registry_free(registry);
}

static unsigned count(const struct agents *agents)
{
    return agents->monitor->mpi ? agents->monitor->mpi->count : 0;
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

static uint32_t library(const struct agent *agent)
{
    const struct mpi_process *process = mpi_process_find(agent->agents->monitor->mpi, agent->pid);
    return process ? process->head->library : 0;
}

static void state_print(const struct agents *agents, struct buf *out)
{
    const struct mpi_registry *registry = agents->monitor->mpi;
    for (const struct mpi_process *process = registry ? registry->list : NULL; process; process = process->next) {
        const struct mpi_area *area = process->head;
        buf_printf(out, "rank pid=%d rank=%d state=%s job=%s area_bytes=%llu refused_bytes=%llu on=%u program=%s\n",
                   process->pid, area->rank, process->ended ? "ended" : "running",
                   LOG_TEXT(process->job ? process->job->dir : ""), (unsigned long long)process->memory_taken,
                   (unsigned long long)atomic_load(&area->pool_refused), atomic_load(&area->on),
                   LOG_TEXT(process->exe));
    }
}

const struct agents_mpi agents_mpi = {
    .start = start,
    .stop = stop,
    .count = count,
    .rung = rung,
    .hello = take_hello,
    .exec_seen = exec_seen,
    .library = library,
    .describe = describe,
    .apply = apply_all,
    .job_leave = job_leave,
    .job_state = job_state,
    .job_end = job_end,
    .state_print = state_print,
};
