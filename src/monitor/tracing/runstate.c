/* SPDX-License-Identifier: Apache-2.0 */

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/engine/process.h"
#include "monitor/tracing/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any request of the service that watches this thread. */
static struct csr *stepping_csr(const char *service_name, const struct thread *thread)
{
    struct service *service = registry_find(thread->object.monitor->registry, span_str(service_name));
    for (struct csr *csr = service ? service->enabled : NULL; csr; csr = csr->next_enabled) {
        struct csr_target *target = csr_target(csr, thread->process);
        if (target && target->status < OMIS_FIRST_ERROR && csr_covers_thread(csr, thread) &&
            thread_visible(thread, csr->object.owner))
            return csr;
    }
    return NULL;
}

static bool anybody_steps(const struct monitor *monitor)
{
    const struct service *into = registry_find(monitor->registry, span_str("thread_executed_insn"));
    const struct service *over = registry_find(monitor->registry, span_str("thread_executed_insn_call"));
    return (into && into->enabled) || (over && over->enabled);
}

int steps_new_thread(struct thread *thread, struct err *err)
{
    return anybody_steps(thread->object.monitor) ? steps_update(thread->process, NULL, err) : 0;
}

int steps_update(struct process *process, struct csr *csr, struct err *err)
{
    struct monitor *monitor = process->object.monitor;
    bool any = anybody_steps(monitor);
    if (any)
        process_refresh(process, 0);
    int result = 0;
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        bool into = any && stepping_csr("thread_executed_insn", thread);
        bool over = any && stepping_csr("thread_executed_insn_call", thread);
        int mode = (into ? TRACER_STEP_INTO : 0) | (over ? TRACER_STEP_OVER : 0);
        if (mode == thread->step)
            continue;
        int code = tracer_step(monitor->tracer, thread->tid, (enum tracer_step_mode)mode);
        if (code == 0)
            thread->step = mode;
        else if (result == 0)
            result = err_errno(err, code, "cannot step %s", thread->object.token);
    }
    return result;
}

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
struct thread_change {
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
static void claim_change(struct thread_change *change, enum runstate_change what)
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

static void claim_undo(struct thread_change *change, enum runstate_change what)
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
static void apply_to_process(struct scry_call *call, struct thread_change *changes, size_t from, size_t to)
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

/* ---- events of processes ---- */

/* How many threads are stopped, of those that have not ended. */
static size_t count_stopped(const struct process *process, size_t *ret_all)
{
    size_t stopped = 0;
    *ret_all = 0;
    for (const struct thread *thread = process->threads; thread; thread = thread->hh.next)
        if (!thread->exit_reported && !thread->ended) {
            ++*ret_all;
            stopped += is_stopped(thread);
        }
    return stopped;
}

/* proc_has_been_stopped: when that became true of all threads; proc_has_been_continued: when none of them is stopped
 * any more. */
static void raise_process_change(struct monitor *monitor, struct process *process)
{
    size_t all, stopped = count_stopped(process, &all);
    if (stopped && stopped == all && !process->all_stopped) { /* there may be threads that we have not seen yet */
        process_refresh(process, 0);
        stopped = count_stopped(process, &all);
    }
    bool are_stopped = stopped && stopped == all;
    if (are_stopped && !process->all_stopped) {
        process->were_stopped = true;
        raise_change(monitor, "proc_has_been_stopped", process, NULL);
    }
    process->all_stopped = are_stopped;
    if (!stopped && process->were_stopped) {
        process->were_stopped = false;
        raise_change(monitor, "proc_has_been_continued", process, NULL);
    }
}

/* ---- who is continued waits until the lists of that have run ---- */

struct waiting {
    struct thread **threads;
    size_t count, cap;
};

static bool has_requests(const struct monitor *monitor, const char *service)
{
    const struct service *found = registry_find(monitor->registry, span_str(service));
    return found && found->enabled;
}

/* Before a claim ends. */
static void wait_for_lists(struct waiting *waiting, struct thread *thread)
{
    const struct monitor *monitor = thread->object.monitor;
    if (!thread->stopped || !is_stopped(thread) ||
        !(has_requests(monitor, "thread_has_been_continued") || has_requests(monitor, "proc_has_been_continued")))
        return;
    if (!GROW(waiting->threads, waiting->count, waiting->cap))
        return;
    waiting->threads[waiting->count++] = thread;
    thread->looks++;
}

/* Their events were queued. */
static void waiting_end(struct waiting *waiting, struct monitor *monitor)
{
    if (!waiting->count || event_queue_end_inspections(monitor, waiting->threads, waiting->count) == 0)
        return;
    for (size_t i = 0; i < waiting->count; i++)
        runstate_inspect_done(waiting->threads[i]);
    free(waiting->threads);
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

/* Does the request name the process, or what contains it, and not single threads of it? */
static bool names_all(const struct scry_call *call, const struct process *process)
{
    const struct value *arg = &call->args[call->service->object_arg];
    for (size_t i = 0; arg->kind == VALUE_LIST && i < arg->list.count; i++)
        if (span_is(arg->list.items[i].text, process->object.token) ||
            span_is(arg->list.items[i].text, call->monitor->node->object.token))
            return true;
    return arg->kind == VALUE_LIST ? arg->list.count == 0 : span_is(arg->text, process->object.token);
}

/* The changes of one request. */
struct changes {
    struct scry_call *call;
    enum runstate_change what;
    struct thread_change *list; /* in the call's arena */
    size_t count, cap;
    uint64_t serial; /* thread->change of those in the list */
    struct waiting waiting;
};

static void change_begin(struct changes *changes, struct thread_change *change)
{
    struct scry_call *call = changes->call;
    change->was_stopped = is_stopped(change->thread);
    change->claim = thread_claim(change->thread, call->tool, true);
    if (!change->claim) {
        change->code = -ENOMEM;
    } else if (changes->what == RUNSTATE_RESUME && change->claim->suspends == 0) {
        change->code = -EALREADY;
    } else {
        if (changes->what == RUNSTATE_CONTINUE)
            wait_for_lists(&changes->waiting, change->thread);
        claim_change(change, changes->what);
    }
    if (change->code == 0 && (changes->what == RUNSTATE_STOP || changes->what == RUNSTATE_SUSPEND))
        snprintf(change->claim->rule, sizeof change->claim->rule, "%s",
                 call->csr ? call->csr->event_service->row->name : "");
}

static bool change_add(struct changes *changes, struct thread *thread)
{
    if (changes->count == changes->cap) {
        size_t cap = changes->cap ? 2 * changes->cap : changes->call->object_count + 1;
        struct thread_change *list = arena_zalloc(changes->call->arena, cap, sizeof *list);
        if (!list)
            return false;
        if (changes->count)
            memcpy(list, changes->list, changes->count * sizeof *list);
        changes->list = list;
        changes->cap = cap;
    }
    struct thread_change *change = &changes->list[changes->count++];
    change->thread = thread;
    thread->change = changes->serial;
    change_begin(changes, change);
    return true;
}

/* The end of the changes of one process. */
static size_t same_process(const struct changes *changes, size_t from)
{
    size_t to = from + 1;
    while (to < changes->count && changes->list[to].thread->process == changes->list[from].thread->process)
        to++;
    return to;
}

/* A process that is stopped as a whole may have made threads meanwhile: those, too, until there are no new ones, which
 * is soon, for a thread that is stopped makes none. */
static void add_new_threads(struct changes *changes, size_t from, size_t end)
{
    for (size_t to; from < end; from = to) {
        struct process *process = changes->list[from].thread->process;
        to = same_process(changes, from);
        if (!names_all(changes->call, process) || process_refresh(process, 0) < 0)
            continue;
        for (struct thread *thread = process->threads; thread; thread = thread->hh.next)
            if (thread->change != changes->serial && thread_visible(thread, changes->call->tool) &&
                !change_add(changes, thread))
                return;
    }
}

static void change_answer(struct changes *changes, struct thread_change *change)
{
    struct scry_call *call = changes->call;
    struct scry_object *object = &change->thread->object;
    if (change->code == -EALREADY) {
        call_fail(call, object, OMIS_PARAMETER_ERROR, "this tool has not suspended %s", object->token);
    } else if (change->code < 0) {
        claim_undo(change, changes->what);
        bool ended = change->code == -ESRCH && !change->why;
        change->thread->ended |= ended;
        if (ended && names_all(call, change->thread->process))
            return; /* nobody meant this one */
        call_fail(call, object, status_of_errno(change->code), "%s",
                  change->why ? change->why : stop_failure(change->code));
    } else {
        call_ok(call, object);
        if (is_stopped(change->thread) != change->was_stopped)
            raise_change(call->monitor, change->was_stopped ? "thread_has_been_continued" : "thread_has_been_stopped",
                         change->thread->process, change->thread);
    }
}

void runstate_apply(struct scry_call *call, enum runstate_change what)
{
    static uint64_t serial;
    struct changes changes = {.call = call, .what = what, .serial = ++serial};
    bool stops = what == RUNSTATE_STOP || what == RUNSTATE_SUSPEND, added = true;
    for (size_t i = 0; i < call->object_count && added; i++)
        added = change_add(&changes, call_thread(call, i));
    if (!added)
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
    for (size_t from = 0, to, looked = 0; from < changes.count; from = to) {
        to = same_process(&changes, from);
        apply_to_process(call, changes.list, from, to);
        if (stops && to == changes.count) {
            add_new_threads(&changes, looked, to);
            looked = to;
        }
    }
    for (size_t i = 0; i < changes.count; i++)
        change_answer(&changes, &changes.list[i]);
    for (size_t i = 0; i < changes.count; i = same_process(&changes, i))
        raise_process_change(call->monitor, changes.list[i].thread->process);
    waiting_end(&changes.waiting, call->monitor);
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

int runstate_inspect(struct thread *thread, struct err *err)
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

void runstate_inspect_done(struct thread *thread)
{
    thread->looks--;
    continue_if_it_may(thread);
    tracing_unsettle(thread->process);
}

/* A claim does not stop the thread any more. */
static void let_go(struct thread *thread, struct thread_claim *claim, struct waiting *waiting)
{
    struct process *process = thread->process;
    struct monitor *monitor = process->object.monitor;
    bool was_stopped = is_stopped(thread);
    wait_for_lists(waiting, thread);
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
    struct waiting waiting = {0};
    let_go(thread, claim, &waiting);
    if (!claim->detached)
        csr_thread_detached(tool, thread);
    claim->detached = true;
    raise_process_change(thread->object.monitor, thread->process);
    waiting_end(&waiting, thread->object.monitor);
    tracing_unsettle(thread->process);
    return 0;
}

void runstate_release(struct tool *tool, struct process *process)
{
    struct waiting waiting = {0};
    for (struct thread *thread = process->threads; thread; thread = thread->hh.next) {
        struct thread_claim **at = &thread->claims;
        while (*at && (*at)->tool != tool)
            at = &(*at)->next;
        if (!*at)
            continue;
        struct thread_claim *claim = *at;
        let_go(thread, claim, &waiting);
        *at = claim->next;
        free(claim);
    }
    raise_process_change(process->object.monitor, process);
    waiting_end(&waiting, process->object.monitor);
    tracing_unsettle(process);
}

void runstate_restore(struct process *process)
{
    struct monitor *monitor = process->object.monitor;
    struct waiting nobody = {0}; /* it runs */
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
            let_go(thread, claim, &nobody);
    }
    raise_process_change(monitor, process);
}
