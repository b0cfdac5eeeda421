/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to the other end, made within a limited time. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/system/clock.h"
#include "link/link.h"

enum { ADDRESS_SECONDS = 3 /* for one of several addresses */ };

static int left_ms(uint64_t until)
{
    uint64_t now = clock_now_ns();
    return now < until ? (int)((until - now) / 1000000) + 1 : 0;
}

/* The descriptor or -errno. */
static int connect_address(const struct addrinfo *address, uint64_t until)
{
    int error = 0, yes = 1;
    socklen_t len = sizeof error;
    _cleanup_(closep) int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(fd, address->ai_addr, address->ai_addrlen) < 0 && errno != EINPROGRESS)
        return -errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int count;
    while ((count = poll(&ready, 1, left_ms(until))) < 0 && errno == EINTR)
        ;
    if (count == 0)
        return -ETIMEDOUT;
    if (count < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        return -errno;
    return error ? -error : TAKE_FD(fd);
}

static int connect_host(const char *host, uint16_t port, uint64_t until, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV}, *list = NULL;
    char service[8];
    int code = -ENOENT;
    snprintf(service, sizeof service, "%u", port);
    int failed = getaddrinfo(host, service, &hints, &list);
    if (failed == EAI_NONAME ||
        failed == EAI_ADDRFAMILY) { /* an address of a kind that this machine has only on loopback */
        hints.ai_flags = AI_NUMERICSERV;
        failed = getaddrinfo(host, service, &hints, &list);
    }
    if (failed)
        return err_set(err, -ENOENT, "%s: there is no host of this name: %s", host, gai_strerror(failed));
    for (const struct addrinfo *at = list; at && code < 0 && left_ms(until); at = at->ai_next) {
        uint64_t most = clock_now_ns() + ADDRESS_SECONDS * (uint64_t)NS_PER_SECOND;
        code = connect_address(at, at->ai_next && most < until ? most : until);
    }
    freeaddrinfo(list);
    if (code == -ECONNREFUSED)
        return err_set(err, code, "%s: nobody listens at port %u: `scry monitor --listen` there", host, port);
    if (code == -ETIMEDOUT)
        return err_set(err, code, "%s: it does not answer at port %u (%d s)", host, port, LINK_DIAL_SECONDS);
    return code < 0 ? err_errno(err, code, "%s, port %u", host, port) : code;
}

static int shake(struct transport *transport, uint64_t until, struct err *err)
{
    int code;
    while ((code = transport_shake(transport, err)) == -EAGAIN) {
        struct pollfd ready = {.fd = transport->fd, .events = transport->wants_output ? POLLOUT : POLLIN};
        int count = poll(&ready, 1, left_ms(until));
        if (count == 0)
            return err_set(err, -ETIMEDOUT, "it does not answer");
        if (count < 0 && errno != EINTR)
            return err_errno(err, -errno, "cannot wait");
    }
    return code;
}

static int connect_tls(const struct link_way *way, struct tls *tls_take, struct transport **ret_transport,
                       struct err *err)
{
    _cleanup_(tls_freep) struct tls *tls = tls_take;
    _cleanup_(transport_freep) struct transport *transport = NULL;
    struct err why = {0};
    uint64_t until = clock_now_ns() + LINK_DIAL_SECONDS * (uint64_t)NS_PER_SECOND;
    int fd = connect_host(way->host, way->port, until, err);
    if (fd < 0)
        return fd;
    int code = tls_transport(tls, fd, &transport, &why);
    if (code == 0)
        code = shake(transport, until, &why);
    if (code < 0)
        return err_set(err, code, "%s, port %u: %s", way->host, way->port, why.text);
    transport->tls = TAKE_PTR(tls);
    *ret_transport = TAKE_PTR(transport);
    return 0;
}

/* Who we are is asked once: later the file may be another one. */
static int own_key(const struct key **ret_key, struct err *err)
{
    static struct key *key;
    int code = key ? 0 : key_own(&key, err);
    *ret_key = key;
    return code;
}

int link_dial(const struct link_way *way, struct transport **ret_transport, struct err *err)
{
    const struct key *key = NULL;
    struct tls *tls = NULL;
    if (way->kind == LINK_SSH)
        return link_over_ssh(way, way->remote ? way->remote : link_remote_command(), ret_transport, err);
    int code = way->secret ? tls_new_shared(&tls, way->secret, false, err) : own_key(&key, err);
    if (code == 0 && !way->secret)
        code = tls_new(&tls, key, false, err);
    return code < 0 ? code : connect_tls(way, tls, ret_transport, err);
}
