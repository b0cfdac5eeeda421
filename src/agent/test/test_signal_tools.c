/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/test/test_signal_tools.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ucontext.h>
#include <ucontext.h>
#include <unistd.h>

int (*reader)(void *dst, uint64_t address, size_t size);
volatile int *volatile nowhere = (volatile int *)16;
char *hole; /* a page that is not readable, after one that is */

void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(90);
}

void say_number(const char *text, long number)
{
    char line[200];
    snprintf(line, sizeof line, "%s %ld\n", text, number);
    say(line);
}

bool probe_gone(void)
{
    char bytes[16], *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(page, 7, sizeof bytes);
    if (!reader)
        return true;
    bool read = reader(bytes, (uintptr_t)page, sizeof bytes) == 0 && bytes[15] == 7;
    mprotect(page, 4096, PROT_NONE);
    if (reader(bytes, (uintptr_t)page, sizeof bytes) != -1)
        say("an address that is gone was read\n");
    mprotect(page, 4096, PROT_READ);
    reader(bytes, (uintptr_t)page, sizeof bytes); /* so is what is known of it when it is gone for good */
    munmap(page, 4096);
    return read;
}

/* Good and bad addresses are distinguished, wherever this is called. */
void probe(void)
{
    char bytes[64], good[64] = "good";
    static char more[64] = "more";
    const uint64_t bad[] = {0, 8, 4096, (uintptr_t)hole, (uintptr_t)hole - 8, UINT64_C(0x800000000000), UINT64_MAX - 3};
    int before = errno;
    if (!reader)
        return;
    errno = 77;
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reader(bytes, bad[i], 16) != -1)
            say("a bad address was read\n");
    if (reader(bytes, (uintptr_t)good, sizeof good) != 0 || strcmp(bytes, good) != 0 ||
        reader(bytes, (uintptr_t)more, sizeof more) != 0 || strcmp(bytes, more) != 0)
        say("a good address was not read\n");
    if (!probe_gone())
        say("a new address was not read\n");
    if (errno != 77)
        say("errno was changed\n");
    errno = before;
}

void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO}, old;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, &old);
    sigaction(signal, NULL, &old);
    if (old.sa_sigaction != handler || (old.sa_flags & ~0x04000000) != (flags | SA_SIGINFO))
        say("another disposition than was set\n");
}

void mask(const char *text)
{
    sigset_t now;
    char line[100] = "";
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int i = 1; i < 32; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%d", sigismember(&now, i));
    say(text);
    say(" ");
    say(line);
    say("\n");
}

void alt_stack(size_t size)
{
    stack_t stack = {.ss_sp = malloc(size), .ss_size = size};
    sigaltstack(&stack, NULL);
}

bool on_alt_stack(void)
{
    stack_t stack;
    sigaltstack(NULL, &stack);
    return stack.ss_flags & SS_ONSTACK;
}

sigjmp_buf again;
volatile int count;

void describe(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    say_number("signal", signal);
    say_number("code", info->si_code);
    say_number("address", info->si_code > 0 ? (long)info->si_addr : 0);
    say_number("on alternate stack", on_alt_stack());
    say_number("aligned", ((uintptr_t)__builtin_frame_address(0) & 15) == 0);
    char line[100] = "";
    for (int i = 1; i < 32; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%d", sigismember(&uc->uc_sigmask, i));
    say("mask before ");
    say(line);
    say("\n");
    mask("mask in handler");
    probe();
}

void skip(int signal, siginfo_t *info, void *context)
{
    describe(signal, info, context);
    ucontext_t *uc = context;
    uc->uc_mcontext.gregs[REG_RIP] =
        (greg_t)uc->uc_mcontext.gregs[REG_RAX]; /* where the faulting code wants to go on */
    count++;
}

/* A store that faults, and goes on behind it when a handler sends it there. The registers have to be as they were. */
__attribute__((noinline)) void fault(volatile int *at)
{
    uint64_t kept = 12345, after = 0;
    double floating = 1.5, floating_after;
    __asm__ volatile("movq %[floating], %%xmm9\n"
                     "movq %[kept], %%r12\n"
                     "leaq 1f(%%rip), %%rax\n"
                     "movl $1, (%[at])\n"
                     "1: movq %%r12, %[after]\n"
                     "movq %%xmm9, %[floating_after]\n"
                     : [after] "=r"(after), [floating_after] "=r"(floating_after)
                     : [at] "r"(at), [kept] "r"(kept), [floating] "r"(floating)
                     : "rax", "r12", "xmm9", "memory");
    if (after != kept || floating_after != floating)
        say("registers were changed\n");
}

void jump_out(int signal, siginfo_t *info, void *context)
{
    probe();
    count++;
    siglongjmp(again, 1);
}

void note(int signal, siginfo_t *info, void *context)
{
    say_number("noted", signal);
    say_number("code", info->si_code);
    say_number("by itself", info->si_pid == getpid());
    probe();
}
