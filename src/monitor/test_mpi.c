/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's side of MPI with an interposer that is only a few lines: a child process that speaks the protocol of
 * shm/mpi_area.h, does what it is told through a pipe, and counts calls that are known.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/dirs.h"
#include "jobdir/test_mpi_area.h"
#include "monitor/agents.h"
#include "monitor/monitor.h"
#include "monitor/mpi.h"
#include "monitor/mpi_internal.h"
#include "shm/area.h"

enum { PATIENCE_S = 30, SITE = 0x401234 };

static char dir[64], job[128];
static struct loop *loop;
static struct monitor *monitor;
static struct agents *agents;
static unsigned came, started;

/* ---- the interposer ---- */

struct fake {
    uint8_t *area;
    struct doorbell *bell;
};

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", dir);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

static void fill_hello(struct mpi_hello *hello)
{
    memset(hello, 0, sizeof *hello);
    *hello = (struct mpi_hello){.magic = MPIA_HELLO_MAGIC,
                                .version = MPIA_AREA_VERSION,
                                .size = sizeof *hello,
                                .calls_hash = CALLS_HASH,
                                .pid = getpid(),
                                .library = MPIA_LIBRARY_MPICH,
                                .hint_rank = 1,
                                .hint_size = 2};
    strcpy(hello->namespace, "some job");
    strcpy(hello->job, job);
    ssize_t len = readlink("/proc/self/exe", hello->exe, sizeof hello->exe - 1);
    hello->exe[len > 0 ? len : 0] = 0;
}

/* The status of the answer; its descriptors, or -1. */
static int greet(const struct mpi_hello *hello, size_t size, int ret_fds[2])
{
    struct mpi_welcome welcome;
    struct iovec part = {&welcome, sizeof welcome};
    char control[CMSG_SPACE(2 * sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd = dial();
    ret_fds[0] = ret_fds[1] = -1;
    if (fd < 0 || send(fd, hello, size, 0) != (ssize_t)size || recvmsg(fd, &message, 0) != sizeof welcome)
        return 1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head)
        memcpy(ret_fds, CMSG_DATA(head), 2 * sizeof(int));
    close(fd);
    return welcome.status;
}

static bool fake_connect(struct fake *fake)
{
    static struct mpi_hello hello;
    int fds[2];
    struct stat st;
    fill_hello(&hello);
    if (greet(&hello, sizeof hello, fds) != 0 || fstat(fds[0], &st) < 0 || st.st_size != MPIA_AREA_SIZE ||
        st.st_blocks * 512 < MPIA_AREA_SIZE)
        return false;
    void *area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    void *bell = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    close(fds[0]);
    close(fds[1]);
    if (area == MAP_FAILED || bell == MAP_FAILED)
        return false;
    fake->area = area;
    fake->bell = bell;
    return true;
}

/* What must be refused. */
static bool fake_refused(void)
{
    static struct mpi_hello hello;
    int fds[2];
    bool ok = true;
    for (unsigned i = 0; i < 7; i++) {
        size_t size = sizeof hello;
        fill_hello(&hello);
        if (i == 0)
            hello.version++;
        else if (i == 1)
            hello.calls_hash++;
        else if (i == 2)
            memset(hello.job, 'x', sizeof hello.job);
        else if (i == 3)
            strcpy(hello.job, "relative");
        else if (i == 4)
            strcpy(hello.exe, "two\nlines");
        else if (i == 5)
            hello.library = 7;
        else
            size = 20;
        ok = greet(&hello, size, fds) == -EPROTO && fds[0] == -1 && ok;
    }
    return ok;
}

static bool fake_without_memory(void)
{
    static struct mpi_hello hello;
    int fds[2];
    fill_hello(&hello);
    return greet(&hello, sizeof hello, fds) == -ENOMEM && fds[0] == -1;
}

static bool fake_agent_hello(bool other_program)
{
    static struct agent_hello hello;
    hello = (struct agent_hello){.magic = AREA_MAGIC, .version = AREA_VERSION, .size = sizeof hello, .pid = getpid()};
    strcpy(hello.job, job);
    ssize_t len = readlink("/proc/self/exe", hello.exe, sizeof hello.exe - 1);
    hello.exe[len > 0 ? len : 0] = 0;
    if (other_program)
        strcpy(hello.exe, "/bin/other");
    int fd = dial();
    bool sent = send(fd, &hello, sizeof hello, 0) == sizeof hello;
    close(fd);
    return sent;
}

static void fake_recv(const struct fake *fake, unsigned count, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        struct fake_call call = {CALL_MPI_Recv, 0, 5, bytes, __rdtsc(), 0, SITE};
        fake_area_enter(fake->area, 0, &call);
        call.leave = __rdtsc();
        fake_area_leave(fake->area, 0, &call);
    }
}

