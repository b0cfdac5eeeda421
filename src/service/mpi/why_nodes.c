/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait-for graph over nodes: each looks at its own ranks (mpi_look), then all clocks are compared, since ranks wait at
 * the same moment only by one clock (jobdir/analysis/why_align.h). What nodes send is parsed as foreign bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/data/clock_offset.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/loop.h"
#include "jobdir/analysis/why_align.h"
#include "jobdir/text/text.h"
#include "lang/put.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/token.h"
#include "monitor/engine/call.h"
#include "monitor/tree/tree.h"
#include "service/mpi/why.h"

struct asked_node {
    struct why_node said;
    struct clock_offset clock;
};

struct asking {
    struct monitor *monitor;
    struct session *session;
    struct buf request;
    struct loop_source *turn;
    struct far_request *far;
    struct later *later;
    struct mpi_stats_set set; /* of all; its arena has all texts */
    struct asked_node *nodes;
    size_t count, room;
    uint64_t asked_ns;
    struct err err; /* nobody has answered */
};

static void asking_done(struct asking *asking)
{
    loop_remove(asking->turn);
    if (asking->far)
        tree_forget(asking->far);
    buf_done(&asking->request);
    mpi_stats_set_done(&asking->set);
    free(asking->nodes);
}

static void cancelled(void *ctx)
{
    asking_done(ctx);
}

/* ---- what nodes answer ---- */

static const char *keep(struct asking *asking, struct span text)
{
    _cleanup_(buf_done) struct buf copy = BUF_INIT;
    buf_append(&copy, text.ptr, text.len);
    const char *kept = copy.failed ? NULL : mpi_stats_set_text(&asking->set, copy.len ? copy.data : "");
    if (!kept)
        err_set(&asking->err, -ENOMEM, "out of memory");
    return kept ? kept : "";
}

static struct asked_node *find_node(const struct asking *asking, struct span token)
{
    for (size_t i = 0; i < asking->count; i++)
        if (span_is(token, asking->nodes[i].said.token))
            return &asking->nodes[i];
    return NULL;
}

static struct asked_node *add_node(struct asking *asking, struct span token)
{
    struct token parsed;
    const struct tree_node *node = token_parse(token, &parsed) ? tree_node(asking->monitor->tree, parsed.node) : NULL;
    if (!GROW(asking->nodes, asking->count, asking->room)) {
        err_set(&asking->err, -ENOMEM, "out of memory");
        return NULL;
    }
    struct asked_node *added = &asking->nodes[asking->count++];
    *added = (struct asked_node){
        .said = {.token = keep(asking, token), .name = keep(asking, span_str(node ? node->name : "")), .problem = ""}};
    return added;
}

static int take_record(struct asking *asking, struct why_node *node, struct span json, struct err *err)
{
    struct mpi_stats *stats = mpi_stats_set_next(&asking->set);
    if (!stats)
        return err_set(err, -ENOMEM, "out of memory");
    int code = mpi_stats_parse(stats, json.ptr, json.len, asking->set.arena, err);
    if (code < 0)
        return code;
    stats->dir = node->token;
    asking->set.count++;
    node->ranks += stats->running;
    if (stats->taken_wall_ns > node->taken_ns)
        node->taken_ns = stats->taken_wall_ns;
    return 0;
}

/* MPI_LOOKED */
static int take_records(struct asking *asking, struct why_node *node, struct span text, struct err *err)
{
    struct arena arena = ARENA_INIT;
    const struct value *values;
    size_t count;
    int code = values_parse(&arena, text, &values, &count, err);
    if (code == 0 && (count != 2 || values[0].kind != VALUE_STRING || values[1].kind != VALUE_LIST))
        code = err_set(err, -EBADMSG, "that is no answer of mpi_look");
    if (code == 0)
        node->name = keep(asking, values[0].text);
    for (size_t i = 0; code == 0 && i < values[1].list.count; i++) {
        const struct value *record = &values[1].list.items[i];
        code = record->kind == VALUE_STRING ? take_record(asking, node, record->text, err)
                                            : err_set(err, -EBADMSG, "record %zu is no text", i);
    }
    arena_done(&arena);
    return code;
}

static void take_looked(struct asking *asking, struct span token, const struct reply_part *part)
{
    struct asked_node *node = add_node(asking, token);
    struct err err = {0};
    if (!node)
        return;
    if (part->status >= OMIS_FIRST_ERROR)
        node->said.problem = keep(asking, part->has_text ? part->text : span_str(omis_status_name(part->status)));
    else if (take_records(asking, &node->said, part->text, &err) < 0)
        node->said.problem = keep(asking, span_str(err.text));
}

/* NODE_CLOCK_RESULT */
static void take_clock(struct asking *asking, struct span token, const struct reply_part *part)
{
    struct asked_node *node = find_node(asking, token);
    struct arena arena = ARENA_INIT;
    const struct value *values;
    size_t count;
    if (node && part->status < OMIS_FIRST_ERROR && values_parse(&arena, part->text, &values, &count, NULL) == 0 &&
        count == 2 && values[1].kind == VALUE_INTEGER) {
        uint64_t there_ns = values[1].integer.bits;
        clock_offset_add(&node->clock, asking->asked_ns, there_ns, there_ns, clock_wall_ns());
    }
    arena_done(&arena);
}

