/* SPDX-License-Identifier: Apache-2.0 */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "lang/results.h"
#include "lang/value.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/messages.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/mpi/messages.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "probe/switches.h"
#include "base/system/syscalls.h"
#include "service/omis/service.h"
#include "shm/mpi_told.h"
#include "symbols/python/python.h"

/* Services that manipulate and describe threads (specification 8.1.3). */

/* ---- manipulation ---- */

static void thread_detach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        if (runstate_detach_thread(call->tool, call_thread(call, i)) < 0)
            call_fail(call, call->objects[i], OMIS_NO_MEMORY, "out of memory");
        else
            call_ok(call, call->objects[i]);
    }
}

static void thread_stop(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_STOP);
}

static void thread_continue(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_CONTINUE);
}

static void thread_suspend(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_SUSPEND);
}

static void thread_resume(struct scry_call *call)
{
    runstate_apply(call, RUNSTATE_RESUME);
}

static int send_signal(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    long code = syscall(SYS_tgkill, thread->process->pid, thread->tid, (int)call_integer(call, 1));
    return code < 0 ? -errno : 0;
}

static void thread_send_signal(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, SIGRTMAX))
        call_each(call, send_signal);
}

static void thread_set_priority(struct scry_call *call)
{
    if (!priority_check(call))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct thread *thread = call_thread(call, i);
        priority_set(call, call->objects[i], thread->process->pid, thread->tid);
    }
}

/* Runs a tracer call on each thread. The process is released when the execution is over. */
static void with_tracer(struct scry_call *call, int (*act)(struct tracer *, struct thread *, uint64_t, struct err *))
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct thread *thread = call_thread(call, i);
        struct err err = {0};
        int code = tracing_seize(thread->process, &err);
        if (code == 0)
            code = act(call->monitor->tracer, thread, call_unsigned(call, 1), &err);
        call_done(call, call->objects[i], code, &err);
    }
}

static int go_to(struct tracer *tracer, struct thread *thread, uint64_t addr, struct err *err)
{
    return tracer_goto(tracer, thread->tid, addr, err);
}

static void thread_goto(struct scry_call *call)
{
    with_tracer(call, go_to);
}

/* And what it leaves on the stack is not shown. */
static int call_function(struct tracer *tracer, struct thread *thread, uint64_t addr, struct err *err)
{
    struct tracer_call_place place;
    int code = tracer_call(tracer, thread->tid, addr, &place, err);
    if (code == 0)
        tracing_note_call(thread->process, &place);
    return code;
}

static void thread_call(struct scry_call *call)
{
    with_tracer(call, call_function);
}

/* ---- information ---- */

enum { THREAD_INFO_BITS = 12, THREAD_INFO_STAT = 0xf00 /* the bits that need /proc/PID/task/TID/stat */ };

static uint64_t entry_point(pid_t pid)
{
    char path[64];
    Elf64_auxv_t *items = NULL;
    size_t len = 0;
    uint64_t entry = 0;
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    if (file_read(path, (char **)&items, &len) == 0)
        for (size_t i = 0; i < len / sizeof *items; i++)
            if (items[i].a_type == AT_ENTRY)
                entry = items[i].a_un.a_val;
    free(items);
    return entry;
}

/* Of the first thread the program's entry point. The functions of others are known to the thread library only. */
static struct value root_of(const struct thread *thread)
{
    uint64_t entry = thread->tid == thread->process->pid ? entry_point(thread->process->pid) : 0;
    return entry ? value_uint(entry) : value_int(-1);
}

static struct value stack_size(const struct thread *thread)
{
    uint64_t size;
    bool known = proc_stack_size(thread->process->pid, thread->tid, &size) == 0 && size;
    return known ? value_uint(size) : value_int(-1);
}

static struct value info_member(struct thread *thread, int bit, const struct proc_stat *stat)
{
    switch (bit) {
    case 0:
        return value_token(span_str(thread->process->object.token));
    case 1: /* no thread library gives threads names that mean something outside the process */
    case 7:
        return value_int(thread->tid);
    case 2:
        return root_of(thread);
    case 3:
        return value_token(span_str(thread->parent[0] ? thread->parent : TOKEN_UNDEFINED));
    case 4:
        return value_token(span_str(TOKEN_UNDEFINED));
    case 5:
        return stack_size(thread);
    case 6:
        return value_token(span_str(thread->object.monitor->node->object.token));
    case 8:
        return value_int(runstate_must_wait(thread) ? PROC_STOPPED : proc_state_of(stat));
    case 9:
        return value_floating((double)(stat->user_ns + stat->system_ns) / 1e9);
    case 10:
        return value_int(stat->nice);
    default:
        return value_floating((double)stat->system_ns / 1e9);
    }
}

