/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of the observer: the program scry-profile (src/profile/main.c), which samples where the job uses processors and
 * writes profile.json into the job directory (--profile).
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/process.h"
#include "job/observe/observe.h"
#include "shm/waits.h"

struct sampling {
    struct observer *observer;
    pid_t pid;
    int input;  /* when it is closed, scry-profile ends */
    int output; /* until it has said that it samples */
};

/* Only who has asked for it is told. */
static void tell_off(struct observer *observer, const char *reason)
{
    if (observer->options->profile_given)
        observe_note(observer, NOTE(source_off, .source = "profile", .reason = reason));
}

static int start_program(struct sampling *sampling, struct err *err)
{
    static char name[] = "scry-profile";
    const struct observer *observer = sampling->observer;
    char path[PATH_MAX], pid[16], hz[16], file[PATH_MAX], *argv[] = {name, pid, hz, file, NULL};
    int in[2], out[2], code = dirs_libexec(name, path, sizeof path, err);
    if (code < 0)
        return code;
    snprintf(pid, sizeof pid, "%d", observer->root);
    snprintf(hz, sizeof hz, "%u", observer->options->profile_hz);
    if (snprintf(file, sizeof file, "%s/profile.json", observer->dir) >= (int)sizeof file)
        return err_set(err, -ENAMETOOLONG, "the job directory's path is too long");
    if (pipe2(in, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        code = err_errno(err, -errno, "pipe");
        close(in[0]);
        close(in[1]);
        return code;
    }
    code = spawn_program(
        &(struct spawn){
            .path = path, .argv = argv, .in = in[0], .out = out[1], .error = SPAWN_NULL, .group = SPAWN_OWN_SESSION},
        &sampling->pid);
    close(in[0]);
    close(out[1]);
    sampling->input = in[1];
    sampling->output = out[0];
    return code < 0 ? err_errno(err, code, "cannot start %s", path) : 0;
}

/* Its first line: it samples, or why it does not. */
static int await_ready(int output, struct err *err)
{
    char line[512];
    ssize_t len = wait_fd(output, POLLIN, PROFILE_START_MS) ? read(output, line, sizeof line - 1) : 0;
    line[len > 0 ? len : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, "ready") == 0 ? 0 : err_set(err, -EAGAIN, "%s", *line ? line : "scry-profile did not start");
}

static void stop(struct sampling *sampling)
{
    if (sampling->input >= 0)
        close(sampling->input);
    sampling->input = -1;
}

/* Waits until it has written its file. */
static bool reap(struct sampling *sampling)
{
    int status = -1;
    _cleanup_(closep) int pidfd = (int)syscall(SYS_pidfd_open, sampling->pid, 0);
    if (!wait_fd(pidfd, POLLIN, PROFILE_END_MS))
        kill(sampling->pid, SIGKILL);
    while (waitpid(sampling->pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *start(struct observer *observer, struct err *err)
{
    if (!observer->options->profile_hz)
        return NULL;
    if (observer->restarted) { /* what the processes have mapped by now is not known */
        tell_off(observer, "the observer was killed");
        return NULL;
    }
    struct sampling *sampling = calloc(1, sizeof *sampling);
    if (!sampling) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    *sampling = (struct sampling){.observer = observer, .input = -1, .output = -1};
    if (start_program(sampling, err) == 0)
        return sampling;
    stop(sampling);
    closep(&sampling->output);
    free(sampling);
    if (!observer->options->profile_given)
        *err = (struct err){0};
    return NULL;
}

static bool ready(void *state, struct err *err)
{
    struct sampling *sampling = state;
    const bool told = sampling->observer->options->profile_given;
    int code = await_ready(sampling->output, err);
    closep(&sampling->output);
    if (code == 0)
        return true;
    stop(sampling);
    reap(sampling);
    free(sampling);
    if (!told)
        *err = (struct err){0};
    return false;
}

static void ending(void *state)
{
    stop(state);
}

static void end(void *state)
{
    struct sampling *sampling = state;
    stop(sampling);
    if (!reap(sampling))
        tell_off(sampling->observer, "scry-profile was killed: what it saw is missing from the report");
    free(sampling);
}

const struct observe_source profile_source = {
    .name = "profile", .start = start, .ready = ready, .ending = ending, .end = end};
