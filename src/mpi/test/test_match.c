/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of matching, without MPI. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mpi/message/match.h"

enum { COMM = 1, OTHER = 77, ME = 0, TID = 4711 };

static struct mpim *shared;
static struct match *match;
static struct match_post late[16];
static unsigned late_count;

static void received(void *ctx, const struct match_post *post)
{
    assert_ptr_equal(ctx, &late_count);
    late[late_count++] = *post;
}

static int start(void **state)
{
    (void)state;
    shared = calloc(1, sizeof *shared);
    match = calloc(1, sizeof *match);
    if (!shared || !match)
        return -1;
    shared->size = sizeof *shared;
    late_count = 0;
    match_start(match, shared, received, &late_count);
    return 0;
}

static int end(void **state)
{
    (void)state;
    free(shared);
    free(match);
    return 0;
}

static struct match_key key(uint64_t comm, int32_t peer, int32_t tag)
{
    return (struct match_key){.identity = comm, .peer = peer, .tag = tag, .comm = 0};
}

static uint64_t post_on(uint64_t comm, int32_t from, int32_t tag, uint64_t expected)
{
    const struct match_key wanted = key(comm, from, tag);
    uint64_t k, post = match_posted(match, &wanted, &k);
    assert_int_equal(k, expected);
    assert_int_not_equal(post, 0);
    return post;
}

static uint64_t post(int32_t from, int32_t tag, uint64_t expected)
{
    return post_on(COMM, from, tag, expected);
}

static uint64_t done(uint64_t posted, int32_t from, int32_t tag)
{
    return match_done(match, posted, from, tag, 8, TID);
}

static const struct mpim_channel *got_from(int32_t from, int32_t tag)
{
    return mpim_channel_find(shared, MPIM_GOT, COMM, from, tag);
}

static uint64_t send_to(int32_t to, int32_t tag, uint64_t bytes)
{
    const struct match_key wanted = key(COMM, to, tag);
    return match_sent(match, &wanted, bytes, TID, 100 + bytes);
}

static void test_in_the_order_of_the_posts(void **state)
{
    (void)state;
    uint64_t first = post(1, 5, 1), second = post(1, 5, 2), other = post(1, 6, 1), third = post(1, 5, 3);
    /* completion has another order */
    assert_int_equal(done(third, 1, 5), 3);
    assert_int_equal(done(first, 1, 5), 1);
    assert_int_equal(done(other, 1, 6), 1);
    assert_int_equal(got_from(1, 5)->done, 2);
    assert_int_equal(done(second, 1, 5), 2);
    assert_int_equal(got_from(1, 5)->count, 3);
    assert_int_equal(got_from(1, 5)->done, 3);
    assert_int_equal(got_from(1, 5)->doubts | shared->doubts, 0);
    assert_int_equal(done(second, 1, 5), 0); /* it is none any more */
}

static void test_channels_are_apart(void **state)
{
    (void)state;
    post(1, 5, 1);
    post(2, 5, 1);
    post_on(OTHER, 1, 5, 1);
    post(1, 5, 2);
    assert_int_equal(send_to(1, 5, 10), 1); /* what is sent to one is not what comes from it */
}

static void test_from_anybody(void **state)
{
    (void)state;
    uint64_t any = post(MPIA_RANK_ANY, 5, 0);
    assert_int_equal(shared->open_count, 1);
    uint64_t other_tag = post(1, 6, 1), other_comm = post_on(OTHER, 1, 5, 1); /* did not compete with it */
    uint64_t behind = post(1, 5, 0);
    assert_int_equal(got_from(1, 5)->waiting, 1);
    assert_int_equal(done(any, 1, 5), 1);
    assert_int_equal(got_from(1, 5)->waiting, 0);
    assert_int_equal(shared->open_count, 0);
    assert_int_equal(done(behind, 1, 5), 2);
    assert_int_equal(done(other_tag, 1, 6), 1);
    assert_int_equal(match_done(match, other_comm, 1, 5, 8, TID), 1);
    assert_int_equal(late_count, 0);
}

