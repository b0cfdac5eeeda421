// SPDX-License-Identifier: Apache-2.0
// The C++ library's types in a job: what replay shows of them, and what their names are.
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#define TRACED __attribute__((noinline))

namespace geo
{
struct Point {
    int x;
    std::string name;
};

TRACED std::size_t count(const std::vector<Point> &points, const std::map<std::string, int> &ages, std::optional<int> n)
{
    return points.size() + ages.size() + n.value_or(0);
}

template <typename T> TRACED std::size_t size(const std::vector<T> &all)
{
    return all.size();
}
} // namespace geo

__attribute__((no_instrument_function)) static int doubled(int x)
{
    return 2 * x;
}

TRACED int calls(int (*own)(int), int (*library)(int), const std::function<int(int)> &any)
{
    return own(1) + library(-2) + any(3);
}

int main()
{
    geo::count({{1, "one"}, {2, "two"}}, {{"a", 1}}, 5);
    geo::size<std::string>({"a"});
    calls(doubled, std::abs, doubled);
    return 0;
}
