/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of short processes.
 *
 *     forks [WIDTH [DEPTH]]        default 3 children each, 2 levels deep
 *
 * Every process forks WIDTH children, down to DEPTH levels. The leaves take turns in what they do: exit at once, exec
 * another program (this one, with --leaf), vfork and exec, or fork a grandchild that outlives its parent. Each process
 * adds up the ends of its children; the exit status is 0 only if every one ended as it should. Prints how many
 * processes there were, orphans included, which is what a tool that follows them has to find.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAF_STATUS = 7, KINDS = 4 };

/* In memory shared by all, also by the orphans. */
static struct {
    atomic_long processes;
    atomic_long turn;
} * shared;

static const char *self;

static pid_t must(pid_t pid)
{
    if (pid < 0) {
        perror("forks: fork");
        _exit(2);
    }
    return pid;
}

/* Waits for a child; whether it exited with `status`. */
static int ended_with(pid_t pid, int status)
{
    int how;
    return waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == status;
}

static void be_leaf(void)
{
    execl(self, self, "--leaf", (char *)NULL);
    _exit(127);
}

/* A process that its parent does not wait for; main does, see there. */
static void leave_orphan(void)
{
    if (must(fork()) == 0) {
        atomic_fetch_add(&shared->processes, 1);
        usleep(20000);
        _exit(0);
    }
}

/* What a process at the bottom does; returns its exit status. */
static int leaf(void)
{
    pid_t pid;
    switch (atomic_fetch_add(&shared->turn, 1) % KINDS) {
    case 0:
        return LEAF_STATUS;
    case 1:
        be_leaf();
        return 127;
    case 2:
        pid = must(vfork());
        if (pid == 0)
            be_leaf();
        atomic_fetch_add(&shared->processes, 1);
        return ended_with(pid, LEAF_STATUS) ? LEAF_STATUS : 1;
    default:
        leave_orphan();
        return LEAF_STATUS;
    }
}

/* Forks `width` children; whether all ended as they should. */
static int branch(int width, int depth)
{
    pid_t *pids = calloc((size_t)width, sizeof *pids);
    if (!pids)
        return 0;
    for (int i = 0; i < width; i++) {
        pids[i] = must(fork());
        if (pids[i] == 0) {
            atomic_fetch_add(&shared->processes, 1);
            int status = depth > 1 ? (branch(width, depth - 1) ? LEAF_STATUS : 1) : leaf();
            _exit(status);
        }
    }
    int right = 1;
    for (int i = 0; i < width; i++)
        right &= ended_with(pids[i], LEAF_STATUS);
    free(pids);
    return right;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--leaf") == 0)
        return LEAF_STATUS;
    int width = argc > 1 ? atoi(argv[1]) : 3, depth = argc > 2 ? atoi(argv[2]) : 2;
    if (width < 1 || width > 100 || depth < 1 || depth > 6) {
        fprintf(stderr, "usage: forks [WIDTH [DEPTH]]    1 to 100 children, 1 to 6 levels\n");
        return 2;
    }
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int open_as_long_as_any_lives[2];
    if (len < 0 || shared == MAP_FAILED || pipe(open_as_long_as_any_lives) < 0) {
        perror("forks");
        return 2;
    }
    path[len] = 0;
    self = path;
    shared->processes = 1;
    int right = branch(width, depth);
    /* The orphans hold the pipe's other end until they exit. */
    close(open_as_long_as_any_lives[1]);
    char byte;
    while (read(open_as_long_as_any_lives[0], &byte, 1) > 0)
        ;
    printf("%ld processes: %s\n", atomic_load(&shared->processes), right ? "all ended well" : "SOME DID NOT END WELL");
    return right ? 0 : 1;
}
