/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traced ACTION [NUMBER]: a program whose calls are known exactly. It is compiled with hooks; built without them and
 * statically, too. On standard output it says what it did: `calls NAME COUNT` for each function called so far, in this
 * process.
 *
 *   calls N     work(i) for i below N, each calls leaf(i, "text") twice
 *   threads N   four threads do the same
 *   fork N      so do parent and child
 *   exec N      the program is replaced by itself after one work(0)
 *   spawn N     it starts itself three times: by posix_spawn, by vfork and by a shell
 *   exit N      exit status N
 *   kill N      signal N to itself, with the standard action
 *   handle N    signal N to itself, with a handler, blocked and unblocked; says what it got
 *   storm N     hot(i) N times, as fast as it can
 *   crash N     leaf's descendants, N deep, write to address 16
 *   divide N    7 is divided by N
 *   step N      step(i) once a millisecond until standard input ends
 *   nested      the same, all inside one call of nested()
 *   fds         its open descriptors and where they lead
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define SEPARATE __attribute__((noinline))

struct item {
    int number;
    const char *text;
};

static atomic_int works, leaves, hots, steps;
static volatile int sink;
extern char **environ;

SEPARATE static int leaf(int n, const char *text)
{
    struct item item = {n, text};
    leaves++;
    sink = item.number;
    return item.number * 2 + (int)strlen(item.text);
}

SEPARATE static int work(int i)
{
    int first = leaf(i, "text");
    int second = leaf(-i, "more");
    works++;
    return first - second;
}

SEPARATE static int hot(int i)
{
    hots++;
    return i + 1;
}

SEPARATE static int step(int i)
{
    steps++;
    return i + 1;
}

static int *volatile bad = (int *)16;

SEPARATE static int deep(int left)
{
    if (left == 0) {
        *bad = 1;
        return 0;
    }
    int below = deep(left - 1);
    return below + 1;
}

QUIET static void say(void)
{
    printf("calls work %d\ncalls leaf %d\n", works, leaves);
    fflush(stdout);
}

QUIET static void do_work(int count)
{
    for (int i = 0; i < count; i++)
        work(i);
}

QUIET static void *in_thread(void *count)
{
    do_work(*(int *)count);
    return NULL;
}

QUIET static int do_threads(int count)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, in_thread, &count);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    say();
    return 0;
}

QUIET static int do_fork(int count)
{
    int status;
    work(0);
    pid_t pid = fork();
    do_work(count);
    if (pid == 0) {
        say();
        _exit(7);
    }
    waitpid(pid, &status, 0);
    say();
    return WEXITSTATUS(status) == 7 ? 0 : 1;
}

/* Of a process that was started with vfork, which borrows this frame. */
SEPARATE QUIET static pid_t start_by_vfork(char **arguments)
{
    pid_t pid = vfork();
    if (pid == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    return pid;
}

QUIET static int failed(pid_t pid)
{
    int status;
    return pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
}

QUIET static int do_spawn(char *self, char *number)
{
    char calls[] = "calls", sh[] = "sh", option[] = "-c", script[] = "\"$0\" calls \"$1\"; exit $?";
    char *arguments[] = {self, calls, number, NULL}, *shell[] = {sh, option, script, self, number, NULL};
    pid_t pid;
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environ) != 0 || failed(pid))
        return 1;
    if (failed(start_by_vfork(arguments)))
        return 1;
    return posix_spawnp(&pid, sh, NULL, NULL, shell, environ) != 0 || failed(pid);
}

static volatile sig_atomic_t caught;

QUIET static void on_signal(int signo, siginfo_t *info, void *context)
{
    (void)context;
    caught = info->si_pid == getpid() ? signo : -1;
}

QUIET static int do_handle(int signo)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}, before, now;
    sigset_t set, pending, mask;
    sigemptyset(&set);
    sigaddset(&set, signo);
    sigaction(signo, &action, &before);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    kill(getpid(), signo);
    sigpending(&pending);
    printf("before %d blocked %d pending %d caught %d\n", before.sa_handler == SIG_DFL, sigismember(&mask, signo),
           sigismember(&pending, signo), caught);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigaction(signo, NULL, &now);
    printf("caught %d handler %d flags %d\n", caught, now.sa_sigaction == on_signal, (now.sa_flags & SA_SIGINFO) != 0);
    return caught == signo ? 0 : 1;
}

QUIET static int do_steps(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (int i = 0;; i++) {
        step(i);
        if (poll(&input, 1, 1) > 0 && read(STDIN_FILENO, &byte, 1) <= 0)
            break;
    }
    printf("calls step %d\n", steps);
    return 0;
}

SEPARATE static int nested(void)
{
    int status = do_steps();
    printf("calls nested 1\n");
    return status;
}

QUIET static int do_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    char path[300], target[4096];
    while ((entry = readdir(dir))) {
        if (atoi(entry->d_name) == dirfd(dir) || entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        ssize_t len = readlink(path, target, sizeof target - 1);
        target[len < 0 ? 0 : len] = 0;
        printf("%s %.5s\n", entry->d_name, target);
    }
    closedir(dir);
    return 0;
}

QUIET int main(int argc, char **argv)
{
    static char none[] = "0";
    char *action = argc > 1 ? argv[1] : none, *text = argc > 2 ? argv[2] : none;
    int number = atoi(text);
    if (strcmp(action, "calls") == 0) {
        do_work(number);
        say();
    } else if (strcmp(action, "threads") == 0) {
        return do_threads(number);
    } else if (strcmp(action, "fork") == 0) {
        return do_fork(number);
    } else if (strcmp(action, "exec") == 0) {
        work(0);
        execl("/proc/self/exe", "traced", "calls", text, (char *)NULL);
        return errno;
    } else if (strcmp(action, "spawn") == 0) {
        return do_spawn(argv[0], text);
    } else if (strcmp(action, "exit") == 0) {
        do_work(1);
        return number;
    } else if (strcmp(action, "kill") == 0) {
        do_work(1);
        kill(getpid(), number);
    } else if (strcmp(action, "handle") == 0) {
        return do_handle(number);
    } else if (strcmp(action, "storm") == 0) {
        for (int i = 0; i < number; i++)
            sink = hot(i);
        printf("calls hot %d\n", hots);
    } else if (strcmp(action, "crash") == 0) {
        do_work(2);
        deep(number);
    } else if (strcmp(action, "divide") == 0) {
        do_work(2);
        sink = 7 / number;
    } else if (strcmp(action, "step") == 0) {
        return do_steps();
    } else if (strcmp(action, "nested") == 0) {
        return nested();
    } else if (strcmp(action, "fds") == 0) {
        return do_fds();
    } else {
        fprintf(stderr, "traced: unknown action %s\n", action);
        return 2;
    }
    return 0;
}
