/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of MPI calls. If the whole request can be lowered, the agent runs it inside the call. Else it checks the
 * condition, holds the thread, and hands the event over with all that is known of the call (shm/mpi_told.h). A process
 * reports its calls only while a request is armed in it.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/recorder/agents.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/mpi/mpi.h"
#include "monitor/params/params.h"
#include "service/ct/ct.h"
#include "monitor/engine/messages.h"
#include "monitor/mpi/messages.h"
#include "shm/mpi_told.h"
#include "service/omis/service.h"

struct wanted { /* a process that reports its calls for this request */
    pid_t pid;
    struct wanted *next;
};

struct definition { /* csr->event_data */
    uint64_t calls[MPI_CALL_WORDS];
    uint32_t first;                /* of them, for messages */
    struct ct_condition condition; /* with the parameters of lowered actions after its own */
    bool ended;
    bool messages;         /* an action uses their tokens: number them */
    struct wanted *wanted; /* in the request's arena, also unused ones */
    struct wanted *unused;
};

/* ---- definition ---- */

static bool has_call(const struct definition *definition, uint32_t call)
{
    return definition->calls[call / 64] >> call % 64 & 1;
}

/* Does any of the calls have it? */
static bool is_param(const struct definition *definition, struct span name)
{
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (has_call(definition, call) && mpi_param_named(call, definition->ended, name).kind != MPI_PARAM_NONE)
            return true;
    return false;
}

static int no_param(const struct definition *definition, const char *where, struct span name, struct err *err)
{
    struct buf has = BUF_INIT;
    bool one = true;
    for (uint32_t call = definition->first + 1; one && call < CALL_COUNT; call++)
        one = !has_call(definition, call);
    if (one)
        mpi_params_print(&has, definition->first, definition->ended);
    bool result = name.len && (span_is(name, "result") || span_is(name, "par0") || span_is(name, "$par0"));
    int code;
    if (result && !definition->ended)
        code = err_set(err, -EINVAL, "%s'%.*s': the result is there when the call has ended", where, SPAN_ARG(name));
    else if (one)
        code =
            err_set(err, -EINVAL, "%s%s has no '%.*s'%s: it has %.*s", where, call_infos[definition->first].name,
                    SPAN_ARG(name), definition->ended ? "" : " when it starts", (int)has.len, has.data ? has.data : "");
    else
        code = err_set(err, -EINVAL, "%snone of these calls has '%.*s'", where, SPAN_ARG(name));
    buf_done(&has);
    return code;
}

/* $msg comes last, and is made only if it is used. */
static const char *const fixed[] = {"msg", "call", "comm", "peer", "tag", "bytes", "received", "result", "duration"};

static bool is_fixed(struct span name, bool ended)
{
    size_t count = ended ? sizeof fixed / sizeof *fixed : 6;
    for (size_t i = 0; i < count; i++)
        if (span_is(name, fixed[i]))
            return true;
    return false;
}

static bool is_standard(struct span name)
{
    return span_is(name, "node") || span_is(name, "proc") || span_is(name, "thread") || span_is(name, "time") ||
           span_is(name, "csr");
}

/* Does any of the calls have a message of this name? */
static bool is_message(const struct definition *definition, struct span name)
{
    bool found = span_is(name, "msg");
    for (uint32_t call = 1; !found && call < CALL_COUNT; call++)
        found = has_call(definition, call) && mpi_param_named(call, definition->ended, name).kind >= MPI_PARAM_SENT;
    return found;
}

/* Checks that actions use only what the calls have. */
static int check_used(struct definition *definition, const struct value *values, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        int code = 0;
        if (values[i].kind == VALUE_LIST)
            code = check_used(definition, values[i].list.items, values[i].list.count, err);
        else if (values[i].kind == VALUE_PARAM && !is_standard(values[i].text) &&
                 !is_fixed(values[i].text, definition->ended) && !is_param(definition, values[i].text))
            code = no_param(definition, "", values[i].text, err);
        else if (values[i].kind == VALUE_PARAM)
            definition->messages |= is_message(definition, values[i].text);
        if (code < 0)
            return code;
    }
    return 0;
}

