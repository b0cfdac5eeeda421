/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of traced processes. The jobs that they belong to are in agent_jobs.c. */
#include "monitor/recorder/agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "monitor/recorder/collect.h"
#include "probe/proc.h"

/* ---- problems, for people ---- */

void agent_set_problem(struct agent *agent, struct note note)
{
    struct buf text = BUF_INIT;
    if (agent->problem.note.kind)
        return;
    note_keep(&agent->problem, &note);
    note_text(&text, &agent->problem.note);
    log_warning("%s", text.data ? text.data : "");
    buf_done(&text);
    if (agent->writer)
        trace_writer_problem(agent->writer, &agent->problem.note);
    if (agent->job)
        job_set_problem(agent->job, agent->problem.note);
}

/* ---- agents ---- */

static bool agent_parts_new(struct agent *agent)
{
    return agent_link_new(agent) && agent_modules_new(agent) && agent_layouts_new(agent) &&
           agent_selection_new(agent) && agent_compiled_new(agent) && agent_demands_new(agent) &&
           collect_recording_new(agent);
}

static void agent_parts_free(struct agent *agent)
{
    if (!agent)
        return;
    free(agent->link);
    free(agent->mapped);
    free(agent->layouts);
    free(agent->selection);
    free(agent->compiled);
    free(agent->demands);
    free(agent->recording);
    free(agent->exe);
    free(agent);
}

