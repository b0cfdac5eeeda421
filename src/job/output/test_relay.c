/* SPDX-License-Identifier: Apache-2.0 */
/* The relay is killed, the reader goes away, is slow, or shares its descriptors; what is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/output/keep.h"
#include "job/output/relay.h"
#include "jobdir/record/output.h"
#include "shm/waits.h"

enum { TARGETS = 2 };
static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/scry-relay-XXXXXX");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return mkdtemp(dir) ? 0 : -1;
}

/* No process is left. */
static int teardown(void **state)
{
    char command[128];
    (void)state;
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

/* A descriptor as scry run has it: not closed at an exec. */
static void inherited(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0);
}

/* For standard output alone. The end to read is returned. */
static int start(struct relay *relay)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    inherited(ends[1]);
    const int targets[TARGETS] = {ends[1], -1};
    assert_int_equal(relay_start(relay, targets, dir, 8 * (uint64_t)KEEP_SEGMENT), 0);
    assert_string_equal(relay->names[0], "stdout");
    assert_null(relay->names[1]);
    close(ends[1]);
    return ends[0];
}

static pid_t write_lines(struct relay *relay, int fd, unsigned lines)
{
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd, STDOUT_FILENO);
        close_range(STDERR_FILENO + 1, ~0U, 0);
        FILE *out = fdopen(STDOUT_FILENO, "w");
        for (unsigned i = 0; i < lines; i++)
            fprintf(out, "%015u\n", i);
        _exit(fclose(out) == 0 ? 0 : 1);
    }
    relay_given(relay);
    return pid;
}

/* A relay that can be killed, and is not `before`. */
static pid_t await_relay(const struct relay *relay, pid_t before)
{
    while (!relay->shared->relay || relay->shared->relay == before)
        wait_fd(-1, 0, 1);
    return relay->shared->relay;
}

/* Kills the relay again and again while lines are written to the i-th output: each is read once, and was copied once. */
static void kill_while_writing(struct relay *relay, size_t i, int reader, unsigned lines, unsigned kills)
{
    enum { LINE = 16 };
    static char bytes[64 << 10];
    pid_t writer = write_lines(relay, relay->outputs[i], lines), killed = 0;
    const struct relay_bytes *counts = &relay->shared->streams[i];
    unsigned line = 0, done = 0;
    size_t have = 0;
    ssize_t got;
    char expected[LINE + 1];
    int status;
    while (line < lines && (got = read(reader, bytes + have, sizeof bytes - have)) > 0) {
        size_t at = 0;
        have += (size_t)got;
        for (; at + LINE <= have; at += LINE, line++) {
            snprintf(expected, sizeof expected, "%015u\n", line);
            if (memcmp(bytes + at, expected, LINE) != 0)
                assert_memory_equal(bytes + at, expected, LINE);
        }
        memmove(bytes, bytes + at, have - at);
        have -= at;
        while (done < kills && line / (lines / kills) > done) {
            killed = await_relay(relay, killed);
            assert_int_equal(kill(killed, SIGKILL), 0);
            done++;
        }
    }
    assert_int_equal(line, lines);
    assert_int_equal(have, 0);
    assert_int_equal(done, kills);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    while (!relay->shared->over)
        wait_fd(-1, 0, 1);
    assert_int_equal(counts->copied + counts->missed, (uint64_t)lines * LINE);
    assert_int_equal(counts->lost, 0);
}

static void test_kills(void **state)
{
    struct relay relay;
    int reader = start(&relay);
    (void)state;
    kill_while_writing(&relay, 0, reader, 50 << 16, 200);
    close(reader);
    relay_done(&relay, true);
}

/* Where it would be easy to have read what is not written yet. */
static void test_kills_at_terminal(void **state)
{
    struct relay relay;
    struct termios modes;
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_int_equal(unlockpt(master), 0);
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    const int targets[TARGETS] = {-1, terminal};
    (void)state;
    assert_int_equal(tcgetattr(terminal, &modes), 0);
    cfmakeraw(&modes);
    assert_int_equal(tcsetattr(terminal, TCSANOW, &modes), 0);
    assert_int_equal(relay_start(&relay, targets, dir, 8 * (uint64_t)KEEP_SEGMENT), 0);
    close(terminal);
    kill_while_writing(&relay, 1, master, 1 << 16, 40);
    relay_done(&relay, true);
    close(master);
}

/* What is read until the end, and the writer's status. */
static size_t read_all(int fd, char *bytes, size_t size)
{
    size_t len = 0;
    for (ssize_t got; len < size && (got = read(fd, bytes + len, size - len)) > 0;)
        len += (size_t)got;
    close(fd);
    return len;
}

static void assert_kept(const char *stream, const char *bytes, size_t len)
{
    char path[160], kept[4096];
    snprintf(path, sizeof path, "%s/output/" OUTPUT_SEGMENT, dir, stream, (uint64_t)0);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(kept, 1, sizeof kept, file), len);
    assert_memory_equal(kept, bytes, len);
    fclose(file);
}

