/* SPDX-License-Identifier: Apache-2.0 */
/* C++ programs for test_agent.c: exceptions, coroutines, destructors of thread-local objects. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#if __has_include(<coroutine>) && defined(__cpp_impl_coroutine)
#include <coroutine>
#define COROUTINES 1
#endif

#define APART __attribute__((noinline))
#define HIDDEN __attribute__((no_instrument_function))

static volatile int sink;

APART void thrower(int n)
{
    sink = n;
    if (n == 0)
        throw n;
    thrower(n - 1);
    sink = sink + 1;
}

APART void after(int n)
{
    sink = n;
}

APART void catcher()
{
    try {
        thrower(2);
    } catch (int) {
        after(1);
    }
    after(2);
}

APART void rethrower()
{
    try {
        thrower(1);
    } catch (int) {
        throw;
    }
}

APART void outer()
{
    try {
        rethrower();
    } catch (int) {
    }
    after(3);
}

#ifdef COROUTINES
struct task {
    struct promise_type {
        HIDDEN task get_return_object()
        {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        HIDDEN std::suspend_always initial_suspend() noexcept
        {
            return {};
        }
        HIDDEN std::suspend_always final_suspend() noexcept
        {
            return {};
        }
        HIDDEN void return_void() {}
        HIDDEN void unhandled_exception() {}
    };
    std::coroutine_handle<promise_type> handle;
};

static task stepping(int n)
{
    for (int i = 0; i < n; i++) {
        after(i);
        co_await std::suspend_always{};
    }
}

APART void coroutines()
{
    task one = stepping(2), two = stepping(2);
    while (!one.handle.done() || !two.handle.done()) {
        if (!one.handle.done())
            one.handle.resume();
        if (!two.handle.done())
            two.handle.resume();
    }
    one.handle.destroy();
    two.handle.destroy();
}
#endif

struct local {
    int n = 0;
    ~local()
    {
        after(n);
    }
};

static thread_local local mine;

APART void in_thread()
{
    mine.n = 5;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (std::strcmp(what, "catch") == 0)
        catcher();
    else if (std::strcmp(what, "rethrow") == 0)
        outer();
#ifdef COROUTINES
    else if (std::strcmp(what, "coroutines") == 0)
        coroutines();
#endif
    else if (std::strcmp(what, "thread") == 0)
        std::thread(in_thread).join();
    std::puts("done");
    return 0;
}
