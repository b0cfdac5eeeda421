/* SPDX-License-Identifier: Apache-2.0 */
/*
 * beginners COUNT [fork]: kills COUNT children, one after the other, that do nothing but make threads, or processes; a
 * little later each. Goes on when all of them have ended.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void *nothing(void *unused)
{
    return unused;
}

static void make_threads(void)
{
    pthread_t thread;
    for (;;)
        if (pthread_create(&thread, NULL, nothing, NULL) == 0)
            pthread_detach(thread);
}

static void make_processes(void)
{
    for (;;) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(0);
        waitpid(pid, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    void (*make)(void) = argc > 2 ? make_processes : make_threads;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < count; i++) {
        int ready[2], status;
        char byte;
        if (pipe(ready) < 0)
            return 1;
        pid_t pid = fork();
        if (pid == 0) {
            if (write(ready[1], "", 1) == 1)
                make();
            _exit(2);
        }
        if (pid < 0 || read(ready[0], &byte, 1) != 1)
            return 1;
        nanosleep(&(struct timespec){.tv_nsec = 1000000 + i * 37000L % 5000000}, NULL);
        kill(pid, SIGKILL);
        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
            return 1;
        close(ready[1]);
        if (read(ready[0], &byte, 1) != 0) /* nobody has the other end any more */
            return 1;
        close(ready[0]);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            continue;
    }
    puts("done");
    return 0;
}
