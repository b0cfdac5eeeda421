/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/csr.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/log.h"
#include "lang/reply.h"
#include "monitor/engine/execute.h"
#include "probe/cells.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"

static void csr_free(struct scry_object *object)
{
    struct csr *csr = (struct csr *)object;
    lower_posts_free(csr);
    arena_done(&csr->arena);
    free(csr->program);
    cell_free(object->monitor->cells, csr->gate);
    free(csr);
}

struct csr *csr_new(struct session *session, struct arena *arena_take)
{
    struct monitor *monitor = session->tool->monitor;
    struct csr *csr = calloc(1, sizeof *csr);
    if (!csr)
        return NULL;
    csr->session = session;
    csr->gate = -1;
    csr->arena = *arena_take;
    *arena_take = ARENA_INIT;
    csr->object.free = csr_free;
    object_init(&csr->object, monitor, object_class_get(monitor, "c"), session->tool);
    return csr;
}

struct csr_target *csr_target(const struct csr *csr, const struct process *process)
{
    struct csr_target *target;
    HASH_FIND_PTR(csr->targets, &process, target);
    return target;
}

void csr_changed(struct csr *csr, enum csr_change change)
{
    if (csr->object.monitor->on_csr)
        csr->object.monitor->on_csr(csr, change);
}

/* ---- replies about changes of state ---- */

static void reply_change(struct csr *csr, Omis_status change, const struct csr_target *targets, size_t limit, bool last)
{
    request_log_csr(csr, change == OMIS_CSR_ENABLED ? "enabled" : change == OMIS_CSR_DISABLED ? "disabled" : "deleted");
    struct reply_builder reply = {0};
    bool failed = false;
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), change, NULL);
    reply_service(&reply);
    size_t count = 0;
    for (const struct csr_target *target = targets; target && count < limit; target = target->hh.next) {
        if (target->pending)
            continue;
        count++;
        struct span text = span_str(target->text ? target->text : "");
        reply_result(&reply, span_str(target->process->object.token), target->status, target->text ? &text : NULL);
        failed |= target->status >= OMIS_FIRST_ERROR;
    }
    if (!count)
        reply_result(&reply, span_of("", 0), OMIS_OK, NULL);
    bool quiet = (csr->flags & OMIS_DONT_RETURN_EN_DIS) && !failed && change != OMIS_CSR_DELETED;
    const struct monitor *monitor = csr->object.monitor;
    bool kept = !quiet && csr->session && monitor->gathers && !reply.bytes.failed &&
                monitor->gathers(csr, span_of(reply.bytes.data, reply.bytes.len));
    if (!quiet && csr->session && !kept)
        reply_send(csr->session, csr->request_id, last, false, &reply);
    reply_done(&reply);
}

/* ---- what an event definition covers ---- */

/* Calls match for each token of the event's object argument; [] matches everything. */
static bool csr_covers(const struct csr *csr, bool (*match)(struct span token, const struct scry_object *object),
                       const struct scry_object *object)
{
    int index = csr->event_service->object_arg;
    if (index < 0)
        return false;
    const struct value *arg = &csr->event_args[index];
    if (arg->kind != VALUE_LIST)
        return match(arg->text, object);
    if (arg->list.count == 0)
        return true;
    for (size_t i = 0; i < arg->list.count; i++)
        if (match(arg->list.items[i].text, object))
            return true;
    return false;
}

bool csr_covers_thread(const struct csr *csr, const struct thread *thread)
{
    return csr_covers(csr, convert_names, &thread->object);
}

/* A process is concerned when it, its node, or anything in it is named. */
static bool csr_covers_process(const struct csr *csr, const struct process *process)
{
    return csr_covers(csr, convert_names, &process->object);
}

bool csr_covers_object(const struct csr *csr, const struct scry_object *object)
{
    int index = csr->event_service->object_arg;
    const struct value *arg = index < 0 ? NULL : &csr->event_args[index];
    if (arg && arg->kind == VALUE_LIST && arg->list.count == 0) /* [] is what this tool has */
        return !object->owner || object->owner == csr->object.owner;
    return csr_covers(csr, convert_names, object);
}

static bool is_thread_token(struct span token, const struct scry_object *object)
{
    (void)object;
    return token.len > 2 && memcmp(token.ptr, "t_", 2) == 0;
}

bool csr_names_threads(const struct csr *csr)
{
    const struct value *arg =
        csr->event_service->object_arg < 0 ? NULL : &csr->event_args[csr->event_service->object_arg];
    return arg && !(arg->kind == VALUE_LIST && arg->list.count == 0) && csr_covers(csr, is_thread_token, NULL);
}

/* ---- arming ---- */

