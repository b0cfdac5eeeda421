/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doorbell (shm/area.h): one page that all agents of this user's monitor ring; the same file after a restart, so
 * that programs of the old monitor find the new one. A futex cannot be waited for with epoll, so a small thread waits
 * and writes an eventfd. It says no more until the loop has come: under load agents ring without a system call.
 *
 * What it is rung for: threads that have handed an event over and wait. Their events are told, and they are let go on.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/system/file.h"
#include "base/system/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/recorder/agent.h"
#include "probe/cells.h"
#include "probe/proc.h"
#include "shm/waits.h"

/* ---- events that were handed over ---- */

/* A copy of what a thread handed over. false: we were stopped over it, and the thread has let itself go; it may be
 * about to hand over its next event. */
static bool copy_raise(const struct area_thread *thread, struct area_raise *ret_raise)
{
    const volatile uint64_t *time = &thread->raise.time;
    uint64_t before = *time;
    atomic_thread_fence(memory_order_acquire);
    memcpy(ret_raise, &thread->raise, sizeof *ret_raise);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&thread->raise.hold) == AREA_HOLD_POSTED && *time == before;
}

/* false: it is of no slot that there is. */
static bool bring_within_limits(const struct agent *agent, struct area_raise *raise)
{
    if (raise->values_size > AREA_RAISE_VALUES)
        raise->values_size = 0;
    if (raise->param_count > CODE_PARAMS)
        raise->param_count = CODE_PARAMS;
    return raise->slot <= agent->view.slot_mask;
}

void agent_release(struct agent *agent, struct area_thread *thread)
{
    size_t index = (size_t)((uint8_t *)thread - agent->view.threads) / AREA_THREAD_SIZE;
    uint32_t posted = AREA_HOLD_POSTED;
    agent->held[index / 64] &= ~(UINT64_C(1) << (index & 63));
    if (!atomic_compare_exchange_strong(&thread->raise.hold, &posted, AREA_HOLD_RELEASED))
        return; /* it went on by itself */
    area_wake(&thread->raise.hold);
}

/* The next thread that waits, from a number on, which is that thread's then; NULL: there is none. */
static struct area_thread *next_held(const struct area_view *view, uint32_t *at)
{
    for (; *at < view->thread_count; ++*at) {
        struct area_thread *thread = area_thread_at(view, *at);
        if (atomic_load(&thread->state) == AREA_THREAD_FREE && !thread->serial)
            break; /* from here on never used */
        if (atomic_load_explicit(&thread->raise.hold, memory_order_acquire) == AREA_HOLD_POSTED)
            return thread;
    }
    return NULL;
}

void agent_release_all(struct agent *agent)
{
    struct area_thread *thread;
    for (uint32_t i = 0; (thread = next_held(&agent->view, &i)); i++)
        agent_release(agent, thread);
}

void agent_release_kept(struct agents *agents, pid_t pid, struct area_thread *thread, uint64_t time)
{
    struct agent *agent = agents_find(agents, pid);
    const uint8_t *block = (const uint8_t *)thread;
    if (!agent || agent->ended || !agent->view.area || block < agent->view.threads ||
        block >= agent->view.threads + (size_t)agent->view.thread_count * AREA_THREAD_SIZE ||
        thread->raise.time != time)
        return; /* another program, or another event */
    agent_release(agent, thread);
}

static void agent_raises(struct agent *agent)
{
    const struct area_view *view = &agent->view;
    struct agents *agents = agent->agents;
    struct area_thread *thread;
    if (agent->ended || !view->area)
        return;
    for (uint32_t i = 0; !agent->ended && (thread = next_held(view, &i)); i++) {
        struct agent_event event = {.agent = agent, .thread = thread};
        if (agent->held[i / 64] >> (i & 63) & 1 || !copy_raise(thread, &event.raise))
            continue; /* told already: who handles it has it until the release */
        agent->held[i / 64] |= UINT64_C(1) << (i & 63);
        if (bring_within_limits(agent, &event.raise) && agents->on_event)
            agents->on_event(agents->event_ctx, &event);
        else
            agent_release(agent, thread);
    }
}

/* ---- the bell ---- */

enum { RINGER_STACK = 64 << 10 };