static int get_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    uint64_t flags = call_unsigned(call, 1);
    struct thread *thread = call_thread(call, index);
    struct proc_stat stat;
    int code = flags & THREAD_INFO_STAT ? proc_stat_read(thread->process->pid, thread->tid, &stat) : 0;
    for (int bit = 0; code == 0 && bit < THREAD_INFO_BITS; bit++)
        if (flags >> bit & 1)
            PUT(text, info_member(thread, bit, &stat));
    return code;
}

static void thread_get_info(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, (1 << THREAD_INFO_BITS) - 1))
        call_each(call, get_info);
}

static int get_backtrace(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    _cleanup_(freep) struct tracer_frame *frames = NULL;
    size_t count = 0;
    int code = tracing_seize(thread->process, err);
    if (code == 0)
        code =
            tracer_backtrace(call->monitor->tracer, thread->tid, (size_t)call_integer(call, 1), &frames, &count, err);
    PUT(text, count);
    put_list(text);
    for (size_t k = 0; k < count; k++)
        PUT(text, frames[k].pc, frames[k].cfa);
    put_end(text);
    return code;
}

static void thread_get_backtrace(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, INT32_MAX))
        call_each(call, get_backtrace);
}

const struct scry_service thread_services[] = {
    {"thread_detach", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, thread_detach,
     "Leave single threads alone."},
    {"thread_stop", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_PARTIAL, thread_stop,
     "Stop threads, until thread_continue (idempotent)."},
    {"thread_continue", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_PARTIAL, thread_continue,
     "Let stopped threads run (idempotent)."},
    {"thread_suspend", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_REQUIRED, thread_suspend,
     "Suspend threads; each suspend needs its resume."},
    {"thread_resume", SCRY_MANIPULATION, "token<t>* thread_list -> void", SCRY_REQUIRED, thread_resume,
     "Take back one thread_suspend of this tool."},
    {"thread_send_signal", SCRY_MANIPULATION, "token<t>* thread_list, integer sig -> void", SCRY_OPTIONAL,
     thread_send_signal, "Send a signal to each thread."},
    {"thread_set_priority", SCRY_MANIPULATION, "token<t>* thread_list, integer val -> void", SCRY_OPTIONAL,
     thread_set_priority, "Set the nice value (-20 .. 19) of each thread."},
    {"thread_goto", SCRY_MANIPULATION, "token<t>* thread_list, integer addr -> void", SCRY_OPTIONAL | SCRY_MEMORY,
     thread_goto, "Set the program counter of threads."},
    {"thread_call", SCRY_MANIPULATION, "token<t>* thread_list, integer addr -> void", SCRY_OPTIONAL | SCRY_MEMORY,
     thread_call, "Make threads call a function; afterwards they go on as if nothing had happened."},
    {"thread_get_info", SCRY_INFORMATION,
     "token<t>* thread_list, integer flags -> { [token process]; [integer global_id]; [integer root_funct]; [token "
     "parent]; "
     "[token message_queue]; [integer<bytes> stack_size]; [token node]; [integer local_id]; [integer "
     "scheduling_state]; "
     "[floating<s> total_time]; "
     "[integer priority]; [floating<s> system_time] }",
     SCRY_PARTIAL | SCRY_PARTLY, thread_get_info,
     "Static (bits 0-5 of flags) and dynamic (bits 6-11) information on threads; root_funct is known of first "
     "threads."},
    {"thread_get_backtrace", SCRY_INFORMATION, "token<t>* thread_list, integer depth -> " BACKTRACE_RESULT,
     SCRY_REQUIRED, thread_get_backtrace, "The call stacks of threads: innermost frame first; fp: its frame address."},
    SERVICE_END,
};

/* Event services on threads (specification 8.1.3). */

/* ---- process and thread creation, and the end ---- */

static void need_new_process(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.new_process = true;
}

/* The initial thread of a new process counts, too. */
static void need_new_thread(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.new_thread = need->watch.new_process = true;
}

