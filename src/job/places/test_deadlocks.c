/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job/places/blocked.h"
#include "job/places/deadlocks.h"
#include "job/places/fifos.h"

static void handler(int signo)
{
}

/* As a shell does: `exec 8>first; flock 8` takes the lock in a child, which ends. Then it waits for the other file's lock. */
static pid_t lock_two(const char *first, const char *other, int ready, int go, bool limited)
{
    char byte = 0;
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (limited)
        signal(SIGALRM, handler);
    int own = open(first, O_RDWR | O_CREAT, 0600);
    pid_t taker = fork();
    if (taker == 0)
        _exit(flock(own, LOCK_EX) ? 1 : 0);
    waitpid(taker, NULL, 0);
    if (write(ready, &byte, 1) == 1 && read(go, &byte, 1) == 1)
        flock(open(other, O_RDWR | O_CREAT, 0600), LOCK_EX);
    _exit(0);
}

static bool waits_for_lock(pid_t pid)
{
    struct file_lock *locks;
    bool waits = false;
    size_t count = file_locks_read(&locks);
    for (size_t i = 0; i < count; i++)
        waits |= locks[i].waits == pid;
    free(locks);
    return waits;
}

/* limited: as by flock -w, after a time they give up. */
static void lock_crosswise(bool limited)
{
    char dir[] = "/tmp/scry-test-XXXXXX", a[64], b[64], byte[2] = {0};
    int ready[2], go[2];
    assert_non_null(mkdtemp(dir));
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    snprintf(a, sizeof a, "%s/a", dir);
    snprintf(b, sizeof b, "%s/b", dir);
    pid_t pids[] = {lock_two(a, b, ready[1], go[0], limited), lock_two(b, a, ready[1], go[0], limited)};
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(ready[0], byte, 1), 1);
    assert_int_equal(write(go[1], byte, 2), 2);
    struct deadlock *locks = NULL;
    size_t count = 0;
    while (!waits_for_lock(pids[0]) || !waits_for_lock(pids[1]))
        usleep(1000);
    while (!(count = deadlocks_find(&locks, pids, 2)) && !limited)
        deadlocks_free(locks, 0);
    assert_int_equal(count, limited ? 0 : 1);
    struct buf text = BUF_INIT;
    deadlocks_text(&text, locks, count);
    char expected[128];
    assert_true(limited || strstr(text.data, "deadlock: 2 processes wait for each other's locks of files\n"));
    for (int i = 0; i < 2; i++) {
        snprintf(expected, sizeof expected, "waits for the lock (flock) of %s, which is held by process %d (",
                 i ? a : b, pids[!i]);
        assert_true(limited || strstr(text.data, expected));
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
    buf_done(&text);
    deadlocks_free(locks, count);
    unlink(a);
    unlink(b);
    rmdir(dir);
}

static void test_flock_of_a_child(void **state)
{
    lock_crosswise(false);
}

static void test_flock_with_a_limit(void **state)
{
    lock_crosswise(true);
}

/* A semaphore that nobody can post, or a lock to write that the thread itself has to read: its process has no other thread, and no handler
 * of signals. */
static void test_semaphore(void **state)
{
    for (int lock = 0; lock < 2; lock++) {
        struct deadlock *locks = NULL;
        size_t count = 0;
        pid_t pid = fork();
        if (pid == 0) {
            pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
            sem_t semaphore;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            sem_init(&semaphore, 0, 0);
            pthread_rwlock_rdlock(&both);
            if (lock)
                pthread_rwlock_wrlock(&both);
            sem_wait(&semaphore);
            _exit(0);
        }
        while (!(count = deadlocks_find(&locks, &pid, 1)))
            deadlocks_free(locks, 0);
        struct buf text = BUF_INIT;
        char expected[128];
        deadlocks_text(&text, locks, count);
        snprintf(expected, sizeof expected, "deadlock: thread %d of process %d (", pid, pid);
        assert_int_equal(strncmp(text.data, expected, strlen(expected)), 0);
        assert_non_null(strstr(text.data,
                               ") waits for a semaphore, a condition or a lock that nobody can give any more "
                               "(its process has no other thread)\n"));
        assert_non_null(strstr(text.data,
                               "): waits for a semaphore, a condition or a lock, and its process has no other "
                               "thread"));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        buf_done(&text);
        deadlocks_free(locks, count);
    }
}

