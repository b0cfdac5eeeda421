/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that say more than can be done at once, beside one that does not. The loop is gone through step by step. */
#include "daemon/test_support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/frame.h"

enum { FLOODS = 5, REQUESTS = 200, TURN = 16 /* requests of a tool, at most */, STEPS = 1000 };

struct flooder {
    int fd;
    struct frame_reader reader;
    unsigned replies;
};

/* Takes what has come; true if there were replies. */
static bool take(struct flooder *tool)
{
    unsigned before = tool->replies;
    for (;;) {
        size_t room;
        char *to = frame_reader_room(&tool->reader, &room);
        assert_non_null(to);
        ssize_t got = recv(tool->fd, to, room, MSG_DONTWAIT);
        if (got <= 0)
            break;
        frame_reader_fed(&tool->reader, (size_t)got);
        struct frame frame;
        while (frame_reader_next(&tool->reader, &frame) == 1)
            tool->replies += frame.type == FRAME_REPLY;
    }
    return tool->replies > before;
}

static void say(struct flooder *tool, unsigned count)
{
    static const char request[] = "\0\0\0\0: print([1])";
    struct buf out = BUF_INIT;
    for (unsigned i = 0; i < count; i++)
        frame_append(&out, FRAME_REQUEST, 0, i + 1, span_of(request, sizeof request - 1), span_of("", 0));
    assert_false(out.failed);
    assert_int_equal(send(tool->fd, out.data, out.len, MSG_DONTWAIT), out.len);
    buf_done(&out);
}

static void join(struct flooder *tool)
{
    struct buf out = BUF_INIT;
    *tool = (struct flooder){.fd = here_connect()};
    assert_true(tool->fd >= 0);
    buf_put_u32(&out, WIRE_VERSION);
    buf_put_u32(&out, 0);
    struct span payload = span_of(out.data, out.len);
    struct buf frame = BUF_INIT;
    frame_append(&frame, FRAME_HELLO, 0, 0, payload, span_of("", 0));
    assert_int_equal(send(tool->fd, frame.data, frame.len, 0), frame.len);
    buf_done(&frame);
    buf_done(&out);
    say(tool, 1);
    for (unsigned step = 0; !take(tool); step++) {
        assert_true(step < STEPS);
        here_step();
    }
    tool->replies = 0;
}

static void leave(struct flooder *tool)
{
    close(tool->fd);
    frame_reader_done(&tool->reader);
}

/* A tool with one request has its answer when each of the others had one turn, and no more is read from them meanwhile.
 */
