/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions whose results the compiler makes in many ways, some of them behind the exit hook. The results are printed,
 * `name number`, in the order of the calls. C and C++.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FUNCTION __attribute__((noinline))
volatile int sink;
struct truths {
    bool a, b, c;
    int k;
};
struct truth {
    bool a;
};
struct wide {
    long a, b;
};

FUNCTION bool negated(bool x)
{
    return !x;
}
FUNCTION bool negated_stored(bool x)
{
    sink = x;
    return !x;
}
FUNCTION bool equal(int x)
{
    return x == 3;
}
FUNCTION bool both(int x, int y)
{
    return x && y;
}
FUNCTION bool not_equal(int x)
{
    return !equal(x);
}
FUNCTION bool odd(unsigned k)
{
    return k & 1;
}
FUNCTION bool odd_long(long k)
{
    return k & 1;
}
FUNCTION bool odd_there(uint8_t *p)
{
    return *p & 1;
}
FUNCTION bool odd_sum(int a, int b)
{
    return (a ^ b) & 1;
}
FUNCTION bool odd_seldom(int k)
{
    return __builtin_expect(!!(k & 1), 0);
}
FUNCTION bool and_of(bool a, bool b)
{
    return a & b;
}
FUNCTION bool or_of(bool a, bool b)
{
    return a | b;
}
FUNCTION bool xor_of(bool a, bool b)
{
    return a ^ b;
}
FUNCTION bool second_bit(int k)
{
    sink = k;
    return k & 2;
}
FUNCTION bool third_bit(int k)
{
    return (k & 4) >> 2;
}
FUNCTION bool fourth_bit(unsigned k)
{
    return (k >> 3) & 1;
}
FUNCTION bool negative(long k)
{
    sink = (int)k;
    return k < 0;
}
FUNCTION bool any(int k)
{
    sink = k;
    return k;
}
FUNCTION bool not_zero(double k)
{
    return k != 0;
}
FUNCTION bool is_x(const char *p)
{
    return p && *p == 'x';
}
FUNCTION bool counted(int k)
{
    return __builtin_popcount((unsigned)k) & 1;
}
FUNCTION uint16_t inner(uint16_t k)
{
    return k & 0xff0;
}
FUNCTION uint16_t swapped(uint16_t k)
{
    return (uint16_t)((k << 8) | (k >> 8));
}
FUNCTION uint16_t high_byte(uint16_t k)
{
    return k & 0xff00;
}
FUNCTION uint16_t other_high(uint16_t k)
{
    return k ^ 0x5500;
}
FUNCTION uint16_t cut(int k)
{
    sink = k;
    return (uint16_t)~k;
}
FUNCTION short narrow(int k)
{
    return (short)(k * 3000);
}
FUNCTION int lowest(int k)
{
    return k & 1;
}
FUNCTION int low_byte(int k)
{
    sink = k;
    return k & 0xff;
}
FUNCTION int low_byte_inverted(int k)
{
    sink = k;
    return k ^ 0xff;
}
FUNCTION int with_bits(int k)
{
    return k | 0x1234;
}
FUNCTION int without_bits(int k)
{
    sink = k;
    return k & ~7;
}
FUNCTION long long_without_bits(long k)
{
    sink = (int)k;
    return k & ~7L;
}
FUNCTION int masked_sum(int k, int j)
{
    sink = k;
    return (k + j) & 0x3f;
}
FUNCTION int more(int k)
{
    sink = k;
    return k + 1;
}
FUNCTION int twice(int k)
{
    sink = k;
    return k * 2;
}
FUNCTION int negative_of(int k)
{
    sink = k;
    return -k;
}
FUNCTION int inverted(int k)
{
    sink = k;
    return ~k;
}
FUNCTION int greater(int k)
{
    sink = k;
    return k > 3;
}
FUNCTION int as_short(int k)
{
    sink = k;
    return (short)k;
}
FUNCTION int as_byte(int k)
{
    sink = k;
    return (signed char)k;
}
FUNCTION unsigned as_unsigned_byte(int k)
{
    sink = k;
    return (uint8_t)k;
}
FUNCTION int quarter(int k)
{
    sink = k;
    return k / 4;
}
FUNCTION int smaller(int k, int j)
{
    sink = k;
    return k < j ? k : j;
}
FUNCTION int there(int *k)
{
    int r = *k;
    *k = 99;
    return r;
}
FUNCTION long widened(int k)
{
    sink = k;
    return k;
}
FUNCTION unsigned long widened_unsigned(unsigned k)
{
    sink = (int)k;
    return k;
}
FUNCTION int shifted(long k)
{
    return (int)(k >> 33);
}
FUNCTION long with_high_bit(long k)
{
    return k | 1L << 40;
}
FUNCTION unsigned char_masked(uint8_t k)
{
    return k & 0x7f;
}
FUNCTION long as_register(int n)
{
    register int r = n * 3;
    long acc = n;
    for (int i = 0; i < n; i++)
        acc += more(r) + i;
    printf("local as_register r %d\n", r);
    return acc + more(n);
}
FUNCTION void without_result(int n)
{
    register int r = n * 5;
    register long s = n - 1000L;
    sink = twice(r);
    printf("local without_result r %d\nlocal without_result s %ld\n", r, s);
    r = more(n) + more((int)s);
    printf("local without_result r %d\n", r);
    sink = r;
}
FUNCTION struct truth one_truth(int k)
{
    struct truth t = {!k};
    return t;
}
FUNCTION struct truth odd_truth(int k)
{
    struct truth t = {(bool)(k & 1)};
    return t;
}
FUNCTION struct truths truths(int k)
{
    struct truths t = {!k, (bool)(k & 1), k > 3, k};
    return t;
}
FUNCTION struct wide masked_two(long k)
{
    struct wide t = {k & 15, k & ~15L};
    return t;
}

