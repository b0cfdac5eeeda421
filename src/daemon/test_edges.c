/* SPDX-License-Identifier: Apache-2.0 */
/* Edges, with the other monitor played by hand: what it may say, and what it must not. The loop is gone through step by step. */
#include "daemon/test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lang/reply.h"
#include "wire/frame.h"

enum { STEPS = 2000, ROUNDS = 3000 };

struct end {
    int fd;
    struct frame_reader reader;
    struct frame last;
    bool over;
};

static void open_end(struct end *end)
{
    *end = (struct end){.fd = here_connect()};
    assert_true(end->fd >= 0);
}

static void close_end(struct end *end)
{
    close(end->fd);
    frame_reader_done(&end->reader);
}

static void say(struct end *end, uint16_t via, uint8_t type, uint8_t flags, uint32_t id, const void *bytes, size_t len)
{
    struct buf out = BUF_INIT;
    frame_append_via(&out, via, type, flags, id, span_of(bytes, len), span_of("", 0));
    assert_false(out.failed);
    send(end->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    buf_done(&out);
}

static void say_text(struct end *end, uint16_t via, uint32_t id, const char *request)
{
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, 0);
    buf_puts(&payload, request);
    say(end, via, FRAME_REQUEST, 0, id, payload.data, payload.len);
    buf_done(&payload);
}

static void say_hello(struct end *end, uint16_t via, uint8_t flags, uint32_t id)
{
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, WIRE_VERSION);
    buf_put_u32(&payload, id);
    say(end, via, FRAME_HELLO, flags, 0, payload.data, payload.len);
    buf_done(&payload);
}

static void say_peer(struct end *end, uint32_t version, const char *instance)
{
    struct buf payload = BUF_INIT;
    buf_put_u32(&payload, version);
    buf_append(&payload, instance, 16);
    buf_append(&payload, "9.9\0other", 10);
    say(end, 0, FRAME_PEER, 0, 0, payload.data, payload.len);
    buf_done(&payload);
}

static void say_node(struct end *end, uint32_t number, const char *instance)
{
    char payload[16 + 6];
    memcpy(payload, instance, 16);
    memcpy(payload + 16, "third", 6);
    say(end, 0, FRAME_NODE, 0, number, payload, sizeof payload);
}

/* The next frame of a type, in end->last; others are passed over. false: the other side has closed before. */
static bool hear(struct end *end, uint8_t type)
{
    for (unsigned steps = 0; steps < STEPS; steps++) {
        while (frame_reader_next(&end->reader, &end->last) == 1)
            if (end->last.type == type)
                return true;
        size_t room;
        char *to = frame_reader_room(&end->reader, &room);
        ssize_t got = recv(end->fd, to, room, MSG_DONTWAIT);
        if (got == 0)
            return false;
        if (got > 0)
            frame_reader_fed(&end->reader, (size_t)got);
        here_step();
    }
    fail_msg("no frame of type %d", type);
    return false;
}

static bool has(const struct end *end, const char *text)
{
    return memmem(end->last.payload.ptr, end->last.payload.len, text, strlen(text));
}

/* An edge that the other monitor has made. */
static void greet(struct end *end, const char *instance)
{
    open_end(end);
    say_peer(end, EDGE_VERSION, instance);
    assert_true(hear(end, FRAME_PEER));
}

#define OTHER "0123456789abcdef"
#define THIRD "fedcba9876543210"

/* ---- tests ---- */

