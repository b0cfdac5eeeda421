/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_get_wait_graph: why the ranks of a job do not move (jobdir/analysis/why.h). Those of this node are looked at here;
 * all nodes of the tool look at theirs (mpi_look), and what they saw is joined.
 */
#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/loop.h"
#include "jobdir/analysis/why.h"
#include "jobdir/mpi/look.h"
#include "jobdir/text/text.h"
#include "lang/value.h"
#include "lang/reply.h"
#include "lang/request.h"
#include "lang/token.h"
#include "monitor/engine/event.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/mpi/mpi.h"
#include "monitor/tree/tree.h"
#include "service/ct/ct.h"
#include "service/mpi/mpi.h"
#include "shm/waits.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A node that was to look at its ranks. Texts are the caller's. */
struct why_node {
    const char *token, *name;
    uint64_t ranks, taken_ns; /* that run there; when the last one was looked at, by the node's wall clock */
    const char *problem;      /* it has not answered; "" */
};

static void why_over_nodes(struct scry_call *call, struct span job, bool record);

/*
 * mpi_get_wait_graph and mpi_look: the ranks of this node are sampled twice, with some time between
 * (jobdir/mpi/look.h). The first one analyses them (jobdir/analysis/why.h), the second one hands them out, for the
 * graph over nodes. `scry why` runs the same analysis on the record of the samples.
 */

enum { LOOKS = 3 /* at most, until it is known who stopped each stopped thread */ };

struct question {
    struct monitor *monitor;
    const char *dir;                  /* NULL: all jobs */
    bool record;                      /* write what is seen */
    struct scry_object *node;         /* mpi_look: that is answered for; NULL: the graph is asked for */
    struct mpi_stats_set before, set; /* the ranks in the first and the second sample */
    struct mpi_look *look;
    unsigned looks;
    bool failed; /* out of memory */
    struct loop_source *timer;
    struct later *later;
};

/* ---- the looks ---- */

static void gather_living(void *ctx, struct mpi_process *process)
{
    struct question *question = ctx;
    struct mpi_stats *stats = mpi_stats_set_next(&question->set);
    struct err err;
    question->failed |= !stats;
    if (stats && mpi_process_snapshot(process, stats, question->set.arena, &err) == 0 && stats->rank >= 0)
        question->set.count++;
}

static void gather_past(void *ctx, const struct mpi_past *past)
{
    struct question *question = ctx;
    struct mpi_stats_set *set = &question->set;
    for (size_t i = 0; i < set->count; i++) /* it has executed another program, and goes on */
        if (set->ranks[i].rank == past->rank && strcmp(set->ranks[i].namespace, past->namespace) == 0)
            return;
    struct mpi_stats *stats = mpi_stats_set_next(set);
    const char *namespace = stats ? arena_dup(set->arena, past->namespace, strlen(past->namespace)) : NULL;
    question->failed |= !namespace;
    if (!namespace)
        return;
    *stats = (struct mpi_stats){.name = "",
                                .node = "",
                                .exe = "",
                                .processor = "",
                                .library = "",
                                .library_version = "",
                                .namespace = namespace,
                                .fault = "",
                                .pid = past->pid,
                                .rank = past->rank,
                                .world_size = past->size,
                                .state = past->state,
                                .aborted = past->aborted,
                                .abort_code = past->abort_code,
                                .status_known = past->status_known,
                                .status = past->status};
    set->count++;
}

static void look_at_job(void *ctx, const char *dir)
{
    struct question *question = ctx;
    mpi_process_each(question->monitor->mpi, dir, gather_living, question);
}

static void look_back_at_job(void *ctx, const char *dir)
{
    struct question *question = ctx;
    mpi_past_each(question->monitor->mpi, dir, gather_past, question);
}

/* The first sample. */
static void look_begin(struct question *question)
{
    if (!question->looks++)
        mpi_job_each(question->monitor, question->dir, look_at_job, question);
    mpi_stats_set_done(&question->before);
    question->before = question->set;
    question->set = (struct mpi_stats_set){0};
    question->failed |= mpi_look_begin(&question->look, &question->before) < 0;
}

