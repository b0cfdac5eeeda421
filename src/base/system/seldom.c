/* SPDX-License-Identifier: Apache-2.0 */
#include "base/system/seldom.h"

#include <stdlib.h>
#include <sys/epoll.h>

struct seldom {
    struct loop *loop;
    struct loop_source *source, *timer;
    uint64_t rest_ns;
    loop_timer_fn *fn;
    void *ctx;
};

static void rested(void *ctx)
{
    struct seldom *seldom = ctx;
    loop_remove(seldom->timer);
    seldom->timer = NULL;
    loop_set_events(seldom->source, EPOLLIN);
}

static void readable(void *ctx, int fd, uint32_t events)
{
    struct seldom *seldom = ctx;
    (void)fd, (void)events;
    seldom->timer = loop_add_timer(seldom->loop, seldom->rest_ns, 0, rested, seldom);
    if (seldom->timer)
        loop_set_events(seldom->source, 0);
    seldom->fn(seldom->ctx);
}

struct seldom *seldom_new(struct loop *loop, int fd, uint64_t rest_ns, loop_timer_fn *fn, void *ctx)
{
    struct seldom *seldom = calloc(1, sizeof *seldom);
    if (!seldom)
        return NULL;
    *seldom = (struct seldom){.loop = loop, .rest_ns = rest_ns, .fn = fn, .ctx = ctx};
    seldom->source = loop_add_fd(loop, fd, EPOLLIN, readable, seldom);
    if (!seldom->source) {
        free(seldom);
        return NULL;
    }
    return seldom;
}

void seldom_free(struct seldom *seldom)
{
    if (!seldom)
        return;
    loop_remove(seldom->timer);
    loop_remove(seldom->source);
    free(seldom);
}
