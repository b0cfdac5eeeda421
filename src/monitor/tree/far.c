/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unconditional requests over nodes: cut into slices, which go to the engine of this monitor and to those of others, one
 * phase after the other; then all answers are one reply.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/loop.h"
#include "base/system/pause.h"
#include "lang/token.h"
#include "monitor/engine/execute.h"
#include "monitor/parts/parts.h"
#include "monitor/tree/internal.h"
#include "monitor/tree/slice.h"
#include "shm/waits.h"

static const char TOO_LONG[] = "the request is too long for so many nodes: send it in parts";

/* A slice that an answer is waited for. */
struct far_part {
    struct far_request *far;
    const struct slice *slice;
    struct via *via;
    uint32_t id; /* 0: answered */
};

struct far_request {
    struct session here; /* executes our own slices; its functions find the request by it */
    struct tree *tree;
    struct session *asker;
    uint32_t id, flags;
    struct arena arena;
    struct request request;
    struct cut cut;
    struct merge *merge;    /* NULL: it has not come to the engine, or is no matter of other nodes */
    size_t phase;           /* that begins next */
    struct far_part *parts; /* of the one that runs */
    size_t part_count;
    unsigned waiting;
    bool locked;
    const struct slice *home; /* our own, while it runs */
    bool home_waits;          /* for the end of a lock */
    struct loop_source *turn;
    uint64_t began_ns;
    struct buf whole; /* the reply of a request that was no matter of other nodes */
    far_reply_fn *fn; /* who gets the reply; NULL: the asker's session, which waits for it */
    void *ctx;
    struct far_request *next, *previous;
};

static void here_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded);

/* ---- life ---- */

static struct far_request *far_new(struct session *asker)
{
    struct tree *tree = asker->tool->monitor->tree;
    struct far_request *far = calloc(1, sizeof *far);
    if (!far)
        return NULL;
    far->tree = tree;
    far->asker = asker;
    far->arena = ARENA_INIT;
    far->began_ns = clock_now_ns();
    far->here.peer_pid = asker->peer_pid;
    far->here.tool = tool_join(tree->monitor, asker->tool->id); /* it stays until we are done */
    far->next = tree->requests;
    if (tree->requests)
        tree->requests->previous = far;
    tree->requests = far;
    return far;
}

static void forget_parts(struct far_request *far)
{
    for (size_t i = 0; i < far->part_count; i++)
        if (far->parts[i].id)
            via_forget(far->parts[i].via, far->parts[i].id);
    far->part_count = 0;
}

static void locks_give(struct tree *tree, struct far_request *request);

static void far_free(struct far_request *far)
{
    if (far->locked)
        locks_give(far->tree, far);
    forget_parts(far);
    if (far->previous)
        far->previous->next = far->next;
    else
        far->tree->requests = far->next;
    if (far->next)
        far->next->previous = far->previous;
    if (far->asker && far->asker->away == far)
        far->asker->away = NULL;
    loop_remove(far->turn);
    tool_leave(&far->here);
    if (far->merge)
        cut_done(&far->cut);
    merge_free(far->merge);
    arena_done(&far->arena);
    buf_done(&far->whole);
    free(far);
}

void tree_forget(struct far_request *request)
{
    far_free(request);
}

void far_cancel(struct session *session)
{
    far_free(session->away);
}

void far_print_state(const struct tree *tree, struct buf *out)
{
    for (const struct far_request *far = tree->requests; far; far = far->next)
        buf_printf(out, "request tool=%u id=%u phase=%zu phases=%zu slices_unanswered=%u age_ms=%llu\n",
                   far->here.tool->id, far->id, far->phase, far->merge ? far->cut.phase_count : 0, far->waiting,
                   (unsigned long long)((clock_now_ns() - far->began_ns) / 1000000));
}

/* ---- the reply ---- */

static void slices_build(struct far_request *far, struct reply_builder *reply)
{
    reply->limit = far->here.tool->confined.job ? CONFINED_REPLY_BYTES : 0;
    struct reply_part refusal;
    reply_begin(reply);
    reply_service(reply);
    if (merge_is_refused(far->merge, &refusal)) {
        reply_result(reply, span_of("", 0), refusal.status, refusal.has_text ? &refusal.text : NULL);
        return;
    }
    reply_result(reply, span_of("", 0), OMIS_OK, NULL);
    merge_finish(far->merge, &far->request, reply);
    if (!reply->full || reply->bytes.failed)
        return;
    char text[128];
    snprintf(text, sizeof text, "the reply is longer than %d bytes: ask for less at once", REPLY_SIZE_LIMIT);
    struct span why = span_str(text);
    reply_begin(reply);
    reply_service(reply);
    reply_result(reply, span_of("", 0), OMIS_NO_MEMORY, &why);
}

