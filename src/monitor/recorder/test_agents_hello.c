/* SPDX-License-Identifier: Apache-2.0 */
/* What the monitor hears of agents: hellos that are refused or malformed, and commands. With an agent that is only a few
 * lines (test_fake_agent.h). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/recorder/agent.h"
#include "monitor/recorder/test_area_fixture.h"
#include "monitor/recorder/test_fake_agent.h"
#include "shm/area.h"

static int start(void **state)
{
    (void)state;
    return fixture_start(NULL);
}

/* Texts of a hello, one after the other; its size is what it says. */
static size_t hello_texts(struct agent_hello *hello, const char *texts, size_t length)
{
    memcpy(hello->texts, texts, length);
    return hello->size = (uint32_t)(AGENT_HELLO_HEAD + length);
}

/* Makes a hello wrong in the way with this number; returns its size, 0: there are no more. */
static size_t hello_spoil(struct agent_hello *hello, unsigned how)
{
    static char texts[2 * AREA_PATH];
    size_t size = hello->size;
    memset(texts, 'x', sizeof texts);
    texts[0] = '/';
    switch (how) {
    case 0:
        return sizeof hello->magic;
    case 1:
        hello->magic++;
        return size;
    case 2:
        hello->version++;
        return size;
    case 3: /* not of the size that came */
        hello->size--;
        return size;
    case 4:
        return size - 1;
    case 5: /* no texts, one, one that does not end, a third */
        return hello->size = AGENT_HELLO_HEAD;
    case 6:
        return hello_texts(hello, "/job", 5);
    case 7:
        return hello_texts(hello, "/job\0/exe", 9);
    case 8:
        return hello_texts(hello, "/job\0/exe\0", 11);
    case 9:
        return hello_texts(hello, "job\0/exe", 9);
    case 10:
        return hello_texts(hello, "/j\nb\0/exe", 10);
    case 11:
        return hello_texts(hello, "/job\0/e\ne", 10);
    case 12: /* one that is too long */
        texts[AREA_PATH] = texts[AREA_PATH + 5] = 0;
        return hello_texts(hello, texts, AREA_PATH + 6);
    case 13:
        texts[5] = texts[6 + AREA_PATH] = 0;
        return hello_texts(hello, texts, 7 + AREA_PATH);
    case 14:
        return hello_texts(hello, texts, sizeof texts);
    }
    return 0;
}

static void test_refused(void **state)
{
    (void)state;
    static struct agent_hello hello;
    struct agent_welcome welcome;
    int fds[3];
    for (unsigned how = 0;; how++) {
        hello_fill(&hello, AGENT_HAS_HOOKS, NULL);
        size_t size = hello_spoil(&hello, how);
        if (!size)
            break;
        int fd = hello_dial();
        assert_true(fd >= 0);
        assert_int_equal(send(fd, &hello, size, 0), size);
        step_until_readable(fd);
        assert_true(hello_hear(fd, &welcome, sizeof welcome, fds, 3));
        assert_true(welcome.status < 0);
        assert_true(*welcome.reason);
        assert_int_equal(fds[0], -1);
        close(fd);
    }
    assert_int_equal(agents_count(agents), 0);
    assert_int_equal(fixture_rings("[0-9]"), 0);
}

/* The longest texts that there can be. */
static void test_long_texts(void **state)
{
    (void)state;
    static struct agent_hello hello;
    static char exe[AREA_PATH];
    struct agents_job_state job_state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "trace", "fn:*", &err), 0);
    memset(exe, 'y', sizeof exe - 1);
    memcpy(exe, "/opt/", 5);
    size_t size = hello_fill(&hello, 0, exe);
    assert_int_equal(size, AGENT_HELLO_HEAD + strlen(job) + 1 + AREA_PATH);
    int fd = hello_dial();
    assert_int_equal(send(fd, &hello, size, 0), size);
    step_until(agents_job_state(agents, job, &job_state) == 0 && job_state.problem_count);
    assert_int_equal(job_state.problems[0].kind, NOTE_no_hooks);
    assert_non_null(strstr(job_state.problems[0].no_hooks.programs, "yyy"));
    close(fd);
}

/* Such a path would be two lines of the trace. */
static void test_newline(void **state)
{
    (void)state;
    static struct agent_hello hello;
    struct agents_job_state job_state;
    struct err err;
    assert_int_equal(agents_job_set(agents, job, "trace", "fn:*", &err), 0);
    size_t size = hello_fill(&hello, AGENT_HAS_HOOKS, "/bin/a\nb");
    int fd = hello_dial();
    assert_int_equal(send(fd, &hello, size, 0), size);
    step_until(agents_job_state(agents, job, &job_state) == 0 && job_state.note_count);
    assert_int_equal(job_state.notes[0].kind, NOTE_refused);
    assert_non_null(strstr(job_state.notes[0].refused.reason, "newline"));
    assert_int_equal(agents_count(agents), 0);
    close(fd);
}

static void test_no_hooks(void **state)
{
    (void)state;
    struct err err;
    struct agents_job_state job_state;
    assert_int_equal(agents_job_set(agents, job, "trace", "fn:*", &err), 0);
    struct child child = child_new(fake_agent);
    child_tell(&child, 'h', 0);
    step_until(agents_job_state(agents, job, &job_state) == 0 && job_state.problem_count);
    assert_int_equal(job_state.problems[0].kind, NOTE_no_hooks);
    assert_int_equal(agents_count(agents), 0);
    child_end(&child, 0);
}

