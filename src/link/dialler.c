/* SPDX-License-Identifier: Apache-2.0 */
#include "link/dialler.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/system/clock.h"
#include "shm/waits.h"

void dialler_init(struct dialler *dialler, const struct link_way *way)
{
    *dialler = (struct dialler){.way = way, .fd = -1};
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

/* ---- the socket ---- */

static int look_up(struct dialler *dialler, struct err *err)
{
    const struct link_way *way = dialler->way;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV};
    char service[8];
    if (dialler->addresses)
        return 0;
    snprintf(service, sizeof service, "%u", way->port);
    int failed = getaddrinfo(way->host, service, &hints, &dialler->addresses);
    if (failed == EAI_NONAME ||
        failed == EAI_ADDRFAMILY) { /* an address of a kind that this machine has only on loopback */
        hints.ai_flags = AI_NUMERICSERV;
        failed = getaddrinfo(way->host, service, &hints, &dialler->addresses);
    }
    if (!failed)
        return 0;
    dialler->addresses = NULL;
    return err_set(err, -ENOENT, "%s: there is no host of this name: %s", way->host, gai_strerror(failed));
}

/* Begins with the address `at`. 0 or -errno. */
static int begin_address(struct dialler *dialler)
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

/* What became of it: 0, -EAGAIN or -errno. */
static int end_address(const struct dialler *dialler)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct pollfd ready = {.fd = dialler->fd, .events = POLLOUT};
    if (poll(&ready, 1, 0) <= 0)
        return clock_now_ns() < dialler->at_until_ns ? -EAGAIN : -ETIMEDOUT;
    return getsockopt(dialler->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 ? -errno : -error;
}

static int say_why(const struct link_way *way, int code, struct err *err)
{
    if (code == -ECONNREFUSED)
        return err_set(err, code, "%s: nobody listens at port %u: `scry monitor --listen` there", way->host, way->port);
    if (code == -ETIMEDOUT)
        return err_set(err, code, "%s: it does not answer at port %u (%d s)", way->host, way->port, LINK_DIAL_SECONDS);
    return err_errno(err, code, "%s, port %u", way->host, way->port);
}

/* One address after the other, until one is connected. */
static int step_socket(struct dialler *dialler, struct err *err)
{
    for (;;) {
        int code = dialler->fd >= 0 ? 0 : begin_address(dialler);
        if (code == 0)
            code = end_address(dialler);
        if (code == 0 || code == -EAGAIN)
            return code;
        closep(&dialler->fd);
        dialler->fd = -1;
        dialler->at = dialler->at->ai_next;
        if (!dialler->at || clock_now_ns() >= dialler->until_ns)
            return say_why(dialler->way, code, err);
    }
}

/* ---- TLS ---- */

/* Who we are is asked once: later the file may be another one. */
static int own_key(const struct key **ret_key, struct err *err)
{
    static struct key *key;
    int code = key ? 0 : key_own(&key, err);
    *ret_key = key;
    return code;
}

static int make_tls(struct dialler *dialler, struct err *err)
{
    const struct key *key = NULL;
    if (dialler->way->secret)
        return tls_new_shared(&dialler->tls, dialler->way->secret, false, err);
    int code = own_key(&key, err);
    return code == 0 ? tls_new(&dialler->tls, key, false, err) : code;
}

static int begin_tls(struct dialler *dialler, struct err *err)
{
    dialler->at = NULL;
    int code = tls_transport(dialler->tls, TAKE_FD(dialler->fd), &dialler->transport, err);
    if (code == 0)
        dialler->transport->tls = TAKE_PTR(dialler->tls);
    return code;
}

static int step_tls(struct dialler *dialler, struct err *err)
{
    const struct link_way *way = dialler->way;
    struct err why = {0};
    int code = dialler->transport ? 0 : begin_tls(dialler, &why);
    if (code == 0)
        code = transport_shake(dialler->transport, &why);
    if (code == -EAGAIN && clock_now_ns() >= dialler->until_ns)
        code = err_set(&why, -ETIMEDOUT, "it does not answer");
    return code == 0 || code == -EAGAIN ? code : err_set(err, code, "%s, port %u: %s", way->host, way->port, why.text);
}

/* ---- the steps ---- */

static int begin(struct dialler *dialler, struct err *err)
{
    int code = make_tls(dialler, err);
    if (code == 0)
        code = look_up(dialler, err);
    dialler->at = dialler->addresses;
    dialler->until_ns = clock_now_ns() + LINK_DIAL_SECONDS * (uint64_t)NS_PER_SECOND;
    return code;
}

int dialler_step(struct dialler *dialler, struct transport **ret_transport, struct dialler_wait *ret_wait,
                 struct err *err)
{
    const struct link_way *way = dialler->way;
    if (way->kind == LINK_SSH)
        return link_over_ssh(way, way->remote ? way->remote : link_remote_command(), ret_transport, err);
    int code = dialler->at || dialler->transport ? 0 : begin(dialler, err);
    if (code == 0 && dialler->at) {
        code = step_socket(dialler, err);
        *ret_wait = (struct dialler_wait){dialler->fd, POLLOUT, dialler->at_until_ns};
    }
    if (code == 0) {
        code = step_tls(dialler, err);
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
    while ((code = dialler_step(dialler, ret_transport, &wait, err)) == -EAGAIN) {
        uint64_t now = clock_now_ns();
        struct pollfd ready = {.fd = wait.fd, .events = (short)wait.events};
        if (poll(&ready, 1, now < wait.until_ns ? (int)((wait.until_ns - now) / 1000000) + 1 : 0) < 0 &&
            errno != EINTR) {
            code = err_errno(err, -errno, "cannot wait");
            dialler_stop(dialler);
            break;
        }
    }
    return code;
}
