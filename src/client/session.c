/* SPDX-License-Identifier: Apache-2.0 */
#include "client/session.h"

#include "base/system/clock.h"
#include "base/system/wait_world.h"
#include "lang/reply.h"
#include "shm/waits.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

void timeout_restart(struct timeout *timeout, uint64_t since_ns)
{
    timeout->since_ns = since_ns;
    timeout->cpu_ns = wait_look(timeout->pid).cpu_ns;
}

void timeout_start(struct timeout *ret_timeout, int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        peer.pid = 0;
    *ret_timeout = (struct timeout){.pid = peer.pid};
    timeout_restart(ret_timeout, wait_now_ns());
}

bool timeout_over(const struct timeout *timeout, unsigned limit_ms, struct err *err)
{
    const struct wait_policy *policy = &wait_policies[WAIT_ANSWER];
    uint64_t passed_ns = wait_now_ns() - timeout->since_ns;
    if (passed_ns < limit_ms * WAITS_NS_PER_MS && passed_ns < policy->look_ms * WAITS_NS_PER_MS)
        return false; /* mostly it answers at once: to look at it would take as long */
    struct wait_process process = wait_look(timeout->pid);
    const struct wait_seen seen = {.passed_ns = passed_ns,
                                   .limit_ns = limit_ms * WAITS_NS_PER_MS,
                                   .cpu_ns = process.cpu_ns > timeout->cpu_ns ? process.cpu_ns - timeout->cpu_ns : 0,
                                   .state = process.state};
    double passed_s = (double)seen.passed_ns / 1e9;
    int pid = (int)timeout->pid;
    enum wait_verdict verdict = waits_judge(policy, &seen);
    if (verdict == WAIT_ON)
        return false;
    if (verdict == WAIT_STOPPED) {
        err_set(err, -ETIMEDOUT, "the monitor (pid %d) was stopped: `kill -CONT %d` lets it go on", pid, pid);
        return true;
    }
    if (pid)
        err_set(err, -ETIMEDOUT,
                "the monitor (pid %d) does not answer: it has said nothing for %.1f s; `kill -KILL %d` ends it, and "
                "another is started when needed",
                pid, passed_s, pid);
    else
        err_set(err, -ETIMEDOUT, "the monitor does not answer: it has said nothing for %.1f s", passed_s);
    return true;
}

/* The time limit of requests: the answer in place of a silent monitor, and the timer that wakes a tool in its main
 * loop. */

uint64_t timeout_deadline_ns(unsigned timeout_ms)
{
    return timeout_ms ? wait_now_ns() + timeout_ms * WAITS_NS_PER_MS : 0;
}

static int timeout_left_ms(uint64_t deadline_ns)
{
    uint64_t now = wait_now_ns(), left = deadline_ns > now ? (deadline_ns - now - 1) / WAITS_NS_PER_MS + 1 : 0;
    return left > INT_MAX ? INT_MAX : (int)left;
}

static Omis_reply timeout_reply(const struct session *session, unsigned timeout_ms)
{
    int pid = (int)session->timeout.pid;
    double seconds = timeout_ms / 1e3;
    if (pid && waits_is_stopped(wait_look(pid).state))
        return client_reply(OMIS_OS_ERROR,
                            "no answer within %g s: the monitor (pid %d) is stopped: `kill -CONT %d` lets it go on",
                            seconds, pid, pid);
    return client_reply(OMIS_OS_ERROR, "no answer within %g s; the request may still be carried out", seconds);
}

/* Arms the timer for session->deadline_ns, or switches it off. Without a timer the tool gets the answer in its next
 * omis_handler. */
static void session_arm_timer(struct session *session)
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

static void timeout_watch(struct session *session, uint64_t deadline_ns)
{
    if (deadline_ns && (!session->deadline_ns || deadline_ns < session->deadline_ns))
        session->deadline_ns = deadline_ns;
    session_arm_timer(session);
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
    session_arm_timer(session);
}

enum { KEEP_BUFFER_SIZE = 1 << 20 }; /* a larger send buffer is freed when it is empty */

/* ---- the queue of deliveries, and the descriptor that shows it ---- */

static void show_queue(struct session *session)
{
    bool wanted = session->queued > 0 || session->dropped > 0;
    if (session->event_fd < 0 || wanted == session->signalled)
        return;
    uint64_t count = 1;
    ssize_t done =
        wanted ? write(session->event_fd, &count, sizeof count) : read(session->event_fd, &count, sizeof count);
    if (done == sizeof count)
        session->signalled = wanted;
}