static void request_finish(struct far_request *far)
{
    struct session *asker = far->asker;
    struct reply_builder reply = {0};
    far_reply_fn *fn = far->fn;
    void *ctx = far->ctx;
    slices_build(far, &reply);
    if (fn) {
        far_free(far);
        fn(ctx, span_of(reply.bytes.data, reply.bytes.len));
        reply_done(&reply);
        return;
    }
    reply_send(asker, far->id, true, false, &reply);
    if (far->flags & OMIS_DEBUG)
        session_error(asker, OMIS_OK, "executed in %.1f us", (double)(clock_now_ns() - far->began_ns) / 1e3);
    reply_done(&reply);
    far_free(far);
    asker->ready(asker);
}

/* ---- phases ---- */

static void begin_phase(struct far_request *far);
static void go_on(struct far_request *far);

static void take_turn(void *ctx)
{
    struct far_request *far = ctx;
    struct monitor *monitor = far->tree->monitor;
    far->turn = NULL;
    monitor_enter(monitor);
    if (!far->merge) { /* the engine has answered it whole */
        far_reply_fn *fn = far->fn;
        void *fn_ctx = far->ctx;
        struct buf whole = far->whole;
        far->whole = (struct buf)BUF_INIT;
        far_free(far);
        fn(fn_ctx, span_of(whole.data, whole.len));
        buf_done(&whole);
    } else if (far->phase < far->cut.phase_count) {
        begin_phase(far);
    } else if (far->cut.end < far->request.action_count) {
        go_on(far);
    } else {
        request_finish(far);
    }
    monitor_leave(monitor);
}

/* One answer less is missing. It goes on from the loop: whoever answers may be in the engine, in our session. */
static void one_less(struct far_request *far)
{
    if (--far->waiting == 0 && !far->turn)
        far->turn = loop_add_deferred(far->tree->monitor->loop, take_turn, far);
}

/* The tokens of an action that a place was asked for, or its node. It may be gone by now. */
static void objects_at(const struct far_request *far, const struct far_part *part, size_t action, struct buf *out)
{
    const struct call_text *text = &far->request.actions[action];
    const struct service *service = registry_find(far->tree->monitor->registry, text->name);
    const struct value *arg = service && service->object_arg >= 0 ? &text->args[service->object_arg] : NULL;
    const struct value *items = arg && arg->kind == VALUE_LIST ? arg->list.items : arg;
    size_t count = !arg ? 0 : arg->kind == VALUE_LIST ? arg->list.count : 1;
    for (size_t i = 0; i < count; i++) {
        struct token token;
        bool is_token = items[i].kind == VALUE_TOKEN && token_parse(items[i].text, &token);
        const struct tree_node *node = is_token ? tree_node(far->tree, token.node) : NULL;
        if (!node || !node->edge || node->edge->place != part->slice->place)
            continue;
        if (out->len)
            buf_putc(out, ',');
        buf_append(out, items[i].text.ptr, items[i].text.len);
    }
    if (!out->len && part->via)
        buf_printf(out, "n_%u", part->via->edge->node->number);
}

static void part_failed(struct far_request *far, const struct far_part *part, Omis_status status, const char *why)
{
    struct buf objects = BUF_INIT;
    for (size_t i = 0; i < part->slice->action_count; i++) {
        buf_clear(&objects);
        objects_at(far, part, part->slice->actions[i], &objects);
        merge_fail(far->merge, &part->slice->actions[i], 1, span_of(objects.data ? objects.data : "", objects.len),
                   status, span_str(why));
    }
    buf_done(&objects);
}