static void greetings(void **state)
{
    struct end end;
    open_end(&end);
    say_peer(&end, EDGE_VERSION + 1, OTHER);
    assert_true(hear(&end, FRAME_GOODBYE));
    assert_true(has(&end, "9.9") && has(&end, SCRY_VERSION) && has(&end, "install the same version"));
    assert_false(hear(&end, FRAME_GOODBYE));
    close_end(&end);
    static const char *const wrong[] = {"", "\1\0\0\0", "\1\0\0\0" OTHER "x", "\1\0\0\0" OTHER "1.0\0name"};
    static const size_t wrong_len[] = {0, 4, 21, 28};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        open_end(&end);
        say(&end, 0, FRAME_PEER, 0, 0, wrong[i], wrong_len[i]);
        assert_true(hear(&end, FRAME_GOODBYE));
        assert_false(hear(&end, FRAME_GOODBYE));
        close_end(&end);
    }
    open_end(&end); /* a tool cannot become one */
    say_hello(&end, 0, 0, 0);
    say_peer(&end, EDGE_VERSION, OTHER);
    assert_true(hear(&end, FRAME_GOODBYE));
    close_end(&end);
}

static void a_session_is_a_tool(void **state)
{
    struct end end;
    greet(&end, OTHER);
    assert_int_equal(server_connections(here.server), 0);
    say_hello(&end, 1, FRAME_NEW, 4711);
    assert_true(hear(&end, FRAME_WELCOME));
    assert_int_equal(end.last.via, 1);
    assert_memory_equal(end.last.payload.ptr + 4, "\x67\x12\0\0", 4); /* the id of its home */
    say_text(&end, 1, 5, ": print([1]) node_get_info([], 1)");
    assert_true(hear(&end, FRAME_REPLY));
    assert_int_equal(end.last.id, 5);
    assert_true(has(&end, "1,[1]"));
    say(&end, 1, FRAME_FINALIZE, 0, 0, "\1\0\0\0", 4);
    assert_true(hear(&end, FRAME_GOODBYE));
    assert_int_equal(end.last.via, 1);
    say_text(&end, 1, 6, ": print([1])"); /* late: nobody is there */
    say_hello(&end, 1, FRAME_NEW, 4711);  /* the number can be used again */
    assert_true(hear(&end, FRAME_WELCOME));
    assert_int_equal(server_connections(here.server), 1);
    close_end(&end);
    for (unsigned steps = 0; server_connections(here.server); steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
}

/* A tool here, whose objects lie there. */
static void requests_go_there(void **state)
{
    struct end end, tool;
    greet(&end, OTHER);
    open_end(&tool);
    say_hello(&tool, 0, 0, 0);
    say_node(&end, 7, THIRD);
    say_text(&tool, 0, 1, ": thread_stop([t_2_9, p_3_4])");
    assert_true(hear(&end, FRAME_HELLO));
    assert_int_equal(end.last.via, 2); /* even: we did not connect */
    assert_int_equal(end.last.flags, FRAME_NEW);
    assert_true(hear(&end, FRAME_REQUEST));
    assert_true(has(&end, "thread_stop([t_1_9,p_7_4])"));
    struct reply_builder reply = {0};
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), OMIS_OK, NULL);
    reply_service(&reply);
    struct span text = span_str("p_7_4 says \"p_7_4\"");
    reply_result(&reply, span_str("p_7_4"), OMIS_OS_ERROR, &text);
    reply_result(&reply, span_str("t_1_9"), OMIS_OK, NULL);
    say(&end, 2, FRAME_REPLY, FRAME_LAST, end.last.id, reply.bytes.data, reply.bytes.len);
    reply_done(&reply);
    assert_true(hear(&tool, FRAME_REPLY));
    Omis_reply decoded;
    assert_int_equal(reply_decode(tool.last.payload, &decoded), 0);
    assert_string_equal(decoded[1][0].obj_list, "t_2_9");
    assert_string_equal(decoded[1][1].obj_list, "p_3_4");
    assert_string_equal(decoded[1][1].result, "p_3_4 says \"p_7_4\"");
    free(decoded);
    say(&end, 0, FRAME_NODE_GONE, 0, 7, "it burns", 8);
    say_text(&tool, 0, 2, ": thread_stop([t_2_9])"); /* what it sends in return is no reply */
    assert_true(hear(&end, FRAME_REQUEST));
    say(&end, 2, FRAME_REPLY, FRAME_LAST, end.last.id, "\377\377\377\377", 4);
    assert_true(hear(&tool, FRAME_REPLY));
    assert_true(has(&tool, "no reply"));
    say_text(&tool, 0, 3, ": thread_stop([p_3_4])");
    assert_true(hear(&tool, FRAME_REPLY));
    assert_true(has(&tool, "n_3 (third) is gone: it burns"));
    say_text(&tool, 0, 4, ": thread_stop([t_2_9])"); /* and it goes before it answers */
    assert_true(hear(&end, FRAME_REQUEST));
    close_end(&end);
    assert_true(hear(&tool, FRAME_REPLY));
    assert_true(has(&tool, "n_2 (other) is gone"));
    close_end(&tool);
}

