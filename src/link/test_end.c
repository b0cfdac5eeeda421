/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "link/end.h"
#include "wire/frame.h"

static struct buf made(const char *before, const char *text)
{
    struct buf bytes = BUF_INIT;
    struct hello hello = {.version = HELLO_VERSION, .flags = HELLO_RESUME, .session = "0123456789abcde"};
    snprintf(hello.text, sizeof hello.text, "%s", text);
    buf_puts(&bytes, before);
    hello_put(&bytes, &hello);
    return bytes;
}

static void test_whole(void **state)
{
    _cleanup_(buf_done) struct buf bytes = made("", "climate-3");
    struct hello hello;
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(hello_parse(span_of(bytes.data, len), false, &hello), 0);
    assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), false, &hello), bytes.len);
    assert_int_equal(hello.version, HELLO_VERSION);
    assert_int_equal(hello.flags, HELLO_RESUME);
    assert_string_equal(hello.session, "0123456789abcde");
    assert_string_equal(hello.text, "climate-3");
    bytes.data[3] ^= 1;
    assert_int_equal(hello_parse(span_of(bytes.data, 4), false, &hello), -EBADMSG);
    (void)state;
}

static void test_controls(void **state)
{
    _cleanup_(buf_done) struct buf bytes = made("", "a\nb");
    struct hello hello;
    assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), false, &hello), -EBADMSG);
    (void)state;
}

/* What a shell says before it may be anything, also the beginning of a hello. */
static void test_noise(void **state)
{
    static const char *const noises[] = {"", "S", "Welcome!\r\n", "SCRYLIN", "SCRYSCRYLSCRYLINSCRYLI\n"};
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        _cleanup_(buf_done) struct buf bytes = made(noises[i], "0.1");
        struct hello hello;
        for (size_t len = 0; len < bytes.len; len++)
            assert_int_equal(hello_parse(span_of(bytes.data, len), true, &hello), 0);
        assert_int_equal(hello_parse(span_of(bytes.data, bytes.len), true, &hello), bytes.len);
        assert_string_equal(hello.text, "0.1");
    }
    _cleanup_(buf_done) struct buf much = BUF_INIT;
    struct hello hello;
    while (much.len < HELLO_NOISE_BYTES)
        buf_puts(&much, "y\n");
    assert_int_equal(hello_parse(span_of(much.data, much.len), true, &hello), 0);
    buf_puts(&much, "12345678");
    assert_int_equal(hello_parse(span_of(much.data, much.len), true, &hello), -EBADMSG);
    (void)state;
}

static void test_messages(void **state)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    struct span message;
    buf_put_u32(&bytes, CHANNEL_HEADER);
    for (size_t i = 0; i < CHANNEL_HEADER; i++) {
        assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), 0);
        buf_putc(&bytes, 'x');
    }
    assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), bytes.len);
    assert_int_equal(message.len, CHANNEL_HEADER);
    static const uint32_t wrong[] = {0, CHANNEL_HEADER - 1, HELLO_MESSAGE_BYTES + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        buf_clear(&bytes);
        buf_put_u32(&bytes, wrong[i]);
        assert_int_equal(hello_message(span_of(bytes.data, bytes.len), &message), -EBADMSG);
    }
    (void)state;
}

/* Wherever a stream is cut, it is known whether a frame has only begun. */
static void test_edges(void **state)
{
    _cleanup_(buf_done) struct buf stream = BUF_INIT;
    frame_append(&stream, FRAME_HELLO, 0, 0, span_str("12345678"), span_str("tool"));
    size_t first = stream.len;
    frame_append(&stream, FRAME_FINALIZE, 0, 0, span_str(""), span_str(""));
    for (size_t cut = 0; cut <= stream.len; cut++)
        for (size_t step = 1; step < 15; step++) {
            struct frame_edges edges = {.left = 0};
            for (size_t at = 0; at < cut; at += step)
                frame_edges_pass(&edges, span_of(stream.data + at, cut - at < step ? cut - at : step));
            assert_int_equal(frame_edges_between(&edges), cut == 0 || cut == first || cut == stream.len);
        }
    (void)state;
}

/* Two ends of one session, between which connections break all the time, wherever it hurts. */

enum { STREAM = 8 << 20, STEP_NS = 1000000 };

struct side {
    struct end end;
    int local; /* the other end of its local socket */
    size_t sent, received;
    unsigned seed; /* of what it is to receive; its own is another */
    unsigned lost;
    char over[CHANNEL_REASON + 1];
    bool is_over;
};

static struct loop *loop;
static struct side sides[2];
static const uint8_t session[CHANNEL_SESSION] = "session";

static char byte_at(unsigned seed, size_t at)
{
    return (char)((at * 2654435761u + seed) >> 13);
}

static void on_lost(void *ctx, const struct err *why)
{
    struct side *side = ctx;
    (void)why;
    side->lost++;
}

static void on_over(void *ctx, const char *why)
{
    struct side *side = ctx;
    side->is_over = true;
    snprintf(side->over, sizeof side->over, "%s", why);
}

