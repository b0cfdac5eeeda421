/* SPDX-License-Identifier: Apache-2.0 */
/* Events whose lists concern several nodes: executed here, where their tool is, as requests over nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/parts/parts.h"
#include "monitor/tree/internal.h"

/* Why an action cannot be executed with the event's values; OMIS_OK: it can. */
struct unfit {
    Omis_status status;
    struct span why;
};

/* An event's list that is executed. */
struct far_run {
    struct far_request *request;
    struct session *session;
    char csr[TOKEN_TEXT_SIZE];
    uint32_t id, flags;
    struct event_list list;
    struct told *told;   /* in whose arena the rest is; its object waits */
    struct unfit *unfit; /* of each action */
    size_t action_count;
    struct far_run *next, **link; /* link: where it is linked: there may be thousands */
};

static struct far_run *runs;

/* ---- the list with values ---- */

/* false: out of memory. */
static bool list_unfit(struct told *told, struct unfit *ret_unfit, Omis_status status, const char *why)
{
    *ret_unfit = (struct unfit){status, arena_span(&told->arena, span_str(why))};
    return ret_unfit->why.ptr != NULL;
}

/* Checks its arguments again where values were put in. */
static bool put_values_of(const struct service *service, struct told *told, struct call_text *action,
                          struct unfit *ret_unfit)
{
    bool changed = false;
    struct span missing = span_of(NULL, 0);
    char why[160];
    struct err err;
    if (!substitute(&told->arena, told_value, told, action->args, action->argc, &action->args, &changed, &missing)) {
        snprintf(why, sizeof why, EVENT_PARAM_MISSING, SPAN_ARG(missing));
        return missing.ptr && list_unfit(told, ret_unfit, OMIS_UNKNOWN_ECP, why);
    }
    enum check_result result = changed ? signature_check(&service->signature, action->name, action->args, action->argc,
                                                         &told->arena, &action->args, &err)
                                       : CHECK_OK;
    return result == CHECK_OK ||
           (result == CHECK_TYPE_MISMATCH && list_unfit(told, ret_unfit, OMIS_TYPE_MISMATCH, err.text));
}

static bool told_put_values(const struct csr *csr, struct told *told, struct request *ret_request, struct unfit *unfits)
{
    size_t count = csr->request.action_count;
    struct call_text *actions = arena_alloc(&told->arena, (count + 1) * sizeof *actions);
    if (!actions)
        return false;
    memcpy(actions, csr->request.actions, count * sizeof *actions);
    for (size_t i = 0; i < count; i++)
        if (!put_values_of(csr->actions[i], told, &actions[i], &unfits[i]))
            return false;
    *ret_request = (struct request){.actions = actions, .action_count = count, .locked = csr->request.locked};
    return true;
}

/* What can be executed of it. */
static bool print_list(const struct request *request, const struct unfit *unfits, struct buf *out)
{
    struct call_text *actions = calloc(request->action_count, sizeof *actions);
    struct request rest = {.actions = actions, .locked = request->locked};
    for (size_t i = 0; actions && i < request->action_count; i++)
        if (unfits[i].status == OMIS_OK)
            actions[rest.action_count++] = request->actions[i];
    if (rest.action_count)
        request_print(out, &rest);
    free(actions);
    return actions && !out->failed;
}

/* ---- the reply ---- */

static void copy_results(struct reply_builder *reply, struct reply_reader *reader)
{
    for (uint32_t i = 0, count = reply_read_service(reader); i < count; i++) {
        struct reply_part part = reply_read_part(reader);
        reply_result(reply, part.objects, part.status, part.has_text ? &part.text : NULL);
    }
}

static void unfit_result(struct reply_builder *reply, const struct unfit *unfit)
{
    reply_service(reply);
    reply_result(reply, span_of("", 0), unfit->status, &unfit->why);
}

static void build_reply(const struct far_run *run, struct span bytes, struct reply_builder *reply)
{
    struct reply_reader reader, whole;
    bool there = reply_read_begin(&reader, bytes);
    whole = reader;
    for (uint32_t i = 0, count = there ? reply_read_service(&reader) : 0; i < count; i++)
        reply_read_part(&reader);
    bool refused = there && reader.service_count < 2;
    reply_begin(reply);
    reply_service(reply);
    reply_result(reply, span_str(run->told->where), OMIS_CSR_TRIGGERED, NULL);
    for (size_t i = 0; i < run->action_count; i++) {
        if (run->unfit[i].status != OMIS_OK) {
            unfit_result(reply, &run->unfit[i]);
        } else if (there) {
            reply_service(reply);
            copy_results(reply, refused ? &whole : &reader);
            there = !refused; /* which is said once */
        }
    }
}

