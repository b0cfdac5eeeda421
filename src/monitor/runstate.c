/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/runstate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "monitor/event.h"

bool runstate_must_wait(const struct thread *thread)
{
    if (thread->looks)
        return true;
    for (const struct thread_claim *claim = thread->claims; claim; claim = claim->next)
        if (claim->stopped || claim->suspends)
            return true;
    return false;
}

static bool is_stopped(const struct thread *thread)
{
    for (const struct thread_claim *claim = thread->claims; claim; claim = claim->next)
        if (claim->stopped)
            return true;
    return false;
}

/* One thread of a change, with what is needed to undo it. */
struct change {
    struct thread *thread;
    struct thread_claim *claim;
    bool was_stopped;
    int code;
    const char *why; /* in the call's arena; NULL: what the code says */
};

const char *runstate_held_by(const struct thread *thread)
{
    const char *by = NULL;
    for (const struct thread_claim *claim = thread->claims; claim && thread->stopped; claim = claim->next)
        if ((claim->stopped || claim->suspends) && (!by || !*by))
            by = claim->rule;
    return by;
}

/* thread_stop and thread_continue are one switch for all tools; suspend counts belong to the tool. */
static void claim_change(struct change *change, enum runstate_change what)
{
    struct thread *thread = change->thread;
    for (struct thread_claim *claim = thread->claims; claim; claim = claim->next)
        claim->was_stopped = claim->stopped;
    switch (what) {
    case RUNSTATE_STOP:
        change->claim->stopped = true;
        break;
    case RUNSTATE_CONTINUE:
        for (struct thread_claim *claim = thread->claims; claim; claim = claim->next)
            claim->stopped = false;
        break;
    case RUNSTATE_SUSPEND:
        change->claim->suspends++;
        break;
    case RUNSTATE_RESUME:
        change->claim->suspends--;
        break;
    }
}

static void claim_undo(struct change *change, enum runstate_change what)
{
    if (!change->claim)
        return; /* out of memory */
    for (struct thread_claim *claim = change->thread->claims; claim; claim = claim->next)
        if (what == RUNSTATE_STOP || what == RUNSTATE_CONTINUE)
            claim->stopped = claim->was_stopped;
    if (what == RUNSTATE_SUSPEND)
        change->claim->suspends--;
    else if (what == RUNSTATE_RESUME)
        change->claim->suspends++;
}

/* Tells the tracer about all threads of one process whose state changed: changes[from..to). */
static void apply_to_process(struct scry_call *call, struct change *changes, size_t from, size_t to)
{
    struct monitor *monitor = call->monitor;
    struct process *process = changes[from].thread->process;
    pid_t *tids = calloc(2 * (to - from), sizeof *tids);
    int *codes = calloc(to - from, sizeof *codes);
    for (int stop = 1; stop >= 0; stop--) {
        size_t count = 0;
        for (size_t i = from; tids && codes && i < to; i++)
            if (changes[i].code == 0 && runstate_must_wait(changes[i].thread) == (bool)stop &&
                changes[i].thread->stopped != (bool)stop)
                tids[count++] = changes[i].thread->tid;
        if (!count)
            continue;
        struct err err = {0};
        int code = stop || process->trace.seized ? tracing_seize(process, &err) : 0;
        memset(codes, 0, count * sizeof *codes);
        if (code == 0)
            code = stop ? tracer_stop(monitor->tracer, tids, count, codes)
                        : tracer_continue(monitor->tracer, tids, count, codes);
        for (size_t i = from, k = 0; i < to && k < count; i++) {
            if (changes[i].thread->tid != tids[k])
                continue;
            changes[i].code = code < 0 && codes[k] == 0 && code != -ETIME ? code : codes[k];
            if (changes[i].code == 0)
                changes[i].thread->stopped = stop;
            else if (err.text[0])
                changes[i].why = arena_dup(call->arena, err.text, strlen(err.text));
            k++;
        }
    }
    if (!tids || !codes)
        for (size_t i = from; i < to; i++)
            changes[i].code = -ENOMEM;
    free(tids);
    free(codes);
    tracing_unsettle(process);
}

static void raise_change(struct monitor *monitor, const char *service, struct process *process, struct thread *thread)
{
    struct event event = {.service = registry_find(monitor->registry, span_str(service)),
                          .process = process,
                          .thread = thread,
                          .object = thread ? &thread->object : &process->object,
                          .time_ns = clock_now_ns()};
    if (!event.service || !event.service->enabled)
        return;
    int code = event_queue(monitor, &event);
    if (code < 0) /* two requests that stop and continue the same thread for ever, for instance */
        log_error("%s of %s is not told: %s", service, event.object->token,
                  code == -ENOMEM ? "out of memory" : "too many events raised each other");
}

/* proc_has_been_stopped and proc_has_been_continued: when that became true of all threads. */
static bool all_are_stopped(const struct process *process)
{
    bool all = process->threads != NULL;
    for (const struct thread *thread = process->threads; thread; thread = thread->hh.next)
        all &= is_stopped(thread);
    return all;
}

static void raise_process_change(struct monitor *monitor, struct process *process)
{
    bool all = all_are_stopped(process);
    if (all && !process->all_stopped) { /* there may be threads that we have not seen yet */
        process_refresh(process, 0);
        all = all_are_stopped(process);
    }
    if (all == process->all_stopped)
        return;
    process->all_stopped = all;
    raise_change(monitor, all ? "proc_has_been_stopped" : "proc_has_been_continued", process, NULL);
}

