/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of traced processes and of the jobs they belong to. */
#include "monitor/agents.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/dirs.h"
#include "base/log.h"
#include "lang/value.h"
#include "monitor/agents_internal.h"
#include "monitor/monitor.h"
#include "monitor/mpi_internal.h"
#include "probe/proc.h"

/* ---- problems, for people ---- */

void agent_set_problem(struct agent *agent, const char *format, ...)
{
    va_list args;
    if (*agent->problem) /* the first one is the cause of the others */
        return;
    va_start(args, format);
    vsnprintf(agent->problem, sizeof agent->problem, format, args);
    va_end(args);
    log_warning("%s", agent->problem);
    if (agent->writer)
        trace_writer_problem(agent->writer, agent->problem);
    if (agent->job)
        job_set_problem(agent->job, "%s", agent->problem);
}

void job_set_problem(struct trace_job *job, const char *format, ...)
{
    va_list args;
    if (*job->problem)
        return;
    va_start(args, format);
    vsnprintf(job->problem, sizeof job->problem, format, args);
    va_end(args);
}

/* ---- jobs ---- */

static void add_tree(const char *path, unsigned depth, uint64_t *bytes)
{
    DIR *dir = opendir(path);
    if (!dir)
        return;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char below[PATH_MAX];
        struct stat st;
        if (entry->d_name[0] == '.' && (!entry->d_name[1] || entry->d_name[1] == '.'))
            continue;
        if (snprintf(below, sizeof below, "%s/%s", path, entry->d_name) >= (int)sizeof below || lstat(below, &st) < 0)
            continue;
        if (S_ISREG(st.st_mode))
            *bytes += (uint64_t)st.st_size;
        else if (S_ISDIR(st.st_mode) && depth)
            add_tree(below, depth - 1, bytes);
    }
    closedir(dir);
}

struct trace_job *job_get(struct agents *agents, const char *dir)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (job)
        return job;
    job = calloc(1, sizeof *job);
    if (!job || trace_settings_init(&job->settings) < 0 || !(job->dir = strdup(dir))) {
        if (job)
            trace_settings_done(&job->settings);
        free(job);
        return NULL;
    }
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/trace", dir) < (int)sizeof path)
        add_tree(path, 2, &job->bytes_before);
    job->disk.reserve = -1;
    job->ended = true; /* until somebody follows it */
    HASH_ADD_KEYPTR(hh, agents->jobs, job->dir, strlen(job->dir), job);
    return job;
}

void job_put(struct agents *agents, struct trace_job *job)
{
    if (!job || job->agents || !job->ended)
        return;
    HASH_DELETE(hh, agents->jobs, job);
    collect_release_reserve(job);
    trace_settings_done(&job->settings);
    for (size_t i = 0; i < job->noted_count; i++)
        free(job->noted[i].exe);
    free(job->dir);
    free(job);
}

/* Often several change at once: values are compiled for all of them, and until then go on as they are. */
static void agent_changes_values(struct agent *agent)
{
    agent_compile_again(agent);
    agent->applies_soon = true;
    collect_soon(agent->agents);
}

int agents_job_set(struct agents *agents, const char *dir, const char *key, const char *value, struct err *err)
{
    struct trace_job *job = job_get(agents, dir);
    if (!job)
        return err_set(err, -ENOMEM, "out of memory");
    if (!key) {
        job->ended = false;
        return 0;
    }
    int code = trace_settings_set(&job->settings, key, value, err);
    if (code < 0)
        return code;
    if (strncmp(key, "mpi", 3) == 0) {
        mpi_apply(agents, job);
        return 0;
    }
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (agent->job != job || agent->ended)
            continue;
        if (strcmp(key, "trace") == 0)
            agent_overrides_free(agent);
        if (strcmp(key, "args") == 0 || strcmp(key, "locals") == 0 || strcmp(key, "depth") == 0)
            agent_changes_values(agent);
        else if (!agent->applies_soon)
            agent_apply(agent);
    }
    agents->collecting--;
    return 0;
}

