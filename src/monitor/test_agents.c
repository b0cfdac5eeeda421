/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's side of tracing with an agent that is only a few lines: a child process that speaks the protocol of
 * shm/area.h, does what it is told through a pipe, and makes packets whose content is known.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <x86intrin.h>

#include "base/clock.h"
#include "base/dirs.h"
#include "monitor/agents.h"
#include "monitor/monitor.h"
#include "shm/record.h"

enum { PATIENCE_S = 30, FUNCTIONS = 3 };

static char dir[64], job[128];
static struct loop *loop;
static struct monitor *monitor;
static struct agents *agents;
static unsigned came, went;

/* ---- the agent ---- */

struct fake {
    struct area_view view;
    struct doorbell *bell;
    struct area_thread *thread;
    uint32_t slots[FUNCTIONS];
    uint32_t packet;
    uint64_t seq, last;
    uint32_t depth;
    uint64_t discarded;
};

__attribute__((noinline)) static int function_a(int n)
{
    return n + 1;
}
__attribute__((noinline)) static int function_b(int n)
{
    return n + 2;
}
__attribute__((noinline)) static int function_c(int n)
{
    return n + 3;
}

static void fill_hello(struct agent_hello *hello, uint32_t flags)
{
    memset(hello, 0, sizeof *hello);
    hello->magic = AREA_MAGIC;
    hello->version = AREA_VERSION;
    hello->size = sizeof *hello;
    hello->pid = getpid();
    hello->flags = flags;
    hello->room = UINT64_MAX;
    strcpy(hello->job, job);
    ssize_t len = readlink("/proc/self/exe", hello->exe, sizeof hello->exe - 1);
    hello->exe[len > 0 ? len : 0] = 0;
}

static int dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/agent.sock", dir);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

/* The answer; its descriptors, or -1. */
static bool hear(int fd, struct agent_welcome *ret_welcome, int ret_fds[3])
{
    struct iovec part = {ret_welcome, sizeof *ret_welcome};
    char control[CMSG_SPACE(3 * sizeof(int))];
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ret_fds[0] = ret_fds[1] = ret_fds[2] = -1;
    if (recvmsg(fd, &message, 0) != sizeof *ret_welcome)
        return false;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    if (head)
        memcpy(ret_fds, CMSG_DATA(head), 3 * sizeof(int));
    return true;
}

static bool fake_connect(struct fake *fake)
{
    static struct agent_hello hello;
    struct agent_welcome welcome;
    int fds[3], fd = dial();
    struct stat st;
    fill_hello(&hello, AGENT_HAS_HOOKS);
    if (fd < 0 || send(fd, &hello, sizeof hello, 0) != sizeof hello || !hear(fd, &welcome, fds) || welcome.status)
        return false;
    close(fd);
    fstat(fds[0], &st);
    void *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    void *bell = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    if (base == MAP_FAILED || bell == MAP_FAILED || !area_take(&fake->view, base, (uint64_t)st.st_size))
        return false;
    fake->bell = bell;
    while (!atomic_load(&fake->view.area->go))
        syscall(SYS_futex, &fake->view.area->go, FUTEX_WAIT, 0, NULL, NULL, 0);
    uint64_t functions[FUNCTIONS] = {(uintptr_t)function_a, (uintptr_t)function_b, (uintptr_t)function_c};
    for (unsigned i = 0; i < FUNCTIONS; i++)
        fake->slots[i] = (uint32_t)(area_slot_find(&fake->view, functions[i], true) - fake->view.slots);
    fake->thread = area_thread_at(&fake->view, 0);
    fake->thread->tid = (uint32_t)getpid();
    fake->thread->serial = 1;
    fake->packet = UINT32_MAX;
    atomic_store(&fake->thread->packet, UINT32_MAX);
    atomic_store(&fake->thread->state, AREA_THREAD_LIVE);
    return true;
}

