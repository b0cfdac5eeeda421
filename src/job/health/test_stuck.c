/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/test_tree.h"

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/health/judge.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t semaphore;

static void *wait_for_semaphore(void *unused)
{
    sem_wait(&semaphore);
    return NULL;
}

static void lock_twice(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&mutex);
}

/* Of two threads one waits for the end of the other one, which waits for what nobody gives. */
static void join(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_semaphore, NULL);
    pthread_join(thread, NULL);
}

static void handler(int signo)
{
}

/* As a handler may. */
static void join_with_handler(void)
{
    signal(SIGUSR1, handler);
    join();
}

static void wait_alone(void)
{
    sem_wait(&semaphore);
}

static int shared_ends[2]; /* of a pipe that the test has, too */

static void read_pipe(void)
{
    char byte;
    if (syscall(SYS_read, shared_ends[0], &byte, 1) != 1) /* not by a sanitizer's own read() */
        _exit(1);
}

static void read_own_pipe(void)
{
    if (pipe(shared_ends) == 0)
        read_pipe();
}

static void sleep_long(void)
{
    sleep(1000);
}

/* Asks once it is idle: until it has said something, or, of what is not stuck, once. */
static void ask(struct tree *tree, pid_t pid, bool until_said)
{
    struct processes processes = {0};
    struct stuck stuck = {0};
    struct stall stall = {0};
    processes_add(&processes, pid, getpid(), "a");
    do {
        stall.moved_ns = tree->look.now_ns; /* it has moved: it may not have been blocked yet */
        stuck_look(&stuck, &tree->look, &stall, &processes);
        tree_pass(tree, 4);
        stuck_look(&stuck, &tree->look, &stall, &processes);
        assert_null(stuck.ask);
        tree_pass(tree, 1);
        stuck_look(&stuck, &tree->look, &stall, &processes);
        assert_non_null(stuck.ask);
        while (stuck.ask) {
            usleep(1000);
            stuck_look(&stuck, &tree->look, &stall, &processes);
        }
    } while (until_said && !tree->said.len);
    tree_pass(tree, 20);
    stuck_look(&stuck, &tree->look, &stall, &processes);
    assert_null(stuck.ask); /* once is enough */
    bool stands = *stuck.standing;
    assert_int_equal(stuck.changed, stands);
    assert_true(stands || !until_said);
    stuck.changed = false;
    stall.moved_ns++;
    stuck_look(&stuck, &tree->look, &stall, &processes);
    assert_string_equal(stuck.standing, "");
    assert_int_equal(stuck.changed, stands); /* what was recorded is over */
    stuck_done(&stuck);
    processes_done(&processes);
}

static void test_stuck(void **unused)
{
    static const struct {
        void (*fn)(void);
        const char *said;
    } rows[] = {
        {lock_twice, "stuck: deadlock: a thread of %s (pid %d) waits for a mutex that it holds itself, at lock_twice "
                     "(test_stuck.c:"},
        {join, "stuck: deadlock: both threads of %s (pid %d) wait for each other, at join (test_stuck.c:"},
        {join_with_handler, NULL},
        {wait_alone,
         "stuck: deadlock: a thread of %s (pid %d) waits for a semaphore, a condition or a lock that nobody can "
         "give any more (its process has no other thread), at wait_alone (test_stuck.c:"},
        {read_own_pipe, "stuck: deadlock: %s (pid %d) at read_pipe (test_stuck.c:"},
        {read_pipe, NULL},
        {sleep_long, NULL},
    };
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree tree;
        char said[256], name[32] = "";
        tree_init(&tree);
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rows[i].fn();
            _exit(0);
        }
        ask(&tree, pid, rows[i].said);
        FILE *comm = fopen("/proc/self/comm", "r");
        assert_non_null(fgets(name, sizeof name, comm));
        fclose(comm);
        name[strcspn(name, "\n")] = '\0';
        snprintf(said, sizeof said, rows[i].said ? rows[i].said : "%s%d", name, pid);
        tree_assert_said(&tree, rows[i].said ? said : "");
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        tree_done(&tree);
    }
}