/* The second sample. true: another one may show more. */
static bool look_end(struct question *question, bool at_once)
{
    mpi_job_each(question->monitor, question->dir, look_at_job, question);
    if (question->failed)
        return false;
    if (at_once) {
        mpi_look_end_at_once(question->look, &question->set);
    } else {
        mpi_polls_find(&question->set, &question->before);
        mpi_look_end(question->look, &question->set);
    }
    question->look = NULL;
    return !at_once && question->looks < LOOKS && mpi_look_is_unsaid(&question->set);
}

struct flush {
    struct monitor *monitor;
    struct err *err;
    int code;
};

static void flush_job(void *ctx, const char *dir)
{
    struct flush *flush = ctx;
    flush->code = flush->code == 0 ? mpi_job_flush(flush->monitor->mpi, dir, false, flush->err) : flush->code;
}

static int look_record(struct question *question, struct err *err)
{
    struct flush flush = {question->monitor, err, 0};
    int code = 0;
    for (size_t i = 0; i < question->set.count && code == 0; i++) {
        struct mpi_stats *stats = &question->set.ranks[i];
        struct mpi_process *process = mpi_process_find(question->monitor->mpi, stats->pid);
        stats->distribution_count = 0; /* not needed for waiting */
        if (process && *mpi_process_job(process))
            code = mpi_process_record(process, stats, err);
    }
    if (code == 0)
        mpi_job_each(question->monitor, question->dir, flush_job, &flush);
    return code == 0 ? flush.code : code;
}

/* All that is known of the ranks, also of those that have ended. */
static int look_complete(struct question *question)
{
    mpi_job_each(question->monitor, question->dir, look_back_at_job, question);
    mpi_stats_set_sort(&question->set);
    return question->failed ? -ENOMEM : 0;
}

static int why_conclude(struct question *question, struct mpi_why *ret_why, struct arena *arena)
{
    int code = look_complete(question);
    mpi_stats_set_forget_ended(&question->set);
    return code < 0 ? code : mpi_why_find(ret_why, &question->set, NULL, arena);
}

static void question_done(struct question *question)
{
    loop_remove(question->timer);
    mpi_look_end(question->look, NULL);
    mpi_stats_set_done(&question->before);
    mpi_stats_set_done(&question->set);
}

/* The first rank outside of MPI of those for which others wait, or that waits there for itself; 0: there is none. */
static pid_t late_of(const struct mpi_why *why)
{
    const struct mpi_why_finding *finding = why->finding_count ? &why->findings[0] : NULL;
    const struct mpi_why_rank *rank = finding && finding->rank_count ? &why->ranks[finding->ranks[0]] : NULL;
    bool late = rank && ((finding->kind == MPI_WHY_STRAGGLER && rank->state == MPI_WHY_COMPUTES) ||
                         (rank->circle_count && rank->state == MPI_WHY_BLOCKED));
    return late ? rank->stats->pid : 0;
}

/* Why the ranks of a job (directory; NULL: all) do not move, from one moment, for callers that cannot wait; and the
 * first finding, in a line. 0 or -ENOMEM. */
static int mpi_job_why_text(struct monitor *monitor, const char *dir, struct buf *out, struct buf *line,
                            pid_t *ret_late)
{
    struct question question = {.monitor = monitor, .dir = dir};
    struct arena arena = ARENA_INIT;
    struct mpi_why why;
    look_begin(&question);
    look_end(&question, true);
    int code = why_conclude(&question, &why, &arena);
    if (code == 0) {
        mpi_why_text(out, &why);
        mpi_why_line(line, &why);
        *ret_late = late_of(&why);
    }
    question_done(&question);
    arena_done(&arena);
    return code;
}

/* ---- the answer ---- */

