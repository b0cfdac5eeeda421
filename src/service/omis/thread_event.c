/* SPDX-License-Identifier: Apache-2.0 */
/* Event services on threads (specification 8.1.3). */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "monitor/engine/call.h"
#include "monitor/engine/event.h"
#include "monitor/engine/process.h"
#include "monitor/engine/switching.h"
#include "monitor/tracing/tracing.h"
#include "probe/switches.h"
#include "service/omis/message.h"
#include "service/omis/service.h"
#include "service/omis/syscalls.h"

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

/* ---- instructions: the modes are set in monitor/tracing/steps.c ---- */

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
