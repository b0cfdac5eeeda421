/* SPDX-License-Identifier: Apache-2.0 */
/* What changes a job: settings, by scry set; signals, to the processes that its directory names, or by its monitor if it is elsewhere. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "jobdir/record/info.h"
#include "web/serve/jobs.h"
#include "web/serve/question.h"
#include "web/serve/routes.h"

enum { PAIRS_MOST = 8, LIMIT_SECONDS = 60 };

static bool is_key(const char *key)
{
    for (const char *at = key; *at; at++)
        if ((*at < 'a' || *at > 'z') && *at != '-')
            return false;
    return *key >= 'a' && *key <= 'z';
}

/* KEY=VALUE as a command line has it; NULL: it is none. */
static char *pair_of(struct arena *memory, const char *key, const json_t *value)
{
    if (!is_key(key))
        return NULL;
    if (json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value))
        return arena_printf(memory, "%s=%s", key, json_string_value(value));
    if (json_is_boolean(value))
        return arena_printf(memory, "%s=%s", key, json_is_true(value) ? "yes" : "no");
    return json_is_number(value) ? arena_printf(memory, "%s=%.15g", key, json_number_value(value)) : NULL;
}

void answer_set(struct visit *visit)
{
    struct named_job job;
    struct arena memory = {0};
    const char *argv[PAIRS_MOST + 4] = {"set", "--"}, *key;
    size_t count = 3;
    json_t *json = job_of_visit(visit, &job) ? visit_json(visit) : NULL, *value;
    if (!json)
        return;
    bool good = json_object_size(json) > 0 && json_object_size(json) <= PAIRS_MOST;
    json_object_foreach(json, key, value) good = good && (argv[count++] = pair_of(&memory, key, value));
    argv[2] = job.word;
    if (good)
        question_ask(visit->server->questions, visit,
                     &(struct question_spec){.argv = argv, .limit_s = LIMIT_SECONDS, .once = true});
    else
        visit_answer_error(visit, 400, "bad_question", "expected an object of 1 to %d settings and their values",
                           PAIRS_MOST);
    json_decref(json);
    arena_done(&memory);
}

static int signal_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},   {"QUIT", SIGQUIT}, {"KILL", SIGKILL},
                 {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"STOP", SIGSTOP}, {"CONT", SIGCONT}};
    if (name && strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].number;
    return 0;
}

/* To this very process, not to a later one with its number. */
static int send_signal(pid_t pid, uint64_t ticks, int signal)
{
    _cleanup_(closep) int fd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (fd < 0 || !ticks || job_process_ticks(pid) != ticks)
        return -ESRCH;
    return syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0) == 0 ? 0 : -errno;
}

/* Does the process say itself that it belongs to this job? A directory that somebody made may name any of the user's. */
static bool is_of_job(const struct named_job *job, pid_t root, pid_t supervisor)
{
    static const char variable[] = "SCRY_JOB=";
    char path[64];
    _cleanup_(freep) char *environment = NULL;
    size_t size = 0;
    struct stat its, named;
    struct proc_stat process;
    snprintf(path, sizeof path, "/proc/%d/environ", root);
    if (root <= 0 || proc_stat_of(root, 0, &process) < 0 || (supervisor && process.ppid != supervisor) ||
        stat(job->path, &named) < 0 || file_read(path, &environment, &size) < 0)
        return false;
    for (const char *at = environment; at < environment + size; at += strlen(at) + 1)
        if (strncmp(at, variable, sizeof variable - 1) == 0)
            return stat(at + sizeof variable - 1, &its) == 0 && its.st_dev == named.st_dev &&
                   its.st_ino == named.st_ino;
    return false;
}

/* scry run passes signals on, as to a batch system's; what would end or stop itself goes to the command. */
static int signal_job(const struct named_job *job, int signal, struct err *err)
{
    struct job_info info;
    enum job_state state;
    char boot[64];
    int code = job_info_read_state(job->path, &info, &state, err);
    job_boot_id(boot, sizeof boot);
    if (code == 0 && state != JOB_RUNNING && state != JOB_UNWATCHED)
        code = err_set(err, -ESRCH, "the job is %s, so there is nothing to signal", job_state_name(state));
    if (code == 0 && (!info.boot_id || strcmp(info.boot_id, boot) != 0))
        code = err_set(err, -EREMOTE, "the job runs on %s, and signals are sent on the same machine only",
                       info.host ? info.host : "another machine");
    bool own = signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT || state == JOB_UNWATCHED;
    if (code == 0 && !job->own && !is_of_job(job, info.root, own ? 0 : info.supervisor))
        code = err_set(err, -EPERM,
                       "the job lies in a directory of others, and its processes do not say that they are its");
    if (code == 0 && (code = own ? send_signal(info.root, info.root_ticks, signal)
                                 : send_signal(info.supervisor, info.supervisor_ticks, signal)) < 0)
        err_errno(err, code, "cannot signal the job");
    job_info_done(&info);
    return code;
}

static void on_signalled(struct visit *visit, const struct answer *answer)
{
    if (answer->blob)
        visit_answer_nothing(visit);
    else
        answer_give(visit, answer);
}

/* By the job's monitor, as scry set: so it needs a key, and is a record of the job. */
static void signal_elsewhere(struct visit *visit, const struct named_job *job, int signal)
{
    struct job_info info;
    struct err err = {0};
    enum job_state state;
    char request[128];
    int code = job_info_read_state(job->path, &info, &state, &err);
    if (code == 0 && state != JOB_RUNNING && state != JOB_UNREACHABLE)
        code = err_set(&err, -ESRCH, "the job is %s, so there is nothing to signal", job_state_name(state));
    if (code == 0 && info.root <= 0)
        code = err_set(&err, -ESRCH, "the job has no process yet; try again");
    snprintf(request, sizeof request, ": proc_attach3([], %d, \"\") proc_send_signal([], %d)", (int)info.root, signal);
    job_info_done(&info);
    if (code < 0) {
        visit_answer_error(visit, 409, "state", "%s", err.text);
        return;
    }
    const char *argv[] = {"omis", "--json", "--connect", job->word, "-c", request, NULL};
    visit->then = on_signalled;
    question_ask(visit->server->questions, visit,
                 &(struct question_spec){.argv = argv, .limit_s = LIMIT_SECONDS, .once = true});
}

void answer_signal(struct visit *visit)
{
    struct named_job job;
    struct err err = {0};
    json_t *json = job_of_visit_here(visit, &job) ? visit_json(visit) : NULL;
    if (!json)
        return;
    int number = signal_of(json_string_value(json_object_get(json, "signal")));
    json_decref(json);
    if (!number)
        visit_answer_error(visit, 400, "bad_question", "signal is one of TERM INT HUP QUIT KILL USR1 USR2 STOP CONT");
    else if (job.followed)
        signal_elsewhere(visit, &job, number);
    else if (signal_job(&job, number, &err) < 0)
        visit_answer_error(visit, 409, "state", "%s", err.text);
    else
        visit_answer_nothing(visit);
}
