/* SPDX-License-Identifier: Apache-2.0 */
/* Services that create, attach and manipulate processes (specification 8.1.2). */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/engine/call.h"
#include "monitor/engine/node.h"
#include "monitor/tracing/tracing.h"
#include "probe/proc.h"
#include "service/omis/proc_info.h"
#include "service/omis/priority.h"
#include "lang/results.h"
#include "lang/put.h"
#include "service/omis/service.h"

/* ---- creating and attaching ---- */

/* A list of strings as a NULL-terminated vector, `first` before it if not NULL. NULL: failed and answered. */
static const char **string_vector(struct scry_call *call, size_t index, const char *first)
{
    const struct value *list = &call->args[index];
    const char **vector = arena_alloc(call->arena, (list->list.count + 2) * sizeof *vector);
    size_t count = 0;
    if (vector && first)
        vector[count++] = first;
    for (size_t i = 0; vector && i < list->list.count; i++) {
        struct span text = list->list.items[i].text;
        if (text.len && memchr(text.ptr, 0, text.len)) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%.*s: a NUL byte cannot be part of a string here",
                      SPAN_ARG(call->service->signature.params[index].name));
            return NULL;
        }
        vector[count] = arena_dup(call->arena, text.ptr, text.len);
        if (!vector[count++])
            vector = NULL;
    }
    if (!vector) {
        call_fail(call, NULL, OMIS_NO_MEMORY, "out of memory");
        return NULL;
    }
    vector[count] = NULL;
    return vector;
}

static void answer_token(struct scry_call *call, struct scry_object *of, const struct scry_object *object)
{
    struct buf text = BUF_INIT;
    buf_puts(&text, object->token);
    call_text(call, of, &text);
    buf_done(&text);
}

/* The new process is stopped: every thread counts as stopped by this tool. */
static int adopt_stopped(struct scry_call *call, struct process *process)
{
    int code = process_refresh(process, 0);
    for (struct thread *thread = process->threads; thread && code == 0; thread = thread->hh.next) {
        struct thread_claim *claim = thread_claim(thread, call->tool, true);
        if (!claim)
            code = -ENOMEM;
        else
            claim->stopped = thread->stopped = true;
    }
    process->all_stopped = true;
    return code;
}

/* Starts the program and attaches to it; on failure nothing is left of it. */
static int create_one(struct scry_call *call, const struct tracer_spawn *spawn, struct process **ret_process,
                      struct err *err)
{
    pid_t pid;
    int code = tracing_need_tracer(call->monitor, err);
    if (code == 0)
        code = tracer_spawn(call->monitor->tracer, spawn, &pid, err);
    if (code < 0)
        return code;
    struct process *process = process_get(call->monitor, pid, err);
    code = process ? 0 : -ESRCH;
    if (process) {
        process->trace.seized = true;
        code = adopt_stopped(call, process);
        if (code == 0)
            code = process_attach(call->session, process, err);
        *ret_process = process;
    }
    if (code < 0) { /* it has not executed an instruction: nothing is lost */
        kill(pid, SIGKILL);
        tracer_release(call->monitor->tracer, pid);
        if (process)
            process_terminated(process);
    }
    return code;
}

static void proc_create(struct scry_call *call)
{
    const char *path = call_string(call, 1);
    const char **argv = path ? string_vector(call, 2, path) : NULL;
    const char **envp = argv ? string_vector(call, 3, NULL) : NULL;
    const char **io = envp ? string_vector(call, 4, NULL) : NULL;
    if (!io)
        return;
    if (call->args[4].list.count > 3) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR,
                  "io: at most three streams (standard input, output, error) can be redirected");
        return;
    }
    struct tracer_spawn spawn = {.path = path, .argv = argv, .envp = call->args[3].list.count ? envp : NULL};
    for (size_t i = 0; i < call->args[4].list.count; i++)
        spawn.io[i] = io[i];
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct process *process;
        int code = create_one(call, &spawn, &process, &err);
        if (code < 0)
            call_fail_errno(call, call->objects[i], code, &err);
        else
            answer_token(call, call->objects[i], &process->object);
    }
}

static void attach_one(struct scry_call *call, struct scry_object *answer_for, struct process *process,
                       bool answer_with_token)
{
    struct err err = {0};
    int code = process_attach(call->session, process, &err);
    if (code < 0)
        call_fail_errno(call, answer_for, code, &err);
    else if (answer_with_token)
        answer_token(call, answer_for, &process->object);
    else
        call_ok(call, answer_for);
}

static void proc_attach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        call->tool->node_attached = true; /* "may include attaching to new nodes" */
        attach_one(call, call->objects[i], call_process(call, i), false);
    }
}

static bool same_file(const char *wanted, pid_t pid)
{
    char exe[PATH_MAX], real[PATH_MAX];
    if (proc_exe(pid, exe, sizeof exe) < 0)
        return true; /* we may not look at it: the kernel will refuse what matters */
    return strcmp(exe, wanted) == 0 || (realpath(wanted, real) && strcmp(exe, real) == 0);
}

