/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "bash/shell.h"

enum { PAGE = 4096 };

static void test_measure(void **state)
{
    static const struct {
        unsigned char code[16];
        size_t size, moved, skip;
    } rows[] = {
        {{0x41, 0x57, 0x41, 0x56, 0x41, 0x55}, 16, 6, 0},                         /* push three */
        {{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x41, 0x57}, 16, 6, 4}, /* endbr64; push; mov; push */
        {{0x53, 0x48, 0x81, 0xec, 0, 1, 0, 0}, 16, 8, 0},                         /* push; sub 256 */
        {{0x55, 0x48, 0x83, 0xec, 0x18}, 16, 5, 0},                               /* push; sub 24 */
        {{0x41, 0x57, 0x41, 0x56, 0x8b, 0x05, 1, 2, 3, 4}, 16, 0, 0},             /* reads beside its code */
        {{0x55, 0xe8, 1, 2, 3, 4}, 16, 0, 0},                                     /* calls */
        {{0xe9, 1, 2, 3, 4}, 16, 0, 0},                                           /* somebody was here before */
        {{0x41, 0x57, 0x41, 0x56, 0x41, 0x55}, 7, 0, 0},                          /* too small a function */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t skip;
        assert_int_equal(patch_measure(rows[i].code, rows[i].size, &skip), rows[i].moved);
        if (rows[i].moved)
            assert_int_equal(skip, rows[i].skip);
    }
}

/* push %r15; push %r14; push %r13; lea (%rdi, %rsi), %eax; pop three; ret */
static const unsigned char adds[] = {0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x8d, 0x04,
                                     0x37, 0x41, 0x5d, 0x41, 0x5e, 0x41, 0x5f, 0xc3};
typedef int add_fn(int one, int other);
static add_fn *original;

static int ours(int one, int other)
{
    return 100 * original(one, other);
}

static void test_patch(void **state)
{
    unsigned char *page = mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *at = page + PAGE - 3; /* the jump goes over the border */
    memcpy(at, adds, sizeof adds);
    mprotect(page, (size_t)2 * PAGE, PROT_READ | PROT_EXEC);
    add_fn *add = (add_fn *)(void *)at;
    assert_int_equal(add(2, 3), 5);
    assert_null(patch_function(at, sizeof adds, (void *)ours, (void **)&original));
    assert_int_equal(add(2, 3), 500);
    assert_int_equal(original(2, 3), 5);
    void *second;
    assert_non_null(patch_function(at, sizeof adds, (void *)ours, &second)); /* it begins with a jump now */
    assert_int_equal(add(2, 3), 500);
    munmap(page, (size_t)2 * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_measure), cmocka_unit_test(test_patch)};
    return cmocka_run_group_tests_name("bash_patch", tests, NULL, NULL);
}