/* A letter and a number a command; a letter back when it is done. */
static void fake_main(int fd)
{
    struct fake fake = {NULL, NULL};
    struct mpi_area *head = NULL;
    struct {
        char letter;
        uint32_t number;
    } command;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fd, &command, sizeof command) == sizeof command) {
        char done = command.letter;
        switch (command.letter) {
        case 'c':
            done = fake_connect(&fake) ? 'c' : '!';
            head = (void *)fake.area;
            break;
        case 'r':
            done = fake_refused() ? 'r' : '!';
            break;
        case 'm':
            done = fake_without_memory() ? 'm' : '!';
            break;
        case 'i':
            fake_area_start(fake.area, 1, 2, (uint32_t)getpid(), __rdtsc());
            area_ring(fake.bell);
            break;
        case 'n':
            fake_recv(&fake, command.number, 100);
            break;
        case 'e': { /* and stays there */
            struct fake_call call = {CALL_MPI_Recv, 0, 5, 100, __rdtsc(), 0, SITE};
            fake_area_enter(fake.area, 0, &call);
            break;
        }
        case 'p':
            atomic_fetch_add(&head->reports, 1);
            area_ring(fake.bell);
            break;
        case 'o': /* how it was set */
            done = atomic_load(&head->on) == (command.number & 1) && atomic_load(&head->bits) == command.number >> 1
                       ? 'o'
                       : '!';
            break;
        case 'd':
            done = atomic_load(&head->metrics) == command.number &&
                           atomic_load(&head->selected[CALL_MPI_Recv / 64]) ==
                               (UINT64_C(1) << CALL_MPI_Recv % 64 |
                                (CALL_MPI_Recv / 64 == CALL_MPI_Send / 64 ? UINT64_C(1) << CALL_MPI_Send % 64 : 0))
                       ? 'd'
                       : '!';
            break;
        case 'z':
            done = atomic_load(&head->reset) == command.number ? 'z' : '!';
            break;
        case 'g': /* garbage over all that the monitor reads, but for what makes it an area */
            for (size_t i = 512; i < MPIA_AREA_SIZE; i++)
                fake.area[i] = (uint8_t)(i * 2654435761u >> 11);
            area_ring(fake.bell);
            break;
        case 'a': /* as an agent without hooks, of this program or of another one */
            done = fake_agent_hello(command.number) ? 'a' : '!';
            break;
        case 'q':
            fake_area_finalize(fake.area, __rdtsc(), __rdtsc());
            _exit(0);
        }
        if (write(fd, &done, 1) != 1)
            break;
    }
    _exit(1);
}

struct child {
    pid_t pid;
    int fd;
};

static struct child child_new(void)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        fake_main(fds[1]);
    }
    close(fds[1]);
    return (struct child){pid, fds[0]};
}

#define step_until(condition) \
    do { \
        uint64_t end_ = clock_now_ns() + (uint64_t)PATIENCE_S * NS_PER_SECOND; \
        while (!(condition)) { \
            assert_true(clock_now_ns() < end_); \
            loop_step(loop, 1000000); \
        } \
    } while (0)

static void send_command(const struct child *child, char letter, uint32_t number)
{
    struct {
        char letter;
        uint32_t number;
    } command = {letter, number};
    assert_int_equal(write(child->fd, &command, sizeof command), sizeof command);
}

static void tell(const struct child *child, char letter, uint32_t number)
{
    char done;
    send_command(child, letter, number);
    step_until(recv(child->fd, &done, 1, MSG_PEEK | MSG_DONTWAIT) >= 0);
    assert_int_equal(read(child->fd, &done, 1), 1);
    assert_int_equal(done, letter);
}

static void child_end(struct child *child, int signo)
{
    if (signo)
        kill(child->pid, signo);
    else
        send_command(child, 'q', 0);
    waitpid(child->pid, NULL, 0);
    close(child->fd);
}

/* ---- the monitor ---- */

static int register_nothing(struct monitor *unused)
{
    (void)unused;
    return 0;
}

