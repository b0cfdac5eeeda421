/* SPDX-License-Identifier: Apache-2.0 */
/* What changes a job: settings, by scry set; signals, by its monitor, or to the processes that its directory names. */
#include "base/data/arena.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "jobdir/record/info.h"
#include "lang/value.h"
#include "shm/waits.h"
#include "web/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAIRS_MOST = 8 };

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

void answer_set(struct http_request *request)
{
    struct named_job job;
    struct arena memory = {0};
    const char *argv[PAIRS_MOST + 4] = {"set", "--"}, *key;
    size_t count = 3;
    json_t *json = job_of_request(request, &job) ? request_json(request) : NULL, *value;
    if (!json)
        return;
    bool good = json_object_size(json) > 0 && json_object_size(json) <= PAIRS_MOST;
    json_object_foreach(json, key, value) good = good && (argv[count++] = pair_of(&memory, key, value));
    argv[2] = job.word;
    if (good)
        question_ask(request->server->questions, request,
                     &(struct question_spec){.argv = argv, .limit_s = CONTROL_LIMIT_SECONDS, .once = true});
    else
        request_answer_error(request, 400, "bad_question", "expected an object of 1 to %d settings and their values",
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

static bool is_of_user(pid_t pid, uid_t uid)
{
    char path[PROC_PATH_SIZE];
    struct stat process;
    proc_path(path, pid, 0, "");
    return stat(path, &process) == 0 && process.st_uid == uid;
}

/* Does the process say itself that it belongs to this job? A directory that somebody made may name any of the user's; whoever is root
 * sends nothing to those of others than who made it, such as init, which takes over what has lost its parent. */
static bool is_of_job(const struct named_job *job, pid_t root, pid_t supervisor)
{
    struct proc_stat process;
    struct stat dir;
    return root > 0 && proc_stat_of(root, 0, &process) == 0 && (!supervisor || process.ppid == supervisor) &&
           job_has_process(job->path, root) && stat(job->path, &dir) == 0 &&
           is_of_user(supervisor ? supervisor : root, dir.st_uid);
}

struct target {
    pid_t pid;
    uint64_t ticks;
};

/* Who is to get it where no monitor sends it. scry run passes signals on, as to a batch system's; what would end or stop itself
 * goes to the command. */
static int signal_target(const struct named_job *job, int signal, struct target *ret_target, struct err *err)
{
    struct job_info info;
    enum job_state state;
    char boot[64];
    int code = job_info_read_state(job->path, &info, &state, err);
    job_boot_id(boot, sizeof boot);
    if (code == 0 && state != JOB_RUNNING && state != JOB_UNWATCHED && !(job->followed && state == JOB_UNREACHABLE))
        code = err_set(err, -ESRCH, "the job is %s, so there is nothing to signal", job_state_name(state));
    if (code == 0 && !job->followed && (!info.boot_id || strcmp(info.boot_id, boot) != 0))
        code = err_set(err, -EREMOTE, "the job runs on %s, and signals are sent on the same machine only",
                       info.host ? info.host : "another machine");
    bool own = signal == SIGKILL || signal == SIGSTOP || signal == SIGCONT || state == JOB_UNWATCHED;
    if (code == 0 && !job->followed && !job->own && !is_of_job(job, info.root, own ? 0 : info.supervisor))
        code = err_set(err, -EPERM,
                       "the job lies in a directory of others, and its processes do not say that they are its");
    if (code == 0)
        *ret_target =
            own ? (struct target){info.root, info.root_ticks} : (struct target){info.supervisor, info.supervisor_ticks};
    job_info_done(&info);
    return code;
}

/* The signal that is asked for, and of which job. 0: the request has its answer, or gets it. */
static int signal_asked(struct http_request *request, struct named_job *ret_job)
{
    json_t *json = job_of_request_here(request, ret_job) ? request_json(request) : NULL;
    if (!json)
        return 0;
    int signal = signal_of(json_string_value(json_object_get(json, "signal")));
    json_decref(json);
    if (!signal)
        request_answer_error(request, 400, "bad_question",
                             "signal is one of TERM INT HUP QUIT KILL USR1 USR2 STOP CONT");
    return signal;
}

/* The monitor has answered. Here a job gets its signal also without one, or from one that does not answer: nobody knows then who
 * asked for it. */
static void on_signalled(struct http_request *request, const struct answer *answer)
{
    struct named_job job;
    struct target target;
    struct err err = {0};
    int signal = answer->blob ? 0 : signal_asked(request, &job), code;
    if (answer->blob) {
        request_answer_nothing(request);
    } else if (signal && job.followed) {
        answer_give(request, answer);
    } else if (signal) {
        if ((code = signal_target(&job, signal, &target, &err)) == 0 &&
            (code = job_process_signal(target.pid, target.ticks, signal)) < 0)
            err_errno(&err, code, "cannot signal the job");
        if (code < 0)
            request_answer_error(request, 409, "state", "%s", err.text);
        else
            request_answer_nothing(request);
    }
}

/* By the job's monitor, which makes it a record of the job; behind a broker with a key. */
void answer_signal(struct http_request *request)
{
    struct named_job job;
    struct target target;
    struct err err = {0};
    _cleanup_(buf_done) struct buf service_request = BUF_INIT;
    int signal = signal_asked(request, &job);
    if (!signal)
        return;
    if (signal_target(&job, signal, &target, &err) < 0) {
        request_answer_error(request, 409, "state", "%s", err.text);
        return;
    }
    _cleanup_(freep) char *dir = job.followed ? NULL : realpath(job.path, NULL); /* as the monitor knows it */
    PUT_CALL(&service_request, "job_send_signal", dir ? dir : "", "page", signal);
    const char *here[] = {"omis", "--json", "--no-start", "-c", service_request.data, NULL};
    const char *elsewhere[] = {"omis", "--json", "--connect", job.word, "-c", service_request.data, NULL};
    request->then = on_signalled;
    question_ask(request->server->questions, request,
                 &(struct question_spec){.argv = job.followed ? elsewhere : here,
                                         .limit_s = job.followed ? CONTROL_LIMIT_SECONDS : CONTROL_HERE_SECONDS,
                                         .once = true});
}
