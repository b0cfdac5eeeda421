/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditional requests over nodes: one lives at its home, and has a part behind each edge that leads to nodes of its event
 * definition (DEFINE, with the token that the tool knows). If the list concerns only the node of the event (parts/parts.h) it
 * runs there. Else the event is told to the home, which executes the list over the nodes (far_event.c). Enabling
 * and the like go to all parts; a node that does not answer is an error of that answer, and does it when it answers again.
 * What the parts say of it until then is one reply. A request that is part of an event's list says how many events raised each
 * other before it, so chains over nodes end, too (EVENT_CHAIN_LIMIT). `$time` is translated at each edge
 * (base/system/clock.h). What locks several nodes is in far.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/log.h"
#include "lang/reply.h"
#include "lang/token.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/parts/parts.h"
#include "monitor/tree/internal.h"
#include "monitor/tree/slice.h"

/* What of a conditional request lies behind an edge, and whether that can be done there alone. */

static bool lies_behind(struct tree *tree, const struct edge *edge, const struct value *value)
{
    struct token token;
    const struct tree_node *node =
        value->kind == VALUE_TOKEN && token_parse(value->text, &token) ? tree_node(tree, token.node) : NULL;
    return node && node->edge == edge;
}

/* The request's event with what lies behind an edge as its objects, in the arena. false: nothing does, or out of memory. */
static bool behind_event(const struct csr *csr, const struct edge *edge, struct arena *arena,
                         struct call_text *ret_event)
{
    struct tree *tree = csr->object.monitor->tree;
    int index = csr->event_service->object_arg;
    *ret_event = *csr->request.event;
    if (index < 0 || (strcmp(csr->event_service->object_class, "e") == 0))
        return false;
    const struct value *arg = &csr->event_args[index];
    if (arg->kind != VALUE_LIST)
        return lies_behind(tree, edge, arg);
    if (!arg->list.count)
        return true;
    struct value *args = arena_alloc(arena, ret_event->argc * sizeof *args);
    struct value *items = arena_alloc(arena, arg->list.count * sizeof *items);
    size_t count = 0;
    if (!args || !items)
        return false;
    for (size_t i = 0; i < arg->list.count; i++)
        if (lies_behind(tree, edge, &arg->list.items[i]))
            items[count++] = arg->list.items[i];
    memcpy(args, csr->event_args, ret_event->argc * sizeof *args);
    args[index].list.items = items;
    args[index].list.count = count;
    ret_event->args = args;
    return count > 0;
}

static bool leads_on(struct tree *tree, const struct edge *edge)
{
    unsigned count = 0;
    for (const struct tree_node *node = NULL; (node = tree_next_node(tree, node));)
        count += node->edge == edge;
    return count > 1;
}

/* Whether all tokens have numbers there: a node knows those behind it, and who has attached it. */
static bool are_known(struct edge *edge, const struct value *values, size_t count)
{
    struct token token;
    for (size_t i = 0; i < count; i++) {
        if (values[i].kind == VALUE_LIST && !are_known(edge, values[i].list.items, values[i].list.count))
            return false;
        if (values[i].kind == VALUE_TOKEN && token_parse(values[i].text, &token) && token.node &&
            !edge_theirs(edge, token.node))
            return false;
    }
    return true;
}

/* Whether its list must be executed at home, whatever node behind the edge it is. */
static bool behind_is_far(const struct csr *csr, struct edge *edge)
{
    struct tree *tree = csr->object.monitor->tree;
    struct value token = value_token(span_str(csr->home_token ? csr->home_token : csr->object.token));
    if (csr->far || (csr->home_token && near_uses(&csr->request, "time"))) /* two clocks away */
        return true;
    if (near_uses(&csr->request, "csr") && (span_is(token.text, TOKEN_UNDEFINED) || !are_known(edge, &token, 1)))
        return true;
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (!are_known(edge, csr->request.actions[i].args, csr->request.actions[i].argc))
            return true;
    return !near_request(&csr->request, csr->actions, leads_on(tree, edge) ? 0 : edge->node->number);
}