static int setup(void **state)
{
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    (void)state;
    assert_int_equal(loop_new(&loop), 0);
    for (unsigned i = 0; i < 2; i++) {
        int ends[2];
        struct side *side = &sides[i];
        *side = (struct side){.seed = i};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        side->local = ends[0];
        assert_int_equal(end_init(&side->end, loop, session, &events, side), 0);
        assert_int_equal(end_set_local_take(&side->end, ends[1]), 0);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        end_done(&sides[i].end);
        close(sides[i].local);
    }
    loop_free(loop);
    return 0;
}

static void connect_both(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(end_attach_take(&sides[i].end, transport_new_take(ends[i]), span_of("", 0)), 0);
}

/* Some of the stream goes in, and what comes out is what went in at the other side. */
static void use(struct side *side, unsigned other, size_t most)
{
    static char bytes[64 << 10];
    size_t len = most < sizeof bytes ? most : sizeof bytes;
    len = STREAM - side->sent < len ? STREAM - side->sent : len;
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(other, side->sent + i);
    ssize_t put = len ? send(side->local, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    side->sent += put > 0 ? (size_t)put : 0;
    ssize_t got = recv(side->local, bytes, sizeof bytes, MSG_DONTWAIT);
    for (ssize_t i = 0; i < got; i++, side->received++)
        if (bytes[i] != byte_at(side->seed, side->received))
            fail_msg("byte %zu is wrong", side->received);
}

static void test_breaks(void **state)
{
    unsigned cuts = 0;
    (void)state;
    srand(4711);
    while (sides[0].received < STREAM || sides[1].received < STREAM) {
        if (!sides[0].end.transport || !sides[1].end.transport)
            connect_both();
        for (size_t i = 0; i < 2; i++)
            use(&sides[i], 1 - (unsigned)i, 1u << rand() % 17);
        loop_step(loop, 0);
        if (rand() % 8 == 0 && sides[0].end.transport) {
            struct end *end = &sides[rand() % 2].end;
            if (end->transport)
                shutdown(end->transport->fd, rand() % 2 ? SHUT_RDWR : SHUT_WR);
            cuts++;
        }
        assert_true(channel_waiting(&sides[0].end.channel) <= END_WAITING_BYTES + (64 << 10));
    }
    assert_true(cuts > 100);
    assert_false(sides[0].is_over || sides[1].is_over);
}

/* What was said before the end arrives before the end. */
static void test_end(void **state)
{
    (void)state;
    connect_both();
    while (sides[0].sent < STREAM / 8) {
        use(&sides[0], 1, 4096);
        use(&sides[1], 0, 0);
        loop_step(loop, 0);
    }
    shutdown(sides[0].local, SHUT_RDWR);
    for (uint64_t until = clock_now_ns() + 10 * (uint64_t)NS_PER_SECOND; clock_now_ns() < until && !sides[1].is_over;) {
        use(&sides[1], 0, 0);
        loop_step(loop, STEP_NS);
    }
    use(&sides[1], 0, 0);
    assert_true(sides[0].is_over && sides[1].is_over);
    assert_int_equal(sides[1].received, sides[0].sent);
    assert_string_equal(sides[1].over, "");
}

/* Without anybody who reads, no more is taken in than one end may hold. */
static void test_back_pressure(void **state)
{
    size_t before = 1;
    (void)state;
    connect_both();
    for (unsigned quiet = 0; quiet < 200; quiet = sides[0].sent == before ? quiet + 1 : 0) {
        char bytes[4096];
        before = sides[0].sent;
        memset(bytes, 'x', sizeof bytes);
        ssize_t put = send(sides[0].local, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        sides[0].sent += put > 0 ? (size_t)put : 0;
        loop_step(loop, 0);
    }
    assert_true(sides[0].sent < 8 << 20);
    assert_false(sides[0].is_over);
}

/* Whoever is told to stop says why. */
static void test_stop(void **state)
{
    (void)state;
    connect_both();
    end_stop(&sides[0].end, "this key was revoked");
    for (int i = 0; i < 100 && !sides[1].is_over; i++)
        loop_step(loop, STEP_NS);
    assert_string_equal(sides[1].over, "this key was revoked");
}

/* Nonsense costs a connection, and not the session. */
static void test_nonsense(void **state)
{
    static const char nonsense[] = "\1\0\0\0x";
    int ends[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    assert_int_equal(end_attach_take(&sides[0].end, transport_new_take(ends[0]), span_of("", 0)), 0);
    assert_int_equal(send(ends[1], nonsense, sizeof nonsense, 0), sizeof nonsense);
    for (int i = 0; i < 100 && !sides[0].lost; i++)
        loop_step(loop, STEP_NS);
    assert_int_equal(sides[0].lost, 1);
    assert_false(sides[0].is_over);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_controls),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_edges),
        cmocka_unit_test_setup_teardown(test_breaks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_back_pressure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stop, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonsense, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