/* It has been checked here: the node has another version of scry, or not the same extensions. */
static bool part_lacks_service(struct far_request *far, const struct far_part *part, struct span reply)
{
    char why[ERR_TEXT_SIZE + TREE_NAME_SIZE];
    struct reply_reader reader;
    if (!reply_read_begin(&reader, reply) || !reader.service_count || !reply_read_service(&reader))
        return false;
    struct reply_part word = reply_read_part(&reader);
    if (word.status != OMIS_UNKNOWN_SERVICE)
        return false;
    snprintf(why, sizeof why, "node %s has no such service: %.*s: load the same extensions there (SCRY_EXT_PATH)",
             part->via->edge->node->name, SPAN_ARG(word.text));
    part_failed(far, part, OMIS_UNKNOWN_SERVICE, why);
    return true;
}

static void part_reply(void *ctx, bool last, struct span reply, const char *lost)
{
    (void)last; /* an unconditional request has one */
    struct far_part *part = ctx;
    char node[32];
    const struct slice *slice = part->slice;
    snprintf(node, sizeof node, "n_%u", part->via && !lost ? part->via->edge->node->number : 0);
    part->id = 0;
    log_debug("slice tool=%u request=%u place=%d state=%s", part->far->here.tool->id, part->far->id, slice->place,
              lost ? "lost" : "answered");
    if (lost)
        part_failed(part->far, part, OMIS_UNSPECIFIED_ERROR, lost);
    else if (!part_lacks_service(part->far, part, reply) &&
             merge_add(part->far->merge, reply, slice->actions, slice->action_count, span_str(node)) < 0)
        part_failed(part->far, part, OMIS_UNSPECIFIED_ERROR, "its monitor sent what is no reply to this");
    one_less(part->far);
}

static void here_reply(struct session *session, uint32_t id, bool last, bool droppable, struct span encoded)
{
    (void)id;
    (void)last;
    (void)droppable;
    struct far_request *far = (struct far_request *)session;
    if (!far->merge)
        buf_append(&far->whole, encoded.ptr, encoded.len);
    else if (far->home)
        merge_add(far->merge, encoded, far->home->actions, far->home->action_count, span_str("n_1"));
    far->home = NULL;
    one_less(far);
}

static void here_error(struct session *session, struct span encoded)
{
    struct session *asker = ((struct far_request *)session)->asker;
    asker->error(asker, encoded);
}

static void send_part(struct far_request *far, struct far_part *part)
{
    struct err err = {.text = "out of memory, or the node has gone meanwhile"};
    struct edge *edge = tree_edge(far->tree, part->slice->place);
    struct via *via = edge ? tree_via(far->here.tool, edge) : NULL;
    const struct buf *text = &part->slice->text;
    struct buf flags = BUF_INIT;
    buf_put_u32(&flags, far->flags & EXECUTE_CHAIN);
    part->far = far;
    part->via = via;
    part->id = via && !flags.failed ? via_request(via, FRAME_REQUEST, span_of(flags.data, flags.len),
                                                  span_of(text->data, text->len), VIA_ANSWER, part_reply, part, &err)
                                    : 0;
    buf_done(&flags);
    log_debug("slice tool=%u request=%u place=%d state=%s", far->here.tool->id, far->id, part->slice->place,
              part->id ? "sent" : "refused");
    if (part->id)
        return;
    part_failed(far, part, OMIS_UNSPECIFIED_ERROR, err.text);
    one_less(far);
}

/* Our own slice, unless somebody has locked this node. */
static void run_home(struct far_request *far)
{
    const struct monitor *monitor = far->tree->monitor;
    far->home_waits = monitor_blocks(monitor, far->asker) && monitor_blocks(monitor, &far->here);
    if (!far->home_waits)
        execute_request(&far->here, far->id, far->flags & EXECUTE_CHAIN,
                        span_of(far->home->text.data, far->home->text.len));
}

static void here_ready(struct session *session)
{
    struct far_request *far = (struct far_request *)session;
    if (far->home_waits)
        run_home(far);
}

/* Whether the home's actions stand before those of all others. */
static bool home_is_first(const struct phase *phase)
{
    if (!phase->slice_count || phase->slices[0].place != PLACE_HOME)
        return false;
    for (size_t i = 1; i < phase->slice_count; i++)
        if (phase->slices[i].actions[0] <= phase->slices[0].actions[0])
            return false;
    return true;
}

/* The others first: they work while we do. But what stands before all that they have to do is done before: what it changes in
 * conditional requests is told to their nodes then, before what follows. */
