/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "tracer/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* Registers beyond the general ones. */

static bool out_of_event(void *ctx)
{
    struct thread *thread = ctx;
    return thread->dead || (thread->in_stop && thread->stop != STOP_EVENT);
}

int regs_leave_event(struct thread *thread, struct err *err)
{
    if (thread->stop == STOP_EXIT)
        return err_set(err, -ESRCH, "thread %d is ending", thread->tid);
    if (thread->stop != STOP_EVENT)
        return 0;
    /* the kernel has not stored the result of fork or clone yet, and would do so over ours: on to the end of the call,
     * which is no user code. Only vfork waits there, for its child. */
    thread_pause(thread);
    thread_flush_regs(thread);
    thread->in_stop = thread->regs_valid = thread->interrupted = false;
    int code = 0;
    if (!thread_go(thread, PTRACE_SYSCALL, 0) || (code = pump_until(out_of_event, thread)) < 0)
        code = err_set(err, code < 0 ? code : -ESRCH, "thread %d is inside fork, vfork or clone", thread->tid);
    thread_unpause(thread);
    return thread->dead ? err_set(err, -ESRCH, "thread %d ended", thread->tid) : code;
}

int regs_get_xstate(struct thread *thread, void *ret_bytes, size_t *inout_size)
{
    struct iovec iov = {ret_bytes, *inout_size};
    if (ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &iov) < 0)
        return -errno;
    *inout_size = iov.iov_len;
    return 0;
}

int regs_set_xstate(struct thread *thread, const void *bytes, size_t size)
{
    struct iovec iov = {(void *)bytes, size};
    if (ptrace(PTRACE_SETREGSET, thread->tid, NT_X86_XSTATE, &iov) < 0)
        return errno == EFAULT ? -EINVAL : -errno; /* the kernel wants all of it */
    return 0;
}

/* Not in the system's header of ptrace. */
enum { GETSIGMASK = 0x420a, SETSIGMASK = 0x420b };

int regs_get_sigmask(const struct thread *thread, uint64_t *ret_mask)
{
    return ptrace((enum __ptrace_request)GETSIGMASK, thread->tid, (void *)sizeof *ret_mask, ret_mask) < 0 ? -errno : 0;
}

int regs_set_sigmask(const struct thread *thread, uint64_t mask)
{
    return ptrace((enum __ptrace_request)SETSIGMASK, thread->tid, (void *)sizeof mask, &mask) < 0 ? -errno : 0;
}

/*
 * Waiting for tracees and for a signal at once. A hit costs one wait4 this way, not an epoll_wait, a read of a
 * signalfd and two wait4. The race of looking at a flag and then waiting is closed as cancellation points close it: a
 * signal handler that finds the program counter between the look and the system call moves it behind the call.
 */

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

/*
 * Calling a function in a thread. What the kernel does to run a signal handler is done from outside: below the red
 * zone, a signal frame with all registers is built on the stack, and the function returns to a byte of ours. Normally
 * that is an int3, at which the tracer restores the registers exactly, orig_rax included, so that an interrupted system
 * call is restarted as if nothing had been. Behind it stands a call of rt_sigreturn: if the tracer leaves while the
 * function runs, the int3 becomes a nop, and the frame brings the thread back without us.
 */

enum {
    FLAG_DIRECTION = 0x400,
    XSTATE_ALIGN = 64,
    XSTATE_XMM0 = 160,    /* in the legacy area (Intel SDM vol. 1, 10.5.1) */
    SOFTWARE_BYTES = 464, /* in the legacy area, reserved for software (Intel SDM vol. 1, 10.5.1; asm/sigcontext.h) */
    FRAME_XSTATE = 0x1,   /* uc_flags, asm/ucontext.h */
    FRAME_SS = 0x6,
    ERESTARTSYS = 512, /* linux/errno.h: what a system call in progress returns inside the kernel */
    ERESTARTNOINTR = 513,
    ERESTARTNOHAND = 514,
    ERESTART_RESTARTBLOCK = 516,
};
#define MAGIC1 UINT32_C(0x46505853)
#define MAGIC2 UINT32_C(0x46505845)

struct software_bytes { /* struct _fpx_sw_bytes */
    uint32_t magic1, extended_size;
    uint64_t features;
    uint32_t xstate_size, padding[7];
};

