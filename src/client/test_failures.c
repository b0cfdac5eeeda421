/* SPDX-License-Identifier: Apache-2.0 */
/* libomis without a monitor, with one that goes away, and with one that talks nonsense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/data/err.h"
#include "client/client.h"
#include "client/test_monitor.h"
#include "wire/stream.h"

static int error_count;
static Omis_status error_status;
static char error_text[512];

static void take_error(Omis_reply reply)
{
    error_count++;
    error_status = reply[0]->status;
    snprintf(error_text, sizeof error_text, "%s", reply[0]->result);
    assert_null(reply[1]);
    omis_reply_free(reply);
}

static int callback_count;

static void take_lost(Omis_reply reply, void *param)
{
    callback_count++;
    assert_int_equal(reply[0]->status, OMIS_INTERNAL_ERROR);
    assert_null(reply[1]);
    assert_non_null(strstr(reply[0]->result, param));
    omis_reply_free(reply);
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    return poll(&event, 1, timeout_ms) == 1;
}

static Omis_reply ask(const char *text)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    return omis_request(copy, NULL, NULL, 0);
}

static void expect_failure(Omis_reply reply, Omis_status status, const char *text)
{
    assert_non_null(reply);
    assert_int_equal(reply[0]->status, status);
    assert_string_equal(reply[0]->obj_list, "");
    if (!strstr(reply[0]->result, text))
        fail_msg("\"%s\" does not say \"%s\"", reply[0]->result, text);
    assert_null(reply[0][1].obj_list);
    assert_null(reply[1]);
    omis_reply_free(reply);
}

static Omis_status init(const char *option)
{
    char program[] = "tool", copy[160];
    snprintf(copy, sizeof copy, "%s", option);
    char *arguments[] = {program, copy, NULL}, **argv = arguments;
    int argc = 2;
    error_count = 0;
    error_text[0] = 0;
    return omis_init(&argc, &argv, take_error, NULL);
}

/* ---- one that says nothing ---- */

/* A process that listens and says nothing; stopped, or asleep. */
static pid_t start_silent(const char *path, bool stopped)
{
    int ready[2], status;
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err;
        bool listens = local_listen(path, &err) >= 0;
        if (write(ready[1], "x", listens) == 1 && stopped)
            raise(SIGSTOP);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    if (stopped)
        assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    return pid;
}

static void check_silent(bool stopped, const char *state, const char *remedy, unsigned least_ms)
{
    char dir[] = "/tmp/scry-silent-XXXXXX", path[64], option[96], said[256];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/monitor.sock", dir);
    snprintf(option, sizeof option, "--omis-connect=unix:%s", path);
    pid_t pid = start_silent(path, stopped);
    client_set_timeout(500);
    uint64_t began = clock_now_ns();
    assert_true(init(option) >= OMIS_FIRST_ERROR);
    assert_true(clock_now_ns() - began >= least_ms * UINT64_C(1000000));
    assert_true(client_timed_out());
    assert_string_equal(client_error(), error_text);
    snprintf(said, sizeof said, "the monitor (pid %d) %s", (int)pid, state);
    assert_memory_equal(error_text, said, strlen(said));
    snprintf(said, sizeof said, "`kill -%s %d`", remedy, (int)pid);
    assert_non_null(strstr(error_text, said));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    unlink(path);
    rmdir(dir);
    /* who is not there is another matter */
    assert_true(init(option) >= OMIS_FIRST_ERROR);
    assert_false(client_timed_out());
    client_set_timeout(10000);
}

static void test_stopped(void **state)
{
    check_silent(true, "was stopped: ", "CONT", 200);
}

static void test_silent(void **state)
{
    check_silent(false, "does not answer: it has said nothing for ", "KILL", 500);
}

/* ---- without a monitor ---- */

static void test_before_init(void **state)
{
    expect_failure(ask(": version()"), OMIS_INTERNAL_ERROR, "omis_init was not called");
    assert_int_equal(omis_fd(), -1);
    omis_handler();
    assert_int_equal(omis_finalize(), OMIS_INTERNAL_ERROR);
    omis_reply_free(NULL);
}

