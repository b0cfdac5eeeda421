/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that print their own arguments, locals and results, in the form in which scry shows them:
 *
 *     > NAME(ARGUMENTS)            first thing
 *     < NAME: LOCALS = RESULT      last thing
 *
 * A local that has been printed at the end is kept alive by that only up to there: optimised code may forget it.
 */
#include <complex.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#define UNTRACED __attribute__((no_instrument_function))
#define TRACED __attribute__((noinline))

UNTRACED __attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

struct point {
    int x;
    double y;
};
struct small {
    char a;
    short b;
};
struct floats {
    float u, v;
};
struct longs {
    long first, second;
};
struct mixed {
    long i;
    double d;
};
struct big {
    long a[5];
    struct point p;
};
struct bits {
    unsigned low : 3;
    int middle : 5;
    bool flag : 1;
    unsigned long high : 40;
};
struct __attribute__((packed)) packed {
    char c;
    int i;
    double d;
};
struct unnamed {
    int kind;
    union {
        int i;
        struct {
            short s, t;
        };
    };
};
union either {
    int i;
    unsigned u;
};
struct node {
    int value;
    struct node *next;
};
struct holder {
    const char *name;
    int (*function)(int);
    int counts[3];
};
enum colour { RED, GREEN, BLUE = 7 };
enum flags { NONE = 0, READ = 1, WRITE = 2, EXECUTE = 4 };
typedef unsigned long count_t;
typedef struct point point_t;

#define POINT "{x = %d, y = %g}"

TRACED int integers(char a, signed char b, unsigned char c, short d, unsigned short e, int f, unsigned g, long h,
                    unsigned long i, long long j, bool k)
{
    say("> integers(a = '%c', b = %d, c = %d, d = %d, e = %d, f = %d, g = %u, h = %ld, i = %lu, j = %lld, k = %s)", a,
        b, c, d, e, f, g, h, i, j, k ? "true" : "false");
    int sum = a + b + c + d + e + f;
    unsigned long product = g * i;
    say("< integers: sum = %d, product = %lu = %d", sum, product, sum);
    return sum;
}

TRACED __int128 wide(__int128 a, unsigned __int128 b, int after)
{
    say("> wide(a = %lld, b = %lld, after = %d)", (long long)a, (long long)b, after);
    __int128 sum = a + (__int128)b;
    say("< wide: sum = %lld = %lld", (long long)sum, (long long)sum);
    return sum;
}

TRACED double floats(float a, double b, long double c, float complex d, double complex e)
{
    say("> floats(a = %g, b = %g, c = %Lg, d = %g + %gi, e = %g %c %gi)", (double)a, b, c, (double)crealf(d),
        (double)cimagf(d), creal(e), cimag(e) < 0 ? '-' : '+', cimag(e) < 0 ? -cimag(e) : cimag(e));
    double total = a + b;
    float half = (float)total / 2;
    long double same = c;
    say("< floats: total = %g, half = %g, same = %Lg = %g", total, (double)half, same, total);
    return total;
}

TRACED double many(double a, double b, double c, double d, double e, double f, double g, double h, double i, int n,
                   double j)
{
    say("> many(a = %g, b = %g, c = %g, d = %g, e = %g, f = %g, g = %g, h = %g, i = %g, n = %d, j = %g)", a, b, c, d, e,
        f, g, h, i, n, j);
    double last = i + j + n;
    say("< many: last = %g = %g", last, last);
    return last;
}

TRACED enum colour enums(enum colour c, enum flags both, enum flags more, enum colour none)
{
    say("> enums(c = BLUE, both = READ|EXECUTE, more = WRITE|0x20, none = %d)", (int)none);
    enum colour next = GREEN;
    say("< enums: next = GREEN = GREEN");
    return next;
}

TRACED const char *strings(const char *s, char *null, const char *cut, const char *escaped, const char *bad)
{
    say("> strings(s = \"%s\", null = 0x0, cut = \"%.40s\"..., escaped = \"tab\\t\\\"quoted\\\"\\n\", bad = <invalid "
        "0x%lx>)",
        s, cut, (unsigned long)bad);
    char copy[16] = "copied";
    const char *result = s + 1;
    say("< strings: copy = \"%s\", result = \"%s\" = \"%s\"", copy, result, result);
    return result;
}

TRACED int *pointers(struct point *p, int *i, int **ii, void *v, struct point *null, struct point *bad)
{
    say("> pointers(p = %p -> " POINT ", i = %p -> %d, ii = %p -> %p -> %d, v = %p, null = 0x0, bad = <invalid %p>)",
        (void *)p, p->x, p->y, (void *)i, *i, (void *)ii, (void *)*ii, **ii, v, (void *)bad);
    struct point *again = p;
    say("< pointers: again = %p -> " POINT " = %p -> %d", (void *)again, again->x, again->y, (void *)i, *i);
    return i;
}