/* The registers as rt_sigreturn must find them: it does not restart system calls. */
static struct user_regs_struct call_restarted(struct user_regs_struct regs)
{
    if ((int64_t)regs.orig_rax < 0)
        return regs;
    switch (-(int64_t)regs.rax) {
    case ERESTARTSYS:
    case ERESTARTNOINTR:
    case ERESTARTNOHAND:
        regs.rax = regs.orig_rax;
        regs.rip -= 2;
        break;
    case ERESTART_RESTARTBLOCK:
        regs.rax = SYS_restart_syscall;
        regs.rip -= 2;
        break;
    default:
        break;
    }
    return regs;
}

static void fill_context(ucontext_t *context, const struct user_regs_struct *regs, uint64_t xstate_addr)
{
    greg_t *gregs = context->uc_mcontext.gregs;
    const unsigned long long values[] = {regs->r8,  regs->r9,  regs->r10, regs->r11, regs->r12, regs->r13,
                                         regs->r14, regs->r15, regs->rdi, regs->rsi, regs->rbp, regs->rbx,
                                         regs->rdx, regs->rax, regs->rcx, regs->rsp, regs->rip, regs->eflags};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        gregs[i] = (greg_t)values[i];
    gregs[REG_CSGSFS] = (greg_t)(regs->cs | regs->ss << 48);
    context->uc_flags = FRAME_XSTATE | FRAME_SS;
    context->uc_stack.ss_flags = 0x7f; /* not a valid one: rt_sigreturn leaves the alternate stack as it is */
    context->uc_mcontext.fpregs = (void *)xstate_addr;
}

static uint64_t data_address(const struct call *call, const struct call_wanted *wanted)
{
    return (call->regs.rsp - RED_ZONE - wanted->data_size) & ~UINT64_C(15);
}

/* Builds the frame and returns the stack pointer at the function's entry; 0 if the stack has no room. */
static uint64_t push_frame(struct thread *thread, const struct call *call, const struct call_wanted *wanted,
                           uint64_t stub)
{
    uint64_t sigmask = 0, top = data_address(call, wanted);
    uint64_t xstate_addr = (top - call->xstate_size - sizeof MAGIC2) & ~(uint64_t)(XSTATE_ALIGN - 1);
    size_t context_size = offsetof(ucontext_t, uc_sigmask) + sizeof sigmask;
    uint64_t sp = ((xstate_addr - context_size - sizeof(siginfo_t)) & ~UINT64_C(15)) - 8;
    if (wanted->sigmask)
        sigmask = *wanted->sigmask;
    else if (regs_get_sigmask(thread, &sigmask) < 0)
        return 0;
    size_t size = top - sp;
    _cleanup_(freep) uint8_t *frame = calloc(1, size);
    if (!frame)
        return 0;
    ucontext_t context = {0};
    struct user_regs_struct regs = call_restarted(call->regs);
    fill_context(&context, &regs, xstate_addr);
    memcpy(frame, &stub, sizeof stub);
    memcpy(frame + 8, &context, offsetof(ucontext_t, uc_sigmask));
    memcpy(frame + 8 + offsetof(ucontext_t, uc_sigmask), &sigmask, sizeof sigmask);
    uint8_t *xstate = frame + (xstate_addr - sp);
    memcpy(xstate, call->xstate, call->xstate_size);
    struct software_bytes software = {
        .magic1 = MAGIC1,
        .extended_size = (uint32_t)(call->xstate_size + sizeof MAGIC2),
        .xstate_size = (uint32_t)call->xstate_size,
    };
    /* ptrace reports the enabled features there */
    memcpy(&software.features, xstate + SOFTWARE_BYTES, sizeof software.features);
    memcpy(xstate + SOFTWARE_BYTES, &software, sizeof software);
    uint32_t magic2 = MAGIC2;
    memcpy(xstate + call->xstate_size, &magic2, sizeof magic2);
    if (wanted->data_size && space_write(thread->process, top, wanted->data, wanted->data_size) < 0)
        return 0;
    return space_write(thread->process, sp, frame, size) < 0 ? 0 : sp;
}

static void call_free(struct call *call)
{
    if (call)
        free(call->xstate);
    free(call);
}