static struct packet_head *fake_head(const struct fake *fake)
{
    return (struct packet_head *)(void *)(fake->view.base + fake->view.packets_at +
                                          (uint64_t)fake->packet * fake->view.packet_size);
}

static void fake_close(struct fake *fake)
{
    if (fake->packet == UINT32_MAX)
        return;
    struct packet_head *head = fake_head(fake);
    head->content_size = 8 * (atomic_load(&fake->thread->cursor) - (uint64_t)((uint8_t *)head - fake->view.base));
    head->time_end = fake->last;
    head->events_discarded = fake->discarded;
    uint64_t order = atomic_fetch_add(&fake->view.area->packet_order, 1);
    atomic_store(&fake->thread->packet, UINT32_MAX);
    atomic_store(&fake->view.states[fake->packet], order << 8 | AREA_PACKET_FULL);
    fake->packet = UINT32_MAX;
    area_ring(fake->bell);
}

static bool fake_open(struct fake *fake, uint64_t time)
{
    for (uint32_t i = 0; i < fake->view.packet_count; i++) {
        uint64_t word = AREA_PACKET_FREE;
        if (!atomic_compare_exchange_strong(&fake->view.states[i], &word, AREA_PACKET_TAKEN))
            continue;
        fake->packet = i;
        *fake_head(fake) = (struct packet_head){.magic = PACKET_MAGIC,
                                                .time_begin = time,
                                                .packet_seq = fake->seq++,
                                                .tid = fake->thread->tid,
                                                .depth = fake->depth,
                                                .thread_serial = 1};
        atomic_store(&fake->thread->cursor,
                     (uint64_t)((uint8_t *)fake_head(fake) - fake->view.base) + sizeof(struct packet_head));
        atomic_store(&fake->thread->packet, i);
        fake->last = time;
        return true;
    }
    return false;
}

static void fake_record(struct fake *fake, uint32_t id, const void *payload, size_t size)
{
    uint64_t time = __rdtsc();
    if (fake->packet != UINT32_MAX) {
        uint64_t used = atomic_load(&fake->thread->cursor) - (uint64_t)((uint8_t *)fake_head(fake) - fake->view.base);
        if (used + RECORD_EXTENDED_HEAD + size > fake->view.packet_size)
            fake_close(fake);
    }
    if (fake->packet == UINT32_MAX && !fake_open(fake, time)) {
        atomic_store(&fake->thread->discarded, ++fake->discarded);
        return;
    }
    uint8_t *at = fake->view.base + atomic_load(&fake->thread->cursor);
    size_t head = RECORD_HEAD;
    uint32_t word = (uint32_t)(time << 5) | id;
    if ((time - fake->last) >> RECORD_TIME_BITS) {
        word |= RECORD_EXTENDED;
        memcpy(at + 4, &id, 4);
        memcpy(at + 8, &time, 8);
        head = RECORD_EXTENDED_HEAD;
    }
    memcpy(at, &word, 4);
    memcpy(at + head, payload, size);
    fake->last = time;
    atomic_fetch_add(&fake->thread->cursor, head + size);
}

static void fake_enter(struct fake *fake, unsigned function)
{
    fake_record(fake, RECORD_ENTRY, &fake->slots[function], 4);
    fake->depth++;
}

static void fake_leave(struct fake *fake)
{
    fake_record(fake, RECORD_EXIT, "", 0);
    fake->depth--;
}