/* ---- running ---- */

static void run_link(struct far_run *run, struct far_run **list)
{
    run->link = list;
    run->next = *list;
    if (run->next)
        run->next->link = &run->next;
    *list = run;
}

static void run_unlink(struct far_run *run)
{
    *run->link = run->next;
    if (run->next)
        run->next->link = run->link;
}

static void run_free(struct far_run *run)
{
    run_unlink(run);
    told_free(run->told);
    free(run);
}

static bool others_run(const struct far_run *run)
{
    for (const struct far_run *other = runs; other; other = other->next)
        if (other != run && strcmp(other->csr, run->csr) == 0)
            return true;
    return false;
}

static void list_executed(void *ctx, struct span bytes)
{
    struct far_run *run = ctx;
    struct monitor *monitor = run->session->tool->monitor;
    struct csr *csr = (struct csr *)object_find(monitor, span_str(run->csr));
    struct reply_builder reply = {0};
    build_reply(run, bytes, &reply);
    if (csr)
        csr->executing--;
    bool last = !csr && !others_run(run); /* it was deleted meanwhile */
    bool quiet = reply.only_ok && (run->flags & OMIS_DONT_RETURN_OK) && !last;
    struct session *session = run->session;
    uint32_t id = run->id;
    run_free(run); /* the object goes on first */
    if (!quiet)
        reply_send(session, id, last, !last, &reply);
    reply_done(&reply);
}

static void list_execute(struct csr *csr, struct told *told_take, const struct request *request, struct unfit *unfits)
{
    struct far_run *run = calloc(1, sizeof *run);
    struct buf text = BUF_INIT;
    if (!run || !print_list(request, unfits, &text)) {
        log_error("out of memory: an event of %s is lost", csr->object.token);
        buf_done(&text);
        told_free(told_take);
        free(run);
        return;
    }
    *run = (struct far_run){.session = csr->session,
                            .id = csr->request_id,
                            .flags = csr->flags,
                            .told = told_take,
                            .unfit = unfits,
                            .list = {told_take->source, told_take->time_ns},
                            .action_count = request->action_count};
    memcpy(run->csr, csr->object.token, sizeof run->csr);
    run_link(run, &runs);
    csr->executing++;
    if (text.len)
        run->request = tree_execute(run->session, &run->list, execute_chain(told_take->chain + 1),
                                    span_of(text.data, text.len), list_executed, run);
    if (!text.len) { /* nothing can be */
        list_executed(run, span_of("", 0));
    } else if (!run->request) {
        log_error("out of memory: the list of an event of %s is not executed", csr->object.token);
        csr->executing--;
        run_free(run);
    }
    buf_done(&text);
}

static struct unfit *new_unfits(const struct csr *csr, struct told *told)
{
    return arena_zalloc(&told->arena, csr->request.action_count + 1, sizeof(struct unfit));
}

bool far_event_elsewhere(struct csr *csr, const struct event *event)
{
    if (!csr->session->tool->spread)
        return false;
    gather_end(csr); /* the tool hears of that first */
    struct told *told = told_new(csr, event);
    struct request request;
    struct unfit *unfits = told ? new_unfits(csr, told) : NULL;
    if (!unfits || !told_put_values(csr, told, &request, unfits)) {
        log_error("out of memory: an event of %s is lost", csr->object.token);
        told_free(told);
        return true;
    }
    if (near_home(&request, csr->actions, TREE_HERE)) {
        told_free(told);
        return false;
    }
    list_execute(csr, told, &request, unfits);
    return true;
}

/* They are taken out first: with each request a session ends, too, for which this looks at all runs again. */
void far_events_end(struct session *session)
{
    struct far_run *ended = NULL;
    for (struct far_run *run = runs, *next; run; run = next) {
        next = run->next;
        if (run->session == session) {
            run_unlink(run);
            run_link(run, &ended);
        }
    }
    while (ended) {
        tree_forget(ended->request);
        run_free(ended);
    }
}

