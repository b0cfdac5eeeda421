/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and threads from outside: real children in the states that matter. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/clock.h"
#include "probe/proc.h"
#include "probe/test_child.h"

/* Waits until the state is the wanted one; a child takes its time to fall asleep. */
static void await_state(pid_t pid, pid_t tid, char state)
{
    struct proc_stat stat = {0};
    for (uint64_t end = clock_now_ns() + 10 * (uint64_t)NS_PER_SECOND; clock_now_ns() < end;) {
        assert_int_equal(proc_stat_read(pid, tid, &stat), 0);
        if (stat.state == state)
            return;
        sched_yield();
    }
    fail_msg("state is %c, not %c", stat.state, state);
}

/* An id that no process has: a child that was waited for. */
static pid_t gone_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return pid;
}

static void sleeper(int say)
{
    prctl(PR_SET_NAME, "a) R 1 ((b");
    say_number(say, 0);
    for (;;)
        pause();
}

static void test_stat(void **state)
{
    int fd;
    pid_t pid = start(sleeper, &fd);
    await_number(fd);
    await_state(pid, 0, 'S');
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_string_equal(stat.comm, "a) R 1 ((b");
    assert_int_equal(stat.pid, pid);
    assert_int_equal(stat.ppid, getpid());
    assert_int_equal(stat.pgrp, getpgrp());
    assert_int_equal(stat.session, getsid(0));
    assert_int_equal(stat.threads, 1);
    assert_int_equal(stat.nice, getpriority(PRIO_PROCESS, 0));
    assert_int_equal(stat.priority, 20 + stat.nice);
    assert_int_equal(proc_state_of(&stat), PROC_SLEEPING);
    assert_true(stat.memory_bytes > stat.resident_bytes && stat.resident_bytes > 4096);
    assert_true(stat.minor_faults > 0);

    /* a second look has the same birth, another process another one or another pid */
    struct proc_stat again, own;
    assert_int_equal(proc_stat_read(pid, pid, &again), 0);
    assert_int_equal(again.start_ticks, stat.start_ticks);
    assert_int_equal(proc_stat_read(getpid(), 0, &own), 0);
    assert_int_equal(own.state, 'R');
    assert_int_equal(proc_state_of(&own), PROC_RUNNING);
    assert_true(own.start_ticks <= stat.start_ticks);

    kill(pid, SIGSTOP);
    await_state(pid, 0, 'T');
    proc_stat_read(pid, 0, &stat);
    assert_int_equal(proc_state_of(&stat), PROC_STOPPED);
    finish(pid, fd);
}

static void exits_seven(int say)
{
    _exit(7);
}

static void test_zombie_and_gone(void **state)
{
    int fd, status;
    pid_t pid = start(exits_seven, &fd);
    await_state(pid, 0, 'Z');
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_int_equal(proc_state_of(&stat), PROC_ZOMBIE);
    assert_int_equal(WEXITSTATUS(stat.exit_code), 7);
    struct buf bytes = BUF_INIT;
    assert_int_equal(proc_cmdline(pid, &bytes), 0);
    assert_int_equal(bytes.len, 0);
    char byte;
    assert_int_equal(proc_memory_read(pid, (uintptr_t)&byte, &byte, 1, NULL), -ESRCH);
    struct proc_module *modules;
    size_t count;
    assert_int_equal(proc_modules(pid, &modules, &count), -ESRCH);
    waitpid(pid, &status, 0);

    struct proc_status gone_status;
    struct proc_io io;
    uint64_t voluntary, involuntary;
    pid_t *tids;
    char text[PATH_MAX];
    assert_int_equal(proc_stat_read(pid, 0, &stat), -ESRCH);
    assert_int_equal(proc_stat_read(getpid(), pid, &stat), -ESRCH);
    assert_int_equal(proc_status_read(pid, 0, &gone_status), -ESRCH);
    assert_int_equal(proc_switches(pid, &voluntary, &involuntary), -ESRCH);
    assert_int_equal(proc_io_read(pid, &io), -ESRCH);
    assert_int_equal(proc_cmdline(pid, &bytes), -ESRCH);
    assert_int_equal(proc_exe(pid, text, sizeof text), -ESRCH);
    assert_int_equal(proc_threads(pid, &tids, &count), -ESRCH);
    assert_int_equal(proc_pidfd(pid), -ESRCH);
    assert_int_equal(proc_modules(pid, &modules, &count), -ESRCH);
    assert_int_equal(proc_set_nice(pid, 0, 5), -ESRCH);
    assert_int_equal(proc_set_nice(pid, pid, 5), -ESRCH);
    assert_int_equal(proc_memory_read(pid, (uintptr_t)&byte, &byte, 1, NULL), -ESRCH);
    assert_int_equal(proc_memory_write(pid, (uintptr_t)&byte, &byte, 1, NULL), -ESRCH);
    buf_done(&bytes);
    close(fd);
}

