/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"

struct raised_event {
    struct event event;
    struct arena arena;      /* of the outputs */
    struct thread **threads; /* no event, but these are let go (event_queue_end_inspections) */
    size_t thread_count;
    struct raised_event *next;
};

/* ---- context parameters (7.2.4) ---- */

enum { STANDARD_PARAMS = 5 };
static const char *const standard_params[STANDARD_PARAMS] = {"node", "proc", "thread", "time", "csr"};

int event_par_number(struct span name)
{
    if (name.len < 4 || name.len > 8 || memcmp(name.ptr, "par", 3) != 0)
        return -1;
    int number = 0;
    for (size_t i = 3; i < name.len; i++) {
        if (name.ptr[i] < '0' || name.ptr[i] > '9')
            return -1;
        number = number * 10 + (name.ptr[i] - '0');
    }
    return number;
}

bool event_param_known(const struct service *service, struct span name)
{
    for (int i = 0; i < STANDARD_PARAMS; i++)
        if (span_is(name, standard_params[i]))
            return true;
    const struct signature *signature = &service->signature;
    for (size_t i = 0; i < signature->output_count; i++)
        if (span_eq(name, signature->outputs[i].name))
            return true;
    const struct event_ops *ops = event_ops_of(service);
    return (signature->open_outputs && event_par_number(name) >= 0) || (ops && ops->knows && ops->knows(name));
}

static struct value token_value(const struct scry_object *object)
{
    return value_token(span_str(object ? object->token : TOKEN_UNDEFINED));
}

static struct value source_value(const char *token)
{
    return value_token(span_str(*token ? token : TOKEN_UNDEFINED));
}

/* What the service itself adds: named outputs, and parN where it has such. */
static bool service_param(const struct event *event, const struct csr *csr, struct span name, struct value *ret_value)
{
    const struct signature *signature = &event->service->signature;
    const struct event_ops *ops = event_ops_of(event->service);
    for (size_t i = 0; i < signature->output_count && i < event->output_count; i++)
        if (span_eq(name, signature->outputs[i].name)) {
            *ret_value = event->outputs[i];
            return true;
        }
    int number = event_par_number(name);
    if (number < 0 && ops && ops->named)
        return ops->named(csr, event, name, ret_value);
    if (!signature->open_outputs || number < event->first_par)
        return false;
    if (ops && ops->param)
        return ops->param(csr, event, (unsigned)number, ret_value);
    size_t index = (size_t)(number - event->first_par);
    if (index >= event->output_count)
        return false;
    *ret_value = event->outputs[index];
    return true;
}

/* How far the clock of the request's home is ahead of ours. */
static int64_t clock_ahead(const struct csr *csr)
{
    int64_t offset_ns;
    uint64_t bound_ns;
    return csr->clock && clock_offset_now(csr->clock, clock_now_ns(), &offset_ns, &bound_ns) ? offset_ns : 0;
}

bool event_param(const struct event *event, const struct csr *csr, struct span name, struct value *ret_value)
{
    if (event->told)
        return event->told->value(event->told, name, ret_value);
    if (span_is(name, "node"))
        *ret_value =
            event->source.node[0] ? source_value(event->source.node) : token_value(&csr->object.monitor->node->object);
    else if (span_is(name, "proc"))
        *ret_value = event->process ? token_value(&event->process->object) : source_value(event->source.process);
    else if (span_is(name, "thread"))
        *ret_value = event->thread ? token_value(&event->thread->object) : source_value(event->source.thread);
    else if (span_is(name, "time"))
        *ret_value = value_floating((double)(int64_t)(event->time_ns + (uint64_t)clock_ahead(csr)) / 1e9);
    else if (span_is(name, "csr"))
        *ret_value = value_token(span_str(csr->home_token ? csr->home_token : csr->object.token));
    else {
        return service_param(event, csr, name, ret_value);
    }
    return true;
}

static void source_token(char *token, const struct scry_object *object)
{
    if (object)
        memcpy(token, object->token, sizeof object->token);
}

struct event_source event_source_of(const struct monitor *monitor, const struct event *event)
{
    struct event_source source = event->source;
    if (!source.node[0])
        source_token(source.node, &monitor->node->object);
    source_token(source.process, event->process ? &event->process->object : NULL);
    source_token(source.thread, event->thread ? &event->thread->object : NULL);
    return source;
}

const char *event_place(const struct event *event)
{
    if (event->told)
        return event->told->where;
    if (event->process)
        return event->object->token;
    if (event->source.thread[0])
        return event->source.thread;
    if (event->source.process[0])
        return event->source.process;
    return event->object && !object_is(event->object, "e") ? event->object->token : TOKEN_UNDEFINED;
}

/* ---- holds ---- */

void hold_begin(struct monitor *monitor, struct hold *hold)
{
    if (!hold)
        return;
    hold->users++;
    hold->outer = monitor->hold;
    monitor->hold = hold;
}

