/* SPDX-License-Identifier: Apache-2.0 */
/* Without the C library. Plain system calls: no errno, no cancellation, nothing interposed. -errno on failure. */
#ifndef SCRY_AGENT_SYSTEM_SYS_H
#define SCRY_AGENT_SYSTEM_SYS_H

#include <asm/unistd.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

static inline long sys_call6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline long sys_call4(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

static inline long sys_call2(long number, long a, long b)
{
    return sys_call4(number, a, b, 0, 0);
}

static inline long sys_call0(long number)
{
    return sys_call4(number, 0, 0, 0, 0);
}

/* ---- copies: no vector register, and nothing interposed ---- */

static inline void raw_copy(void *dst, const void *src, size_t size)
{
    __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(size) : : "memory");
}

static inline void raw_zero(void *dst, size_t size)
{
    __asm__ volatile("rep stosb" : "+D"(dst), "+c"(size) : "a"(0) : "memory");
}

static inline size_t raw_length(const char *text, size_t limit)
{
    size_t length = 0;
    while (length < limit && text[length])
        length++;
    return length;
}

/* Signal dispositions and masks as the kernel has them (x86-64). */

#define SIGSET_BIT(signal) (UINT64_C(1) << ((signal)-1))
#define SIGSET_RESTORER UINT64_C(0x04000000) /* SA_RESTORER */

struct kernel_action {
    uint64_t handler, flags, restorer, mask;
};

/* signals_x86_64.S: what handlers return to; the bytes debuggers and unwinders know */
void sigset_restorer(void);

static inline long sigset_action(int signal, const struct kernel_action *action, struct kernel_action *ret_old)
{
    return sys_call4(__NR_rt_sigaction, signal, (long)action, (long)ret_old, 8);
}

static inline long sigset_mask(int how, const uint64_t *set, uint64_t *ret_old)
{
    return sys_call4(__NR_rt_sigprocmask, how, (long)set, (long)ret_old, 8);
}

/*
 * Under Valgrind, the hooks are part of the program that it checks, but read what the program does not: arguments that
 * lead to memory never set or freed, and the stack. Its tools say nothing of the thread while it is in a hook.
 *
 * A client request is a row of instructions that do nothing on a processor (Valgrind manual, "The Client Request
 * mechanism"; numbers: enum Vg_ClientRequest).
 */

enum valgrind_request {
    VALGRIND_RUNNING = 0x1001, /* how many Valgrinds the program runs on */
    VALGRIND_SILENCE = 0x1801, /* of this thread: 1 more, or -1; nests */
};

static inline uint64_t valgrind_ask(enum valgrind_request request, int64_t argument)
{
    uint64_t words[6] = {request, (uint64_t)argument}, answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n rolq $13, %%rdi\n rolq $61, %%rdi\n rolq $51, %%rdi\n xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
    return answer;
}

static inline bool valgrind_running(void)
{
    return valgrind_ask(VALGRIND_RUNNING, 0) != 0;
}

#endif