static void begin_phase(struct far_request *far)
{
    const struct phase *phase = &far->cut.phases[far->phase++];
    const struct slice *home = phase->slice_count && phase->slices[0].place == PLACE_HOME ? &phase->slices[0] : NULL;
    bool first = home_is_first(phase);
    far->waiting = 1 + (unsigned)phase->slice_count;
    far->part_count = 0;
    far->home = home;
    if (first)
        run_home(far);
    for (size_t i = home ? 1 : 0; i < phase->slice_count; i++) {
        struct far_part *part = &far->parts[far->part_count++];
        *part = (struct far_part){.slice = &phase->slices[i]};
        send_part(far, part);
    }
    if (home && !first)
        run_home(far);
    one_less(far);
}

/* ---- beginning ---- */

static void unknown_tokens(struct far_request *far)
{
    char why[TREE_NAME_SIZE + 320];
    struct token token;
    for (size_t i = 0; i < far->cut.unknown_count; i++) {
        struct span text = far->cut.unknown[i].token;
        const struct tree_node *node = token_parse(text, &token) ? tree_node(far->tree, token.node) : NULL;
        if (node)
            snprintf(why, sizeof why, "n_%u (%s) is gone: %s", node->number, node->name,
                     node->edge ? node->edge->why : node->why); /* its edge goes just now */
        else
            snprintf(why, sizeof why, "there is no object %.*s", SPAN_ARG(text));
        merge_fail(far->merge, &far->cut.unknown[i].action, 1, text, OMIS_UNKNOWN_OBJECT, span_str(why));
    }
}

/* Another place than this node that it concerns; PLACE_HOME: none. */
static int other_place(const struct cut *cut)
{
    for (size_t i = 0; i < cut->phase_count; i++)
        for (size_t k = 0; k < cut->phases[i].slice_count; k++)
            if (cut->phases[i].slices[k].place != PLACE_HOME)
                return cut->phases[i].slices[k].place;
    return PLACE_HOME;
}

/* The places that it concerns, ascending, in its arena; NULL: out of memory. */
static int *places_of(struct far_request *far, size_t *ret_count)
{
    size_t most = 0, count = 0;
    for (size_t i = 0; i < far->cut.phase_count; i++)
        most += far->cut.phases[i].slice_count;
    int *places = arena_alloc(&far->arena, (most + 1) * sizeof *places);
    for (size_t i = 0; places && i < far->cut.phase_count; i++)
        for (size_t k = 0; k < far->cut.phases[i].slice_count; k++) {
            size_t at = 0;
            int place = far->cut.phases[i].slices[k].place;
            while (at < count && places[at] < place)
                at++;
            if (at < count && places[at] == place)
                continue;
            memmove(&places[at + 1], &places[at], (count - at) * sizeof *places);
            places[at] = place;
            count++;
        }
    *ret_count = count;
    return places;
}

/* All places of a request in braces are locked, or why not: then nothing of it is executed. */
static void tree_locked(struct far_request *far, const char *why)
{
    if (!why) {
        begin_phase(far);
        return;
    }
    far->phase = far->cut.phase_count; /* nothing is executed; in braces all is cut */
    for (size_t action = 0; action < far->request.action_count; action++)
        merge_fail(far->merge, &action, 1, span_of("", 0), OMIS_UNSPECIFIED_ERROR, span_str(why));
    far->waiting = 1;
    one_less(far);
}

static bool locks_take(struct tree *tree, struct far_request *request, const int *places, size_t count);

static void phase_begin(struct far_request *far)
{
    size_t count = 0;
    unknown_tokens(far);
    int *places = far->request.locked ? places_of(far, &count) : NULL;
    far->locked = count > 1 && places;
    if (!far->locked || !locks_take(far->tree, far, places, count))
        begin_phase(far);
}

/* Cuts what it can of the rest, into the arena. 0 or -errno. */
static int cut_rest(struct far_request *far, struct arena *arena, const struct request *request,
                    struct service *const *services, size_t from)
{
    struct tool *tool = far->here.tool;
    struct slice_map map;
    struct cut result;
    size_t most = 1;
    int code = places_map(tool, arena, &map) ? cut_request(arena, request, services, from, &map, &result) : -ENOMEM;
    if (code < 0)
        return code;
    for (size_t i = 0; i < result.phase_count; i++)
        most = result.phases[i].slice_count > most ? result.phases[i].slice_count : most;
    far->parts = arena_alloc(arena, most * sizeof *far->parts);
    if (!far->parts) {
        cut_done(&result);
        return -ENOMEM;
    }
    cut_done(&far->cut);
    far->cut = result;
    far->phase = far->part_count = 0;
    return 0;
}