/* ---- events of parts ---- */

/* An object that waits at another monitor. */
struct edge_hold {
    struct hold hold;
    struct tool *tool; /* is there as long as somebody has this */
    struct tree *tree;
    int place;
    uint32_t number;
};

static void event_release(struct hold *hold)
{
    struct edge_hold *held = (struct edge_hold *)hold;
    struct edge *edge = tree_edge(held->tree, held->place);
    struct via *via = edge ? tree_find_via(held->tool, edge) : NULL;
    if (via)
        via_send(via, FRAME_RELEASE, held->number, span_of("", 0));
    free(held);
}

static struct hold *hold_new(struct via *via, uint32_t number)
{
    struct edge_hold *held = number ? calloc(1, sizeof *held) : NULL;
    if (!held) {
        via_send(via, FRAME_RELEASE, number, span_of("", 0));
        return NULL;
    }
    *held = (struct edge_hold){.hold = {.users = 1, .release = event_release},
                               .tool = via->tool,
                               .tree = via->tool->monitor->tree,
                               .place = via->edge->place,
                               .number = number};
    return &held->hold;
}

/* Times are in our clock from here on, and the request is what it is called here: its home may have no number there. */
static void event_translate(struct told *told, const struct csr *csr, const struct edge *edge)
{
    int64_t offset_ns;
    uint64_t bound_ns;
    if (!clock_offset_now(&edge->clock, clock_now_ns(), &offset_ns, &bound_ns))
        offset_ns = 0;
    told->time_ns -= (uint64_t)offset_ns;
    for (size_t i = 0; i < told->count; i++) {
        if (span_is(told->names[i], "time") && told->values[i].kind == VALUE_FLOATING)
            told->values[i] = value_floating((double)(int64_t)told->time_ns / 1e9);
        else if (span_is(told->names[i], "csr"))
            told->values[i] = value_token(span_str(csr->home_token ? csr->home_token : csr->object.token));
    }
}

/* A node that was broken into may tell of any number of events. */
enum { RUNS_MOST = 16384 };

/* Why an event is not taken, once a second: to the log, or to the tool. */
static void refuse_event(const struct csr *csr, bool is_bad)
{
    static uint64_t said_ns;
    uint64_t now_ns = clock_now_ns();
    if (said_ns && now_ns - said_ns < NS_PER_SECOND)
        return;
    said_ns = now_ns;
    if (is_bad)
        log_warning("an event of %s is lost: its monitor told it otherwise than it should", csr->object.token);
    else if (csr->session && csr->enabled)
        session_error(csr->session, OMIS_UNSPECIFIED_ERROR,
                      "events of %s are dropped: for %d of them the list has not been executed yet", csr->object.token,
                      RUNS_MOST);
}

void far_event_came(struct csr *csr, struct via *via, struct span payload)
{
    if (payload.len < 4)
        return;
    struct edge *edge = via->edge;
    struct renumber numbers = edge_renumber(edge);
    struct buf text = BUF_INIT;
    struct told *told = NULL;
    struct hold *hold = hold_new(via, frame_number(payload.ptr));
    renumber_text(&text, span_of(payload.ptr + 4, payload.len - 4), &numbers);
    int code = text.failed ? -1 : told_read(&told, csr, span_of(text.data ? text.data : "", text.len));
    buf_done(&text);
    if (code < 0 || !csr->session || !csr->enabled || csr->executing >= RUNS_MOST) {
        if (code < 0 || csr->executing >= RUNS_MOST)
            refuse_event(csr, code < 0);
        hold_drop(hold);
        told_free(told);
        return;
    }
    told->hold = hold;
    event_translate(told, csr, edge);
    if (csr->home_token) {
        told_send(csr, told);
        return;
    }
    struct request request;
    struct unfit *unfits = new_unfits(csr, told);
    if (unfits && told_put_values(csr, told, &request, unfits)) {
        struct monitor *monitor = csr->object.monitor;
        hold_begin(monitor, hold); /* user events that it raises may keep it, too */
        list_execute(csr, told, &request, unfits);
        event_run_queue(monitor);
        hold_end(monitor, hold);
    } else {
        log_error("out of memory: an event of %s is lost", csr->object.token);
        told_free(told);
    }
}