static void test_anybody_was_somebody_else(void **state)
{
    (void)state;
    uint64_t any = post(MPIA_RANK_ANY, MPIA_TAG_ANY, 0), behind = post(1, 5, 0);
    assert_int_equal(done(any, 2, 9), 1);
    assert_int_equal(done(behind, 1, 5), 1);
}

/* A receive that completes before one from anybody that was posted before it: its number comes later, and is told. */
static void test_numbered_late(void **state)
{
    (void)state;
    uint64_t any = post(MPIA_RANK_ANY, 5, 0), behind = post(1, 5, 0), last = post(1, 5, 0);
    assert_int_equal(done(behind, 1, 5), 0);
    assert_int_equal(late_count, 0);
    assert_int_equal(done(any, 1, 5), 1);
    assert_int_equal(late_count, 1);
    assert_int_equal(late[0].k, 2);
    assert_int_equal(late[0].tid, TID);
    assert_int_equal(late[0].bytes, 8);
    assert_int_equal(done(last, 1, 5), 3);
}

/* The same, when it is known before that whom the other has got a message from. */
static void test_known_before(void **state)
{
    (void)state;
    uint64_t any = post(MPIA_RANK_ANY, 5, 0), behind = post(1, 5, 0), handle = 0;
    match_handle(match, any, 1234);
    assert_int_equal(match_blocker(match, behind, 0, &handle), any);
    assert_int_equal(handle, 1234);
    assert_int_equal(match_blocker(match, behind, any, &handle), 0);
    match_known(match, any, 3, 5);
    assert_int_equal(match_blocker(match, behind, 0, &handle), 0);
    assert_int_equal(done(behind, 1, 5), 1);
    assert_int_equal(done(any, 3, 5), 1);
    assert_int_equal(late_count, 0);
}

static void test_several_from_anybody(void **state)
{
    (void)state;
    uint64_t one = post(MPIA_RANK_ANY, 5, 0), two = post(MPIA_RANK_ANY, MPIA_TAG_ANY, 0), three = post(1, 5, 0);
    assert_int_equal(done(two, 1, 5), 0); /* the first may have got one of these */
    assert_int_equal(done(three, 1, 5), 0);
    assert_int_equal(done(one, 1, 5), 1);
    assert_int_equal(late_count, 2);
    assert_int_equal(late[0].k, 2);
    assert_int_equal(late[1].k, 3);
}

static void test_cancelled(void **state)
{
    (void)state;
    uint64_t first = post(1, 5, 1), second = post(1, 5, 2), third = post(1, 5, 3);
    match_undone(match, second, MPIM_DOUBT_CANCELLED);
    assert_int_equal(done(third, 1, 5), 2);
    assert_int_equal(done(first, 1, 5), 1);
    assert_int_equal(got_from(1, 5)->doubts, 0);
    /* one behind it has completed, and was told to be another one */
    first = post(1, 5, 3);
    second = post(1, 5, 4);
    assert_int_equal(done(second, 1, 5), 4);
    match_undone(match, first, MPIM_DOUBT_CANCELLED);
    assert_int_equal(got_from(1, 5)->doubts, MPIM_DOUBT_CANCELLED);
    assert_int_equal(got_from(1, 5)->count, 3);
    /* from anybody: who waited for it goes on */
    first = post(MPIA_RANK_ANY, 9, 0);
    second = post(1, 9, 0);
    match_undone(match, first, MPIM_DOUBT_CANCELLED);
    assert_int_equal(done(second, 1, 9), 1);
    assert_int_equal(got_from(1, 9)->doubts, 0);
    /* one that waits for that itself waits no more */
    post(MPIA_RANK_ANY, 4, 0);
    second = post(1, 4, 0);
    assert_int_equal(got_from(1, 4)->waiting, 1);
    match_undone(match, second, MPIM_DOUBT_CANCELLED);
    assert_int_equal(got_from(1, 4)->waiting, 0);
}

static void test_freed(void **state)
{
    (void)state;
    uint64_t one = post(1, 5, 1);
    match_lost(match, one); /* it gets its message all the same */
    assert_int_equal(got_from(1, 5)->doubts, 0);
    post(1, 5, 2);
    match_lost(match, post(MPIA_RANK_ANY, 5, 0));
    assert_int_equal(got_from(1, 5)->doubts, MPIM_DOUBT_FREED);
    post(2, 5, 1); /* also of those to come */
    assert_int_equal(got_from(2, 5)->doubts, MPIM_DOUBT_FREED);
    post(2, 6, 1);
    assert_int_equal(got_from(2, 6)->doubts, 0);
    assert_int_equal(shared->open_count, 0);
}

