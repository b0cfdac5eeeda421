/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events ct_function_called and ct_function_returned, which agents detect. If a whole request can be lowered, the
 * agent runs it. Else it checks the condition, holds the thread and hands the event over. The thread goes on when all
 * lists are done. If one of them stopped it, it is stopped before it is released.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/loop.h"
#include "lang/request.h"
#include "monitor/recorder/agents.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "service/ct/ct.h"
#include "service/omis/service.h"
#include "symbols/layout/layout.h"
#include "shm/mpi_told.h"

struct definition { /* csr->event_data */
    const char *selection;
    struct ct_condition condition;
    bool at_exit, values, statics;
};

/* ---- definition ---- */

static const char *const value_names[] = {"args",   "locals",  "arg_list",   "local_list",
                                          "result", "statics", "static_list"};
enum { FIRST_STATICS = 5, VALUE_NAMES = sizeof value_names / sizeof *value_names };

/* Does the list use an output from number `first` on? */
static bool shows_values(const struct value *values, size_t count, size_t first)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_LIST && shows_values(values[i].list.items, values[i].list.count, first))
            return true;
        for (size_t k = first; values[i].kind == VALUE_PARAM && k < VALUE_NAMES; k++)
            if (span_is(values[i].text, value_names[k]))
                return true;
    }
    return false;
}

static bool uses_values(const struct csr *csr, size_t first)
{
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (shows_values(csr->request.actions[i].args, csr->request.actions[i].argc, first))
            return true;
    return false;
}

/* Values are captured only for requests that show them. */
static bool wants_values(const struct csr *csr)
{
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (csr->actions[i]->row->run == ct_snapshot)
            return true;
    return uses_values(csr, 0);
}

static Omis_status call_define(struct csr *csr, bool at_exit, struct err *err)
{
    struct definition *definition = arena_zalloc(&csr->arena, 1, sizeof *definition);
    struct span selection = csr->event_args[1].text;
    if (selection.len && memchr(selection.ptr, 0, selection.len)) {
        err_set(err, -EINVAL, "selection: a NUL byte cannot be part of it");
        return OMIS_PARAMETER_ERROR;
    }
    if (definition)
        definition->selection = arena_dup(&csr->arena, selection.ptr, selection.len);
    if (!definition || !definition->selection)
        return OMIS_NO_MEMORY;
    struct selection *parsed;
    int code = selection_parse(&parsed, definition->selection, err);
    if (code < 0)
        return status_of_errno(code);
    selection_free(parsed);
    code = ct_condition_compile(&csr->arena, csr->event_args[2].text, at_exit, &definition->condition, err);
    if (code < 0)
        return status_of_errno(code);
    definition->at_exit = at_exit;
    definition->values = wants_values(csr);
    definition->statics = at_exit && uses_values(csr, FIRST_STATICS);
    csr->event_data = definition;
    return OMIS_OK;
}

static Omis_status define_called(struct csr *csr, struct err *err)
{
    return call_define(csr, false, err);
}

static Omis_status define_returned(struct csr *csr, struct err *err)
{
    return call_define(csr, true, err);
}

/* ---- arming ---- */

static int lower_condition(struct csr *csr, struct scry_code *code)
{
    const struct definition *definition = csr->event_data;
    return call_event_lower(&definition->condition, code);
}

struct agent *ct_agent(const struct process *process, struct err *err)
{
    struct agent *agent = call_event_agent(process);
    if (!agent)
        err_set(err, -EOPNOTSUPP,
                "process %d has no agent: start it with `scry run` or `scry exec`, compiled with "
                "-finstrument-functions; then its functions are seen (those of children of fork in quick succession "
                "with --trace all)",
                process->pid);
    return agent;
}

struct waiting { /* for a demand that is being compiled; in the request's arena */
    struct csr *csr;
    pid_t pid;
    bool later; /* answered after agent_demand has returned */
    bool done;
    int code;
    struct err err;
};

static void demand_ready(void *ctx, int code, const char *reason)
{
    struct waiting *waiting = ctx;
    struct csr *csr = waiting->csr;
    struct monitor *monitor = csr->object.monitor;
    struct process *process = process_find(monitor, waiting->pid);
    waiting->done = true;
    waiting->code = code < 0 ? code : 0;
    if (code < 0)
        err_set(&waiting->err, code, "%s", reason && *reason ? reason : strerrordesc_np(-code));
    if (!waiting->later || !process || !csr->session)
        return;
    monitor_enter(monitor);
    csr_target_ready(csr, process, waiting->code, &waiting->err);
    monitor_leave(monitor);
}