static void need_thread_exit(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.thread_exit = true;
}

/* Processes that MPI_Comm_spawn starts are children of the launcher. */
static int arm_new_process(struct csr *csr, struct process *process, struct err *err)
{
    const struct mpi_process *mpi = mpi_process_find(csr->object.monitor->mpi, process->pid);
    if (mpi && mpi_process_head(mpi)->library == MPIA_LIBRARY_MPICH)
        err_set(err, 0, "unsupported: processes that MPI_Comm_spawn starts: MPICH does not say who started them");
    return 0;
}

static const struct event_ops creates_proc_ops = {
    .object_class = "t", .need = need_new_process, .arm = arm_new_process};
static const struct event_ops creates_thread_ops = {
    .object_class = "t", .need = need_new_thread, .arm = arm_new_process};
static const struct event_ops terminated_ops = {.object_class = "t", .need = need_thread_exit};

/* ---- signals ---- */

/* Makes a set of the second argument: bit signo - 1. */
static Omis_status define_signals(struct csr *csr, struct err *err)
{
    const struct value *list = &csr->event_args[1];
    uint64_t *set = arena_zalloc(&csr->arena, 1, sizeof *set);
    if (!set)
        return OMIS_NO_MEMORY;
    for (size_t i = 0; i < list->list.count; i++) {
        const struct value *item = &list->list.items[i];
        if (item->integer.negative || item->integer.bits < 1 || item->integer.bits > (uint64_t)SIGRTMAX) {
            err_set(err, -EINVAL, "sig_list: element %zu is no signal number (1 .. %d)", i + 1, SIGRTMAX);
            return OMIS_PARAMETER_ERROR;
        }
        *set |= UINT64_C(1) << (item->integer.bits - 1);
    }
    csr->event_data = set;
    return OMIS_OK;
}

static void need_signals(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.signals |= *(const uint64_t *)csr->event_data;
}

static bool match_signal(const struct csr *csr, const struct event *event)
{
    return event->raw && (*(const uint64_t *)csr->event_data >> (event->raw->signo - 1) & 1);
}

static const struct event_ops signal_ops = {
    .object_class = "t", .define = define_signals, .need = need_signals, .match = match_signal};

/* ---- addresses ---- */

static void need_address(struct csr *csr, struct process *process, struct trace_need *need)
{
    trace_need_break(need, process, csr->event_args[1].integer.bits, csr);
}

/* The tracer has already served a lowered request. */
static bool match_address(const struct csr *csr, const struct event *event)
{
    uint64_t addr = csr->event_args[1].integer.bits;
    if (!event->raw || event->raw->addr != addr)
        return false;
    const struct trace_state *trace = &event->process->trace;
    for (size_t i = 0; i < trace->break_count; i++)
        if (trace->breaks[i].addr == addr && trace->breaks[i].csr_serial == csr->object.serial)
            return trace->breaks[i].program_serial == 0;
    return false;
}

/* The tracer runs programs at breakpoints; a breakpoint has no condition of its own. */
static int lower_address(struct csr *csr, struct scry_code *code)
{
    return 0;
}

static const struct event_ops address_ops = {
    .object_class = "t", .need = need_address, .match = match_address, .lower = lower_address};

/* ---- instructions: the modes are set in monitor/tracing/runstate.c ---- */

static void need_steps(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.new_thread = true; /* an object of the request, perhaps */
}

static const struct event_ops step_ops = {.object_class = "t", .need = need_steps};

/* ---- programs ---- */

/* The tracer always reports exec. */
static void need_exec(struct csr *csr, struct process *process, struct trace_need *need)
{
}

static const struct event_ops denied_privilege_ops = {.object_class = "t", .need = need_exec};

/* ---- calls of functions by thread_call ---- */

static void need_calls(struct csr *csr, struct process *process, struct trace_need *need)
{
    need->watch.calls = true;
}

static const struct event_ops call_returned_ops = {.object_class = "t", .need = need_calls};

/* ---- system calls ---- */

static Omis_status define_syscall(struct csr *csr, struct err *err)
{
    const struct syscall_row *row = syscall_by_name(csr->event_args[1].text);
    if (!row) {
        err_set(err, -EINVAL, "sys_call_name: Linux has no system call \"%.*s\"", SPAN_ARG(csr->event_args[1].text));
        return OMIS_PARAMETER_ERROR;
    }
    csr->event_data = (void *)(uintptr_t)row;
    return OMIS_OK;
}

