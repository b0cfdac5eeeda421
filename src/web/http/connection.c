/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/connection.h"

#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utlist.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/pause.h"
#include "shm/waits.h"
#include "web/http/allowance.h"
#include "web/http/server.h"
#include "wire/local.h"

enum {
    REQUESTS_SAVED = 400,
    REQUESTS_A_SECOND = 100,
    WAITING = 256,
    ADDRESSES_KEPT = 4096,
    /* bytes that a connection may send */
    BYTES_FIRST = 64 << 10, /* of TLS, and the first headers */
    BYTES_A_SECOND = 1 << 10,
    BYTES_OF_REQUEST = 2 << 10,
    BYTES_OF_KNOWN = 16 << 10,  /* of a request with a session */
    BYTES_OF_SENT = 16,         /* one for so many that it got: it says how much more it takes */
    BYTES_OF_REFUSED = 1 << 20, /* which are read and dropped */
    ROUNDS_OF_REFUSED = 16,
};

/* All of them, by descriptor: recv and SSL_read know nothing else of who calls them. */
static struct connection *by_descriptor;

struct address {
    UT_hash_handle hh;
    unsigned char bytes[16]; /* as of IPv6 */
    unsigned connections;
    struct allowance allowance;
};

/* ---- addresses ---- */

/* What one machine can have many of is one: all of 127.0.0.0/8, and 64 bits of an address of IPv6. */
static void address_bytes(const struct sockaddr_storage *from, unsigned char ret_bytes[16])
{
    enum { NETWORK = 8, LOOPBACK = 127 };
    const struct in6_addr *six = &((const struct sockaddr_in6 *)from)->sin6_addr;
    const unsigned char *four = (const unsigned char *)&((const struct sockaddr_in *)from)->sin_addr;
    if (from->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(six))
        four = six->s6_addr + 12;
    memset(ret_bytes, 0, 16);
    if (from->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(six))
        memcpy(ret_bytes, six->s6_addr, NETWORK);
    else
        memcpy(ret_bytes + 12, four, *four == LOOPBACK ? 1 : 4);
}

/* Those that have no connection are kept for their limits, until there are too many. */
static void forget_some(struct server *server)
{
    struct address *address, *next;
    if (HASH_COUNT(server->addresses) < ADDRESSES_KEPT)
        return;
    HASH_ITER(hh, server->addresses, address, next)
    if (!address->connections) {
        HASH_DEL(server->addresses, address);
        free(address);
    }
}

static struct address *address_find(struct server *server, const struct sockaddr_storage *from)
{
    unsigned char bytes[16];
    struct address *address = NULL;
    address_bytes(from, bytes);
    HASH_FIND(hh, server->addresses, bytes, sizeof bytes, address);
    if (address)
        return address;
    forget_some(server);
    if (!(address = calloc(1, sizeof *address)))
        return NULL;
    memcpy(address->bytes, bytes, sizeof bytes);
    address->allowance = (struct allowance){REQUESTS_SAVED, clock_now_ns()};
    HASH_ADD(hh, server->addresses, bytes, sizeof address->bytes, address);
    return address;
}

bool connection_take(struct connection *connection)
{
    struct address *address = connection->address;
    return !address || allowance_take(&address->allowance, REQUESTS_A_SECOND, REQUESTS_SAVED);
}

/* ---- connections ---- */

void connection_allow_request(struct connection *connection, bool by_session)
{
    connection->allowed += by_session ? BYTES_OF_KNOWN : BYTES_OF_REQUEST;
}

void connection_allow_body(struct connection *connection, size_t len)
{
    connection->allowed += 2 * len; /* pieces may be small, and TLS adds to each */
}

/* Has it sent more than there is a reason for? What is not read yet has cost nothing. */
static bool sends_too_much(const struct connection *connection)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int fd = lws_get_socket_fd(connection->wsi), unread = 0;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || ioctl(fd, FIONREAD, &unread) < 0)
        return false;
    uint64_t allowed = BYTES_FIRST + connection->allowed + info.tcpi_bytes_acked / BYTES_OF_SENT +
                       (clock_now_ns() - connection->begun_ns) / NS_PER_SECOND * BYTES_A_SECOND;
    return info.tcpi_bytes_received > allowed + (uint64_t)unread;
}