static int call_demand(struct csr *csr, struct process *process, struct err *err)
{
    const struct definition *definition = csr->event_data;
    struct agent *agent = ct_agent(process, err);
    struct waiting *waiting = arena_zalloc(&csr->arena, 1, sizeof *waiting);
    struct code_program *filter = NULL;
    if (!agent)
        return -EOPNOTSUPP;
    if (!waiting || (!csr->program && lower_filter(csr, &filter) < 0))
        return err_set(err, -ENOMEM, "out of memory");
    waiting->csr = csr;
    waiting->pid = process->pid;
    const struct agent_demand wanted = {.csr = csr,
                                        .selection = definition->selection,
                                        .at_exit = definition->at_exit,
                                        .raise = !csr->program,
                                        .program = csr->program ? csr->program : filter,
                                        .params = definition->condition.params,
                                        .param_count = definition->condition.param_count,
                                        .values = definition->values && !csr->program,
                                        .statics = definition->statics && !csr->program};
    int code = agent_demand(agent, &wanted, demand_ready, waiting, err);
    free(filter);
    if (code < 0)
        return code;
    waiting->later = true; /* what is missing may come with a library */
    if (waiting->done)
        return waiting->code < 0 ? err_set(err, waiting->code, "%s", waiting->err.text) : 0;
    return 1;
}

static void call_undemand(struct csr *csr, struct process *process)
{
    struct agent *agent = call_event_agent(process);
    if (agent)
        agent_undemand(agent, csr);
}

/* ---- what happened ---- */

static bool call_match(const struct csr *csr, const struct event *event)
{
    const struct definition *definition = csr->event_data;
    /* a lowered request was served by the agent already */
    return event->seen && !csr->program && call_event_holds(csr, &definition->condition, event);
}

static unsigned param_count(const struct csr *csr)
{
    return ((const struct definition *)csr->event_data)->condition.param_count;
}

static bool call_param(const struct csr *csr, const struct event *event, unsigned number, struct value *ret_value)
{
    struct code_event params;
    if (number >= param_count(csr) || !event->seen || !agent_event_params(event->seen, csr, &params))
        return false;
    double floating;
    memcpy(&floating, &params.params[number], sizeof floating);
    switch (number < params.param_count ? params.types[number] : (uint8_t)CODE_MISSING) {
    case CODE_SIGNED:
        *ret_value = value_int(params.params[number]);
        break;
    case CODE_UNSIGNED:
        *ret_value = value_uint((uint64_t)params.params[number]);
        break;
    case CODE_FLOATING:
    case CODE_SINGLE:
        *ret_value = value_floating(floating);
        break;
    default:
        *ret_value = value_string(span_str("<not available>"));
    }
    return true;
}

/* The two events differ only in their definition. */
#define CALL_EVENT(define_) \
    { \
        .object_class = "p", .define = (define_), .arm = call_demand, .disarm = call_undemand, .may_come = true, \
        .match = call_match, .lower = lower_condition, .relowered = call_event_rearm, .posts = true, \
        .param_count = param_count, .param = call_param, \
    }
const struct event_ops ct_called_ops = CALL_EVENT(define_called), ct_returned_ops = CALL_EVENT(define_returned);

/* ---- outputs ---- */

enum {
    OUT_FUNCTION,
    OUT_FILE,
    OUT_LINE,
    OUT_DEPTH,
    OUT_ARGS,
    OUT_LOCALS,
    OUT_ARG_LIST,
    OUT_LOCAL_LIST,
    OUT_DURATION, /* of returns, from here on */
    OUT_RESULT,
    OUT_STATICS,
    OUT_STATIC_LIST,
    OUTPUTS,
};

struct values {
    struct arena *arena;
    const struct agent_event *seen;
    struct layout *layout; /* NULL: none were captured */
    struct layout_style style;
};

static struct value text_value(struct arena *arena, const struct buf *text)
{
    const char *copy = text->failed ? NULL : arena_dup(arena, text->data ? text->data : "", text->len);
    return value_string(copy ? span_of(copy, text->len) : span_str("<cut>"));
}

static struct value part_text(const struct values *values, enum layout_part part)
{
    struct buf text = BUF_INIT;
    if (values->layout && layout_has(values->layout, part))
        layout_format(values->layout, part, values->seen->raise.values, values->seen->raise.values_size, &values->style,
                      &text);
    struct value value = text_value(values->arena, &text);
    buf_done(&text);
    return value;
}

static struct value part_list(const struct values *values, enum layout_part part)
{
    struct buf text = BUF_INIT;
    const struct value *items = NULL;
    size_t count = 0;
    if (values->layout && layout_has(values->layout, part))
        layout_format_list(values->layout, part, values->seen->raise.values, values->seen->raise.values_size,
                           &values->style, &text);
    const char *copy = text.failed ? NULL : arena_dup(values->arena, text.data ? text.data : "", text.len);
    if (!copy || !text.len || values_parse(values->arena, span_of(copy, text.len), &items, &count, NULL) < 0)
        count = 0;
    buf_done(&text);
    return value_list(items, count);
}