static void part_options(struct test_monitor *monitor)
{
    struct frame frame = part_read(monitor, FRAME_FINALIZE);
    uint32_t stop;
    CHECK(frame.payload.len == sizeof stop);
    memcpy(&stop, frame.payload.ptr, sizeof stop);
    CHECK(le32toh(stop) == 1);
    part_frame(monitor, FRAME_GOODBYE, 0, 0, span_of("", 0));
}

static void test_options(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_options);
    char program[] = "tool", first[] = "-v", connect[160], file[] = "file", stop[] = "--omis-stop-at-finalize",
         end[] = "--", own[] = "--omis-connect=mine";
    snprintf(connect, sizeof connect, "--omis-connect=unix:%s", test_monitor_path(monitor));
    char *arguments[] = {program, first, connect, file, stop, end, own, NULL}, **argv = arguments;
    int argc = 7;
    assert_int_equal(omis_init(&argc, &argv, NULL, NULL), OMIS_OK);
    assert_int_equal(argc, 5);
    assert_ptr_equal(argv[0], program);
    assert_ptr_equal(argv[1], first);
    assert_ptr_equal(argv[2], file);
    assert_ptr_equal(argv[3], end);
    assert_ptr_equal(argv[4], own);
    assert_null(argv[5]);
    assert_int_equal(omis_init(NULL, NULL, NULL, NULL), OMIS_INTERNAL_ERROR);
    assert_non_null(strstr(client_error(), "twice"));
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

static void part_environment(struct test_monitor *monitor)
{
    part_finalize(monitor);
}

static void test_environment(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_environment);
    char url[160];
    snprintf(url, sizeof url, "unix:%s", test_monitor_path(monitor));
    setenv("SCRY_CONNECT", url, 1);
    assert_int_equal(omis_init(NULL, NULL, NULL, NULL), OMIS_OK);
    assert_string_equal(client_error(), "");
    unsetenv("SCRY_CONNECT");
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

static void test_wrong_options(void **state)
{
    assert_int_equal(init("--omis-conect=unix:/x"), OMIS_PARAMETER_ERROR);
    assert_int_equal(error_count, 1);
    assert_int_equal(error_status, OMIS_PARAMETER_ERROR);
    assert_non_null(strstr(error_text, "--omis-conect=unix:/x"));
    assert_int_equal(init("--omis-connect=tcp:host:1"), OMIS_PARAMETER_ERROR);
    assert_non_null(strstr(error_text, "unix:PATH"));
    assert_int_equal(init("--omis-connect=unix:"), OMIS_PARAMETER_ERROR);
    assert_int_equal(init("--omis-connect=unix:/nonexistent/socket"), OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, "/nonexistent/socket"));
    assert_string_equal(client_error(), error_text);
    expect_failure(ask(": version()"), OMIS_INTERNAL_ERROR, "omis_init was not called");
}

/* ---- a monitor that is to be started ---- */

static void write_program(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_failing_start(void **state)
{
    char dir[] = "/tmp/scry-test-start-XXXXXX", program[64], lock[64];
    assert_non_null(mkdtemp(dir));
    snprintf(program, sizeof program, "%s/scry-monitor", dir);
    snprintf(lock, sizeof lock, "%s/starter.lock", dir);
    setenv("SCRY_RUNTIME_DIR", dir, 1);
    setenv("SCRY_LIBEXEC", dir, 1);
    assert_int_equal(init("--omis-no-start"), OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, "no monitor runs at"));
    assert_true(client_found_none());
    assert_int_not_equal(access(lock, F_OK), 0);

    write_program(program, "#!/bin/sh\necho \"scry-monitor: no luck with $1\" >&2\nexit 3\n");
    assert_int_equal(init("--omis-start"), OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, "no luck with --daemon"));
    write_program(program, "#!/bin/sh\nkill -9 $$\n");
    assert_int_equal(init("--omis-start"), OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, "signal 9"));
    /* says that it is ready but is not; what it leaves open does not hold us up */
    write_program(program, "#!/bin/sh\nsleep 1 &\nexit 0\n");
    assert_int_equal(init("--omis-start"), OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, dir));
    /* no standard streams of our own: the child's message must still find its way */
    write_program(program, "#!/bin/sh\necho alone >&2\nexit 1\n");
    int saved[3];
    for (int fd = 0; fd < 3; fd++) {
        saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
        close(fd);
    }
    Omis_status status = init("--omis-start");
    for (int fd = 0; fd < 3; fd++)
        if (saved[fd] >= 0) {
            dup2(saved[fd], fd);
            close(saved[fd]);
        }
    assert_int_equal(status, OMIS_OS_ERROR);
    assert_non_null(strstr(error_text, "alone"));

    unsetenv("SCRY_RUNTIME_DIR");
    unsetenv("SCRY_LIBEXEC");
    unlink(program);
    unlink(lock);
    rmdir(dir);
}

