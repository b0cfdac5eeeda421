// SPDX-License-Identifier: Apache-2.0
// pairs for C++: functions that exceptions leave, and coroutines (where the compiler has them). See pairs.h.
#include "pairs.h"

#include <stdexcept>
#include <string>
#ifdef COROUTINES
#include <coroutine>
#ifdef __clang__
template class std::allocator<char>; // clang 14 leaves its members out with the library of gcc 12
#endif
#endif

struct Guard {
    const char *name;
    QUIET explicit Guard(const char *name);
    QUIET ~Guard();
};

SEPARATE static int leaf(int n)
{
    BEGINS;
    RETURNS;
    return n + 1;
}

QUIET Guard::Guard(const char *name) : name(name)
{
}

// destructors run while functions are left
QUIET Guard::~Guard()
{
    leaf((int)name[0]);
}

SEPARATE static int thrower(int n)
{
    BEGINS;
    Guard guard("thrower");
    if (n == 0)
        throw std::runtime_error("deep");
    int below = thrower(n - 1);
    RETURNS;
    return below;
}

SEPARATE static int catcher(int n)
{
    BEGINS;
    int result = 0;
    try {
        result = thrower(n);
    } catch (const std::logic_error &) {
        result = -1;
    } catch (const std::runtime_error &error) {
        result = leaf((int)std::string(error.what()).size());
    }
    RETURNS;
    return result;
}

SEPARATE static int rethrower(int n)
{
    BEGINS;
    try {
        thrower(n);
    } catch (...) {
        leaf(n);
        throw;
    }
    RETURNS;
    return 0;
}

SEPARATE static int replacer(int n)
{
    BEGINS;
    try {
        rethrower(n);
    } catch (const std::exception &) {
        throw 17;
    }
    RETURNS;
    return 0;
}

SEPARATE static int outer(int n)
{
    BEGINS;
    int result = 0;
    for (int i = 0; i < n; i++) {
        try {
            Guard guard("outer");
            result += i % 2 ? catcher(i) : replacer(i);
        } catch (int number) {
            result += number;
        }
    }
    RETURNS;
    return result;
}

#ifdef COROUTINES
struct Generator {
    struct promise_type {
        int value = 0;
        QUIET promise_type() // clang gives the implicit one hooks
        {
        }
        QUIET Generator get_return_object()
        {
            return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        QUIET std::suspend_always initial_suspend() noexcept
        {
            return {};
        }
        QUIET std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        QUIET std::suspend_always yield_value(int next)
        {
            value = next;
            return {};
        }
        QUIET void return_void()
        {
        }
        QUIET void unhandled_exception()
        {
            throw;
        }
    };
    std::coroutine_handle<promise_type> handle;
};

// What a coroutine's body is to a tool differs between compilers: it is judged by what it calls.
QUIET static Generator numbers(int n)
{
    for (int i = 0; i < n; i++)
        co_yield leaf(i);
    if (n == 3)
        throw std::runtime_error("after three");
}

static Generator instrumented(int n)
{
    for (int i = 0; i < n; i++)
        co_yield leaf(i);
}

SEPARATE static bool resume(Generator &generator)
{
    BEGINS;
    generator.handle.resume();
    bool more = !generator.handle.done();
    RETURNS;
    return more;
}

SEPARATE static int two_at_once(int n)
{
    BEGINS;
    Generator one = numbers(n), two = instrumented(n + 1);
    int sum = 0;
    bool more = true;
    while (more) {
        more = false;
        try {
            for (Generator *each : {&one, &two})
                if (!each->handle.done() && resume(*each)) {
                    sum += each->handle.promise().value;
                    more = true;
                }
        } catch (const std::runtime_error &) {
            leaf(100);
            more = true;
        }
    }
    one.handle.destroy();
    two.handle.destroy();
    RETURNS;
    return sum;
}
#endif

int main()
{
    BEGINS;
    catcher(0);
    catcher(5);
    outer(4);
#ifdef COROUTINES
    two_at_once(2);
    two_at_once(3);
#endif
    leaf(0);
    RETURNS;
    return 0;
}