/* What all nodes say of a request that was enabled or disabled, as one reply. */

struct gathered {
    const struct csr *csr;
    Omis_status change;
    struct merge *merge;
    struct gathered *next;
};

static struct gathered *all_gathered;

static struct gathered *part_find(const struct csr *csr)
{
    struct gathered *gathered = all_gathered;
    while (gathered && gathered->csr != csr)
        gathered = gathered->next;
    return gathered;
}

static struct gathered *gathered_new(const struct csr *csr, Omis_status change)
{
    struct gathered *gathered = calloc(1, sizeof *gathered);
    if (!gathered || merge_new(&gathered->merge, 1) < 0) {
        free(gathered);
        return NULL;
    }
    gathered->csr = csr;
    gathered->change = change;
    gathered->next = all_gathered;
    all_gathered = gathered;
    return gathered;
}

static void gathered_free(struct gathered *gathered)
{
    struct gathered **at = &all_gathered;
    while (*at != gathered)
        at = &(*at)->next;
    *at = gathered->next;
    merge_free(gathered->merge);
    free(gathered);
}

static Omis_status change_of(struct span reply)
{
    struct reply_reader reader;
    if (!reply_read_begin(&reader, reply) || !reply_read_service(&reader))
        return OMIS_INTERNAL_ERROR;
    return reply_read_part(&reader).status;
}

bool gather(const struct csr *csr, struct span reply)
{
    static const size_t action = 0;
    Omis_status change = change_of(reply);
    struct gathered *gathered = part_find(csr);
    if (change != OMIS_CSR_ENABLED && change != OMIS_CSR_DISABLED)
        return false;
    if (gathered && gathered->change != change) {
        gather_end(csr);
        gathered = NULL;
    }
    if (!gathered)
        gathered = gathered_new(csr, change);
    return gathered && merge_add(gathered->merge, reply, &action, 1, span_of("", 0)) == 0;
}

void gather_end(const struct csr *csr)
{
    struct gathered *gathered = part_find(csr);
    struct reply_builder reply = {0};
    if (!gathered)
        return;
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), gathered->change, NULL);
    const struct request order = {.actions = csr->request.event, .action_count = 1};
    merge_finish(gathered->merge, &order, &reply);
    gathered_free(gathered);
    if (csr->session)
        reply_send(csr->session, csr->request_id, false, false, &reply);
    reply_done(&reply);
}

/* The parts of conditional requests on other nodes. */

struct csr_part {
    struct csr *csr;
    struct via *via;
    uint32_t id;                 /* of its DEFINE, under which all its replies come */
    char token[TOKEN_TEXT_SIZE]; /* there, in our number; "": it is not defined yet */
    bool wanted, failed;
    struct csr_part *next;
};

/* Something that a part was asked for and has not answered; or that it will be asked for, when it is defined. */
struct asked {
    char csr[TOKEN_TEXT_SIZE];
    struct csr_part *part; /* that it waits for; NULL: it was sent */
    struct via *via;
    uint32_t id;   /* of its request */
    bool given_up; /* the node does not answer: it is done when it does, and nobody waits for that */
    struct asked *next;
};

/* A csr_enable ... that waits for all nodes. */
struct waiting {
    struct later *later;
    char (*tokens)[TOKEN_TEXT_SIZE]; /* of the requests */
    size_t count;
    char failed[TOKEN_TEXT_SIZE], why[256]; /* what a node did not answer, last; "": nothing */
    struct waiting *next;
};

static struct {
    struct tree *tree;
    struct asked *asked;
    struct waiting *waiting;
    struct loop_source *turn;
} all;

/* ---- waiting for all nodes ---- */

static bool is_asked_of(const char *token)
{
    const struct asked *asked = all.asked;
    while (asked && (asked->given_up || strcmp(asked->csr, token) != 0))
        asked = asked->next;
    return asked != NULL;
}

static bool is_asked(const struct waiting *waiting)
{
    for (size_t i = 0; i < waiting->count; i++)
        if (is_asked_of(waiting->tokens[i]))
            return true;
    return false;
}