struct agent *agent_new(struct agents *agents, pid_t pid, const char *dir, const char *exe, struct err *err)
{
    struct agent *agent = calloc(1, sizeof *agent);
    if (!agent || !(agent->exe = strdup(exe)) || !agent_parts_new(agent)) {
        agent_parts_free(agent);
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    agent->agents = agents;
    agent->pid = pid;
    agent->pidfd = agent->files[AREA_FUNCTIONS].fd = agent->files[AREA_MPI].fd = -1;
    agent->rank = (struct agent_rank){0, -1, -1, -1};
    agent->job = *dir == '/' ? job_of_program(agents, dir) : NULL;
    if (agent->job && job_is_older(agent->job, pid))
        agent->job = NULL;
    if (agent->job)
        agent->job->agents++;
    return agent;
}

/* Its functions, whose area goes. */
static void functions_free(struct agent *agent)
{
    if (agent->drained)
        return;
    agent->drained = true;
    log_debug("agent pid=%d state=forgotten records=%llu discarded=%llu", agent->pid,
              (unsigned long long)agent->recording->events, (unsigned long long)agent->recording->discarded);
    if (agent->ended && !agent->adopted && agent->view.area)
        agent_area_learn(agent);
    if (agent->writer) {
        agent_names_again(agent);
        collect_close(agent, "exited");
    }
    agent->recording->events = agent->recording->discarded = 0; /* the job has them */
    agent_compile_free(agent);
    agent_patching_free(agent);
    agent_demands_free(agent);
    agent_select_free(agent);
    agent_modules_free(agent);
    agent_forks_end(agent);
    agent_area_unmap(agent);
    area_file_end(agent->agents, &agent->files[AREA_FUNCTIONS]);
    struct collect_thread *thread, *next;
    HASH_ITER(hh, agent->recording->threads, thread, next)
    {
        HASH_DELETE(hh, agent->recording->threads, thread);
        free(thread);
    }
    profile_free(agent->recording->profile);
    free(agent->recording->open_counted);
}

void agent_free(struct agent *agent)
{
    struct agents *agents = agent->agents;
    functions_free(agent);
    if (agent->announced) {
        if (agent->previous)
            agent->previous->next = agent->next;
        else
            agents->list = agent->next;
        if (agent->next)
            agent->next->previous = agent->previous;
        agents->count--;
    }
    loop_remove(agent->exit_source);
    if (agent->pidfd >= 0)
        close(agent->pidfd);
    if (agent->job) {
        agent->job->agents--;
        job_put(agents, agent->job);
    }
    agent_parts_free(agent);
}

void agent_drained(struct agent *agent)
{
    functions_free(agent);
    if (!agent->mpi)
        agent_free(agent);
}

void agent_mpi_done(struct agent *agent)
{
    if (agent->ended && !agent->view.area)
        agent_free(agent);
}

/* It has not taken its area yet. */
static bool is_starting(const struct agent *agent)
{
    return agent->view.area && atomic_load(&agent->view.area->agent_state) == AREA_STARTING;
}

/* The process is gone, or runs another program: what it left is collected in the next turns. */
void agent_ended(struct agent *agent)
{
    struct agents *agents = agent->agents;
    if (agent->ended)
        return;
    agent->ended = true;
    log_debug("agent pid=%d state=ended", agent->pid);
    if (agent->writer)
        trace_writer_ending(agent->writer);
    if (is_starting(agent)) /* it went on without: the monitor was too slow for it */
        job_note_late(agent->job);
    agent->ended_ns = clock_now_ns();
    agent->ended_ticks = agent_clock_ticks();
    HASH_DELETE(hh, agents->by_pid, agent);
    loop_remove(agent->exit_source);
    agent->exit_source = NULL;
    loop_remove(agent->selection->hold_timer);
    agent->selection->hold_timer = NULL;
    agent_compile_ended(agent);
    if (agents->on_change && agent->view.area)
        agents->on_change(agents->change_ctx, agent, false);
    if (agent->mpi)
        agents->mpi->ended(agent);
    collect_soon(agents);
}

/* What is counted of MPI goes on, in an entry of its own. */
static void mpi_part(struct agent *agent)
{
    struct agents *agents = agent->agents;
    struct err err;
    struct agent *rest = agent_new(agents, agent->pid, "", agent->exe, &err);
    if (!rest)
        return;
    rest->job = agent->job;
    if (rest->job)
        rest->job->agents++;
    rest->start_ticks = agent->start_ticks;
    rest->image = agent->image;
    rest->rank = agent->rank;
    rest->mpi = agent->mpi;
    rest->files[AREA_MPI] = agent->files[AREA_MPI];
    agent->mpi = NULL;
    agent->files[AREA_MPI] = (struct area_file){.fd = -1};
    agents->mpi->moved(rest);
    agent_ended(agent);
    agent_enter(rest);
}

void agent_refused(struct agent *agent)
{
    if (agent->mpi)
        mpi_part(agent);
    agent_ended(agent);
}

void agent_exited(struct agent *agent)
{
    if (is_starting(agent))
        agent_hello_hear(agent->agents);
    agent_ended(agent);
}

static void process_ended(void *ctx, int fd, uint32_t events)
{
    struct agent *agent = ctx;
    (void)fd;
    (void)events;
    struct monitor *monitor = agent->agents->monitor;
    monitor_enter(monitor);
    agent_exited(agent);
    monitor_leave(monitor);
}

void agent_open(struct agent *agent)
{
    struct err err = {.text = ""};
    if (!agent->opens_late)
        return;
    agent->opens_late = false;
    if (agent->job && agent_records(agent) && collect_open(agent, &err) < 0) {
        agent_set_problem(agent, NOTE(nothing_recorded, .reason = err.text));
        atomic_store(&agent->view.area->on, 0);
    }
    agent_forks_update(agent);
    agent_layouts_write(agent);
    agent_note(agent);
}

void agent_enter(struct agent *agent)
{
    struct agents *agents = agent->agents;
    agent->next = agents->list;
    if (agent->next)
        agent->next->previous = agent;
    agents->list = agent;
    agents->count++;
    agent->announced = true;
    if (agent->ended) {
        agent->ended_ns = clock_now_ns();
        collect_soon(agents);
        return;
    }
    if (agent->pidfd < 0)
        agent->pidfd = proc_pidfd(agent->pid);
    HASH_ADD(hh, agents->by_pid, pid, sizeof agent->pid, agent);
    if (agent->pidfd < 0)
        agent_ended(agent);
    else
        agent->exit_source = loop_add_fd(agents->monitor->loop, agent->pidfd, EPOLLIN, process_ended, agent);
    agent_bell_start(agents);
}

void agent_came(struct agent *agent, const struct agent *parent)
{
    struct agents *agents = agent->agents;
    collect_soon(agents);
    if (agent->ended)
        return;
    bool inherited = parent && agent_modules_inherit(agent, parent);
    if (!inherited)
        agent_modules_refresh(agent);
    inherited = inherited && agent_inherit(agent, parent);
    if (!inherited) /* its choice is made anew, and that looks for the trace */
        agent_open(agent);
    agent->selection->waits = true; /* whatever is demanded now, main is held until agent_apply */
    if (agents->on_change) {
        monitor_enter(agents->monitor);
        agents->on_change(agents->change_ctx, agent, true);
        monitor_leave(agents->monitor);
    }
    if (agent->ended)
        return;
    if (inherited && !agent_is_demanded(agent)) {
        agent->selection->waits = false;
        agent_settle(agent);
    } else {
        agent_open(agent);
        agent->selection->applies_soon = agent_applies_long(agent);
        if (agent->selection->applies_soon)
            agent_settle(agent); /* holds it */
        else
            agent_apply(agent);
    }
}

unsigned agents_count(const struct agents *agents)
{
    return agents->count;
}

struct agent *agents_known(struct agents *agents, pid_t pid)
{
    struct agent *agent;
    HASH_FIND(hh, agents->by_pid, &pid, sizeof pid, agent);
    return agent;
}

struct agent *agents_find(struct agents *agents, pid_t pid)
{
    struct agent *agent = agents_known(agents, pid);
    return agent && agent->view.area ? agent : NULL;
}

void agents_each(struct agents *agents, const char *dir, void (*fn)(void *ctx, struct agent *agent), void *ctx)
{
    agents->collecting++;
    struct agent *agent, *next;
    HASH_ITER(hh, agents->by_pid, agent, next)
    {
        if (agent->view.area && (!dir || (agent->job && strcmp(agent->job->dir, dir) == 0)))
            fn(ctx, agent);
    }
    agents->collecting--;
}

pid_t agent_pid(const struct agent *agent)
{
    return agent->pid;
}

const char *agent_job(const struct agent *agent)
{
    return agent->job ? agent->job->dir : "";
}

const struct area_view *agent_view(const struct agent *agent)
{
    return &agent->view;
}

const char *agent_trace_path(const struct agent *agent)
{
    return agent->writer ? trace_writer_path(agent->writer) : "";
}

const struct note *agent_problem(const struct agent *agent)
{
    return &agent->problem.note;
}

struct profile *agent_profile(struct agent *agent)
{
    return agent->recording->profile;
}

void agents_on_event(struct agents *agents, void (*fn)(void *ctx, const struct agent_event *event), void *ctx)
{
    agents->on_event = fn;
    agents->event_ctx = ctx;
}

void agents_on_change(struct agents *agents, void (*fn)(void *ctx, struct agent *agent, bool came), void *ctx)
{
    agents->on_change = fn;
    agents->change_ctx = ctx;
}

void agents_on_ring(struct agents *agents, void (*fn)(void *ctx), void *ctx)
{
    agents->on_ring = fn;
    agents->ring_ctx = ctx;
}

/* ---- the monitor's state (monitor/engine/monitor.h): jobs, traced processes, helpers ---- */

struct job_sums agents_job_sums(const struct agents *agents, const struct trace_job *job)
{
    struct job_sums sums = {.events = job->events, .discarded = job->discarded};
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job)
            continue;
        sums.living += !agent->ended;
        sums.draining += agent_drains(agent);
        sums.events += agent->recording->events;
        sums.discarded += agent->recording->discarded;
    }
    return sums;
}

