/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/extension/watch.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "monitor/engine/execute.h"
#include "monitor/extension/session.h"
#include "monitor/engine/monitor.h"

struct scry_watch {
    struct scry_object *object;
    struct loop_source *source;
    void (*on_time)(struct scry_object *object);
    void (*on_ready)(struct scry_object *object, int fd, unsigned events);
    struct scry_watch *next; /* of the object */
};

static void time_came(void *ctx)
{
    struct scry_watch *watch = ctx;
    struct execution execution;
    ext_enter(&execution, watch->object->owner);
    watch->on_time(watch->object);
    ext_leave(&execution); /* the watch may be gone now */
}

static void became_ready(void *ctx, int fd, uint32_t events)
{
    struct scry_watch *watch = ctx;
    struct execution execution;
    if (events & (EPOLLHUP | EPOLLERR)) { /* it would be ready for ever */
        loop_remove(watch->source);
        watch->source = NULL;
    }
    ext_enter(&execution, watch->object->owner);
    watch->on_ready(watch->object, fd, events);
    ext_leave(&execution);
}

static void end_all(struct scry_object *object)
{
    while (object->watches)
        ext_watch_end(object->watches);
}

static struct scry_watch *watch_new(struct scry_object *object)
{
    struct scry_watch *watch = object->gone || !object->owner ? NULL : calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    watch->object = object;
    watch->next = object->watches;
    object->watches = watch;
    object->on_end = end_all;
    return watch;
}

static struct scry_watch *watch_begun(struct scry_watch *watch)
{
    if (watch->source)
        return watch;
    ext_watch_end(watch);
    return NULL;
}

struct scry_watch *ext_watch_timer(struct scry_object *object, uint64_t period_ns,
                                   void (*fn)(struct scry_object *object))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_time = fn;
    watch->source = loop_add_timer(object->monitor->loop, period_ns, period_ns, time_came, watch);
    return watch_begun(watch);
}

struct scry_watch *ext_watch_fd(struct scry_object *object, int fd, uint32_t events,
                                void (*fn)(struct scry_object *object, int fd, unsigned events))
{
    struct scry_watch *watch = watch_new(object);
    if (!watch)
        return NULL;
    watch->on_ready = fn;
    watch->source = loop_add_fd(object->monitor->loop, fd, events, became_ready, watch);
    return watch_begun(watch);
}

void ext_watch_end(struct scry_watch *watch)
{
    struct scry_watch **at = &watch->object->watches;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    loop_remove(watch->source);
    free(watch);
}