static void say(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

/* One pipe is one stream, whoever writes to it. */
static void test_order(void **state)
{
    int ends[2];
    struct relay relay;
    char bytes[100];
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    inherited(ends[1]);
    const int targets[TARGETS] = {ends[1], ends[1]};
    assert_int_equal(relay_start(&relay, targets, dir, KEEP_SEGMENT), 0);
    assert_string_equal(relay.names[1], "output");
    close(ends[1]);
    for (int i = 0; i < 3; i++) {
        say(relay.outputs[0], "out\n");
        say(relay.outputs[1], "error\n");
    }
    assert_true(relay_wait(&relay, -1));
    assert_kept("output", "out\nerror\nout\nerror\nout\nerror\n", 30);
    assert_null(relay_lack(&relay, 0, bytes, sizeof bytes));
    relay_done(&relay, true);
    assert_int_equal(read_all(ends[0], bytes, sizeof bytes), 30);
    assert_memory_equal(bytes, "out\nerror\nout\nerror\nout\nerror\n", 30);
}

/* The job learns that nobody reads, though relay and standby had the pipe, too; and others still have it. */
static void test_reader_goes(void **state)
{
    struct relay relay;
    int reader = start(&relay), status;
    pid_t writer;
    (void)state;
    await_relay(&relay, 0);
    writer = write_lines(&relay, relay.outputs[0], UINT32_MAX);
    char byte;
    assert_int_equal(read(reader, &byte, 1), 1);
    close(reader);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
    relay_done(&relay, true);
}

/* It waits in its pipes, not in memory; and flags that others share stay. */
static void test_slow_reader(void **state)
{
    enum { PIPE = 64 << 10 };
    struct relay relay;
    static char bytes[4 * PIPE];
    int ends[2];
    size_t put = 0;
    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    inherited(ends[1]);
    const int targets[TARGETS] = {-1, ends[1]};
    assert_int_equal(relay_start(&relay, targets, dir, KEEP_SEGMENT), 0);
    int job = relay.outputs[1];
    assert_int_equal(fcntl(job, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(job, F_SETFL, O_NONBLOCK), 0);
    for (ssize_t got; put < sizeof bytes && (got = write(job, bytes, 4096)) > 0;) {
        put += (size_t)got;
        wait_fd(job, POLLOUT, 50);
    }
    assert_in_range(put, PIPE, 3 * PIPE);
    assert_int_not_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, 0), 0);
    close(ends[1]);
    relay_done(&relay, true);
    assert_int_equal(read_all(ends[0], bytes, sizeof bytes), put);
}

/* Where nothing can be kept, or who does that dies again and again, all is passed on. */
static void test_not_kept(void **state)
{
    struct relay relay;
    char bytes[100];
    (void)state;
    rmdir(dir);
    int reader = start(&relay);
    say(relay.outputs[0], "one\n");
    while (!relay.shared->streams[0].error)
        wait_fd(-1, 0, 1);
    say(relay.outputs[0], "two\n");
    assert_true(relay_wait(&relay, -1));
    assert_string_equal(relay_lack(&relay, 0, bytes, sizeof bytes), strerror(ENOENT));
    relay_done(&relay, true);
    assert_int_equal(read_all(reader, bytes, sizeof bytes), 8);
    assert_memory_equal(bytes, "one\ntwo\n", 8);
    mkdir(dir, 0700);
}

static void test_socket(void **state)
{
    enum { LINES = 20000, LINE = 16 };
    static char bytes[LINES * LINE + 1];
    struct relay relay;
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    inherited(ends[1]);
    const int targets[TARGETS] = {ends[1], -1};
    assert_int_equal(relay_start(&relay, targets, dir, KEEP_SEGMENT), 0);
    close(ends[1]);
    pid_t writer = write_lines(&relay, relay.outputs[0], LINES);
    relay_done(&relay, true);
    assert_int_equal(read_all(ends[0], bytes, sizeof bytes), LINES * LINE);
    assert_int_equal(atoi(bytes + (LINES - 1) * LINE), LINES - 1);
    waitpid(writer, NULL, 0);
}