static uint32_t syscall_number(const struct csr *csr)
{
    return ((const struct syscall_row *)csr->event_data)->number;
}

static void need_syscall_start(struct csr *csr, struct process *process, struct trace_need *need)
{
    uint32_t number = syscall_number(csr);
    need->watch.syscall_enter[number / 64] |= UINT64_C(1) << number % 64;
}

static void need_syscall_end(struct csr *csr, struct process *process, struct trace_need *need)
{
    uint32_t number = syscall_number(csr);
    need->watch.syscall_exit[number / 64] |= UINT64_C(1) << number % 64;
}

static bool match_syscall(const struct csr *csr, const struct event *event)
{
    return event->raw && event->raw->number == syscall_number(csr);
}

static const struct event_ops syscall_start_ops = {
    .object_class = "t", .define = define_syscall, .need = need_syscall_start, .match = match_syscall};
static const struct event_ops syscall_end_ops = {
    .object_class = "t", .define = define_syscall, .need = need_syscall_end, .match = match_syscall};

/* ---- run states and scheduling ---- */

static const struct event_ops runstate_ops = {.object_class = "t"};
static const struct event_ops switching_ops = {
    .object_class = "t", .arm = switching_arm, .disarm = switching_disarm, .wish = switching_wish};

/* ---- what is not seen yet ---- */

static const char *no_node_set(void)
{
    return "no call of MPI adds or removes a node: its launcher goes to one by another program, such as ssh, and the "
           "node is "
           "in use before its monitor can give it a token";
}

#define EVENT_ROW(name, signature, requirement, doc, ops) \
    { \
        name, SCRY_EVENT, signature, requirement, NULL, doc, .event = ops \
    }
#define SWITCH_ROW(name, doc) \
    { \
        name, SCRY_EVENT, "token<t>* thread_list -> void", SCRY_OPTIONAL, NULL, doc, .missing = switches_missing, \
                                                                                     .event = &switching_ops \
    }
#define MISSING_ROW(name, signature, requirement, doc, why) \
    { \
        name, SCRY_EVENT, signature, requirement, NULL, doc, .missing = why \
    }

