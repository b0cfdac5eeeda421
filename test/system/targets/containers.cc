// SPDX-License-Identifier: Apache-2.0
// What values.cc is for the containers of the C++ library: functions that print their own arguments, locals and results
// in scry's form. With broken ones, too: what is not there, or contradicts itself, must not be shown as if it were.
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
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

struct Point {
    int x;
    double y;
};

// as scry shows them
UNTRACED static std::string text(int n)
{
    return std::to_string(n);
}
UNTRACED static std::string text(char c)
{
    return std::string("'") + c + "'";
}
UNTRACED static std::string text(const std::string &s)
{
    return "\"" + s + "\"";
}
UNTRACED static std::string text(const Point &p)
{
    char line[64];
    snprintf(line, sizeof line, "{x = %d, y = %g}", p.x, p.y);
    return line;
}
template <typename T> UNTRACED static std::string items(const T &all, std::size_t size)
{
    std::string line = "{";
    std::size_t shown = 0;
    for (const auto &one : all) {
        if (shown == 16)
            break;
        line += (shown++ ? ", " : "") + text(one);
    }
    return line + (shown < size ? ", ...}" : "}");
}
template <typename T> UNTRACED static std::string items(const T &all)
{
    return items(all, all.size());
}
template <typename T> UNTRACED static std::string entries(const T &all)
{
    std::string line = "{";
    std::size_t shown = 0;
    for (const auto &[key, value] : all) {
        if (shown == 16)
            break;
        line += (shown++ ? ", [" : "[") + text(key) + "] = " + text(value);
    }
    return line + (shown < all.size() ? ", ...}" : "}");
}

TRACED int strings(const std::string &empty, const std::string &local, const std::string &full, const std::string &heap,
                   std::string_view view, const std::wstring &wide, const std::u16string &wide_heap)
{
    say("> strings(empty = \"\", local = \"short\", full = %s, heap = %s, view = \"view\", wide = \"wide\", "
        "wide_heap = \"a long one of 16 bits\")",
        text(full).c_str(), text(heap).c_str());
    say("< strings: = 5");
    return (int)local.size();
}

TRACED std::size_t vectors(const std::vector<int> &numbers, const std::vector<bool> &bits,
                           const std::vector<bool> &no_bits, const std::vector<std::string> &strings,
                           const std::vector<std::vector<std::string>> &nested, const std::array<int, 3> &array,
                           const std::array<std::string, 2> &names)
{
    say("> vectors(numbers = %s, bits = {true, false, true, true, false <repeats 11 times>, true, "
        "...}, no_bits = {}, strings = {\"a\", \"b\"}, nested = {{\"c\"}, {}, "
        "{\"d\", \"e\"}}, array = {1, 2, 3}, names = {\"one\", \"two\"})",
        items(numbers).c_str());
    say("< vectors: = %zu", bits.size());
    return bits.size();
}

TRACED int lists(const std::list<int> &empty, std::list<std::string> strings, const std::list<char> &chars,
                 const std::list<int> &many, const std::forward_list<int> &forward,
                 const std::forward_list<int> &forward_empty, const std::forward_list<int> &forward_many)
{
    say("> lists(empty = {}, strings = {\"a\", \"b\"}, chars = {'x', 'y'}, many = %s, forward = {7, 8}, "
        "forward_empty = {}, forward_many = %s)",
        items(many).c_str(), items(forward_many, 17).c_str());
    say("< lists: = 2");
    return (int)strings.size();
}

TRACED int deques(const std::deque<int> &empty, const std::deque<int> &few, const std::deque<std::string> &wrapped,
                  const std::deque<Point> &points, const std::queue<int> &queue, const std::stack<char> &stack,
                  const std::priority_queue<int> &heap)
{
    say("> deques(empty = {}, few = {1, 2, 3}, wrapped = %s, points = {{x = 1, y = 1.5}}, queue = {4, 5}, stack = "
        "{'a'}, heap = {9})",
        items(wrapped).c_str());
    say("< deques: = 3");
    return (int)few.size();
}

TRACED int trees(const std::map<int, std::string> &empty, const std::map<std::string, int> &ages,
                 const std::map<int, Point> &points, const std::map<char, char> &chars, const std::set<char> &set,
                 const std::multiset<int> &many, const std::multimap<int, std::vector<int>> &multi,
                 const std::map<std::string, std::map<int, std::string>> &nested)
{
    say("> trees(empty = {}, ages = %s, points = %s, chars = %s, set = %s, many = %s, multi = {[1] = {1, 2}, [1] = {}}, "
        "nested = {[\"n\"] = {[1] = \"one\"}})",
        entries(ages).c_str(), entries(points).c_str(), entries(chars).c_str(), items(set).c_str(),
        items(many).c_str());
    say("< trees: = %zu", many.size());
    return (int)many.size();
}