/* What a process reads, writes or locks, and for what. */
enum own_end {
    READS_OWN,
    WRITES_OWN,
    READS_SHARED,
    READS_FOR_SIGINT,
    READS_FOR_EVER,
    LOCKS_OWN,
    LOCKS_SHARED,
    WANTS_OWN,
    WANTS_SHARED
};

/* By two open files of it, one of which its parent may have, too. */
static void lock_twice(int file)
{
    char path[32];
    for (int i = 0; i < 2 && flock(file, LOCK_EX) == 0; i++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        file = open(path, O_RDWR);
    }
    _exit(1);
}

/* A semaphore without a name. */
static sem_t *semaphore_open(void)
{
    char name[32];
    snprintf(name, sizeof name, "/scry-test-%d", (int)getpid());
    sem_t *semaphore = sem_open(name, O_CREAT | O_EXCL, 0600, 0);
    sem_unlink(name);
    return semaphore;
}

static void use_own(enum own_end use, int *shared, int shared_file, sem_t *shared_semaphore)
{
    char bytes[4096] = {0}, path[32];
    int own[2];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (use == LOCKS_OWN || use == LOCKS_SHARED)
        lock_twice(use == LOCKS_OWN ? memfd_create("own", 0) : shared_file);
    if (use == WANTS_OWN || use == WANTS_SHARED)
        sem_wait(use == WANTS_OWN ? semaphore_open() : shared_semaphore);
    if (use == READS_FOR_SIGINT) /* its handler may write to the pipe */
        signal(SIGINT, handler);
    if (use != READS_SHARED) {
        close(shared[1]);
        shared = pipe(own) ? shared : own;
    }
    if (use == READS_FOR_EVER) { /* as a shell that sleeps: read <> <(:) */
        snprintf(path, sizeof path, "/proc/self/fd/%d", own[0]);
        int both = open(path, O_RDWR);
        close(own[0]);
        close(own[1]);
        own[0] = both;
    }
    while (use == WRITES_OWN && write(own[1], bytes, sizeof bytes) > 0)
        ;
    _exit(read(shared[0], bytes, 1) == 1);
}

/* A pipe whose other end only the process itself has, a lock of a file, or a semaphore: unless that is so for a purpose. */
static void test_own_end(void **state)
{
    static const char pipes[] = " a pipe that nobody but itself can ",
                      file[] = " of /memfd:own (deleted), which it holds itself, by another descriptor",
                      memory[] = " in memory that it shares with no other process, so that nobody can give it";
    static const struct {
        enum own_end use;
        const char *syscall, *text, *thread;
    } rows[] = {
        {READS_OWN, "read", ") waits for itself: it reads a pipe that no other process can write\n", pipes},
        {WRITES_OWN, "write", ") waits for itself: it writes to a pipe that no other process can read\n", pipes},
        {READS_SHARED, "read", NULL, NULL},
        {READS_FOR_SIGINT, "read", NULL, NULL},
        {READS_FOR_EVER, "read", NULL, NULL},
        {LOCKS_OWN, "flock", ") waits for itself: for the lock of a file that it has already, by another descriptor\n",
         file},
        {LOCKS_SHARED, "flock", NULL, NULL},
        {WANTS_OWN, "futex", ") waits for itself: for a lock or a semaphore that no other process has\n", memory},
        {WANTS_SHARED, "futex", NULL, NULL}};
    sem_t *shared_semaphore = semaphore_open();
    int shared[2], shared_file = memfd_create("shared", 0);
    assert_int_equal(pipe(shared), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct deadlock *locks = NULL;
        struct blocked *threads;
        size_t count = 0, found;
        bool blocked = false;
        struct buf text = BUF_INIT;
        pid_t pid = fork();
        if (pid == 0)
            use_own(rows[i].use, shared, shared_file, shared_semaphore);
        while (!blocked) {
            assert_int_equal(blocked_read(pid, &threads, &found, NULL), 0);
            blocked = strcmp(threads[0].syscall, rows[i].syscall) == 0;
            blocked_free(threads, found);
        }
        while (!(count = deadlocks_find(&locks, &pid, 1)) && rows[i].text)
            deadlocks_free(locks, 0);
        assert_int_equal(count, rows[i].text != NULL);
        deadlocks_text(&text, locks, count);
        if (rows[i].text && (!strstr(text.data, rows[i].text) || !strstr(text.data, rows[i].thread)))
            fail_msg("%s", text.data);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        buf_done(&text);
        deadlocks_free(locks, count);
    }
    close(shared_file);
    sem_close(shared_semaphore);
}

