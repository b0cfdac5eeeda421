/* SPDX-License-Identifier: Apache-2.0 */
/* The end that dials: link_run. Until it gives up, a broken connection is replaced by another one. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "link/dialler.h"
#include "link/end.h"
#include "link/link.h"
#include "shm/waits.h"
#include "wire/frame.h"

enum { READ_BYTES = 4096, CROWDED_TRIES = 5 };
static const uint64_t LEASE_NS = LINK_LEASE_SECONDS * (uint64_t)NS_PER_SECOND;
static const uint64_t GREETING_NS = LINK_GREETING_SECONDS * (uint64_t)NS_PER_SECOND;

struct runner {
    struct loop *loop;
    const struct link_way *way;
    struct end end;
    struct dialler dialler;
    struct transport *transport; /* on which the other end has not said hello yet */
    struct loop_source *source, *timer;
    struct buf in, hello;
    size_t sent;      /* of hello */
    unsigned crowded; /* tries at which too many others came */
    bool missed;      /* there was no scry */
    bool answered;    /* the other end has had the session: it is resumed, and never made again */
    uint64_t lost_ns; /* since when no connection was of use; 0: this one may be */
    uint64_t up_ns;   /* since when it is connected */
    uint64_t wait_ns; /* before the next try */
    uint32_t passed;  /* messages, when the connection began */
    int status;
};

static void dial(struct runner *runner);