void hold_end(struct monitor *monitor, struct hold *hold)
{
    if (!hold)
        return;
    monitor->hold = hold->outer;
    hold_drop(hold);
}

struct hold *hold_keep(struct monitor *monitor)
{
    if (monitor->hold)
        monitor->hold->users++;
    return monitor->hold;
}

void hold_drop(struct hold *hold)
{
    if (hold && --hold->users == 0)
        hold->release(hold);
}

/* ---- raising ---- */

static bool csr_matches(const struct csr *csr, const struct event *event)
{
    const struct event_ops *ops = event_ops_of(event->service);
    if (event->process) {
        struct csr_target *target = csr_target(csr, event->process);
        if (!target || target->status >= OMIS_FIRST_ERROR)
            return false;
        const char *class_name = event->service->object_class;
        bool by_thread = class_name && strcmp(class_name, "t") == 0;
        if (by_thread && event->thread &&
            (!csr_covers_thread(csr, event->thread) || !thread_visible(event->thread, csr->object.owner)))
            return false;
    } else if (event->object && !csr_covers_object(csr, event->object)) {
        return false;
    }
    return !ops || !ops->match || ops->match(csr, event);
}

void event_raise(struct monitor *monitor, struct event *event)
{
    size_t count = 0;
    for (struct csr *csr = event->service->enabled; csr; csr = csr->next_enabled)
        count++;
    if (!count)
        return;
    /* a copy of the list: action lists enable, disable and delete requests; deleted ones stay in memory until we leave
     */
    monitor_enter(monitor);
    struct csr **matching = calloc(count, sizeof(struct csr *));
    if (!matching)
        log_error("out of memory: an event %s is lost", event->service->row->name);
    size_t matched = 0;
    for (struct csr *csr = event->service->enabled; csr && matching; csr = csr->next_enabled)
        if (csr_matches(csr, event))
            matching[matched++] = csr;
    request_log_event(event, matched);
    for (size_t i = 0; i < matched; i++)
        if (matching[i]->session && matching[i]->enabled)
            execute_triggered(matching[i], event);
    free(matching);
    monitor_leave(monitor);
}

static void event_append(struct monitor *monitor, struct raised_event *raised)
{
    if (monitor->raised_last)
        monitor->raised_last->next = raised;
    else
        monitor->raised_first = raised;
    monitor->raised_last = raised;
}

int event_queue(struct monitor *monitor, const struct event *event)
{
    const struct event *outer = monitor->running ? monitor->running->event : NULL;
    unsigned chain = outer ? outer->chain + 1 : monitor->running ? monitor->running->chain : 0;
    if (chain > EVENT_CHAIN_LIMIT)
        return -ELOOP;
    bool confined = monitor->running && monitor->running->tool->confined.job;
    if (chain > 1 && ++monitor->cascade > (confined ? CONFINED_CASCADE : EVENT_CASCADE_LIMIT))
        return -EOVERFLOW;
    struct raised_event *raised = calloc(1, sizeof *raised);
    if (!raised)
        return -ENOMEM;
    raised->event = *event;
    raised->event.chain = chain;
    raised->event.raw = NULL;
    raised->event.seen = NULL;
    raised->event.told = NULL;
    if (event->output_count) {
        struct value *outputs = arena_alloc(&raised->arena, event->output_count * sizeof *outputs);
        for (size_t i = 0; outputs && i < event->output_count; i++)
            if (!value_copy(&raised->arena, &event->outputs[i], &outputs[i]))
                outputs = NULL;
        if (!outputs) {
            arena_done(&raised->arena);
            free(raised);
            return -ENOMEM;
        }
        raised->event.outputs = outputs;
    }
    event_append(monitor, raised);
    return 0;
}

int event_queue_end_inspections(struct monitor *monitor, struct thread **threads_take, size_t count)
{
    struct raised_event *raised = calloc(1, sizeof *raised);
    if (!raised)
        return -ENOMEM;
    raised->threads = threads_take;
    raised->thread_count = count;
    event_append(monitor, raised);
    return 0;
}

unsigned event_queue_length(const struct monitor *monitor)
{
    unsigned count = 0;
    for (const struct raised_event *raised = monitor->raised_first; raised; raised = raised->next)
        count++;
    return count;
}

void event_run_queue(struct monitor *monitor)
{
    while (monitor->raised_first) {
        struct raised_event *raised = monitor->raised_first;
        monitor->raised_first = raised->next;
        if (!raised->next)
            monitor->raised_last = NULL;
        if (raised->threads)
            for (size_t i = 0; i < raised->thread_count; i++)
                monitor->tracing->inspect_done(raised->threads[i]);
        else
            event_raise(monitor, &raised->event);
        free(raised->threads);
        arena_done(&raised->arena);
        free(raised);
    }
    monitor->cascade = 0;
}
