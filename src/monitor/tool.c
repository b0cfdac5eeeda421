/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "lang/reply.h"
#include "monitor/csr.h"
#include "monitor/execute.h"
#include "monitor/monitor.h"
#include "monitor/process.h"

struct tool *tool_join(struct monitor *monitor, uint32_t id)
{
    struct tool *tool = NULL;
    if (id) {
        HASH_FIND(hh, monitor->tools, &id, sizeof id, tool);
        if (tool)
            tool->sessions++;
        return tool;
    }
    tool = calloc(1, sizeof *tool);
    if (!tool)
        return NULL;
    tool->id = ++monitor->last_tool_id;
    tool->monitor = monitor;
    tool->sessions = 1;
    HASH_ADD(hh, monitor->tools, id, sizeof tool->id, tool);
    return tool;
}

static void drop_csrs(struct tool *tool, const struct session *session)
{
    for (struct scry_object *object = tool->owned, *next; object; object = next) {
        next = object->next_owned;
        if (object_is(object, "c") && (!session || ((struct csr *)object)->session == session))
            csr_drop((struct csr *)object);
    }
}

void tool_leave(struct session *session)
{
    struct tool *tool = session->tool;
    struct monitor *monitor = tool->monitor;
    monitor_enter(monitor);
    execute_cancel(session);
    drop_csrs(tool, session);
    if (--tool->sessions == 0) {
        while (tool->attachments)
            process_detach(tool, tool->attachments->process);
        while (tool->owned)
            object_end(tool->owned);
        HASH_DELETE(hh, monitor->tools, tool);
    }
    monitor_leave(monitor);
    if (tool->sessions == 0)
        free(tool);
    session->tool = NULL;
}

struct attachment *tool_attachment(const struct tool *tool, const struct process *process)
{
    for (struct attachment *a = process->attachments; a; a = a->next_of_process)
        if (a->tool == tool)
            return a;
    return NULL;
}

void session_error(struct session *session, Omis_status status, const char *format, ...)
{
    char text[ERR_TEXT_SIZE * 2];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    struct reply_builder reply = {0};
    struct span why = span_str(text);
    reply_begin(&reply);
    reply_service(&reply);
    reply_result(&reply, span_of("", 0), status, &why);
    if (!reply.bytes.failed)
        session->error(session, span_of(reply.bytes.data, reply.bytes.len));
    reply_done(&reply);
}
