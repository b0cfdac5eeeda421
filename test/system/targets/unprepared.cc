// SPDX-License-Identifier: Apache-2.0
// Functions that nobody prepared, and what unwinders, jumps, signals, threads, forks and other stacks do with them. What it says depends
// on nothing but that all of that works.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <csetjmp>
#include <csignal>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

#define FN extern "C" __attribute__((noinline, visibility("default")))

static volatile int sink;
struct Guard {
    const char *name;
    ~Guard()
    {
        sink++;
    }
};

FN int thrower(int depth)
{
    Guard guard{"g"};
    if (depth == 0)
        throw std::runtime_error("deep");
    return thrower(depth - 1) + 1;
}
FN int catcher(int depth)
{
    try {
        return thrower(depth);
    } catch (const std::exception &e) {
        return std::string(e.what()) == "deep" ? 100 + depth : -1;
    }
}

static jmp_buf place;
FN void jumper(int depth)
{
    if (depth == 0)
        longjmp(place, 7);
    jumper(depth - 1);
    sink++;
}
FN int jumps(int depth)
{
    int got = setjmp(place);
    if (got)
        return got;
    jumper(depth);
    return -1;
}

FN int back(int depth)
{
    void *frames[64];
    if (depth)
        return back(depth - 1) + (sink++, 0);
    int n = backtrace(frames, 64);
    char **names = backtrace_symbols(frames, n);
    int found = 0;
    for (int i = 0; i < n; i++)
        found += strstr(names[i], "(back+") != nullptr || strstr(names[i], "(backs+") != nullptr;
    free(names);
    return found;
}
FN int backs()
{
    return back(5) + (sink++, 0);
}

static ucontext_t main_context, contexts[3];
static char stacks[3][65536];
FN int step(int who, int n)
{
    return who * 100 + n + (sink & 0);
}
FN int work(int who, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += step(who, i);
        swapcontext(&contexts[who], &contexts[(who + 1) % 3]);
    }
    return sum;
}
static int sums[3];
FN void body(int who)
{
    sums[who] = work(who, 50);
    if (who < 2)
        swapcontext(&contexts[who], &contexts[who + 1]);
}
FN int coroutines()
{
    for (int i = 0; i < 3; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof stacks[i];
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)())body, 1, i);
    }
    swapcontext(&main_context, &contexts[0]);
    return sums[0] + sums[1] + sums[2];
}

static volatile sig_atomic_t handled;
FN int in_handler(int n)
{
    return n ? in_handler(n - 1) + 1 : (handled++, 0);
}
FN void handler(int)
{
    in_handler(3);
}
FN long spin(long n)
{
    return n < 2 ? n : spin(n - 1) + spin(n - 2);
}

static sigjmp_buf out;
FN void leaves(int)
{
    siglongjmp(out, 1);
}
FN int fault(int depth)
{
    if (depth)
        return fault(depth - 1) + (sink++, 1);
    return *(volatile int *)8;
}
FN int faults(int n)
{
    int got = 0;
    struct sigaction action = {};
    action.sa_handler = leaves;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    for (volatile int i = 0; i < n; i = i + 1)
        if (sigsetjmp(out, 1) == 0)
            fault(3);
        else
            got++;
    return got;
}

FN int even(unsigned n);
FN int odd(unsigned n)
{
    return n == 0 ? 0 : even(n - 1);
}
FN int even(unsigned n)
{
    return n == 0 ? 1 : odd(n - 1);
}
FN int deep(int n)
{
    return n ? deep(n - 1) + (sink++, 1) : 0;
}

FN void *thread_main(void *arg)
{
    long n = (long)arg;
    long got = spin(12) + catcher((int)n % 7);
    if (n % 3 == 0)
        pthread_exit((void *)got);
    return (void *)got;
}
FN long threads()
{
    long sum = 0;
    for (int round = 0; round < 20; round++) {
        pthread_t all[8];
        for (long i = 0; i < 8; i++)
            pthread_create(&all[i], nullptr, thread_main, (void *)i);
        for (auto &t : all) {
            void *got;
            pthread_join(t, &got);
            sum += (long)got;
        }
    }
    return sum;
}
FN int child(int n)
{
    return (int)spin(n) % 100;
}
FN int forks()
{
    int sum = 0;
    for (int i = 0; i < 5; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(child(i + 5));
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}
FN int in_vfork(const char *what)
{
    return execl("/bin/sh", "sh", "-c", what, (char *)nullptr);
}
FN int vforks(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        int status;
        pid_t pid = vfork();
        if (pid == 0) {
            in_vfork("exit 3");
            _exit(127);
        }
        waitpid(pid, &status, 0);
        sum += WEXITSTATUS(status);
    }
    return sum;
}
FN double many(double a, double b, double c, double d, double e, double f, double g, double h, double i, long j, long k,
               long l, long m, long n, long o, long p, float q)
{
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 +
           (double)(j + k * 2 + l * 3 + m * 4 + n * 5 + o * 6 + p * 7) + q;
}
FN long double wide(long double x)
{
    return x * 3 + (sink & 0);
}
struct Big {
    long a[9];
};
FN Big big(int n)
{
    Big b;
    for (int i = 0; i < 9; i++)
        b.a[i] = n + i;
    return b;
}
FN int sum_of(int n, ...)
{
    va_list l;
    va_start(l, n);
    double s = 0;
    for (int i = 0; i < n; i++)
        s += va_arg(l, double);
    va_end(l);
    return (int)s;
}
int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 100;
    int caught = 0, jumped = 0;
    for (int i = 0; i < n; i++) {
        caught += catcher(i % 20);
        jumped += jumps(i % 20);
    }
    printf("caught %d jumped %d\n", caught, jumped);
    printf("back %d\n", backs());
    printf("coroutines %d\n", coroutines());
    struct sigaction action = {};
    action.sa_handler = handler;
    sigaction(SIGALRM, &action, nullptr);
    ualarm(200, 200);
    long s = 0;
    do
        s = spin(25);
    while (!handled);
    printf("spin %ld\n", s);
    ualarm(0, 0);
    printf("faults %d\n", faults(n));
    printf("even %d deep %d\n", even(20001), deep(50000));
    printf("threads %ld\n", threads());
    printf("forks %d vforks %d\n", forks(), vforks(20));
    printf("many %f wide %Lf big %ld sum %d\n", many(1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 0.5f), wide(1.5L),
           big(3).a[8], sum_of(3, 1.0, 2.0, 3.5));
    printf("handled %s\n", handled > 0 ? "yes" : "no");
    return 0;
}