static size_t build_outputs(struct arena *arena, const struct agent_event *seen, struct value outputs[OUTPUTS])
{
    struct ct_place *place = arena_alloc(arena, sizeof *place);
    _cleanup_(buf_done) struct buf layout_text = BUF_INIT;
    bool has_layout = seen->raise.values_size && agent_layout_put(seen->agent, seen->raise.layout, &layout_text);
    struct values values = {
        .arena = arena, .seen = seen, .style = {.name_address = agent_name_address, .ctx = seen->agent}};
    if (!place)
        return 0;
    if (has_layout && layout_parse(&values.layout, layout_text.data, NULL) < 0)
        values.layout = NULL;
    /* at entries there are only the caller's */
    enum layout_part locals = values.layout && layout_has(values.layout, LAYOUT_LOCALS) ? LAYOUT_LOCALS : LAYOUT_CALLER;
    ct_place(seen->agent, seen->raise.slot, place);
    outputs[OUT_FUNCTION] = value_string(span_str(place->name));
    outputs[OUT_FILE] = value_string(span_str(place->file));
    outputs[OUT_LINE] = value_int(place->line);
    outputs[OUT_DEPTH] = value_int(seen->raise.depth);
    outputs[OUT_ARGS] = part_text(&values, LAYOUT_ARGS);
    outputs[OUT_LOCALS] = part_text(&values, locals);
    outputs[OUT_ARG_LIST] = part_list(&values, LAYOUT_ARGS);
    outputs[OUT_LOCAL_LIST] = part_list(&values, locals);
    if (seen->raise.exit) {
        outputs[OUT_DURATION] =
            value_floating(ct_duration_ns(seen->agent, seen->raise.time - seen->raise.entry_time) / 1e9);
        outputs[OUT_RESULT] = part_text(&values, LAYOUT_RESULT);
        outputs[OUT_STATICS] = part_text(&values, LAYOUT_STATICS);
        outputs[OUT_STATIC_LIST] = part_list(&values, LAYOUT_STATICS);
    }
    layout_free(values.layout);
    return seen->raise.exit ? OUTPUTS : OUT_DURATION;
}

/* ---- events from agents ---- */

static void raise_seen(struct monitor *monitor, const struct agent_event *seen)
{
    struct event event;
    if (!call_event_begin(monitor, seen, seen->raise.exit ? "ct_function_returned" : "ct_function_called", &event))
        return;
    struct arena arena = ARENA_INIT;
    struct value outputs[OUTPUTS];
    size_t count = build_outputs(&arena, seen, outputs);
    call_event_raise(monitor, &event, outputs, count);
    arena_done(&arena);
}

/* The thread waits in its call: as long as the lists run, or longer. */
struct call_hold {
    struct hold hold;
    struct monitor *monitor;
    pid_t pid;
    struct area_thread *thread;
    uint64_t time;
};

static void call_release(struct hold *hold)
{
    struct call_hold *call = (struct call_hold *)hold;
    if (call->monitor->agents)
        agent_release_kept(call->monitor->agents, call->pid, call->thread, call->time);
    free(call);
}

static struct hold *hold_new(struct monitor *monitor, const struct agent_event *seen)
{
    struct call_hold *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    *call = (struct call_hold){.hold.release = call_release,
                               .monitor = monitor,
                               .pid = agent_pid(seen->agent),
                               .thread = seen->thread,
                               .time = seen->raise.time};
    return &call->hold;
}

static void on_event(void *ctx, const struct agent_event *seen)
{
    struct monitor *monitor = ctx;
    struct mpi_told told;
    monitor_enter(monitor);
    struct hold *hold = hold_new(monitor, seen);
    hold_begin(monitor, hold);
    if (agent_event_mpi_call(seen, &told))
        lib_call_raise(monitor, seen, &told);
    else
        raise_seen(monitor, seen);
    if (hold)
        hold_end(monitor, hold);
    else
        agent_release(seen->agent, seen->thread);
    monitor_leave(monitor);
}

/* ---- user events that lowered lists posted ---- */

static void raise_posts(void *ctx)
{
    struct monitor *monitor = ctx;
    monitor_enter(monitor);
    if (!lower_posts_raise(monitor))
        loop_add_deferred(monitor->loop, raise_posts, monitor);
    monitor_leave(monitor);
}

/* ---- processes of jobs ---- */

static void on_change(void *ctx, struct agent *agent, bool came)
{
    struct monitor *monitor = ctx;
    if (!came)
        return;
    monitor_enter(monitor);
    struct process *process = process_find(monitor, agent_pid(agent));
    if (process) {
        csr_process_renewed(process, &ct_called_ops);
        csr_process_renewed(process, &ct_returned_ops);
        lib_call_agent_came(process);
    }
    struct tool *tool = agent_job(agent)[0] ? job_tool(monitor, agent_job(agent)) : NULL;
    if (tool)
        call_event_attach(tool, agent_pid(agent), agent_job(agent));
    monitor_leave(monitor);
}

static void attach_one(void *ctx, struct agent *agent)
{
    call_event_attach(ctx, agent_pid(agent), agent_job(agent));
}

void ct_job_created(struct monitor *monitor, struct tool *tool, const char *dir)
{
    if (monitor->agents)
        agents_each(monitor->agents, dir, attach_one, tool);
    lib_call_job_created(monitor, tool, dir);
}

void ct_start(struct monitor *monitor)
{
    agents_on_event(monitor->agents, on_event, monitor);
    agents_on_change(monitor->agents, on_change, monitor);
    agents_on_ring(monitor->agents, raise_posts, monitor);
    lib_call_start(monitor);
}