static void put_indices(struct buf *text, const uint32_t *indices, size_t count)
{
    put_list(text);
    for (size_t i = 0; i < count; i++)
        PUT(text, indices[i]);
    put_end(text);
}

static void put_waits(struct buf *text, const struct mpi_why *why, size_t index)
{
    const struct mpi_why_rank *rank = &why->ranks[index];
    for (size_t i = 0; i < rank->thread_count; i++)
        for (size_t k = 0; k < rank->threads[i].condition_count; k++) {
            const struct mpi_why_condition *condition = &rank->threads[i].conditions[k];
            PUT(text, index, rank->threads[i].thread ? rank->threads[i].thread->tid : 0,
                mpi_why_reason_name(condition->reason), call_info(condition->call)->name, condition->peer,
                condition->tag, condition->maybe);
            put_indices(text, condition->for_ranks, condition->for_count);
        }
}

/* The result of mpi_get_wait_graph; `note`: for people, what is missing; "". */
static void why_put(struct buf *text, const struct mpi_why *why, const char *note, const struct why_node *nodes,
                    size_t count)
{
    PUT(text, why->still_ns);
    put_list(text);
    for (size_t i = 0; i < why->count; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        PUT(text, i, rank->stats->namespace, rank->stats->rank, rank->stats->pid, mpi_why_state_name(rank->state),
            rank->stuck, rank->root == MPI_WHY_NONE ? -1 : (int64_t)rank->root);
    }
    put_end(text);
    put_list(text);
    for (size_t i = 0; i < why->count; i++)
        put_waits(text, why, i);
    put_end(text);
    put_list(text);
    for (size_t i = 0; i < why->finding_count; i++) {
        const struct mpi_why_finding *finding = &why->findings[i];
        PUT(text, mpi_why_kind_name(finding->kind));
        put_indices(text, finding->ranks, finding->rank_count);
        put_indices(text, finding->victims, finding->victim_count);
        PUT(text, finding->text);
    }
    put_end(text);
    struct buf people = BUF_INIT;
    mpi_why_text(&people, why);
    if (*note)
        buf_printf(&people, "\nnote: %s\n", note);
    put_buf(text, &people);
    buf_done(&people);
    put_list(text);
    for (size_t i = 0; i < count; i++)
        PUT(text, value_token(span_str(nodes[i].token)), nodes[i].name, nodes[i].ranks, nodes[i].taken_ns,
            nodes[i].problem);
    put_end(text);
}

static int put_graph(struct question *question, struct buf *text)
{
    struct arena arena = ARENA_INIT;
    struct mpi_why why;
    const struct node *here = question->monitor->node;
    struct why_node node = {.token = here->object.token, .name = here->name, .problem = ""};
    int code = why_conclude(question, &why, &arena);
    for (size_t i = 0; code == 0 && i < question->set.count; i++) {
        const struct mpi_stats *stats = &question->set.ranks[i];
        node.ranks += stats->running;
        node.taken_ns = stats->taken_wall_ns > node.taken_ns ? stats->taken_wall_ns : node.taken_ns;
    }
    if (code == 0)
        why_put(text, &why, "", &node, 1);
    arena_done(&arena);
    return code;
}

/* MPI_LOOKED: what the files of the ranks have, but for what no graph needs. */
static int put_looked(struct question *question, struct buf *text)
{
    int code = look_complete(question);
    PUT(text, question->monitor->node->name);
    put_list(text);
    for (size_t i = 0; code == 0 && i < question->set.count; i++) {
        struct mpi_stats stats = question->set.ranks[i];
        struct buf json = BUF_INIT;
        stats.row_count = stats.span_count = stats.site_count = 0;
        mpi_stats_print(&stats, &json);
        put_buf(text, &json);
        buf_done(&json);
    }
    put_end(text);
    return code;
}

static void why_answer(struct question *question, struct scry_call *call)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    int code = question->failed ? -ENOMEM : question->record ? look_record(question, &err) : 0;
    if (code == 0)
        code = question->node ? put_looked(question, &text) : put_graph(question, &text);
    if (code < 0)
        call_fail_errno(call, question->node, code, &err);
    else
        call_text(call, question->node, &text);
    buf_done(&text);
    question_done(question);
}