/* A FIFO that is open: who has its other end, and that a job is stuck in which only those have it that wait themselves. */
static void test_open_fifo(void **state)
{
    char dir[] = "/tmp/scry-test-XXXXXX", path[64], expected[256];
    struct blocked *threads;
    struct deadlock *locks = NULL;
    size_t found;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    for (int other = 0; other < 2; other++) {
        int writer = other ? open(path, O_RDWR | O_CLOEXEC) : -1;
        pid_t pid = fork();
        if (pid == 0) {
            char byte;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            close(writer);
            _exit(read(open(path, O_RDWR), &byte, 1) == 1);
        }
        snprintf(expected, sizeof expected, "reads from the FIFO %s that can be written by ", path);
        for (bool blocked = false; !blocked; blocked_free(threads, found)) {
            assert_int_equal(blocked_read(pid, &threads, &found, NULL), 0);
            blocked = strcmp(threads[0].syscall, "read") == 0;
            const char *text = threads[0].text.data ? threads[0].text.data : "";
            if (blocked && (strncmp(text, expected, strlen(expected)) != 0 || strstr(text, "offset")))
                fail_msg("%s", text);
        }
        assert_int_equal(deadlocks_find(&locks, &pid, 1), 0); /* somebody else may write to it yet */
        struct buf text = BUF_INIT, line = BUF_INIT;
        fifos_text(&text, &pid, 1);
        fifos_line(&line, &pid, 1);
        snprintf(expected, sizeof expected,
                 "stuck: all of its processes wait, 1 of them until somebody uses a FIFO\n"
                 "  nobody that has opened %s could write to it now\n",
                 path);
        assert_string_equal(text.len ? text.data : "", other ? "" : expected);
        snprintf(expected, sizeof expected, "all of its processes wait until somebody writes to %s", path);
        assert_string_equal(line.len ? line.data : "", other ? "" : expected);
        buf_done(&text);
        buf_done(&line);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (other)
            close(writer);
    }
    unlink(path);
    rmdir(dir);
}

static int listening(int family, in_port_t *ret_port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.any.sa_family = (sa_family_t)family};
    socklen_t len = family == AF_INET ? sizeof address.v4 : sizeof address.v6;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, &address.any, len) < 0 || listen(fd, 1) < 0 || getsockname(fd, &address.any, &len) < 0)
        return -1;
    *ret_port = family == AF_INET ? address.v4.sin_port : address.v6.sin6_port;
    return fd;
}

/* One end of a connection, which waits for the other one: for what it sends, or until it takes what was sent to it. */
static void use_end(int fd, bool sends)
{
    static char bytes[65536];
    while (sends && send(fd, bytes, sizeof bytes, 0) > 0)
        ;
    _exit(recv(fd, bytes, 1, 0) == 1);
}