static const char *stop_failure(int code)
{
    switch (code) {
    case -ETIME:
        return "the thread does not stop: it has no processor, or waits inside the kernel";
    case -ESRCH:
        return "the thread has ended";
    default:
        return strerrordesc_np(-code);
    }
}

void runstate_apply(struct scry_call *call, enum runstate_change what)
{
    size_t count = call->object_count;
    struct change *changes = arena_zalloc(call->arena, count + 1, sizeof *changes);
    if (!changes) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct change *change = &changes[i];
        change->thread = call_thread(call, i);
        change->was_stopped = is_stopped(change->thread);
        change->claim = thread_claim(change->thread, call->tool, true);
        if (!change->claim)
            change->code = -ENOMEM;
        else if (what == RUNSTATE_RESUME && change->claim->suspends == 0)
            change->code = -EALREADY;
        else
            claim_change(change, what);
        if (change->claim && change->code == 0 && (what == RUNSTATE_STOP || what == RUNSTATE_SUSPEND))
            snprintf(change->claim->rule, sizeof change->claim->rule, "%s",
                     call->csr ? call->csr->event_service->row->name : "");
    }
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && changes[to].thread->process == changes[from].thread->process;)
            to++;
        apply_to_process(call, changes, from, to);
    }
    for (size_t i = 0; i < count; i++) {
        struct change *change = &changes[i];
        struct scry_object *object = &change->thread->object;
        if (change->code == -EALREADY) {
            call_fail(call, object, OMIS_PARAMETER_ERROR, "this tool has not suspended %s", object->token);
        } else if (change->code < 0) {
            claim_undo(change, what);
            call_fail(call, object, status_of_errno(change->code), "%s",
                      change->why ? change->why : stop_failure(change->code));
        } else {
            call_ok(call, object);
            if (is_stopped(change->thread) != change->was_stopped)
                raise_change(call->monitor,
                             change->was_stopped ? "thread_has_been_continued" : "thread_has_been_stopped",
                             change->thread->process, change->thread);
        }
    }
    for (size_t i = 0; i < count; i++)
        if (i == 0 || changes[i].thread->process != changes[i - 1].thread->process)
            raise_process_change(call->monitor, changes[i].thread->process);
}

static void continue_if_it_may(struct thread *thread)
{
    struct process *process = thread->process;
    struct monitor *monitor = process->object.monitor;
    if (!thread->stopped || runstate_must_wait(thread))
        return;
    if (process->trace.seized && monitor->tracer)
        tracer_continue(monitor->tracer, &thread->tid, 1, NULL);
    thread->stopped = false;
}

int runstate_look(struct thread *thread, struct err *err)
{
    struct process *process = thread->process;
    int code = 0;
    if (!thread->stopped && (code = tracing_seize(process, err)) == 0 &&
        (code = tracer_stop(process->object.monitor->tracer, &thread->tid, 1, NULL)) < 0) {
        tracer_continue(process->object.monitor->tracer, &thread->tid, 1, NULL);
        err_set(err, code, "%s cannot be stopped for a moment: %s", thread->object.token, stop_failure(code));
    }
    if (code == 0) {
        thread->stopped = true;
        thread->looks++;
    }
    tracing_unsettle(process);
    return code;
}

void runstate_look_done(struct thread *thread)
{
    thread->looks--;
    continue_if_it_may(thread);
    tracing_unsettle(thread->process);
}

/* A claim does not stop the thread any more. */
static void let_go(struct thread *thread, struct thread_claim *claim)
{
    struct process *process = thread->process;
    struct monitor *monitor = process->object.monitor;
    bool was_stopped = is_stopped(thread);
    claim->stopped = false;
    claim->suspends = 0;
    continue_if_it_may(thread);
    if (was_stopped && !is_stopped(thread))
        raise_change(monitor, "thread_has_been_continued", process, thread);
}

int runstate_detach_thread(struct tool *tool, struct thread *thread)
{
    struct thread_claim *claim = thread_claim(thread, tool, true);
    if (!claim)
        return -ENOMEM;
    let_go(thread, claim);
    claim->detached = true;
    raise_process_change(thread->object.monitor, thread->process);
    tracing_unsettle(thread->process);
    return 0;
}

void runstate_release(struct tool *tool, struct process *process)
{
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        struct thread_claim **at = &thread->claims;
        while (*at && (*at)->tool != tool)
            at = &(*at)->next;
        if (!*at)
            continue;
        struct thread_claim *claim = *at;
        let_go(thread, claim);
        *at = claim->next;
        free(claim);
    }
    raise_process_change(process->object.monitor, process);
    tracing_unsettle(process);
}

void runstate_restore(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        struct err err = {0};
        thread->stopped = false;
        if (!runstate_must_wait(thread))
            continue;
        int code = tracing_seize(process, &err);
        if (code == 0)
            tracer_stop(monitor->tracer, &thread->tid, 1, &code);
        thread->stopped = code == 0;
        if (code == 0 || tracing_lost(monitor)) /* it has all this from the next tracer */
            continue;
        /* it runs: nobody shall be told otherwise */
        log_error("%s cannot be stopped again: %s", thread->object.token, err.text[0] ? err.text : stop_failure(code));
        for (struct thread_claim *claim = thread->claims; claim; claim = claim->next)
            let_go(thread, claim);
    }
    raise_process_change(monitor, process);
}