/* Says why, where HTTP has a word for it (RFC 9113, 6.8). What was asked before may have been done: all streams count as
 * begun. libwebsockets is past any frame of its own here, or in the midst of one, and then this is not written. */
static void say_goaway(struct lws *wsi)
{
    static const unsigned char frame[] = {0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0xb};
    SSL *tls = lws_get_ssl(wsi);
    const unsigned char *protocol = NULL;
    unsigned len = 0;
    if (tls)
        SSL_get0_alpn_selected(tls, &protocol, &len);
    if (len == 2 && memcmp(protocol, "h2", 2) == 0 && SSL_write(tls, frame, sizeof frame) <= 0)
        ERR_clear_error();
}

static void look_at_all(lws_sorted_usec_list_t *timer)
{
    struct server *server = lws_container_of(timer, struct server, look);
    struct connection *each, *next;
    DL_FOREACH_SAFE(server->all, each, next)
    if (sends_too_much(each)) { /* now: what comes would put off another time limit */
        say_goaway(each->wsi);
        lws_set_timeout(each->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_SYNC);
    }
    if (server->all)
        lws_sul_schedule(server->context, 0, timer, look_at_all, HTTP_LOOK_MS * LWS_US_PER_MS);
}

void connection_began(struct server *server, struct lws *wsi)
{
    struct connection *connection = server->incoming;
    if (!connection)
        return;
    lws_set_opaque_user_data(wsi, connection);
    server->incoming = NULL;
    connection->wsi = wsi;
    if (!connection->address)
        return;
    if (!server->all)
        lws_sul_schedule(server->context, 0, &server->look, look_at_all, HTTP_LOOK_MS * LWS_US_PER_MS);
    DL_APPEND(server->all, connection);
}

static void drop(struct server *server, struct connection *connection)
{
    HASH_DEL(by_descriptor, connection);
    server->connections--;
    if (connection->address)
        connection->address->connections--;
    if (connection->wsi && connection->address)
        DL_DELETE(server->all, connection);
    free(connection);
}

void connection_ended(struct server *server, struct lws *wsi)
{
    struct connection *connection = lws_get_opaque_user_data(wsi);
    lws_set_opaque_user_data(wsi, NULL);
    if (connection && lws_get_network_wsi(wsi) == wsi)
        drop(server, connection);
}

struct connection *connection_of(struct lws *wsi)
{
    return lws_get_opaque_user_data(lws_get_network_wsi(wsi));
}

static void let_in(struct server *server, int fd, size_t at)
{
    enum way way = server->listeners[at].way;
    struct sockaddr_storage from = {0};
    socklen_t size = sizeof from;
    struct address *address = NULL;
    uid_t uid;
    pid_t pid;
    int on = 1;
    /* whoever comes by a socket is let in also where the network has taken all it may have */
    bool welcome = server->connections < server->connections_most + (way == WAY_ADDRESS ? 0 : CONNECTIONS_OF_SOCKETS);
    if (way != WAY_ADDRESS) {
        welcome = welcome && local_peer(fd, &uid, &pid) == 0 && uid == server->listeners[at].uid;
    } else {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        address = getpeername(fd, (struct sockaddr *)&from, &size) == 0 ? address_find(server, &from) : NULL;
        welcome = welcome && address && address->connections < CONNECTIONS_OF_ADDRESS;
    }
    struct connection *connection = welcome ? malloc(sizeof *connection) : NULL;
    if (!connection) {
        close(fd);
        return;
    }
    *connection = (struct connection){
        .fd = fd, .way = way, .secure = server->listeners[at].secure, .address = address, .begun_ns = clock_now_ns()};
    HASH_ADD_INT(by_descriptor, fd, connection);
    server->connections++;
    if (address)
        address->connections++;
    server->incoming = connection;
    lws_adopt_socket_vhost(server->listeners[at].secure ? server->secure : server->plain, fd);
    if (server->incoming) { /* it was refused before it was known */
        server->incoming = NULL;
        drop(server, connection);
    }
}

/* ---- what libwebsockets may read ---- */