/* Of one that is not stuck, as far as may be known: what it waits in, and where. Only once it has been idle for long. */
static void test_where(void **unused)
{
    static const struct {
        void (*fn)(void);
        const char *waits, *at;
    } rows[] = {
        {read_pipe, "reads from a pipe that can be written by ", ", at read_pipe (test_stuck.c:"},
        {sleep_long, "sleeps", ", at sleep_long (test_stuck.c:"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tree tree;
        struct processes processes = {0};
        struct stuck stuck = {0};
        tree_init(&tree);
        struct stall stall = {.moved_ns = tree.look.now_ns};
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rows[i].fn();
            _exit(0);
        }
        processes_add(&processes, pid, getpid(), "a");
        stuck_look(&stuck, &tree.look, &stall, &processes);
        for (unsigned asked = 1; asked <= 2; asked++) {
            tree_pass(&tree, asked == 1 ? 10 : 50);
            do {
                usleep(1000);
                stuck_look(&stuck, &tree.look, &stall, &processes);
            } while (stuck.ask);
            if (asked == 1)
                assert_string_equal(stuck.where, "");
        }
        if (strncmp(stuck.where, rows[i].waits, strlen(rows[i].waits)) != 0 || !strstr(stuck.where, rows[i].at))
            fail_msg("\"%s\" is not \"%s...%s\"", stuck.where, rows[i].waits, rows[i].at);
        stuck_done(&stuck);
        processes_done(&processes);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        tree_done(&tree);
    }
}

static char fifo[64];

static void open_fifo(void)
{
    if (open(fifo, O_RDONLY) < 0)
        _exit(1);
}

static int pair[2];

static void receive(void)
{
    char byte;
    close(pair[1]);
    if (recv(pair[0], &byte, 1, 0) == 1)
        _exit(1);
}

/* Somebody may open a FIFO yet: that is said when it was so for long, or when the job is ended before; that nothing comes from a
 * connection, only then. */
static void test_pending(void **unused)
{
    char dir[] = "/tmp/scry-test-XXXXXX", said[256];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_non_null(mkdtemp(dir));
    snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    for (int way = 0; way < 6; way++) {
        bool opens = way < 3;
        struct tree tree;
        struct processes processes = {0};
        struct stuck stuck = {0};
        tree_init(&tree);
        struct stall stall = {.moved_ns = tree.look.now_ns};
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            opens ? open_fifo() : receive();
            _exit(0);
        }
        if (opens)
            snprintf(said, sizeof said, "stuck: stuck: all of its processes wait until somebody opens %s for writing",
                     fifo);
        else
            snprintf(said, sizeof said, "stuck: stuck: process %d (", pid);
        processes_add(&processes, pid, getpid(), "a");
        stuck_look(&stuck, &tree.look, &stall, &processes);
        tree_pass(&tree, 10);
        while (!*stuck.pending) { /* it may not have come there yet */
            stuck_look(&stuck, &tree.look, &stall, &processes);
            if (!stuck.ask && !*stuck.pending)
                stuck.asked = 0;
            usleep(1000);
        }
        tree_assert_said(&tree, "");
        if (way % 3 == 1) /* it has gone on */
            stall.moved_ns += 1;
        if (way % 3 < 2) {
            stuck_ended(&stuck, &tree.look, &stall);
        } else {
            tree_pass(&tree, 50);
            do {
                usleep(1000);
                stuck_look(&stuck, &tree.look, &stall, &processes);
            } while (stuck.ask);
            tree_assert_said(&tree, opens ? said : "");
            stuck_ended(&stuck, &tree.look, &stall); /* once is enough */
        }
        tree_assert_said(&tree, way % 3 == 1 || (opens && way % 3 == 2) ? "" : said);
        stuck_done(&stuck);
        processes_done(&processes);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        tree_done(&tree);
    }
    close(pair[0]);
    close(pair[1]);
    unlink(fifo);
    rmdir(dir);
}

int main(void)
{
    if (pipe(shared_ends) < 0)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_stuck), cmocka_unit_test(test_where),
                                       cmocka_unit_test(test_pending)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