void agents_job_end(struct agents *agents, const char *dir)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (!job)
        return;
    job->ended = true;
    if (agents->monitor->mpi)
        mpi_past_free(agents->monitor->mpi, dir);
    job_put(agents, job);
}

static void add_setting(void *ctx, const char *key, const char *value)
{
    struct buf *out = ctx;
    if (out->len)
        buf_putc(out, ',');
    value_print_string(out, span_str(key));
    buf_putc(out, ',');
    value_print_string(out, span_str(value));
}

int agents_job_settings(struct agents *agents, const char *dir, struct buf *out)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (!job)
        return -ENOENT;
    struct buf text = BUF_INIT;
    trace_settings_each(&job->settings, add_setting, &text);
    buf_append(out, text.data, text.len);
    buf_done(&text);
    return 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* `WHAT: a, b; REMEDY` of the programs that have hooks of their own, or have none. */
static void describe_some(const struct trace_job *job, bool own_hooks, const char *what, const char *remedy,
                          struct buf *out)
{
    const char *between = what;
    for (size_t i = 0; i < job->noted_count; i++) {
        if (job->noted[i].own_hooks != own_hooks)
            continue;
        if (between == what && out->len)
            buf_puts(out, "; ");
        buf_printf(out, "%s %s", between, base_name(job->noted[i].exe));
        between = ",";
    }
    if (between != what)
        buf_puts(out, remedy);
}

/* Why there is nothing: programs that were compiled without hooks, or have their own. */
static void describe_noted(struct trace_job *job, char *ret_text, size_t size)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    for (size_t i = 0; i < job->noted_count; i++) {
        struct noted_program *program = &job->noted[i];
        if (!program->looked)
            program->own_hooks = elf_has_own_hooks(program->exe);
        program->looked = true;
    }
    describe_some(job, false, "compiled without -finstrument-functions:",
                  "; compile with -g -finstrument-functions, and their calls are recorded", &text);
    describe_some(job, true, "with hooks of their own (__cyg_profile_func_enter), which get their calls:",
                  "; leave them out, and the calls are recorded", &text);
    snprintf(ret_text, size, "%s", text.data ? text.data : "");
}

/* The symbols of a big program take seconds the first time. */
static void describe_hold(struct agents *agents, const struct trace_job *job, struct agents_job_state *state)
{
    for (const struct agent *agent = agents->list; agent && !*state->note; agent = agent->next)
        if (agent->job == job && agent->hold_timer && !agent->ended)
            snprintf(state->note, sizeof state->note, "pid %d, %.300s, waits until %s, but not longer than %d s",
                     agent->pid, agent->exe,
                     agent_indexes_ready(agent) ? "it is known where its values are"
                                                : "its symbols are read, which are kept for the next time",
                     HOLD_MS / 1000);
}

int agents_job_state(struct agents *agents, const char *dir, struct agents_job_state *ret_state)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (!job)
        return -ENOENT;
    *ret_state = (struct agents_job_state){.events = job->events, .discarded = job->discarded};
    for (struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job)
            continue;
        struct pollfd exits = {.fd = agent->pidfd, .events = POLLIN};
        if (!agent->ended && poll(&exits, 1, 0) > 0) /* whoever asks may know it before the loop does */
            agent_ended(agent);
        ret_state->living += !agent->ended;
        ret_state->draining += agent->ended;
        ret_state->events += agent->events;
        ret_state->discarded += agent->discarded;
    }
    mpi_job_state(agents, job, ret_state);
    if (*job->problem)
        snprintf(ret_state->problem, sizeof ret_state->problem, "%s", job->problem);
    else if (!job->hooked && job->noted_count && job->settings.enabled)
        describe_noted(job, ret_state->problem, sizeof ret_state->problem);
    else if (!ret_state->events)
        snprintf(ret_state->problem, sizeof ret_state->problem, "%s", job->unmatched);
    for (unsigned i = 0; i < job->rule_note_count; i++) {
        const struct rule_note *rule = &job->rule_notes[i];
        if (*rule->reason && (!rule->met || strstr(rule->reason, "condition")) && !*ret_state->note)
            snprintf(ret_state->note, sizeof ret_state->note, "a rule or request cannot hold: %s", rule->reason);
    }
    describe_hold(agents, job, ret_state);
    if (job->refused)
        snprintf(ret_state->note, sizeof ret_state->note, "%u process%s not traced: %s", job->refused,
                 job->refused == 1 ? " was" : "es were", job->refused_why);
    size_t len = job->late && job->refused ? strlen(ret_state->note) : 0;
    if (job->late)
        snprintf(ret_state->note + len, sizeof ret_state->note - len,
                 "%s%u process%s not traced: the monitor did not answer in time on this busy node", len ? "; " : "",
                 job->late, job->late == 1 ? " was" : "es were");
    return 0;
}