/* ---- monitors that refuse ---- */

static void part_refuse(struct test_monitor *monitor)
{
    part_frame(monitor, FRAME_GOODBYE, 0, 0, span_str("too many tools"));
    part_read_end(monitor);
}

static void part_other_version(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_HELLO);
    uint32_t answer[2] = {htole32(WIRE_VERSION + 1), htole32(5)};
    part_frame(monitor, FRAME_WELCOME, 0, 0, span_of((char *)answer, sizeof answer));
    part_read_end(monitor);
}

static void part_short_welcome(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_HELLO);
    part_frame(monitor, FRAME_WELCOME, 0, 0, span_of("\1\0\0", 3));
    part_read_end(monitor);
}

static void part_http(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_HELLO);
    part_send(monitor, span_str("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
}

static void part_silent_close(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_HELLO);
}

static void expect_refusal(part_fn *part, Omis_status status, const char *text)
{
    error_count = 0;
    struct test_monitor *monitor = test_monitor_start_rude(part);
    assert_int_equal(test_monitor_connect(monitor, take_error, NULL), status);
    assert_int_equal(error_count, 1);
    if (!strstr(error_text, text))
        fail_msg("\"%s\" does not say \"%s\"", error_text, text);
    assert_int_equal(omis_fd(), -1);
    test_monitor_stop(monitor);
}

static void test_refusals(void **state)
{
    expect_refusal(part_refuse, OMIS_INTERNAL_ERROR, "too many tools");
    expect_refusal(part_other_version, OMIS_INTERNAL_ERROR, "protocol 2");
    expect_refusal(part_short_welcome, OMIS_INTERNAL_ERROR, "no monitor of scry");
    expect_refusal(part_http, OMIS_INTERNAL_ERROR, "");
    expect_refusal(part_silent_close, OMIS_OS_ERROR, "closed the connection");
}

/* ---- monitors that go away ---- */

static void part_die(struct test_monitor *monitor)
{
    part_request(monitor, "event() : act()", NULL);
    uint32_t id = part_request(monitor, "other() : act()", NULL);
    part_reply(monitor, FRAME_REPLY, 0, id, RESULTS({0, "", OMIS_CSR_DEFINED, "c_1_1"}, {1, "", OMIS_OK, NULL}));
    part_request(monitor, ": version()", NULL);
}

static void test_lost_connection(void **state)
{
    error_count = callback_count = 0;
    char text[] = "event() : act()", other[] = "other() : act()", version[] = ": version()", lost[] = "was lost";
    struct test_monitor *monitor = test_monitor_start(part_die);
    assert_int_equal(test_monitor_connect(monitor, take_error, NULL), OMIS_OK);
    int fd = omis_fd();
    assert_null(omis_request(text, take_lost, lost, 0));
    omis_reply_free(omis_request(other, take_lost, lost, OMIS_WAIT_FOR_FIRST_REPLY));
    assert_true(client_connected());
    expect_failure(ask(version), OMIS_INTERNAL_ERROR, "the monitor's connection was lost");
    assert_false(client_connected());
    assert_int_equal(callback_count + error_count, 0);
    assert_true(readable(fd, 0));
    omis_handler();
    /* the request without an answer gets one; the one that was defined is the error handler's */
    assert_int_equal(callback_count, 1);
    assert_int_equal(error_count, 1);
    assert_int_equal(error_status, OMIS_INTERNAL_ERROR);
    assert_false(readable(fd, 0));
    assert_int_equal(omis_fd(), fd);
    expect_failure(ask(version), OMIS_INTERNAL_ERROR, "was lost");
    assert_null(omis_request(version, take_lost, lost, 0));
    assert_true(readable(fd, 0));
    omis_handler();
    assert_int_equal(callback_count, 2);
    assert_int_equal(error_count, 1);
    assert_int_equal(omis_finalize(), OMIS_INTERNAL_ERROR);
    test_monitor_stop(monitor);
}