void connection_refuse(struct connection *connection)
{
    const struct head_refusal *refusal = connection->refusal;
    const struct lws_protocol_vhost_options *header = server_headers;
    SSL *tls = lws_get_ssl(connection->wsi);
    char text[2048], body[256];
    if (connection->visited || connection->refused)
        return;
    if (lws_partial_buffered(connection->wsi)) { /* the end of an answer, which goes first */
        lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_REASON_BASE, (int)time_hasten(HTTP_REQUEST_SECONDS));
        return;
    }
    connection->refused = true;
    connection->allowed += BYTES_OF_REFUSED;
    int size = snprintf(body, sizeof body, "{\"error\": {\"kind\": \"%s\", \"text\": \"%s\"}}\n", refusal->kind,
                        refusal->text);
    int len = snprintf(text, sizeof text,
                       "HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-type: application/json\r\n"
                       "content-length: %d\r\ncache-control: no-store\r\n",
                       refusal->status, refusal->phrase, size);
    for (; header; header = header->next)
        len += snprintf(text + len, sizeof text - (size_t)len, "%s %s\r\n", header->name, header->value);
    len += snprintf(text + len, sizeof text - (size_t)len, "\r\n%s", body);
    /* So little has room at a socket to which nothing else is being written. */
    if (tls) {
        if (SSL_write(tls, text, len) <= 0 || SSL_shutdown(tls) < 0)
            ERR_clear_error();
    } else {
        send(connection->fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    shutdown(connection->fd, SHUT_WR);
    lws_set_timeout(connection->wsi, PENDING_TIMEOUT_USER_REASON_BASE, (int)time_hasten(HTTP_REQUEST_SECONDS));
}

static bool is_http1(const struct connection *connection)
{
    const unsigned char *protocol = NULL;
    unsigned len = 0;
    SSL *tls = connection && connection->wsi ? lws_get_ssl(connection->wsi) : NULL;
    if (tls)
        SSL_get0_alpn_selected(tls, &protocol, &len);
    return connection && connection->wsi && len != 2; /* "h2" */
}

/* Which of the bytes that were read libwebsockets gets; 0: none, all are dropped. */
static size_t let_through(struct connection *connection, const void *bytes, size_t len)
{
    size_t passes = connection->refusal ? 0 : head_take(&connection->head, bytes, len, &connection->refusal);
    if (connection->refusal && !passes)
        connection_refuse(connection);
    return passes;
}

static struct connection *connection_by(int fd)
{
    struct connection *connection = NULL;
    HASH_FIND_INT(by_descriptor, &fd, connection);
    return is_http1(connection) ? connection : NULL;
}

/* These stand before those of the C library and of OpenSSL, for libwebsockets, which shows its users a request only when it has
 * taken it apart. */
__attribute__((visibility("default"))) ssize_t recv(int fd, void *room, size_t size, int flags)
{
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real)
        real = (ssize_t(*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    struct connection *connection = flags ? NULL : connection_by(fd);
    ssize_t got = real(fd, room, size, flags);
    for (int i = 0; connection && !connection->secure && got > 0; i++) {
        size_t passes = let_through(connection, room, (size_t)got);
        if (passes || i == ROUNDS_OF_REFUSED)
            return (ssize_t)passes; /* 0: its end */
        got = real(fd, room, size, flags);
    }
    return got;
}

__attribute__((visibility("default"))) int SSL_read(SSL *tls, void *room, int size)
{
    static int (*real)(SSL *, void *, int);
    if (!real)
        real = (int (*)(SSL *, void *, int))dlsym(RTLD_NEXT, "SSL_read");
    struct connection *connection = connection_by(SSL_get_fd(tls));
    int got = real(tls, room, size);
    for (int i = 0; connection && got > 0; i++) {
        size_t passes = let_through(connection, room, (size_t)got);
        if (passes || i == ROUNDS_OF_REFUSED)
            return (int)passes;
        got = real(tls, room, size);
    }
    return got;
}

int on_listener(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct server *server = lws_context_user(lws_get_context(wsi));
    if (reason == LWS_CALLBACK_TIMER)
        lws_rx_flow_control(wsi, 1);
    if (reason != LWS_CALLBACK_RAW_RX_FILE)
        return 0;
    size_t at = (size_t)(uintptr_t)lws_get_opaque_user_data(wsi);
    for (int i = 0; i < WAITING; i++) {
        int fd = accept4(server->listeners[at].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            let_in(server, fd, at);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            /* whoever waits goes on waiting: otherwise the loop would go round and round */
            lws_rx_flow_control(wsi, 0);
            lws_set_timer_usecs(wsi, HTTP_AGAIN_MS * LWS_US_PER_MS);
        }
        break;
    }
    return 0;
}

/* ---- sockets ---- */

void connections_done(struct server *server)
{
    HASH_FREE_ALL(server->addresses);
}

bool address_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

int listen_address(struct server *server, const char *address, uint16_t port, bool secure, struct err *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found = NULL;
    struct sockaddr_storage bound;
    socklen_t size = sizeof bound;
    char number[8];
    int on = 1;
    snprintf(number, sizeof number, "%u", port);
    if (getaddrinfo(address, number, &hints, &found) != 0)
        return err_set(err, -EINVAL, "expected an address as numbers, such as 127.0.0.1, not '%s'", address);
    _cleanup_(closep) int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool listens = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, WAITING) == 0 &&
                   getsockname(fd, (struct sockaddr *)&bound, &size) == 0;
    int code = listens ? 0 : -errno;
    freeaddrinfo(found);
    if (code < 0)
        return err_errno(err, code, "cannot answer at port %u of %s", port, address);
    server->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                     : ((struct sockaddr_in *)&bound)->sin_port);
    server->listeners[server->listener_count].fd = TAKE_FD(fd);
    server->listeners[server->listener_count++].secure = secure;
    return 0;
}