static uint64_t known_pattern = UINT64_C(0x0123456789abcdef);

static void *pause_thread(void *arg)
{
    say_number(*(int *)arg, syscall(SYS_gettid));
    for (;;)
        pause();
    return NULL;
}

static void *switching_thread(void *arg)
{
    struct timespec moment = {.tv_nsec = 1000};
    struct rusage usage = {0};
    while (usage.ru_nvcsw < 200) { /* a timer that fires early enough switches nothing */
        nanosleep(&moment, NULL);
        getrusage(RUSAGE_THREAD, &usage);
    }
    return pause_thread(arg);
}

static void leader_leaves(int say)
{
    pthread_t thread;
    pthread_create(&thread, NULL, switching_thread, &say);
    pthread_exit(NULL);
}

/* The kernel shows nothing of these at the process when its first thread has ended; they are there. */
static void assert_all_is_there(pid_t pid)
{
    struct buf bytes = BUF_INIT;
    char text[PATH_MAX];
    uint64_t pattern = 0, written = ~known_pattern, size;
    struct proc_module *modules;
    struct proc_status status;
    struct proc_stat stat;
    size_t count;
    assert_int_equal(proc_cmdline(pid, &bytes), 0);
    assert_true(bytes.len > 0);
    buf_clear(&bytes);
    assert_int_equal(proc_environ(pid, &bytes), 0);
    assert_true(bytes.len > 0);
    buf_done(&bytes);
    assert_int_equal(proc_exe(pid, text, sizeof text), 0);
    assert_int_equal(proc_cwd(pid, text, sizeof text), 0);
    uint64_t addr = (uintptr_t)&known_pattern;
    assert_int_equal(proc_memory_read(pid, addr, &pattern, sizeof pattern, NULL), 0);
    assert_int_equal(pattern, known_pattern);
    assert_int_equal(proc_memory_write(pid, addr, &written, sizeof written, NULL), 0);
    assert_int_equal(proc_memory_read(pid, addr, &pattern, sizeof pattern, NULL), 0);
    assert_int_equal(pattern, written);
    assert_int_equal(proc_modules(pid, &modules, &count), 0);
    assert_true(count > 1);
    proc_modules_free(modules, count);
    assert_int_equal(proc_stack_size(pid, 0, &size), 0);
    assert_true(size > 0);
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_true(stat.memory_bytes > stat.resident_bytes && stat.resident_bytes > 4096);
    assert_int_equal(proc_status_read(pid, 0, &status), 0);
    assert_true(status.peak_resident_bytes > 0);
}

