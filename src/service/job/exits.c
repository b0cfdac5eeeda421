/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/exits.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "base/data/grow.h"

void job_exits_open(struct job_exits *exits)
{
    *exits = (struct job_exits){.fd = -1};
    int fd = exits_open(&exits->why);
    exits->fd = fd < 0 ? -1 : fd;
}

void job_exits_close(struct job_exits *exits)
{
    if (exits->fd >= 0)
        close(exits->fd);
    exits->fd = -1;
    free(exits->list);
    exits->list = NULL;
    exits->count = exits->room = 0;
}

static void take(void *ctx, const struct exit_event *event)
{
    struct job_exits *exits = ctx;
    exits->heard++;
    if (GROW(exits->list, exits->count, exits->room))
        exits->list[exits->count++] = *event;
    else
        exits->lost_ns = clock_now_ns();
}

#define JUST_THEN (UINT64_C(1) << 30) /* nanoseconds: threads take a while to end on a busy node */

int job_exits_status(int known, uint64_t known_ns, const struct exit_event *event)
{
    bool is_group = known_ns && event->time_ns - known_ns < JUST_THEN;
    return event->status == 0 && is_group ? known : event->status;
}

static int by_pid(const void *a, const void *b)
{
    const struct exit_event *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void job_exits_hear(struct job_exits *exits)
{
    if (exits->fd < 0)
        return;
    int code = exits_read(exits->fd, take, exits);
    if (code < 0)
        exits->lost_ns = clock_now_ns();
    if (code < 0 && code != -ENOBUFS) {
        err_errno(&exits->why, code, "the kernel's process events cannot be read any more");
        exits->silent = true;
    }
}

void job_exits_read(struct job_exits *exits)
{
    job_exits_hear(exits);
    if (exits->count > 1)
        qsort(exits->list, exits->count, sizeof *exits->list, by_pid);
    size_t kept = 0;
    for (size_t i = 0; i < exits->count; i++) {
        struct exit_event event = exits->list[i], *last = kept ? &exits->list[kept - 1] : NULL;
        bool again = last && last->pid == event.pid;
        if (again)
            event.status = job_exits_status(last->status, last->time_ns, &event);
        exits->list[again ? kept - 1 : kept++] = event;
    }
    exits->count = kept;
}

const struct exit_event *job_exits_find(const struct job_exits *exits, pid_t pid)
{
    size_t low = 0, high = exits->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (exits->list[middle].pid == pid)
            return &exits->list[middle];
        if (exits->list[middle].pid < pid)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *job_exits_why(const struct job_exits *exits, uint64_t end_ns)
{
    if (exits->lost_ns >= end_ns && exits->lost_ns)
        return "so many processes ended at once that the kernel dropped some of its events";
    return exits->why.text[0] ? exits->why.text : "the kernel sent no event for its end";
}
