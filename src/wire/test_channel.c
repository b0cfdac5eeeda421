/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends, and a broker between them that does what it likes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/channel.h"

static const uint8_t SESSION[CHANNEL_SESSION] = "0123456789abcde";
static const uint64_t SECOND = 1000000000;

enum { MESSAGES = 64 };
struct broker { /* what is on its way, in both directions */
    struct buf messages[MESSAGES];
    int to[MESSAGES];
    size_t count;
    unsigned lose, repeat; /* of 100 */
};

static void send_all(struct channel *channel, struct broker *broker, int to, uint64_t now)
{
    struct buf out = BUF_INIT;
    uint64_t when;
    while (channel_next(channel, now, 0, &out, &when))
        for (int copies = 1 + ((unsigned)rand() % 100 < broker->repeat); copies > 0; copies--) {
            if ((unsigned)rand() % 100 < broker->lose || broker->count == MESSAGES)
                continue;
            broker->to[broker->count] = to;
            buf_append(&broker->messages[broker->count++], out.data, out.len);
        }
    buf_done(&out);
}

static void deliver_one(struct broker *broker, struct channel *ends[2], uint64_t now)
{
    struct channel_header header;
    size_t which = (size_t)rand() % broker->count;
    struct buf message = broker->messages[which];
    int to = broker->to[which];
    broker->messages[which] = broker->messages[--broker->count];
    broker->to[which] = broker->to[broker->count];
    broker->messages[broker->count] = BUF_INIT;
    assert_int_equal(channel_parse(span_of(message.data, message.len), &header), 0);
    assert_memory_equal(header.session, SESSION, sizeof SESSION);
    assert_int_equal(channel_take(ends[to], &header, now), 0);
    buf_done(&message);
}

static char byte_at(size_t i, int to)
{
    return (char)((i * 2654435761u >> 7) + (unsigned)to);
}

/* Sends `bytes` in both directions; each end takes them as they come. */
static void run(unsigned lose, unsigned repeat, size_t bytes)
{
    struct channel a, b, *ends[2] = {&a, &b};
    struct broker broker = {.lose = lose, .repeat = repeat};
    size_t put[2] = {0}, got[2] = {0};
    uint64_t now = SECOND;
    channel_init(&a, SESSION, false, now);
    channel_init(&b, SESSION, true, now);
    for (unsigned step = 0; got[0] < bytes || got[1] < bytes || !channel_settled(&a) || !channel_settled(&b); step++) {
        assert_true(step < 100000);
        for (int i = 0; i < 2; i++) {
            while (put[i] < bytes && channel_waiting(ends[i]) < 3 * CHANNEL_PART) {
                char piece[1000];
                size_t len = bytes - put[i] < sizeof piece ? bytes - put[i] : sizeof piece;
                for (size_t k = 0; k < len; k++)
                    piece[k] = byte_at(put[i] + k, !i);
                channel_put(ends[i], span_of(piece, len));
                put[i] += len;
            }
            send_all(ends[i], &broker, !i, now);
        }
        for (int i = 0; i < 3 && broker.count; i++)
            deliver_one(&broker, ends, now);
        for (int i = 0; i < 2; i++) {
            for (size_t k = 0; k < ends[i]->in.len; k++)
                if (ends[i]->in.data[k] != byte_at(got[i] + k, i))
                    fail_msg("byte %zu", got[i] + k);
            got[i] += ends[i]->in.len;
            assert_int_equal(channel_drop(ends[i], ends[i]->in.len), 0);
        }
        now += SECOND / 4;
    }
    assert_int_equal(got[0], bytes);
    assert_int_equal(got[1], bytes);
    while (broker.count)
        buf_done(&broker.messages[--broker.count]);
    channel_done(&a);
    channel_done(&b);
}

static void gives_what_was_put(void **state)
{
    srand(15);
    run(0, 0, 10);
    run(0, 0, 5 << 20);
    run(0, 60, 3 << 20);
    run(30, 0, 2 << 20);
    run(40, 40, 2 << 20);
}