static void test_leader_gone(void **state)
{
    int fd;
    pid_t pid = start(leader_leaves, &fd);
    pid_t tid = (pid_t)await_number(fd);
    await_state(pid, tid, 'S');
    await_state(pid, pid, 'Z');
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_int_equal(stat.state, 'S'); /* the process lives */
    assert_int_equal(proc_state_of(&stat), PROC_SLEEPING);
    pid_t *tids;
    size_t count;
    assert_int_equal(proc_threads(pid, &tids, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(tids[0], pid);
    assert_int_equal(tids[1], tid);
    free(tids);
    assert_all_is_there(pid);
    finish(pid, fd);
}

static void two_threads(int say)
{
    pthread_t thread;
    pthread_create(&thread, NULL, switching_thread, &say);
    for (;;)
        pause();
}

static void *spin_thread(void *arg)
{
    say_number(*(int *)arg, syscall(SYS_gettid));
    for (volatile unsigned long n = 0;; n++)
        ;
    return NULL;
}

static void leader_waits(int say)
{
    pthread_t thread;
    pthread_create(&thread, NULL, spin_thread, &say);
    pthread_join(thread, NULL);
}

static void test_threads(void **state)
{
    int fd;
    pid_t pid = start(two_threads, &fd);
    pid_t tid = (pid_t)await_number(fd);
    struct proc_status leader, thread;
    uint64_t voluntary, involuntary;
    await_state(pid, tid, 'S');
    assert_int_equal(proc_status_read(pid, 0, &leader), 0);
    assert_int_equal(proc_status_read(pid, tid, &thread), 0);
    assert_int_equal(leader.uid, getuid());
    assert_int_equal(leader.gid, getgid());
    assert_true(leader.peak_resident_bytes > 0);
    assert_true(thread.voluntary_switches >= 200);
    assert_int_equal(proc_switches(pid, &voluntary, &involuntary), 0);
    assert_true(voluntary >= 200 + leader.voluntary_switches);

    uint64_t bytes;
    assert_int_equal(proc_stack_size(pid, tid, &bytes), 0);
    assert_true(bytes >= 16384);
    assert_int_equal(proc_stack_size(pid, 0, &bytes), 0);
    assert_true(bytes >= 4096 && bytes < 64u << 20);

    int usual = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(proc_set_nice(pid, tid, usual + 1), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)tid), usual + 1);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)pid), usual);
    assert_int_equal(proc_set_nice(pid, 0, usual + 2), 0);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)tid), usual + 2);
    assert_int_equal(getpriority(PRIO_PROCESS, (id_t)pid), usual + 2);
    finish(pid, fd);

    pid = start(leader_waits, &fd);
    tid = (pid_t)await_number(fd);
    await_state(pid, pid, 'S');
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_int_equal(stat.state, 'S');
    assert_int_equal(proc_process_state(&stat), 'R');
    finish(pid, fd);
}

static void worker(int say)
{
    char *block = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(block, 1, 8 << 20);
    int null = open("/dev/zero", O_RDONLY);
    for (int i = 0; i < 50; i++)
        if (read(null, block, 1000) != 1000)
            _exit(98);
    struct timespec cpu;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    while (cpu.tv_sec == 0 && cpu.tv_nsec < 100000000);
    say_number(say, (intptr_t)block);
    for (;;)
        pause();
}

static void test_usage(void **state)
{
    int fd;
    pid_t pid = start(worker, &fd);
    await_number(fd);
    struct proc_stat stat;
    struct proc_status status;
    struct proc_io io;
    assert_int_equal(proc_stat_read(pid, 0, &stat), 0);
    assert_true(stat.user_ns + stat.system_ns >= 80000000);
    assert_true(stat.resident_bytes >= 8 << 20);
    assert_int_equal(proc_status_read(pid, 0, &status), 0);
    assert_true(status.peak_resident_bytes >= 8 << 20);
    assert_int_equal(proc_io_read(pid, &io), 0);
    assert_true(io.reads >= 50);
    finish(pid, fd);
}

static void test_lists(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char first[] = "A=1", second[] = "B=x y\nz";
        char *const list[] = {first, second, NULL};
        if (chdir("/proc") == 0)
            execle("/bin/sleep", "sleep", "60", (char *)NULL, list);
        _exit(97);
    }
    char path[PATH_MAX] = "", cwd[PATH_MAX];
    for (uint64_t end = clock_now_ns() + 10 * (uint64_t)NS_PER_SECOND; clock_now_ns() < end;) {
        assert_int_equal(proc_exe(pid, path, sizeof path), 0);
        if (strstr(path, "sleep"))
            break;
    }
    assert_non_null(strstr(path, "/sleep"));
    assert_int_equal(proc_exe(pid, path, 4), -ENAMETOOLONG);
    assert_int_equal(proc_cwd(pid, cwd, sizeof cwd), 0);
    assert_string_equal(cwd, "/proc");
    struct buf bytes = BUF_INIT;
    /* the argument vector is set a moment later than the executable */
    for (uint64_t end = clock_now_ns() + 10 * (uint64_t)NS_PER_SECOND; clock_now_ns() < end && !bytes.len;) {
        assert_int_equal(proc_cmdline(pid, &bytes), 0);
    }
    assert_int_equal(bytes.len, 9);
    assert_memory_equal(bytes.data,
                        "sleep\0"
                        "60\0",
                        10);
    buf_clear(&bytes);
    assert_int_equal(proc_environ(pid, &bytes), 0);
    assert_int_equal(bytes.len, 12);
    assert_memory_equal(bytes.data, "A=1\0B=x y\nz\0", 12);
    buf_done(&bytes);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A grandchild that its own parent reaps: its end is told to us all the same. */