TRACED struct point structs(struct point p, struct small s, struct floats f, struct longs l, struct mixed m,
                            struct big b)
{
    say("> structs(p = " POINT ", s = {a = '%c', b = %d}, f = {u = %g, v = %g}, l = {first = %ld, second = %ld}, "
        "m = {i = %ld, d = %g}, b = {a = {%ld, %ld, %ld, %ld, %ld}, p = " POINT "})",
        p.x, p.y, s.a, s.b, (double)f.u, (double)f.v, l.first, l.second, m.i, m.d, b.a[0], b.a[1], b.a[2], b.a[3],
        b.a[4], b.p.x, b.p.y);
    struct point sum = {p.x + b.p.x, p.y + b.p.y};
    say("< structs: sum = " POINT " = " POINT, sum.x, sum.y, sum.x, sum.y);
    return sum;
}

TRACED struct small result_small(int n)
{
    say("> result_small(n = %d)", n);
    struct small s = {(char)('a' + n), (short)n};
    say("< result_small: s = {a = '%c', b = %d} = {a = '%c', b = %d}", s.a, s.b, s.a, s.b);
    return s;
}

TRACED struct floats result_floats(float a, float b)
{
    say("> result_floats(a = %g, b = %g)", (double)a, (double)b);
    struct floats f = {b, a};
    say("< result_floats: f = {u = %g, v = %g} = {u = %g, v = %g}", (double)f.u, (double)f.v, (double)f.u, (double)f.v);
    return f;
}

TRACED struct mixed result_mixed(long i)
{
    say("> result_mixed(i = %ld)", i);
    struct mixed m = {i, (double)i / 2};
    say("< result_mixed: m = {i = %ld, d = %g} = {i = %ld, d = %g}", m.i, m.d, m.i, m.d);
    return m;
}

#define BIG "{a = {%ld, %ld, %ld, %ld, %ld}, p = " POINT "}"
#define BIG_OF(b) b.a[0], b.a[1], b.a[2], b.a[3], b.a[4], b.p.x, b.p.y

TRACED struct big result_big(int n)
{
    say("> result_big(n = %d)", n);
    struct big made = {{n, 2, 3, 4, 5}, {n, 0.5}};
    say("< result_big: made = " BIG " = " BIG, BIG_OF(made), BIG_OF(made));
    return made;
}

TRACED bool results(short n)
{
    say("> results(n = %d)", n);
    bool even = n % 2 == 0;
    char letter = (char)('a' + n);
    say("< results: even = %s, letter = '%c' = %s", even ? "true" : "false", letter, even ? "true" : "false");
    return even;
}

TRACED long double result_long_double(long double n)
{
    say("> result_long_double(n = %Lg)", n);
    long double half = n / 2;
    say("< result_long_double: half = %Lg = %Lg", half, half);
    return half;
}

TRACED float result_float(float n)
{
    say("> result_float(n = %g)", (double)n);
    float twice = n * 2;
    say("< result_float: twice = %g = %g", (double)twice, (double)twice);
    return twice;
}

TRACED char result_char(char c)
{
    say("> result_char(c = '%c')", c);
    char next = (char)(c + 1);
    say("< result_char: next = '%c' = '%c'", next, next);
    return next;
}

TRACED void arrays(const int numbers[], int n)
{
    say("> arrays(numbers = %p -> %d, n = %d)", (const void *)numbers, numbers[0], n);
    int four[4] = {n, 2, 3, 4};
    double grid[2][2] = {{1, 2}, {3, n}};
    int zeros[14] = {n};
    int twenty[20] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, n};
    char full[4] = {'a', 'b', 'c', 'd'};
    struct point two[2] = {{1, 1.5}, {n, 2.5}};
    volatile int *keep[] = {four, zeros, twenty};
    say("< arrays: four = {%d, %d, %d, %d}, grid = {{%g, %g}, {%g, %g}}, zeros = {%d, 0 <repeats 13 times>}, "
        "twenty = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, ...}, full = \"%.4s\", "
        "two = {" POINT ", " POINT "}, keep = {%p -> %d, %p -> %d, %p -> %d}",
        four[0], four[1], four[2], four[3], grid[0][0], grid[0][1], grid[1][0], grid[1][1], zeros[0], full, two[0].x,
        two[0].y, two[1].x, two[1].y, (void *)keep[0], *keep[0], (void *)keep[1], *keep[1], (void *)keep[2], *keep[2]);
}

#define BITS "{low = %u, middle = %d, flag = %s, high = %lu}"
#define BITS_OF(b) b.low, b.middle, b.flag ? "true" : "false", (unsigned long)b.high

TRACED void bit_fields(struct bits by_value, struct bits *pointer)
{
    say("> bit_fields(by_value = " BITS ", pointer = %p -> " BITS ")", BITS_OF(by_value), (void *)pointer,
        BITS_OF((*pointer)));
    struct bits local = by_value;
    local.middle = -16;
    say("< bit_fields: local = " BITS, BITS_OF(local));
}

TRACED int odd_structs(struct packed p, struct unnamed u, union either e, struct packed *at)
{
    say("> odd_structs(p = {c = '%c', i = %d, d = %g}, u = {kind = %d, {i = %d, {s = %d, t = %d}}}, e = {i = %d, u = "
        "%u}, "
        "at = %p -> {c = '%c', i = %d, d = %g})",
        p.c, p.i, p.d, u.kind, u.i, u.s, u.t, e.i, e.u, (void *)at, at->c, at->i, at->d);
    union either other = {.i = -1};
    say("< odd_structs: other = {i = %d, u = %u} = %d", other.i, other.u, other.i);
    return other.i;
}