static int listen_socket(struct server *server, const char *path, enum way way, uid_t uid, struct err *err)
{
    int fd = local_listen(path, err);
    if (fd < 0)
        return fd;
    /* Only now it is this server's, which removes it in the end: not the one of a server that runs already. */
    struct listener *listener = &server->listeners[server->listener_count++];
    struct stat made = {0};
    if (lstat(path, &made) == 0)
        snprintf(listener->path, sizeof listener->path, "%s", path);
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    listener->fd = fd;
    listener->way = way;
    listener->uid = uid;
    return 0;
}

/* Where another server's is by now, as its file was cleaned away, that one stays. */
void sockets_remove(const struct server *server)
{
    struct stat info;
    for (size_t i = 0; i < server->listener_count; i++) {
        const struct listener *listener = &server->listeners[i];
        if (*listener->path && lstat(listener->path, &info) == 0 && info.st_dev == listener->device &&
            info.st_ino == listener->inode)
            unlink(listener->path);
    }
}

int listen_local(struct server *server, struct err *err)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    snprintf(path, sizeof path, "%s/serve.sock", dir);
    code = listen_socket(server, path, WAY_OWNER, geteuid(), err);
    if (code == -EADDRINUSE)
        err_set(err, code,
                "a server of yours runs here already: scry serve --link prints a link to it; for other options end it "
                "first");
    return code;
}

/* Whoever can change the directory, or one above it, can put a socket of their own there, to which the proxy would bring the
 * user's requests. */
static int find_place(const char *path, char ret_path[PATH_MAX], struct err *err)
{
    char dir[PATH_MAX], real[PATH_MAX];
    struct err why = {0};
    const char *slash = strrchr(path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash > path ? (int)(slash - path) : 1, path);
    int code = trusted_path(real, dir, S_IFDIR, &why);
    if (code < 0)
        return err_set(err, code, "--proxy: %s", why.text);
    return snprintf(ret_path, PATH_MAX, "%s%s", real[1] ? real : "", slash) < PATH_MAX
               ? 0
               : err_set(err, -ENAMETOOLONG, "--proxy: the path is too long");
}

int listen_proxy(struct server *server, const char *spec, struct err *err)
{
    const char *path = strchr(spec, ':');
    _cleanup_(freep) char *name = path ? strndup(spec, (size_t)(path - spec)) : NULL;
    if (!path || path[1] != '/')
        return err_set(err, -EINVAL, "--proxy: expected USER:SOCKET, with an absolute path, not '%s'", spec);
    const struct passwd *user = name ? getpwnam(name) : NULL;
    if (!user)
        return err_set(err, -EINVAL, "--proxy: there is no user %s on this machine", name ? name : "");
    char place[PATH_MAX];
    int code = find_place(path + 1, place, err);
    if (code == 0)
        code = listen_socket(server, place, WAY_PROXY, user->pw_uid, err);
    /* All may connect, and all but one are sent away: the kernel knows no mode for one other user. */
    if (code == 0 && chmod(place, 0666) < 0)
        code = err_errno(err, -errno, "cannot open %s for the proxy", place);
    return code;
}