int link_refuse(int fd, const struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    frame_append(&out, FRAME_GOODBYE, 0, 0, span_str(err->text), span_of("", 0));
    if (!out.failed && send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return 1;
    return 1;
}

/* The local side is told why, unless a frame has only begun there: then it sees that the connection has ended. */
static void give_up(struct runner *runner, const struct err *err)
{
    struct end *end = &runner->end;
    runner->status = 1;
    if (runner->way->secret) /* what is there is a monitor, which did not ask */
        log_error("%s", err->text);
    else if (end->local >= 0 && !end->to_local.len && frame_edges_between(&end->edges))
        link_refuse(end->local, err);
    loop_stop(runner->loop);
}

static void drop_transport(struct runner *runner)
{
    loop_remove(runner->source);
    runner->source = NULL;
    dialler_stop(&runner->dialler);
    transport_free(runner->transport);
    runner->transport = NULL;
    buf_done(&runner->in);
}

/* Before there is a session: whether to try again. *why is what to say, if not. */
static bool mended(struct runner *runner, struct err *why)
{
    const struct link_first *first = runner->way->first;
    uint16_t random = 0;
    if (why->code == -EBUSY && runner->crowded++ < CROWDED_TRIES) {
        (void)!getrandom(&random, sizeof random, 0); /* those who came together do not come back together */
        loop_set_timer(runner->timer, (LINK_CROWDED_NS << runner->crowded) * (1 + random) >> 16, 0);
        return true;
    }
    if (why->code != -ENOPKG || !first || runner->missed)
        return false;
    runner->missed = true;
    if (first->missing(first->ctx, why) < 0)
        return false;
    loop_set_timer(runner->timer, 1, 0);
    return true;
}

/* Tries again, unless that is of no use. */
static void failed(struct runner *runner, const struct err *why)
{
    uint64_t now = clock_now_ns();
    bool in_vain = why->code == -EACCES || why->code == -EINVAL || why->code == -ENOPKG;
    drop_transport(runner);
    if (!runner->lost_ns)
        runner->lost_ns = now;
    if (!runner->answered || in_vain) {
        struct err said = *why;
        if (runner->answered || !mended(runner, &said))
            give_up(runner, &said);
    } else if (now - runner->lost_ns > time_hasten(LEASE_NS)) {
        struct err err;
        err_set(&err, -ETIMEDOUT, "the connection to %s was lost %d s ago: %s", runner->way->shown, LINK_LEASE_SECONDS,
                why->text);
        give_up(runner, &err);
    } else {
        loop_set_timer(runner->timer, runner->wait_ns, 0);
        runner->wait_ns = 2 * runner->wait_ns < LINK_LONGEST_NS ? 2 * runner->wait_ns : LINK_LONGEST_NS;
    }
}

/* ---- the greeting ---- */

static uint32_t passed(const struct runner *runner)
{
    return runner->end.channel.received + runner->end.channel.acknowledged;
}

static void greeted(struct runner *runner, size_t took)
{
    struct transport *transport = TAKE_PTR(runner->transport);
    struct buf in = runner->in;
    runner->in = BUF_INIT;
    loop_remove(runner->source);
    runner->source = NULL;
    if (!runner->answered && runner->way->first)
        runner->way->first->begun(runner->way->first->ctx);
    runner->answered = true;
    runner->up_ns = clock_now_ns();
    runner->passed = passed(runner);
    loop_set_timer(runner->timer, UINT64_MAX / 4, 0);
    if (end_attach_take(&runner->end, transport, span_of(in.data + took, in.len - took)) < 0) {
        struct err err;
        err_set(&err, -ENOMEM, "out of memory");
        failed(runner, &err);
    }
    buf_done(&in);
}

static void take_hello(struct runner *runner)
{
    struct hello hello;
    struct err err;
    ssize_t took = hello_parse(span_of(runner->in.data, runner->in.len), runner->transport->noisy, &hello);
    if (took == 0)
        return;
    if (took < 0)
        err_set(&err, -EPROTO, "%s: what answers there is no link of scry", runner->way->shown);
    else if (hello.version != HELLO_VERSION)
        err_set(&err, -EINVAL,
                "%s: its scry %s speaks version %u of the link, this one (" SCRY_VERSION
                ") version %d: install the same",
                runner->way->shown, hello.text, hello.version, HELLO_VERSION);
    else if (memcmp(hello.session, runner->end.channel.session, CHANNEL_SESSION) != 0)
        err_set(&err, -EPROTO, "%s: what answers there means another session", runner->way->shown);
    else {
        greeted(runner, (size_t)took);
        return;
    }
    failed(runner, &err);
}

static void on_greeting(void *ctx, int fd, uint32_t events)
{
    struct runner *runner = ctx;
    struct err err = {0}, why = {0};
    (void)fd;
    (void)events;
    while (runner->sent < runner->hello.len) {
        ssize_t put = transport_write(runner->transport, runner->hello.data + runner->sent,
                                      runner->hello.len - runner->sent, &why);
        if (put < 0)
            break; /* what the other end says tells why */
        runner->sent += (size_t)put;
    }
    if (runner->sent == runner->hello.len)
        loop_set_events(runner->source, EPOLLIN);
    for (;;) {
        char *room = buf_reserve(&runner->in, READ_BYTES);
        ssize_t got = room ? transport_read(runner->transport, room, READ_BYTES, &why) : -ENOMEM;
        if (got == -EAGAIN)
            break;
        if (got <= 0) {
            err_set(&err, why.code ? why.code : -ECONNRESET, "%s: %s", runner->way->shown,
                    why.code ? why.text : "it closed the connection without a word");
            transport_why(runner->transport, &err);
            failed(runner, &err);
            return;
        }
        runner->in.len += (size_t)got;
        take_hello(runner);
        if (!runner->transport)
            return;
    }
}

/* ---- the connection ---- */

static int say_hello(struct runner *runner)
{
    struct hello hello = {.version = HELLO_VERSION, .flags = runner->answered ? HELLO_RESUME : 0};
    memcpy(hello.session, runner->end.channel.session, CHANNEL_SESSION);
    snprintf(hello.text, sizeof hello.text, "%s", runner->way->job);
    buf_clear(&runner->hello);
    hello_put(&runner->hello, &hello);
    runner->sent = 0;
    runner->source = loop_add_fd(runner->loop, runner->transport->fd, EPOLLIN | EPOLLOUT, on_greeting, runner);
    return runner->source && !runner->hello.failed ? 0 : -ENOMEM;
}

static void on_dialled(void *ctx, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    dial(ctx);
}

/* Until then. */
static int wait_dialled(struct runner *runner, const struct dialler_wait *wait)
{
    uint64_t now = clock_now_ns();
    runner->source = loop_add_fd(runner->loop, wait->fd, wait->events, on_dialled, runner);
    loop_set_timer(runner->timer, now < wait->until_ns ? wait->until_ns - now : 1, 0);
    return runner->source ? 0 : -ENOMEM;
}

/* Begins, or goes on. */
static void dial(struct runner *runner)
{
    struct dialler_wait wait;
    struct err err;
    loop_remove(runner->source);
    runner->source = NULL;
    int code = dialler_step(&runner->dialler, &runner->transport, &wait, &err);
    bool waits = code == -EAGAIN;
    if (waits)
        code = wait_dialled(runner, &wait);
    else if (code == 0)
        code = say_hello(runner);
    if (code == -ENOMEM)
        err_set(&err, code, "out of memory");
    if (code < 0)
        failed(runner, &err);
    else if (!waits)
        loop_set_timer(runner->timer, GREETING_NS, 0);
}

static void on_timer(void *ctx)
{
    struct runner *runner = ctx;
    struct err err;
    if (!runner->transport) {
        dial(runner);
        return;
    }
    err_set(&err, -ETIMEDOUT, "%s: it does not answer (%d s)", runner->way->shown, LINK_GREETING_SECONDS);
    failed(runner, &err);
}

static void on_lost(void *ctx, const struct err *why)
{
    struct runner *runner = ctx;
    bool lasted = clock_now_ns() - runner->up_ns > time_hasten(LINK_DEAD_SECONDS * (uint64_t)NS_PER_SECOND);
    if (lasted || passed(runner) != runner->passed) { /* else it would go on like this for ever */
        runner->wait_ns = LINK_FIRST_NS;
        runner->lost_ns = 0;
    }
    failed(runner, why);
}

static void on_over(void *ctx, const char *why)
{
    struct runner *runner = ctx;
    struct err err;
    err_set(&err, -ECONNRESET, "%s", why);
    if (*why)
        give_up(runner, &err);
    loop_stop(runner->loop);
}

int link_run(const struct link_way *way, int fd)
{
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    struct runner runner = {.way = way, .wait_ns = LINK_FIRST_NS};
    uint8_t session[CHANNEL_SESSION];
    struct err err;
    dialler_init(&runner.dialler, way);
    int code = getrandom(session, sizeof session, 0) == sizeof session ? loop_new(&runner.loop) : -EIO;
    if (code < 0) {
        err_errno(&err, code, "the link cannot begin");
        code = link_refuse(fd, &err);
        close(fd);
        return code;
    }
    code = end_init(&runner.end, runner.loop, session, &events, &runner);
    runner.end.lingers = true;
    runner.timer = loop_add_timer(runner.loop, 1, 0, on_timer, &runner);
    if (end_set_local_take(&runner.end, fd) < 0 || code < 0 || !runner.timer) {
        err_set(&err, -ENOMEM, "out of memory");
        give_up(&runner, &err);
    }
    if (loop_run(runner.loop) < 0)
        runner.status = 1;
    drop_transport(&runner);
    dialler_done(&runner.dialler);
    end_done(&runner.end);
    loop_free(runner.loop);
    buf_done(&runner.hello);
    return runner.status;
}