/* A letter and a number a command; a letter back when it is done. */
static void fake_main(int fd)
{
    struct fake fake = {.packet = UINT32_MAX};
    struct {
        char letter;
        uint32_t number;
    } command;
    static struct agent_hello hello;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(fd, &command, sizeof command) == sizeof command) {
        char done = command.letter;
        switch (command.letter) {
        case 'c':
            done = fake_connect(&fake) ? 'c' : '!';
            break;
        case 'e':
            fake_enter(&fake, command.number);
            break;
        case 'x':
            fake_leave(&fake);
            break;
        case 'n': /* calls */
            for (uint32_t i = 0; i < command.number; i++) {
                fake_enter(&fake, i % FUNCTIONS);
                fake_leave(&fake);
            }
            break;
        case 'f':
            fake_close(&fake);
            break;
        case 'g': /* garbage over everything the monitor reads */
            for (uint64_t i = fake.view.packets_at; i < fake.view.packets_at + 16 * fake.view.packet_size; i++)
                if (i % fake.view.packet_size >= 4)
                    fake.view.base[i] = (uint8_t)(i * 2654435761u >> 13);
            for (uint32_t i = 0; i < 16; i++)
                atomic_store(&fake.view.states[i], (uint64_t)i << 8 | AREA_PACKET_FULL);
            memset(&fake.thread->cursor, 0xee, sizeof fake.thread->cursor);
            area_ring(fake.bell);
            break;
        case 'h': /* no hooks */
            fill_hello(&hello, 0);
            int other = dial();
            done = send(other, &hello, sizeof hello, 0) == sizeof hello ? 'h' : '!';
            close(other);
            break;
        case 'q':
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

static void step_until_readable(int fd)
{
    uint64_t end = clock_now_ns() + (uint64_t)PATIENCE_S * NS_PER_SECOND;
    char byte;
    while (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) {
        assert_true(clock_now_ns() < end);
        loop_step(loop, 1000000);
    }
}

static void tell(const struct child *child, char letter, uint32_t number)
{
    struct {
        char letter;
        uint32_t number;
    } command = {letter, number};
    char done;
    assert_int_equal(write(child->fd, &command, sizeof command), sizeof command);
    step_until_readable(child->fd);
    assert_int_equal(read(child->fd, &done, 1), 1);
    assert_int_equal(done, letter);
}

static void child_end(struct child *child, int signo)
{
    if (signo) {
        kill(child->pid, signo);
    } else {
        struct {
            char letter;
            uint32_t number;
        } command = {'q', 0};
        assert_int_equal(write(child->fd, &command, sizeof command), sizeof command);
    }
    waitpid(child->pid, NULL, 0);
    close(child->fd);
}

#define step_until(condition) \
    do { \
        uint64_t end_ = clock_now_ns() + (uint64_t)PATIENCE_S * NS_PER_SECOND; \
        while (!(condition)) { \
            assert_true(clock_now_ns() < end_); \
            loop_step(loop, 1000000); \
        } \
    } while (0)

/* ---- the monitor ---- */

static int register_nothing(struct monitor *unused)
{
    (void)unused;
    return 0;
}

static void on_change(void *ctx, struct agent *agent, bool comes)
{
    (void)ctx;
    (void)agent;
    came += comes;
    went += !comes;
}

static void start_agents(void)
{
    struct err err = {0};
    if (agents_new(&agents, monitor, dir, &err) < 0)
        fail_msg("%s", err.text);
    agents_on_change(agents, on_change, NULL);
    assert_int_equal(agents_job_set(agents, job, NULL, NULL, &err), 0);
}

static int start(void **state)
{
    struct err err;
    (void)state;
    strcpy(dir, "/tmp/scry-agents-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(job, sizeof job, "%s/job", dir);
    setenv("SCRY_CACHE_DIR", dir, 1);
    came = went = 0;
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

/* What babeltrace2 says of all traces of the job. */
static char *babeltrace(void)
{
    char command[256];
    struct buf text = BUF_INIT;
    char block[65536];
    snprintf(command, sizeof command, "babeltrace2 '%s/trace' 2>&1", job);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    for (size_t got; (got = fread(block, 1, sizeof block, pipe)) > 0;)
        buf_append(&text, block, got);
    int status = pclose(pipe);
    buf_putc(&text, 0);
    if (status)
        print_message("%.2000s\n", text.data);
    assert_int_equal(status, 0);
    return buf_take(&text);
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0, len = strlen(what);
    const char *end = text + strlen(text);
    for (; (text = memmem(text, (size_t)(end - text), what, len)); text += len)
        count++;
    return count;
}

static char *process_file(pid_t pid, unsigned incarnation)
{
    char path[256], *text;
    char command[512], found[256] = "";
    snprintf(command, sizeof command, "ls -d '%s'/trace/*/%d-%u", job, pid, incarnation);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(found, sizeof found, pipe));
    pclose(pipe);
    found[strcspn(found, "\n")] = 0;
    assert_true(snprintf(path, sizeof path, "%.200s/.process", found) < (int)sizeof path);
    assert_int_equal(file_read(path, &text, NULL), 0);
    return text;
}

static size_t rings(void)
{
    char command[256], line[32];
    snprintf(command, sizeof command, "ls '%s/rings' | grep -c '^[0-9]'", dir);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(line, sizeof line, pipe));
    pclose(pipe);
    return (size_t)atoi(line);
}

static void test_whole_life(void **state)
{
    enum { CALLS = 100000 };
    (void)state;
    struct child child = child_new();
    tell(&child, 'c', 0);
    assert_int_equal(came, 1);
    assert_int_equal(rings(), 2); /* the area and whose it is */
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    assert_string_equal(agent_job(agent), job);
    for (unsigned i = 0; i < 10; i++) { /* more than the first buffer holds: the monitor has to keep up */
        tell(&child, 'n', CALLS / 10);
        agent_collect(agent);
    }
    struct profile_row *rows;
    size_t count;
    agent_collect(agent);
    assert_int_equal(profile_rows(agent_profile(agent), 0, &rows, &count), 0);
    assert_int_equal(count, FUNCTIONS);
    assert_int_equal(rows[0].calls + rows[1].calls + rows[2].calls, CALLS);
    free(rows);
    tell(&child, 'n', 1); /* not collected before its end */
    child_end(&child, SIGKILL);
    step_until(agents_count(agents) == 0);
    assert_int_equal(went, 1);
    assert_int_equal(rings(), 0);
    char *text = babeltrace(), *process = process_file(child.pid, 0);
    assert_int_equal(occurrences(text, " entry: "), CALLS + 1);
    assert_int_equal(occurrences(text, " exit: ") + occurrences(text, " exit_of: "), CALLS + 1);
    assert_int_equal(occurrences(text, "discarded"), 0);
    assert_non_null(strstr(process, "state\texited\n"));
    assert_non_null(strstr(process, "events\t200002\n"));
    assert_non_null(strstr(process, "discarded\t0\n"));
    assert_null(strstr(process, "problem\t"));
    free(text);
    free(process);
}

/* A thread that is slow is brought in by pieces: each can be read alone. */
static void test_pieces(void **state)
{
    (void)state;
    struct child child = child_new();
    tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    tell(&child, 'e', 0);
    tell(&child, 'e', 1);
    agent_collect(agent);
    agent_collect(agent);
    tell(&child, 'x', 0);
    agent_collect(agent);
    tell(&child, 'e', 2);
    tell(&child, 'x', 0);
    tell(&child, 'x', 0);
    tell(&child, 'f', 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    assert_int_equal(occurrences(text, " entry: "), 3);
    assert_int_equal(occurrences(text, " exit: "), 1);    /* of the third function */
    assert_int_equal(occurrences(text, " exit_of: "), 2); /* entered in earlier pieces */
    free(text);
}

static void test_discarded(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "buffer", "1M", &err), 0);
    struct child child = child_new();
    tell(&child, 'c', 0);
    struct {
        char letter;
        uint32_t number;
    } command = {'n', 400000}; /* nobody collects meanwhile */
    char done;
    assert_int_equal(write(child.fd, &command, sizeof command), sizeof command);
    assert_int_equal(read(child.fd, &done, 1), 1);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    struct agents_job_state job_state;
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_true(job_state.discarded > 0);
    assert_int_equal(job_state.events + job_state.discarded, 800000);
    char *text = babeltrace(), *discarded = strstr(text, "discarded ");
    assert_non_null(discarded);
    assert_int_equal(strtoull(discarded + strlen("discarded "), NULL, 10), job_state.discarded);
    free(text);
}

static void test_refused(void **state)
{
    (void)state;
    static struct agent_hello hello;
    struct agent_welcome welcome;
    int fds[3];
    static const struct {
        size_t size, offset;
        uint32_t word;
        bool answered;
    } bad[] = {
        {4, 0, AREA_MAGIC, true},
        {sizeof hello, 0, 1, true},
        {sizeof hello, 4, AREA_VERSION + 1, true},
        {sizeof hello, 8, 7, true},
        {sizeof hello - 1, 0, AREA_MAGIC, true},
        {sizeof hello, offsetof(struct agent_hello, job), 0x61616161, true},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fill_hello(&hello, AGENT_HAS_HOOKS);
        memcpy((char *)&hello + bad[i].offset, &bad[i].word, 4);
        int fd = dial();
        assert_true(fd >= 0);
        assert_int_equal(send(fd, &hello, bad[i].size, 0), bad[i].size);
        step_until_readable(fd);
        assert_true(hear(fd, &welcome, fds));
        assert_true(welcome.status < 0);
        assert_true(*welcome.reason);
        assert_int_equal(fds[0], -1);
        close(fd);
    }
    assert_int_equal(agents_count(agents), 0);
    assert_int_equal(rings(), 0);
}

static void test_no_hooks(void **state)
{
    (void)state;
    struct err err;
    struct agents_job_state job_state;
    assert_int_equal(agents_job_set(agents, job, "trace", "fn:*", &err), 0);
    struct child child = child_new();
    tell(&child, 'h', 0);
    step_until(agents_job_state(agents, job, &job_state) == 0 && *job_state.problem);
    assert_non_null(strstr(job_state.problem, "-finstrument-functions"));
    assert_int_equal(agents_count(agents), 0);
    child_end(&child, 0);
}

/* A program that writes over the area loses its trace, nothing else. */
static void test_garbage(void **state)
{
    (void)state;
    struct child child = child_new();
    tell(&child, 'c', 0);
    tell(&child, 'n', 10);
    struct agent *agent = agents_find(agents, child.pid);
    agent_collect(agent);
    tell(&child, 'g', 0);
    agent_collect(agent);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    assert_true(occurrences(text, " entry: ") >= 10);
    free(text);
}

/* A monitor that is started again goes on where the other was. When it brings a packet in is its own affair: an exit
 * whose entry is in a piece before names it, the others do not; each call ends once. */
static void test_restart(void **state)
{
    (void)state;
    struct child child = child_new();
    tell(&child, 'c', 0);
    tell(&child, 'e', 0);
    tell(&child, 'n', 7);
    agents_free(agents);
    char *process = process_file(child.pid, 0);
    assert_non_null(strstr(process, "state\trunning\n"));
    free(process);
    start_agents();
    struct agent *agent = agents_find(agents, child.pid);
    assert_non_null(agent);
    tell(&child, 'n', 5);
    tell(&child, 'e', 1);
    agent_collect(agent); /* a piece that ends between an entry and its exit */
    tell(&child, 'x', 0);
    tell(&child, 'x', 0);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    size_t named = occurrences(text, " exit_of: ");
    assert_int_equal(occurrences(text, " entry: "), 14);
    assert_int_equal(occurrences(text, " exit: ") + named, 14);
    assert_true(named >= 2); /* those two surely; of the others as many as a piece happened to end in */
    assert_int_equal(occurrences(text, "discarded"), 0);
    free(text);
    process = process_file(child.pid, 0);
    assert_non_null(strstr(process, "state\tcontinued\n"));
    free(process);
    process = process_file(child.pid, 1);
    assert_non_null(strstr(process, "state\texited\n"));
    free(process);
    assert_int_equal(rings(), 0);
}

/* One that died while nobody looked is collected, too. */
static void test_restart_after_death(void **state)
{
    (void)state;
    struct child child = child_new();
    tell(&child, 'c', 0);
    agents_free(agents);
    struct {
        char letter;
        uint32_t number;
    } command = {'n', 11};
    char done;
    assert_int_equal(write(child.fd, &command, sizeof command), sizeof command);
    assert_int_equal(read(child.fd, &done, 1), 1);
    child_end(&child, 0);
    start_agents();
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    assert_int_equal(occurrences(text, " entry: "), 11);
    free(text);
    assert_int_equal(rings(), 0);
}

static void test_limit(void **state)
{
    (void)state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "max-size", "256K", &err), 0);
    struct child child = child_new();
    tell(&child, 'c', 0);
    struct agent *agent = agents_find(agents, child.pid);
    for (unsigned i = 0; i < 10; i++)
        tell(&child, 'n', 5000);
    agent_collect(agent);
    assert_int_equal(atomic_load(&agent_view(agent)->area->policy), AREA_FLIGHT);
    struct agents_job_state job_state;
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_non_null(strstr(job_state.problem, "--max-size"));
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
}