static void tools_have_turns(void **state)
{
    struct flooder floods[FLOODS], polite;
    for (size_t i = 0; i < FLOODS; i++)
        join(&floods[i]);
    join(&polite);
    for (size_t i = 0; i < FLOODS; i++)
        say(&floods[i], REQUESTS);
    here_step();
    say(&polite, 1);
    here_step();
    assert_true(take(&polite));
    unsigned steps = 0, all = 0;
    for (size_t i = 0; i < FLOODS; i++) {
        take(&floods[i]);
        assert_in_range(floods[i].replies, 1, 2 * TURN);
    }
    for (; all < FLOODS * REQUESTS; steps++) {
        assert_true(steps < FLOODS * REQUESTS);
        here_step();
        all = 0;
        for (size_t i = 0; i < FLOODS; i++) {
            take(&floods[i]);
            all += floods[i].replies;
        }
    }
    say(&floods[0], 1); /* and they are heard again */
    for (steps = 0; !take(&floods[0]); steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
    for (size_t i = 0; i < FLOODS; i++)
        leave(&floods[i]);
    leave(&polite);
}

/* A tool that says much and goes at once is gone when it has been gone through. */
static void one_that_goes_meanwhile_is_gone(void **state)
{
    struct flooder tool;
    join(&tool);
    assert_int_equal(server_connections(here.server), 1);
    say(&tool, REQUESTS);
    here_step();
    leave(&tool);
    for (unsigned steps = 0; server_connections(here.server); steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
}

/* A process with as many connections as one may have: the next one is refused with a reason, and others are served. */
static void one_with_too_many_keeps_nobody_out(void **state)
{
    enum { FILES = 400, SHARE = FILES / 4 };
    struct rlimit before, few;
    struct flooder tools[SHARE], other = {0};
    getrlimit(RLIMIT_NOFILE, &before);
    few = (struct rlimit){FILES, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (size_t i = 0; i < SHARE; i++)
        join(&tools[i]);
    struct flooder refused = {.fd = here_connect()};
    here_step();
    char said[200] = "";
    assert_true(recv(refused.fd, said, sizeof said - 1, MSG_DONTWAIT) > 0);
    assert_non_null(memmem(said, sizeof said, "as many as one may have", 23));
    assert_int_equal(recv(refused.fd, said, sizeof said, MSG_DONTWAIT), 0);
    leave(&refused);
    assert_int_equal(server_connections(here.server), SHARE);
    /* who connects counts: a child that hands its descriptor to us */
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = here_connect();
        char byte = 0;
        _exit(fd < 0 || send(fd, &byte, 0, 0) < 0 || write(pair[1], &byte, 1) != 1 || read(pair[1], &byte, 1) != 1);
    }
    char byte;
    assert_int_equal(read(pair[0], &byte, 1), 1);
    here_step();
    assert_int_equal(server_connections(here.server), SHARE + 1);
    assert_int_equal(write(pair[0], &byte, 1), 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(pair[0]);
    close(pair[1]);
    leave(&tools[0]); /* and who closes one may have another */
    for (unsigned steps = 0; server_connections(here.server) > SHARE - 1; steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
    join(&other);
    leave(&other);
    for (size_t i = 1; i < SHARE; i++)
        leave(&tools[i]);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* What the monitor says, up to the end or to `until`. */
static uint8_t hear(struct flooder *tool, uint8_t until)
{
    struct frame frame = {0};
    for (unsigned step = 0; step < STEPS; step++) {
        size_t room;
        here_step();
        char *to = frame_reader_room(&tool->reader, &room);
        ssize_t got = recv(tool->fd, to, room, MSG_DONTWAIT);
        if (got > 0)
            frame_reader_fed(&tool->reader, (size_t)got);
        while (frame_reader_next(&tool->reader, &frame) == 1)
            if (frame.type == until || frame.type == FRAME_GOODBYE)
                return frame.type;
    }
    return 0;
}

static void put(struct buf *out, uint8_t type, const char *payload, size_t len)
{
    frame_append(out, type, 0, 1, span_of(payload, len), span_of("", 0));
}

static void open_with(struct flooder *tool, struct buf *out)
{
    *tool = (struct flooder){.fd = here_connect()};
    assert_true(tool->fd >= 0);
    assert_int_equal(send(tool->fd, out->data, out->len, 0), out->len);
    buf_clear(out);
}

/* A connection that is confined stays it, whatever it says, and does not end the monitor. */
static void one_that_is_confined_stays_it(void **state)
{
    static const char hello[] = "\1\0\0\0\0\0\0", observe[] = "\1\0\0\0/tmp/jobs/abc\0laptop\0"
                                                              "01ab";
    static const char all[] = "\7\0\0\0/tmp/jobs/abc\0laptop\0"
                              "01ab",
                      other[] = "\1\0\0\0/tmp/jobs/x\0laptop\0"
                                "01ab";
    static const char *const wrong[] = {"", "\1\0\0\0", "\1\0\0\0/a", "\1\0\0\0/a\0b"};
    static const size_t wrong_len[] = {0, 4, 7, 9};
    struct buf out = BUF_INIT;
    struct flooder tool;
    put(&out, FRAME_CONFINE, observe, sizeof observe);
    put(&out, FRAME_CONFINE, all, sizeof all); /* gives nothing back */
    put(&out, FRAME_HELLO, hello, sizeof hello);
    open_with(&tool, &out);
    assert_int_equal(hear(&tool, FRAME_WELCOME), FRAME_WELCOME);
    static const char request[] = "\0\0\0\0: proc_send_signal([], 0)";
    put(&out, FRAME_REQUEST, request, sizeof request - 1);
    assert_int_equal(send(tool.fd, out.data, out.len, 0), out.len);
    buf_clear(&out);
    assert_int_equal(hear(&tool, FRAME_REPLY), FRAME_REPLY);
    assert_non_null(memmem(tool.reader.bytes.data, tool.reader.bytes.len, "may observe only", 16));
    put(&out, FRAME_CONFINE, all, sizeof all); /* too late */
    assert_int_equal(send(tool.fd, out.data, out.len, 0), out.len);
    buf_clear(&out);
    assert_int_equal(hear(&tool, FRAME_GOODBYE), FRAME_GOODBYE);
    leave(&tool);
    put(&out, FRAME_CONFINE, observe, sizeof observe);
    put(&out, FRAME_CONFINE, other, sizeof other);
    open_with(&tool, &out);
    assert_int_equal(hear(&tool, FRAME_GOODBYE), FRAME_GOODBYE);
    leave(&tool);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put(&out, FRAME_CONFINE, wrong[i], wrong_len[i]);
        put(&out, FRAME_HELLO, hello, sizeof hello);
        open_with(&tool, &out);
        assert_int_equal(hear(&tool, FRAME_WELCOME), FRAME_GOODBYE);
        leave(&tool);
    }
    put(&out, FRAME_CONFINE, observe, sizeof observe);
    put(&out, FRAME_HELLO, hello, sizeof hello);
    put(&out, FRAME_FINALIZE, "\1\0\0\0", 4); /* and stop the monitor */
    open_with(&tool, &out);
    assert_int_equal(hear(&tool, FRAME_GOODBYE), FRAME_GOODBYE);
    leave(&tool);
    here.stop_asked = false;
    for (unsigned steps = 0; server_connections(here.server); steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
    assert_false(here.stop_asked);
    buf_done(&out);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, here_setup, here_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(tools_have_turns),
        EACH(one_that_goes_meanwhile_is_gone),
        EACH(one_with_too_many_keeps_nobody_out),
        EACH(one_that_is_confined_stays_it),
    };
    return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
