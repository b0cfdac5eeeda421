/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of C++ with arguments whose way into a function is unusual, which print them in the form in which scry
 * shows them (see values.c).
 */
#include <cstdio>
#include <initializer_list>
#include <string_view>

#define UNTRACED __attribute__((no_instrument_function))
#define TRACED __attribute__((noinline))

struct Empty {
};
struct Root {
    UNTRACED Root() = default;
    UNTRACED virtual ~Root() = default;
    int r = 1;
};
struct Left : virtual Root {
    TRACED Left(int q, double d);
    UNTRACED ~Left() override = default;
    int left;
};
struct Bottom : Left {
    TRACED Bottom(int q, double w, int z);
    UNTRACED ~Bottom() override = default;
    double w;
};
struct alignas(32) Aligned {
    int x;
};

TRACED Left::Left(int q, double d) : left(q)
{
    std::printf("> Left(q = %d, d = %g)\n", q, d);
}
TRACED Bottom::Bottom(int q, double w, int z) : Left(q + z, w), w(w)
{
    std::printf("> Bottom(q = %d, w = %g, z = %d)\n", q, w, z);
}

struct Answer {
    long a[5];
};
TRACED Answer aligned(int k, Empty, Aligned al, int m)
{
    std::printf("> aligned(k = %d, al = {x = %d}, m = %d)\n", k, al.x, m);
    return Answer{{k, al.x, m}};
}
template <class... Args> TRACED int pack(int before, Args... args)
{
    std::printf("> pack(before = %d", before);
#ifdef __clang__
    const char *names[] = {"args", "args#1", "args#2"};
#else /* gives them no names */
    const char *names[] = {"...", "...#1", "...#2"};
#endif
    int i = 0;
    (void)std::initializer_list<int>{(std::printf(", %s = %d", names[i++], (int)args), 0)...};
    std::printf(")\n");
    return i;
}

/* Of which only the length is kept, where that is noticed. */
TRACED long viewed(std::string_view v, int n)
{
    std::printf("> viewed(v = \"view\", n = %d)\n", n);
    return (long)v.size() + n;
}

UNTRACED int main()
{
    Left left(25, 1.5);
    Bottom bottom(26, 2.5, 27);
    int r = left.left + bottom.left + (int)aligned(1, Empty(), Aligned{2}, 3).a[2];
    r += pack(1, 2, 3L, (short)4) + pack(5) + pack(6, 7) + (int)viewed(std::string_view("view it", 4), 9);
    return r == 0;
}
