/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job/places/deadlocks.h"

static int pair[2], terminal;
static char file[64], database[72];

static void sleep_long(void)
{
    sleep(1000);
}

static void stop(void)
{
    raise(SIGSTOP);
}

static void lock(void)
{
    flock(open(file, O_RDWR), LOCK_EX);
}

static struct flock reserved(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_start = 0x40000001, .l_len = 1};
}

/* As SQLite does: to write. */
static void try_to_write(void)
{
    int fd = open(database, O_RDWR);
    for (struct flock reserve = reserved(); fcntl(fd, F_SETLK, &reserve) < 0;)
        usleep(900000);
}

static void receive(void)
{
    char byte;
    close(pair[1]);
    _exit(recv(pair[0], &byte, 1, 0) == 1);
}

static void type(void)
{
    char byte;
    int fd = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    _exit(read(fd, &byte, 1) == 1);
}

static void *sleep_in_thread(void *unused)
{
    sleep_long();
    return NULL;
}

/* For what that waits only its other thread would say. */
static void join(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, sleep_in_thread, NULL);
    pthread_join(thread, NULL);
}

static void spin(void)
{
    for (volatile int i = 0;; i++)
        ;
}

/* A process that waits for its child, which waits for something else; and beside both one that sleeps. */
static void test_awaited(void **state)
{
    static const struct {
        void (*fn)(void);
        enum awaited kind;
        const char *text, *more;
        bool alone; /* beside another one that sleeps it says nothing */
    } rows[] = {
        {stop, AWAITED_STOPPED, ") was stopped by a signal", ""},
        {lock, AWAITED_LOCK, ") waits for the lock (flock) of /tmp/scry-test-", "; that process is not of this job"},
        {try_to_write, AWAITED_LOCK, ") probably waits for the lock of the SQLite database /tmp/scry-test-",
         ".db (it tries again every 900 ms), which is held by process "},
        {type, AWAITED_TERMINAL, ") reads from /dev/pts/", ""},
        {receive, AWAITED_CONNECTION, ") receives from a local socket, whose other end process ", ""},
        {sleep_long, AWAITED_OTHER, ") sleeps", "", true},
        {join, AWAITED_NOTHING, "", "", true},
        {spin, AWAITED_NOTHING, "", "", true},
    };
    int held = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int written = open(database, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock reserve = reserved();
    assert_int_equal(flock(held, LOCK_EX), 0);
    assert_int_equal(fcntl(written, F_SETLK, &reserve), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pid_t pids[3], found = 0;
        int told[2];
        assert_int_equal(pipe2(told, O_CLOEXEC), 0);
        pids[0] = fork();
        if (pids[0] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            pid_t child = fork();
            if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                close(held);
                rows[i].fn();
                _exit(0);
            }
            close(held); /* as a job that has none of what the test has */
            close(pair[1]);
            if (write(told[1], &child, sizeof child) == sizeof child)
                waitpid(child, NULL, 0);
            _exit(0);
        }
        assert_int_equal(read(told[0], &pids[1], sizeof pids[1]), sizeof pids[1]);
        pids[2] = fork();
        if (pids[2] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(held);
            close(pair[1]);
            sleep_long();
        }
        struct buf text = BUF_INIT;
        for (enum awaited kind = AWAITED_NOTHING; kind != rows[i].kind || !kind;) { /* it may not be there yet */
            buf_clear(&text);
            kind = awaited_put(&text, pids, 2, &found);
            if (!rows[i].kind)
                break;
        }
        if (!strstr(text.data ? text.data : "", rows[i].text) || !strstr(text.data ? text.data : "", rows[i].more) ||
            (rows[i].kind && found != pids[1]))
            fail_msg("%zu: %s", i, text.data ? text.data : "");
        bool others = rows[i].kind == AWAITED_CONNECTION || rows[i].kind == AWAITED_OTHER;
        assert_int_equal(text.data && strstr(text.data, "; all others wait for it"), others);
        buf_clear(&text);
        enum awaited both = awaited_put(&text, pids, 3, &found);
        while (rows[i].fn == try_to_write && both != rows[i].kind) /* just then it does */
            both = awaited_put(&text, pids, 3, &found);
        assert_int_equal(both, rows[i].alone ? AWAITED_NOTHING : rows[i].kind);
        assert_false(text.data && strstr(text.data, "others wait"));
        buf_done(&text);
        for (int k = 0; k < 3; k += 2) {
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
        close(told[0]);
        close(told[1]);
    }
    close(held);
    close(written);
    unlink(file);
    unlink(database);
}

int main(void)
{
    snprintf(file, sizeof file, "/tmp/scry-test-%d", getpid());
    snprintf(database, sizeof database, "%s.db", file);
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_awaited)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