/* The next part, where an action has attached nodes. */
static void go_on(struct far_request *far)
{
    const struct request *request = &far->request;
    size_t from = far->cut.end, count = request->action_count;
    struct service **services = arena_alloc(&far->arena, count * sizeof(struct service *));
    bool found = services != NULL;
    for (size_t i = from; found && i < count; i++)
        found = (services[i] = registry_find(far->tree->monitor->registry, request->actions[i].name)) != NULL;
    int code = found ? cut_rest(far, &far->arena, request, services, from) : -ENOMEM;
    if (code == 0) {
        unknown_tokens(far);
        begin_phase(far);
        return;
    }
    for (size_t i = from; i < count; i++)
        merge_fail(far->merge, &i, 1, span_of("", 0), OMIS_UNSPECIFIED_ERROR,
                   span_str(code == -E2BIG ? TOO_LONG : "out of memory, or the service has gone meanwhile"));
    request_finish(far);
}

/* Cuts it, and takes the arena over. 1: it goes over nodes; 0: it does not; or -errno. */
static int request_cut(struct far_request *far, struct checked_request *request)
{
    int code = cut_rest(far, request->arena, request->request, request->services, 0);
    if (code < 0)
        return code;
    bool home_only =
        !other_place(&far->cut) && !far->cut.unknown_count && far->cut.end == request->request->action_count;
    if (home_only || merge_new(&far->merge, request->request->action_count) < 0) {
        cut_done(&far->cut);
        return home_only ? 0 : -ENOMEM;
    }
    far->request = *request->request;
    far->arena = *request->arena;
    *request->arena = ARENA_INIT;
    return 1;
}

static void request_refuse(struct session *session, uint32_t id, int code)
{
    if (code == -E2BIG)
        reply_status(session, id, true, OMIS_PARAMETER_ERROR, "%s", TOO_LONG);
    else
        reply_status(session, id, true, OMIS_NO_MEMORY, "out of memory");
}

/* Whoever asks is in our way until there is an answer, which other nodes would give later. true: it was refused. */
static bool refuse_waited_for(struct session *session, const struct checked_request *request)
{
    struct arena arena = ARENA_INIT;
    struct slice_map map;
    struct cut cut = {0};
    int code = places_map(session->tool, &arena, &map)
                   ? cut_request(&arena, request->request, request->services, 0, &map, &cut)
                   : -ENOMEM;
    const struct edge *edge = code == 0 ? tree_edge(session->tool->monitor->tree, other_place(&cut)) : NULL;
    if (code < 0)
        request_refuse(session, request->id, code);
    else if (edge)
        reply_status(session, request->id, true, OMIS_PARAMETER_ERROR,
                     "this request concerns node n_%u (%s): give it a callback, since nothing can wait here for other "
                     "nodes",
                     edge->node->number, edge->node->name);
    if (code == 0)
        cut_done(&cut);
    arena_done(&arena);
    return code < 0 || edge;
}

bool far_take(struct session *session, struct checked_request *request)
{
    bool asked = session->reply == here_reply; /* by tree_execute, or it is a slice of our own */
    struct far_request *far = asked ? (struct far_request *)session : NULL;
    if (request->event)
        return false; /* is made here, and has its parts (conditional.c) */
    if (far && far->merge)
        return false;
    if (!session->tool->spread && !places_mention_others(request->request) &&
        !places_grow(session->tool, request->request))
        return false;
    if (!session->ready)
        return refuse_waited_for(session, request);
    if (!far && !(far = far_new(session))) {
        request_refuse(session, request->id, -ENOMEM);
        return true;
    }
    far->here.reply = here_reply;
    far->here.error = here_error;
    far->here.ready = here_ready;
    far->id = request->id;
    far->flags = request->flags;
    int code = request_cut(far, request);
    if (code > 0) {
        if (!asked)
            session->away = far;
        phase_begin(far);
        return true;
    }
    if (code < 0)
        request_refuse(session, request->id, code);
    if (!asked)
        far_free(far);
    return code < 0;
}

