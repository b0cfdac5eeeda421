/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/engine/tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "lang/reply.h"
#include "monitor/engine/csr.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"

struct tool_data {
    const void *key;
    void *data;
    void (*destroy)(void *data);
    UT_hash_handle hh;
};

static void data_free(struct tool_data *data)
{
    if (data->destroy)
        data->destroy(data->data);
    free(data);
}

struct tool *tool_find(struct monitor *monitor, uint32_t id)
{
    struct tool *tool;
    HASH_FIND(hh, monitor->tools, &id, sizeof id, tool);
    return tool;
}

/* Positive as an int. By chance: no other monitor has the same, and nobody guesses it. */
static uint32_t make_id(struct monitor *monitor)
{
    uint32_t id = 0;
    do {
        if (getrandom(&id, sizeof id, 0) != sizeof id)
            id = ++monitor->last_tool_id;
        id &= INT32_MAX;
    } while (!id || tool_find(monitor, id));
    return id;
}

struct tool *tool_join(struct monitor *monitor, uint32_t id)
{
    struct tool *tool = id ? tool_find(monitor, id) : tool_make(monitor, 0);
    if (tool && id)
        tool->sessions++;
    return tool;
}

struct tool *tool_make(struct monitor *monitor, uint32_t id)
{
    if (!id || id > INT32_MAX || tool_find(monitor, id))
        id = make_id(monitor);
    struct tool *tool = calloc(1, sizeof *tool);
    if (!tool)
        return NULL;
    tool->id = id;
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

static void attachment_release(struct tool *tool)
{
    if (tool->on_end)
        tool->on_end(tool); /* the code of extensions may still look at what the tool has */
    while (tool->attachments)
        process_detach(tool, tool->attachments->process);
    while (tool->owned)
        object_end(tool->owned);
    HASH_DELETE(hh, tool->monitor->tools, tool);
}

/* When its objects are freed, which may refer to the data. */
static void tool_dispose(struct tool *tool)
{
    struct tool_data *data, *next;
    HASH_ITER(hh, tool->data, data, next)
    {
        HASH_DELETE(hh, tool->data, data);
        data_free(data);
    }
    confinement_done(&tool->confined);
    free(tool);
}

void tool_leave(struct session *session)
{
    struct tool *tool = session->tool;
    struct monitor *monitor = tool->monitor;
    monitor_enter(monitor);
    execute_cancel(session);
    drop_csrs(tool, session);
    if (monitor->parts)
        monitor->parts->session_ends(session);
    bool last = --tool->sessions == 0;
    if (last)
        attachment_release(tool);
    monitor_leave(monitor);
    if (last)
        tool_dispose(tool);
    session->tool = NULL;
}

void tool_end(struct tool *tool)
{
    struct monitor *monitor = tool->monitor;
    monitor_enter(monitor);
    attachment_release(tool);
    monitor_leave(monitor);
    tool_dispose(tool);
}

void *tool_data(const struct tool *tool, const void *key)
{
    struct tool_data *data;
    HASH_FIND_PTR(tool->data, &key, data);
    return data ? data->data : NULL;
}

int tool_set_data(struct tool *tool, const void *key, void *data_take, void (*destroy)(void *data))
{
    struct tool_data *data = calloc(1, sizeof *data), *previous;
    if (!data)
        return -ENOMEM;
    HASH_FIND_PTR(tool->data, &key, previous);
    if (previous)
        HASH_DELETE(hh, tool->data, previous);
    *data = (struct tool_data){.key = key, .data = data_take, .destroy = destroy};
    HASH_ADD_PTR(tool->data, key, data);
    if (previous)
        data_free(previous);
    return 0;
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
