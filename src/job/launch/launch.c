/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/log.h"
#include "job/launch/program.h"
#include "job/launch/step.h"

enum { GO_TRACED = 1, GO_UNTRACED };

/* A copy of the environment: the list is malloc'ed, the strings are not copied. */
static char **copy_environment(void)
{
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **list = malloc((count + 1) * sizeof *list);
    if (list && environ)
        memcpy(list, environ, count * sizeof *list);
    if (list)
        list[count] = NULL;
    return list;
}

/* Returns only if the command cannot be executed. The other side gets the errno. */
static int execute(char **command, int error_fd)
{
    execvp(command[0], command);
    int code = errno;
    ssize_t put = write(error_fd, &code, sizeof code);
    (void)put;
    return -code;
}

static _Noreturn void child(char **command, int go_fd, int error_fd, const char *dir, bool traceable,
                            const struct preload *preload, const struct signals *signals)
{
    char **given = copy_environment();
    if (dir)
        setenv("SCRY_JOB", dir, 1);
    else
        unsetenv("SCRY_JOB"); /* of an outer job */
    step_forget();
    char go;
    ssize_t got;
    if (traceable)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* fails without Yama, which then restricts nothing */
    do
        got = read(go_fd, &go, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(125); /* scry run died before the start */
    preload_apply(go == GO_TRACED ? preload : &(struct preload){0});
    script_env_apply(&preload->script);
    spread_apply(&preload->spread);
    signals_restore(signals);
    int code = execute(command, error_fd);
    if (code == -E2BIG && given) { /* scry's variables exceed ARG_MAX, or the limit of the stack */
        environ = given;
        code = execute(command, error_fd);
    }
    _exit(launch_exit_code(code));
}

/* Descriptors 0 to 2 may be closed: ours must not become the job's streams. */
static int pipe_above_standard(int ret_ends[2])
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        ret_ends[i] = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
        close(ends[i]);
    }
    if (ret_ends[0] >= 0 && ret_ends[1] >= 0)
        return 0;
    int code = -errno;
    for (int i = 0; i < 2; i++)
        if (ret_ends[i] >= 0)
            close(ret_ends[i]);
    return code;
}

static int cannot_start(int code, struct err *err)
{
    if (code == -EMFILE)
        return err_set(err, code, "watching takes more open files than are allowed (ulimit -n)");
    if (code == -EAGAIN)
        return err_set(err, code, "watching takes more processes than are allowed (ulimit -u, or the control group's)");
    return err_errno(err, code, "the job cannot be watched");
}

int launch_held(struct launch *ret_launch, char **command, const char *dir, bool traceable,
                const struct preload *preload, const struct signals *signals, struct err *err)
{
    int go[2], error[2];
    int code = pipe_above_standard(go);
    if (code < 0)
        return cannot_start(code, err);
    code = pipe_above_standard(error);
    if (code < 0) {
        close(go[0]);
        close(go[1]);
        return cannot_start(code, err);
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(go[1]);
        close(error[0]);
        child(command, go[0], error[1], dir, traceable, preload, signals);
    }
    code = errno;
    close(go[0]);
    close(error[1]);
    if (pid < 0) {
        close(go[1]);
        close(error[0]);
        return cannot_start(-code, err);
    }
    *ret_launch = (struct launch){.pid = pid, .go_fd = go[1], .error_fd = error[0]};
    return 0;
}

void launch_abandon(struct launch *launch)
{
    close(launch->go_fd);
    close(launch->error_fd);
    launch->go_fd = launch->error_fd = -1;
    while (waitpid(launch->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

int launch_release(struct launch *launch, bool traced)
{
    int code = 0, last;
    unsigned failures = 0;
    ssize_t got;
    char go = traced ? GO_TRACED : GO_UNTRACED;
    while (write(launch->go_fd, &go, 1) < 0 && errno == EINTR)
        ;
    close(launch->go_fd);
    for (;;) {
        got = read(launch->error_fd, &last, sizeof last);
        if (got == sizeof last) {
            code = -last;
            failures++;
        } else if (got >= 0 || errno != EINTR) {
            break;
        }
    }
    close(launch->error_fd);
    launch->go_fd = launch->error_fd = -1;
    return failures == 1 && code == -E2BIG ? LAUNCH_UNTRACED : code;
}

void launch_explain(const char *command, int code)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    program_explain(&text, command, code);
    log_error("%s", text.data && !text.failed ? text.data : strerror(-code));
}

int launch_exit_code(int code)
{
    return code == -ENOENT ? 127 : 126;
}