static void on_change(void *ctx, struct mpi_process *process, enum mpi_change change)
{
    (void)ctx;
    assert_string_equal(mpi_process_job(process), job);
    came += change == MPI_CAME;
    started += change == MPI_STARTED;
}

static void start_agents(void)
{
    struct err err = {0};
    if (agents_new(&agents, monitor, dir, &err) < 0)
        fail_msg("%s", err.text);
    assert_non_null(monitor->mpi);
    mpi_on_change(monitor->mpi, on_change, NULL);
    assert_int_equal(agents_job_set(agents, job, NULL, NULL, &err), 0);
}

static int start(void **state)
{
    struct err err;
    (void)state;
    strcpy(dir, "/tmp/scry-mpi-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(job, sizeof job, "%s/job", dir);
    setenv("SCRY_CACHE_DIR", dir, 1);
    came = started = 0;
    if (mkdir(job, 0700) < 0 || loop_new(&loop) < 0 || monitor_new(&monitor, loop, register_nothing, &err) < 0)
        return -1;
    start_agents();
    return 0;
}

static int stop(void **state)
{
    char command[128];
    (void)state;
    agents_free(agents);
    agents = NULL;
    monitor_free(monitor);
    loop_free(loop);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static unsigned draining(unsigned *ret_living)
{
    struct agents_job_state job_state = {0};
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    if (ret_living)
        *ret_living = job_state.living;
    return job_state.draining;
}

/* The files that stand in the job directory now. */
static size_t read_all(struct mpi_stats_set *ret_set)
{
    struct err err = {.text = ""};
    *ret_set = (struct mpi_stats_set){0};
    int code = mpi_stats_read(ret_set, job, &err);
    if (code == -ENOENT)
        return 0;
    if (code != 0)
        fail_msg("%s", err.text);
    return ret_set->count;
}

static unsigned area_files(void)
{
    char command[128], text[32] = "";
    snprintf(command, sizeof command, "ls '%s/rings' | grep -c ^mpi-", dir);
    FILE *pipe = popen(command, "r");
    assert_non_null(fgets(text, sizeof text, pipe));
    pclose(pipe);
    return (unsigned)atoi(text);
}

static void check_counts(const struct mpi_stats *stats, uint64_t count)
{
    assert_int_equal(stats->rank, 1);
    assert_int_equal(stats->world_size, 2);
    assert_string_equal(stats->namespace, "some job");
    assert_int_equal(stats->row_count, 1);
    assert_int_equal(stats->rows[0].call, CALL_MPI_Recv);
    assert_int_equal(stats->rows[0].count, count);
    assert_int_equal(stats->rows[0].got_bytes, 100 * count);
    assert_int_equal(stats->thread_count, 1);
    const struct mpi_stats_clock *clock = &stats->threads[0].outermost;
    assert_int_equal(clock->compute_ns + clock->communicate_ns, clock->total_ns);
    assert_int_equal(clock->count, count);
}

/* ---- tests ---- */

static void test_life(void **state)
{
    struct child child = child_new();
    struct mpi_stats_set set;
    unsigned living;
    (void)state;
    tell(&child, 'r', 0);
    assert_int_equal(came, 0);
    assert_int_equal(area_files(), 0);
    tell(&child, 'c', 0);
    assert_int_equal(came, 1);
    assert_int_equal(started, 0);
    assert_int_equal(draining(&living), 0);
    assert_int_equal(living, 1);
    assert_int_equal(agents_count(agents), 1);

    uint64_t before = clock_now_ns();
    tell(&child, 'i', 0);
    step_until(started == 1);
    assert_true(clock_now_ns() - before < NS_PER_SECOND);
    tell(&child, 'n', 1000);
    assert_int_equal(read_all(&set), 0);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 1000);
    assert_false(set.ranks[0].running);
    assert_int_equal(set.ranks[0].state, MPIA_ENDED);
    assert_int_equal(set.ranks[0].pid, child.pid);
    struct err err = {.text = ""};
    assert_int_equal(mpi_stats_read_distributions(&set.ranks[0], job, set.arena, &err), 0);
    assert_int_equal(set.ranks[0].distribution_count, 6);
    mpi_stats_set_done(&set);
    assert_int_equal(area_files(), 0);
    assert_int_equal(agents_count(agents), 0);
}

static void test_killed_in_a_call(void **state)
{
    struct child child = child_new();
    struct mpi_stats_set set;
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 10);
    tell(&child, 'e', 0);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 10);
    assert_int_equal(set.ranks[0].state, MPIA_RUNNING);
    assert_int_equal(set.ranks[0].threads[0].now.call, CALL_MPI_Recv);
    assert_int_equal(set.ranks[0].threads[0].now.peer, 0);
    assert_int_equal(set.ranks[0].threads[0].now.site.offset, SITE - 0x400000);
    mpi_stats_set_done(&set);
}