static int calls_choose(struct definition *definition, struct span text, struct err *err)
{
    struct span wrong;
    const char *near[MPI_NEAR];
    if (mpi_calls_choose(text, definition->calls, &wrong, near) < 0)
        return mpi_calls_unknown("lib_call_name", wrong, near, err);
    definition->first = 1;
    while (!has_call(definition, definition->first))
        definition->first++;
    return 0;
}

static Omis_status lib_define(struct csr *csr, bool ended, struct err *err)
{
    struct definition *definition = arena_zalloc(&csr->arena, 1, sizeof *definition);
    if (!definition)
        return OMIS_NO_MEMORY;
    definition->ended = ended;
    csr->event_data = definition;
    int code = calls_choose(definition, csr->event_args[1].text, err);
    if (code == 0)
        code = ct_condition_compile(&csr->arena, csr->event_args[2].text, false, &definition->condition, err);
    for (unsigned i = 0; code == 0 && i < definition->condition.param_count; i++) {
        struct span name = span_str(definition->condition.params[i]);
        if (!is_param(definition, name))
            code = no_param(definition, "condition: ", name, err);
    }
    if (code < 0)
        return status_of_errno(code);
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (check_used(definition, csr->request.actions[i].args, csr->request.actions[i].argc, err) < 0)
            return OMIS_UNKNOWN_ECP;
    return OMIS_OK;
}

static Omis_status define_started(struct csr *csr, struct err *err)
{
    return lib_define(csr, false, err);
}

static Omis_status define_ended(struct csr *csr, struct err *err)
{
    return lib_define(csr, true, err);
}

/* ---- lowering ---- */

static int lower_condition(struct csr *csr, struct scry_code *code)
{
    const struct definition *definition = csr->event_data;
    return call_event_lower(&definition->condition, code);
}

/* For numbers only. Each has one place in all programs of the request. */
static int lower_param(struct csr *csr, struct span name)
{
    struct definition *definition = csr->event_data;
    struct ct_condition *condition = &definition->condition;
    for (unsigned i = 0; i < condition->param_count; i++)
        if (span_is(name, condition->params[i]))
            return (int)i;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        enum mpi_param_kind kind = MPI_PARAM_SIGNED;
        if (has_call(definition, call))
            kind = mpi_param_named(call, definition->ended, name).kind;
        if (kind < MPI_PARAM_SIGNED || kind > MPI_PARAM_FLOATING)
            return -1; /* the monitor reports it when it occurs */
    }
    const char *copy = condition->param_count < CODE_PARAMS ? arena_dup(&csr->arena, name.ptr, name.len) : NULL;
    if (!copy)
        return -1;
    condition->params[condition->param_count] = copy;
    return (int)condition->param_count++;
}

/* Programs do not know which thread they run in. */
static bool runs_there(const struct csr *csr)
{
    return csr->program && !csr_names_threads(csr);
}

/* ---- which processes report calls ---- */

static bool process_tells(const struct definition *definition, pid_t pid)
{
    for (const struct wanted *wanted = definition->wanted; wanted; wanted = wanted->next)
        if (wanted->pid == pid)
            return true;
    return false;
}

static int lib_want(struct csr *csr, struct mpi_process *process)
{
    struct definition *definition = csr->event_data;
    pid_t pid = mpi_process_pid(process);
    if (process_tells(definition, pid))
        return 0;
    struct wanted *wanted = definition->unused ? definition->unused : arena_alloc(&csr->arena, sizeof *wanted);
    if (!wanted || mpi_process_want_calls(process, definition->calls, 1) < 0)
        return -ENOMEM;
    if (wanted == definition->unused)
        definition->unused = wanted->next;
    *wanted = (struct wanted){pid, definition->wanted};
    definition->wanted = wanted;
    if (definition->messages)
        mpi_process_want(process, MPIA_METRIC_MESSAGES, 1);
    return 0;
}

