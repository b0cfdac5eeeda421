/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs that traced processes belong to: their settings, how it stands with them, and why nothing is traced. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "jobdir/record/parts.h"
#include "lang/value.h"
#include "monitor/recorder/agent.h"
#include "monitor/engine/monitor.h"
#include "probe/proc.h"
#include "shm/waits.h"

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

static bool place_find(const char *dir, struct job_place *ret_place)
{
    struct statx st;
    if (statx(AT_FDCWD, dir, 0, STATX_INO | STATX_BTIME, &st) < 0 || !(st.stx_mask & STATX_BTIME))
        return false;
    *ret_place = (struct job_place){.device = (uint64_t)st.stx_dev_major << 32 | st.stx_dev_minor,
                                    .inode = st.stx_ino,
                                    .born_ns = st.stx_btime.tv_sec * NS_PER_SECOND + st.stx_btime.tv_nsec};
    return true;
}

/* A directory of the same name that was made later is another job's. Where it is not known when it was made (some
 * network file systems give numbers to files as they like), it is taken for the same. */
static bool is_replaced(struct trace_job *job)
{
    struct job_place now;
    if (!place_find(job->dir, &now))
        return false;
    if (!job->place.born_ns)
        job->place = now;
    return now.device != job->place.device || now.inode != job->place.inode || now.born_ns != job->place.born_ns;
}

/* Those that still belong to it keep it, but nobody finds it any more. */
static void job_leave(struct agents *agents, struct trace_job *job)
{
    HASH_DELETE(hh, agents->jobs, job);
    job->replaced = job->ended = true;
    agents->mpi->job_end(agents, job->dir);
    for (const struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->job == job)
            agent_note(agent);
    job_put(agents, job);
}

bool job_is_older(const struct trace_job *job, pid_t pid)
{
    struct proc_stat stat;
    struct timespec boot;
    if (!job->replaces || !job->place.born_ns || proc_stat_read(pid, 0, &stat) < 0)
        return false;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    int64_t boot_ns = (int64_t)clock_wall_ns() - (boot.tv_sec * NS_PER_SECOND + boot.tv_nsec);
    int64_t started_ns = boot_ns + (int64_t)(stat.start_ticks * (NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK)));
    return started_ns + START_EXACT_NS < job->place.born_ns;
}

bool agents_job_has(struct agents *agents, const char *dir, pid_t pid)
{
    struct trace_job *job = NULL;
    if (agents)
        HASH_FIND_STR(agents->jobs, dir, job);
    return !job || !job_is_older(job, pid);
}

static struct trace_job *job_get(struct agents *agents, const char *dir)
{
    struct trace_job *job;
    bool replaces = false;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (job && !is_replaced(job))
        return job;
    if (job) {
        job_leave(agents, job);
        replaces = true;
    }
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
    job->replaces = replaces;
    place_find(dir, &job->place);
    HASH_ADD_KEYPTR(hh, agents->jobs, job->dir, strlen(job->dir), job);
    return job;
}

struct trace_job *job_of_program(struct agents *agents, const char *dir)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    for (struct trace_job *each = job ? NULL : agents->jobs; each; each = each->hh.next)
        if (each->home && !each->ended && strcmp(each->home, dir) == 0)
            return each;
    return job_get(agents, dir);
}

/* A launcher may hand the environment of another node to its programs here, with the job that these name. */
static int set_home(struct trace_job *job, const char *home)
{
    char *copy = strdup(home);
    if (!copy)
        return -ENOMEM;
    free(job->home);
    job->home = copy;
    return 0;
}

void job_put(struct agents *agents, struct trace_job *job)
{
    if (!job || job->agents || !job->ended)
        return;
    if (!job->replaced)
        HASH_DELETE(hh, agents->jobs, job);
    agents_forks_free(agents, job);
    collect_release_reserve(job);
    trace_settings_done(&job->settings);
    for (size_t i = 0; i < job->noted_count; i++)
        free(job->noted[i].exe);
    struct refused_process *refused, *next;
    HASH_ITER(hh, job->refused_list, refused, next)
    {
        HASH_DEL(job->refused_list, refused);
        free(refused);
    }
    free(job->dir);
    free(job->home);
    free(job);
}

/* Often several change at once: values are compiled for all of them, and until then go on as they are. */
static void agent_changes_values(struct agent *agent)
{
    agent_compile_again(agent);
    agent->selection->applies_soon = true;
    collect_soon(agent->agents);
}