void session_queue(struct session *session, client_callback_fn *callback, void *param, Omis_reply reply)
{
    struct delivery *delivery = NULL;
    if (callback || session->error_handler)
        delivery = malloc(sizeof *delivery);
    if (delivery) {
        *delivery = (struct delivery){NULL, callback, param, reply};
        *session->last = delivery;
        session->last = &delivery->next;
        session->queued++;
    } else {
        local_reply_free(reply);
        if (session->error_handler)
            session->dropped++;
    }
    show_queue(session);
}

struct delivery *session_next(struct session *session)
{
    if (session->dropped && !session->first) {
        Omis_reply reply = client_reply(OMIS_NO_MEMORY, "out of memory: %llu replies of the monitor were lost",
                                        (unsigned long long)session->dropped);
        session->dropped = 0;
        session_queue(session, NULL, NULL, reply);
    }
    struct delivery *delivery = session->first;
    if (delivery) {
        session->first = delivery->next;
        if (!session->first)
            session->last = &session->first;
        session->queued--;
    }
    show_queue(session);
    return delivery;
}

/* Does a pass of omis_handler also wait for room in the kernel's buffer? */
static void watch_output(struct session *session)
{
    bool wanted = session->flushing && session->sent < session->out.len;
    if (session->epoll_fd < 0 || session->fd < 0 || wanted == session->watching_output)
        return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0)};
    if (epoll_ctl(session->epoll_fd, EPOLL_CTL_MOD, session->fd, &event) == 0)
        session->watching_output = wanted;
}

int session_descriptor(struct session *session)
{
    if (session->epoll_fd >= 0)
        return session->epoll_fd;
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC), event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_fd < 0 || event_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, event_fd, &event) < 0 ||
        (session->fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, session->fd, &event) < 0)) {
        if (epoll_fd >= 0)
            close(epoll_fd);
        if (event_fd >= 0)
            close(event_fd);
        return -1;
    }
    session->epoll_fd = epoll_fd;
    session->event_fd = event_fd;
    session->signalled = session->watching_output = false;
    show_queue(session);
    watch_output(session);
    timeout_watch(session, session->deadline_ns);
    return epoll_fd;
}

/* ---- beginning and end ---- */

void session_init(struct session *session)
{
    uint32_t generation = session->generation;
    *session = (struct session){.fd = -1, .epoll_fd = -1, .event_fd = -1, .timer_fd = -1, .generation = generation + 1};
    session->last = &session->first;
}

void session_open(struct session *session, int fd, int tool_id)
{
    session->fd = fd;
    session->tool_id = tool_id;
    session->pid = getpid();
    session->open = true;
    timeout_start(&session->timeout, fd);
}

static struct pending *find_pending(struct session *session, uint32_t id)
{
    struct pending *pending = NULL;
    HASH_FIND(hh, session->pending, &id, sizeof id, pending);
    return pending;
}

static void forget_pending(struct session *session, struct pending *pending)
{
    HASH_DEL(session->pending, pending);
    free(pending);
}

/* The descriptor is taken out of the set explicitly: a forked child's copy would keep it there. */
static void close_socket(struct session *session)
{
    if (session->fd < 0)
        return;
    if (session->epoll_fd >= 0 && session->pid == getpid())
        epoll_ctl(session->epoll_fd, EPOLL_CTL_DEL, session->fd, NULL);
    close(session->fd);
    session->fd = -1;
}

void session_close(struct session *session)
{
    close_socket(session);
    if (session->epoll_fd >= 0)
        close(session->epoll_fd);
    if (session->event_fd >= 0)
        close(session->event_fd);
    if (session->timer_fd >= 0)
        close(session->timer_fd);
    struct pending *pending, *after;
    HASH_ITER(hh, session->pending, pending, after)
    {
        forget_pending(session, pending);
    }
    while (session->first) {
        struct delivery *delivery = session->first;
        session->first = delivery->next;
        local_reply_free(delivery->reply);
        free(delivery);
    }
    frame_reader_done(&session->reader);
    buf_done(&session->out);
    session_init(session);
}

/* Closes a connection that is of no use any more and tells everyone who waits for something from it. */
static void session_lose(struct session *session, const char *why)
{
    if (session->fd < 0)
        return;
    close_socket(session);
    snprintf(session->lost_why, sizeof session->lost_why, "the monitor's connection was lost: %s", why);
    buf_done(&session->out);
    session->sent = 0;
    frame_reader_done(&session->reader);
    session->reader = (struct frame_reader){0};
    struct pending *pending, *after;
    HASH_ITER(hh, session->pending, pending, after)
    {
        bool waited = session->waiter && session->waiter->id == pending->id;
        if (!pending->answered && !waited)
            session_queue(session, pending->callback, pending->param,
                          local_reply_new(OMIS_INTERNAL_ERROR, session->lost_why));
        forget_pending(session, pending);
    }
    session_queue(session, NULL, NULL, local_reply_new(OMIS_INTERNAL_ERROR, session->lost_why));
}