static unsigned long long number(uint64_t value)
{
    return value;
}

static void print_job(const struct agents *agents, const struct trace_job *job, struct buf *out)
{
    struct job_sums sums = agents_job_sums(agents, job);
    buf_printf(out,
               "job dir=%s followed=%d traced=%u draining=%u hooked=%d unhooked_programs=%zu records=%llu "
               "discarded=%llu limited=%d refused=%u late=%u mpi_no_room=%u unreachable=%d",
               LOG_TEXT(job->dir), !job->ended, sums.living, sums.draining, job->hooked, job->noted_count,
               number(sums.events), number(sums.discarded), job->limited, job->refused, job->late, job->mpi_no_room,
               job->unreachable);
    if (job->refused)
        buf_printf(out, " refused_why=%s", LOG_TEXT(job->refused_why));
    buf_printf(out, " problem=%s\n", note_name(job->problem.note.kind));
}

static void print_agent(const struct agent *agent, struct buf *out)
{
    buf_printf(out,
               "agent pid=%d state=%s job=%s area_bytes=%llu packets=%u records=%llu discarded=%llu skipped=%llu "
               "damaged=%llu held=%d compiling=%d program=%s problem=%s\n",
               agent->pid,
               agent->ended     ? "draining"
               : agent->adopted ? "adopted"
                                : "traced",
               LOG_TEXT(agent->job ? agent->job->dir : ""), number(agent->files[AREA_FUNCTIONS].memory_taken),
               agent_packets(agent), number(agent->recording->events), number(agent->recording->discarded),
               number(agent->recording->skipped), number(agent->recording->damaged),
               agent->selection->hold_timer != NULL, agent_compiling(agent), LOG_TEXT(agent->exe),
               note_name(agent->problem.note.kind));
}

