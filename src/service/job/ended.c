/* SPDX-License-Identifier: Apache-2.0 */
#include "service/job/ended.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/system/clock.h"
#include "probe/proc.h"
#include "shm/waits.h"
#include "service/job/exits.h"

static struct job_ended *slot(const struct job_ended_list *list, uint64_t seq)
{
    return &list->ring[seq % list->room];
}

static void close_pidfd(struct job_ended_list *list, struct job_ended *ended)
{
    if (ended->pidfd < 0)
        return;
    close(ended->pidfd);
    ended->pidfd = -1;
    list->pidfds--;
}

static void await_no_more(struct job_ended_list *list, struct job_ended *ended)
{
    list->awaiting -= ended->awaits;
    ended->awaits = false;
}

static void know(struct job_ended_list *list, struct job_ended *ended, int status, enum job_ended_source source)
{
    ended->status = status;
    ended->source = source;
    close_pidfd(list, ended);
    await_no_more(list, ended);
}

/* Asks for the status as long as it may still come. */
static void settle(struct job_ended_list *list, struct job_ended *ended)
{
    if (ended->pidfd < 0 && !ended->awaits)
        return;
    uint64_t now = clock_now_ns(), event_ns = list->lost_ns >= ended->end_ns ? ENDED_LOST_NS : ENDED_EVENT_NS;
    int status, code = ended->pidfd < 0 ? -EBADF : proc_pidfd_exit_status(ended->pidfd, &status);
    if (code == 0)
        know(list, ended, status, JOB_ENDED_BY_PIDFD);
    else if (code != -EAGAIN || now > ended->end_ns + ENDING_NS)
        close_pidfd(list, ended);
    if (ended->awaits && now > ended->end_ns + event_ns) {
        list->in_vain++;
        await_no_more(list, ended);
    }
}

static void leave(struct job_ended_list *list, struct job_ended *ended)
{
    close_pidfd(list, ended);
    await_no_more(list, ended);
    job_command_drop(ended->command);
    ended->command = NULL;
}

/* false: out of memory. */
static bool make_room(struct job_ended_list *list)
{
    size_t count = list->next - list->first;
    if (count < list->room)
        return true;
    if (list->room == JOB_ENDED_KEPT) {
        leave(list, slot(list, list->first++));
        list->forgotten++;
        return true;
    }
    size_t room = list->room ? list->room * 4 : 64;
    struct job_ended *more = calloc(room, sizeof *more);
    if (!more)
        return false;
    for (uint64_t seq = list->first; list->room && seq < list->next; seq++)
        more[seq % room] = *slot(list, seq);
    free(list->ring);
    list->ring = more;
    list->room = room;
    return true;
}
_Static_assert(JOB_ENDED_KEPT == 64 * 4 * 4 * 4 * 4, "rooms grow to exactly this");

void job_ended_add(struct job_ended_list *list, const struct job_ended *ended)
{
    if (!make_room(list)) {
        list->forgotten++;
        if (ended->pidfd >= 0)
            close(ended->pidfd);
        job_command_drop(ended->command);
        return;
    }
    struct job_ended *added = slot(list, list->next++);
    *added = *ended;
    list->pidfds += added->pidfd >= 0;
    list->awaiting += added->awaits;
    if (added->source != JOB_ENDED_NOT_KNOWN) {
        know(list, added, ended->status, ended->source);
        return;
    }
    added->status = JOB_ENDED_STATUS_UNKNOWN;
    settle(list, added);
}

void job_ended_forget(struct job_ended_list *list, uint64_t cursor)
{
    if (cursor > list->next)
        return;
    while (list->first < cursor)
        leave(list, slot(list, list->first++));
}

uint64_t job_ended_known(struct job_ended_list *list)
{
    uint64_t seq = list->first;
    for (; seq < list->next; seq++) {
        settle(list, slot(list, seq));
        if (slot(list, seq)->pidfd >= 0 || slot(list, seq)->awaits)
            break;
    }
    return seq;
}

void job_ended_event(struct job_ended_list *list, const struct exit_event *event)
{
    size_t left = list->awaiting;
    for (uint64_t seq = list->next; left && seq-- > list->first;) {
        struct job_ended *ended = slot(list, seq);
        left -= ended->awaits;
        if (!ended->awaits || ended->pid != event->pid || event->time_ns < ended->start_ns)
            continue;
        int status = job_exits_status(ended->early_status, ended->early_ns, event);
        if (event->time_ns >= ended->event_ns) {
            know(list, ended, status, JOB_ENDED_BY_EVENT);
            return;
        }
        ended->early_status = status;
        ended->early_ns = event->time_ns;
    }
}

struct job_ended *job_ended_find(struct job_ended_list *list, pid_t pid, uint64_t time_ns)
{
    for (uint64_t seq = list->next; seq-- > list->first;) {
        struct job_ended *ended = slot(list, seq);
        if (ended->pid == pid && ended->start_ns <= time_ns)
            return ended->end_ns >= time_ns ? ended : NULL;
    }
    return NULL;
}

const struct job_ended *job_ended_at(const struct job_ended_list *list, uint64_t seq)
{
    return slot(list, seq);
}

void job_ended_done(struct job_ended_list *list)
{
    job_ended_forget(list, list->next);
    free(list->ring);
    *list = (struct job_ended_list){0};
}