/* ---- sending ---- */

uint32_t session_add_request(struct session *session, struct span text, client_callback_fn *callback, void *param,
                             Omis_flags flags, unsigned timeout_ms)
{
    uint32_t id;
    do
        id = ++session->last_id;
    while (id == 0 || find_pending(session, id)); /* after four thousand million requests */
    struct pending *pending = NULL;
    if (callback) {
        pending = calloc(1, sizeof *pending);
        if (!pending)
            return 0;
        *pending = (struct pending){.id = id,
                                    .callback = callback,
                                    .param = param,
                                    .flags = flags,
                                    .timeout_ms = timeout_ms,
                                    .deadline_ns = timeout_deadline_ns(timeout_ms)};
        HASH_ADD(hh, session->pending, id, sizeof id, pending);
        if (!pending->hh.tbl) {
            free(pending);
            return 0;
        }
    }
    uint32_t word = htole32(flags);
    size_t before = session->out.len;
    frame_append(&session->out, FRAME_REQUEST, 0, id, span_of((const char *)&word, sizeof word), text);
    if (session->out.failed) {
        /* What stands in the buffer before this frame is whole. */
        session->out.failed = false;
        session->out.len = before;
        if (pending)
            forget_pending(session, pending);
        return 0;
    }
    if (pending && pending->deadline_ns)
        timeout_watch(session, pending->deadline_ns);
    return id;
}

void session_send(struct session *session)
{
    session->flushing = true;
    while (session->fd >= 0 && session->sent < session->out.len) {
        ssize_t put = send(session->fd, session->out.data + session->sent, session->out.len - session->sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS))
            break;
        if (put < 0) {
            /* It may have sent the reason before. */
            const char *reason = strerrordesc_np(errno);
            session_take_in(session, HANDLER_READ_LIMIT);
            session_lose(session, reason ? reason : "sending failed");
            return;
        }
        session->sent += (size_t)put;
    }
    if (session->sent == session->out.len) {
        session->flushing = false;
        session->sent = 0;
        if (session->out.cap > KEEP_BUFFER_SIZE)
            buf_done(&session->out);
        else
            buf_clear(&session->out);
    } else if (session->sent > KEEP_BUFFER_SIZE && session->sent > session->out.len / 2) {
        buf_drop(&session->out, session->sent);
        session->sent = 0;
    }
    watch_output(session);
}

/* ---- receiving ---- */

static Omis_reply payload_reply(struct span payload)
{
    Omis_reply reply;
    int code = reply_decode(payload, &reply);
    if (code == 0 && reply[0] && reply[0]->obj_list) /* every tool looks at element 0 */
        return reply;
    if (code == 0)
        local_reply_free(reply);
    if (code == -ENOMEM)
        return local_reply_no_memory();
    return local_reply_new(OMIS_INTERNAL_ERROR, "the monitor sent a reply that cannot be understood");
}

static void take_reply(struct session *session, uint32_t id, bool last, Omis_reply reply)
{
    struct pending *pending = find_pending(session, id);
    struct waiter *waiter = session->waiter;
    if (waiter && id != 0 && waiter->id == id && !waiter->reply)
        /* An empty last frame: the monitor suppressed a mere OK, which is the answer for a caller that waits. */
        waiter->reply = reply ? reply : local_reply_new(OMIS_OK, NULL);
    else if (reply && pending && !local_reply_unwanted(reply, pending->flags))
        session_queue(session, pending->callback, pending->param, reply);
    else
        local_reply_free(reply);
    if (pending) {
        pending->answered = true;
        if (last)
            forget_pending(session, pending);
    }
}

/* The answer to FINALIZE, or the monitor's last message. */
static void take_goodbye(struct session *session, struct span text)
{
    if (session->waiter && session->waiter->id == 0) {
        session->goodbye = true;
        return;
    }
    char why[256];
    snprintf(why, sizeof why, "the monitor closed it%s%.*s", text.len ? ": " : "", SPAN_ARG(text));
    session_lose(session, why);
}