static void on_timer(void *ctx)
{
    struct question *question = ctx;
    if (mpi_look_goes_on(question->look))
        return;
    if (look_end(question, false))
        look_begin(question);
    if (question->look)
        return;
    struct later *later = question->later;
    why_answer(question, call_later_begin(later));
    call_later_end(later, true);
}

static void why_cancelled(void *ctx)
{
    question_done(ctx);
}

static void why_begin(struct scry_call *call, const struct question *what)
{
    const uint64_t look_ns = wait_policies[WAIT_RANKS].look_ms * WAITS_NS_PER_MS;
    struct question *question = arena_zalloc(call->arena, 1, sizeof *question);
    const char *dir = arena_dup(call->arena, what->dir, strlen(what->dir));
    if (!question || !dir) {
        call_fail_errno(call, what->node, -ENOMEM, NULL);
        return;
    }
    *question = *what;
    question->monitor = call->monitor;
    question->dir = *dir ? dir : NULL;
    look_begin(question);
    if (question->before.count && !question->failed)
        question->timer = loop_add_timer(call->monitor->loop, look_ns, look_ns, on_timer, question);
    question->later = question->timer ? call_later(call, why_cancelled, question) : NULL;
    if (question->later)
        return;
    look_end(question, true);
    why_answer(question, call);
}

void mpi_get_wait_graph(struct scry_call *call)
{
    const struct span name = call->args[0].text;
    const char *dir = call->tool->spread ? job_directory(call->monitor, name) : mpi_job_named(call);
    bool record = call_unsigned(call, 1);
    if (call->tool->spread)
        why_over_nodes(call, dir ? span_str(dir) : name, record);
    else if (dir)
        why_begin(call, &(struct question){.dir = dir, .record = record});
}

/* A monitor has one node, and a job one part there. */
void mpi_look(struct scry_call *call)
{
    const struct span name = call->args[1].text;
    const char *dir = name.len ? mpi_job_part(call->monitor, name) : "";
    if (!call->object_count)
        return;
    if (!dir && name.ptr[0] == '/' && !(dir = call_string(call, 1))) /* its scry run is gone */
        return;
    if (dir) {
        why_begin(call, &(struct question){.dir = dir, .record = call_unsigned(call, 2), .node = call->objects[0]});
        return;
    }
    struct buf text = BUF_INIT;
    PUT(&text, call->monitor->node->name);
    put_list(&text);
    put_end(&text);
    call_text(call, call->objects[0], &text);
    buf_done(&text);
}

/*
 * The wait-for graph over nodes: each looks at its own ranks (mpi_look), then all clocks are compared, since ranks wait at
 * the same moment only by one clock (jobdir/analysis/why.h). What nodes send is parsed as foreign bytes.
 */

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

static void asking_cancelled(void *ctx)
{
    asking_done(ctx);
}

/* ---- what nodes answer ---- */

static const char *look_keep(struct asking *asking, struct span text)
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
    *added = (struct asked_node){.said = {.token = look_keep(asking, token),
                                          .name = look_keep(asking, span_str(node ? node->name : "")),
                                          .problem = ""}};
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
        node->name = look_keep(asking, values[0].text);
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
        node->said.problem = look_keep(asking, part->has_text ? part->text : span_str(omis_status_name(part->status)));
    else if (take_records(asking, &node->said, part->text, &err) < 0)
        node->said.problem = look_keep(asking, span_str(err.text));
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
static int looks_align(struct asking *asking, struct buf *note, uint64_t *ret_apart_ns)
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
    int code = nodes ? looks_align(asking, &note, &options.apart_ns) : -ENOMEM;
    for (size_t i = 0; nodes && i < asking->count; i++)
        nodes[i] = asking->nodes[i].said;
    if (code == 0)
        code = mpi_why_find(&why, &asking->set, &options, &arena);
    if (code == 0)
        why_put(text, &why, note.len ? note.data : "", nodes, asking->count);
    arena_done(&arena);
    return code;
}