static void proc_attach3(struct scry_call *call)
{
    const char *exec = call_string(call, 2);
    if (!exec || !call_check_range(call, 1, 1, INT32_MAX))
        return;
    pid_t pid = (pid_t)call_integer(call, 1);
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        Omis_status confined;
        struct process *process = process_get(call->monitor, pid, &err);
        if (!process)
            call_fail(call, call->objects[i], OMIS_UNKNOWN_OBJECT, "%s", err.text);
        else if ((confined = confine_process(call->tool, pid, &err)) != OMIS_OK)
            call_fail(call, call->objects[i], confined, "%s", err.text);
        else if (*exec && !same_file(exec, pid))
            call_fail(call, call->objects[i], OMIS_PARAMETER_ERROR, "exec: process %d does not run %s", pid, exec);
        else
            attach_one(call, call->objects[i], process, true);
    }
}

static void proc_detach(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        process_detach(call->tool, call_process(call, i));
        call_ok(call, call->objects[i]);
    }
}

/* ---- manipulation ---- */

static int send_signal(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    return proc_signal(call_process(call, index)->pidfd, (int)call_integer(call, 1));
}

static void proc_send_signal(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, SIGRTMAX))
        call_each(call, send_signal);
}

static void proc_set_priority(struct scry_call *call)
{
    if (!priority_check(call))
        return;
    for (size_t i = 0; i < call->object_count; i++)
        priority_set(call, call->objects[i], call_process(call, i)->pid, 0);
}

/* ---- information ---- */

static int get_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    return proc_info_print(call_process(call, index), call_unsigned(call, 1), text);
}

static void proc_get_info(struct scry_call *call)
{
    struct err err;
    Omis_status confined = OMIS_OK;
    if (!call_check_range(call, 1, 0, (1 << PROC_INFO_BITS) - 1))
        return;
    if (call_unsigned(call, 1) & PROC_INFO_PRIVATE) /* where many keep secrets; records have them without */
        confined = confine_right(call->tool, RIGHT_MEMORY, "flags: arguments and environment of processes", &err);
    if (confined != OMIS_OK)
        call_fail(call, NULL, confined, "%s", err.text);
    else
        call_each(call, get_info);
}

static int get_loader_info(struct scry_call *call, size_t index, struct buf *text, struct err *err)
{
    struct proc_module *modules = NULL;
    size_t count = 0;
    int code = proc_modules(call_process(call, index)->pid, &modules, &count);
    PUT(text, count);
    put_list(text);
    for (size_t i = 0; i < count; i++) {
        const struct proc_module *m = &modules[i];
        PUT(text, m->path, "", m->code_start, m->code_len, m->data_start, m->data_len, m->bss_start, m->bss_len);
    }
    put_end(text);
    proc_modules_free(modules, count);
    return code;
}

static void proc_get_loader_info(struct scry_call *call)
{
    call_each(call, get_loader_info);
}

/* ---- what Linux cannot do by itself ---- */

static const char *no_checkpoint(void)
{
    return "checkpoints need CRIU, which this version of scry does not drive";
}

static const char *no_migration(void)
{
    return "processes cannot be moved: this monitor knows only its own node";
}

const struct scry_service proc_services[] = {
    {"proc_create", SCRY_MANIPULATION,
     "token<n>* node_list, string exec, string* argv, string* envp, string* io -> token", SCRY_OPTIONAL | SCRY_LOCAL,
     proc_create, "Start a program, stopped, on each node, and attach to it."},
    {"proc_attach", SCRY_MANIPULATION, "token<p>* proc_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, proc_attach,
     "Attach to processes known by their tokens."},
    {"proc_attach3", SCRY_MANIPULATION, "token<n>* node_list, integer pid, string exec -> token",
     SCRY_OPTIONAL | SCRY_OBSERVE, proc_attach3, "Attach to a process by its pid; exec may be \"\"."},
    {"proc_detach", SCRY_MANIPULATION, "token<p>* proc_list -> void", SCRY_OPTIONAL | SCRY_OBSERVE, proc_detach,
     "Detach from processes."},
    {"proc_send_signal", SCRY_MANIPULATION, "token<p>* proc_list, integer sig -> void", SCRY_OPTIONAL, proc_send_signal,
     "Send a signal to each process."},
    {"proc_set_priority", SCRY_MANIPULATION, "token<p>* proc_list, integer val -> void", SCRY_OPTIONAL,
     proc_set_priority, "Set the nice value (-20 .. 19) of each process."},
    {"proc_migrate", SCRY_MANIPULATION, "token<p>* proc_list, token<n> node -> void", SCRY_OPTIONAL | SCRY_LOCAL, NULL,
     "Move processes to another node.", .missing = no_migration},
    {"proc_checkpoint", SCRY_MANIPULATION, "token<p>* proc_list, string name -> void", SCRY_OPTIONAL | SCRY_LOCAL, NULL,
     "Save a checkpoint of processes.", .missing = no_checkpoint},
    {"proc_restore", SCRY_MANIPULATION, "string name -> { token* procs; integer num_procs }",
     SCRY_OPTIONAL | SCRY_LOCAL, NULL, "Restore processes from a checkpoint.", .missing = no_checkpoint},
    {"proc_get_info", SCRY_INFORMATION, "token<p>* proc_list, integer flags -> " PROC_INFO_RESULT,
     SCRY_PARTIAL | SCRY_PARTLY, proc_get_info,
     "Static (bits 0-7 of flags) and dynamic (bits 8-24) information on processes; -1 is what Linux does not count."},
    {"proc_get_loader_info", SCRY_INFORMATION, "token<p>* proc_list -> " LOADER_INFO_RESULT, SCRY_PARTIAL,
     proc_get_loader_info, "The load modules of processes: paths, code, data and bss segments."},
    SERVICE_END,
};
