/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/csr.h"

#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "monitor/engine/execute.h"
#include "probe/cells.h"
#include "monitor/engine/event.h"

struct code_insn *lower_insn(struct scry_code *code, enum code_op op)
{
    struct code_program *program = &code->program;
    if (program->count == CODE_INSN_LIMIT)
        return NULL;
    struct code_insn *insn = &program->insns[program->count++];
    *insn = (struct code_insn){.op = (uint8_t)op};
    return insn;
}

/* ---- posts ---- */

enum { POSTS_AT_ONCE = 1000 }; /* raised before the monitor looks at anything else */

/* Raises at most `limit` of what one program posted; the number. */
static unsigned raise_posted(struct monitor *monitor, const struct csr_post *post, unsigned limit)
{
    code_cell *cell = cell_at(monitor->cells, post->cell);
    struct event event = {.service = registry_find(monitor->registry, span_str("user_event_has_been_raised")),
                          .object = post->object,
                          .time_ns = clock_now_ns(),
                          .outputs = post->params,
                          .output_count = post->param_count,
                          .first_par = 1};
    unsigned raised = 0;
    for (; raised < limit && !post->object->gone && atomic_load(cell) > 0; raised++) {
        atomic_fetch_sub(cell, 1);
        if (event_queue(monitor, &event) < 0)
            log_error("out of memory: an event %s is lost", post->object->token);
        event_run_queue(monitor);
    }
    return raised;
}

bool lower_posts_raise(struct monitor *monitor)
{
    unsigned left = POSTS_AT_ONCE;
    for (struct tool *tool = monitor->tools; tool && left; tool = tool->hh.next)
        for (struct scry_object *object = tool->owned, *next; object && left; object = next) {
            next = object->next_owned;
            if (!object_is(object, "c"))
                continue;
            /* the lists that run may delete this request, which stays in memory until we leave */
            for (const struct csr_post *post = ((struct csr *)object)->posts; post && left; post = post->next)
                left -= raise_posted(monitor, post, left);
            if (next && next->gone)
                break; /* the rest with the next call */
        }
    return left > 0;
}

static void posts_free(struct monitor *monitor, struct csr_post *posts)
{
    while (posts) {
        struct csr_post *next = posts->next;
        cell_free(monitor->cells, posts->cell);
        free(posts);
        posts = next;
    }
}

void lower_posts_free(struct csr *csr)
{
    posts_free(csr->object.monitor, csr->posts);
    csr->posts = NULL;
}

int lower_post(struct scry_code *code, struct scry_object *event, const struct value *params, size_t param_count)
{
    struct csr *csr = code->csr;
    struct monitor *monitor = csr->object.monitor;
    struct csr_post *post = NULL;
    if (!event_ops_of(csr->event_service)->posts)
        return -1;
    for (post = code->previous_posts; post;
         post = post->next) /* of the program before: keeps its cell, and what is in it */
        if (post->object == event && post->params == params)
            break;
    int cell = post ? post->cell : cell_new(monitor->cells);
    struct csr_post *added = cell < 0 ? NULL : calloc(1, sizeof *added);
    struct code_insn *insn = added ? lower_insn(code, CODE_POST) : NULL;
    if (!insn) {
        free(added);
        if (!post)
            cell_free(monitor->cells, cell);
        return -1;
    }
    if (post)
        post->cell = -1;
    insn->cell = (uint32_t)cell;
    *added = (struct csr_post){cell, event, params, param_count, csr->posts};
    csr->posts = added;
    return 0;
}

/* ---- programs ---- */

/* What comes before the list: whether the request is enabled, and the event's own condition. */
static bool lower_conditions(struct scry_code *code)
{
    struct csr *csr = code->csr;
    if (csr->gate >= 0) {
        struct code_insn *insn = lower_insn(code, CODE_UNLESS);
        if (!insn)
            return false;
        insn->operation = CODE_NE;
        insn->a_kind = CODE_CELL;
        insn->a = csr->gate;
    }
    return event_ops_of(csr->event_service)->lower(csr, code) == 0;
}

