/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end that dials: the names of endpoints on another machine, a connection made step by step, and link_run, which makes another
 * one when it breaks.
 */

#include "link/link.h"

#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "link/end.h"
#include "shm/waits.h"
#include "wire/frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

/* ---- names: tls://HOST:PORT[/JOB], ssh://[USER@]HOST[:PORT], and what ssh alone takes ---- */

/* What names of hosts and users are made of; % is for the zone of an address. As an argument of ssh a beginning '-' would
 * be an option, and ssh's configuration may put such a name into a command for a shell. */
static bool is_name(const char *text, const char *more)
{
    if (!*text || *text == '-')
        return false;
    for (const char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("-._", *c) ||
              strchr(more, *c)))
            return false;
    return true;
}

/* HOST, HOST:PORT, [ADDRESS], [ADDRESS]:PORT; an address with several colons and without brackets has no port. */
static int endpoint_take_host(char *text, struct link_endpoint *endpoint, const char *whole, struct err *err)
{
    char *port = NULL, *close = text[0] == '[' ? strchr(text, ']') : NULL;
    if (close && (close[1] == ':' || !close[1])) {
        port = close[1] ? close + 2 : NULL;
        *close = 0;
        text++;
    } else if (strchr(text, ':') && strchr(text, ':') == strrchr(text, ':')) {
        port = strchr(text, ':');
        *port++ = 0;
    }
    if (!is_name(text, ":%"))
        return err_set(err, -EINVAL, "%s: \"%s\" is no name or address of a host", whole, text);
    snprintf(endpoint->host, sizeof endpoint->host, "%s", text);
    if (!port)
        return 0;
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (*port < '0' || *port > '9' || *end || !number || number > 65535)
        return err_set(err, -EINVAL, "%s: a port is a number from 1 to 65535, not \"%s\"", whole, port);
    endpoint->port = (uint16_t)number;
    return 0;
}

static int endpoint_take_ssh(char *text, struct link_endpoint *endpoint, const char *whole, struct err *err)
{
    char *at = strrchr(text, '@');
    endpoint->kind = LINK_SSH;
    if (at) {
        *at = 0;
        if (strchr(text, ':')) /* the error must not show it */
            return err_set(err, -EINVAL, "the name of a node has no password: give ssh a key (ssh-copy-id)");
        if (!is_name(text, "+@"))
            return err_set(err, -EINVAL, "%s: \"%s\" is no name of a user", whole, text);
        snprintf(endpoint->user, sizeof endpoint->user, "%s", text);
        text = at + 1;
    }
    return endpoint_take_host(text, endpoint, whole, err);
}

static int endpoint_take_tls(char *text, struct link_endpoint *endpoint, const char *whole, struct err *err)
{
    char *job = strchr(text, '/');
    endpoint->kind = LINK_TLS;
    if (job) {
        *job++ = 0;
        if (strchr(job, '/') || job[0] == '.')
            return err_set(err, -EINVAL, "%s: \"%s\" is no id or name of a job", whole, job);
        snprintf(endpoint->job, sizeof endpoint->job, "%s", job);
    }
    int code = endpoint_take_host(text, endpoint, whole, err);
    if (code == 0 && !endpoint->port)
        code =
            err_set(err, -EINVAL, "%s: a port is missing: tls://HOST:PORT, as `scry monitor --listen` has it", whole);
    return code;
}

static int endpoint_begin(const char *text, char copy[LINK_NAME], struct link_endpoint *endpoint, struct err *err)
{
    *endpoint = (struct link_endpoint){.kind = LINK_SSH};
    if (!*text)
        return err_set(err, -EINVAL,
                       "the name of a node is missing: HOST, USER@HOST, ssh://HOST:PORT or tls://HOST:PORT");
    if (strlen(text) >= LINK_NAME)
        return err_set(err, -EINVAL, "the name of a node has at most %d bytes", LINK_NAME - 1);
    for (const char *c = text; *c; c++)
        if (*c < ' ' || *c == 127) /* as a signed char also what is no ASCII */
            return err_set(err, -EINVAL, "the name of a node is made of letters, digits, dots and dashes");
    snprintf(copy, LINK_NAME, "%s", text);
    snprintf(endpoint->shown, sizeof endpoint->shown, "%s", text);
    return 0;
}