static void test_never_initialised(void **state)
{
    struct child child = child_new();
    struct mpi_stats_set set;
    (void)state;
    tell(&child, 'c', 0);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    assert_int_equal(set.ranks[0].state, MPIA_LOADED);
    assert_int_equal(set.ranks[0].rank, 1); /* as its launcher said */
    assert_int_equal(set.ranks[0].row_count, 0);
    mpi_stats_set_done(&set);
}

static void test_live(void **state)
{
    struct child child = child_new();
    struct mpi_stats stats;
    struct arena arena = ARENA_INIT;
    struct err err = {.text = ""};
    struct mpi_stats_set set;
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 7);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    assert_non_null(process);
    assert_int_equal(mpi_process_take(process, &stats, &arena, &err), 0);
    check_counts(&stats, 7);
    assert_true(stats.running);
    assert_int_equal(mpi_process_flush(process, &err), 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 7);
    assert_true(set.ranks[0].running);
    mpi_stats_set_done(&set);

    tell(&child, 'n', 3);
    tell(&child, 'p', 0); /* the program asks */
    do {
        loop_step(loop, 1000000);
        assert_int_equal(read_all(&set), 1);
        stats = set.ranks[0];
        bool there = stats.rows[0].count == 10;
        mpi_stats_set_done(&set);
        if (there)
            break;
    } while (true);
    mpi_process_reset(process);
    tell(&child, 'z', 1);
    arena_done(&arena);
    child_end(&child, 0);
}

