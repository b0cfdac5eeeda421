/* SPDX-License-Identifier: Apache-2.0 */
#include "job/stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "client/client.h"
#include "lang/reply.h"
#include "lang/request.h"

/* Every process that is created is attached, too, before it runs. */
static const char FOLLOW[] = "thread_creates_proc([]) : proc_attach([$new_proc])";
/* SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. 512: the local process id (specification 8.1.2). The
 * sample makes the job's follower take hold of the process, so that it will know how it ends, however short it lived.
 */
static const char CAPTURE[] = "thread_received_signal([],[4,5,6,7,8,11,31]) : thread_get_backtrace([$thread],64) "
                              "proc_get_info([$proc],512) proc_get_loader_info([$proc]) job_get_info([%s],0)";
enum { ACTION_BACKTRACE = 1, ACTION_PID, ACTION_MODULES, ACTIONS };
enum { MODULE_PATH, MODULE_CODE_START = 2, MODULE_MEMBERS = 8 };

static void free_modules(struct stacks_module *modules, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(modules[i].path);
    free(modules);
}

/* The values of an action's only result; NULL when it failed. */
static const struct value *values_of(Omis_reply reply, size_t action, struct arena *arena, size_t wanted)
{
    const struct value *values;
    size_t count;
    const Omis_object_result *result = reply[action];
    if (!result->obj_list || result->status >= OMIS_FIRST_ERROR || !result->result)
        return NULL;
    if (values_parse(arena, span_str(result->result), &values, &count, NULL) < 0 || count < wanted)
        return NULL;
    return values;
}

static void take_modules(struct stacks_entry *entry, const struct value *values)
{
    if (!values || values[1].kind != VALUE_LIST)
        return;
    const struct value *items = values[1].list.items;
    size_t count = values[1].list.count / MODULE_MEMBERS;
    count = count > STACKS_MODULES ? STACKS_MODULES : count;
    struct stacks_module *modules = calloc(count ? count : 1, sizeof *modules);
    if (!modules)
        return;
    size_t used = 0;
    for (size_t i = 0; i < count; i++, items += MODULE_MEMBERS) {
        if (items[MODULE_PATH].kind != VALUE_STRING || items[MODULE_CODE_START].kind != VALUE_INTEGER)
            continue;
        modules[used].path = strndup(items[MODULE_PATH].text.ptr, items[MODULE_PATH].text.len);
        modules[used].code_start = items[MODULE_CODE_START].integer.bits;
        used += modules[used].path != NULL;
    }
    free_modules(entry->modules, entry->module_count);
    entry->modules = modules;
    entry->module_count = used;
}

static void captured(struct stacks *stacks, Omis_reply reply)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    for (size_t i = 0; i < ACTIONS; i++)
        if (!reply[i])
            return;
    const struct value *backtrace = values_of(reply, ACTION_BACKTRACE, &arena, 2);
    const struct value *local_id = values_of(reply, ACTION_PID, &arena, 1);
    if (!backtrace || backtrace[1].kind != VALUE_LIST || !local_id || local_id->kind != VALUE_INTEGER)
        return;
    pid_t pid = (pid_t)local_id->integer.bits;
    struct stacks_entry *entry;
    HASH_FIND_INT(stacks->entries, &pid, entry);
    if (!entry) {
        if (HASH_COUNT(stacks->entries) >= STACKS_PROCESSES || !(entry = calloc(1, sizeof *entry)))
            return;
        entry->pid = pid;
        HASH_ADD_INT(stacks->entries, pid, entry);
    }
    entry->frame_count = 0;
    for (size_t i = 0; i + 1 < backtrace[1].list.count && entry->frame_count < STACKS_FRAMES; i += 2)
        entry->frames[entry->frame_count++] = backtrace[1].list.items[i].integer.bits;
    take_modules(entry, values_of(reply, ACTION_MODULES, &arena, 2));
}

static void fail(struct stacks *stacks, Omis_reply reply)
{
    if (stacks->err.code)
        return;
    for (size_t i = 0; reply && reply[i]; i++)
        if (reply[i]->obj_list && reply[i]->status >= OMIS_FIRST_ERROR) {
            err_set(&stacks->err, -EIO, "%s: %s", omis_status_name(reply[i]->status),
                    reply[i]->result ? reply[i]->result : "");
            return;
        }
}

static void on_enabled(Omis_reply reply, void *param)
{
    struct stacks *stacks = param;
    stacks->arming--;
    fail(stacks, reply);
    omis_reply_free(reply);
}

static void on_event(Omis_reply reply, void *param)
{
    struct stacks *stacks = param;
    Omis_status status = reply && reply[0] && reply[0]->obj_list ? reply[0]->status : OMIS_INTERNAL_ERROR;
    if (status == OMIS_CSR_DEFINED && reply[0]->result) {
        struct buf text = BUF_INIT;
        buf_printf(&text, ":csr_enable([%s])", reply[0]->result);
        if (!text.failed)
            client_request(span_of(text.data, text.len), on_enabled, stacks, 0);
        buf_done(&text);
    } else if (status == OMIS_CSR_DEFINED || (status >= OMIS_FIRST_ERROR && stacks->arming > 0)) {
        stacks->arming--;
        fail(stacks, reply);
    } else if (status == OMIS_CSR_TRIGGERED) {
        captured(stacks, reply);
    }
    omis_reply_free(reply);
}

void stacks_arm(struct stacks *stacks, const char *job)
{
    struct buf capture = BUF_INIT;
    buf_printf(&capture, CAPTURE, job);
    stacks->arming = 2;
    stacks->err = (struct err){0};
    client_request(span_str(FOLLOW), on_event, stacks, OMIS_DONT_RETURN_EN_DIS);
    if (!capture.failed)
        client_request(span_of(capture.data, capture.len), on_event, stacks, OMIS_DONT_RETURN_EN_DIS);
    buf_done(&capture);
}

const struct stacks_entry *stacks_find(const struct stacks *stacks, pid_t pid)
{
    struct stacks_entry *entry;
    HASH_FIND_INT(stacks->entries, &pid, entry);
    return entry;
}

void stacks_done(struct stacks *stacks)
{
    struct stacks_entry *entry, *next;
    HASH_ITER(hh, stacks->entries, entry, next)
    {
        HASH_DEL(stacks->entries, entry);
        free_modules(entry->modules, entry->module_count);
        free(entry);
    }
}