const struct scry_service thread_event_services[] = {
    MISSING_ROW("thread_adds_node", "token<t>* thread_list -> { token new_node }", SCRY_OPTIONAL,
                "A thread adds a node to its application.", no_node_set),
    MISSING_ROW("thread_removes_node", "token<t>* thread_list -> { token rem_node }", SCRY_OPTIONAL,
                "A thread removes a node from its application.", no_node_set),
    EVENT_ROW("thread_creates_proc", "token<t>* thread_list -> { token new_proc }", SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread creates a process, also by MPI_Comm_spawn (Open MPI).", &creates_proc_ops),
    EVENT_ROW("thread_creates_thread", "token<t>* thread_list -> { token new_thread }", SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread creates a thread.", &creates_thread_ops),
    EVENT_ROW("thread_has_terminated", "token<t>* thread_list -> void", SCRY_REQUIRED, "A thread has terminated.",
              &terminated_ops),
    EVENT_ROW(
        "thread_received_signal", "token<t>* thread_list, integer* sig_list -> { integer sig; integer* fault }",
        SCRY_OPTIONAL | SCRY_CONTROL,
        "A thread is about to receive a signal of the list. fault: of a memory access that failed the address and "
        "the stack pointer; of an arithmetic error its si_code (sigaction(2)); else nothing.",
        &signal_ops),
    SWITCH_ROW("thread_has_blocked", "A thread has blocked (reported afterwards)."),
    SWITCH_ROW("thread_has_been_unblocked", "A blocked thread runs again (reported afterwards)."),
    EVENT_ROW("thread_has_been_stopped", "token<t>* thread_list -> void", SCRY_REQUIRED,
              "A thread has been stopped by the monitoring system.", &runstate_ops),
    EVENT_ROW("thread_has_been_continued", "token<t>* thread_list -> void", SCRY_REQUIRED,
              "A thread has been continued by the monitoring system.", &runstate_ops),
    SWITCH_ROW("thread_has_been_scheduled", "A thread got a processor (reported afterwards)."),
    SWITCH_ROW("thread_has_been_descheduled", "A thread lost its processor (reported afterwards)."),
    EVENT_ROW("thread_reached_addr", "token<t>* thread_list, integer address -> void", SCRY_REQUIRED | SCRY_CONTROL,
              "A thread is about to execute the instruction at an address.", &address_ops),
    EVENT_ROW("thread_executed_insn", "token<t>* thread_list -> void", SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread has executed one instruction.", &step_ops),
    EVENT_ROW("thread_executed_insn_call", "token<t>* thread_list -> void", SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread has executed one instruction; a call counts as one.", &step_ops),
    EVENT_ROW("thread_has_started_sys_call", "token<t>* thread_list, string sys_call_name -> { ... }",
              SCRY_OPTIONAL | SCRY_MEMORY, "A thread has entered a system call; par1 ... are its parameters.",
              &syscall_start_ops),
    EVENT_ROW("thread_has_ended_sys_call", "token<t>* thread_list, string sys_call_name -> { ... }",
              SCRY_OPTIONAL | SCRY_MEMORY,
              "A thread has left a system call; par0 is the result, par1 ... are its parameters.", &syscall_end_ops),
    EVENT_ROW("thread_has_received_tagged_msg",
              "token<t>* thread_list, integer* tag_list -> { token msg; token sender; integer<bytes> size; integer "
              "monitor_tag }",
              SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread has received a message with a monitor tag of the list (an empty list: any tag).",
              &message_tagged_ops),
    SERVICE_END,
};

/* Beyond the specification. */
const struct scry_service scry_thread_event_services[] = {
    EVENT_ROW("scry_thread_has_ended_sys_call", "token<t>* thread_list, string sys_call_name -> { ... }",
              SCRY_OPTIONAL | SCRY_MEMORY,
              "thread_has_ended_sys_call as it was: par1 is the result, the parameters follow (will be removed).",
              &syscall_end_ops),
    EVENT_ROW(
        "scry_thread_call_returned",
        "token<t>* thread_list -> { integer address; integer result; floating floating_result }",
        SCRY_OPTIONAL | SCRY_MEMORY,
        "A function that a thread was made to call by thread_call has returned: its address and its results (rax, "
        "xmm0); the thread's registers are what they were.",
        &call_returned_ops),
    EVENT_ROW("scry_thread_denied_privilege", "token<t>* thread_list -> { string file }", SCRY_OPTIONAL | SCRY_CONTROL,
              "A thread has executed a file with a setuid or setgid bit or capabilities, which Linux did not grant it, "
              "since it is traced.",
              &denied_privilege_ops),
    SERVICE_END,
};

/* Threads of Python programs: their stacks as Python has them, read from memory (symbols/python/python.h). */

static void put_stack(struct buf *text, const struct python_program *program, const struct python_stacks *stacks)
{
    const struct python_thread *thread = stacks->count ? &stacks->threads[0] : NULL;
    const size_t count = thread ? thread->count : 0;
    char version[PYTHON_VERSION_SIZE] = "";
    if (program->version)
        python_version(version, program->version);
    PUT(text, version, count);
    put_list(text);
    for (size_t i = 0; i < count; i++)
        PUT(text, thread->frames[i].function, thread->frames[i].file, thread->frames[i].line, thread->frames[i].entry);
    put_end(text);
}

static int get_python_stack(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct thread *thread = call_thread(call, index);
    const pid_t pid = thread->process->pid;
    const struct python_memory memory = python_memory_of(&pid);
    const size_t depth = (size_t)call_integer(call, 1);
    struct python_program program;
    struct python_stacks stacks = {0};
    int code = python_find(&program, pid);
    if (code == 0)
        code = python_read(&stacks, &program, &memory, thread->tid, depth);
    if (code == -ESRCH || code == -EACCES || code == -ENOMEM)
        err_errno(err, code, "the Python stack of thread %d", thread->tid);
    else
        code = 0; /* there is none, or it is not understood */
    put_stack(text, &program, &stacks);
    python_stacks_done(&stacks);
    return code;
}

static void thread_get_python_stack(struct scry_call *call)
{
    if (call_check_range(call, 1, 1, PYTHON_FRAMES))
        call_each(call, get_python_stack);
}

const struct scry_service scry_thread_services[] = {
    {"scry_thread_get_python_stack", SCRY_INFORMATION, "token<t>* thread_list, integer depth -> " PYTHON_STACK_RESULT,
     SCRY_OPTIONAL, thread_get_python_stack,
     "Where threads of Python programs (CPython 3.9 to 3.14) are, innermost frame first, at most 200. Nothing is "
     "stopped "
     "for it. No frames: it is not in Python, or not understood. line -1: unknown. entry 1: C called Python there."},
    SERVICE_END,
};

/* ---- registers ---- */

/*
 * Register numbers of the services: those of the System V ABI's DWARF table (x86-64 psABI, figure "DWARF Register
 * Number Mapping"). Integer: 0-15, 16 = rip, 49 = rflags, 50-55 = es cs ss ds fs gs, 58 = fs.base, 59 = gs.base.
 * Floating point: 17-32 are the low doubles of xmm0-15 (the upper bits are kept on write), 33-40 are st0-7.
 */

#define REGISTERS_INTEGER_TEXT "0-16 (16 is the program counter), 49-55, 58 and 59 are defined"
#define REGISTERS_FLOATING_TEXT "17-32 (xmm) and 33-40 (x87) are defined"

enum { REGISTERS_PC = 16 };

/* ---- integer ---- */

#define AT(member) offsetof(struct user_regs_struct, member)

static const struct {
    unsigned first, count;
    unsigned short offsets[17];
} integer_runs[] = {
    {0,
     17,
     {AT(rax), AT(rdx), AT(rcx), AT(rbx), AT(rsi), AT(rdi), AT(rbp), AT(rsp), AT(r8), AT(r9), AT(r10), AT(r11), AT(r12),
      AT(r13), AT(r14), AT(r15), AT(rip)}},
    {49, 7, {AT(eflags), AT(es), AT(cs), AT(ss), AT(ds), AT(fs), AT(gs)}},
    {58, 2, {AT(fs_base), AT(gs_base)}},
};

/* The number of defined registers in sequence from reg on; 0: reg is undefined. */
static size_t registers_integer_run(uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return integer_runs[i].count - (size_t)(reg - integer_runs[i].first);
    return 0;
}

/* Where a defined register stands. */
static unsigned long long *registers_integer(struct user_regs_struct *regs, uint64_t reg)
{
    for (size_t i = 0; i < sizeof integer_runs / sizeof *integer_runs; i++)
        if (reg >= integer_runs[i].first && reg - integer_runs[i].first < integer_runs[i].count)
            return (unsigned long long *)(void *)((char *)regs + integer_runs[i].offsets[reg - integer_runs[i].first]);
    return NULL;
}

/* Of a struct user_regs_struct. */
static struct value registers_integer_at(const void *regs, size_t size, uint64_t reg)
{
    struct user_regs_struct copy;
    memcpy(&copy, regs, sizeof copy);
    return value_uint(*registers_integer(&copy, reg));
}

/* ---- floating point: the legacy part of the XSAVE area (Intel SDM vol. 1, 13.4) ---- */

enum {
    FIRST_XMM = 17,
    FIRST_ST = 33,
    END_ST = 41,
    ST_AT = 32,
    XMM_AT = 160,
    SLOT = 16,
    STATUS_AT = 2, /* FSW: TOP in bits 11-13 */
    TAG_AT = 4,    /* abridged FTW: a bit for each physical register in use */
    MXCSR_AT = 24,
    XSTATE_BV_AT = 512,
    X87_BIT = 1,
    SSE_BIT = 2,
    LEGACY_SIZE = 576, /* with the XSAVE header */
    FCW_INIT = 0x37f,
    MXCSR_INIT = 0x1f80,
};

static size_t registers_floating_run(uint64_t reg)
{
    return reg >= FIRST_XMM && reg < END_ST ? (size_t)(END_ST - reg) : 0;
}

static uint64_t components(const unsigned char *state, size_t size)
{
    uint64_t bv = X87_BIT | SSE_BIT; /* without the XSAVE header both are there */
    if (size >= LEGACY_SIZE)
        memcpy(&bv, state + XSTATE_BV_AT, sizeof bv);
    return bv;
}

/* A component not marked as present is in its initial state, whatever its bytes are. */
static void make_present(unsigned char *state, size_t size, uint64_t bit)
{
    uint64_t bv = components(state, size);
    if (bv & bit)
        return;
    if (bit == X87_BIT) {
        uint16_t fcw = FCW_INIT;
        memset(state, 0, MXCSR_AT);
        memcpy(state, &fcw, sizeof fcw);
        memset(state + ST_AT, 0, 8 * SLOT);
    } else {
        uint32_t mxcsr = MXCSR_INIT;
        memcpy(state + MXCSR_AT, &mxcsr, sizeof mxcsr);
        memset(state + XMM_AT, 0, 16 * SLOT);
    }
    bv |= bit;
    if (size >= LEGACY_SIZE)
        memcpy(state + XSTATE_BV_AT, &bv, sizeof bv);
}

/* In an XSAVE area of `size` bytes. */
static struct value registers_floating_at(const void *state, size_t size, uint64_t reg)
{
    const unsigned char *bytes = state;
    uint64_t present = components(bytes, size);
    if (reg < FIRST_ST) {
        double number = 0;
        if (present & SSE_BIT)
            memcpy(&number, bytes + XMM_AT + (reg - FIRST_XMM) * SLOT, sizeof number);
        return value_floating(number);
    }
    long double number = 0;
    if (present & X87_BIT)
        memcpy(&number, bytes + ST_AT + (reg - FIRST_ST) * SLOT, 10);
    return value_wide(number);
}

static void registers_floating_set(void *state, size_t size, uint64_t reg, const struct value *value)
{
    unsigned char *bytes = state;
    if (reg < FIRST_ST) {
        make_present(bytes, size, SSE_BIT);
        memcpy(bytes + XMM_AT + (reg - FIRST_XMM) * SLOT, &value->floating.number, sizeof(double));
        return;
    }
    make_present(bytes, size, X87_BIT);
    long double number = value->floating.is_wide ? value->floating.wide : (long double)value->floating.number;
    memcpy(bytes + ST_AT + (reg - FIRST_ST) * SLOT, &number, 10);
    uint16_t status;
    memcpy(&status, bytes + STATUS_AT, sizeof status);
    unsigned top = status >> 11 & 7;
    bytes[TAG_AT] |= (unsigned char)(1u << ((top + (reg - FIRST_ST)) & 7));
}

/* Reading and writing registers (specification 8.1.3). */

/* Stops a running thread for a moment: the process is released when the execution is over. */
static int regs_of(struct scry_call *call, const struct thread *thread, struct user_regs_struct *ret_regs,
                   struct err *err)
{
    int code = tracing_seize(thread->process, err);
    return code < 0 ? code : tracer_get_regs(call->monitor->tracer, thread->tid, ret_regs);
}

static int xstate_of(struct scry_call *call, const struct thread *thread, void *ret_bytes, size_t *ret_size,
                     struct err *err)
{
    *ret_size = TRACER_XSTATE_SIZE;
    int code = tracing_seize(thread->process, err);
    return code < 0 ? code : tracer_get_xstate(call->monitor->tracer, thread->tid, ret_bytes, ret_size);
}

/* Checks reg and the number of registers. *ret_count is the length of the run of defined numbers. */
static bool check_run(struct scry_call *call, bool floating, uint64_t wanted, size_t *ret_count)
{
    uint64_t reg = call_unsigned(call, 1);
    size_t defined = floating ? registers_floating_run(reg) : registers_integer_run(reg);
    if (!defined) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "there is no %s register number %llu: %s",
                  floating ? "floating point" : "integer", (unsigned long long)reg,
                  floating ? REGISTERS_FLOATING_TEXT : REGISTERS_INTEGER_TEXT);
        return false;
    }
    *ret_count = wanted < defined ? wanted : defined;
    return true;
}

/* Checks that every value has its register. */
static bool check_values(struct scry_call *call, bool floating, size_t *ret_count)
{
    size_t wanted = call->args[2].list.count;
    if (!check_run(call, floating, wanted, ret_count))
        return false;
    if (*ret_count == wanted)
        return true;
    uint64_t reg = call_unsigned(call, 1);
    call_fail(call, NULL, OMIS_PARAMETER_ERROR, "val has %zu values, but only registers %llu to %llu are in sequence",
              wanted, (unsigned long long)reg, (unsigned long long)(reg + *ret_count - 1));
    return false;
}

typedef struct value member_fn(const void *state, size_t size, uint64_t reg);

/* The result of one thread: the registers from reg on. */
static void tell_run(struct scry_call *call, size_t object, size_t count, member_fn *member, const void *state,
                     size_t size)
{
    struct buf text = BUF_INIT;
    put_list(&text);
    for (size_t i = 0; i < count; i++)
        PUT(&text, member(state, size, call_unsigned(call, 1) + i));
    put_end(&text);
    call_text(call, call->objects[object], &text);
    buf_done(&text);
}

static void thread_read_int_regs(struct scry_call *call)
{
    size_t count;
    if (!call_check_range(call, 2, 0, INT32_MAX) || !check_run(call, false, call_unsigned(call, 2), &count))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct user_regs_struct regs;
        struct err err = {0};
        int code = regs_of(call, call_thread(call, i), &regs, &err);
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
            continue;
        }
        tell_run(call, i, count, registers_integer_at, &regs, sizeof regs);
    }
}