static void take_frame(struct session *session, const struct frame *frame)
{
    switch (frame->type) {
    case FRAME_REPLY: {
        bool last = frame->flags & FRAME_LAST;
        take_reply(session, frame->id, last, last && frame->payload.len == 0 ? NULL : payload_reply(frame->payload));
        break;
    }
    case FRAME_ERROR:
        if (session->error_handler)
            session_queue(session, NULL, NULL, payload_reply(frame->payload));
        break;
    case FRAME_GOODBYE:
        take_goodbye(session, frame->payload);
        break;
    default: /* not for tools */
        break;
    }
}

/* Handles the frames that are whole. */
static void take_frames(struct session *session)
{
    while (session->fd >= 0) {
        struct frame frame;
        int code = frame_reader_next(&session->reader, &frame);
        if (code == 0)
            return;
        if (code == 1) {
            take_frame(session, &frame);
        } else if (code == -EMSGSIZE) {
            Omis_reply reply = client_reply(OMIS_INTERNAL_ERROR,
                                            "the reply was longer than %d bytes and was dropped: "
                                            "ask for less at a time",
                                            FRAME_PAYLOAD_LIMIT);
            if (frame.type == FRAME_REPLY)
                take_reply(session, frame.id, frame.flags & FRAME_LAST, reply);
            else
                session_queue(session, NULL, NULL, reply);
        } else {
            session_lose(session, "it sent bytes that are no frames of the protocol");
        }
    }
}

/* One recv. >0: bytes were read; 0: nothing there, or the connection is lost. */
static size_t session_receive(struct session *session, int flags)
{
    size_t room;
    char *to = frame_reader_room(&session->reader, &room);
    if (!to) {
        session_lose(session, "this tool has no memory left for what the monitor sends");
        return 0;
    }
    ssize_t got;
    do
        got = recv(session->fd, to, room, flags);
    while (got < 0 && errno == EINTR);
    if (got > 0) {
        frame_reader_fed(&session->reader, (size_t)got);
        take_frames(session);
        return (size_t)got;
    }
    if (got == 0) {
        session_lose(session, "the monitor has ended");
    } else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        const char *reason = strerrordesc_np(errno);
        session_lose(session, reason ? reason : "receiving failed");
    }
    return 0;
}

void session_take_in(struct session *session, size_t limit)
{
    size_t taken = 0;
    take_frames(session);
    while (session->fd >= 0 && taken < limit) {
        size_t got = session_receive(session, MSG_DONTWAIT);
        if (got == 0)
            return;
        taken += got;
    }
}

/* Waits for input, and for room if something is unsent; timeout_ms -1: no limit. false: nothing happened, or a signal came. */
static bool wait_for_socket(struct session *session, int timeout_ms)
{
    bool unsent = session->sent < session->out.len;
    int ready = wait_fd(session->fd, (short)(POLLIN | (unsent ? POLLOUT : 0)), timeout_ms);
    if (ready & (POLLIN | POLLHUP | POLLERR))
        session_take_in(session, HANDLER_READ_LIMIT);
    if (ready & POLLOUT)
        session_send(session);
    return ready;
}

void session_wait(struct session *session, struct waiter *waiter, int timeout_ms)
{
    struct err err = {0};
    if (timeout_ms >= 0)
        timeout_restart(&session->timeout, clock_now_ns());
    session->waiter = waiter;
    take_frames(session); /* what came behind WELCOME */
    session_send(session);
    while (session->fd >= 0 && !waiter->reply && !(waiter->id == 0 && session->goodbye)) {
        if (waiter->deadline_ns) {
            int left_ms = timeout_left_ms(waiter->deadline_ns);
            if (left_ms == 0)
                waiter->reply = timeout_reply(session, waiter->timeout_ms);
            else
                wait_for_socket(session, left_ms);
        } else if (timeout_ms < 0 && session->sent == session->out.len)
            session_receive(session, 0); /* the common case: one system call */
        else if (!wait_for_socket(session, timeout_ms < 0 ? -1 : (int)wait_policies[WAIT_ANSWER].look_ms) &&
                 timeout_ms >= 0 && timeout_over(&session->timeout, (unsigned)timeout_ms, &err))
            break;
    }
    session->waiter = NULL;
    if (session->fd < 0 && !waiter->reply && waiter->id != 0)
        waiter->reply = local_reply_new(OMIS_INTERNAL_ERROR, session->lost_why);
}

void session_drain(struct session *session, uint64_t deadline_ns)
{
    while (session->fd >= 0 && session->out.len - session->sent > UNSENT_LIMIT) {
        int left_ms = deadline_ns ? timeout_left_ms(deadline_ns) : -1;
        if (left_ms == 0)
            return;
        wait_for_socket(session, left_ms);
    }
}

/* ---- client.h ---- */

Omis_reply client_reply(Omis_status status, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return local_reply_new(status, text);
}