/* As on systems that do not have all calls. */
static bool forbid(unsigned call)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void test_without_splice(void **state)
{
    enum { LINES = 20000, LINE = 16 };
    static char bytes[LINES * LINE + 1];
    int status;
    pid_t pid = fork();
    (void)state;
    if (pid == 0) {
        struct relay relay;
        if (!forbid(SYS_splice))
            _exit(2);
        int reader = start(&relay);
        write_lines(&relay, relay.outputs[0], LINES);
        relay_done(&relay, true);
        bool whole = read_all(reader, bytes, sizeof bytes) == LINES * LINE;
        _exit(whole && atoi(bytes + (LINES - 1) * LINE) == LINES - 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Files are read where they are; a terminal is said; what was closed stays closed. */
static void test_refused(void **state)
{
    struct relay relay;
    int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), file = open(dir, O_RDWR | O_TMPFILE, 0600);
    (void)state;
    inherited(terminal);
    const int targets[TARGETS] = {terminal, file};
    assert_int_equal(relay_start(&relay, targets, dir, KEEP_SEGMENT), 0);
    assert_int_equal(relay.control, -1);
    assert_non_null(relay.reasons[0]);
    assert_null(relay.reasons[1]);
    assert_true(relay_wait(&relay, -1));
    close(terminal);
    close(file);
    relay_done(&relay, false);
}

/* What was written at once is read at once. */
static void test_messages_stay_apart(void **state)
{
    struct relay relay;
    int pipes[2], sockets[2];
    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC | O_DIRECT), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    inherited(pipes[1]);
    inherited(sockets[1]);
    const int targets[TARGETS] = {pipes[1], sockets[1]};
    assert_int_equal(relay_start(&relay, targets, dir, KEEP_SEGMENT), 0);
    assert_int_equal(relay.control, -1);
    for (size_t i = 0; i < TARGETS; i++) {
        assert_int_equal(relay.outputs[i], -1);
        assert_non_null(strstr(relay.reasons[i], "of messages"));
        close(pipes[i]);
        close(sockets[i]);
    }
    relay_done(&relay, false);
}

static pid_t child_named(pid_t parent, const char *name)
{
    char path[64], list[1024] = "", comm[32];
    size_t len = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    FILE *file = fopen(path, "r");
    len = file ? fread(list, 1, sizeof list - 1, file) : 0;
    list[len] = '\0';
    if (file)
        fclose(file);
    char *at = list, *end;
    for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) {
        proc_comm((pid_t)pid, 0, comm, sizeof comm);
        if (strcmp(comm, name) == 0)
            return (pid_t)pid;
    }
    return 0;
}

/* A disk that hangs costs the job two seconds in all; after that all is passed on, and what is not kept is counted. */
static void test_slow_disk(void **state)
{
    enum { LINES = 40000, LINE = 16 };
    static const char first[] = "a line of sixte\n";
    static char bytes[(LINES + 1) * LINE + 1];
    struct relay relay;
    int reader = start(&relay);
    pid_t keeper;
    (void)state;
    pid_t its = await_relay(&relay, 0);
    say(relay.outputs[0], first);
    while (relay.shared->streams[0].kept < strlen(first)) /* it has begun, and has nothing of the user's */
        wait_fd(-1, 0, 1);
    assert_true((keeper = child_named(its, KEEPER_PROCESS_NAME)) > 0);
    assert_int_equal(kill(keeper, SIGSTOP), 0);
    const uint64_t waited_ns = RELAY_COPY_MS * WAITS_NS_PER_MS;
    relay.shared->streams[0].waited_ns = waited_ns;
    pid_t writer = write_lines(&relay, relay.outputs[0], LINES);
    size_t got = read_all(reader, bytes, sizeof bytes);
    assert_int_equal(kill(keeper, SIGCONT), 0);
    assert_int_equal(got, (LINES + 1) * LINE);
    assert_int_equal(atoi(bytes + LINES * LINE), LINES - 1);
    assert_true(relay.shared->streams[0].missed > 0 && relay.shared->streams[0].waited_ns == waited_ns);
    assert_int_equal(relay.shared->streams[0].missed + relay.shared->streams[0].copied, (LINES + 1) * LINE);
    assert_non_null(strstr(relay_lack(&relay, 0, bytes, sizeof bytes), "came faster than the disk took them"));
    relay_done(&relay, true);
    waitpid(writer, NULL, 0);
}

static int poll_soon(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    return poll(fds, count, timeout_ms / 40);
}

/* A reader that reads when scry run has ended gets all then; that it takes nothing is seen. */
static void test_reader_waits_for_the_end(void **state)
{
    enum { LINES = 6000, LINE = 16 }; /* more than a pipe holds, and less than two */
    static char bytes[LINES * LINE + 1];
    struct relay relay;
    int reader = start(&relay), status;
    (void)state;
    pid_t writer = write_lines(&relay, relay.outputs[0], LINES);
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    struct wait_world soon = wait_world_real;
    soon.poll = poll_soon;
    wait_world = &soon;
    bool waited = relay_wait(&relay, -1);
    wait_world = &wait_world_real;
    assert_true(waited);
    assert_int_not_equal(relay.shared->passed, relay.shared->asked);
    relay_done(&relay, true);
    assert_int_equal(read_all(reader, bytes, sizeof bytes), LINES * LINE);
    assert_int_equal(atoi(bytes + (LINES - 1) * LINE), LINES - 1);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_kills, setup, teardown),
    cmocka_unit_test_setup_teardown(test_kills_at_terminal, setup, teardown),
    cmocka_unit_test_setup_teardown(test_order, setup, teardown),
    cmocka_unit_test_setup_teardown(test_reader_goes, setup, teardown),
    cmocka_unit_test_setup_teardown(test_slow_reader, setup, teardown),
    cmocka_unit_test_setup_teardown(test_not_kept, setup, teardown),
    cmocka_unit_test_setup_teardown(test_socket, setup, teardown),
    cmocka_unit_test_setup_teardown(test_without_splice, setup, teardown),
    cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
    cmocka_unit_test_setup_teardown(test_messages_stay_apart, setup, teardown),
    cmocka_unit_test_setup_teardown(test_slow_disk, setup, teardown),
    cmocka_unit_test_setup_teardown(test_reader_waits_for_the_end, setup, teardown),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
