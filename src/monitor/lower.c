/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/lower.h"

#include <stdlib.h>
#include <string.h>

#include "monitor/call.h"
#include "monitor/convert.h"
#include "monitor/event.h"
#include "monitor/execute.h"

/* Only the tracer runs programs so far, and only at breakpoints. */
static bool event_can_run_programs(const struct csr *csr)
{
    return strcmp(csr->event_service->row->name, "thread_reached_addr") == 0;
}

/* [] means what there is when the event happens, which only the monitor knows. */
static bool names_objects(const struct service *service, const struct call_text *text)
{
    const struct value *arg = service->object_arg < 0 ? NULL : &text->args[service->object_arg];
    return !arg || arg->kind != VALUE_LIST || arg->list.count > 0;
}

struct code_program *lower_csr(struct csr *csr)
{
    if (!(csr->flags & OMIS_DONT_RETURN_OK) || !event_can_run_programs(csr))
        return NULL;
    for (size_t i = 0; i < csr->request.action_count; i++)
        if (!csr->actions[i]->row->lower || !names_objects(csr->actions[i], &csr->request.actions[i]))
            return NULL;
    struct scry_code *code = calloc(1, sizeof *code);
    struct code_program *program = NULL;
    if (!code)
        return NULL;
    code->csr = csr;
    struct execution execution = {
        .monitor = csr->object.monitor, .session = csr->session, .tool = csr->object.owner, .csr = csr};
    execution.id = ++execution.monitor->last_execution;
    reply_begin(&execution.reply);
    bool ok = true;
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
    if (ok && code_check(&code->program, CODE_CELLS)) {
        program = malloc(sizeof *program);
        if (program)
            *program = code->program;
    }
    arena_done(&execution.arena);
    reply_done(&execution.reply);
    free(code);
    return program;
}
