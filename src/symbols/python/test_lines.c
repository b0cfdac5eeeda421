/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that CPython 3.9, 3.10 and 3.11 made of the same two functions, with what co_lines() says of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "symbols/python/python.h"

#define SIZED(...) \
    (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]) \
    { \
        __VA_ARGS__ \
    }

struct expected {
    int64_t at, line;
};

static void check(enum python_lines kind, const uint8_t *table, size_t size, int64_t first,
                  const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(python_line(kind, table, size, first, expected[i].at), expected[i].line);
}
#define CHECK(kind, first, table_and_size, ...) \
    check(kind, table_and_size, first, (const struct expected[]){__VA_ARGS__}, \
          sizeof((const struct expected[]){__VA_ARGS__}) / sizeof(struct expected))

static void of_3_9(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_LNOTAB, 1, SIZED(0, 1, 4, 2, 8, 1, 4, 1, 2, 255, 6, 2, 6, 1, 2, 255), {-1, 1}, {0, 2}, {2, 2},
          {4, 4}, {12, 5}, {16, 6}, {18, 5}, {24, 7}, {30, 8}, {36, 7});
}

static void of_3_10(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_RANGES, 1, SIZED(4, 1, 8, 2, 4, 1, 2, 1, 6, 255, 6, 2, 2, 1, 6, 255), {-1, 1}, {0, 2}, {10, 4},
          {16, 6}, {18, 5}, {24, 7}, {30, 8}, {36, 7}, {38, -1});
    CHECK(PYTHON_LINES_RANGES, 7, SIZED(2, 1, 2, 128, 2, 1), {0, 8}, {2, -1}, {4, 9}); /* no line in between */
}

static void since_3_11(void **state)
{
    (void)state;
    CHECK(PYTHON_LINES_LOCATIONS, 209,
          SIZED(128, 0, 240, 2, 3, 5, 13, 216, 8, 9, 136, 1, 137, 3, 140, 3, 136, 3, 136, 3, 136, 3, 248, 221, 11, 18,
                240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 240, 0, 1, 5, 13, 216, 8, 12, 136, 4, 136, 4, 240, 3, 1, 5, 13, 248,
                248, 248),
          {-2, 209}, {0, 209}, {2, 210}, {4, 211}, {26, 211}, {28, -1}, {40, 212}, {48, 213}, {54, 212}, {56, -1},
          {62, -1});
}

static void damaged(void **state)
{
    uint8_t table[64];
    (void)state;
    srand(7);
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof table; i++)
            table[i] = (uint8_t)rand();
        for (int kind = PYTHON_LINES_LNOTAB; kind <= PYTHON_LINES_LOCATIONS; kind++) {
            int64_t line = python_line(kind, table, (size_t)rand() % sizeof table, rand(), rand() % 256);
            assert_true(line >= -1 && line <= INT32_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_3_9), cmocka_unit_test(of_3_10),
                                       cmocka_unit_test(since_3_11), cmocka_unit_test(damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