/* A reader that does not read stops the sender, and nobody keeps more than a window. */
static void who_does_not_read_stops_the_other(void **state)
{
    struct channel a, b, *ends[2] = {&a, &b};
    struct broker broker = {0};
    char *much = calloc(1, 8 << 20);
    uint64_t now = SECOND;
    channel_init(&a, SESSION, false, now);
    channel_init(&b, SESSION, true, now);
    channel_put(&a, span_of(much, 8 << 20));
    for (int step = 0; step < 400; step++, now += SECOND) {
        send_all(&a, &broker, 1, now);
        send_all(&b, &broker, 0, now);
        while (broker.count)
            deliver_one(&broker, ends, now);
    }
    size_t held = b.in.len;
    for (size_t i = 0; i < CHANNEL_WINDOW; i++)
        held += b.early[i].bytes.len;
    assert_in_range(held, CHANNEL_HELD, CHANNEL_HELD + (CHANNEL_WINDOW + 1) * CHANNEL_PART);
    size_t got = 0;
    for (int step = 0; step < 4000 && got < 8 << 20; step++, now += SECOND) {
        got += b.in.len;
        channel_drop(&b, b.in.len);
        send_all(&a, &broker, 1, now);
        send_all(&b, &broker, 0, now);
        while (broker.count)
            deliver_one(&broker, ends, now);
    }
    assert_int_equal(got, 8 << 20);
    channel_done(&a);
    channel_done(&b);
    free(much);
}

static void an_end_that_is_quiet_says_that_it_lives(void **state)
{
    struct channel a, b;
    struct buf out = BUF_INIT;
    struct channel_header header;
    uint64_t when;
    channel_init(&a, SESSION, false, SECOND);
    channel_init(&b, SESSION, true, SECOND);
    assert_false(channel_next(&a, 2 * SECOND, 5 * SECOND, &out, &when));
    assert_int_equal(when, 6 * SECOND);
    assert_true(channel_next(&a, 6 * SECOND, 5 * SECOND, &out, &when));
    assert_int_equal(channel_parse(span_of(out.data, out.len), &header), 0);
    assert_int_equal(channel_take(&b, &header, 6 * SECOND), 0);
    assert_true(channel_next(&b, 6 * SECOND, 0, &out, &when)); /* the answer, */
    assert_false(channel_next(&b, 6 * SECOND, 0, &out, &when));
    assert_int_equal(when, UINT64_MAX);
    assert_int_equal(channel_parse(span_of(out.data, out.len), &header), 0);
    assert_int_equal(channel_take(&a, &header, 9 * SECOND), 0);
    assert_int_equal(a.heard_ns, 9 * SECOND);
    assert_false(channel_next(&a, 9 * SECOND, 5 * SECOND, &out, &when)); /* and no answer to that */
    buf_done(&out);
    channel_done(&a);
    channel_done(&b);
}

static void refuses_what_is_wrong(void **state)
{
    struct channel a;
    struct buf out = BUF_INIT;
    struct channel_header header;
    char message[CHANNEL_HEADER] = {1, CHANNEL_DATA};
    for (size_t len = 0; len < CHANNEL_HEADER; len++)
        assert_int_equal(channel_parse(span_of(message, len), &header), -EBADMSG);
    assert_int_equal(channel_parse(span_of(message, sizeof message), &header), 0);
    message[0] = 2;
    assert_int_equal(channel_parse(span_of(message, sizeof message), &header), -EBADMSG);
    message[0] = 1;
    message[1] = 3;
    assert_int_equal(channel_parse(span_of(message, sizeof message), &header), -EBADMSG);
    channel_init(&a, SESSION, true, SECOND);
    static const uint32_t numbers[] = {CHANNEL_WINDOW + 1, 1000, 1u << 30};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        header = (struct channel_header){.what = CHANNEL_DATA, .number = numbers[i]};
        assert_int_equal(channel_take(&a, &header, SECOND), -EBADMSG);
        header = (struct channel_header){.what = CHANNEL_DATA, .acknowledged = numbers[i]};
        assert_int_equal(channel_take(&a, &header, SECOND), -EBADMSG);
    }
    channel_put_end(&out, SESSION, "because");
    assert_int_equal(channel_parse(span_of(out.data, out.len), &header), 0);
    assert_int_equal(header.what, CHANNEL_END);
    assert_memory_equal(header.bytes.ptr, "because", header.bytes.len);
    buf_done(&out);
    channel_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_was_put),
        cmocka_unit_test(who_does_not_read_stops_the_other),
        cmocka_unit_test(an_end_that_is_quiet_says_that_it_lives),
        cmocka_unit_test(refuses_what_is_wrong),
    };
    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
