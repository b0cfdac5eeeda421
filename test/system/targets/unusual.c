/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with arguments whose way into a function is unusual, which print them in the form in which scry shows them
 * (see values.c).
 */
#include <complex.h>
#include <stdio.h>

#define UNTRACED __attribute__((no_instrument_function))
#define TRACED __attribute__((noinline))
#define WITH_AVX2 __attribute__((target("avx2")))

typedef double two_doubles __attribute__((vector_size(16)));
typedef short four_shorts __attribute__((vector_size(8)));
typedef int eight_ints __attribute__((vector_size(32)));

struct packed {
    char c;
    int i;
    double d;
} __attribute__((packed));
struct line { /* of a cache */
    int x;
} __attribute__((aligned(64)));
struct of_32 {
    long x;
} __attribute__((aligned(32)));
struct member_of_32 {
    __attribute__((aligned(32))) int x;
};
struct packed_wide {
    __int128 q;
} __attribute__((packed));
struct one_vector {
    two_doubles v;
};
union vector_or_doubles {
    two_doubles v;
    double d[2];
};
union vector_or_longs {
    two_doubles v;
    long l[2];
};
struct wide_integer {
    __int128 q;
};
struct extended {
    long double l;
};
struct two_longs {
    long a, b;
};
struct float_and_int {
    float f;
    int i;
};

/* ---- more alignment than 16 ---- */

TRACED int aligned_64(int p, struct packed by_value, struct line al)
{
    printf("> aligned_64(p = %d, by_value = {c = '%c', i = %d, d = %g}, al = {x = %d})\n", p, by_value.c, by_value.i,
           by_value.d, al.x);
    return al.x;
}
TRACED int aligned_32(int a, struct of_32 z, int b, int c, int d, int e, int f, int i, struct member_of_32 m, int last)
{
    printf("> aligned_32(a = %d, z = {x = %ld}, b = %d, c = %d, d = %d, e = %d, f = %d, i = %d, m = {x = %d}, last = "
           "%d)\n",
           a, z.x, b, c, d, e, f, i, m.x, last);
    return i;
}
TRACED int extended_on_stack(int a, int b, int c, int d, int e, int f, int g, long double h, int i, struct extended j,
                             int k)
{
    printf(
        "> extended_on_stack(a = %d, b = %d, c = %d, d = %d, e = %d, f = %d, g = %d, h = %Lg, i = %d, j = {l = %Lg}, "
        "k = %d)\n",
        a, b, c, d, e, f, g, h, i, j.l, k);
    return k;
}
TRACED int packed_on_stack(int a, int b, int c, int d, int e, int f, int g, struct packed_wide h, int i)
{
    printf("> packed_on_stack(a = %d, b = %d, c = %d, d = %d, e = %d, f = %d, g = %d, h = {q = %d}, i = %d)\n", a, b, c,
           d, e, f, g, (int)h.q, i);
    return i;
}

/* ---- vectors ---- */

WITH_AVX2 TRACED int long_vector(two_doubles a, eight_ints b, double c, int d, struct packed e)
{
    printf("> long_vector(a = {%g, %g}, b = {%d, %d, %d, %d, %d, %d, %d, %d}, c = %g, d = %d, e = {c = '%c', i = %d, d "
           "= %g})\n",
           a[0], a[1], b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], c, d, e.c, e.i, e.d);
    return d;
}
TRACED int vector_in_struct(struct one_vector a, double b, struct wide_integer c, two_doubles d, four_shorts e, int f)
{
    printf("> vector_in_struct(a = {v = {%g, %g}}, b = %g, c = {q = %d}, d = {%g, %g}, e = {%d, %d, %d, %d}, f = %d)\n",
           a.v[0], a.v[1], b, (int)c.q, d[0], d[1], e[0], e[1], e[2], e[3], f);
    return f;
}
TRACED int vector_in_union(union vector_or_doubles a, double b, union vector_or_longs c, double d, int e)
{
    printf(
        "> vector_in_union(a = {v = {%g, %g}, d = {%g, %g}}, b = %g, c = {v = {%g, %g}, l = {%ld, %ld}}, d = %g, e = "
        "%d)\n",
        a.v[0], a.v[1], a.d[0], a.d[1], b, c.v[0], c.v[1], c.l[0], c.l[1], d, e);
    return e;
}

/* ---- what does not fit the registers that are left ---- */

