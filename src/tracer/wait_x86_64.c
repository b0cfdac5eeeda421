/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting for tracees and for a signal at once. A hit costs one wait4 this way, not an epoll_wait, a read of a
 * signalfd and two wait4. The race of looking at a flag and then waiting is closed as cancellation points close it: a
 * signal handler that finds the program counter between the look and the system call moves it behind the call.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/ucontext.h>
#include <sys/wait.h>

#include "tracer/tracee.h"

long tracer_wait_asm(volatile int *flag, int *status, int options);
extern const char tracer_wait_start[], tracer_wait_end[], tracer_wait_aborted[];

__asm__(".text\n"
        ".hidden tracer_wait_asm, tracer_wait_start, tracer_wait_end, tracer_wait_aborted\n"
        ".globl tracer_wait_asm, tracer_wait_start, tracer_wait_end, tracer_wait_aborted\n"
        ".type tracer_wait_asm, @function\n"
        "tracer_wait_asm:\n"
        "    mov %rdi, %r8\n"
        "    mov $-1, %rdi\n" /* any child */
        "    xor %r10d, %r10d\n"
        "    mov $61, %eax\n" /* wait4 */
        "tracer_wait_start:\n"
        "    cmpl $0, (%r8)\n"
        "    jne tracer_wait_aborted\n"
        "    syscall\n"
        "tracer_wait_end:\n"
        "    ret\n"
        "tracer_wait_aborted:\n"
        "    mov $-4, %eax\n" /* -EINTR */
        "    cltq\n"
        "    ret\n"
        ".size tracer_wait_asm, . - tracer_wait_asm\n");

void wait_abort(void *ucontext)
{
    ucontext_t *context = ucontext;
    uint64_t pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
    if (pc >= (uint64_t)tracer_wait_start && pc < (uint64_t)tracer_wait_end)
        context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uint64_t)tracer_wait_aborted;
}

pid_t wait_unless(volatile int *flag, int *ret_status)
{
    long got = tracer_wait_asm(flag, ret_status, __WALL);
    return got == -EINTR ? 0 : (pid_t)got;
}
