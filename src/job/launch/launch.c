/* SPDX-License-Identifier: Apache-2.0 */
#include "job/launch/launch.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/program.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NAME_MOST = 100 };
static const char PREFIX[] = "step-";

/* Where the link is. false: nothing is to be shared. */
static bool find_link(char *ret_path, size_t size)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char dir[PATH_MAX];
    const char *name = getenv("SCRY_STEP");
    size_t len = name ? strlen(name) : 0;
    return len && len <= NAME_MOST && strspn(name, allowed) == len && dirs_runtime(dir, sizeof dir, NULL) == 0 &&
           (size_t)snprintf(ret_path, size, "%s/%s%s", dir, PREFIX, name) < size;
}

static bool read_link(const char *path, char *ret_dir, size_t size)
{
    ssize_t len = readlink(path, ret_dir, size - 1);
    if (len <= 0)
        return false;
    ret_dir[len] = '\0';
    return access(ret_dir, F_OK) == 0;
}

/* In the folder of this link. */
static void remove_old(const char *link)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(link, '/') - link), link);
    DIR *folder = opendir(dir);
    time_t now = time(NULL);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat st;
        if (strncmp(entry->d_name, PREFIX, sizeof PREFIX - 1) == 0 &&
            fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode) &&
            now - st.st_mtime > STEP_KEPT_SECONDS)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

void step_offer(const char *dir)
{
    char link[PATH_MAX], fresh[PATH_MAX + 32];
    if (!find_link(link, sizeof link))
        return;
    snprintf(fresh, sizeof fresh, "%s.%d", link, getpid());
    remove_old(link);
    unlink(fresh);
    if (symlink(dir, fresh) == 0 && rename(fresh, link) < 0)
        unlink(fresh);
}

bool step_lead(void)
{
    char link[PATH_MAX], lead[PATH_MAX + 16];
    if (!find_link(link, sizeof link))
        return false;
    remove_old(link);
    snprintf(lead, sizeof lead, "%s.lead", link);
    return symlink("lead", lead) == 0;
}

void step_forget(void)
{
    unsetenv("SCRY_STEP");
    unsetenv("SCRY_BATCH_MEMORY");
}

bool step_find(char *ret_dir, size_t size)
{
    char link[PATH_MAX];
    if (!find_link(link, sizeof link))
        return false;
    uint64_t start = wait_now_ns();
    while (!read_link(link, ret_dir, size))
        if (!wait_slice(WAIT_STEP, start, NULL))
            return false;
    return true;
}

static bool is_stopped(pid_t pid)
{
    return waits_is_stopped(wait_look(pid).state);
}

/* A shell continues our group. This continues the command: its group, if it has one of its own. */
static void go_on(pid_t command, int tty, bool had_terminal)
{
    pid_t group = getpgid(command);
    bool apart = group == command && group != getpgrp();
    if (apart && had_terminal && tcgetpgrp(tty) == getpgrp())
        tcsetpgrp(tty, group);
    if (is_stopped(command))
        kill(apart ? -group : command, SIGCONT);
}

/* Stops until somebody continues us; the witness's call for an earlier stop of the command is too late. The SIGCONT is
 * taken: go_on() does what it asks for, and passed on after that, it could end the command's next stop. */
static struct signalfd_siginfo stop_self(pid_t command, int signo, const struct witness *witness)
{
    const struct timespec now = {0};
    siginfo_t info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGCONT);
    do {
        info = (siginfo_t){.si_signo = 0};
        witness_wake_with(witness, command);
        signals_stop_self(signo);
    } while (sigtimedwait(&one, &info, &now) > 0 && info.si_pid == witness->pid && witness->pid && is_stopped(command));
    witness_wake_no_more(witness);
    return (struct signalfd_siginfo){
        .ssi_signo = (uint32_t)info.si_signo, .ssi_code = info.si_code, .ssi_pid = (uint32_t)info.si_pid};
}

bool stop_follow(pid_t command, int signo, const struct witness *witness)
{
    bool by_terminal = signo == SIGTSTP || signo == SIGTTIN || signo == SIGTTOU;
    _cleanup_(closep) int tty = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (tty < 0 ||
        (!witness->pid && !(by_terminal && getpgid(command) == getpgrp()))) /* perhaps nobody would wake us */
        return false;
    bool had_terminal = tcgetpgrp(tty) == getpgid(command);
    const struct signalfd_siginfo continued = stop_self(command, signo, witness);
    go_on(command, tty, had_terminal);
    if (continued.ssi_signo && (pid_t)continued.ssi_pid != witness->pid)
        witness_had(witness, &continued); /* asked for, the group's is not taken for a later one */
    return true;
}

enum { FD = 3 };

/* The command line of this process, and of those that it forks: looked for before the first fork, for each of them would take
 * the pages anew that this needs. */
static char *command_line_find(size_t *ret_size)
{
    static char *line;
    static size_t size;
    struct proc_stat stat;
    if (!line && proc_stat_of(0, 0, &stat) == 0 && stat.arg_start && stat.arg_end > stat.arg_start) {
        line = (char *)stat.arg_start; /* NOLINT(performance-no-int-to-ptr): the kernel gives a number */
        size = stat.arg_end - stat.arg_start;
    }
    *ret_size = size;
    return line;
}