static void thread_write_int_regs(struct scry_call *call)
{
    const struct value *list = &call->args[2];
    uint64_t reg = call_unsigned(call, 1);
    size_t count;
    if (!check_values(call, false, &count))
        return;
    for (size_t i = 0; i < call->object_count; i++) {
        struct user_regs_struct regs;
        struct err err = {0};
        struct thread *thread = call_thread(call, i);
        int code = regs_of(call, thread, &regs, &err);
        for (size_t k = 0; code == 0 && k < count; k++) {
            *registers_integer(&regs, reg + k) = list->list.items[k].integer.bits;
            if (reg + k == REGISTERS_PC)
                regs.orig_rax = (unsigned long long)-1; /* a system call in progress must not be restarted there */
        }
        if (code == 0)
            code = tracer_set_regs(call->monitor->tracer, thread->tid, &regs);
        call_done(call, call->objects[i], code, &err);
    }
}

static void thread_read_fp_regs(struct scry_call *call)
{
    size_t count;
    if (!call_check_range(call, 2, 0, INT32_MAX) || !check_run(call, true, call_unsigned(call, 2), &count))
        return;
    void *state = arena_alloc(call->arena, TRACER_XSTATE_SIZE);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        size_t size;
        int code = state ? xstate_of(call, call_thread(call, i), state, &size, &err) : -ENOMEM;
        if (code < 0) {
            call_fail_errno(call, call->objects[i], code, &err);
            continue;
        }
        tell_run(call, i, count, registers_floating_at, state, size);
    }
}

