/* SPDX-License-Identifier: Apache-2.0 */
/* A library that test_target.c loads. */
int loaded(int n);

static __attribute__((noinline)) int loaded_inside(int n)
{
    __asm__ volatile("");
    return n + 1;
}

int loaded(int n)
{
    return loaded_inside(n) + 1;
}