struct far_request *tree_execute(struct session *session, const struct event_list *list, uint32_t flags,
                                 struct span text, far_reply_fn *fn, void *ctx)
{
    struct far_request *far = far_new(session);
    if (!far)
        return NULL;
    far->fn = fn;
    far->ctx = ctx;
    far->here.list = list;
    far->here.reply = here_reply;
    far->here.error = here_error;
    far->here.ready = here_ready;
    far->waiting = 1;
    execute_request(&far->here, 0, flags, text);
    return far;
}

/* ---- requests in braces ---- */

/*
 * Requests in braces over nodes: all nodes that they concern are locked, one after the other, in the order of their
 * instances. That order is the same everywhere, so nobody waits in a circle for who waits for them.
 */

/* ---- for other monitors' tools ---- */

/* This node for a session. */
struct served {
    struct lock_claim claim;
    uint32_t id;
    struct served *next;
};

static struct served *served;

static void lock_unserve(struct served *gone)
{
    struct served **at = &served;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    free(gone);
}

static void serve_granted(struct lock_claim *claim)
{
    const struct served *here = (struct served *)claim;
    claim->session->other(claim->session, FRAME_LOCK, here->id, span_of("", 0));
}

static void serve_lost(struct lock_claim *claim)
{
    struct served *here = (struct served *)claim;
    claim->session->other(claim->session, FRAME_UNLOCK, here->id, span_of("", 0));
    lock_unserve(here);
}

bool locks_asked(struct session *session, const struct frame *frame)
{
    struct served *here = served;
    while (here && (here->claim.session != session || here->id != frame->id))
        here = here->next;
    if (frame->type == FRAME_UNLOCK) {
        if (here) {
            lock_drop(&here->claim);
            lock_unserve(here);
        }
        return true;
    }
    if (frame->type != FRAME_LOCK || here)
        return false;
    here = calloc(1, sizeof *here);
    if (!here) {
        session->other(session, FRAME_UNLOCK, frame->id, span_of("", 0));
        return true;
    }
    here->claim = (struct lock_claim){.session = session, .granted = serve_granted, .lost = serve_lost};
    here->id = frame->id;
    here->next = served;
    served = here;
    lock_claim(&here->claim);
    return true;
}

/* ---- for our own tools ---- */

struct locking {
    struct lock_claim here; /* first */
    struct tree *tree;
    struct far_request *request;
    struct tool *tool;
    uint32_t id;
    int *places; /* in the order of their instances */
    size_t count, begun;
    bool waits;  /* for the last one that was begun */
    bool queued; /* another list of its tool has locked nodes: one after the other */
    struct loop_source *timer, *turn;
    struct locking *next;
};

static struct locking *all; /* in the order in which they came */

static const unsigned char *instance_of(struct tree *tree, int place)
{
    struct edge *edge = place ? tree_edge(tree, place) : NULL;
    const struct tree_node *node = edge ? edge->node : tree_node(tree, TREE_HERE);
    return node->instance;
}

static void places_sort(struct locking *locking)
{
    for (size_t i = 1; i < locking->count; i++)
        for (size_t k = i; k > 0 && memcmp(instance_of(locking->tree, locking->places[k - 1]),
                                           instance_of(locking->tree, locking->places[k]), TREE_INSTANCE_SIZE) > 0;
             k--) {
            int place = locking->places[k];
            locking->places[k] = locking->places[k - 1];
            locking->places[k - 1] = place;
        }
}

static struct via *via_of(const struct locking *locking, int place)
{
    struct edge *edge = tree_edge(locking->tree, place);
    return edge ? tree_find_via(locking->tool, edge) : NULL;
}

static void lock_go_on(void *ctx);

static void go_on_soon(struct locking *locking)
{
    locking->waits = false;
    if (!locking->turn)
        locking->turn = loop_add_deferred(locking->tool->monitor->loop, lock_go_on, locking);
}

static void give_back(struct locking *locking)
{
    for (size_t i = 0; i < locking->begun; i++) {
        struct via *via = locking->places[i] ? via_of(locking, locking->places[i]) : NULL;
        if (via)
            via_send(via, FRAME_UNLOCK, locking->id, span_of("", 0));
    }
    locking->begun = 0;
    lock_drop(&locking->here);
    loop_remove(locking->timer);
    locking->timer = NULL;
}