static void asking_answer(struct asking *asking)
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

static void ranks_ask(struct asking *asking, far_reply_fn *fn)
{
    asking->asked_ns = clock_wall_ns();
    asking->far =
        tree_execute(asking->session, NULL, 0, span_of(asking->request.data, asking->request.len), fn, asking);
    if (asking->far)
        return;
    err_set(&asking->err, -ENOMEM, "out of memory");
    asking_answer(asking);
}

static void clocks_came(void *ctx, struct span reply)
{
    struct asking *asking = ctx;
    asking->far = NULL;
    take_results(asking, reply, take_clock);
    asking->err = (struct err){0}; /* whose clock is not known has no ranks that wait at a known time */
    asking_answer(asking);
}

static void looks_came(void *ctx, struct span reply)
{
    struct asking *asking = ctx;
    asking->far = NULL;
    take_results(asking, reply, take_looked);
    buf_clear(&asking->request);
    buf_puts(&asking->request, ":scry_node_get_clock([])");
    if (asking->err.code || asking->request.failed)
        asking_answer(asking);
    else
        ranks_ask(asking, clocks_came);
}

static void asking_begin(void *ctx)
{
    struct asking *asking = ctx;
    asking->turn = NULL;
    ranks_ask(asking, looks_came);
}

/* Answers later, of all nodes that the tool has. `job`: as mpi_look takes it. record: each node writes what it sees. */
static void why_over_nodes(struct scry_call *call, struct span job, bool record)
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
    asking->later = asking->request.failed ? NULL : call_later(call, asking_cancelled, asking);
    if (asking->later)
        asking->turn = loop_add_deferred(call->monitor->loop, asking_begin, asking); /* this list is executed now */
    if (asking->turn)
        return;
    if (asking->later) {
        err_set(&asking->err, -ENOMEM, "out of memory");
        asking_answer(asking);
        return;
    }
    asking_done(asking);
    call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
              "unsupported: mpi_get_wait_graph asks other nodes, which takes a while: not in braces, nor for an event");
}

/*
 * The event mpi_job_has_stalled: for some seconds no rank of a job on this node has begun or ended an MPI call, and at
 * least one is in a call. Reported once for each stall. Without a request nothing is checked.
 */

/* Pure: the samples and the clock are the caller's. */
struct mpi_stall_look {
    uint64_t mark; /* changes with each call that a rank begins or ends */
    unsigned ranks, in_call;
};

struct mpi_stall {
    uint64_t limit_ns;
    uint64_t mark, since_ns; /* since when nothing has changed, CLOCK_MONOTONIC; at first 0 */
    bool said;               /* this stall was reported */
};

/* true: it has stood still for limit_ns, and that was not reported yet. */
static bool mpi_stall_begins(struct mpi_stall *stall, const struct mpi_stall_look *look, uint64_t now_ns)
{
    if (look->mark != stall->mark || !look->in_call || !stall->since_ns) {
        stall->mark = look->mark;
        stall->since_ns = now_ns;
        stall->said = false;
    }
    if (stall->said || now_ns - stall->since_ns < stall->limit_ns)
        return false;
    stall->said = true;
    return true;
}

enum { STALL_LOOKS = 12 /* in the requested time */ };

enum { OUT_JOB, OUT_SECONDS, OUT_RANKS, OUT_TEXT, OUT_FINDING, OUT_LATE, OUTPUTS };

struct stall { /* csr->event_data */
    struct mpi_stall judged;
    bool telling; /* the event is being raised for this request */
};

static void look_at(void *ctx, struct mpi_process *process)
{
    struct mpi_stall_look *look = ctx;
    bool in_call;
    look->mark = look->mark * 1000003 + mpi_process_mark(process, &in_call) + (uint64_t)mpi_process_pid(process);
    look->ranks++;
    look->in_call += in_call;
}