TRACED int twice(int n)
{
    say("> twice(n = %d)", n);
    int doubled = 2 * n;
    say("< twice: doubled = %d = %d", doubled, doubled);
    return doubled;
}

TRACED int functions(int (*function)(int), struct holder h)
{
    say("> functions(function = %p <twice>, h = {name = \"%s\", function = %p <twice>, counts = {%d, %d, %d}})",
        (void *)function, h.name, (void *)h.function, h.counts[0], h.counts[1], h.counts[2]);
    int result = function(h.counts[0]);
    say("< functions: result = %d = %d", result, result);
    return result;
}

TRACED int lists(struct node *list)
{
    say("> lists(list = %p -> {value = %d, next = %p -> {value = %d, next = %p}})", (void *)list, list->value,
        (void *)list->next, list->next->value, (void *)list->next->next);
    int length = 0;
    for (struct node *at = list; length < 5; at = at->next)
        length++;
    say("< lists: length = %d = %d", length, length);
    return length;
}

TRACED int variadic(int n, const char *kind, ...)
{
    say("> variadic(n = %d, kind = \"%s\")", n, kind);
    int sum = 0;
    va_list args;
    va_start(args, kind);
    for (int i = 0; i < n; i++)
        sum += va_arg(args, int);
    va_end(args);
    return sum;
}

TRACED count_t typedefs(count_t n, const point_t *p, const volatile int c)
{
    say("> typedefs(n = %lu, p = %p -> " POINT ", c = %d)", n, (const void *)p, p->x, p->y, c);
    count_t next = n + 1;
    {
        int inner = c;
        say("< typedefs: next = %lu = %lu", next, next + (count_t)inner);
    }
    return next + (count_t)c;
}

TRACED long factorial(int n)
{
    say("> factorial(n = %d)", n);
    long result = n < 2 ? 1 : n * factorial(n - 1);
    say("< factorial: result = %ld = %ld", result, result);
    return result;
}

TRACED void statics(int n)
{
    say("> statics(n = %d)", n);
    static int calls;
    int before = calls;
    calls += n;
    say("< statics: before = %d", before);
}

TRACED int big_frame(int n)
{
    say("> big_frame(n = %d)", n);
    char buffer[20000] = "large";
    buffer[19999] = (char)n;
    say("< big_frame: buffer = \"%s\" = %d", buffer, buffer[19999]);
    return buffer[19999];
}

static inline int inlined(int n, double x)
{
    say("> inlined(n = %d, x = %g)", n, x);
    int sum = n + (int)x;
    say("< inlined: sum = %d = %d", sum, sum);
    return sum;
}

TRACED int calls_inlined(int n)
{
    say("> calls_inlined(n = %d)", n);
    int a = inlined(n, 1.5);
    int b = inlined(a * n, 2.5);
    say("< calls_inlined: a = %d, b = %d = %d", a, b, a + b);
    return a + b;
}

int main(void)
{
    struct point p = {1, 2.5}, second = {3, 4.5};
    struct big b = {{1, 2, 3, 4, 5}, {6, 7.5}};
    struct bits bits = {5, -3, true, 123456789012};
    struct node nodes[2] = {{1, &nodes[1]}, {2, &nodes[0]}};
    struct packed packed = {'p', 12, 0.25};
    struct holder holder = {"holder", twice, {21, 22, 23}};
    int number = 42, *at = &number;
    integers('x', -5, 200, -300, 60000, -70000, 4000000000u, -5000000000, 18000000000000000000ul, -6, true);
    wide(-12345678901234, 98765432109876, 3);
    floats(1.5f, 2.25, 3.125L, 1.5f + 2.5f * I, 3.5 - 4.5 * I);
    many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    enums(BLUE, READ | EXECUTE, WRITE | 0x20, (enum colour)3);
    strings("text", NULL, "a string that has more than forty characters in all", "tab\t\"quoted\"\n", (char *)8);
    pointers(&p, &number, &at, &number, NULL, (struct point *)0x123456);
    structs(p, (struct small){'s', -2}, (struct floats){0.5f, 1.5f}, (struct longs){-1, 1}, (struct mixed){9, 0.125},
            b);
    result_small(2);
    result_floats(1.25f, 2.5f);
    result_mixed(11);
    result_big(12);
    results(4);
    result_long_double(5);
    result_float(0.75f);
    result_char('q');
    arrays((int[]){5, 6}, 9);
    bit_fields(bits, &bits);
    odd_structs(packed, (struct unnamed){1, {0x20003}}, (union either){.i = -2}, &packed);
    functions(twice, holder);
    lists(nodes);
    variadic(3, "ints", 1, 2, 3);
    typedefs(7, &second, 8);
    factorial(5);
    statics(2);
    statics(3);
    big_frame(17);
    calls_inlined(4);
    return 0;
}