/* The two ends of a connection on this node: each waits for the other one. Of datagrams the other end may be anybody. */
static void test_connection(void **state)
{
    static const struct {
        int family, type;
        bool sends, stuck;
    } rows[] = {{AF_INET, SOCK_STREAM, false, true}, {AF_INET6, SOCK_STREAM, false, true},
                {AF_INET, SOCK_STREAM, true, true},  {AF_UNIX, SOCK_STREAM, false, true},
                {AF_UNIX, SOCK_STREAM, true, true},  {AF_UNIX, SOCK_SEQPACKET, false, true},
                {AF_UNIX, SOCK_DGRAM, false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct deadlock *locks = NULL;
        struct blocked *threads;
        size_t count = 0, found;
        struct buf text = BUF_INIT;
        char expected[128];
        pid_t pids[2];
        int ends[2] = {-1, -1};
        bool local = rows[i].family == AF_UNIX;
        int server = local ? socketpair(AF_UNIX, rows[i].type | SOCK_CLOEXEC, 0, ends)
                           : listening(rows[i].family, &address.sin_port);
        if (server < 0) {
            printf("SKIP: no IPv6\n");
            continue;
        }
        for (int k = 0; k < 2; k++) {
            pids[k] = fork();
            if (pids[k])
                continue;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int fd = local ? ends[k] : k ? socket(AF_INET, SOCK_STREAM, 0) : accept(server, NULL, NULL);
            if (!local && k && connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
                _exit(1);
            use_end(fd, rows[i].sends);
        }
        for (int k = 0; k < 2 && local; k++)
            close(ends[k]);
        if (!local)
            close(server);
        for (bool waits = false; !waits; blocked_free(threads, found)) {
            assert_int_equal(blocked_read(pids[0], &threads, &found, NULL), 0);
            waits = strncmp(threads[0].syscall, rows[i].sends ? "send" : "recv", 4) == 0;
        }
        for (bool both = false; !both;) { /* a table of connections that changes may be read without a row */
            deadlocks_free(locks, count);
            buf_clear(&text);
            count = deadlocks_find(&locks, pids, 2);
            deadlocks_text(&text, locks, count);
            both = count || !rows[i].stuck;
            for (int k = 0; k < 2 && count; k++) { /* a child of fork has both ends of a pair */
                snprintf(expected, sizeof expected, "%s, whose other end process %d (",
                         local ? "a local socket" : " (established)", pids[local ? 0 : k]);
                both &= strstr(text.data, expected) != NULL;
            }
        }
        assert_int_equal(count, rows[i].stuck);
        assert_true(!count || strncmp(text.data, "deadlock: 2 processes wait for each other\n", 42) == 0);
        for (int k = 0; k < 2; k++) {
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
        buf_done(&text);
        deadlocks_free(locks, count);
    }
}

static sem_t *first_lock; /* of two, in shared memory */

static void take_both(int first, bool limited, int ready, int go)
{
    char byte = 0;
    struct timespec until;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sem_wait(&first_lock[first]);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1000;
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
        _exit(1);
    while (limited ? sem_timedwait(&first_lock[!first], &until) : sem_wait(&first_lock[!first]))
        ;
    _exit(0);
}

enum { CROSSED, LIMITED, TAKEN };

static void use_semaphores(int set, int own, int how)
{
    const struct timespec long_time = {.tv_sec = 1000};
    struct sembuf first = {(unsigned short)own, -1, 0}, other = {(unsigned short)!own, -1, 0}, come = {2, 1, 0},
                  both = {2, -2, 0}, go = {2, 2, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (how != TAKEN && (semop(set, &first, 1) || semop(set, &come, 1) || semop(set, &both, 1) || semop(set, &go, 1)))
        _exit(1);
    _exit(semtimedop(set, &other, 1, how == LIMITED ? &long_time : NULL));
}

/* Two semaphores of System V, taken crosswise, or with a limit of time; or others have taken them. What runs the same program may
 * give them, too. */
static void test_system_v(void **state)
{
    for (int how = CROSSED; how <= TAKEN; how++) {
        struct deadlock *locks = NULL;
        struct blocked *threads;
        size_t count = 0, found;
        struct buf text = BUF_INIT;
        pid_t pids[2];
        char expected[128];
        int set = semget(IPC_PRIVATE, 3, 0600);
        assert_true(set >= 0);
        for (int k = 0; k < 2; k++)
            semctl(set, k, SETVAL, how == TAKEN ? 0 : 1);
        for (int k = 0; k < 2; k++) {
            pids[k] = fork();
            if (pids[k] == 0)
                use_semaphores(set, k, how);
        }
        for (int k = 0; k < 2; k++) {
            snprintf(expected, sizeof expected, "waits for a System V semaphore (number %d of set %d), which", !k, set);
            for (bool waits = false; !waits; blocked_free(threads, found)) {
                assert_int_equal(blocked_read(pids[k], &threads, &found, NULL), 0);
                waits = threads[0].text.data && strncmp(threads[0].text.data, expected, strlen(expected)) == 0;
            }
        }
        const pid_t with_own[] = {pids[0], pids[1], getpid()};
        assert_int_equal(deadlocks_find(&locks, with_own, 3), 0);
        while (!(count = deadlocks_find(&locks, pids, 2)) && how == CROSSED)
            deadlocks_free(locks, 0);
        assert_int_equal(count, how == CROSSED);
        deadlocks_text(&text, locks, count);
        for (int k = 0; k < 2; k++) {
            snprintf(expected, sizeof expected, "was last used by process %d (", pids[k]);
            if (count && !strstr(text.data, expected))
                fail_msg("%s", text.data);
        }
        for (int k = 0; k < 2; k++) {
            kill(pids[k], SIGKILL);
            waitpid(pids[k], NULL, 0);
        }
        semctl(set, 0, IPC_RMID);
        buf_done(&text);
        deadlocks_free(locks, count);
    }
}

static int pipe_of_parent[2];

static void *fill_pipe(void *unused)
{
    static const char bytes[4096];
    while (write(pipe_of_parent[1], bytes, sizeof bytes) > 0)
        ;
    return NULL;
}

enum family { LOCKS, LOCKS_LIMITED, PIPES, JOINS };

/* As multiprocessing does: a parent that waits for the end of its children. Tells their numbers. */
static void be_parent(enum family family, int ready, int told)
{
    int started[2], go[2];
    char bytes[2];
    pid_t pids[2] = {0};
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pipe(started) || pipe(go) || pipe(pipe_of_parent))
        _exit(1);
    first_lock = mmap(NULL, 2 * sizeof *first_lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(&first_lock[0], 1, 1);
    sem_init(&first_lock[1], 1, 1);
    for (int i = 0; i < (family == JOINS ? 1 : 2); i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (family == PIPES) { /* each first reads what only the other one, or their parent, could write */
            bytes[0] = read(i ? started[0] : go[0], bytes, 1) == 1;
            _exit(write(i ? go[1] : started[1], bytes, 1) != 1);
        }
        if (family != JOINS)
            take_both(i, family == LOCKS_LIMITED, started[1], go[0]);
        pthread_create(&thread, NULL, fill_pipe, NULL);
        pthread_join(thread, NULL);
        _exit(0);
    }
    if (family < PIPES &&
        (read(started[0], bytes, 1) != 1 || read(started[0], bytes, 1) != 1 || write(go[1], bytes, 2) != 2))
        _exit(1);
    if (write(told, pids, sizeof pids) != sizeof pids || write(ready, bytes, 1) != 1)
        _exit(1);
    waitpid(pids[0], NULL, 0);
    _exit(0);
}

/* Locks in memory that processes share, taken crosswise; pipes that each reads before it writes; and a child that its parent joins
 * before it reads what that writes. */
static void test_family(void **state)
{
    static const char *const expected[] = {"deadlock: 2 processes wait for each other\n", NULL,
                                           "deadlock: 2 processes wait for each other\n",
                                           "deadlock: 2 processes wait for each other\n"};
    for (enum family family = LOCKS; family <= JOINS; family++) {
        struct deadlock *locks = NULL;
        struct buf text = BUF_INIT;
        size_t count = 0;
        int ready[2], told[2];
        char byte;
        pid_t pids[3];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        assert_int_equal(pipe2(told, O_CLOEXEC), 0);
        pids[0] = fork();
        if (pids[0] == 0)
            be_parent(family, ready[1], told[1]);
        assert_int_equal(read(told[0], &pids[1], 2 * sizeof *pids), 2 * sizeof *pids);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        size_t of = family == JOINS ? 2 : 3;
        struct blocked *threads;
        size_t found;
        for (bool waits = false; !waits; blocked_free(threads, found)) { /* the parent is there last */
            assert_int_equal(blocked_read(pids[0], &threads, &found, NULL), 0);
            waits = strncmp(threads[0].syscall, "wait", 4) == 0;
        }
        while (!(count = deadlocks_find(&locks, pids, of)) && expected[family])
            deadlocks_free(locks, 0);
        deadlocks_text(&text, locks, count);
        if (!expected[family] ? count : count != 1 || strncmp(text.data, expected[family], strlen(expected[family])))
            fail_msg("%d: %s", family, text.data ? text.data : "");
        if (family == LOCKS || family == PIPES) /* their parent is not one of them */
            assert_true(locks[0].threads[0].pid != pids[0] && locks[0].threads[1].pid != pids[0]);
        kill(pids[0], SIGKILL);
        waitpid(pids[0], NULL, 0);
        buf_done(&text);
        deadlocks_free(locks, count);
        for (int i = 0; i < 2; i++) {
            close(ready[i]);
            close(told[i]);
        }
    }
}

/* Of many descriptors the first is named. */
static void test_polled(void **state)
{
    for (int selects = 0; selects < 2; selects++) {
        struct blocked *threads;
        size_t found;
        pid_t pid = fork();
        if (pid == 0) {
            struct pollfd polled[4];
            fd_set set;
            int ends[2];
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            FD_ZERO(&set);
            for (int i = 0; i < 4; i++) {
                polled[i] = (struct pollfd){.fd = pipe(ends) ? -1 : ends[0], .events = POLLIN};
                FD_SET(polled[i].fd, &set);
            }
            selects ? select(ends[0] + 1, &set, NULL, NULL, NULL) : poll(polled, 4, -1);
            _exit(0);
        }
        for (bool polls = false; !polls;) {
            assert_int_equal(blocked_read(pid, &threads, &found, NULL), 0);
            polls = strstr(threads[0].syscall, selects ? "select" : "poll") != NULL;
            const char *text = threads[0].text.data,
                       *pipe = polls ? strstr(text, "a pipe that nobody but itself can write") : "";
            if (polls && (!pipe || strstr(pipe + 1, "a pipe") || !strstr(pipe, " and 3 more")))
                fail_msg("%s", text);
            blocked_free(threads, found);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* A function inside the shell is no place of the script. */
static void test_shell(void **state)
{
    int pipe[2];
    assert_int_equal(pipe2(pipe, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pipe[0], STDIN_FILENO);
        execlp("bash", "bash", "-c", "read answer; echo", (char *)NULL);
        _exit(1);
    }
    struct deadlock_thread thread;
    for (bool reads = false; !reads; deadlock_threads_done(&thread, !reads)) {
        thread = (struct deadlock_thread){.tid = pid};
        deadlock_threads_tell(&thread, 1, pid);
        reads = thread.text.len && strstr(thread.text.data, "a pipe");
    }
    if (strstr(thread.text.data, "bash") || thread.place)
        fail_msg("%s", thread.text.data);
    deadlock_threads_done(&thread, 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(pipe[0]);
    close(pipe[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_semaphore),        cmocka_unit_test(test_shell),
        cmocka_unit_test(test_system_v),         cmocka_unit_test(test_own_end),
        cmocka_unit_test(test_polled),           cmocka_unit_test(test_family),
        cmocka_unit_test(test_open_fifo),        cmocka_unit_test(test_connection),
        cmocka_unit_test(test_flock_of_a_child), cmocka_unit_test(test_flock_with_a_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