/* A tool that goes leaves its sessions; what comes for it is passed over. */
static void a_tool_goes(void **state)
{
    struct end end, tool;
    greet(&end, OTHER);
    open_end(&tool);
    say_hello(&tool, 0, 0, 0);
    say_text(&tool, 0, 1, ": thread_stop([t_2_9])");
    assert_true(hear(&end, FRAME_REQUEST));
    uint32_t id = end.last.id;
    close_end(&tool);
    assert_true(hear(&end, FRAME_FINALIZE));
    say(&end, 2, FRAME_REPLY, FRAME_LAST, id, "\0\0\0\0", 4);
    say(&end, 2, FRAME_GOODBYE, 0, 0, "", 0);
    say(&end, 0, FRAME_PING, 0, 0, "12345678", 8);
    assert_true(hear(&end, FRAME_PONG));
    assert_int_equal(end.last.payload.len, 24);
    assert_memory_equal(end.last.payload.ptr, "12345678", 8);
    assert_int_equal(server_connections(here.server), 0);
    close_end(&end);
}

/* Whatever a monitor says: another tool is served, and nothing is left when it is gone. */
static void nonsense(void **state)
{
    unsigned seed = 4711;
    struct end tool;
    open_end(&tool);
    say_hello(&tool, 0, 0, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        static struct end end;
        char payload[64];
        if (round % 50 == 0) {
            if (round)
                close_end(&end);
            greet(&end, round % 100 ? OTHER : THIRD);
            say_hello(&end, 1, FRAME_NEW, 1 + round);
            say_text(&tool, 0, 1, ": thread_stop([t_2_9])");
        }
        size_t len = (size_t)rand_r(&seed) % sizeof payload;
        for (size_t i = 0; i < len; i++)
            payload[i] = (char)(rand_r(&seed) % 3 ? rand_r(&seed) % 4 : rand_r(&seed));
        say(&end, (uint16_t)(rand_r(&seed) % 5), (uint8_t)(1 + rand_r(&seed) % (FRAME_TYPES - 1)),
            (uint8_t)(rand_r(&seed) % 2), (uint32_t)(rand_r(&seed) % 4), payload, len);
        here_step();
        char drain[4096];
        while (recv(end.fd, drain, sizeof drain, MSG_DONTWAIT) > 0)
            ;
        while (recv(tool.fd, drain, sizeof drain, MSG_DONTWAIT) > 0)
            ;
        if (round == ROUNDS - 1)
            close_end(&end);
    }
    for (unsigned steps = 0; server_connections(here.server) > 1; steps++) {
        assert_true(steps < STEPS);
        here_step();
    }
    say_text(&tool, 0, 77, ": print([77])");
    do
        assert_true(hear(&tool, FRAME_REPLY));
    while (tool.last.id != 77);
    assert_true(has(&tool, "1,[77]"));
    close_end(&tool);
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, here_setup, here_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(greetings), EACH(a_session_is_a_tool), EACH(requests_go_there), EACH(a_tool_goes), EACH(nonsense),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