static void stall_tell(struct monitor *monitor, const char *dir, struct stall *stall, unsigned ranks, uint64_t since_ns)
{
    struct buf text = BUF_INIT, finding = BUF_INIT;
    pid_t late = 0;
    mpi_job_why_text(monitor, dir, &text, &finding, &late);
    uint64_t now = clock_now_ns();
    struct value outputs[OUTPUTS] = {value_string(span_str(dir ? dir : "")),
                                     value_floating((double)(now - since_ns) / 1e9),
                                     value_uint(ranks),
                                     value_string(span_of(text.data ? text.data : "", text.len)),
                                     value_string(span_of(finding.data ? finding.data : "", finding.len)),
                                     value_uint((uint64_t)late)};
    struct event event = {.service = registry_find(monitor->registry, span_str("mpi_job_has_stalled")),
                          .time_ns = now,
                          .outputs = outputs,
                          .output_count = OUTPUTS};
    stall->telling = true;
    monitor_enter(monitor);
    event_raise(monitor, &event);
    stall->telling = false;
    monitor_leave(monitor);
    buf_done(&text);
    buf_done(&finding);
}

/* The directory of the job; "" for all; NULL: nobody follows it (yet). */
static const char *job_of(const struct csr *csr)
{
    struct span name = csr->event_args[0].text;
    return name.len ? job_directory(csr->object.monitor, name) : "";
}

/* true: the event was raised, and the list of requests may have changed. */
static bool stall_check(struct csr *csr)
{
    struct monitor *monitor = csr->object.monitor;
    struct stall *stall = csr->event_data;
    struct mpi_stall_look look = {0};
    const char *dir = job_of(csr);
    if (!dir)
        return false;
    mpi_process_each(monitor->mpi, *dir ? dir : NULL, look_at, &look);
    if (!mpi_stall_begins(&stall->judged, &look, clock_now_ns()))
        return false;
    stall_tell(monitor, *dir ? dir : NULL, stall, look.ranks, stall->judged.since_ns);
    return true;
}

/* Is there a request, enabled or not? */
static bool is_asked(struct monitor *monitor, const struct service *service)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, "c") && ((struct csr *)object)->event_service == service)
            return true;
    return false;
}

static bool look_around(void *ctx)
{
    struct monitor *monitor = ctx;
    struct service *service = registry_find(monitor->registry, span_str("mpi_job_has_stalled"));
    for (struct csr *csr = service->enabled; csr; csr = csr->next_enabled)
        if (stall_check(csr)) /* go on with the others the next time */
            break;
    return is_asked(monitor, service);
}

static Omis_status stall_define(struct csr *csr, struct err *err)
{
    struct monitor *monitor = csr->object.monitor;
    double seconds = csr->event_args[1].floating.number;
    struct stall *stall = arena_zalloc(&csr->arena, 1, sizeof *stall);
    if (!stall)
        return OMIS_NO_MEMORY;
    if (!(seconds >= STALL_LEAST_S && seconds <= STALL_MOST_S)) {
        err_set(err, -EINVAL, "seconds: expected a number from %g to %d", STALL_LEAST_S, STALL_MOST_S);
        return OMIS_PARAMETER_ERROR;
    }
    if (!monitor->mpi) {
        err_set(err, -EOPNOTSUPP, "this monitor watches no MPI programs");
        return OMIS_UNSUPPORTED_SERVICE;
    }
    stall->judged.limit_ns = (uint64_t)(seconds * 1e9);
    csr->event_data = stall;
    return mpi_watch(monitor->mpi, stall->judged.limit_ns / STALL_LOOKS, look_around, monitor) < 0 ? OMIS_NO_MEMORY
                                                                                                   : OMIS_OK;
}

static bool stall_match(const struct csr *csr, const struct event *event)
{
    return ((const struct stall *)csr->event_data)->telling;
}

const struct event_ops mpi_stalled_ops = {.define = stall_define, .match = stall_match};