static void test_settings(void **state)
{
    struct child child = child_new();
    struct err err = {.text = ""};
    (void)state;
    assert_int_equal(agents_job_set(agents, job, "mpi-resolution", "64", &err), 0);
    tell(&child, 'c', 0);
    tell(&child, 'o', 6 << 1 | 1);
    assert_int_equal(agents_job_set(agents, job, "mpi", "off", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-resolution", "1", &err), 0);
    tell(&child, 'o', 0);
    assert_int_equal(agents_job_set(agents, job, "mpi", "stats", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-metrics", "clocks,peers", &err), 0);
    assert_int_equal(agents_job_set(agents, job, "mpi-distributions", "MPI_Recv,mpi_send", &err), 0);
    tell(&child, 'o', 1);
    tell(&child, 'd', MPIA_METRIC_CLOCKS | MPIA_METRIC_PEERS);

    static const char *const wrong[][2] = {{"mpi", "yes"},
                                           {"mpi-resolution", "3"},
                                           {"mpi-resolution", "128"},
                                           {"mpi-metrics", "clocks,nothing"},
                                           {"mpi-metrics", ""},
                                           {"mpi-distributions", "MPI_Nothing"},
                                           {"mpi-distributions", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(agents_job_set(agents, job, wrong[i][0], wrong[i][1], &err), -EINVAL);
        assert_non_null(strstr(err.text, wrong[i][0]));
    }
    struct buf text = BUF_INIT;
    assert_int_equal(agents_job_settings(agents, job, &text), 0);
    assert_non_null(strstr(text.data, "\"mpi\",\"stats\",\"mpi-metrics\",\"clocks,peers\",\"mpi-resolution\",\"1\","
                                      "\"mpi-distributions\",\"MPI_Recv,mpi_send\""));
    buf_done(&text);
    child_end(&child, SIGKILL);
}

static void test_restart(void **state)
{
    struct child lives = child_new(), dies = child_new();
    struct mpi_stats_set set;
    unsigned living;
    (void)state;
    tell(&lives, 'c', 0);
    tell(&lives, 'i', 0);
    tell(&dies, 'c', 0);
    tell(&dies, 'i', 0);
    tell(&dies, 'n', 5);
    agents_free(agents);
    assert_null(monitor->mpi);
    assert_int_equal(read_all(&set), 2); /* of both as far as they were */
    mpi_stats_set_done(&set);
    send_command(&lives, 'n', 20); /* while there is no monitor */
    kill(dies.pid, SIGKILL);
    waitpid(dies.pid, NULL, 0);
    start_agents();
    step_until(draining(&living) == 0);
    assert_int_equal(living, 1);
    assert_int_equal(read_all(&set), 2);
    mpi_stats_set_done(&set);
    char done;
    assert_int_equal(read(lives.fd, &done, 1), 1);
    child_end(&lives, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 2);
    for (size_t i = 0; i < 2; i++)
        check_counts(&set.ranks[i], set.ranks[i].pid == lives.pid ? 20 : 5);
    mpi_stats_set_done(&set);
    assert_int_equal(area_files(), 0);
    close(dies.fd);
}

static void test_exec(void **state)
{
    struct child child = child_new();
    struct mpi_stats_set set;
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 4);
    tell(&child, 'c', 0); /* another image of the process says hello */
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 4);
    assert_false(set.ranks[0].running);
    mpi_stats_set_done(&set);
    tell(&child, 'i', 0);
    tell(&child, 'n', 6);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 2);
    check_counts(&set.ranks[0], 4);
    check_counts(&set.ranks[1], 6);
    mpi_stats_set_done(&set);
}

/* It says hello as an agent, because it executed a program that has no MPI in it. */
static void test_exec_of_other_program(void **state)
{
    struct child child = child_new();
    struct mpi_stats_set set;
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 4);
    tell(&child, 'a', 0); /* the same program: a library with hooks was loaded */
    assert_non_null(mpi_process_find(monitor->mpi, child.pid));
    tell(&child, 'a', 1);
    step_until(!mpi_process_find(monitor->mpi, child.pid));
    step_until(draining(NULL) == 0);
    assert_int_equal(read_all(&set), 1);
    check_counts(&set.ranks[0], 4);
    assert_false(set.ranks[0].running);
    mpi_stats_set_done(&set);
    child_end(&child, SIGKILL);
}

/* As in a job whose limit is nearly reached: it runs on without statistics, and that is said. */
static void test_no_memory(void **state)
{
    struct child child = child_new();
    struct agents_job_state job_state = {0};
    (void)state;
    agents->memory_taken = UINT64_MAX / 2;
    tell(&child, 'm', 0);
    assert_int_equal(came, 0);
    assert_int_equal(area_files(), 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_non_null(strstr(job_state.problem, "limit of memory"));
    assert_int_equal(agents->memory_taken, UINT64_MAX / 2);
    child_end(&child, SIGKILL);
}

static void test_garbage(void **state)
{
    struct child child = child_new();
    struct mpi_stats stats;
    struct arena arena = ARENA_INIT;
    struct err err = {.text = ""};
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 100);
    tell(&child, 'g', 0);
    struct mpi_process *process = mpi_process_find(monitor->mpi, child.pid);
    assert_int_equal(mpi_process_take(process, &stats, &arena, &err), 0);
    arena_done(&arena);
    child_end(&child, SIGKILL);
    step_until(draining(NULL) == 0);
    struct mpi_stats_set set;
    assert_int_equal(read_all(&set), 1); /* what was written can be read */
    mpi_stats_set_done(&set);
}

static void test_no_room_on_disk(void **state)
{
    struct child child = child_new();
    struct agents_job_state job_state = {0};
    char path[256];
    (void)state;
    tell(&child, 'c', 0);
    tell(&child, 'i', 0);
    tell(&child, 'n', 100);
    snprintf(path, sizeof path, "%s/stats", job);
    int fd = open(path, O_CREAT | O_WRONLY, 0600); /* a file where the folder should be */
    assert_true(fd >= 0);
    close(fd);
    child_end(&child, 0);
    step_until(draining(NULL) == 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_non_null(strstr(job_state.problem, path));
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_life, start, stop),
        cmocka_unit_test_setup_teardown(test_killed_in_a_call, start, stop),
        cmocka_unit_test_setup_teardown(test_never_initialised, start, stop),
        cmocka_unit_test_setup_teardown(test_live, start, stop),
        cmocka_unit_test_setup_teardown(test_settings, start, stop),
        cmocka_unit_test_setup_teardown(test_restart, start, stop),
        cmocka_unit_test_setup_teardown(test_exec, start, stop),
        cmocka_unit_test_setup_teardown(test_exec_of_other_program, start, stop),
        cmocka_unit_test_setup_teardown(test_no_memory, start, stop),
        cmocka_unit_test_setup_teardown(test_garbage, start, stop),
        cmocka_unit_test_setup_teardown(test_no_room_on_disk, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