TRACED int hashed(const std::unordered_map<std::string, int> &ages, const std::unordered_set<int> &set,
                  const std::unordered_map<int, char> &empty, const std::unordered_multimap<char, double> &multi,
                  const std::unordered_set<std::string> &strings)
{
    say("> hashed(ages = %s, set = %s, empty = {}, multi = {['a'] = 1.5}, strings = %s)", entries(ages).c_str(),
        items(set).c_str(), items(strings).c_str());
    say("< hashed: = 2");
    return (int)ages.size();
}

struct Thrower {
    int n = 0;
    UNTRACED explicit Thrower(int)
    {
        throw 1;
    }
    UNTRACED Thrower(const Thrower &other) : n(other.n)
    {
    }
    UNTRACED ~Thrower()
    {
    }
};

using Either = std::variant<int, std::string, Point, Thrower>;

TRACED int alternatives(const std::optional<int> &none, const std::optional<std::string> &some, const Either &number,
                        const Either &string, const Either &point, const Either &valueless,
                        const std::optional<std::vector<int>> &numbers)
{
    say("> alternatives(none = nullopt, some = \"some\", number = 5, string = \"text\", point = {x = 1, y = 2.5}, "
        "valueless = valueless, numbers = {1, 2})");
    say("< alternatives: = %d", number.index() == 0);
    return number.index() == 0;
}

TRACED int tuples(const std::tuple<int, std::string, char> &three, const std::tuple<std::tuple<int, char>, double> &nested,
                  const std::pair<int, std::string> &pair, const std::tuple<> &empty, std::span<int> span,
                  std::span<const short, 2> fixed, std::initializer_list<int> list, const std::atomic<int> &atomic)
{
    say("> tuples(three = {1, \"two\", 'c'}, nested = {{4, 'd'}, 5.5}, pair = {first = 6, second = \"seven\"}, empty = {}, span = "
        "{1, 2, 3}, fixed = {4, 5}, list = {8, 9}, atomic = 10)");
    say("< tuples: = 3");
    return (int)span.size();
}

struct Deleter {
    int calls;
    UNTRACED void operator()(Point *p) const
    {
        delete p;
    }
};

TRACED int pointers(const std::unique_ptr<Point> &owned, const std::unique_ptr<Point, Deleter> &deleter,
                    const std::unique_ptr<int[]> &array, const std::shared_ptr<std::string> &shared,
                    const std::weak_ptr<std::string> &weak, const std::weak_ptr<int> &expired,
                    const std::weak_ptr<int> &none, const std::shared_ptr<int> &null)
{
    say("> pointers(owned = %p -> {x = 1, y = 2.5}, deleter = %p -> {x = 3, y = 4.5}, array = %p, shared = %p -> "
        "\"shared\", weak = %p -> \"shared\", expired = expired, none = expired, null = 0x0)",
        (void *)owned.get(), (void *)deleter.get(), (void *)array.get(), (void *)shared.get(),
        (void *)weak.lock().get());
    say("< pointers: = 1");
    return owned->x;
}

TRACED int functions(const std::function<int(int)> &none, const std::function<int(int)> &some)
{
    say("> functions(none = empty, some = <function>)");
    say("< functions: = 3");
    return none ? 1 : some(1);
}

struct Texts {
    const char *name;
    const char *list[2];
    Texts *next;
};

TRACED int texts(const Texts &all, char **arguments, const std::vector<const char *> &strings,
                 const std::map<int, const char *> &named)
{
    say("> texts(all = {name = \"first\", list = {\"a\", \"b\"}, next = %p -> {name = \"second\", list = {\"c\", 0x0}, "
        "next = %p -> {name = \"third\", list = {0x0, 0x0}, next = 0x0}}}, arguments = %p -> \"argument\", strings = {\"d\", \"e\"}, named = "
        "{[1] = \"f\"})",
        (void *)all.next, (void *)all.next->next, (void *)arguments);
    say("< texts: = 0");
    return 0;
}

// memory in which no container was made, or which was written over
TRACED int broken(const std::string &string, const std::vector<int> &vector, const std::list<int> &list,
                  const std::map<int, int> &map, const std::unordered_set<int> &set, const std::deque<int> &deque,
                  const std::vector<bool> &bits, const std::optional<int> &optional, const Either &variant,
                  const std::forward_list<int> &forward)
{
    say("> broken(string = <not available>, vector = <not available>, list = <not available>, map = <not available>, "
        "set = <not available>, deque = <not available>, bits = <not available>, optional = <not available>, variant = "
        "<not available>, forward = <not available>)");
    say("< broken: = 1");
    return 1;
}

// a circle where there should be an end, a size that is too large, a node without a parent
TRACED int inconsistent(const std::list<int> &list, const std::map<int, int> &map, const std::unordered_set<int> &set)
{
    say("> inconsistent(list = <not available>, map = <not available>, set = <not available>)");
    say("< inconsistent: = 1");
    return 1;
}

template <typename T> struct Raw {
    alignas(T) unsigned char bytes[sizeof(T)];
    UNTRACED explicit Raw(int with)
    {
        memset(bytes, with, sizeof bytes);
    }
    UNTRACED const T &get() const
    {
        return *reinterpret_cast<const T *>(bytes);
    }
};