/* `process` NULL: it is gone, with its settings. */
static void lib_unwant(struct csr *csr, pid_t pid, struct mpi_process *process)
{
    struct definition *definition = csr->event_data;
    for (struct wanted **at = &definition->wanted; *at; at = &(*at)->next) {
        struct wanted *wanted = *at;
        if (wanted->pid != pid)
            continue;
        *at = wanted->next;
        wanted->next = definition->unused;
        definition->unused = wanted;
        if (process)
            mpi_process_want_calls(process, definition->calls, -1);
        if (process && definition->messages)
            mpi_process_want(process, MPIA_METRIC_MESSAGES, -1);
        return;
    }
}

/* ---- arming ---- */

static int lib_demand(struct csr *csr, struct agent *agent, struct err *err)
{
    const struct definition *definition = csr->event_data;
    struct code_program *filter = NULL;
    if (!runs_there(csr) && lower_filter(csr, &filter) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    const struct agent_demand wanted = {.csr = csr,
                                        .mpi = definition->calls,
                                        .at_exit = definition->ended,
                                        .raise = !runs_there(csr),
                                        .program = runs_there(csr) ? csr->program : filter,
                                        .params = definition->condition.params,
                                        .param_count = definition->condition.param_count};
    int code = agent_demand(agent, &wanted, NULL, NULL, err);
    free(filter);
    return code;
}

static int no_mpi(struct process *process, const char *why, struct err *err)
{
    return err_set(err, -EOPNOTSUPP,
                   "process %d has no MPI that is watched (%s); started with `scry run` or `scry exec`, it is as soon "
                   "as it has loaded its MPI library",
                   process->pid, why);
}

/* Where the interposer has come, the process said hello, and the request is armed. */
static void late_brought(void *ctx, struct process *process, int code, const struct err *why)
{
    struct csr *csr = ctx;
    struct err err = {0};
    if (process && (code < 0 || !mpi_process_find(process->object.monitor->mpi, process->pid)))
        csr_target_ready(csr, process, no_mpi(process, code < 0 ? why->text : "it has ended", &err), &err);
}

static int lib_arm(struct csr *csr, struct process *process, struct err *err)
{
    struct mpi_process *mpi = mpi_process_find(process->object.monitor->mpi, process->pid);
    if (!mpi) {
        struct err why = {0};
        return mpi_late_begin(process, late_brought, csr, &why) == 0 ? 1 : no_mpi(process, why.text, err);
    }
    struct agent *agent = call_event_agent(process);
    int code = agent ? lib_demand(csr, agent, err) : 0;
    if (code == 0 && lib_want(csr, mpi) < 0)
        code = err_set(err, -ENOMEM, "out of memory");
    if (code < 0)
        return code;
    if (!atomic_load(&mpi_process_head(mpi)->on)) /* in force, but warn */
        err_set(
            err, 0,
            "MPI is switched off in process %d: its calls are reported when it is on again (`scry set JOB mpi=stats`)",
            process->pid);
    return agent ? 0 : 1; /* the agent comes with the next call, which waits for it */
}

static void lib_disarm(struct csr *csr, struct process *process)
{
    struct agent *agent = call_event_agent(process);
    mpi_late_forget(process, csr);
    if (agent)
        agent_undemand(agent, csr);
    lib_unwant(csr, process->pid, mpi_process_find(process->object.monitor->mpi, process->pid));
}

/* ---- what happened ---- */

static uint32_t call_of(const struct event *event)
{
    return event->seen ? agent_mpi_call(event->seen->agent, event->seen->raise.slot) : CALL_NONE;
}

static bool lib_match(const struct csr *csr, const struct event *event)
{
    const struct definition *definition = csr->event_data;
    uint32_t call = call_of(event);
    return call && !runs_there(csr) && has_call(definition, call) &&
           call_event_holds(csr, &definition->condition, event);
}

static unsigned param_count(const struct csr *csr)
{
    return ((const struct definition *)csr->event_data)->condition.param_count;
}

/* A message that is not counted has no token. `message` NULL: there is no message. */
static struct value message_value(const struct event *event, const struct mpi_told_message *message)
{
    struct monitor *monitor = event->process->object.monitor;
    char token[TOKEN_TEXT_SIZE];
    struct scry_object *object = NULL;
    if (message && message_token(monitor, event->process, message, token))
        object = object_find(monitor, span_str(token));
    return value_token(span_str(object ? object->token : TOKEN_UNDEFINED));
}

static struct value number_value(struct mpi_param param, const struct mpi_told *told)
{
    int64_t bits = mpi_param_bits(told, param);
    double number;
    memcpy(&number, &bits, sizeof number);
    return param.kind == MPI_PARAM_FLOATING   ? value_floating(number)
           : param.kind == MPI_PARAM_UNSIGNED ? value_uint((uint64_t)bits)
                                              : value_int(bits);
}

static bool value_of(const struct event *event, struct mpi_param param, const struct mpi_told *told,
                     struct value *ret_value)
{
    if (param.kind == MPI_PARAM_SENT)
        *ret_value = message_value(event, told->flags & MPI_TOLD_SENT ? &told->sent : NULL);
    else if (param.kind == MPI_PARAM_GOT)
        *ret_value = message_value(event, told->flags & MPI_TOLD_GOT ? &told->got : NULL);
    else
        *ret_value = number_value(param, told);
    return param.kind != MPI_PARAM_NONE;
}

static bool lib_param(const struct csr *csr, const struct event *event, unsigned number, struct value *ret_value)
{
    struct mpi_told told;
    uint32_t call = call_of(event);
    (void)csr;
    return call && agent_event_mpi_call(event->seen, &told) &&
           value_of(event, mpi_param_at(call, event->seen->raise.exit, number), &told, ret_value);
}

static bool param_named(const struct csr *csr, const struct event *event, struct span name, struct value *ret_value)
{
    struct mpi_told told;
    uint32_t call = call_of(event);
    (void)csr;
    if (!call || !agent_event_mpi_call(event->seen, &told))
        return false;
    if (span_is(name, "msg")) {
        *ret_value = message_value(event, told.flags & MPI_TOLD_SENT  ? &told.sent
                                          : told.flags & MPI_TOLD_GOT ? &told.got
                                                                      : NULL);
        return true;
    }
    return value_of(event, mpi_param_named(call, event->seen->raise.exit, name), &told, ret_value);
}

/* Does any call have an argument of this name? */
static bool process_knows(struct span name)
{
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (mpi_param_named(call, true, name).kind != MPI_PARAM_NONE)
            return true;
    return false;
}

#define LIB_CALL_EVENT(define_) \
    { \
        .object_class = "t", .define = (define_), .arm = lib_arm, .disarm = lib_disarm, .match = lib_match, \
        .lower = lower_condition, .relowered = call_event_rearm, .posts = true, .param_count = param_count, \
        .param = lib_param, .knows = process_knows, .named = param_named, .lower_param = lower_param, \
    }
static const struct event_ops started_ops = LIB_CALL_EVENT(define_started), ended_ops = LIB_CALL_EVENT(define_ended);

/* ---- events from agents ---- */

enum { OUTPUTS = 8 };

/* In the order of the signatures. */
static size_t build_outputs(const struct agent_event *seen, uint32_t call, const struct mpi_told *told,
                            struct value outputs[OUTPUTS])
{
    size_t count = 0;
    outputs[count++] = value_string(span_str(call_infos[call].name));
    outputs[count++] = value_int(told->flags & MPI_TOLD_COMM ? told->comm : -1);
    outputs[count++] = value_int(told->peer);
    outputs[count++] = value_int(told->tag);
    outputs[count++] = value_uint(told->bytes);
    if (!seen->raise.exit)
        return count;
    outputs[count++] = value_uint(told->got_bytes);
    outputs[count++] = number_value(mpi_param_at(call, true, 0), told);
    outputs[count++] = value_floating(ct_duration_ns(seen->agent, seen->raise.time - seen->raise.entry_time) / 1e9);
    return count;
}

void lib_call_raise(struct monitor *monitor, const struct agent_event *seen, const struct mpi_told *told)
{
    const char *service = seen->raise.exit ? "thread_has_ended_lib_call" : "thread_has_started_lib_call";
    struct event event;
    uint32_t call = agent_mpi_call(seen->agent, seen->raise.slot);
    struct value outputs[OUTPUTS];
    if (call_event_begin(monitor, seen, service, &event) && call)
        call_event_raise(monitor, &event, outputs, build_outputs(seen, call, told, outputs));
}

/* ---- processes that come ---- */

static void process_renewed(struct process *process)
{
    csr_process_renewed(process, &started_ops);
    csr_process_renewed(process, &ended_ops);
}

void lib_call_agent_came(struct process *process)
{
    process_renewed(process);
}

static void wish_forget(const struct service *service, pid_t pid)
{
    for (struct csr *csr = service->enabled; csr; csr = csr->next_enabled)
        lib_unwant(csr, pid, NULL);
}

/* A process with MPI, or the same with another program, which has none of the settings of the first. */
static void on_change(void *ctx, struct mpi_process *mpi, enum mpi_change change)
{
    struct monitor *monitor = ctx;
    if (change != MPI_CAME)
        return;
    monitor_enter(monitor);
    wish_forget(registry_find(monitor->registry, span_str("thread_has_started_lib_call")), mpi_process_pid(mpi));
    wish_forget(registry_find(monitor->registry, span_str("thread_has_ended_lib_call")), mpi_process_pid(mpi));
    struct process *process = process_find(monitor, mpi_process_pid(mpi));
    if (process)
        process_renewed(process);
    struct tool *tool = *mpi_process_job(mpi) ? job_tool(monitor, mpi_process_job(mpi)) : NULL;
    if (tool)
        call_event_attach(tool, mpi_process_pid(mpi), mpi_process_job(mpi));
    monitor_leave(monitor);
}

static void attach_one(void *ctx, struct mpi_process *process)
{
    call_event_attach(ctx, mpi_process_pid(process), mpi_process_job(process));
}

void lib_call_job_created(struct monitor *monitor, struct tool *tool, const char *dir)
{
    mpi_process_each(monitor->mpi, dir, attach_one, tool);
}

void lib_call_start(struct monitor *monitor)
{
    if (monitor->mpi)
        mpi_on_change(monitor->mpi, on_change, monitor);
}

/* ---- the services ---- */

#define OUTPUTS_OF_BOTH "string call; integer comm; integer peer; integer tag; integer<bytes> bytes; "

const struct scry_service lib_call_services[] = {
    {"thread_has_started_lib_call", SCRY_EVENT,
     "token<t>* thread_list, string lib_call_name, [string condition] -> { " OUTPUTS_OF_BOTH "token msg; ... }",
     SCRY_REQUIRED | SCRY_MEMORY, NULL,
     "A thread has called MPI (a name, or names with wildcards; outermost calls only), and the condition on the call's "
     "parameters holds; par1, par2 ... are the parameters of the C function, also by their names.",
     .event = &started_ops},
    {"thread_has_ended_lib_call", SCRY_EVENT,
     "token<t>* thread_list, string lib_call_name, [string condition] -> { " OUTPUTS_OF_BOTH
     "integer<bytes> received; integer result; floating<s> duration; token msg; ... }",
     SCRY_REQUIRED | SCRY_MEMORY, NULL, "A thread has returned from MPI; par0 is the result, duration in seconds.",
     .event = &ended_ops},
    SERVICE_END,
};
