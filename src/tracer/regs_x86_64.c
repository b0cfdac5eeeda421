/* SPDX-License-Identifier: Apache-2.0 */
/* Registers beyond the general ones. */
#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "tracer/tracee.h"

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