static void thread_write_fp_regs(struct scry_call *call)
{
    const struct value *list = &call->args[2];
    uint64_t reg = call_unsigned(call, 1);
    size_t count;
    if (!check_values(call, true, &count))
        return;
    void *state = arena_alloc(call->arena, TRACER_XSTATE_SIZE);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct thread *thread = call_thread(call, i);
        size_t size;
        int code = state ? xstate_of(call, thread, state, &size, &err) : -ENOMEM;
        for (size_t k = 0; code == 0 && k < count; k++)
            registers_floating_set(state, size, reg + k, &list->list.items[k]);
        if (code == 0)
            code = tracer_set_xstate(call->monitor->tracer, thread->tid, state, size);
        call_done(call, call->objects[i], code, &err);
    }
}

const struct scry_service thread_register_services[] = {
    {"thread_write_int_regs", SCRY_MANIPULATION, "token<t>* thread_list, integer reg, integer* val -> void",
     SCRY_REQUIRED | SCRY_MEMORY, thread_write_int_regs,
     "Write integer registers reg, reg+1, ... (numbers of the ABI's DWARF table)."},
    {"thread_write_fp_regs", SCRY_MANIPULATION, "token<t>* thread_list, integer reg, floating* val -> void",
     SCRY_REQUIRED | SCRY_MEMORY, thread_write_fp_regs,
     "Write floating point registers (17-32: low doubles of xmm0-15; 33-40: st0-7)."},
    {"thread_read_int_regs", SCRY_INFORMATION, "token<t>* thread_list, integer reg, integer num -> integer*",
     SCRY_REQUIRED | SCRY_MEMORY, thread_read_int_regs,
     "Read integer registers; the run ends at the first undefined number."},
    {"thread_read_fp_regs", SCRY_INFORMATION, "token<t>* thread_list, integer reg, integer num -> floating*",
     SCRY_REQUIRED | SCRY_MEMORY, thread_read_fp_regs,
     "Read floating point registers (17-32: low doubles of xmm0-15; 33-40: st0-7)."},
    SERVICE_END,
};