static void add_shown(void *ctx, const char *key, const char *value)
{
    buf_printf(ctx, "%s=%s ", key, value);
}

static void test_settings(void **state)
{
    (void)state;
    struct trace_settings settings;
    struct err err;
    assert_int_equal(trace_settings_init(&settings), 0);
    assert_int_equal(trace_settings_set(&settings, "min-time", "1.5ms", &err), 0);
    assert_int_equal(settings.min_ns, 1500000);
    assert_int_equal(trace_settings_set(&settings, "min-time", "5", &err), -EINVAL);
    assert_int_equal(trace_settings_set(&settings, "buffer", "2M", &err), 0);
    assert_int_equal(settings.buffer_bytes, 2 << 20);
    assert_int_equal(trace_settings_set(&settings, "buffer", "2", &err), -EINVAL);
    assert_non_null(strstr(err.text, "1M"));
    assert_int_equal(trace_settings_set(&settings, "depth", "17", &err), -EINVAL);
    assert_int_equal(trace_settings_set(&settings, "overflow", "flight", &err), 0);
    assert_int_equal(settings.policy, AREA_FLIGHT);
    assert_int_equal(trace_settings_set(&settings, "read-by", "victim", &err), 0);
    assert_int_equal(settings.reader, AREA_READ_VICTIM);
    assert_int_equal(trace_settings_set(&settings, "on", "no", &err), 0);
    assert_false(settings.on);
    assert_int_equal(trace_settings_set(&settings, "trace", "off", &err), 0);
    assert_true(settings.off);
    assert_int_equal(trace_settings_set(&settings, "trace", "fn:solve*", &err), 0);
    assert_false(settings.off);
    assert_string_equal(settings.selection, "fn:solve*");
    struct buf shown = BUF_INIT;
    trace_settings_each(&settings, add_shown, &shown);
    assert_non_null(strstr(shown.data, "trace=fn:solve* "));
    assert_non_null(strstr(shown.data, "min-time=1500us "));
    assert_non_null(strstr(shown.data, "buffer=2M "));
    buf_done(&shown);
    assert_int_equal(trace_settings_set(&settings, "sample", "1", &err), -ENOENT);
    trace_settings_done(&settings);
    struct buf text = BUF_INIT;
    assert_int_equal(agents_job_settings(agents, job, &text), 0);
    assert_non_null(strstr(text.data, "\"overflow\",\"drop\""));
    buf_done(&text);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        ROW(test_whole_life), ROW(test_pieces),  ROW(test_discarded),           ROW(test_refused), ROW(test_no_hooks),
        ROW(test_garbage),    ROW(test_restart), ROW(test_restart_after_death), ROW(test_limit),   ROW(test_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