static bool concerns_processes(const struct csr *csr)
{
    const char *class_name = csr->event_service->object_class;
    return class_name && (strcmp(class_name, "p") == 0 || strcmp(class_name, "t") == 0 || strcmp(class_name, "q") == 0);
}

static void target_result(struct csr_target *target, int code, const struct err *err)
{
    free(target->text);
    target->text = err->text[0] ? strdup(err->text) : NULL; /* also what a success has to say */
    target->status = code < 0 ? status_of_errno(code) : OMIS_OK;
}

/* Sets up whatever detects the event in a process; the target tells how it went. */
static void target_arm(struct csr *csr, struct csr_target *target)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    struct err err = {0};
    int code = 0;
    target->status = OMIS_OK; /* so that its need counts */
    if (ops && ops->arm)
        code = ops->arm(csr, target->process, &err);
    target->pending = code == 1;
    if (code == 0 && ops && ops->need)
        code = csr->object.monitor->tracing->update(target->process, csr, &err);
    else if (ops && ops->wish)
        csr->object.monitor->tracing->unsettle(target->process);
    target_result(target, code, &err);
    request_log_armed(csr, target);
}

static struct csr_target *target_add(struct csr *csr, struct process *process)
{
    struct csr_target *target = calloc(1, sizeof *target);
    if (!target) {
        log_error("out of memory: %s is not armed on %s", csr->object.token, process->object.token);
        return NULL;
    }
    target->process = process;
    HASH_ADD_PTR(csr->targets, process, target);
    target_arm(csr, target);
    return target;
}

static void target_disarm(struct csr *csr, struct csr_target *target)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (ops && ops->disarm && (target->status < OMIS_FIRST_ERROR || ops->may_come))
        ops->disarm(csr, target->process);
    if (ops && (ops->need || ops->wish))
        csr->object.monitor->tracing->unsettle(target->process);
}

static void target_free(struct csr_target *target)
{
    free(target->text);
    free(target);
}

static void link_enabled(struct csr *csr)
{
    /* at the end: requests run in the order in which they were enabled */
    struct service *service = csr->event_service;
    csr->previous_enabled = service->last_enabled;
    csr->next_enabled = NULL;
    if (service->last_enabled)
        service->last_enabled->next_enabled = csr;
    else
        service->enabled = csr;
    service->last_enabled = csr;
}

static void unlink_enabled(struct csr *csr)
{
    if (csr->previous_enabled)
        csr->previous_enabled->next_enabled = csr->next_enabled;
    else
        csr->event_service->enabled = csr->next_enabled;
    if (csr->next_enabled)
        csr->next_enabled->previous_enabled = csr->previous_enabled;
    else
        csr->event_service->last_enabled = csr->previous_enabled;
    csr->next_enabled = csr->previous_enabled = NULL;
}

static void tell_turned(struct csr *csr)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (ops && ops->turned)
        ops->turned(csr);
}

/* Lowers the list anew. False if that gave the same as before. */
static bool csr_lower(struct csr *csr)
{
    struct code_program *now = lower_csr(csr); /* may come back here, when requests enable each other */
    struct code_program *before = csr->program;
    csr->program = now;
    bool same = before == now || (before && now && before->count == now->count &&
                                  memcmp(before->insns, now->insns, now->count * sizeof *now->insns) == 0);
    free(before);
    csr->program_serial += !same;
    return !same;
}

static void arm_all(struct csr *csr)
{
    csr->enabled = true;
    link_enabled(csr);
    csr_lower(csr);
    if (concerns_processes(csr))
        for (struct attachment *a = csr->object.owner->attachments; a; a = a->next_of_tool)
            if (csr_covers_process(csr, a->process))
                target_add(csr, a->process);
    tell_turned(csr);
}

/* Opens or closes the gate of a request that has one. False: it was so already. */
static bool gate_turn(const struct csr *csr, bool open)
{
    return atomic_exchange(cell_at(csr->object.monitor->cells, csr->gate), open) != open;
}

void csr_enable(struct csr *csr)
{
    if (csr->object.gone)
        return;
    if (csr->enabled) {
        if (csr->gate >= 0 && gate_turn(csr, true)) {
            csr_changed(csr, CSR_ENABLED);
            reply_change(csr, OMIS_CSR_ENABLED, csr->targets, SIZE_MAX, false);
        }
        return;
    }
    arm_all(csr);
    csr_changed(csr, CSR_ENABLED);
    reply_change(csr, OMIS_CSR_ENABLED, csr->targets, SIZE_MAX, false);
}

