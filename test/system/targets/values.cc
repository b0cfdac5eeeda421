// SPDX-License-Identifier: Apache-2.0
// What values.c is for C: functions that print their own arguments, locals and results in scry's form.
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

namespace shapes
{
enum class Colour : unsigned char { red, green, blue };

struct Point {
    int x;
    double y;
};

class Base
{
  public:
    explicit Base(int id) : id(id)
    {
    }
    virtual ~Base() = default;
    TRACED virtual int area(int scale) const
    {
        say("> area(this = %p -> {id = %d}, scale = %d)", (const void *)this, id, scale);
        int result = id * scale;
        say("< area: result = %d = %d", result, result);
        return result;
    }
    static int made;

  protected:
    int id;
};
int Base::made = 3;

struct Tag {
    char tag = 't';
};

class Square : public Base, public Tag
{
  public:
    Square(int id, int side) : Base(id), side(side)
    {
    }
    TRACED int area(int scale) const override
    {
        say("> area(this = %p -> {<Base> = {id = %d}, <Tag> = {tag = '%c'}, side = %d}, scale = %d)",
            (const void *)this, id, tag, side, scale);
        int own = side * side;
        say("< area: own = %d = %d", own, own * scale);
        return own * scale;
    }
    TRACED void grow(int by)
    {
        say("> grow(this = %p -> {<Base> = {id = %d}, <Tag> = {tag = '%c'}, side = %d}, by = %d)", (const void *)this,
            id, tag, side, by);
        side += by;
        say("< grow: ");
    }

  private:
    int side;
};

struct Top {
    int top = 1;
    UNTRACED virtual ~Top()
    {
    }
};
struct Left : virtual Top {
    int left = 2;
};
struct Right : virtual Top {
    int right = 3;
};
struct Bottom : Left, Right {
    int bottom = 4;
};

TRACED int diamond(const Bottom &whole, const Right &part, const Top *top)
{
    say("> diamond(whole = {<Left> = {<Top> = {top = 1}, left = 2}, <Right> = {<Top> = {top = 1}, right = 3}, bottom = "
        "4}, part = {<Top> = {top = 1}, right = 3}, top = %p -> {top = 1})",
        (const void *)top);
    int sum = whole.bottom + part.right + top->top;
    say("< diamond: sum = %d = %d", sum, sum);
    return sum;
}

TRACED Colour mix(Colour a, const Colour &b)
{
    say("> mix(a = Colour::red, b = Colour::blue)");
    Colour result = a == b ? a : Colour::green;
    say("< mix: result = Colour::green = Colour::green");
    return result;
}
} // namespace shapes

using shapes::Point;

// passed and returned by address, as it cannot be copied as bytes
struct Owner {
    int id;
    UNTRACED explicit Owner(int id) : id(id)
    {
    }
    UNTRACED Owner(const Owner &other) : id(other.id + 1)
    {
    }
    UNTRACED ~Owner()
    {
        id = 0;
    }
};

TRACED int references(int &r, const Point &p, int &&moved, Point *&pointer)
{
    say("> references(r = %d, p = {x = %d, y = %g}, moved = %d, pointer = %p -> {x = %d, y = %g})", r, p.x, p.y, moved,
        (void *)pointer, pointer->x, pointer->y);
    r += moved;
    int &again = r;
    say("< references: again = %d = %d", again, r);
    return r;
}

TRACED std::size_t strings(std::string by_value, const std::string &by_reference, std::string *pointer,
                           std::string_view view)
{
    say("> strings(by_value = \"%s\", by_reference = \"%.40s\"..., pointer = %p -> \"%s\", view = \"%.*s\")",
        by_value.c_str(), by_reference.c_str(), (void *)pointer, pointer->c_str(), (int)view.size(), view.data());
    std::string sum = by_value + *pointer;
    std::size_t length = sum.size();
    say("< strings: sum = <not available>, length = %zu = %zu", length, length); // destroyed before the exit hook
    return length;
}

TRACED int vectors(const std::vector<int> &ints, std::vector<std::string> strings, std::vector<Point> *points,
                   const std::vector<double> &empty, const std::vector<std::vector<int>> &nested)
{
    say("> vectors(ints = {%d, %d, %d}, strings = {\"%s\", \"%s\"}, points = %p -> {{x = %d, y = %g}, {x = %d, y = "
        "%g}}, "
        "empty = {}, nested = {{%d}, {%d, %d}})",
        ints[0], ints[1], ints[2], strings[0].c_str(), strings[1].c_str(), (void *)points, (*points)[0].x,
        (*points)[0].y, (*points)[1].x, (*points)[1].y, nested[0][0], nested[1][0], nested[1][1]);
    std::vector<short> made(20, 7);
    int count = (int)made.size();
    say("< vectors: made = <not available>, count = %d = %d", count, count);
    return count;
}

TRACED Owner owners(Owner owner, int n)
{
    say("> owners(owner = {id = %d}, n = %d)", owner.id, n);
    Owner result(owner.id * n);
    say("< owners: result = <not available> = {id = %d}", result.id);
    return result;
}

TRACED int smart(std::unique_ptr<Point> owned, const std::shared_ptr<int> &shared, std::nullptr_t null)
{
    say("> smart(owned = %p -> {x = %d, y = %g}, shared = %p -> %d, null = 0x0)", (void *)owned.get(), owned->x,
        owned->y, (void *)shared.get(), *shared);
    int sum = owned->x + *shared;
    say("< smart: sum = %d = %d", sum, sum);
    return sum;
}

template <typename T> TRACED T largest(T a, T b)
{
    T result = a < b ? b : a;
    return result;
}

TRACED long overloaded(int n)
{
    say("> overloaded(n = %d)", n);
    long result = n;
    say("< overloaded: result = %ld = %ld", result, result);
    return result;
}

TRACED double overloaded(double d)
{
    say("> overloaded(d = %g)", d);
    double result = d / 2;
    say("< overloaded: result = %g = %g", result, result);
    return result;
}

TRACED int lambdas(int n)
{
    say("> lambdas(n = %d)", n);
    int sum = [n](int m) UNTRACED { return n + m; }(5);
    say("< lambdas: sum = %d = %d", sum, sum);
    return sum;
}

int main()
{
    Point p{1, 2.5}, *at = &p;
    std::string name = "a pointed-to string";
    std::vector<Point> points{{1, 1.5}, {2, 2.5}};
    int number = 40;
    references(number, p, 2, at);
    strings("short", "a string that is longer than the forty characters shown", &name, "viewed");
    vectors({1, 2, 3}, {"one", "a string of more than fifteen"}, &points, {}, {{1}, {2, 3}});
    owners(Owner(20), 2);
    smart(std::make_unique<Point>(p), std::make_shared<int>(9), nullptr);
    shapes::Base base(4);
    shapes::Square square(5, 6);
    base.area(2);
    square.area(3);
    square.grow(1);
    const shapes::Base &virtual_base = square;
    virtual_base.area(2);
    shapes::Bottom bottom;
    shapes::diamond(bottom, bottom, &bottom);
    shapes::mix(shapes::Colour::red, shapes::Colour::blue);
    largest(1, 2);
    largest(1.5, 0.5);
    overloaded(3);
    overloaded(5.0);
    lambdas(37);
    return 0;
}