int link_endpoint_parse(const char *text, struct link_endpoint *ret_endpoint, struct err *err)
{
    char copy[LINK_NAME];
    int code = endpoint_begin(text, copy, ret_endpoint, err);
    if (code < 0)
        return code;
    if (strncmp(text, "tls://", 6) == 0)
        return endpoint_take_tls(copy + 6, ret_endpoint, text, err);
    if (strncmp(text, "ssh://", 6) != 0)
        return err_set(err, -EINVAL, "\"%s\" is no way to another machine: tls://HOST:PORT or ssh://[USER@]HOST[:PORT]",
                       text);
    size_t len = strlen(copy);
    if (len && copy[len - 1] == '/')
        copy[len - 1] = 0;
    return endpoint_take_ssh(copy + 6, ret_endpoint, text, err);
}

int link_endpoint_node(const char *text, struct link_endpoint *ret_endpoint, struct err *err)
{
    char copy[LINK_NAME];
    if (strstr(text, "://"))
        return link_endpoint_parse(text, ret_endpoint, err);
    int code = endpoint_begin(text, copy, ret_endpoint, err);
    if (code == 0)
        code = endpoint_take_ssh(copy, ret_endpoint, text, err);
    return code == 0 && ret_endpoint->port
               ? err_set(err, -EINVAL, "%s: a host with a port is written ssh://HOST:PORT", text)
               : code;
}

/* ---- a connection, step by step ---- */

void dialler_init(struct dialler *dialler, const struct link_endpoint *endpoint)
{
    *dialler = (struct dialler){.endpoint = endpoint, .fd = -1};
}

void dialler_stop(struct dialler *dialler)
{
    closep(&dialler->fd);
    dialler->fd = -1;
    dialler->at = NULL;
    tls_free(TAKE_PTR(dialler->tls));
    transport_free(TAKE_PTR(dialler->transport));
}

void dialler_done(struct dialler *dialler)
{
    dialler_stop(dialler);
    if (dialler->addresses)
        freeaddrinfo(dialler->addresses);
    dialler->addresses = NULL;
}

static int dialler_look_up(struct dialler *dialler, struct err *err)
{
    const struct link_endpoint *endpoint = dialler->endpoint;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    char service[8];
    if (dialler->addresses)
        return 0;
    snprintf(service, sizeof service, "%u", endpoint->port);
    int failed = getaddrinfo(endpoint->host, service, &hints, &dialler->addresses);
    if (failed == EAI_NONAME ||
        failed == EAI_ADDRFAMILY) { /* an address of a kind that this machine has only on loopback */
        hints.ai_flags = AI_NUMERICSERV;
        failed = getaddrinfo(endpoint->host, service, &hints, &dialler->addresses);
    }
    if (!failed)
        return 0;
    dialler->addresses = NULL;
    return err_set(err, -ENOENT, "%s: there is no host of this name: %s", endpoint->host, gai_strerror(failed));
}

/* Begins with the address `at`. 0 or -errno. */
static int address_begin(struct dialler *dialler)
{
    const struct addrinfo *at = dialler->at;
    uint64_t most = clock_now_ns() + LINK_ADDRESS_SECONDS * (uint64_t)NS_PER_SECOND;
    int yes = 1;
    dialler->at_until_ns = at->ai_next && most < dialler->until_ns ? most : dialler->until_ns;
    dialler->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dialler->fd < 0)
        return -errno;
    setsockopt(dialler->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return connect(dialler->fd, at->ai_addr, at->ai_addrlen) < 0 && errno != EINPROGRESS ? -errno : 0;
}

/* What became of the address: 0, -EAGAIN or -errno. */
static int address_result(const struct dialler *dialler)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (!wait_fd(dialler->fd, POLLOUT, 0))
        return clock_now_ns() < dialler->at_until_ns ? -EAGAIN : -ETIMEDOUT;
    return getsockopt(dialler->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? -errno : -error;
}