UNTRACED static void break_them()
{
    Raw<std::string> string(0x5a);
    Raw<std::vector<int>> vector(0x5a);
    for (std::size_t i = 8; i < 16; i++) // it would end before it begins
        vector.bytes[i] = 0x10;
    Raw<std::list<int>> list(0x5a);
    Raw<std::map<int, int>> map(0x5a);
    Raw<std::unordered_set<int>> set(0x5a);
    Raw<std::deque<int>> deque(0x5a);
    Raw<std::vector<bool>> bits(0xff);
    for (std::size_t i = 16; i < 24; i++)
        bits.bytes[i] = 0x01;
    Raw<std::optional<int>> optional(0x5a);
    Raw<Either> variant(0x5a);
    Raw<std::forward_list<int>> forward(0x5a);
    broken(string.get(), vector.get(), list.get(), map.get(), set.get(), deque.get(), bits.get(), optional.get(),
           variant.get(), forward.get());

    // copies of the bytes only: their nodes lead back to somebody else
    std::list<int> good_list{1, 2};
    std::map<int, int> good_map{{1, 2}};
    std::unordered_set<int> good_set{1, 2};
    Raw<std::list<int>> moved_list(0);
    Raw<std::map<int, int>> moved_map(0);
    Raw<std::unordered_set<int>> larger_set(0);
    memcpy(moved_list.bytes, &good_list, sizeof good_list);
    memcpy(moved_map.bytes, &good_map, sizeof good_map);
    memcpy(larger_set.bytes, &good_set, sizeof good_set);
    larger_set.bytes[24] += 3; // of both libraries the number of elements
    inconsistent(moved_list.get(), moved_map.get(), larger_set.get());
}

int main()
{
    std::string long_one = "a string that is not in itself";
    strings("", "short", std::string(15, 'f'), long_one, "view", L"wide", u"a long one of 16 bits");

    std::vector<int> numbers;
    for (int i = 0; i < 20; i++)
        numbers.push_back(i);
    std::vector<bool> bits(130, false);
    bits[0] = bits[2] = bits[3] = bits[15] = true;
    vectors(numbers, bits, {}, {"a", "b"}, {{"c"}, {}, {"d", "e"}}, {1, 2, 3}, {"one", "two"});

    std::list<int> many(numbers.begin(), numbers.end());
    std::forward_list<int> forward_many(numbers.begin(), numbers.end());
    lists({}, {"a", "b"}, {'x', 'y'}, many, {7, 8}, {}, forward_many);

    std::deque<std::string> wrapped;
    for (int i = 0; i < 200; i++) { // over several blocks, and not from the first one on
        wrapped.push_back("element " + std::to_string(i));
        if (i >= 12)
            wrapped.pop_front();
    }
    std::queue<int> queue;
    queue.push(4);
    queue.push(5);
    std::stack<char> stack;
    stack.push('a');
    std::priority_queue<int> heap;
    heap.push(9);
    deques({}, {1, 2, 3}, wrapped, {{1, 1.5}}, queue, stack, heap);

    std::map<std::string, int> ages;
    std::multiset<int> multiset;
    for (int i = 0; i < 40; i++) {
        if (i < 9)
            ages["key " + std::to_string(i * 7 % 10)] = i;
        multiset.insert(i * 17 % 41);
    }
    trees({}, ages, {{1, {1, 1.5}}, {2, {2, 2.5}}}, {{'a', 'b'}, {'c', 'd'}}, {'z', 'y', 'x'}, multiset,
          {{1, {1, 2}}, {1, {}}}, {{"n", {{1, "one"}}}});
    hashed({{"one", 1}, {"two", 2}}, {5, 6, 7, 8}, {}, {{'a', 1.5}}, {"x", "yy"});

    Either valueless = 1;
    try {
        valueless.emplace<Thrower>(1);
    } catch (int) {
    }
    alternatives({}, "some", 5, "text", Point{1, 2.5}, valueless, std::vector<int>{1, 2});

    int span[] = {1, 2, 3};
    const short fixed[] = {4, 5};
    std::atomic<int> atomic(10);
    tuples({1, "two", 'c'}, {{4, 'd'}, 5.5}, {6, "seven"}, {}, span, fixed, {8, 9}, atomic);

    auto shared = std::make_shared<std::string>("shared");
    std::weak_ptr<int> expired;
    {
        auto gone = std::make_shared<int>(1);
        expired = gone;
    }
    pointers(std::make_unique<Point>(Point{1, 2.5}), std::unique_ptr<Point, Deleter>(new Point{3, 4.5}, Deleter{1}),
             std::make_unique<int[]>(3), shared, shared, expired, {}, nullptr);
    functions(nullptr, [](int n) UNTRACED { return n + 2; });

    Texts third{"third", {nullptr, nullptr}, nullptr}, second{"second", {"c", nullptr}, &third},
        first{"first", {"a", "b"}, &second};
    char argument[] = "argument", *arguments[] = {argument, nullptr};
    texts(first, arguments, {"d", "e"}, {{1, "f"}});
    break_them();
    return 0;
}