/* Calls have their slots before they are told. */
static int job_set_mpi(struct agents *agents, struct trace_job *job, bool tells)
{
    for (struct agent *agent = tells ? agents->list : NULL, *next; agent; agent = next) {
        next = agent->next;
        if (agent->job == job && !agent->ended && agent_mpi_tells(agent))
            agent_apply(agent);
    }
    for (struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->job == job && agent->mpi && !agent->ended)
            agents->mpi->apply(agent);
    return 0;
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
    if (strcmp(key, JOB_HOME) == 0)
        return set_home(job, value);
    int code = trace_settings_set(&job->settings, key, value, err);
    log_debug("setting job=%s key=%s value=%s code=%d", LOG_TEXT(dir), key, LOG_TEXT(value), code);
    if (code < 0)
        return code;
    if (strncmp(key, "mpi", 3) == 0)
        return job_set_mpi(agents, job, strcmp(key, "mpi") == 0);
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        if (agent->job != job || agent->ended || !agent->view.area)
            continue;
        if (strcmp(key, "trace") == 0)
            agent_overrides_free(agent);
        if (agent->as_left) { /* all are told in one request: none is in force without the others */
            agent->as_left = false;
            agent_changes_values(agent);
        } else if (trace_settings_compiled(key))
            agent_changes_values(agent);
        else if (!agent->selection->applies_soon)
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
    agents->mpi->job_end(agents, dir);
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

const char *agents_job_home(const struct agents *agents, const char *dir)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    return job ? job->home : NULL;
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

static void add_problem(struct agents_job_state *state, struct note note)
{
    state->problems[state->problem_count++] = note;
}

/* Nobody compiles these anew to record their calls: shells above all, whose scripts are the job. */
static bool is_of_system(const char *exe)
{
    exe += strncmp(exe, "/usr/", 5) == 0 ? 4 : 0;
    return strncmp(exe, "/bin/", 5) == 0 || strncmp(exe, "/sbin/", 6) == 0;
}

/* The programs of one kind: "a, b". */
static const char *name_noted(const struct trace_job *job, enum noted_why why, struct agents_job_state *state)
{
    char *names = state->programs[why];
    size_t len = 0, size = sizeof state->programs[0];
    for (size_t i = 0; i < job->noted_count; i++)
        if (job->noted[i].why == why && len < size)
            len += (size_t)snprintf(names + len, size - len, "%s%s", len ? ", " : "", basename(job->noted[i].exe));
    return names;
}

/* Programs that were compiled without hooks, or have their own. Of those of the system only if there are no others. */
static void describe_noted(struct trace_job *job, struct agents_job_state *state)
{
    for (size_t i = 0; i < job->noted_count; i++) {
        struct noted_program *program = &job->noted[i];
        if (!program->looked)
            program->why = elf_has_own_hooks(program->exe) ? NOTED_OWN_HOOKS
                           : is_of_system(program->exe)    ? NOTED_SYSTEM
                                                           : NOTED_NO_HOOKS;
        program->looked = true;
    }
    const char *without = name_noted(job, NOTED_NO_HOOKS, state), *own = name_noted(job, NOTED_OWN_HOOKS, state);
    if (*without)
        add_problem(state, NOTE(no_hooks, .programs = without, .named = job->patches));
    if (*own)
        add_problem(state, NOTE(own_hooks, .programs = own));
    if (!*without && !*own)
        add_problem(state,
                    NOTE(no_hooks_system, .programs = name_noted(job, NOTED_SYSTEM, state), .named = job->patches));
}

/* Why there is nothing. */
static void describe_problems(struct trace_job *job, struct agents_job_state *state)
{
    if (job->problem.note.kind)
        add_problem(state, job->problem.note);
    else if (!job->hooked && job->noted_count && job->settings.enabled)
        describe_noted(job, state);
    else if (!state->events && job->unmatched.note.kind)
        add_problem(state, job->unmatched.note);
}

static void add_note(struct agents_job_state *state, struct note note)
{
    if (state->note_count < AGENTS_NOTES)
        state->notes[state->note_count++] = note;
}

/* The first rule or request that does not hold: nowhere, or not everywhere. */
static void describe_rules(const struct trace_job *job, struct agents_job_state *state)
{
    for (unsigned i = 0; i < job->rule_note_count && !state->note_count; i++) {
        const struct rule_note *rule = &job->rule_notes[i];
        if (rule->kind == NOTE_condition_unseen)
            add_note(state, NOTE(condition_unseen, .elsewhere = rule->met, .function = rule->function,
                                 .reason = rule->reason));
        else if (rule->kind == NOTE_no_such_function && !rule->met)
            add_note(state, NOTE(no_such_function, .function = rule->function));
    }
}

/* The symbols of a big program take seconds the first time. */
static void describe_hold(struct agents *agents, const struct trace_job *job, struct agents_job_state *state)
{
    const struct agent *agent = agents->list;
    while (agent && (agent->job != job || !agent->selection->hold_timer || agent->ended))
        agent = agent->next;
    if (agent)
        add_note(state, NOTE(main_waits, .pid = (uint64_t)agent->pid, .program = agent->exe,
                             .indexed = agent_indexes_ready(agent),
                             .limit_seconds = wait_policies[WAIT_MAIN].limit_ms / 1000));
}

/* What was not traced, or not counted, and why. */
static void describe_missing(const struct agents *agents, const struct trace_job *job, struct agents_job_state *state)
{
    if (job->refused)
        add_note(state, NOTE(refused, .processes = job->refused, .at_least = job->refused == REFUSED_LIMIT,
                             .reason = job->refused_why));
    struct forks_counts forks = agents_forks_count(agents, job);
    if (forks.left_alone && !job->settings.off)
        add_note(state, NOTE(left_alone, .processes = forks.left_alone));
    if (forks.unreached && !job->settings.off)
        add_note(state, NOTE(unreached, .processes = forks.unreached));
    if (job->late)
        add_note(state, NOTE(late, .processes = job->late));
    if (job->mpi_no_room)
        add_note(state, NOTE(mpi_no_room, .processes = job->mpi_no_room, .room_mb = job->mpi_room >> 20));
    if (job->constructed && state->events)
        add_note(state, NOTE(constructed, .libraries = job->constructed));
    if (job->unreachable)
        add_note(state, NOTE(socket_removed, .socket = agents->socket_path));
}

/* Whether the selection in force means anything in the processes that live. */
static void describe_selected(struct agents *agents, const struct trace_job *job, struct agents_job_state *state)
{
    bool matched = false;
    const struct note *unmatched = NULL;
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job || agent->ended || !agent->writer)
            continue;
        state->choosing += agent->selection->waits;
        matched |= !agent->selection->unmatched.note.kind;
        unmatched = &agent->selection->unmatched.note;
    }
    if (!unmatched || matched || state->choosing)
        return;
    struct buf text = BUF_INIT;
    note_text(&text, unmatched);
    snprintf(state->unmatched, sizeof state->unmatched, "%s", text.data ? text.data : "");
    buf_done(&text);
}

