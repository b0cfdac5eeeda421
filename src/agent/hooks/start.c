/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of the library: environment, is there anything to trace, connect; and what a program says itself.
 */
#include "agent/hooks/agent.h"
#include "agent/system/command.h"
#include "agent/hooks/connect.h"
#include "agent/hooks/early.h"
#include "agent/system/large.h"
#include "agent/hooks/mpi.h"
#include "agent/safety/read.h"
#include "agent/safety/signals.h"
#include "agent/system/valgrind.h"
#include "shm/late.h"

extern char **__environ; /* which no program defines itself */

/* Looked for at once: each process of a job comes here, and nearly all of them have nothing to trace. */
struct environment {
    const char *off, *asan, *socket, *job, *wanted, *mpi, *mpi_dir;
    char *preload;
};

static const char *after(const char *text, const char *prefix)
{
    while (*prefix)
        if (*text++ != *prefix++)
            return NULL;
    return text;
}

static void environment_scan(char **entries, struct environment *ret_found)
{
    static const char preload[] = "LD_PRELOAD=", ours[] = "SCRY";
    *ret_found = (struct environment){0};
    for (char **entry = entries; entry && *entry; entry++) {
        const char *value = after(*entry, ours), *found;
        if (!value) {
            value = after(*entry, preload);
            if (value && !ret_found->preload)
                ret_found->preload = *entry + (value - *entry);
        } else if ((found = after(value, "=")) && !ret_found->off) {
            ret_found->off = found;
        } else if ((found = after(value, "_ASAN_PRELOAD=")) && !ret_found->asan) {
            ret_found->asan = found;
        } else if ((found = after(value, "_AGENT_SOCKET=")) && !ret_found->socket) {
            ret_found->socket = found;
        } else if ((found = after(value, "_JOB=")) && !ret_found->job) {
            ret_found->job = found;
        } else if ((found = after(value, "_TRACE_WANTED=")) && !ret_found->wanted) {
            ret_found->wanted = found;
        } else if ((found = after(value, "_MPI=")) && !ret_found->mpi) {
            ret_found->mpi = found;
        } else if ((found = after(value, "_MPI_DIR=")) && !ret_found->mpi_dir) {
            ret_found->mpi_dir = found;
        }
    }
}

static bool is(const char *value, const char *text)
{
    const char *rest = value ? after(value, text) : NULL;
    return rest && !*rest;
}

static bool copy_setting(char *to, size_t size, const char *value)
{
    size_t length = value ? raw_length(value, size) : 0;
    if (!length || length >= size)
        return false;
    raw_copy(to, value, length + 1);
    return true;
}

/* libasan comes first in LD_PRELOAD where the program itself needs it. What it starts need not, so there it does not
 * stand any more: taken out in place, since no setenv can be called here. */
static void drop_asan(const struct environment *environment)
{
    const char *asan = environment->asan;
    char *preload = environment->preload;
    if (!asan || !*asan || !preload)
        return;
    const char *rest = after(preload, asan);
    if (!rest || (*rest && *rest != ':' && *rest != ' '))
        return;
    if (*rest)
        rest++;
    raw_copy(preload, rest, raw_length(rest, SIZE_MAX) + 1);
}

/* ---- start and end ---- */

/* Copied, for the program may write over its environment. Mostly it takes no page more than there is anyway. */
static char short_job[512];
static char long_job[AREA_PATH] AGENT_LARGE;

static void start(int argc, char **argv, char **envp)
{
    struct environment environment;
    agent_next_find();
    environment_scan(__environ ? __environ : envp, &environment);
    drop_asan(&environment);
    if (is(environment.off, "off") ||
        !copy_setting(connect_settings.socket, sizeof connect_settings.socket, environment.socket))
        return;
    if (copy_setting(short_job, sizeof short_job, environment.job))
        connect_settings.job = short_job;
    else
        connect_settings.job = copy_setting(long_job, sizeof long_job, environment.job) ? long_job : "";
    connect_settings.image = agent_ticks();
    connect_settings.wanted = is(environment.wanted, "1");
    if (valgrind_running())
        agent_hot.valgrind = true;
    command_say(connect_settings.socket, argc, argv, envp);
    agent_connect(CONNECT_START);
    agent_mpi_start(environment.mpi, environment.mpi_dir, __environ != NULL);
}

__attribute__((constructor(101))) static void agent_start(int argc, char **argv, char **envp)
{
    if (!early_after_libc(start))
        start(argc, argv, envp);
}

/* Brought into a running program, whose environment says nothing: called by the monitor, by way of one of the program's
 * threads. Neither functions nor signals are looked at then, only MPI. */
__attribute__((visibility("default"))) long scry_agent_late(const struct late_start *start);
long scry_agent_late(const struct late_start *start)
{
    bool other = connect_settings.socket[0] && !connect_settings.late;
    if (start->magic != LATE_MAGIC || start->version != LATE_VERSION || other || valgrind_running() ||
        !copy_setting(connect_settings.socket, sizeof connect_settings.socket, start->socket))
        return LATE_OTHER;
    connect_settings.job = "";
    connect_settings.late = true;
    if (!connect_settings.image)
        connect_settings.image = agent_ticks();
    return agent_mpi_late(start->mpi_dir);
}

__attribute__((destructor(101))) static void agent_end(void)
{
    if (!agent_was_connected)
        return;
    struct area *area = agent_hot.area;
    if (!area)
        return;
    struct agent_thread *self = &agent_self;
    if (self->block && !atomic_load(&self->block->pending)) {
        enum guard guard = thread_guard(self, (uint64_t)__builtin_frame_address(0));
        record_retire(self);
        thread_unguard(self, guard);
    }
    agent_read_done();
    atomic_store(&area->left, agent_ticks());
    atomic_store(&area->agent_state, AREA_EXITED);
    agent_ring();
}

/* ---- what a program says itself (scry/agent.h) ---- */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void scry_mark_text(const char *text);
EXPORTED void scry_thread_off(void);
EXPORTED void scry_thread_on(void);

enum { MARK_SIZE = 1024 };

/* A thread that says something before its first traced call is attached by it. */
EXPORTED void scry_mark_text(const char *text)
{
    struct agent_thread *self = &agent_self;
    fork_noticed();
    struct area *area = agent_hot.area;
    if (!area || !text || !atomic_load_explicit(&area->on, memory_order_relaxed) || self->off ||
        (!self->block && !thread_attach(self)))
        return;
    uint64_t sp = (uint64_t)__builtin_frame_address(0);
    enum guard guard = thread_guard(self, sp);
    uint16_t size = (uint16_t)raw_length(text, MARK_SIZE);
    if (guard == GUARD_STUCK)
        return;
    if (guard > GUARD_OUTER || sp - self->stack_low < self->size || stack_switch(self, guard, sp, true)) {
        if (guard == GUARD_OUTER && self->waiting)
            hooks_flush_waiting(self, guard);
        record_put(self, guard, RECORD_MARK, 0, &size, sizeof size, text, size);
    }
    thread_unguard(self, guard);
}

/* In this thread; each off needs its on. */
EXPORTED void scry_thread_off(void)
{
    struct agent_thread *self = &agent_self;
    self->off++;
    self->stack_size = 0;
}

EXPORTED void scry_thread_on(void)
{
    struct agent_thread *self = &agent_self;
    if (self->off && --self->off == 0)
        self->stack_size = self->levels ? 0 : self->size;
}