#define RESULT(name, ...) printf(#name " %ld\n", (long)name(__VA_ARGS__))

int main(void)
{
    uint8_t six = 6, seven = 7;
    int stored = 1234;
    for (int i = 0; i < 2; i++) {
        RESULT(negated, i), RESULT(negated_stored, i), RESULT(equal, 3 + i), RESULT(both, 1, i);
        RESULT(not_equal, 3 + i), RESULT(odd, 6u + (unsigned)i), RESULT(odd_long, 6 + i), RESULT(odd_seldom, 1 + i);
        RESULT(odd_sum, 3, 5 + i), RESULT(and_of, true, i), RESULT(or_of, false, i), RESULT(xor_of, true, i);
        RESULT(second_bit, 5 + i), RESULT(third_bit, 3 + i), RESULT(fourth_bit, 7u + (unsigned)i);
        RESULT(negative, -i), RESULT(any, 256 * i), RESULT(not_zero, 0.25 * i), RESULT(is_x, i ? "xy" : "yx");
        RESULT(counted, 6 + i), RESULT(greater, 3 + i), RESULT(lowest, 6 + i);
    }
    RESULT(odd_there, &six), RESULT(odd_there, &seven), RESULT(there, &stored);
    RESULT(inner, 0xfff), RESULT(swapped, 0x1234), RESULT(high_byte, 0x1234), RESULT(other_high, 0x1234);
    RESULT(cut, 5), RESULT(narrow, 20), RESULT(low_byte, 0x1234), RESULT(low_byte_inverted, 0x1234);
    RESULT(with_bits, 0x4001), RESULT(without_bits, 1023), RESULT(long_without_bits, -1023), RESULT(masked_sum, 60, 7);
    RESULT(more, 6), RESULT(twice, 6), RESULT(negative_of, 6), RESULT(inverted, 6), RESULT(as_short, 0x12345);
    RESULT(as_byte, 0x1ff), RESULT(as_unsigned_byte, 0x1ff), RESULT(quarter, 19), RESULT(smaller, 9, 3);
    RESULT(widened, -6), RESULT(widened_unsigned, 4000000000u), RESULT(shifted, 1L << 40), RESULT(with_high_bit, 7);
    RESULT(char_masked, 200), RESULT(as_register, 4);
    without_result(7);
    for (int k = 0; k < 7; k += 2) {
        struct truths all = truths(k);
        struct wide two = masked_two(k - 100);
        printf("one_truth {a = %s}\n", one_truth(k).a ? "true" : "false");
        printf("odd_truth {a = %s}\n", odd_truth(k + k / 4).a ? "true" : "false");
        printf("truths {a = %s, b = %s, c = %s, k = %d}\n", all.a ? "true" : "false", all.b ? "true" : "false",
               all.c ? "true" : "false", all.k);
        printf("masked_two {a = %ld, b = %ld}\n", two.a, two.b);
    }
    return 0;
}