static int address_error(const struct link_endpoint *endpoint, int code, struct err *err)
{
    if (code == -ECONNREFUSED)
        return err_set(err, code, "%s: nobody listens at port %u: `scry monitor --listen` there", endpoint->host,
                       endpoint->port);
    if (code == -ETIMEDOUT)
        return err_set(err, code, "%s: it does not answer at port %u (%d s)", endpoint->host, endpoint->port,
                       LINK_DIAL_SECONDS);
    return err_errno(err, code, "%s, port %u", endpoint->host, endpoint->port);
}

/* One address after the other, until one is connected. */
static int dialler_step_socket(struct dialler *dialler, struct err *err)
{
    for (;;) {
        int code = dialler->fd >= 0 ? 0 : address_begin(dialler);
        if (code == 0)
            code = address_result(dialler);
        if (code == 0 || code == -EAGAIN)
            return code;
        closep(&dialler->fd);
        dialler->fd = -1;
        dialler->at = dialler->at->ai_next;
        if (!dialler->at || clock_now_ns() >= dialler->until_ns)
            return address_error(dialler->endpoint, code, err);
    }
}

/* Who we are is asked once: later the file may be another one. */
static int dialler_make_tls(struct dialler *dialler, struct err *err)
{
    static struct key *key;
    if (dialler->endpoint->secret)
        return tls_new_shared(&dialler->tls, dialler->endpoint->secret, false, err);
    int code = key ? 0 : key_own(&key, err);
    return code == 0 ? tls_new(&dialler->tls, key, false, err) : code;
}

static int dialler_step_tls(struct dialler *dialler, struct err *err)
{
    const struct link_endpoint *endpoint = dialler->endpoint;
    struct err why = {0};
    int code = 0;
    if (!dialler->transport) {
        dialler->at = NULL;
        code = tls_transport(dialler->tls, TAKE_FD(dialler->fd), &dialler->transport, &why);
        if (code == 0)
            dialler->transport->tls = TAKE_PTR(dialler->tls);
    }
    if (code == 0)
        code = transport_shake(dialler->transport, &why);
    if (code == -EAGAIN && clock_now_ns() >= dialler->until_ns)
        code = err_set(&why, -ETIMEDOUT, "it does not answer");
    return code == 0 || code == -EAGAIN
               ? code
               : err_set(err, code, "%s, port %u: %s", endpoint->host, endpoint->port, why.text);
}

static int dialler_begin(struct dialler *dialler, struct err *err)
{
    int code = dialler_make_tls(dialler, err);
    if (code == 0)
        code = dialler_look_up(dialler, err);
    dialler->at = dialler->addresses;
    dialler->until_ns = clock_now_ns() + LINK_DIAL_SECONDS * (uint64_t)NS_PER_SECOND;
    return code;
}

int dialler_step(struct dialler *dialler, struct transport **ret_transport, struct dialler_wait *ret_wait,
                 struct err *err)
{
    const struct link_endpoint *endpoint = dialler->endpoint;
    if (endpoint->kind == LINK_SSH)
        return link_over_ssh(endpoint, endpoint->remote ? endpoint->remote : link_remote_command(), ret_transport, err);
    int code = dialler->at || dialler->transport ? 0 : dialler_begin(dialler, err);
    if (code == 0 && dialler->at) {
        code = dialler_step_socket(dialler, err);
        *ret_wait = (struct dialler_wait){dialler->fd, POLLOUT, dialler->at_until_ns};
    }
    if (code == 0) {
        code = dialler_step_tls(dialler, err);
        if (code == -EAGAIN)
            *ret_wait = (struct dialler_wait){dialler->transport->fd,
                                              dialler->transport->wants_output ? POLLOUT : POLLIN, dialler->until_ns};
    }
    if (code == 0)
        *ret_transport = TAKE_PTR(dialler->transport);
    else if (code != -EAGAIN)
        dialler_stop(dialler);
    return code;
}

int dialler_connect(struct dialler *dialler, struct transport **ret_transport, struct err *err)
{
    struct dialler_wait wait;
    int code;
    while ((code = dialler_step(dialler, ret_transport, &wait, err)) == -EAGAIN)
        wait_fd_until(wait.fd, (short)wait.events, wait.until_ns);
    return code;
}