/* It says why it takes no area, goes on and is gone: that it has ended may be known before anybody listens to it. */
static void test_ends_at_once(void **state)
{
    (void)state;
    struct agents_job_state job_state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    child_send(&child, 'l', 0);
    child_heard(&child, 'l');
    child_end(&child, 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_int_equal(job_state.living, 0);
    assert_int_equal(job_state.problems[0].kind, NOTE_untraced_files);
    assert_int_equal(job_state.note_count, 0);
    step_until(agents_count(agents) == 0);
}

static void ask_in_vain(void)
{
    static struct agent_hello hello;
    int fd = hello_dial();
    size_t size = hello_fill(&hello, AGENT_HAS_HOOKS, NULL);
    assert_int_equal(send(fd, &hello, size, 0), size);
    step_until_readable(fd);
    close(fd);
}

/* A process that is refused asks again when it opens libraries: it is one process. */
static void test_refused_again(void **state)
{
    (void)state;
    struct agents_job_state job_state;
    struct rlimit before, little = {.rlim_cur = 8192};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0); /* no room for areas */
    for (unsigned i = 0; i < 5; i++)
        ask_in_vain();
    struct child child = child_new(fake_agent);
    child_send(&child, 'c', 0);
    step_until_readable(child.fd);
    child_heard(&child, '!');
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(agents_job_state(agents, job, &job_state), 0);
    assert_int_equal(job_state.note_count, 1);
    assert_int_equal(job_state.notes[0].kind, NOTE_refused);
    assert_int_equal(job_state.notes[0].refused.processes, 2);
    assert_non_null(strstr(job_state.notes[0].refused.reason, "no room for the trace buffer"));
    child_end(&child, 0);
}

/* A program that writes over the area loses its trace, nothing else. */
static void test_garbage(void **state)
{
    (void)state;
    struct child child = child_new(fake_agent);
    child_tell(&child, 'c', 0);
    child_tell(&child, 'n', 10);
    struct agent *agent = agents_find(agents, child.pid);
    agent_collect(agent);
    child_tell(&child, 'g', 0);
    agent_collect(agent);
    child_end(&child, 0);
    step_until(agents_count(agents) == 0);
    char *text = babeltrace();
    assert_true(occurrences(text, " entry: ") >= 10);
    free(text);
}

static unsigned said;
static struct {
    pid_t pid;
    bool whole;
    char directory[64], args[64];
} last_said;

static void on_command(struct monitor *its_monitor, const struct agent_command *command)
{
    (void)its_monitor;
    said++;
    last_said.pid = command->pid;
    last_said.whole = command->whole;
    snprintf(last_said.directory, sizeof last_said.directory, "%.*s", SPAN_ARG(command->directory));
    assert_true(command->args.len < sizeof last_said.args);
    memcpy(last_said.args, command->args.ptr, command->args.len);
}

static size_t note_make(char *to, pid_t pid, const char *texts, size_t size)
{
    const struct command_note note = {.magic = COMMAND_MAGIC,
                                      .size = (uint16_t)(sizeof note + size),
                                      .pid = pid,
                                      .directory = (uint32_t)strlen(texts) + 1};
    memcpy(to, &note, sizeof note);
    memcpy(to + sizeof note, texts, size);
    return note.size;
}

/* What processes say of their commands is handed on, also in pieces; what is none is dropped, and harms nothing that
 * comes later. */
static void test_commands(void **state)
{
    static const char texts[] = "/tmp\0prog\0an argument";
    char path[128], bytes[256];
    (void)state;
    said = 0;
    monitor->on_command = on_command;
    snprintf(path, sizeof path, "%s/" COMMAND_FIFO, dir);
    int fd = open(path, O_WRONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    size_t size = note_make(bytes, 7, texts, sizeof texts);
    assert_int_equal(write(fd, bytes, 10), 10);
    agent_commands_read(agents);
    assert_int_equal(said, 0);
    assert_int_equal(write(fd, bytes + 10, size - 10), size - 10);
    step_until(said == 1);
    assert_int_equal(last_said.pid, 7);
    assert_true(last_said.whole);
    assert_string_equal(last_said.directory, "/tmp");
    assert_string_equal(last_said.args, "prog");
    assert_string_equal(last_said.args + sizeof "prog", "an argument");
    static const char wrong[] = "no command of a process, but some text";
    assert_int_equal(write(fd, wrong, sizeof wrong), sizeof wrong);
    agent_commands_read(agents);
    size = note_make(bytes, 8, "unended", sizeof "unended" - 1);
    assert_int_equal(write(fd, bytes, size), size);
    agent_commands_read(agents);
    assert_int_equal(said, 1);
    for (unsigned i = 0; i < 1000; i++) { /* longer than a reading */
        size = note_make(bytes, (pid_t)i, texts, sizeof texts);
        assert_int_equal(write(fd, bytes, size), size);
    }
    agent_commands_read(agents);
    assert_int_equal(said, 1001);
    close(fd);
    /* it is made anew with all else */
    struct err err = {0};
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/agent.sock", dir);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/" COMMAND_FIFO, dir);
    assert_int_equal(agents_again(agents, false, &err), 0);
    fd = open(path, O_WRONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    step_until(said == 1002);
    close(fd);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, start, fixture_stop)
    const struct CMUnitTest tests[] = {
        ROW(test_refused),      ROW(test_long_texts),    ROW(test_newline), ROW(test_no_hooks),
        ROW(test_ends_at_once), ROW(test_refused_again), ROW(test_garbage), ROW(test_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