int csr_gate(struct csr *csr)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (csr->object.owner->spread) /* other nodes have it, too */
        return -1;
    if (csr->gate >= 0)
        return csr->gate;
    if (csr->object.gone || !ops || !ops->relowered || !(csr->flags & OMIS_DONT_RETURN_EN_DIS))
        return -1;
    csr->gate = cell_new(csr->object.monitor->cells);
    if (csr->gate < 0)
        return -1;
    gate_turn(csr, csr->enabled);
    if (!csr->enabled) {
        arm_all(csr);
        return csr->gate;
    }
    csr_lower(csr);
    for (struct csr_target *target = csr->targets; target; target = target->hh.next)
        ops->relowered(csr, target->process);
    return csr->gate;
}

/* Without a reply. */
static struct csr_target *disarm_all(struct csr *csr)
{
    csr->enabled = false;
    unlink_enabled(csr);
    struct csr_target *targets = csr->targets;
    csr->targets = NULL;
    for (struct csr_target *target = targets; target; target = target->hh.next)
        target_disarm(csr, target);
    tell_turned(csr);
    return targets;
}

static void free_targets(struct csr_target *targets)
{
    struct csr_target *target, *next;
    HASH_ITER(hh, targets, target, next)
    {
        HASH_DELETE(hh, targets, target);
        target_free(target);
    }
}

void csr_disable(struct csr *csr)
{
    if (!csr->enabled)
        return;
    if (csr->gate >= 0) {
        if (gate_turn(csr, false)) {
            csr_changed(csr, CSR_DISABLED);
            reply_change(csr, OMIS_CSR_DISABLED, csr->targets, SIZE_MAX, false);
        }
        return;
    }
    struct csr_target *targets = disarm_all(csr);
    csr_changed(csr, CSR_DISABLED);
    reply_change(csr, OMIS_CSR_DISABLED, targets, SIZE_MAX, false);
    free_targets(targets);
}

void csr_delete(struct csr *csr)
{
    if (csr->object.gone)
        return;
    struct csr_target *targets = csr->enabled ? disarm_all(csr) : NULL;
    csr_changed(csr, CSR_DELETED);
    reply_change(csr, OMIS_CSR_DELETED, NULL, 0, csr->executing == 0);
    free_targets(targets);
    csr->object.monitor->programs_stale |= csr->gate >= 0; /* which other programs turn */
    object_end(&csr->object);
}

void csr_drop(struct csr *csr)
{
    request_log_csr(csr, "dropped");
    csr->session = NULL;
    csr_changed(csr, CSR_DELETED);
    if (csr->enabled)
        free_targets(disarm_all(csr));
    csr->object.monitor->programs_stale |= csr->gate >= 0;
    object_end(&csr->object);
}

/* ---- processes that come and go ---- */

void csr_process_attached(struct tool *tool, struct process *process)
{
    for (struct scry_object *object = tool->owned; object; object = object->next_owned) {
        struct csr *csr = (struct csr *)object;
        if (!object_is(object, "c") || !csr->enabled || !concerns_processes(csr) || csr_target(csr, process) ||
            !csr_covers_process(csr, process))
            continue;
        struct csr_target *target = target_add(csr, process);
        if (target && !target->pending)
            reply_change(csr, OMIS_CSR_ENABLED, target, 1, false);
    }
}

static void remove_target(struct csr *csr, struct process *process, bool disarm, bool tell)
{
    struct csr_target *target = csr_target(csr, process);
    if (!target)
        return;
    HASH_DELETE(hh, csr->targets, target);
    if (disarm)
        target_disarm(csr, target);
    if (tell)
        reply_change(csr, OMIS_CSR_DISABLED, target, 1, false);
    target_free(target);
}

/* Some events are of no object. */
static bool concerns_threads(const struct csr *csr)
{
    const char *class_name = csr->event_service->object_class;
    return class_name && strcmp(class_name, "t") == 0;
}

/* Whether each of its threads in the process was detached before, and that was reported of each. */
static bool is_reported(const struct csr *csr, const struct process *process)
{
    bool any = false;
    if (!concerns_threads(csr))
        return false;
    for (const struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        if (!csr_covers_thread(csr, thread))
            continue;
        if (thread_visible(thread, csr->object.owner))
            return false;
        any = true;
    }
    return any;
}

void csr_process_detached(struct tool *tool, struct process *process)
{
    for (struct scry_object *object = tool->owned; object; object = object->next_owned) {
        struct csr *csr = (struct csr *)object;
        if (object_is(object, "c") && csr->enabled)
            remove_target(csr, process, true, !is_reported(csr, process));
    }
}