TRACED int wide_at_the_end(int a, int b, int c, int d, int e, __int128 q, int f, int g)
{
    printf("> wide_at_the_end(a = %d, b = %d, c = %d, d = %d, e = %d, q = %d, f = %d, g = %d)\n", a, b, c, d, e, (int)q,
           f, g);
    return f;
}
TRACED int wide_on_stack(int a, int b, int c, int d, int e, int f, int g, __int128 q, int h, struct of_32 z, int i)
{
    printf("> wide_on_stack(a = %d, b = %d, c = %d, d = %d, e = %d, f = %d, g = %d, q = %d, h = %d, z = {x = %ld}, i = "
           "%d)\n",
           a, b, c, d, e, f, g, (int)q, h, z.x, i);
    return i;
}
TRACED int longs_at_the_end(int a, int b, int c, int d, int e, struct two_longs x, int f, int g)
{
    printf("> longs_at_the_end(a = %d, b = %d, c = %d, d = %d, e = %d, x = {a = %ld, b = %ld}, f = %d, g = %d)\n", a, b,
           c, d, e, x.a, x.b, f, g);
    return g;
}

/* ---- of which only a part is stored ---- */

struct three_parts {
    int a : 20;
    int b : 20;
    int c : 20;
};
TRACED int only_the_last(struct three_parts s, int i)
{
    printf("> only_the_last(s = {a = 7, b = -8, c = %d}, i = %d)\n", s.c, i);
    return s.c;
}

/* ---- other conventions ---- */

__attribute__((ms_abi)) TRACED int microsoft(int a, double b, long c, struct float_and_int d, int e, long f)
{
    printf("> microsoft(a = %d, b = %g, c = %ld, d = {f = %g, i = %d}, e = %d, f = %ld)\n", a, b, c, d.f, d.i, e, f);
    return e;
}
TRACED int old_style(a, c, f, s, d, g)
char a;
short c;
float f;
unsigned short s;
double d;
float g;
{
    printf("> old_style(a = '%c', c = %d, f = %g, s = %u, d = %g, g = %g)\n", a, c, f, s, d, g);
    return s;
}
#ifndef __clang__
TRACED int decimals(_Decimal64 a, int b, _Decimal128 c, double d, _Decimal32 e, float f, int g)
{
    (void)a, (void)c, (void)e;
    printf("> decimals(b = %d, d = %g, f = %g, g = %d)\n", b, d, f, g);
    return g;
}
#endif

WITH_AVX2 UNTRACED int main(void)
{
    struct packed p = {'p', -7, 2.5};
    union vector_or_doubles doubles = {.v = {1.5, 2.5}};
    union vector_or_longs longs = {.l = {0, 0}};
    int r = aligned_64(1, p, (struct line){99});
    r += aligned_32(1, (struct of_32){2}, 3, 4, 5, 6, 7, 8, (struct member_of_32){9}, 10);
    r += extended_on_stack(1, 2, 3, 4, 5, 6, 7, 8.5L, 9, (struct extended){10.5L}, 11);
    r += packed_on_stack(1, 2, 3, 4, 5, 6, 7, (struct packed_wide){8}, 9);
    if (__builtin_cpu_supports("avx2"))
        r += long_vector((two_doubles){1, 2}, (eight_ints){1, 2, 3, 4, 5, 6, 7, -8}, 3.5, 4, p);
    r += vector_in_struct((struct one_vector){{1, 2}}, 3.5, (struct wide_integer){-77}, (two_doubles){4, 5},
                          (four_shorts){6, 7, 8, 9}, 10);
    r += vector_in_union(doubles, 3.5, longs, 4.5, 5);
    r += wide_at_the_end(1, 2, 3, 4, 5, -6, 7, 8);
    r += wide_on_stack(1, 2, 3, 4, 5, 6, 7, -8, 9, (struct of_32){10}, 11);
    r += longs_at_the_end(1, 2, 3, 4, 5, (struct two_longs){6, 7}, 8, 9);
    r += only_the_last((struct three_parts){7, -8, 9}, 10);
    r += microsoft(1, 2.5, 3, (struct float_and_int){4.5F, 5}, 6, 7);
    r += old_style('a', -2, 3.5F, 65535, 4.25, 5.75F);
#ifndef __clang__
    r += decimals(1.5dd, 2, 3.5dl, 4.5, 5.5df, 6.5F, 7);
#endif
    return r == 0;
}
