/* SPDX-License-Identifier: Apache-2.0 */
/* The time limit of requests: the answer in place of a silent monitor, and the timer that wakes a tool in its main
 * loop. */
#include "client/session.h"

#include <limits.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/system/wait_world.h"
#include "shm/waits.h"

uint64_t timeout_deadline_ns(unsigned timeout_ms)
{
    return timeout_ms ? wait_now_ns() + timeout_ms * WAITS_NS_PER_MS : 0;
}

int timeout_left_ms(uint64_t deadline_ns)
{
    uint64_t now = wait_now_ns(), left = deadline_ns > now ? (deadline_ns - now - 1) / WAITS_NS_PER_MS + 1 : 0;
    return left > INT_MAX ? INT_MAX : (int)left;
}

Omis_reply timeout_reply(const struct session *session, unsigned timeout_ms)
{
    int pid = (int)session->patience.pid;
    double seconds = timeout_ms / 1e3;
    if (pid && waits_is_stopped(wait_look(pid).state))
        return client_reply(OMIS_OS_ERROR,
                            "no answer within %g s: the monitor (pid %d) is stopped: `kill -CONT %d` lets it go on",
                            seconds, pid, pid);
    return client_reply(OMIS_OS_ERROR, "no answer within %g s; the request may still be carried out", seconds);
}

/* Arms the timer for session->deadline_ns, or switches it off. Without a timer the tool gets the answer in its next
 * omis_handler. */
static void arm(struct session *session)
{
    struct epoll_event event = {.events = EPOLLIN};
    if (session->epoll_fd < 0 || (session->timer_fd < 0 && !session->deadline_ns))
        return;
    if (session->timer_fd < 0) {
        session->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (session->timer_fd >= 0 && epoll_ctl(session->epoll_fd, EPOLL_CTL_ADD, session->timer_fd, &event) < 0) {
            close(session->timer_fd);
            session->timer_fd = -1;
        }
    }
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(session->deadline_ns / 1000000000),
                                           .tv_nsec = (long)(session->deadline_ns % 1000000000)}};
    if (session->timer_fd >= 0)
        timerfd_settime(session->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void timeout_watch(struct session *session, uint64_t deadline_ns)
{
    if (deadline_ns && (!session->deadline_ns || deadline_ns < session->deadline_ns))
        session->deadline_ns = deadline_ns;
    arm(session);
}

void timeout_expire(struct session *session)
{
    if (!session->deadline_ns || wait_now_ns() < session->deadline_ns)
        return;
    struct pending *pending, *after;
    uint64_t now = wait_now_ns();
    session->deadline_ns = 0;
    HASH_ITER(hh, session->pending, pending, after)
    {
        if (!pending->deadline_ns || pending->answered || pending->overdue)
            continue;
        if (pending->deadline_ns > now) {
            timeout_watch(session, pending->deadline_ns);
            continue;
        }
        pending->overdue = true;
        session_queue(session, pending->callback, pending->param, timeout_reply(session, pending->timeout_ms));
    }
    arm(session);
}
