/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/loop.h"

#include "base/system/clock.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct throttle {
    struct loop *loop;
    struct loop_source *source, *timer;
    uint64_t rest_ns;
    loop_timer_fn *fn;
    void *ctx;
};

static void rested(void *ctx)
{
    struct throttle *throttle = ctx;
    loop_remove(throttle->timer);
    throttle->timer = NULL;
    loop_set_events(throttle->source, EPOLLIN);
}

static void readable(void *ctx, int fd, uint32_t events)
{
    struct throttle *throttle = ctx;
    (void)fd, (void)events;
    throttle->timer = loop_add_timer(throttle->loop, throttle->rest_ns, 0, rested, throttle);
    if (throttle->timer)
        loop_set_events(throttle->source, 0);
    throttle->fn(throttle->ctx);
}

struct throttle *throttle_new(struct loop *loop, int fd, uint64_t rest_ns, loop_timer_fn *fn, void *ctx)
{
    struct throttle *throttle = calloc(1, sizeof *throttle);
    if (!throttle)
        return NULL;
    *throttle = (struct throttle){.loop = loop, .rest_ns = rest_ns, .fn = fn, .ctx = ctx};
    throttle->source = loop_add_fd(loop, fd, EPOLLIN, readable, throttle);
    if (!throttle->source) {
        free(throttle);
        return NULL;
    }
    return throttle;
}

void throttle_free(struct throttle *throttle)
{
    if (!throttle)
        return;
    loop_remove(throttle->timer);
    loop_remove(throttle->source);
    free(throttle);
}

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_DEFERRED, SOURCE_SIGNAL };

struct loop_source {
    struct loop *loop;
    struct loop_source *next, *previous;
    enum source_kind kind;
    bool removed;               /* still in the list: freed when no callback can refer to it any more */
    int fd;                     /* SOURCE_FD: the user's; SOURCE_SIGNAL: our signalfd */
    uint64_t due_ns, period_ns; /* SOURCE_TIMER; due 0 is "not armed" */
    loop_fd_fn *fd_fn;
    loop_timer_fn *timer_fn;
    void *ctx;
};

struct loop {
    int epoll_fd, timer_fd;
    bool stopped, garbage;
    unsigned dispatching; /* steps in progress: a callback may step the loop itself */
    unsigned deferred;
    uint64_t armed_ns;                    /* what timer_fd is set to; 0 is "off" */
    struct loop_source *sources, *oldest; /* newest first */
};

static void link_source(struct loop *loop, struct loop_source *source)
{
    source->loop = loop;
    source->next = loop->sources;
    if (loop->sources)
        loop->sources->previous = source;
    else
        loop->oldest = source;
    loop->sources = source;
}

static void free_source(struct loop_source *source)
{
    if (source->previous)
        source->previous->next = source->next;
    else
        source->loop->sources = source->next;
    if (source->next)
        source->next->previous = source->previous;
    else
        source->loop->oldest = source->previous;
    free(source);
}

int loop_new(struct loop **ret_loop)
{
    struct loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return -ENOMEM;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (loop->epoll_fd < 0 || loop->timer_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->timer_fd, &event) < 0) {
        int code = -errno;
        loop_free(loop);
        return code;
    }
    *ret_loop = loop;
    return 0;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    while (loop->sources) {
        if (loop->sources->kind == SOURCE_SIGNAL)
            close(loop->sources->fd);
        free_source(loop->sources);
    }
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    if (loop->timer_fd >= 0)
        close(loop->timer_fd);
    free(loop);
}

static struct loop_source *new_source(struct loop *loop, enum source_kind kind, void *ctx)
{
    struct loop_source *source = calloc(1, sizeof *source);
    if (source) {
        source->kind = kind;
        source->fd = -1;
        source->ctx = ctx;
        link_source(loop, source);
    }
    return source;
}

struct loop_source *loop_add_fd(struct loop *loop, int fd, uint32_t events, loop_fd_fn *fn, void *ctx)
{
    struct loop_source *source = new_source(loop, SOURCE_FD, ctx);
    if (!source)
        return NULL;
    source->fd = fd;
    source->fd_fn = fn;
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        free_source(source);
        return NULL;
    }
    return source;
}

