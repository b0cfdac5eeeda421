/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_load: the interposer comes into processes that were not started by scry. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/agent_library.h"
#include "monitor/recorder/agents.h"
#include "monitor/engine/call.h"
#include "monitor/engine/convert.h"
#include "monitor/engine/loading.h"
#include "monitor/mpi/mpi.h"
#include "probe/proc.h"
#include "service/mpi/mpi.h"
#include "shm/late.h"

struct target {
    char token[TOKEN_TEXT_SIZE];
};

/* One mpi_load on its way over its processes. In the call's arena. */
struct loads {
    char library[PATH_MAX];
    struct late_start start;
    struct target *targets;
    size_t count, at;
    struct later *later;
    struct loading *loading; /* of targets[at] */
};

static bool has_mpi_library(pid_t pid)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12"};
    struct proc_module *modules = NULL;
    size_t count = 0;
    bool found = false;
    if (proc_modules(pid, &modules, &count) < 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *slash = strrchr(modules[i].path, '/'), *name = slash ? slash + 1 : modules[i].path;
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            found |= strncmp(name, names[k], strlen(names[k])) == 0;
    }
    proc_modules_free(modules, count);
    return found;
}

/* What is seen without touching it. */
static int check(const struct loads *loads, pid_t pid, struct err *err)
{
    const char *const files[] = {loads->library, loads->start.mpi_dir, loads->start.socket, NULL};
    if (!has_mpi_library(pid))
        return err_set(err, -EOPNOTSUPP, "process %d has no MPI library that is known (Open MPI 4, MPICH 4)", pid);
    return proc_loadable(pid, files, err);
}

static int why_not(int64_t result, pid_t pid, struct err *err)
{
    switch (result) {
    case LATE_DONE:
        return 0;
    case LATE_NO_MPI:
        return err_set(err, -EOPNOTSUPP, "process %d has no MPI library that is known (Open MPI 4, MPICH 4)", pid);
    case LATE_NOT_TAKEN:
        return err_set(
            err, -EOPNOTSUPP,
            "the calls of process %d cannot be caught: there is no interposer for its MPI library (see `scry "
            "doctor`), it has no memory for it, or it was given up there before",
            pid);
    default:
        return err_set(err, -EOPNOTSUPP, "process %d has another version of scry's library, or was started with it",
                       pid);
    }
}

static void load_next(struct loads *loads, struct scry_call *call);

static struct process *current(struct loads *loads, struct scry_call *call, Omis_status *ret_status, struct err *err)
{
    return (struct process *)convert_one(call, span_str(loads->targets[loads->at].token), "p", true, ret_status, err);
}

static void done(void *ctx, int code, int64_t result, const struct err *why)
{
    struct loads *loads = ctx;
    struct scry_call *call = call_later_begin(loads->later);
    struct err err = *why;
    Omis_status status;
    struct process *process = current(loads, call, &status, &err);
    if (!process)
        call_fail(call, NULL, status, "%s", err.text);
    else
        call_done(call, &process->object, code < 0 ? code : why_not(result, process->pid, &err), &err);
    loads->at++;
    load_next(loads, call);
    call_later_end(loads->later, loads->at == loads->count);
}

static void cancelled(void *ctx)
{
    struct loads *loads = ctx;
    loading_cancel(loads->loading);
}

static bool load_one(struct loads *loads, struct scry_call *call, struct process *process)
{
    const struct tracer_load wanted = {loads->library, LATE_FUNCTION, &loads->start, sizeof loads->start};
    struct err err = {0};
    if (mpi_process_find(call->monitor->mpi, process->pid)) {
        call_ok(call, &process->object);
        return false;
    }
    int code = check(loads, process->pid, &err);
    if (code == 0) {
        loads->loading = loading_start(process, &wanted, done, loads, &err);
        if (loads->loading)
            return true;
        code = err.code;
    }
    call_fail_errno(call, &process->object, code, &err);
    return false;
}

/* From here on, until one has to be waited for. */
static void load_next(struct loads *loads, struct scry_call *call)
{
    for (; loads->at < loads->count; loads->at++) {
        struct err err = {0};
        Omis_status status;
        struct process *process = current(loads, call, &status, &err);
        if (!process)
            call_fail(call, NULL, status, "%s", err.text);
        else if (load_one(loads, call, process))
            return;
    }
}

static int prepare(struct loads *loads, struct scry_call *call, struct err *err)
{
    char mpi_dir[PATH_MAX];
    if (!call->monitor->agents || !call->monitor->mpi)
        return err_set(err, -EOPNOTSUPP, "this monitor takes no programs: it has no runtime directory");
    int code = agent_library(loads->library, sizeof loads->library, err);
    if (code < 0)
        return code;
    agent_library_mpi(mpi_dir, loads->library);
    if (!mpi_dir[0])
        return err_set(err, -EOPNOTSUPP, "the libraries for MPI programs are not installed: see `scry doctor`");
    loads->start.magic = LATE_MAGIC;
    loads->start.version = LATE_VERSION;
    size_t size = sizeof loads->start.socket;
    if ((size_t)snprintf(loads->start.socket, size, "%s", agents_socket(call->monitor->agents)) >= size ||
        (size_t)snprintf(loads->start.mpi_dir, LATE_DIR, "%s", mpi_dir) >= LATE_DIR)
        return err_set(err, -ENAMETOOLONG, "the path of the runtime directory is too long");
    return 0;
}

void mpi_load(struct scry_call *call)
{
    struct loads *loads = arena_zalloc(call->arena, 1, sizeof *loads);
    struct target *targets = arena_zalloc(call->arena, call->object_count + 1, sizeof *targets);
    struct err err = {0};
    int code = loads && targets ? prepare(loads, call, &err) : -ENOMEM;
    if (code < 0) {
        call_fail_errno(call, NULL, code, &err);
        return;
    }
    loads->targets = targets;
    for (size_t i = 0; i < call->object_count; i++)
        snprintf(targets[loads->count++].token, TOKEN_TEXT_SIZE, "%s", call->objects[i]->token);
    loads->later = loads->count ? call_later(call, cancelled, loads) : NULL;
    if (!loads->later) {
        if (loads->count)
            call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                      "it takes a while, so it cannot be done in braces or when an event happens");
        return;
    }
    struct scry_call *later = call_later_begin(loads->later);
    load_next(loads, later);
    call_later_end(loads->later, loads->at == loads->count);
}
