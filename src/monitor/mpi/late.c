/* SPDX-License-Identifier: Apache-2.0 */
/* The interposer in a process that was not started by scry (mpi.h). */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/process.h"
#include "monitor/tracing/tracing.h"
#include "monitor/engine/monitor.h"
#include "monitor/engine/process.h"
#include "monitor/mpi/internal.h"
#include "monitor/recorder/agents.h"
#include "probe/proc.h"
#include "shm/area.h"

struct waiter {
    struct waiter *next;
    mpi_late_fn *fn;
    void *ctx;
};

struct mpi_late { /* in its registry's list until it is over */
    struct mpi_late *next;
    struct mpi_registry *registry;
    struct loading *loading; /* NULL: it is over */
    struct waiter *waiters;
    pid_t pid;
    char token[TOKEN_TEXT_SIZE]; /* of the process, which may be gone */
    char library[PATH_MAX];
    struct late_start start;
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
        const char *name = basename(modules[i].path);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            found |= strncmp(name, names[k], strlen(names[k])) == 0;
    }
    proc_modules_free(modules, count);
    return found;
}

static int no_library(pid_t pid, struct err *err)
{
    return err_set(err, -EOPNOTSUPP, "process %d has no MPI library that is known (Open MPI 4, MPICH 4)", pid);
}

static int why_not(int64_t result, pid_t pid, struct err *err)
{
    switch (result) {
    case LATE_DONE:
        return 0;
    case LATE_NO_MPI:
        return no_library(pid, err);
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

static int late_prepare(struct mpi_late *late, struct err *err)
{
    char mpi_dir[PATH_MAX];
    int code = agent_library(late->library, sizeof late->library, err);
    if (code < 0)
        return code;
    agent_library_mpi(mpi_dir, late->library);
    if (!mpi_dir[0])
        return err_set(err, -EOPNOTSUPP, "the libraries for MPI programs are not installed: see `scry doctor`");
    late->start.magic = LATE_MAGIC;
    late->start.version = LATE_VERSION;
    size_t size = sizeof late->start.socket;
    if ((size_t)snprintf(late->start.socket, size, "%s", agents_socket(late->registry->agents)) >= size ||
        (size_t)snprintf(late->start.mpi_dir, LATE_DIR, "%s", mpi_dir) >= LATE_DIR)
        return err_set(err, -ENAMETOOLONG, "the path of the runtime directory is too long");
    /* what is seen without touching it */
    const char *const files[] = {late->library, late->start.mpi_dir, late->start.socket, NULL};
    return has_mpi_library(late->pid) ? proc_loadable(late->pid, files, err) : no_library(late->pid, err);
}

static void late_free(struct mpi_late *late)
{
    struct mpi_late **at = &late->registry->lates;
    while (*at && *at != late)
        at = &(*at)->next;
    if (*at)
        *at = late->next;
    for (struct waiter *waiter = late->waiters, *next; waiter; waiter = next) {
        next = waiter->next;
        free(waiter);
    }
    free(late);
}

static void late_done(void *ctx, int code, int64_t result, const struct err *why)
{
    struct mpi_late *late = ctx;
    struct monitor *monitor = late->registry->agents->monitor;
    struct err err = *why;
    if (code == 0)
        code = why_not(result, late->pid, &err);
    late->loading = NULL;
    monitor_enter(monitor);
    struct waiter *waiter;
    while ((waiter = late->waiters) != NULL) {
        const struct waiter told = *waiter;
        struct process *process = process_find(monitor, late->pid);
        late->waiters = waiter->next;
        free(waiter);
        told.fn(told.ctx, process && strcmp(process->object.token, late->token) == 0 ? process : NULL, code, &err);
    }
    late_free(late);
    monitor_leave(monitor);
}

static struct mpi_late *late_find(const struct process *process)
{
    const struct mpi_registry *registry = process->object.monitor->mpi;
    struct mpi_late *late = registry ? registry->lates : NULL;
    while (late && strcmp(late->token, process->object.token) != 0)
        late = late->next;
    return late;
}

static struct mpi_late *late_make(struct process *process, struct err *err)
{
    struct mpi_registry *registry = process->object.monitor->mpi;
    struct mpi_late *late = calloc(1, sizeof *late);
    if (!late) {
        err_errno(err, -ENOMEM, "mpi_load");
        return NULL;
    }
    late->registry = registry;
    late->pid = process->pid;
    snprintf(late->token, sizeof late->token, "%s", process->object.token);
    if (late_prepare(late, err) == 0) {
        const struct tracer_load wanted = {late->library, LATE_FUNCTION, &late->start, sizeof late->start, false};
        late->loading = loading_start(process, &wanted, late_done, late, err);
    }
    if (!late->loading) {
        free(late);
        return NULL;
    }
    late->next = registry->lates;
    return registry->lates = late;
}

/* true: somebody waited. */
static bool late_forget(struct mpi_late *late, const void *ctx, bool ends)
{
    bool waited = false;
    for (struct waiter **at = &late->waiters, *waiter; (waiter = *at) != NULL;) {
        if (ctx && waiter->ctx != ctx) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        free(waiter);
        waited = true;
    }
    if (late->waiters || !late->loading || !ends)
        return waited;
    loading_cancel(late->loading);
    late_free(late);
    return waited;
}

int mpi_late_begin(struct process *process, mpi_late_fn *fn, void *ctx, struct err *err)
{
    const struct monitor *monitor = process->object.monitor;
    if (!monitor->agents || !monitor->mpi)
        return err_set(err, -EOPNOTSUPP, "this monitor takes no programs: it has no runtime directory");
    struct waiter *waiter = malloc(sizeof *waiter);
    if (!waiter)
        return err_errno(err, -ENOMEM, "mpi_load");
    struct mpi_late *late = late_find(process);
    if (!late && !(late = late_make(process, err))) {
        free(waiter);
        return err->code;
    }
    late_forget(late, ctx, false);
    *waiter = (struct waiter){late->waiters, fn, ctx};
    late->waiters = waiter;
    return 0;
}

bool mpi_late_forget(struct process *process, const void *ctx)
{
    struct mpi_late *late = late_find(process);
    return late && late_forget(late, ctx, true);
}

void mpi_late_forget_all(struct mpi_registry *registry, const void *ctx)
{
    for (struct mpi_late *late = registry ? registry->lates : NULL, *next; late; late = next) {
        next = late->next;
        late_forget(late, ctx, true);
    }
}
