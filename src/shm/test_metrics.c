/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/metrics.h"

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double value_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

struct sum {
    uint64_t count;
    double last, least, most;
    size_t slots;
};

static struct sum take(struct metrics *metrics, const char *name)
{
    struct sum sum = {.least = INFINITY, .most = -INFINITY};
    struct metrics_taken taken;
    for (size_t i = 0; i < METRICS_SLOTS; i++)
        if (metrics_take(metrics, i, &taken) && strcmp(taken.name, name) == 0) {
            sum = (struct sum){sum.count + taken.count, value_of(taken.last), fmin(sum.least, value_of(taken.least)),
                               fmax(sum.most, value_of(taken.most)), sum.slots + 1};
        }
    return sum;
}

static int make(void **state)
{
    *state = aligned_alloc(_Alignof(struct metrics), sizeof(struct metrics));
    if (*state)
        memset(*state, 0, sizeof(struct metrics));
    return *state ? 0 : -1;
}

static int unmake(void **state)
{
    free(*state);
    return 0;
}

static void order_is_that_of_values(void **state)
{
    static const double values[] = {-1e300, -2, -1, -1e-300, 0, 1e-300, 0.5, 1, 1e300};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const int64_t bits = (int64_t)bits_of(values[i]);
        assert_true(metrics_order(metrics_order(bits)) == bits);
        assert_true(!i || metrics_order((int64_t)bits_of(values[i - 1])) < metrics_order(bits));
    }
}

static void values_are_taken_once(void **state)
{
    struct metrics *metrics = *state;
    const double values[] = {3, -2.5, 7, 1};
    for (size_t i = 0; i < 4; i++)
        metrics_say(metrics, "loss", bits_of(values[i]), 64);
    metrics_say(metrics, "", bits_of(1), 64);
    struct sum sum = take(metrics, "loss");
    assert_int_equal(sum.count, 4);
    assert_true(sum.last == 1 && sum.least == -2.5 && sum.most == 7);
    assert_int_equal(take(metrics, "loss").count, 0);
    metrics_say(metrics, "loss", bits_of(5), 64);
    sum = take(metrics, "loss");
    assert_true(sum.count == 1 && sum.last == 5 && sum.least == 5 && sum.most == 5);
}

/* What is no number is counted by itself, and takes nothing from those that are, in whatever order they come. */
static void undefined_is_told(void **state)
{
    struct metrics *metrics = *state;
    const double values[] = {NAN, 3, -INFINITY, 1, NAN};
    for (size_t i = 0; i < 5; i++)
        metrics_say(metrics, "loss", bits_of(values[i]), i << 12);
    struct metrics_taken taken;
    uint64_t numbers = 0, others = 0;
    for (size_t i = 0; i < METRICS_SLOTS; i++)
        if (metrics_take(metrics, i, &taken)) {
            bool finite = isfinite(value_of(taken.last));
            assert_int_equal(isfinite(value_of(taken.least)), finite);
            assert_int_equal(isfinite(value_of(taken.most)), finite);
            *(finite ? &numbers : &others) += taken.count;
        }
    assert_true(numbers == 2 && others == 3);
    for (uint64_t thread = 0; thread < 2 * METRICS_SLOTS; thread++) /* also where they share slots */
        metrics_say(metrics, "loss", bits_of(7), thread << 12);
    metrics_say(metrics, "loss", bits_of(NAN), 64);
    for (size_t i = 0; i < METRICS_SLOTS; i++)
        if (metrics_take(metrics, i, &taken))
            assert_true(isfinite(value_of(taken.last)) ? value_of(taken.most) == 7 : taken.count == 1);
}

static void long_names_are_cut(void **state)
{
    struct metrics *metrics = *state;
    static const char name[] = "0123456789012345678901234567890123456789";
    char cut[METRICS_NAME_SIZE] = "";
    memcpy(cut, name, sizeof cut - 1);
    metrics_say(metrics, name, bits_of(1), 64);
    metrics_say(metrics, cut, bits_of(2), 64);
    struct sum sum = take(metrics, cut);
    assert_true(sum.count == 2 && sum.slots == 1);
}

/* More threads than slots share some; more names than slots are left out. */
static void room_is_limited(void **state)
{
    struct metrics *metrics = *state;
    for (uint64_t thread = 0; thread < 2 * METRICS_SLOTS; thread++)
        for (int i = 0; i < 3; i++)
            metrics_say(metrics, "loss", bits_of((double)thread), thread << 12);
    struct sum sum = take(metrics, "loss");
    assert_int_equal(sum.count, 6 * METRICS_SLOTS);
    assert_true(sum.least == 0 && sum.most == 2 * METRICS_SLOTS - 1);
    for (int i = 0; i < 2 * METRICS_SLOTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        metrics_say(metrics, name, bits_of(1), 64);
    }
    metrics_say(metrics, "loss", bits_of(9), 64);
    assert_int_equal(take(metrics, "loss").count, 1);
}

enum { THREADS = 4, VALUES = 20000 };

static void *say_many(void *ctx)
{
    for (int i = 1; i <= VALUES; i++)
        metrics_say(ctx, "loss", bits_of(i), 64); /* all by one slot */
    return NULL;
}

static void no_value_is_lost(void **state)
{
    struct metrics *metrics = *state;
    pthread_t threads[THREADS];
    struct sum all = {.least = INFINITY, .most = -INFINITY};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say_many, metrics), 0);
    for (int i = 0; i <= THREADS; i++) {
        const struct sum sum = take(metrics, "loss"); /* while they do it, and at the end */
        all = (struct sum){all.count + sum.count, sum.last, fmin(all.least, sum.least), fmax(all.most, sum.most), 0};
        if (i < THREADS)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(all.count, THREADS * VALUES);
    assert_true(all.least == 1 && all.most == VALUES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_values),
        cmocka_unit_test_setup_teardown(values_are_taken_once, make, unmake),
        cmocka_unit_test_setup_teardown(undefined_is_told, make, unmake),
        cmocka_unit_test_setup_teardown(long_names_are_cut, make, unmake),
        cmocka_unit_test_setup_teardown(room_is_limited, make, unmake),
        cmocka_unit_test_setup_teardown(no_value_is_lost, make, unmake),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