static void futex_wait(_Atomic uint32_t *word, uint32_t value, bool shared)
{
    syscall(SYS_futex, word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *ringer_run(void *ctx)
{
    struct agents *agents = ctx;
    struct doorbell *bell = agents->bell;
    uint32_t seen = agents->rung_before, told = 0;
    while (!atomic_load(&agents->ringer_stop)) {
        atomic_store(&bell->sleeping, 1);
        while (atomic_load(&bell->rung) == seen && !atomic_load(&agents->ringer_stop))
            futex_wait(&bell->rung, seen, true);
        atomic_store(&bell->sleeping, 0);
        seen = atomic_load(&bell->rung);
        told = atomic_load(&agents->acknowledged);
        uint64_t one = 1;
        if (write(agents->ring_fd, &one, sizeof one) < 0 && errno != EAGAIN)
            break;
        while (atomic_load(&agents->acknowledged) == told && !atomic_load(&agents->ringer_stop))
            futex_wait(&agents->acknowledged, told, false);
    }
    atomic_store(&agents->ringer_over, 1);
    futex_wake(&agents->ringer_over);
    return NULL;
}

/* The word it waits at is the agents' to write, too, and who else waits there takes a wake-up meant for it: so all are
 * woken, and it is told until it has heard. */
static void ringer_end(struct agents *agents)
{
    const struct timespec slice = {.tv_nsec = BELL_AGAIN_NS};
    atomic_store(&agents->ringer_stop, true);
    while (!atomic_load(&agents->ringer_over)) {
        atomic_fetch_add(&agents->acknowledged, 1);
        futex_wake(&agents->acknowledged);
        atomic_fetch_add(&agents->bell->rung, 1);
        area_wake(&agents->bell->rung);
        syscall(SYS_futex, &agents->ringer_over, FUTEX_WAIT_PRIVATE, 0, &slice, NULL, 0);
    }
    pthread_join(agents->ringer, NULL);
}

static void bell_rung(void *ctx, int fd, uint32_t events)
{
    struct agents *agents = ctx;
    uint64_t count;
    (void)events;
    if (read(fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    atomic_fetch_add(&agents->acknowledged, 1);
    futex_wake(&agents->acknowledged);
    agents->collecting++;
    for (struct agent *agent = agents->list, *next; agent; agent = next) {
        next = agent->next;
        agent_raises(agent);
    }
    if (agents->on_ring)
        agents->on_ring(agents->ring_ctx);
    agents->mpi->rung(agents);
    agents->collecting--;
    collect_soon(agents);
}

int agent_bell_open(struct agents *agents, struct err *err)
{
    char path[PATH_MAX];
    struct proc_stat self;
    snprintf(path, sizeof path, "%s/doorbell", agents->rings);
    agents->bell_fd = file_open_own(AT_FDCWD, path, O_RDWR | O_CREAT);
    int code = agents->bell_fd < 0 ? agents->bell_fd : 0;
    if (code == 0)
        code = -posix_fallocate(agents->bell_fd, 0, AREA_PAGE);
    if (code == 0) {
        void *page = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, agents->bell_fd, 0);
        code = page == MAP_FAILED ? -errno : 0;
        agents->bell = code == 0 ? page : NULL;
    }
    if (code < 0)
        return err_errno(err, code, "cannot make the doorbell %s", path);
    /* Likewise: otherwise programs of the old monitor would count where nobody looks. */
    snprintf(path, sizeof path, "%s/cells", agents->rings);
    if (agents->monitor->cells && (code = cells_keep(agents->monitor->cells, path)) < 0)
        log_warning("%s: %s: counters of programs will not outlive the monitor", path, strerror(-code));
    agents->bell->magic = DOORBELL_MAGIC;
    agents->bell->version = AREA_VERSION;
    agents->rung_before = atomic_load(&agents->bell->rung);
    atomic_store(&agents->bell->sleeping, 0);
    uint64_t ticks = proc_stat_read(getpid(), 0, &self) == 0 ? self.start_ticks : 0;
    if (!agents->bell->id)
        agents->bell->id = ((uint32_t)ticks * 2654435761u ^ (uint32_t)getpid()) | 1;
    atomic_store(&agents->bell->monitor_start_ticks, ticks);
    atomic_store(&agents->bell->monitor_pid, getpid());
    return 0;
}

/* Programs wait for us: with short slices of time we are run sooner when there is something to do, for no more time
 * altogether (sched_setattr(2); kernels before 6.12 take no notice). The thread made after it does as this one. */
static void sched_short_slices(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = 0};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) < 0 ||
        attributes.policy != 0 /* SCHED_OTHER */)
        return;
    attributes.size = sizeof attributes;
    attributes.flags = 0;
    attributes.runtime = BELL_SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attributes, 0);
}

int agent_bell_start(struct agents *agents)
{
    if (agents->ringer_runs)
        return 0;
    sched_short_slices();
    agents->ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (agents->ring_fd < 0)
        return -errno;
    agents->ring_source = loop_add_fd(agents->monitor->loop, agents->ring_fd, EPOLLIN, bell_rung, agents);
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, RINGER_STACK < PTHREAD_STACK_MIN ? PTHREAD_STACK_MIN : RINGER_STACK);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the loop's */
    int code = agents->ring_source ? pthread_create(&agents->ringer, &attributes, ringer_run, agents) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    agents->ringer_runs = code == 0;
    return -code;
}

void agent_bell_close(struct agents *agents)
{
    int32_t self = getpid();
    if (agents->bell)
        atomic_compare_exchange_strong(&agents->bell->monitor_pid, &self, 0);
    if (agents->ringer_runs)
        ringer_end(agents);
    loop_remove(agents->ring_source);
    if (agents->ring_fd >= 0)
        close(agents->ring_fd);
    if (agents->bell)
        munmap(agents->bell, AREA_PAGE);
    if (agents->bell_fd >= 0)
        close(agents->bell_fd);
}