/* Each object with its result; what was refused as a whole becomes err. */
static void take_results(struct asking *asking, struct span reply,
                         void (*take)(struct asking *asking, struct span token, const struct reply_part *part))
{
    struct reply_reader reader;
    bool whole = true;
    if (!reply_read_begin(&reader, reply))
        return;
    for (uint32_t i = 0; i < reader.service_count; i++, whole = false)
        for (uint32_t left = reply_read_service(&reader); left; left--) {
            struct reply_part part = reply_read_part(&reader);
            struct span rest = part.objects;
            if (part.status >= OMIS_FIRST_ERROR && (whole || !rest.len))
                err_set(&asking->err, -EIO, "%.*s", SPAN_ARG(part.text));
            while (!whole && rest.len) {
                const char *comma = memchr(rest.ptr, ',', rest.len);
                struct span token = span_of(rest.ptr, comma ? (size_t)(comma - rest.ptr) : rest.len);
                take(asking, token, &part);
                size_t used = token.len + (comma != NULL);
                rest = span_of(rest.ptr + used, rest.len - used);
            }
        }
}

/* ---- the answer ---- */

/* Takes all times to this node's clock, and notes what is missing. *ret_apart_ns: how far they may be off each other. */
static int align(struct asking *asking, struct buf *note, uint64_t *ret_apart_ns)
{
    _cleanup_(freep) struct mpi_why_part *parts = calloc(asking->count + 1, sizeof *parts);
    size_t count = 0;
    for (size_t i = 0; parts && i < asking->count; i++) {
        const struct asked_node *node = &asking->nodes[i];
        struct token token;
        if (*node->said.problem) {
            buf_puts(note, note->len ? "; node " : "node ");
            text_show(note, node->said.name);
            buf_puts(note, " has not answered: ");
            text_show(note, node->said.problem);
        }
        if (!node->said.ranks)
            continue;
        struct mpi_why_part *part = &parts[count++];
        *part = (struct mpi_why_part){.dir = node->said.token, .node = node->said.name};
        bool here = token_parse(span_str(node->said.token), &token) && token.node == TREE_HERE;
        if (!here && !clock_offset_now(&node->clock, clock_wall_ns(), &part->offset_ns, &part->bound_ns))
            part->bound_ns = UINT64_MAX / 4; /* it is gone by now: its ranks wait at no known time */
    }
    *ret_apart_ns = parts ? mpi_why_align(&asking->set, parts, count, 0, false, note) : 0;
    return parts && !note->failed ? 0 : -ENOMEM;
}

static int put_answer(struct asking *asking, struct buf *text)
{
    _cleanup_(buf_done) struct buf note = BUF_INIT;
    _cleanup_(freep) struct why_node *nodes = calloc(asking->count + 1, sizeof *nodes);
    struct arena arena = ARENA_INIT;
    struct mpi_why_options options = {0};
    struct mpi_why why;
    mpi_stats_set_sort(&asking->set);
    mpi_stats_set_forget_ended(&asking->set);
    int code = nodes ? align(asking, &note, &options.apart_ns) : -ENOMEM;
    for (size_t i = 0; nodes && i < asking->count; i++)
        nodes[i] = asking->nodes[i].said;
    if (code == 0)
        code = mpi_why_find(&why, &asking->set, &options, &arena);
    if (code == 0)
        why_put(text, &why, note.len ? note.data : "", nodes, asking->count);
    arena_done(&arena);
    return code;
}

static void answer(struct asking *asking)
{
    struct later *later = asking->later;
    struct scry_call *call = call_later_begin(later);
    struct buf text = BUF_INIT;
    int code = asking->err.code ? asking->err.code : put_answer(asking, &text);
    if (code < 0)
        call_fail_errno(call, NULL, code, &asking->err);
    else
        call_text(call, NULL, &text);
    buf_done(&text);
    asking_done(asking);
    call_later_end(later, true);
}

/* ---- the questions ---- */

static void ask(struct asking *asking, far_reply_fn *fn)
{
    asking->asked_ns = clock_wall_ns();
    asking->far =
        tree_execute(asking->session, NULL, 0, span_of(asking->request.data, asking->request.len), fn, asking);
    if (asking->far)
        return;
    err_set(&asking->err, -ENOMEM, "out of memory");
    answer(asking);
}

static void clocks_came(void *ctx, struct span reply)
{
    struct asking *asking = ctx;
    asking->far = NULL;
    take_results(asking, reply, take_clock);
    asking->err = (struct err){0}; /* whose clock is not known has no ranks that wait at a known time */
    answer(asking);
}

static void looks_came(void *ctx, struct span reply)
{
    struct asking *asking = ctx;
    asking->far = NULL;
    take_results(asking, reply, take_looked);
    buf_clear(&asking->request);
    buf_puts(&asking->request, ":scry_node_get_clock([])");
    if (asking->err.code || asking->request.failed)
        answer(asking);
    else
        ask(asking, clocks_came);
}

static void begin(void *ctx)
{
    struct asking *asking = ctx;
    asking->turn = NULL;
    ask(asking, looks_came);
}

void why_over_nodes(struct scry_call *call, struct span job, bool record)
{
    struct asking *asking = arena_zalloc(call->arena, 1, sizeof *asking);
    if (!asking) {
        call_fail_errno(call, NULL, -ENOMEM, NULL);
        return;
    }
    *asking = (struct asking){.monitor = call->monitor, .session = call->session};
    buf_puts(&asking->request, ":mpi_look([]");
    PUT(&asking->request, value_string(job), record);
    buf_putc(&asking->request, ')');
    asking->later = asking->request.failed ? NULL : call_later(call, cancelled, asking);
    if (asking->later)
        asking->turn = loop_add_deferred(call->monitor->loop, begin, asking); /* this list is executed now */
    if (asking->turn)
        return;
    if (asking->later) {
        err_set(&asking->err, -ENOMEM, "out of memory");
        answer(asking);
        return;
    }
    asking_done(asking);
    call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
              "unsupported: mpi_get_wait_graph asks other nodes, which takes a while: not in braces, nor for an event");
}