void csr_thread_detached(struct tool *tool, const struct thread *thread)
{
    for (struct scry_object *object = tool->owned; object; object = object->next_owned) {
        struct csr *csr = (struct csr *)object;
        struct csr_target *target = object_is(object, "c") && csr->enabled ? csr_target(csr, thread->process) : NULL;
        if (!target || target->pending || target->status >= OMIS_FIRST_ERROR || !concerns_threads(csr) ||
            !csr_covers_thread(csr, thread) || !csr->session || csr->flags & OMIS_DONT_RETURN_EN_DIS)
            continue;
        struct reply_builder reply = {0};
        reply_begin(&reply);
        reply_service(&reply);
        reply_result(&reply, span_of("", 0), OMIS_CSR_DISABLED, NULL);
        reply_service(&reply);
        reply_result(&reply, span_str(thread->object.token), OMIS_OK, NULL);
        reply_send(csr->session, csr->request_id, false, false, &reply);
        reply_done(&reply);
    }
}

void csr_process_executed(struct process *process)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        for (struct scry_object *object = a->tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            struct csr_target *target = object_is(object, "c") && csr->enabled ? csr_target(csr, process) : NULL;
            if (!target || strcmp(csr->event_service->row->name, "thread_reached_addr") != 0)
                continue;
            free(target->text);
            target->text = strdup("the process executed another program, where the address means something else");
            target->status = OMIS_UNKNOWN_OBJECT;
            target->stale = true;
            reply_change(csr, OMIS_CSR_DISABLED, target, 1, false);
        }
}

void csr_process_gone(struct process *process)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        for (struct scry_object *object = a->tool->owned; object; object = object->next_owned)
            if (object_is(object, "c"))
                remove_target((struct csr *)object, process, true, false);
}

void csr_target_ready(struct csr *csr, struct process *process, int code, const struct err *err)
{
    struct csr_target *target = csr_target(csr, process);
    if (!target || (code == 0 && !target->pending && target->status < OMIS_FIRST_ERROR))
        return;
    bool was_armed = !target->pending && target->status < OMIS_FIRST_ERROR;
    target->pending = false;
    target_result(target, code, err);
    request_log_armed(csr, target);
    reply_change(csr, was_armed ? OMIS_CSR_DISABLED : OMIS_CSR_ENABLED, target, 1, false);
}

void csr_relower(struct monitor *monitor)
{
    for (struct tool *tool = monitor->tools; tool; tool = tool->hh.next)
        for (struct scry_object *object = tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            if (!object_is(object, "c") || !csr->enabled || !csr->program || !csr_lower(csr))
                continue;
            const struct event_ops *ops = event_ops_of(csr->event_service);
            for (struct csr_target *target = csr->targets; target; target = target->hh.next) {
                csr->object.monitor->tracing->unsettle(target->process);
                if (ops->relowered)
                    ops->relowered(csr, target->process);
            }
        }
}

void csr_process_renewed(struct process *process, const struct event_ops *ops)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        for (struct scry_object *object = a->tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            struct csr_target *target = object_is(object, "c") && csr->enabled ? csr_target(csr, process) : NULL;
            if (!target || event_ops_of(csr->event_service) != ops)
                continue;
            bool armed = !target->pending && target->status < OMIS_FIRST_ERROR;
            bool waited = target->pending;
            target_arm(csr, target);
            bool now = target->status < OMIS_FIRST_ERROR;
            if (!target->pending && (waited || armed != now))
                reply_change(csr, armed ? OMIS_CSR_DISABLED : OMIS_CSR_ENABLED, target, 1, false);
        }
}

void csr_rearm(struct monitor *monitor)
{
    for (struct tool *tool = monitor->tools; tool; tool = tool->hh.next)
        for (struct scry_object *object = tool->owned; object; object = object->next_owned) {
            struct csr *csr = (struct csr *)object;
            const struct event_ops *ops = object_is(object, "c") ? event_ops_of(csr->event_service) : NULL;
            if (!ops || !ops->need)
                continue;
            for (struct csr_target *target = csr->targets; target; target = target->hh.next) {
                struct err err = {0};
                Omis_status before = target->status;
                if (target->stale)
                    continue;
                target->status = OMIS_OK; /* so that its need counts */
                int code = csr->object.monitor->tracing->update(target->process, csr, &err);
                if (code < 0 && monitor->tracing->lost(monitor)) { /* it is tried again with the next one */
                    target->status = before;
                    continue;
                }
                bool was_armed = before < OMIS_FIRST_ERROR;
                target_result(target, code, &err);
                if (was_armed != (target->status < OMIS_FIRST_ERROR))
                    reply_change(csr, was_armed ? OMIS_CSR_DISABLED : OMIS_CSR_ENABLED, target, 1, false);
            }
        }
}