/* ---- a session: until it is given up, a broken connection is replaced by another one ---- */

enum { READ_BYTES = 4096, CROWDED_TRIES = 5 };
static const uint64_t LEASE_NS = LINK_LEASE_SECONDS * (uint64_t)NS_PER_SECOND;
static const uint64_t GREETING_NS = LINK_GREETING_SECONDS * (uint64_t)NS_PER_SECOND;

struct runner {
    struct loop *loop;
    const struct link_endpoint *endpoint;
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

static void runner_dial(struct runner *runner);

int link_refuse(int fd, const struct err *err)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    frame_append(&out, FRAME_GOODBYE, 0, 0, span_str(err->text), span_of("", 0));
    if (!out.failed && send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return 1;
    return 1;
}

/* The local side is told why, unless a frame has only begun there: then it sees that the connection has ended. */
static void runner_give_up(struct runner *runner, const struct err *err)
{
    struct end *end = &runner->end;
    runner->status = 1;
    if (runner->endpoint->secret) /* what is there is a monitor, which did not ask */
        log_error("%s", err->text);
    else if (end->local >= 0 && !end->to_local.len && frame_edges_between(&end->edges))
        link_refuse(end->local, err);
    loop_stop(runner->loop);
}

static void runner_drop_transport(struct runner *runner)
{
    loop_remove(runner->source);
    runner->source = NULL;
    dialler_stop(&runner->dialler);
    transport_free(runner->transport);
    runner->transport = NULL;
    buf_done(&runner->in);
}

/* Before there is a session: whether to try again. *why is what to say, if not. */
static bool runner_mends(struct runner *runner, struct err *why)
{
    const struct link_first *first = runner->endpoint->first;
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
static void runner_failed(struct runner *runner, const struct err *why)
{
    uint64_t now = clock_now_ns();
    bool in_vain = why->code == -EACCES || why->code == -EINVAL || why->code == -ENOPKG;
    runner_drop_transport(runner);
    if (!runner->lost_ns)
        runner->lost_ns = now;
    if (!runner->answered || in_vain) {
        struct err said = *why;
        if (runner->answered || !runner_mends(runner, &said))
            runner_give_up(runner, &said);
    } else if (now - runner->lost_ns > time_hasten(LEASE_NS)) {
        struct err err;
        err_set(&err, -ETIMEDOUT, "the connection to %s was lost %d s ago: %s", runner->endpoint->shown,
                LINK_LEASE_SECONDS, why->text);
        runner_give_up(runner, &err);
    } else {
        loop_set_timer(runner->timer, runner->wait_ns, 0);
        runner->wait_ns = 2 * runner->wait_ns < LINK_LONGEST_NS ? 2 * runner->wait_ns : LINK_LONGEST_NS;
    }
}

static uint32_t messages_passed(const struct runner *runner)
{
    return runner->end.channel.received + runner->end.channel.acknowledged;
}

static void runner_greeted(struct runner *runner, size_t took)
{
    struct transport *transport = TAKE_PTR(runner->transport);
    struct buf in = runner->in;
    runner->in = BUF_INIT;
    loop_remove(runner->source);
    runner->source = NULL;
    if (!runner->answered && runner->endpoint->first)
        runner->endpoint->first->begun(runner->endpoint->first->ctx);
    runner->answered = true;
    runner->up_ns = clock_now_ns();
    runner->passed = messages_passed(runner);
    loop_set_timer(runner->timer, UINT64_MAX / 4, 0);
    if (end_attach_take(&runner->end, transport, span_of(in.data + took, in.len - took)) < 0) {
        struct err err;
        err_set(&err, -ENOMEM, "out of memory");
        runner_failed(runner, &err);
    }
    buf_done(&in);
}

static void runner_take_hello(struct runner *runner)
{
    struct hello hello;
    struct err err;
    ssize_t took = hello_parse(span_of(runner->in.data, runner->in.len), runner->transport->noisy, &hello);
    if (took == 0)
        return;
    if (took < 0)
        err_set(&err, -EPROTO, "%s: what answers there is no link of scry", runner->endpoint->shown);
    else if (hello.version != HELLO_VERSION)
        err_set(&err, -EINVAL,
                "%s: its scry %s speaks version %u of the link, this one (" SCRY_VERSION
                ") version %d: install the same",
                runner->endpoint->shown, hello.text, hello.version, HELLO_VERSION);
    else if (memcmp(hello.session, runner->end.channel.session, CHANNEL_SESSION) != 0)
        err_set(&err, -EPROTO, "%s: what answers there means another session", runner->endpoint->shown);
    else {
        runner_greeted(runner, (size_t)took);
        return;
    }
    runner_failed(runner, &err);
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
            err_set(&err, why.code ? why.code : -ECONNRESET, "%s: %s", runner->endpoint->shown,
                    why.code ? why.text : "it closed the connection without a word");
            transport_why(runner->transport, &err);
            runner_failed(runner, &err);
            return;
        }
        runner->in.len += (size_t)got;
        runner_take_hello(runner);
        if (!runner->transport)
            return;
    }
}