unsigned agents_draining(struct agents *agents, const char *dir, unsigned *ret_living)
{
    struct agents_job_state state = {0};
    agents_job_state(agents, dir, &state);
    *ret_living = state.living;
    return state.draining;
}

unsigned agents_count(const struct agents *agents)
{
    return agents->count + mpi_registry_count(agents->monitor->mpi);
}

void job_note_late(struct trace_job *job)
{
    if (job && !job->settings.off)
        job->late++;
}

/* A program that calls no hooks: worth a word if nothing else of the job does. */
void job_note_program(struct trace_job *job, const char *exe)
{
    for (size_t i = 0; i < job->noted_count; i++)
        if (strcmp(base_name(job->noted[i].exe), base_name(exe)) == 0)
            return;
    char *copy = job->noted_count < NOTED_LIMIT ? strdup(exe) : NULL;
    if (copy)
        job->noted[job->noted_count++] = (struct noted_program){.exe = copy};
}

/* ---- agents ---- */

struct agent *agent_new(struct agents *agents, pid_t pid, const char *dir, const char *exe, struct err *err)
{
    struct agent *agent = calloc(1, sizeof *agent);
    if (!agent || !(agent->exe = strdup(exe))) {
        free(agent);
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    agent->agents = agents;
    agent->pid = pid;
    agent->pidfd = agent->area_fd = -1;
    agent->next_layout = RECORD_NO_LAYOUT + 1;
    agent->job = *dir == '/' ? job_get(agents, dir) : NULL;
    if (agent->job)
        agent->job->agents++;
    return agent;
}

void agent_free(struct agent *agent)
{
    struct agents *agents = agent->agents;
    if (agent->ended && !agent->adopted)
        agent_area_learn(agent);
    if (agent->writer) {
        agent_names_again(agent);
        collect_close(agent, "exited");
    }
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
    agent_compile_free(agent);
    agent_demands_free(agent);
    agent_select_free(agent);
    agent_modules_free(agent);
    agent_area_remove(agent);
    agent_area_unmap(agent);
    agent_memory_give_back(agent, agent->memory_taken);
    if (agent->area_fd >= 0)
        close(agent->area_fd);
    struct collect_thread *thread, *next;
    HASH_ITER(hh, agent->threads, thread, next)
    {
        HASH_DELETE(hh, agent->threads, thread);
        free(thread);
    }
    profile_free(agent->profile);
    free(agent->known);
    free(agent->named);
    free(agent->area_path);
    free(agent->exe);
    if (agent->job) {
        agent->job->agents--;
        job_put(agents, agent->job);
    }
    free(agent);
}

/* It went on without its area: the monitor was too slow for it. */
static void note_late(struct agent *agent)
{
    if (agent->view.area && atomic_load(&agent->view.area->agent_state) == AREA_STARTING)
        job_note_late(agent->job);
}

/* The process is gone, or runs another program: what it left is collected in the next turns. */
void agent_ended(struct agent *agent)
{
    struct agents *agents = agent->agents;
    if (agent->ended)
        return;
    agent->ended = true;
    if (agent->writer)
        trace_writer_ending(agent->writer);
    note_late(agent);
    agent->ended_ns = clock_now_ns();
    HASH_DELETE(hh, agents->by_pid, agent);
    loop_remove(agent->exit_source);
    agent->exit_source = NULL;
    loop_remove(agent->hold_timer);
    agent->hold_timer = NULL;
    if (agents->on_change)
        agents->on_change(agents->change_ctx, agent, false);
    collect_soon(agents);
}

static void process_ended(void *ctx, int fd, uint32_t events)
{
    struct agent *agent = ctx;
    (void)fd;
    (void)events;
    struct monitor *monitor = agent->agents->monitor;
    monitor_enter(monitor);
    agent_ended(agent);
    monitor_leave(monitor);
}

void agent_open(struct agent *agent)
{
    struct err err = {.text = ""};
    if (!agent->opens_late)
        return;
    agent->opens_late = false;
    if (agent->job && !agent->job->settings.off && collect_open(agent, &err) < 0) {
        agent_set_problem(agent, "%s", err.text);
        atomic_store(&agent->view.area->on, 0);
    }
    agent_layouts_write(agent);
    agent_area_note(agent);
}

void agent_came(struct agent *agent, const struct agent *parent)
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
    collect_soon(agents);
    if (agent->ended)
        return;
    bool inherited = parent && agent_modules_inherit(agent, parent);
    if (!inherited)
        agent_modules_refresh(agent);
    inherited = inherited && agent_inherit(agent, parent);
    if (!inherited) /* its choice is made anew, and that looks for the trace */
        agent_open(agent);
    agent->selection_waits = true; /* whatever is demanded now, main is held until agent_apply */
    if (agents->on_change) {
        monitor_enter(agents->monitor);
        agents->on_change(agents->change_ctx, agent, true);
        monitor_leave(agents->monitor);
    }
    if (agent->ended)
        return;
    if (inherited && !agent->demands) {
        agent->selection_waits = false;
        agent_settle(agent);
    } else {
        agent_open(agent);
        agent->applies_soon = agent_applies_long(agent);
        if (agent->applies_soon)
            agent_settle(agent); /* holds it */
        else
            agent_apply(agent);
    }
}