bool agent_drains(const struct agent *agent)
{
    return agent->ended && (agent->view.area || (agent->mpi && agent->agents->mpi->drains(agent)));
}

int agents_job_state(struct agents *agents, const char *dir, struct agents_job_state *ret_state)
{
    struct trace_job *job;
    HASH_FIND_STR(agents->jobs, dir, job);
    if (!job)
        return -ENOENT;
    for (struct agent *agent = agents->list; agent; agent = agent->next)
        if (agent->job == job && !agent->ended &&
            wait_fd(agent->pidfd, POLLIN, 0)) /* whoever asks may know it before the loop does */
            agent_exited(agent);
    struct job_sums sums = agents_job_sums(agents, job);
    *ret_state = (struct agents_job_state){
        .living = sums.living, .draining = sums.draining, .events = sums.events, .discarded = sums.discarded};
    if (agent_hello_waits(agents)) /* perhaps of this job; if it did not wait any longer, that is still to be counted */
        ret_state->living++;
    describe_problems(job, ret_state);
    describe_rules(job, ret_state);
    describe_hold(agents, job, ret_state);
    describe_selected(agents, job, ret_state);
    describe_missing(agents, job, ret_state);
    return 0;
}

void job_note_late(struct trace_job *job)
{
    if (job && !job->settings.off)
        job->late++;
}

void job_note_refused(struct trace_job *job, pid_t pid, const char *why)
{
    struct refused_process *known, key = {.key = {.pid = pid}};
    struct proc_stat stat;
    if (proc_stat_read(pid, 0, &stat) == 0)
        key.key.start_ticks = stat.start_ticks;
    HASH_FIND(hh, job->refused_list, &key.key, sizeof key.key, known);
    if (known || job->refused == REFUSED_LIMIT || !(known = calloc(1, sizeof *known)))
        return;
    known->key = key.key;
    HASH_ADD(hh, job->refused_list, key, sizeof known->key, known);
    if (!job->refused++)
        snprintf(job->refused_why, sizeof job->refused_why, "%.*s", (int)sizeof job->refused_why - 1, why);
}

/* A program that calls no hooks: worth a word if nothing else of the job does. */
void job_note_program(struct trace_job *job, const char *exe)
{
    for (size_t i = 0; i < job->noted_count; i++)
        if (strcmp(basename(job->noted[i].exe), basename(exe)) == 0)
            return;
    char *copy = job->noted_count < NOTED_LIMIT ? strdup(exe) : NULL;
    if (copy)
        job->noted[job->noted_count++] = (struct noted_program){.exe = copy};
}