static int runner_say_hello(struct runner *runner)
{
    struct hello hello = {.version = HELLO_VERSION, .flags = runner->answered ? HELLO_RESUME : 0};
    memcpy(hello.session, runner->end.channel.session, CHANNEL_SESSION);
    snprintf(hello.text, sizeof hello.text, "%s", runner->endpoint->job);
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
    runner_dial(ctx);
}

/* Begins, or goes on. */
static void runner_dial(struct runner *runner)
{
    struct dialler_wait wait;
    struct err err;
    loop_remove(runner->source);
    runner->source = NULL;
    int code = dialler_step(&runner->dialler, &runner->transport, &wait, &err);
    bool waits = code == -EAGAIN;
    if (waits) {
        uint64_t now = clock_now_ns();
        runner->source = loop_add_fd(runner->loop, wait.fd, wait.events, on_dialled, runner);
        loop_set_timer(runner->timer, now < wait.until_ns ? wait.until_ns - now : 1, 0);
        code = runner->source ? 0 : -ENOMEM;
    } else if (code == 0)
        code = runner_say_hello(runner);
    if (code == -ENOMEM)
        err_set(&err, code, "out of memory");
    if (code < 0)
        runner_failed(runner, &err);
    else if (!waits)
        loop_set_timer(runner->timer, GREETING_NS, 0);
}

static void on_timer(void *ctx)
{
    struct runner *runner = ctx;
    struct err err;
    if (!runner->transport) {
        runner_dial(runner);
        return;
    }
    err_set(&err, -ETIMEDOUT, "%s: it does not answer (%d s)", runner->endpoint->shown, LINK_GREETING_SECONDS);
    runner_failed(runner, &err);
}

static void on_lost(void *ctx, const struct err *why)
{
    struct runner *runner = ctx;
    bool lasted = clock_now_ns() - runner->up_ns > time_hasten(LINK_DEAD_SECONDS * (uint64_t)NS_PER_SECOND);
    if (lasted || messages_passed(runner) != runner->passed) { /* else it would go on like this for ever */
        runner->wait_ns = LINK_FIRST_NS;
        runner->lost_ns = 0;
    }
    runner_failed(runner, why);
}

static void on_over(void *ctx, const char *why)
{
    struct runner *runner = ctx;
    struct err err;
    err_set(&err, -ECONNRESET, "%s", why);
    if (*why)
        runner_give_up(runner, &err);
    loop_stop(runner->loop);
}

int link_run(const struct link_endpoint *endpoint, int fd)
{
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    struct runner runner = {.endpoint = endpoint, .wait_ns = LINK_FIRST_NS};
    uint8_t session[CHANNEL_SESSION];
    struct err err;
    dialler_init(&runner.dialler, endpoint);
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
        runner_give_up(&runner, &err);
    }
    if (loop_run(runner.loop) < 0)
        runner.status = 1;
    runner_drop_transport(&runner);
    dialler_done(&runner.dialler);
    end_done(&runner.end);
    loop_free(runner.loop);
    buf_done(&runner.hello);
    return runner.status;
}