static void too_long(void *ctx)
{
    struct locking *locking = ctx;
    char why[160];
    int place = locking->begun ? locking->places[locking->begun - 1] : 0;
    const struct edge *edge = tree_edge(locking->tree, place);
    snprintf(why, sizeof why, "n_%u was locked by others for %d s: nothing was executed",
             edge ? edge->node->number : TREE_HERE, (int)(LOCK_LIMIT_NS / 1000000000));
    give_back(locking);
    tree_locked(locking->request, why);
}

/* The next place, or all are there. */
static void lock_go_on(void *ctx)
{
    struct locking *locking = ctx;
    locking->turn = NULL;
    while (!locking->waits && locking->begun < locking->count) {
        int place = locking->places[locking->begun];
        struct via *via = place ? via_of(locking, place) : NULL;
        locking->begun++;
        locking->waits = true;
        if (!place)
            lock_claim(&locking->here); /* granted may be called in it */
        else if (via)
            via_send(via, FRAME_LOCK, locking->id, span_of("", 0));
        else
            locking->waits = false; /* it went: its slice will fail */
    }
    if (locking->waits || locking->turn)
        return;
    loop_remove(locking->timer);
    locking->timer = NULL;
    monitor_enter(locking->tool->monitor);
    tree_locked(locking->request, NULL);
    monitor_leave(locking->tool->monitor);
}

static void here_granted(struct lock_claim *claim)
{
    go_on_soon((struct locking *)claim);
}

static void here_lost(struct lock_claim *claim)
{
    struct locking *locking = (struct locking *)claim;
    if (locking->waits)
        go_on_soon(locking);
}

static bool lock_begin(struct locking *locking)
{
    locking->queued = false;
    locking->timer = loop_add_timer(locking->tool->monitor->loop, time_hasten(LOCK_LIMIT_NS), 0, too_long, locking);
    go_on_soon(locking);
    return locking->timer && locking->turn;
}

static void begin_next(const struct tool *tool)
{
    struct locking *next = all;
    while (next && next->tool != tool)
        next = next->next;
    if (next && next->queued && !lock_begin(next))
        tree_locked(next->request, "out of memory");
}

static bool locks_take(struct tree *tree, struct far_request *request, const int *places, size_t count)
{
    static uint32_t last_id;
    struct locking *locking = calloc(1, sizeof *locking), **at = &all;
    if (locking)
        locking->places = malloc(count * sizeof *places);
    if (!locking || !locking->places) {
        free(locking);
        tree_locked(request, "out of memory");
        return true;
    }
    *locking = (struct locking){.here = {.session = &request->here, .granted = here_granted, .lost = here_lost},
                                .tree = tree,
                                .request = request,
                                .tool = request->here.tool,
                                .id = ++last_id,
                                .places = locking->places,
                                .count = count};
    memcpy(locking->places, places, count * sizeof *places);
    places_sort(locking);
    for (; *at; at = &(*at)->next)
        locking->queued |= (*at)->tool == locking->tool;
    *at = locking;
    if (!locking->queued && !lock_begin(locking))
        tree_locked(request, "out of memory");
    return true;
}

static void locks_give(struct tree *tree, struct far_request *request)
{
    (void)tree;
    struct locking **at = &all;
    while (*at && (*at)->request != request)
        at = &(*at)->next;
    struct locking *locking = *at;
    if (!locking)
        return;
    *at = locking->next;
    give_back(locking);
    loop_remove(locking->turn);
    begin_next(locking->tool);
    free(locking->places);
    free(locking);
}

/* ---- what the others say ---- */

bool locks_came(struct via *via, const struct frame *frame)
{
    struct locking *locking = all;
    while (locking && (locking->tool != via->tool || locking->id != frame->id || locking->queued))
        locking = locking->next;
    if (!locking || (frame->type != FRAME_LOCK && frame->type != FRAME_UNLOCK))
        return false;
    if (frame->type == FRAME_UNLOCK)
        log_warning("tool %u no longer has the lock of n_%u", locking->tool->id, via->edge->node->number);
    if (locking->waits && locking->begun && locking->places[locking->begun - 1] == via->edge->place)
        go_on_soon(locking);
    return true;
}

void locks_lost(struct via *via)
{
    for (struct locking *locking = all; locking; locking = locking->next)
        if (locking->tool == via->tool && locking->waits && locking->begun &&
            locking->places[locking->begun - 1] == via->edge->place)
            go_on_soon(locking);
}