struct agent *agents_find(struct agents *agents, pid_t pid)
{
    struct agent *agent;
    HASH_FIND(hh, agents->by_pid, &pid, sizeof pid, agent);
    return agent;
}

void agents_each(struct agents *agents, const char *dir, void (*fn)(void *ctx, struct agent *agent), void *ctx)
{
    agents->collecting++;
    struct agent *agent, *next;
    HASH_ITER(hh, agents->by_pid, agent, next)
    {
        if (!dir || (agent->job && strcmp(agent->job->dir, dir) == 0))
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

const char *agent_problem(const struct agent *agent)
{
    return agent->problem;
}

struct profile *agent_profile(struct agent *agent)
{
    return agent->profile;
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

/* ---- start and end ---- */

int agents_new(struct agents **ret_agents, struct monitor *monitor, const char *runtime_dir, struct err *err)
{
    struct agents *agents = calloc(1, sizeof *agents);
    if (!agents)
        return err_set(err, -ENOMEM, "out of memory");
    agents->monitor = monitor;
    agents->memory = MEMORY_DIR_INIT;
    agents->listen_fd = agents->bell_fd = agents->ring_fd = -1;
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
    agent_area_adopt_all(agents);
    code = mpi_start(agents, err);
    if (code < 0) {
        agents_free(agents);
        return code;
    }
    *ret_agents = agents;
    return 0;
}

/* The programs live on with their areas, for the next monitor; what is in them now is written. */
static void leave_agent(struct agent *agent)
{
    struct agents *agents = agent->agents;
    collect_agent(agent, UINT64_MAX, true, false);
    if (!agent->ended) {
        if (agents->by_pid)
            HASH_DELETE(hh, agents->by_pid, agent);
        agent_go(agent);
        collect_close(agent, "running");
        free(agent->area_path); /* stays */
        agent->area_path = NULL;
    }
    agent_free(agent);
}

void agents_free(struct agents *agents)
{
    if (!agents)
        return;
    agents->on_event = NULL;
    agents->on_change = NULL;
    agents->on_ring = NULL;
    agent_hello_close(agents);
    mpi_stop(agents); /* first: files have the numbers of traces that are open */
    agents->collecting++;
    while (agents->list)
        leave_agent(agents->list);
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
    free(agents->runtime);
    free(agents);
}
