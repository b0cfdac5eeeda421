/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that fault, abort, or are killed, and handle it or do not. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "agent/test/test_signal_tools.h"

static int handler_plain(void)
{
    set(SIGSEGV, skip, 0);
    for (int i = 0; i < 3; i++) {
        probe();
        fault(nowhere);
    }
    mask("after");
    return count;
}

static int handler_flags(void)
{
    alt_stack(65536);
    struct sigaction action = {.sa_sigaction = skip};
    const int flags[] = {SA_ONSTACK, 0, SA_NODEFER, SA_NODEFER | SA_ONSTACK, SA_RESTART};
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++) {
        action.sa_flags = SA_SIGINFO | flags[i];
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, SIGUSR1);
        sigaddset(&action.sa_mask, SIGBUS);
        sigaction(SIGSEGV, &action, NULL);
        say_number("flags", flags[i]);
        fault(nowhere);
        probe();
        mask("after");
    }
    return 0;
}

static int handler_jumps(void)
{
    set(SIGSEGV, jump_out, 0);
    set(SIGBUS, jump_out, 0);
    for (volatile int i = 0; i < 5; i++) {
        if (sigsetjmp(again, 1) == 0)
            fault(i & 1 ? (volatile int *)hole : nowhere);
        mask("after the jump");
        probe();
    }
    return count;
}

/* Without a saved mask the signal stays blocked after the first jump, and the second fault kills. */
static void jump_out_plain(int signal, siginfo_t *info, void *context)
{
    count++;
    _longjmp(again, 1);
}

static int handler_jumps_blocked(void)
{
    set(SIGSEGV, jump_out_plain, 0);
    for (volatile int i = 0; i < 5; i++) {
        if (_setjmp(again) == 0) {
            probe();
            say("faulting\n");
            fault(nowhere);
        }
        mask("after the jump");
        probe();
    }
    return count;
}

static int reset_hand(void)
{
    set(SIGSEGV, skip, (int)SA_RESETHAND);
    fault(nowhere);
    struct sigaction now;
    sigaction(SIGSEGV, NULL, &now);
    say_number("default again", now.sa_handler == SIG_DFL);
    probe();
    fault(nowhere);
    return 0;
}

static int plain_crash(void)
{
    probe();
    fault(nowhere);
    return 0;
}

static int bus_error(void)
{
    char path[] = "/tmp/test-signals-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    volatile char *file = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    char byte;
    if (reader && reader(&byte, (uintptr_t)file, 1) != -1)
        say("what is behind a file's end was read\n");
    return file[0];
}

static int division(void)
{
    volatile int zero = 0, many = 1000;
    return many / zero;
}

static int illegal(void)
{
    __builtin_trap();
    return 0;
}

static int aborts(void)
{
    probe();
    abort();
}

static int aborts_handled(void)
{
    set(SIGABRT, note, 0);
    abort();
}

static int aborts_jumps(void)
{
    set(SIGABRT, jump_out, 0);
    if (sigsetjmp(again, 1) == 0)
        abort();
    return 5;
}

static int raised(void)
{
    raise(SIGSEGV);
    return 0;
}

static int killed_ill(void)
{
    kill(getpid(), SIGILL);
    for (;;)
        pause();
    return 0;
}

static int raised_handled(void)
{
    set(SIGSEGV, note, 0);
    set(SIGFPE, note, 0);
    raise(SIGSEGV);
    kill(getpid(), SIGFPE);
    union sigval value = {.sival_int = 5};
    sigqueue(getpid(), SIGSEGV, value);
    return 0;
}

/* Traps of the program's own: int3, the same in two bytes, icebp, and steps. */

static void on_trap(int signal, siginfo_t *info, void *context)
{
    info->si_addr = NULL; /* of a step, where the program is mapped */
    describe(signal, info, context);
    count++;
    if (count == 4) /* the steps end here */
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
}

static void trap_each(void)
{
    __asm__ volatile("int3");
    probe();
    __asm__ volatile(".byte 0xcd, 3");
    probe();
    __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop; nop; nop" ::: "memory", "cc");
}

static int traps_handled(void)
{
    set(SIGTRAP, on_trap, 0);
    trap_each();
    raise(SIGTRAP);
    mask("after");
    return count;
}

static int trap_short(void)
{
    __asm__ volatile("int3");
    return 0;
}

static int trap_long(void)
{
    __asm__ volatile(".byte 0xcd, 3");
    return 0;
}

static int trap_step(void)
{
    __asm__ volatile("pushf; orl $0x100, (%%rsp); popf; nop" ::: "memory", "cc");
    return 0;
}

static int trap_ignored(void)
{
    signal(SIGTRAP, SIG_IGN);
    raise(SIGTRAP);
    __asm__ volatile("int3");
    return 0;
}

static int trap_blocked(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTRAP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    mask("blocked");
    __asm__ volatile("int3");
    return 0;
}

static int trap_killed(void)
{
    kill(getpid(), SIGTRAP);
    for (;;)
        pause();
    return 0;
}

const struct program signal_faults[] = {
    {"traps handled", traps_handled, 0},
    {"int3", trap_short, SIGTRAP},
    {"int 3", trap_long, SIGTRAP},
    {"step", trap_step, SIGTRAP},
    {"int3 ignored", trap_ignored, 0},
    {"int3 blocked", trap_blocked, 0},
    {"killed by SIGTRAP", trap_killed, SIGTRAP},
    {"handler", handler_plain, 0},
    {"handler flags", handler_flags, 0},
    {"handler jumps", handler_jumps, 0},
    {"handler jumps, blocked", handler_jumps_blocked, 0},
    {"reset hand", reset_hand, SIGSEGV},
    {"crash", plain_crash, SIGSEGV},
    {"bus error", bus_error, SIGBUS},
    {"division", division, SIGFPE},
    {"illegal instruction", illegal, SIGILL},
    {"abort", aborts, SIGABRT},
    {"abort handled", aborts_handled, 0},
    {"abort jumps", aborts_jumps, 0},
    {"raised", raised, SIGSEGV},
    {"killed", killed_ill, SIGILL},
    {"raised handled", raised_handled, 0},
    {NULL, NULL, 0},
};
