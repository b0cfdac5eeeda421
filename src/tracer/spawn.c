/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a program seized: the child waits until it is, then executes, and is stopped at its first instruction. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "tracer/tracee.h"

struct spawn_request {
    char *path;
    char *io[3];
    char **argv, **envp; /* in one block */
};

/* The payload: path, three file names, number of arguments, those, number of variables, those; strings with their
 * NUL. */
static const char *next_string(const char **at, const char *end)
{
    const char *string = *at, *nul = memchr(string, 0, (size_t)(end - string));
    if (!nul)
        return NULL;
    *at = nul + 1;
    return string;
}

static char **next_list(const char **at, const char *end)
{
    const char *count_text = next_string(at, end);
    unsigned long count = count_text ? strtoul(count_text, NULL, 10) : 0;
    if (!count_text || count > (size_t)(end - *at))
        return NULL;
    char **list = calloc(count + 1, sizeof *list);
    for (unsigned long i = 0; list && i < count; i++) {
        list[i] = (char *)next_string(at, end);
        if (!list[i]) {
            free(list);
            return NULL;
        }
    }
    return list;
}

static int parse(const char *bytes, size_t len, struct spawn_request *ret)
{
    const char *end = bytes + len;
    *ret = (struct spawn_request){.path = (char *)next_string(&bytes, end)};
    for (int i = 0; i < 3; i++)
        ret->io[i] = bytes < end ? (char *)next_string(&bytes, end) : NULL;
    ret->argv = ret->io[2] && bytes < end ? next_list(&bytes, end) : NULL;
    ret->envp = ret->argv && bytes < end ? next_list(&bytes, end) : NULL;
    if (ret->envp)
        return 0;
    free(ret->argv);
    return -EINVAL;
}

/* Between fork and exec: only what is safe there. Returns what failed. */
static int redirect(const struct spawn_request *request, int *ret_which)
{
    for (int i = 0; i < 3; i++) {
        if (!request->io[i] || !request->io[i][0])
            continue;
        int fd;
        *ret_which = i;
        if (i == 2 && request->io[1] && strcmp(request->io[1], request->io[2]) == 0)
            fd = dup(1); /* one file, one position */
        else
            fd = open(request->io[i], i ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, 0666);
        if (fd < 0 || (fd != i && dup2(fd, i) < 0))
            return -errno;
        if (fd > 2)
            close(fd);
    }
    return 0;
}

struct failure {
    int code, what; /* 0..2: that file; 3: the program */
};

static void fail(int fd, int code, int what)
{
    struct failure failure = {code, what};
    ssize_t put = write(fd, &failure, sizeof failure);
    (void)put;
    _exit(127);
}

static void run_child(const struct spawn_request *request, int go_fd, int error_fd)
{
    struct sigaction act = {.sa_handler = SIG_DFL};
    for (int signo = 1; signo < NSIG; signo++)
        sigaction(signo, &act, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    char go;
    if (read(go_fd, &go, 1) != 1)
        _exit(127); /* the tracer died */
    int which = 0, code = redirect(request, &which);
    if (code < 0)
        fail(error_fd, code, which);
    if (error_fd != 3) { /* everything from 3 on is closed, the error's way back by exec */
        dup2(error_fd, 3);
        error_fd = 3;
    }
    fcntl(3, F_SETFD, FD_CLOEXEC);
    close_range(4, ~0U, 0);
    execve(request->path, request->argv, request->envp);
    fail(error_fd, -errno, 3);
}

static bool executed(void *ctx)
{
    struct process *process = ctx;
    return process->dead || !process->spawning;
}

static int start(const struct spawn_request *request, pid_t *ret_pid, struct err *err)
{
    int go[2], errors[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return err_errno(err, -errno, "pipe");
    if (pipe2(errors, O_CLOEXEC) < 0) {
        close(go[0]);
        close(go[1]);
        return err_errno(err, -errno, "pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        run_child(request, go[0], errors[1]);
    }
    close(go[0]);
    close(errors[1]);
    int code = pid < 0 ? err_errno(err, -errno, "fork") : 0;
    struct process *process = NULL;
    if (code == 0 && ptrace(PTRACE_SEIZE, pid, NULL, (void *)attach_options()) < 0)
        code = err_errno(err, -errno, "a new process cannot be traced");
    else if (code == 0) {
        process = process_new(pid, space_new());
        struct thread *thread = process ? thread_new(process, pid) : NULL;
        if (!thread)
            code = err_errno(err, -ENOMEM, "new process");
    }
    if (code == 0) {
        process->wanted = process->spawning = true;
        ssize_t put = write(go[1], "", 1);
        code = put == 1 ? pump_until(executed, process) : -EPIPE;
        struct failure failure;
        if (code == 0 && !process->dead) {
            *ret_pid = pid;
        } else if (fcntl(errors[0], F_SETFL, O_NONBLOCK) == 0 &&
                   read(errors[0], &failure, sizeof failure) == sizeof failure) {
            code = failure.what == 3 ? err_errno(err, failure.code, "%s cannot be executed", request->path)
                                     : err_errno(err, failure.code, "%s cannot be opened for %s",
                                                 request->io[failure.what], request->path);
        } else {
            code = err_set(err, code < 0 ? code : -ESRCH, "%s did not start", request->path);
        }
        if (code < 0 && !process->dead)
            kill(pid, SIGKILL); /* waits for the other end of a fifo, for example */
    }
    close(go[1]);
    close(errors[0]);
    return code;
}

int spawn_process(const char *bytes, size_t len, pid_t *ret_pid, struct err *err)
{
    struct spawn_request request;
    if (parse(bytes, len, &request) < 0)
        return err_set(err, -EINVAL, "malformed request");
    int code = start(&request, ret_pid, err);
    free(request.argv);
    free(request.envp);
    return code;
}