static void agents_state_print(void *ctx, struct buf *out)
{
    const struct agents *agents = ctx;
    unsigned traced = 0, ranks = 0;
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        traced += agent->view.area != NULL;
        ranks += agent->mpi != NULL;
    }
    buf_printf(out,
               "agents traced=%u ranks=%u hellos_waiting=%u areas=%s area_bytes=%llu area_bytes_left=%llu "
               "collect_ms=%llu\n",
               traced, ranks, agents->connection_count, LOG_TEXT(agents->rings), number(agents->memory_taken),
               number(agents->memory_left), number(agents->timer_ns / 1000000));
    buf_printf(out, "helpers running=%u waiting=%u started=%llu failed=%llu missing=%d\n", agents->helpers_running,
               helpers_waiting(agents), number(agents->helpers_started), number(agents->helpers_failed),
               agents->helper_missing);
    for (const struct trace_job *job = agents->jobs; job; job = job->hh.next)
        print_job(agents, job, out);
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->view.area)
            print_agent(agent, out);
        if (agent->mpi)
            agents->mpi->state_print(agent, out);
    }
}

/* ---- start and end ---- */

int agents_new(struct agents **ret_agents, struct monitor *monitor, const char *runtime_dir,
               const struct agents_mpi *mpi, struct err *err)
{
    struct agents *agents = calloc(1, sizeof *agents);
    if (!agents)
        return err_set(err, -ENOMEM, "out of memory");
    agents->monitor = monitor;
    agents->mpi = mpi;
    agents->memory = MEMORY_DIR_INIT;
    agents->listen_fd = agents->listen_file = agents->bell_fd = agents->ring_fd = -1;
    agent_clock_start(agents);
    agents->runtime = strdup(runtime_dir);
    int code = agents->runtime && collect_new(agents) == 0 ? 0 : -ENOMEM;
    code = code < 0 ? err_errno(err, code, "cannot trace") : agent_rings_open(agents, err);
    if (code == 0)
        code = agent_bell_open(agents, err);
    if (code == 0)
        code = agent_hello_listen(agents, err);
    if (code < 0) {
        agents_free(agents);
        return code;
    }
    code = agents->mpi->start(agents, err);
    if (code < 0) {
        agents_free(agents);
        return code;
    }
    agents_adopt_all(agents);
    monitor->traced = (struct state_part){agents_state_print, agents};
    monitor->in_jump = agents_in_jump;
    *ret_agents = agents;
    return 0;
}

void agents_unreachable(struct agents *agents)
{
    for (struct trace_job *job = agents->jobs; job; job = job->hh.next)
        job->unreachable = true;
}

int agents_again(struct agents *agents, bool moved, struct err *err)
{
    int code = agent_rings_again(agents, moved, err);
    if (code < 0 || file_is_at(agents->socket_path, agents->listen_file))
        return code;
    agents_unreachable(agents);
    return agent_hello_listen(agents, err);
}

/* The programs live on with their areas, for the next monitor; what is in them now is written. */
static void leave_agent(struct agent *agent)
{
    struct agents *agents = agent->agents;
    collect_agent(agent, UINT64_MAX, true, false);
    if (agent->mpi) /* first: its files have the number of the trace that is open */
        agents->mpi->leave(agent);
    if (!agent->ended) {
        if (agents->by_pid)
            HASH_DELETE(hh, agents->by_pid, agent);
        agent_go(agent);
        collect_close(agent, "running");
        area_file_leave(agents, &agent->files[AREA_FUNCTIONS]);
    }
    agent_free(agent);
}

void agents_free(struct agents *agents)
{
    if (!agents)
        return;
    agents->monitor->traced.print = NULL;
    agents->monitor->in_jump = NULL;
    agents->on_event = NULL;
    agents->on_change = NULL;
    agents->on_ring = NULL;
    agent_hello_close(agents);
    agents->collecting++;
    while (agents->list)
        leave_agent(agents->list);
    agents->mpi->stop(agents);
    agents_switches_free(agents);
    agent_compiled_sets_free(agents);
    helpers_free(agents);
    agents_indexes_free(agents);
    struct trace_job *job, *next;
    HASH_ITER(hh, agents->jobs, job, next)
    {
        job->agents = 0;
        job->ended = true;
        job_put(agents, job);
    }
    loop_remove(agents->timer);
    loop_remove(agents->start_timer);
    loop_remove(agents->deferred);
    agent_bell_close(agents);
    collect_free(agents);
    agent_rings_close(agents);
    free(agents->groups);
    free(agents->runtime);
    free(agents);
}