static bool waits_for(const struct waiting *waiting, const char *token)
{
    for (size_t i = 0; i < waiting->count; i++)
        if (strcmp(waiting->tokens[i], token) == 0)
            return true;
    return false;
}

/* The requests themselves may be gone. */
static void part_answer(const struct waiting *waiting, struct scry_call *call)
{
    struct span why = span_str(waiting->why);
    for (size_t i = 0; i < waiting->count; i++) {
        bool failed = strcmp(waiting->tokens[i], waiting->failed) == 0;
        reply_result(call->reply, span_str(waiting->tokens[i]), failed ? OMIS_UNSPECIFIED_ERROR : OMIS_OK,
                     failed ? &why : NULL);
        call->answers++;
    }
}

static void waiting_free(struct waiting *waiting)
{
    struct waiting **at = &all.waiting;
    while (*at && *at != waiting)
        at = &(*at)->next;
    if (*at)
        *at = waiting->next;
    free(waiting->tokens);
    free(waiting);
}

static void answer_waiting(void *ctx)
{
    (void)ctx;
    all.turn = NULL;
    struct waiting *waiting = all.waiting;
    while (waiting) {
        struct later *later = waiting->later;
        if (is_asked(waiting)) {
            waiting = waiting->next;
            continue;
        }
        part_answer(waiting, call_later_begin(later));
        waiting_free(waiting);
        call_later_end(later, true);
        waiting = all.waiting; /* the list that went on may have changed it */
    }
}

/* From the loop: lists that go on may end what is in use now. */
static void answer_soon(void)
{
    if (all.waiting && !all.turn)
        all.turn = loop_add_deferred(monitor_current()->loop, answer_waiting, NULL);
}

static void part_cancel(void *ctx)
{
    waiting_free(ctx);
}

static bool wait_for_parts(struct scry_call *call)
{
    struct waiting *waiting = all.asked ? calloc(1, sizeof *waiting) : NULL;
    if (!waiting)
        return false;
    waiting->tokens = calloc(call->object_count + 1, sizeof *waiting->tokens);
    for (; waiting->tokens && waiting->count < call->object_count; waiting->count++)
        memcpy(waiting->tokens[waiting->count], call->objects[waiting->count]->token, sizeof *waiting->tokens);
    if (is_asked(waiting)) /* not in the list of an event, or in braces */
        waiting->later = call_later(call, part_cancel, waiting);
    if (!waiting->later) {
        waiting_free(waiting);
        return false;
    }
    waiting->next = all.waiting;
    all.waiting = waiting;
    conditional_silent();
    return true;
}

static void end_gathering(const char *token)
{
    const struct scry_object *csr = is_asked_of(token) ? NULL : object_find(monitor_current(), span_str(token));
    if (csr)
        gather_end((const struct csr *)csr);
}

static void asked_done(struct asked *done)
{
    struct asked **at = &all.asked;
    while (*at != done)
        at = &(*at)->next;
    *at = done->next;
    end_gathering(done->csr);
    free(done);
}

/* Who waits for it will be told. */
static void note_failure(const struct asked *asked, const char *why)
{
    for (struct waiting *waiting = all.waiting; waiting; waiting = waiting->next) {
        if (!waits_for(waiting, asked->csr))
            continue;
        memcpy(waiting->failed, asked->csr, sizeof waiting->failed);
        snprintf(waiting->why, sizeof waiting->why, "%s", why);
    }
}

/* A node does not answer any more; or NULL: something waits, perhaps for one that does not. */
void conditional_silent(void)
{
    char why[TREE_NAME_SIZE + 64];
    for (struct asked *asked = all.asked; asked; asked = asked->next) {
        if (asked->given_up || !edge_is_silent(asked->via->edge, why, sizeof why))
            continue;
        asked->given_up = true;
        note_failure(asked, why);
        end_gathering(asked->csr);
        answer_soon();
    }
}

/* A reply about a change of state: it goes to the tool with those of the other nodes. */
static bool answers_gather(const struct csr *csr, struct span reply)
{
    return is_asked_of(csr->object.token) && gather(csr, reply);
}