int lower_filter(struct csr *csr, struct code_program **ret_filter)
{
    struct scry_code *code = calloc(1, sizeof *code);
    if (!code)
        return -1;
    code->csr = csr;
    bool ok = lower_conditions(code) && code_check(&code->program, CODE_CELLS);
    struct code_program *filter = ok && code->program.count ? malloc(sizeof *filter) : NULL;
    ok = ok && (filter || !code->program.count);
    if (filter)
        *filter = code->program;
    free(code);
    if (ok)
        *ret_filter = filter;
    return ok ? 0 : -1;
}

/* [] means what there is when the event happens, which only the monitor knows. */
static bool names_objects(const struct service *service, const struct call_text *text)
{
    const struct value *arg = service->object_arg < 0 ? NULL : &text->args[service->object_arg];
    return !arg || arg->kind != VALUE_LIST || arg->list.count > 0;
}

/* Requests that this one enables and disables get their gates first, so that its own, if those turn it, is known when
 * it is compiled. */
static void make_gates(struct csr *csr)
{
    for (size_t i = 0; i < csr->request.action_count; i++) {
        const struct service *service = csr->actions[i];
        const char *name = service->row->name;
        if (strcmp(name, "csr_enable") != 0 && strcmp(name, "csr_disable") != 0)
            continue;
        const struct value *list = &csr->request.actions[i].args[service->object_arg];
        for (size_t k = 0; list->kind == VALUE_LIST && k < list->list.count; k++) {
            struct scry_object *object = object_find(csr->object.monitor, list->list.items[k].text);
            if (object && object_is(object, "c") && object->owner == csr->object.owner)
                csr_gate((struct csr *)object);
        }
    }
}

struct code_program *lower_csr(struct csr *csr)
{
    const struct event_ops *ops = event_ops_of(csr->event_service);
    if (!(csr->flags & OMIS_DONT_RETURN_OK) || csr->far || !ops || !ops->lower)
        return NULL;
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (!csr->actions[i]->row->lower || !names_objects(csr->actions[i], &csr->request.actions[i]))
            return NULL;
    make_gates(csr);
    struct scry_code *code = calloc(1, sizeof *code);
    struct code_program *program = NULL;
    if (!code)
        return NULL;
    code->csr = csr;
    code->previous_posts = csr->posts;
    csr->posts = NULL;
    struct execution execution = {
        .monitor = csr->object.monitor, .session = csr->session, .tool = csr->object.owner, .csr = csr};
    struct monitor *monitor = execution.monitor;
    execution.id = ++monitor->last_execution;
    execution.outer = monitor->running;
    monitor->running = &execution;
    monitor->nested += NESTED_LIMIT; /* an extension's request could change the requests that we are at */
    reply_begin(&execution.reply);
    bool ok = lower_conditions(code);
    for (size_t i = 0; ok && i < csr->request.action_count; i++) {
        const struct call_text *text = &csr->request.actions[i];
        struct scry_call call = {.monitor = execution.monitor,
                                 .session = csr->session,
                                 .tool = execution.tool,
                                 .service = csr->actions[i],
                                 .args = text->args,
                                 .argc = text->argc,
                                 .csr = csr,
                                 .execution = &execution,
                                 .arena = &execution.arena,
                                 .reply = &execution.reply};
        reply_service(&execution.reply);
        /* an action that would fail now is left to the monitor, which reports errors when the event happens */
        ok = convert_objects(&call) && call.answers == 0 && csr->actions[i]->row->lower(&call, code) == 0;
    }
    monitor->nested -= NESTED_LIMIT;
    monitor->running = execution.outer;
    if (ok && code_check(&code->program, CODE_CELLS)) {
        program = malloc(sizeof *program);
        if (program)
            *program = code->program;
    }
    if (!program)
        lower_posts_free(csr);
    posts_free(execution.monitor, code->previous_posts);
    arena_done(&execution.arena);
    reply_done(&execution.reply);
    free(code);
    return program;
}