/* Seen by omis_handler alone, as in a tool that sits in select. */
static void part_goodbye(struct test_monitor *monitor)
{
    part_request(monitor, ": act()", NULL);
    part_frame(monitor, FRAME_GOODBYE, 0, 0, span_str("shutting down"));
    part_read_end(monitor);
}

static void test_goodbye(void **state)
{
    error_count = callback_count = 0;
    char text[] = ": act()", down[] = "shutting down";
    struct test_monitor *monitor = test_monitor_start(part_goodbye);
    assert_int_equal(test_monitor_connect(monitor, take_error, NULL), OMIS_OK);
    assert_null(omis_request(text, take_lost, down, 0));
    while (error_count == 0) {
        assert_true(readable(omis_fd(), 10000));
        omis_handler();
    }
    assert_int_equal(callback_count, 1);
    assert_non_null(strstr(error_text, down));
    assert_false(readable(omis_fd(), 0));
    omis_finalize();
    test_monitor_stop(monitor);
}

/* A monitor that closes while this tool writes megabytes: no SIGPIPE, no hang. */
static void part_close_early(struct test_monitor *monitor)
{
    test_monitor_meet(monitor);
}

static void test_closed_while_writing(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_close_early);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    test_monitor_meet(monitor);
    enum { SIZE = 8 << 20 };
    char *text = malloc(SIZE + 1);
    memset(text, 'x', SIZE);
    text[SIZE] = 0;
    expect_failure(omis_request(text, NULL, NULL, 0), OMIS_INTERNAL_ERROR, "was lost");
    expect_failure(omis_request(text, NULL, NULL, 0), OMIS_INTERNAL_ERROR, "was lost");
    free(text);
    omis_finalize();
    test_monitor_stop(monitor);
}

static void part_no_goodbye(struct test_monitor *monitor)
{
    part_read(monitor, FRAME_FINALIZE);
}

static void test_closed_at_finalize(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_no_goodbye);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    assert_int_equal(omis_finalize(), OMIS_INTERNAL_ERROR);
    test_monitor_stop(monitor);
}

/* ---- monitors that talk nonsense ---- */

static void part_bad_reply(struct test_monitor *monitor)
{
    part_frame(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, NULL, NULL), span_str("\377\377\377\377abc"));
    part_frame(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, NULL, NULL), span_of("\0\0\0\0", 4));
    part_frame(monitor, FRAME_HELLO, 0, 0, span_str("a frame that is not for tools"));
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, NULL, NULL), OK_REPLY("1"));
    part_finalize(monitor);
}

static void test_bad_reply(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_bad_reply);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    expect_failure(ask(": a()"), OMIS_INTERNAL_ERROR, "cannot be understood");
    expect_failure(ask(": no_element_0()"), OMIS_INTERNAL_ERROR, "cannot be understood");
    Omis_reply reply = ask(": b()");
    assert_string_equal(reply[1]->result, "1");
    omis_reply_free(reply);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

static void part_garbage(struct test_monitor *monitor)
{
    part_request(monitor, NULL, NULL);
    char bytes[4096];
    unsigned seed = 12345;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(rand_r(&seed) | 1);
    part_send(monitor, span_of(bytes, sizeof bytes));
}

static void test_garbage(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_garbage);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    expect_failure(ask(": a()"), OMIS_INTERNAL_ERROR, "was lost");
    omis_finalize();
    test_monitor_stop(monitor);
}

/* A frame one byte at a time, then two in one piece. */
static void part_split(struct test_monitor *monitor)
{
    struct buf out = BUF_INIT;
    static const char ok[] = "\1\0\0\0"
                             "\1\0\0\0"
                             "\0\0\0\0"
                             "\0\0\0\0"
                             "\2\0\0\0ab";
    uint32_t id = part_request(monitor, NULL, NULL);
    frame_append(&out, FRAME_REPLY, FRAME_LAST, id, span_of(ok, 7), span_of(ok + 7, sizeof ok - 1 - 7));
    for (size_t i = 0; i < out.len; i++)
        part_send(monitor, span_of(out.data + i, 1));
    id = part_request(monitor, NULL, NULL);
    uint32_t second = part_request(monitor, NULL, NULL);
    buf_clear(&out);
    frame_append(&out, FRAME_REPLY, FRAME_LAST, id, span_of(ok, sizeof ok - 1), span_of("", 0));
    frame_append(&out, FRAME_REPLY, FRAME_LAST, second, span_of(ok, sizeof ok - 1), span_of("", 0));
    part_send(monitor, span_of(out.data, out.len));
    buf_done(&out);
    part_finalize(monitor);
}