static struct call *call_new(struct thread *thread)
{
    struct call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->xstate_size = TRACER_XSTATE_SIZE;
    call->xstate = malloc(call->xstate_size);
    if (!call->xstate || thread_load_regs(thread) < 0 ||
        regs_get_xstate(thread, call->xstate, &call->xstate_size) < 0) {
        call_free(call);
        return NULL;
    }
    call->regs = thread->regs;
    if (thread->stop == STOP_SYSCALL_ENTER) { /* not begun: it is entered again afterwards */
        call->regs.rip -= 2;
        call->regs.rax = call->regs.orig_rax;
        call->regs.orig_rax = (unsigned long long)-1;
    }
    call->break_done = thread->break_done;
    return call;
}

int call_start(struct thread *thread, const struct call_wanted *wanted, struct tracer_call_place *ret_place,
               struct err *err)
{
    int code = regs_leave_event(thread, err);
    if (code < 0)
        return code;
    uint64_t stub = space_call_stub(thread->process);
    if (!stub)
        return err_set(err, -ENOSPC, "there is no room in the code of process %d for a return address",
                       thread->process->pid);
    struct call *call = call_new(thread);
    if (!call)
        return err_set(err, -EIO, "the registers of thread %d cannot be read", thread->tid);
    uint64_t sp = push_frame(thread, call, wanted, stub);
    if (!sp) {
        call_free(call);
        return err_set(err, -EIO, "the stack of thread %d has no room for a call", thread->tid);
    }
    call->addr = wanted->addr;
    call->return_sp = sp + 8;
    *ret_place = (struct tracer_call_place){.slot = sp, .pc = call->regs.rip, .stub = stub};
    space_stub_original(thread->process->space, stub, ret_place->original);
    call->next = thread->calls;
    thread->calls = call;
    thread->regs.rsp = sp;
    thread->regs.rip = wanted->addr;
    if (wanted->with_args) {
        thread->regs.rdi = wanted->args[0];
        thread->regs.rsi = wanted->args[1];
    }
    if (wanted->data)
        *(wanted->data_arg ? &thread->regs.rsi : &thread->regs.rdi) = data_address(call, wanted);
    thread->regs.rax = 0;
    thread->regs.orig_rax = (unsigned long long)-1;
    thread->regs.eflags &= ~(unsigned long long)FLAG_DIRECTION;
    thread_regs_changed(thread);
    thread->break_done = false;
    thread->in_syscall = false;
    return 0;
}

const struct call *call_at(const struct thread *thread, uint64_t sp)
{
    const struct call *call = thread->calls;
    while (call && call->return_sp != sp)
        call = call->next;
    return call;
}

/* Before the registers are what they were. */
static struct tracer_event call_ended(struct thread *thread, const struct call *call)
{
    struct tracer_event event = {.kind = TRACER_CALL_ENDED,
                                 .pid = thread->process->pid,
                                 .tid = thread->tid,
                                 .addr = call->addr,
                                 .result = (int64_t)thread->regs.rax,
                                 .arg_count = 2,
                                 .args = {0, call->return_sp - 8}};
    static uint8_t xstate[TRACER_XSTATE_SIZE];
    size_t size = sizeof xstate;
    if (thread->process->watch.calls && regs_get_xstate(thread, xstate, &size) == 0 && size > XSTATE_XMM0)
        memcpy(&event.args[0], xstate + XSTATE_XMM0, sizeof event.args[0]);
    return event;
}

bool call_returned(struct thread *thread)
{
    const struct call *found = call_at(thread, thread->regs.rsp);
    struct call *call = thread->calls;
    while (call && call != found)
        call = call->next;
    if (!call)
        return false;
    struct tracer_event event = call_ended(thread, call);
    bool loads = call->loads;
    while (thread->calls != call) { /* left by longjmp */
        struct call *left = thread->calls;
        thread->calls = left->next;
        call_free(left);
    }
    thread->calls = call->next;
    thread->regs = call->regs;
    thread_regs_changed(thread);
    thread->break_done = call->break_done;
    thread->break_addr = call->regs.rip;
    thread->in_syscall = false;
    regs_set_xstate(thread, call->xstate, call->xstate_size);
    call_free(call);
    if (loads)
        load_returned(thread, (uint64_t)event.result);
    else if (process_reports(thread) && thread->process->watch.calls)
        event_hold(thread, &event);
    else if (process_reports(thread))
        event_send(&event);
    return true;
}

void call_drop(struct thread *thread)
{
    while (thread->calls) {
        struct call *call = thread->calls;
        thread->calls = call->next;
        if (call->loads)
            load_dropped(thread->process);
        call_free(call);
    }
}