static void test_two_threads_at_once(void **state)
{
    (void)state;
    const struct match_key five = key(COMM, 1, 5), any = key(COMM, MPIA_RANK_ANY, 5), six = key(COMM, 1, 6);
    match_enter(match, 0, MPIM_GOT, &five);
    match_enter(match, 1, MPIM_GOT, &six);
    post(1, 5, 1);
    post(1, 6, 1);
    assert_int_equal(got_from(1, 5)->doubts | got_from(1, 6)->doubts, 0);
    match_leave(match, 1);
    match_enter(match, 1, MPIM_GOT, &any);
    assert_int_equal(got_from(1, 5)->doubts, MPIM_DOUBT_THREADS);
    assert_int_equal(got_from(1, 6)->doubts, 0);
    match_leave(match, 0);
    match_leave(match, 1);
    match_enter(match, 2, MPIM_SENT, &six);
    match_enter(match, 3, MPIM_SENT, &six);
    assert_int_equal(send_to(1, 6, 1), 1);
    assert_int_equal(mpim_channel_find(shared, MPIM_SENT, COMM, 1, 6)->doubts, MPIM_DOUBT_THREADS);
    assert_int_equal(got_from(1, 6)->doubts, 0);
}

static void test_sends_are_logged(void **state)
{
    (void)state;
    const struct match_key five = key(COMM, 1, 5);
    assert_int_equal(send_to(1, 5, 10), 1);
    assert_int_equal(send_to(2, 5, 20), 1);
    assert_int_equal(send_to(1, 5, 30), 2);
    match_sent_bytes(match, &five, 2, 31);
    const struct mpim_channel *channel = mpim_channel_find(shared, MPIM_SENT, COMM, 1, 5);
    const struct mpim_sent *sent = &shared->log[channel->last & (MPIM_LOG - 1)];
    assert_int_equal(sent->bytes, 31);
    assert_int_equal(sent->k, 2);
    assert_int_equal(sent->tid, TID);
    sent = &shared->log[sent->previous & (MPIM_LOG - 1)];
    assert_int_equal(sent->bytes, 10);
    assert_int_equal(sent->previous, 0);
    match_unsent(match, &five, 2); /* it failed */
    assert_int_equal(channel->count, 1);
    assert_int_equal(channel->doubts, 0);
    assert_int_equal(send_to(1, 5, 40), 2);
    assert_int_equal(send_to(1, 5, 50), 3);
    match_unsent(match, &five, 2); /* another thread has sent meanwhile */
    assert_int_equal(channel->doubts, MPIM_DOUBT_FAILED);
}

static void test_no_room(void **state)
{
    (void)state;
    uint64_t k;
    for (int i = 0; i < MATCH_POSTS - 1; i++)
        post(1, 5, (uint64_t)i + 1);
    const struct match_key five = key(COMM, 1, 5);
    assert_int_equal(match_posted(match, &five, &k), 0);
    assert_int_equal(got_from(1, 5)->doubts, MPIM_DOUBT_ROOM);
    assert_int_equal(shared->doubts, 0);
    for (int32_t tag = 0; !(shared->doubts & MPIM_DOUBT_ROOM); tag++) /* channels */
        send_to(3, tag, 1);
    assert_true(shared->channel_count > MPIM_CHANNELS / 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
    const struct CMUnitTest tests[] = {
        TEST(test_in_the_order_of_the_posts), TEST(test_channels_are_apart), TEST(test_from_anybody),
        TEST(test_anybody_was_somebody_else), TEST(test_numbered_late),      TEST(test_known_before),
        TEST(test_several_from_anybody),      TEST(test_cancelled),          TEST(test_freed),
        TEST(test_two_threads_at_once),       TEST(test_sends_are_logged),   TEST(test_no_room),
    };
    return cmocka_run_group_tests_name("mpi match", tests, NULL, NULL);
}