static void take_ab(Omis_reply reply, void *param)
{
    callback_count++;
    assert_string_equal(reply[0]->result, "ab");
    omis_reply_free(reply);
}

static void test_split_frames(void **state)
{
    callback_count = 0;
    char text[] = ": b()";
    struct test_monitor *monitor = test_monitor_start(part_split);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    Omis_reply reply = ask(": a()");
    assert_string_equal(reply[0]->result, "ab");
    omis_reply_free(reply);
    assert_null(omis_request(text, take_ab, NULL, 0));
    reply = ask(": c()");
    assert_string_equal(reply[0]->result, "ab");
    omis_reply_free(reply);
    omis_handler();
    assert_int_equal(callback_count, 1);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

/* Longer than the limit: that request fails, the connection goes on. */
static void part_oversized(struct test_monitor *monitor)
{
    uint32_t id = part_request(monitor, NULL, NULL);
    uint32_t size = FRAME_PAYLOAD_LIMIT + 5, le_size = htole32(size), le_id = htole32(id);
    char header[FRAME_HEADER_SIZE] = {0};
    memcpy(header, &le_size, 4);
    header[4] = FRAME_REPLY;
    header[5] = FRAME_LAST;
    memcpy(header + 8, &le_id, 4);
    part_send(monitor, span_of(header, sizeof header));
    char *zeros = calloc(1, 1 << 20);
    CHECK(zeros);
    for (size_t left = size; left;) {
        size_t part = left < 1 << 20 ? left : 1 << 20;
        part_send(monitor, span_of(zeros, part));
        left -= part;
    }
    free(zeros);
    part_reply(monitor, FRAME_REPLY, FRAME_LAST, part_request(monitor, NULL, NULL), OK_REPLY("1"));
    part_finalize(monitor);
}

static void test_oversized_reply(void **state)
{
    struct test_monitor *monitor = test_monitor_start(part_oversized);
    assert_int_equal(test_monitor_connect(monitor, NULL, NULL), OMIS_OK);
    expect_failure(ask(": a()"), OMIS_INTERNAL_ERROR, "longer than");
    Omis_reply reply = ask(": b()");
    assert_string_equal(reply[1]->result, "1");
    omis_reply_free(reply);
    char *text = malloc(FRAME_PAYLOAD_LIMIT);
    memset(text, 'x', FRAME_PAYLOAD_LIMIT);
    expect_failure(client_request(span_of(text, FRAME_PAYLOAD_LIMIT), NULL, NULL, 0), OMIS_PARAMETER_ERROR, "limit");
    free(text);
    assert_int_equal(omis_finalize(), OMIS_OK);
    test_monitor_stop(monitor);
}

int main(void)
{
    alarm(60); /* whoever waits for ever shall not keep the build waiting */
    unsetenv("SCRY_CONNECT");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_silent),
        cmocka_unit_test_teardown(test_before_init, test_monitor_teardown),
        cmocka_unit_test_teardown(test_options, test_monitor_teardown),
        cmocka_unit_test_teardown(test_environment, test_monitor_teardown),
        cmocka_unit_test_teardown(test_wrong_options, test_monitor_teardown),
        cmocka_unit_test_teardown(test_failing_start, test_monitor_teardown),
        cmocka_unit_test_teardown(test_refusals, test_monitor_teardown),
        cmocka_unit_test_teardown(test_lost_connection, test_monitor_teardown),
        cmocka_unit_test_teardown(test_goodbye, test_monitor_teardown),
        cmocka_unit_test_teardown(test_closed_while_writing, test_monitor_teardown),
        cmocka_unit_test_teardown(test_closed_at_finalize, test_monitor_teardown),
        cmocka_unit_test_teardown(test_bad_reply, test_monitor_teardown),
        cmocka_unit_test_teardown(test_garbage, test_monitor_teardown),
        cmocka_unit_test_teardown(test_split_frames, test_monitor_teardown),
        cmocka_unit_test_teardown(test_oversized_reply, test_monitor_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