/* ---- asking ---- */

static void change_reply(void *ctx, bool last, struct span reply, const char *lost)
{
    (void)reply;
    (void)last; /* an unconditional request has one */
    struct asked *asked = ctx;
    if (!asked) /* its session has gone */
        return;
    if (lost)
        note_failure(asked, lost);
    asked_done(asked);
    answer_soon();
}

static uint32_t value_theirs(void *ctx, uint32_t ours)
{
    return edge_theirs(ctx, ours);
}

static void print_theirs(struct buf *out, struct edge *edge, const struct buf *text)
{
    const struct renumber numbers = {.ctx = edge, .ours = value_theirs};
    renumber_text(out, span_of(text->data ? text->data : "", text->len), &numbers);
    out->failed |= text->failed;
}

/* It stands while the node does not answer: else the node would go on with what no longer holds. */
static bool send_change(struct via *via, const char *service, const char *token, struct asked *asked)
{
    uint32_t id = 0;
    struct buf text = BUF_INIT, there = BUF_INIT;
    struct err err = {0};
    buf_printf(&text, ":%s([%s])", service, token);
    print_theirs(&there, via->edge, &text);
    if (!there.failed)
        id = via_request(via, FRAME_REQUEST, span_of("\0\0\0\0", 4), span_of(there.data, there.len), VIA_STAND,
                         change_reply, asked, &err);
    if (asked)
        asked->id = id;
    if (!id)
        log_warning("%s is not told to another node: %s", service, err.text);
    buf_done(&text);
    buf_done(&there);
    return id != 0;
}

/* `part`: it waits until that is defined. */
static void part_ask(struct csr *csr, struct via *via, const char *service, const char *token, struct csr_part *part)
{
    struct asked *asked = calloc(1, sizeof *asked);
    if (!asked) {
        log_error("out of memory: %s of %s is not told to another node", service, csr->object.token);
        return;
    }
    *asked = (struct asked){.via = via, .part = part, .next = all.asked};
    memcpy(asked->csr, csr->object.token, sizeof asked->csr);
    all.asked = asked;
    if (!part && !send_change(via, service, token, asked))
        asked_done(asked);
}

/* It is defined, or it will not be: what waited for that. */
static void answers_settle(struct csr_part *part)
{
    struct asked *enables = NULL;
    for (struct asked *asked = all.asked, *next; asked; asked = next) {
        next = asked->next;
        if (asked->part != part)
            continue;
        asked->part = NULL;
        if (!enables)
            enables = asked;
        else
            asked_done(asked);
    }
    if (enables && (part->failed || !part->wanted || !send_change(part->via, "csr_enable", part->token, enables)))
        asked_done(enables);
    answer_soon();
}

static void part_turn(struct csr_part *part, bool enabled)
{
    if (part->failed || part->wanted == enabled)
        return;
    part->wanted = enabled;
    bool defined = part->token[0] != 0;
    if (enabled || defined)
        part_ask(part->csr, part->via, enabled ? "csr_enable" : "csr_disable", part->token, defined ? NULL : part);
}

/* ---- what parts say ---- */

static void part_free(struct csr_part *part)
{
    struct csr_part **at = &part->csr->parts;
    while (*at != part)
        at = &(*at)->next;
    *at = part->next;
    part->failed = true;
    answers_settle(part);
    free(part);
}

/* Its state: the first element's status; whether the others say anything. */
static Omis_status status_of(struct span reply, struct span *ret_text, bool *ret_says)
{
    struct reply_reader reader;
    Omis_status status = OMIS_INTERNAL_ERROR;
    *ret_text = span_of("", 0);
    *ret_says = false;
    if (!reply_read_begin(&reader, reply))
        return status;
    for (uint32_t service = 0; service < reader.service_count; service++) {
        for (uint32_t i = 0, count = reply_read_service(&reader); i < count; i++) {
            struct reply_part part = reply_read_part(&reader);
            if (service == 0) {
                status = part.status;
                *ret_text = part.text;
            } else {
                *ret_says |= part.objects.len || part.status >= OMIS_FIRST_ERROR;
                if (part.status >= OMIS_FIRST_ERROR)
                    *ret_text = part.text;
            }
        }
    }
    return status;
}