int loop_set_events(struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    return epoll_ctl(source->loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0 ? -errno : 0;
}

void loop_set_timer(struct loop_source *source, uint64_t delay_ns, uint64_t period_ns)
{
    source->due_ns = clock_now_ns() + (delay_ns ? delay_ns : 1);
    source->period_ns = period_ns;
}

struct loop_source *loop_add_timer(struct loop *loop, uint64_t delay_ns, uint64_t period_ns, loop_timer_fn *fn,
                                   void *ctx)
{
    struct loop_source *source = new_source(loop, SOURCE_TIMER, ctx);
    if (source) {
        source->timer_fn = fn;
        loop_set_timer(source, delay_ns, period_ns);
    }
    return source;
}

struct loop_source *loop_add_deferred(struct loop *loop, loop_timer_fn *fn, void *ctx)
{
    struct loop_source *source = new_source(loop, SOURCE_DEFERRED, ctx);
    if (source) {
        source->timer_fn = fn;
        loop->deferred++;
    }
    return source;
}

struct loop_source *loop_add_signal(struct loop *loop, int signo, loop_fd_fn *fn, void *ctx)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signo);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return NULL;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return NULL;
    struct loop_source *source = loop_add_fd(loop, fd, EPOLLIN, fn, ctx);
    if (!source) {
        close(fd);
        return NULL;
    }
    source->kind = SOURCE_SIGNAL;
    return source;
}

void loop_remove(struct loop_source *source)
{
    if (!source || source->removed)
        return;
    struct loop *loop = source->loop;
    if (source->kind == SOURCE_FD || source->kind == SOURCE_SIGNAL)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    if (source->kind == SOURCE_SIGNAL)
        close(source->fd);
    if (source->kind == SOURCE_DEFERRED)
        loop->deferred--;
    if (loop->dispatching) {
        source->removed = true;
        loop->garbage = true;
    } else {
        free_source(source);
    }
}

static void collect_garbage(struct loop *loop)
{
    if (!loop->garbage)
        return;
    loop->garbage = false;
    for (struct loop_source *source = loop->sources, *next; source; source = next) {
        next = source->next;
        if (source->removed)
            free_source(source);
    }
}

static void arm_timer(struct loop *loop)
{
    uint64_t soonest = 0;
    for (struct loop_source *source = loop->sources; source; source = source->next)
        if (source->kind == SOURCE_TIMER && !source->removed && source->due_ns &&
            (!soonest || source->due_ns < soonest))
            soonest = source->due_ns;
    if (soonest == loop->armed_ns)
        return;
    loop->armed_ns = soonest;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(soonest / NS_PER_SECOND), .tv_nsec = (long)(soonest % NS_PER_SECOND)}};
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void run_timers(struct loop *loop)
{
    uint64_t expirations;
    ssize_t got = read(loop->timer_fd, &expirations, sizeof expirations);
    (void)got;
    loop->armed_ns = 0;
    uint64_t now = clock_now_ns();
    for (struct loop_source *source = loop->sources; source; source = source->next) {
        if (source->kind != SOURCE_TIMER || source->removed || !source->due_ns || source->due_ns > now)
            continue;
        /* late ticks are skipped, not queued */
        source->due_ns = source->period_ns ? now - (now - source->due_ns) % source->period_ns + source->period_ns : 0;
        source->timer_fn(source->ctx);
    }
}

/* In the order in which they were added. Those that a callback adds wait for the next step. */
static void run_deferred(struct loop *loop)
{
    unsigned most = loop->deferred;
    for (struct loop_source *source = loop->oldest; source && most; source = source->previous)
        if (source->kind == SOURCE_DEFERRED && !source->removed) {
            most--;
            loop_remove(source);
            source->timer_fn(source->ctx);
        }
}

static void run_source(struct loop_source *source, uint32_t events)
{
    if (source->removed)
        return;
    if (source->kind == SOURCE_SIGNAL) {
        struct signalfd_siginfo info;
        while (!source->removed && read(source->fd, &info, sizeof info) == sizeof info)
            source->fd_fn(source->ctx, -1, info.ssi_signo);
    } else {
        source->fd_fn(source->ctx, source->fd, events);
    }
}

int loop_step(struct loop *loop, int64_t timeout_ns)
{
    loop->dispatching++;
    run_deferred(loop);
    arm_timer(loop);
    int timeout_ms = timeout_ns < 0 ? -1 : INT_MAX;
    if (timeout_ns >= 0 && timeout_ns / 1000000 < INT_MAX)
        timeout_ms = (int)(timeout_ns / 1000000 + (timeout_ns % 1000000 != 0));
    if (loop->stopped || loop->deferred)
        timeout_ms = 0;
    struct epoll_event events[64];
    int count = epoll_wait(loop->epoll_fd, events, 64, timeout_ms);
    int code = count < 0 && errno != EINTR ? -errno : 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            run_source(events[i].data.ptr, events[i].events);
        else
            run_timers(loop);
    }
    if (--loop->dispatching == 0)
        collect_garbage(loop);
    return code;
}

int loop_run(struct loop *loop)
{
    int code = 0;
    while (!loop->stopped && code == 0)
        code = loop_step(loop, -1);
    loop->stopped = false;
    return code;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}