static void parent_of_dying(int say)
{
    int go[2];
    if (pipe(go) < 0)
        _exit(96);
    pid_t pid = fork();
    if (pid == 0) {
        char byte;
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 1 ? 42 : 95);
    }
    say_number(say, pid);
    siginfo_t info;
    pause(); /* SIGUSR1: let it end */
    if (write(go[1], "", 1) != 1)
        _exit(94);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT); /* a zombie that is not reaped */
    say_number(say, 1);
    pause();
    waitpid(pid, NULL, 0);
    say_number(say, 2);
    pause();
}

static void on_signal(int signo)
{
}

static void test_exit_status(void **state)
{
    int fd, status = -1;
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigaction(SIGUSR1, &action, &old); /* inherited by the child: ends its pauses */
    pid_t parent = start(parent_of_dying, &fd);
    pid_t pid = (pid_t)await_number(fd);
    int pidfd = proc_pidfd(pid);
    assert_true(pidfd >= 0);
    int r = proc_pidfd_exit_status(pidfd, &status);
    if (r == -ENOTSUP) {
        print_message("# SKIP: PIDFD_GET_INFO does not tell exit statuses before Linux 6.15\n");
        close(pidfd);
        finish(parent, fd);
        sigaction(SIGUSR1, &old, NULL);
        skip();
    }
    assert_int_equal(r, -EAGAIN);
    await_state(parent, 0, 'S');
    assert_int_equal(kill(parent, SIGUSR1), 0);
    await_number(fd);
    assert_int_equal(poll(&(struct pollfd){.fd = pidfd, .events = POLLIN}, 1, 10000), 1);
    assert_int_equal(proc_pidfd_exit_status(pidfd, &status), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    await_state(parent, 0, 'S');
    kill(parent, SIGUSR1);
    await_number(fd);
    status = -1;
    assert_int_equal(proc_pidfd_exit_status(pidfd, &status), 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    assert_int_equal(proc_signal(pidfd, 0), -ESRCH);
    close(pidfd);

    pidfd = proc_pidfd(parent);
    assert_int_equal(proc_signal(pidfd, SIGKILL), 0);
    waitpid(parent, NULL, 0);
    assert_int_equal(proc_pidfd_exit_status(pidfd, &status), 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(pidfd);
    close(fd);
    sigaction(SIGUSR1, &old, NULL);
}

static void mapped(int say)
{
    char *block = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 4 * 4096; i++)
        block[i] = (char)(i * 7);
    mprotect(block, 4096, PROT_READ);
    mprotect(block + 4096, 4096, PROT_EXEC);
    munmap(block + 3 * 4096, 4096);
    say_number(say, (intptr_t)block);
    for (;;)
        pause();
}

static void test_memory(void **state)
{
    int fd;
    pid_t pid = start(mapped, &fd);
    uint64_t block = (uint64_t)await_number(fd);
    unsigned char bytes[4 * 4096];
    size_t done;
    assert_int_equal(proc_memory_read(pid, block + 1, bytes, 3 * 4096 - 1, &done), 0);
    assert_int_equal(done, 3 * 4096 - 1);
    for (size_t i = 0; i < done; i++)
        assert_int_equal(bytes[i], (unsigned char)((i + 1) * 7));
    assert_int_equal(proc_memory_read(pid, block + 2 * 4096, bytes, 2 * 4096, &done), -EIO);
    assert_int_equal(done, 4096);
    assert_int_equal(proc_memory_read(pid, 8, bytes, 4, &done), -EIO);
    assert_int_equal(done, 0);
    assert_int_equal(proc_memory_read(pid, UINT64_MAX - 1, bytes, 8, &done), -EIO);
    assert_int_equal(done, 0);
    assert_int_equal(proc_memory_read(pid, block, bytes, 0, &done), 0);

    /* across a read-only and an executable page */
    memset(bytes, 0xAB, sizeof bytes);
    assert_int_equal(proc_memory_write(pid, block + 4090, bytes, 12, &done), 0);
    assert_int_equal(done, 12);
    unsigned char back[20];
    assert_int_equal(proc_memory_read(pid, block + 4086, back, 20, NULL), 0);
    assert_int_equal(back[3], (unsigned char)(4089 * 7));
    assert_memory_equal(back + 4, bytes, 12);
    assert_int_equal(back[16], (unsigned char)(4102 * 7));
    assert_int_equal(proc_memory_write(pid, block + 3 * 4096 - 4, bytes, 12, &done), -EIO);
    assert_int_equal(done, 4);
    finish(pid, fd);
}

/* As an ordinary user against a process of root. */
static void *nice_thread(void *arg)
{
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 2);
    return pause_thread(arg);
}

/* One thread has a larger nice value, which only a privileged one may lower. */
static void unlike_threads(int say)
{
    pthread_t thread;
    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        _exit(50);
    pthread_create(&thread, NULL, nice_thread, &say);
    for (;;)
        pause();
}

static void test_nice_all_or_nothing(void **state)
{
    int fd, own = getpriority(PRIO_PROCESS, 0);
    if (own > 16)
        skip(); /* there is no room above */
    pid_t pid = start(unlike_threads, &fd);
    pid_t tid = (pid_t)await_number(fd);
    pid_t other = fork();
    if (other == 0) {
        if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
            _exit(50);
        bool right = proc_set_nice(pid, 0, own + 1) == -EACCES && getpriority(PRIO_PROCESS, (id_t)pid) == own &&
                     getpriority(PRIO_PROCESS, (id_t)tid) == own + 2 && proc_set_nice(pid, 0, own + 3) == 0 &&
                     getpriority(PRIO_PROCESS, (id_t)pid) == own + 3 && getpriority(PRIO_PROCESS, (id_t)tid) == own + 3;
        _exit(right ? 0 : 1);
    }
    int status;
    waitpid(other, &status, 0);
    finish(pid, fd);
    assert_int_equal(status, 0);
}

static void test_refused(void **state)
{
    if (geteuid() != 0) {
        print_message("# SKIP: needs root to make a process that may not be looked at\n");
        skip();
    }
    pid_t target = getpid();
    char byte = 0;
    pid_t pid = fork();
    if (pid == 0) {
        if (setgid(65534) < 0 || setuid(65534) < 0)
            _exit(50);
        struct proc_io io;
        struct proc_stat stat;
        struct proc_module *modules;
        struct buf bytes = BUF_INIT;
        char path[PATH_MAX];
        size_t count;
        int pidfd = proc_pidfd(target);
        bool right = proc_io_read(target, &io) == -EACCES && proc_exe(target, path, sizeof path) == -EACCES &&
                     proc_environ(target, &bytes) == -EACCES && proc_stat_read(target, 0, &stat) == 0 &&
                     proc_modules(target, &modules, &count) == -EACCES &&
                     proc_memory_read(target, (uintptr_t)&byte, &byte, 1, NULL) == -EACCES &&
                     proc_memory_write(target, (uintptr_t)&byte, &byte, 1, NULL) == -EACCES &&
                     proc_set_nice(target, 0, 1) == -EACCES && proc_set_nice(getpid(), 0, -5) == -EACCES &&
                     pidfd >= 0 && proc_signal(pidfd, SIGKILL) == -EACCES;
        _exit(right ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    pid_t gone = gone_pid();
    struct proc_stat stat;
    assert_int_equal(proc_stat_read(gone, 0, &stat), -ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stat),        cmocka_unit_test(test_zombie_and_gone),
        cmocka_unit_test(test_leader_gone), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_usage),       cmocka_unit_test(test_lists),
        cmocka_unit_test(test_exit_status), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_nice_all_or_nothing),
    };
    return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