static void part_defined(struct csr_part *part, Omis_status status, struct span text, bool refused)
{
    if (status != OMIS_CSR_DEFINED || refused || text.len >= sizeof part->token) {
        const struct csr *csr = part->csr;
        const struct tree_node *node = part->via->edge->node;
        if (csr->session)
            session_error(csr->session, OMIS_UNSPECIFIED_ERROR, "%s is not in force on n_%u (%s): %.*s",
                          csr->object.token, node->number, node->name, SPAN_ARG(text));
        part->failed = true;
    } else {
        memcpy(part->token, text.ptr, text.len);
    }
    answers_settle(part);
}

static void part_reply(void *ctx, bool last, struct span reply, const char *lost)
{
    struct csr_part *part = ctx;
    struct csr *csr = part->csr;
    struct span text;
    bool says;
    Omis_status status = lost ? OMIS_OK : status_of(reply, &text, &says);
    if (lost || (last && part->token[0])) {
        part_free(part);
    } else if (!part->token[0]) {
        part_defined(part, status, text, says);
        if (last)
            part_free(part);
    } else if (csr->session && (status == OMIS_CSR_TRIGGERED || (says && !answers_gather(csr, reply)))) {
        gather_end(csr);
        csr->session->reply(csr->session, csr->request_id, false, true, reply); /* there may be any number */
    }
}

/* ---- where there are parts ---- */

static bool define_there(struct csr_part *part, const struct call_text *event)
{
    const struct csr *csr = part->csr;
    struct edge *edge = part->via->edge;
    struct request request = csr->request;
    struct call_text definition = *event;
    struct buf text = BUF_INIT, there = BUF_INIT, head = BUF_INIT, token = BUF_INIT;
    struct err err = {.text = "out of memory"};
    request.event = &definition;
    request_print(&text, &request);
    print_theirs(&there, edge, &text);
    buf_clear(&text);
    buf_puts(&text, csr->home_token ? csr->home_token : csr->object.token);
    print_theirs(&token, edge, &text);
    buf_put_u32(&head, csr->flags & ~(uint32_t)OMIS_DEBUG);
    buf_put_u32(&head, behind_is_far(csr, edge) ? DEFINE_FAR : DEFINE_NEAR);
    buf_append(&head, token.data, token.len);
    buf_putc(&head, 0);
    bool failed = there.failed || head.failed || token.failed;
    part->id = failed ? 0
                      : via_request(part->via, FRAME_DEFINE, span_of(head.data, head.len),
                                    span_of(there.data, there.len), VIA_STAND, part_reply, part, &err);
    if (!part->id)
        log_error("%s is not in force on n_%u: %s", csr->object.token, edge->node->number, err.text);
    buf_done(&text);
    buf_done(&there);
    buf_done(&head);
    buf_done(&token);
    return part->id != 0;
}

static void part_make(struct csr *csr, struct via *via)
{
    struct arena arena = ARENA_INIT;
    struct call_text event;
    struct csr_part *part = behind_event(csr, via->edge, &arena, &event) ? calloc(1, sizeof *part) : NULL;
    if (part) {
        part->csr = csr;
        part->via = via;
        if (define_there(part, &event)) {
            part->next = csr->parts;
            csr->parts = part;
            part_turn(part, csr->enabled);
        } else {
            free(part);
        }
    }
    arena_done(&arena);
}

/* ---- what comes in ---- */

/* Its tool may go, and its session behind the edge with it: nobody would say that it is done. */
static void forget_asked(const struct csr *csr, struct via *via)
{
    for (struct asked *asked = all.asked, *next; asked; asked = next) {
        next = asked->next;
        if (asked->part || asked->via != via || strcmp(asked->csr, csr->object.token) != 0)
            continue;
        via_forget(via, asked->id);
        asked_done(asked);
    }
}

