/* SPDX-License-Identifier: Apache-2.0 */
/* System calls: stops at their start and end, for processes in which somebody watches any. */
#include <string.h>
#include <sys/ptrace.h>
#include <linux/ptrace.h>

#include "tracer/tracee.h"

/* How many arguments each call has, by the kernel's prototypes; ten numbers a line. */
static const char arg_counts[] = "3331222336"
                                 "3214403443"
                                 "3215053333"
                                 "3312022130"
                                 "4333663323"
                                 "2334555003"
                                 "1421334124"
                                 "5332112232"
                                 "1122122123"
                                 "2233312221"
                                 "1403011002"
                                 "0002222333"
                                 "3111122243"
                                 "2223112223"
                                 "2322311122"
                                 "2100321521"
                                 "2101252214"
                                 "2213232154"
                                 "3555330355"
                                 "5444333222"
                                 "2163312153"
                                 "3131445310"
                                 "4434211222"
                                 "4144325635"
                                 "4155234554"
                                 "5320324434"
                                 "5343453433"
                                 "6512364446"
                                 "4632144244"
                                 "2132155455"
                                 "2545321423"
                                 "6653345332"
                                 "5351336664"
                                 "21564";
enum { NEWER = 424 }; /* the numbers that all architectures have in common begin here */
static const char newer_counts[] = "4264352533"
                                   "2234345654"
                                   "3421254443"
                                   "4644444336"
                                   "6545";

static unsigned syscall_arg_count(uint32_t number)
{
    if (number < sizeof arg_counts - 1)
        return (unsigned)(arg_counts[number] - '0');
    if (number >= NEWER && number - NEWER < sizeof newer_counts - 1)
        return (unsigned)(newer_counts[number - NEWER] - '0');
    return 6;
}

static bool watched(const uint64_t *set, uint32_t number)
{
    return number < TRACER_SYSCALLS && (set[number / 64] >> number % 64 & 1);
}

void syscall_stopped(struct thread *thread)
{
    struct ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_NONE};
    const struct tracer_watch *watch = &thread->process->watch;
    thread->stop = STOP_SYSCALL_EXIT;
    thread->signal = 0;
    if (ptrace((enum __ptrace_request)PTRACE_GET_SYSCALL_INFO, thread->tid, sizeof info, &info) < 0)
        return; /* killed */
    struct tracer_event event = {.kind = TRACER_SYSCALL_EXIT};
    bool report;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
        thread->stop = STOP_SYSCALL_ENTER;
        thread->in_syscall = true;
        thread->syscall_number = (uint32_t)info.entry.nr;
        memcpy(thread->syscall_args, info.entry.args, sizeof thread->syscall_args);
        event.kind = TRACER_SYSCALL_ENTER;
        report = watched(watch->syscall_enter, thread->syscall_number);
    } else {
        /* one that began before we watched: the kernel keeps its number and, but for rcx and r11, its arguments */
        if (!thread->in_syscall && thread_load_regs(thread) == 0) {
            const struct user_regs_struct *regs = &thread->regs;
            thread->syscall_number = (uint32_t)regs->orig_rax;
            uint64_t args[6] = {regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9};
            memcpy(thread->syscall_args, args, sizeof args);
        }
        thread->in_syscall = false;
        event.result = info.op == PTRACE_SYSCALL_INFO_EXIT ? info.exit.rval : 0;
        report = watched(watch->syscall_exit, thread->syscall_number);
    }
    if (!report || thread_loads(thread) || !process_reports(thread))
        return;
    event.number = thread->syscall_number;
    event.arg_count = syscall_arg_count(event.number);
    memcpy(event.args, thread->syscall_args, sizeof event.args);
    event_hold(thread, &event);
}

int syscall_watch(struct process *process, const struct tracer_watch *watch)
{
    bool any = false;
    for (unsigned i = 0; i < TRACER_SYSCALLS / 64; i++)
        any |= watch->syscall_enter[i] || watch->syscall_exit[i];
    bool kick = any && !process->syscalls;
    process->watch = *watch;
    process->syscalls = any;
    if (!kick)
        return 0;
    /* running threads stop at system calls only when they were let go so */
    for (struct thread *thread = process->threads; thread; thread = thread->next)
        thread->in_syscall = false;
    int code = process_halt(process);
    if (code == 0)
        process_unpause(process);
    return code;
}