/* Overwrites the command line, which is a copy of scry run's. */
static void take_command_line(const char *name)
{
    size_t size;
    char *line = command_line_find(&size);
    if (line)
        strncpy(line, name, size - 1); /* and zeros to the end */
}

void worker_rename(const char *name)
{
    prctl(PR_SET_NAME, name);
    take_command_line(name);
}

void worker_keep(const char *name, int *fds, size_t count)
{
    int above = FD + (int)count;
    worker_rename(name);
    for (int i = 0; i < (int)count; i++)
        if (fds[i] >= 0 && fds[i] < above && fds[i] != FD + i)
            fds[i] = fcntl(fds[i], F_DUPFD, above);
    int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream <= STDERR_FILENO && null >= 0; stream++)
        dup2(null, stream);
    for (int i = 0; i < (int)count; i++) {
        if (fds[i] < 0)
            close(FD + i);
        else if (fds[i] != FD + i)
            fds[i] = dup2(fds[i], FD + i);
    }
    close_range((unsigned)above, ~0U, 0);
    if (chdir("/") < 0)
        return; /* already in place */
}

int worker_become(const char *name, int fd)
{
    worker_keep(name, &fd, 1);
    return fd;
}

int worker_start(const char *name, int type, worker_fn *serve, void *ctx, pid_t *ret_pid, int *ret_fd)
{
    int ends[2];
    size_t size;
    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    command_line_find(&size); /* the child has no need to look */
    pid_t pid = fork();
    if (pid == 0) {
        serve(ctx, worker_become(name, ends[1]));
        _exit(0);
    }
    int code = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (code < 0) {
        close(ends[0]);
        return code;
    }
    *ret_pid = pid;
    *ret_fd = ends[0];
    return 0;
}

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

/* As fork, but for the parent: that is the caller's. */
static pid_t sibling_fork(void)
{
    return (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
}

/* A member of the command's group whose parent is in its session: else its terminal could not stop it, nor it itself by SIGTSTP. */
static void member_fork(pid_t group)
{
    pid_t leader = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        worker_keep(TERMINAL_PROCESS_NAME, NULL, 0);
        while (getppid() == leader)
            pause();
        _exit(0);
    }
    if (pid > 0)
        setpgid(pid, group);
}

/* In the child: makes a session on the terminal `fd`, led by the caller, and a sibling of it that is in the foreground there. Returns
 * in that; the caller stays until `leash` says something or hangs up, so what outlives the command keeps its terminal. `tell` gets an
 * int: the sibling's pid, or -errno. */
static void session_begin(int fd, int leash, int tell)
{
    int ready[2];
    char byte = 0;
    int word = setsid() < 0 || ioctl(fd, TIOCSCTTY, 0) < 0 || pipe2(ready, O_CLOEXEC) < 0 ? -errno : sibling_fork();
    if (word == 0) {
        setpgid(0, 0);
        tcsetpgrp(fd, getpid()); /* SIGTTOU is blocked, as all signals are until the command is executed */
        close(ready[0]);
        byte = write(ready[1], &byte, 1) == 1;
        close(ready[1]);
        return;
    }
    word = word == -1 ? -EAGAIN : word;
    if (word > 0) {
        close(ready[1]);
        byte = read(ready[0], &byte, 1) == 1;
        member_fork(word);
    }
    if (write(tell, &word, sizeof word) != sizeof word || word < 0)
        _exit(0);
    leash = worker_become(TERMINAL_PROCESS_NAME, leash);
    wait_fd(leash, POLLIN, -1);
    if (read(leash, &byte, 1) == 1) { /* the SIGHUP of our end is for us alone then */
        fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
        tcsetpgrp(fd, getpgrp());
    }
    _exit(0);
}

static _Noreturn void launch_child(char **command, int go_fd, int error_fd, const char *dir, bool traceable,
                                   const struct launch_streams *streams, const struct preload *preload,
                                   const struct signals *signals)
{
    if (streams->leash >= 0)
        session_begin(streams->fds[STDOUT_FILENO], streams->leash, error_fd);
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (streams->fds[i] >= 0)
            dup2(streams->fds[i], i);
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
    propagation_apply(&preload->propagation);
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

/* The child is the leader of the command's session, which says who that is: the next process of ours. */
static pid_t session_command(pid_t leader, int error_fd)
{
    int word = -EAGAIN;
    while (read(error_fd, &word, sizeof word) < 0 && errno == EINTR)
        ;
    if (word < 0)
        child_reap(leader);
    errno = word < 0 ? -word : 0;
    return word < 0 ? -1 : word;
}

int launch_held(struct launch *ret_launch, char **command, const char *dir, bool traceable,
                const struct launch_streams *streams, const struct preload *preload, const struct signals *signals,
                struct err *err)
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
        launch_child(command, go[0], error[1], dir, traceable, streams, preload, signals);
    }
    code = errno;
    close(go[0]);
    close(error[1]);
    if (pid > 0 && streams->leash >= 0) {
        pid = session_command(pid, error[0]);
        code = errno;
    }
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
    child_reap(launch->pid);
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