static void on_csr(struct csr *csr, int change)
{
    struct tool *tool = csr->object.owner;
    gather_end(csr); /* of the change before */
    if (change == CSR_DEFINED) {
        if (!csr->home_token)
            csr->elsewhere = far_event_elsewhere;
        for (struct edge *edge = NULL; tool->spread && (edge = tree_next_edge(all.tree, edge));) {
            struct via *via = tree_find_via(tool, edge);
            if (via)
                part_make(csr, via);
        }
        return;
    }
    for (struct csr_part *part = csr->parts, *next; part; part = next) {
        next = part->next;
        if (change != CSR_DELETED) {
            part_turn(part, change == CSR_ENABLED);
            continue;
        }
        via_forget(part->via, part->id);
        if (!csr->session)
            forget_asked(csr, part->via);
        if (part->token[0] && csr->session)
            part_ask(csr, part->via, "csr_delete", part->token, NULL);
        else if (part->token[0]) /* its session has gone */
            send_change(part->via, "csr_delete", part->token, NULL);
        part_free(part);
    }
}

void conditional_opened(struct via *via)
{
    struct tool *tool = via->tool;
    for (struct scry_object *object = tool->owned; object; object = object->next_owned)
        if (object_is(object, "c") && ((struct csr *)object)->session)
            part_make((struct csr *)object, via);
    tool->monitor->programs_stale = true; /* lists that enable requests, which have parts now */
}

static struct csr *csr_of(struct via *via, uint32_t id)
{
    for (struct scry_object *object = via->tool->owned; object; object = object->next_owned) {
        if (!object_is(object, "c"))
            continue;
        for (const struct csr_part *part = ((struct csr *)object)->parts; part; part = part->next)
            if (part->via == via && part->id == id)
                return part->csr;
    }
    return NULL;
}

void conditional_came(struct via *via, const struct frame *frame)
{
    struct csr *csr = frame->type == FRAME_EVENT ? csr_of(via, frame->id) : NULL;
    if (csr)
        far_event_came(csr, via, frame->payload);
    else if (frame->type == FRAME_EVENT && frame->payload.len >= 4) /* it was deleted meanwhile */
        via_send(via, FRAME_RELEASE, frame_number(frame->payload.ptr), span_of("", 0));
    else
        locks_came(via, frame);
}

/* flags, what, the token at home, the text */
static bool asked_to_define(struct edge *edge, struct session *session, const struct frame *frame)
{
    struct span rest = frame->payload;
    const char *token = rest.ptr + 8, *end = rest.len > 8 ? memchr(token, 0, rest.len - 8) : NULL;
    if (!end)
        return false;
    struct csr_home home = {.token = span_of(token, (size_t)(end - token)),
                            .far = frame_number(rest.ptr + 4) == DEFINE_FAR,
                            .clock = &edge->clock};
    struct span text = span_of(end + 1, rest.len - (size_t)(end + 1 - rest.ptr));
    execute_define(session, frame->id, frame_number(rest.ptr), text, &home);
    return true;
}

bool conditional_asked(struct edge *edge, struct session *session, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_DEFINE:
        return asked_to_define(edge, session, frame);
    case FRAME_RELEASE:
        tell_release(session, frame->id);
        return true;
    default:
        return locks_asked(session, frame);
    }
}

static bool knows_node(struct monitor *monitor, uint32_t number)
{
    return tree_node(monitor->tree, number) != NULL;
}

static struct monitor_parts parts;

static void session_ends(struct session *session)
{
    far_events_end(session); /* which hold what the next one lets go */
    lock_session_ends(session);
}

void conditional_start(struct tree *tree)
{
    struct monitor *monitor = monitor_current();
    all.tree = tree;
    if (!parts.session_ends) {
        parts = *monitor->parts;
        parts.session_ends = session_ends;
    }
    monitor->parts = &parts;
    monitor->on_csr = on_csr;
    monitor->knows_node = knows_node;
    monitor->wait_for_parts = wait_for_parts;
    monitor->gathers = answers_gather;
}
