/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/server.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "shm/waits.h"
#include "web/http/request.h"
#include "wire/stream.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

enum { CONNECTIONS_MOST = 1200, CONNECTIONS_OF_ADDRESS = 800, CONNECTIONS_OF_SOCKETS = 64 };

static int listen_proxy(struct server *server, const char *spec, struct err *err);
static int listen_address(struct server *server, const char *address, uint16_t port, bool secure, struct err *err);
static bool address_is_loopback(const char *address);
static int listen_local(struct server *server, struct err *err);

struct server;

/* The certificate of --tls-cert, when it is renewed. */

/*
 * A certificate that was renewed holds for connections that come. Its two files are not replaced at once, and nobody says how
 * much later the second one comes: so the old pair stays until a certificate and its key are there, and both are put in
 * place together. (lws_tls_cert_updated puts in one, and then finds out that the other does not fit.)
 */

struct pair {
    X509 *own;
    STACK_OF(X509) * above;
    EVP_PKEY *key;
};

static void pair_done(struct pair *pair)
{
    X509_free(pair->own);
    sk_X509_pop_free(pair->above, X509_free);
    EVP_PKEY_free(pair->key);
}

/* No key is worth a question on the terminal of a server. */
static int no_password(char *room, int size, int writes, void *ctx)
{
    (void)room, (void)size, (void)writes, (void)ctx;
    return -1;
}

static BIO *open_text(const char *path, char **ret_text)
{
    size_t len;
    return file_read_plain(path, ret_text, &len) == 0 ? BIO_new_mem_buf(*ret_text, (int)len) : NULL;
}

static void read_pair(const char *cert, const char *key, struct pair *ret_pair)
{
    _cleanup_(freep) char *cert_text = NULL, *key_text = NULL;
    BIO *certs = open_text(cert, &cert_text), *keys = open_text(key, &key_text);
    *ret_pair = (struct pair){.above = sk_X509_new_null()};
    if (certs)
        ret_pair->own = PEM_read_bio_X509(certs, NULL, no_password, NULL);
    for (X509 *each; certs && ret_pair->above && (each = PEM_read_bio_X509(certs, NULL, no_password, NULL));)
        if (!sk_X509_push(ret_pair->above, each)) {
            X509_free(each);
            break;
        }
    if (keys)
        ret_pair->key = PEM_read_bio_PrivateKey(keys, NULL, no_password, NULL);
    BIO_free(certs);
    BIO_free(keys);
    if (key_text)
        explicit_bzero(key_text, strlen(key_text));
}

/* Puts in both, or none. */
static bool take_pair(const struct server *server)
{
    struct pair pair;
    read_pair(options_text(server->options, "tls-cert"), options_text(server->options, "tls-key"), &pair);
    bool good = pair.own && pair.above && pair.key &&
                SSL_CTX_use_cert_and_key(server->tls, pair.own, pair.key, pair.above, 1) == 1;
    ERR_clear_error();
    pair_done(&pair);
    return good;
}

/* 0: one of the files cannot be read. */
static uint64_t stamp_of(const struct server *server)
{
    const char *files[] = {options_text(server->options, "tls-cert"), options_text(server->options, "tls-key")};
    uint64_t stamp = 1;
    struct stat info;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (stat(files[i], &info) < 0 || access(files[i], R_OK) < 0)
            return 0;
        uint64_t facts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_size, (uint64_t)info.st_mtim.tv_sec,
                            (uint64_t)info.st_mtim.tv_nsec};
        stamp = sum_add(stamp, facts, sizeof facts);
    }
    return stamp;
}

/* What is there is looked at when it has been the same for a while: a file may be half written. */
static void certificate_look(lws_sorted_usec_list_t *timer)
{
    struct server *server = lws_container_of(timer, struct server, renewal);
    uint64_t stamp = stamp_of(server);
    if (stamp != server->certificate && stamp == server->certificate_seen) {
        if (stamp && take_pair(server))
            server->certificate_refused = false;
        else if (!server->certificate_refused) { /* once, until one fits */
            log_warning("--tls-cert and --tls-key have changed, and %s: the old ones are used until both are there",
                        stamp ? "the key does not fit the certificate, or one is no PEM" : "cannot be read");
            server->certificate_refused = true;
        }
        server->certificate = stamp;
    }
    server->certificate_seen = stamp;
    lws_sul_schedule(server->context, 0, timer, certificate_look,
                     (lws_usec_t)time_hasten(CERTIFICATE_LOOK_SECONDS * LWS_US_PER_SEC));
}

/* Looks at its files from now on, and uses what they have in server->tls. */
static void certificate_follow(struct server *server)
{
    server->certificate = server->certificate_seen = stamp_of(server);
    lws_sul_schedule(server->context, 0, &server->renewal, certificate_look,
                     (lws_usec_t)time_hasten(CERTIFICATE_LOOK_SECONDS * LWS_US_PER_SEC));
}

/* Where the server is, and what libwebsockets is to do. */

enum {
    DESCRIPTORS_MORE = 512,
};

/* ---- where it is ---- */

/* "https://host[:port]" of a URL; NULL: it is none. */
static char *origin_of(const char *url, struct err *err)
{
    const char *host = strstr(url, "://"), *end;
    size_t scheme = host ? (size_t)(host - url) : 0;
    if (!host || !((scheme == 4 && strncmp(url, "http", 4) == 0) || (scheme == 5 && strncmp(url, "https", 5) == 0)) ||
        strpbrk(url, "?#@ ") || !host[3] || host[3] == '/') {
        err_set(err, -EINVAL, "--origin: expected https://HOST[:PORT][/PATH], not '%s'", url);
        return NULL;
    }
    end = strchr(host + 3, '/');
    char *origin = strndup(url, end ? (size_t)(end - url) : strlen(url));
    if (!origin)
        err_set(err, -ENOMEM, "out of memory");
    return origin;
}

static int add_origin(struct server *server, const char *url, struct err *err)
{
    if (server->origin_count == ORIGINS_MOST)
        return err_set(err, -E2BIG, "too many origins");
    char *origin = origin_of(url, err);
    if (!origin)
        return -EINVAL;
    server->origins[server->origin_count++] = origin;
    return 0;
}

bool server_is_origin(const struct server *server, const char *origin)
{
    for (size_t i = 0; i < server->origin_count; i++)
        if (strcasecmp(origin, server->origins[i]) == 0)
            return true;
    return false;
}

bool server_is_host(const struct server *server, const char *host)
{
    for (size_t i = 0; i < server->origin_count; i++)
        if (*host && strcasecmp(host, strstr(server->origins[i], "://") + 3) == 0)
            return true;
    return false;
}

int server_name_origins(struct server *server, struct err *err)
{
    const char *address = options_text(server->options, "address");
    const char *scheme = server->secure ? "https" : "http";
    bool all = strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0, six = strchr(address, ':');
    const char *names[] = {all ? "127.0.0.1" : address, "127.0.0.1", "localhost", "::1"};
    size_t count = all || address_is_loopback(address) ? sizeof names / sizeof *names : 1, at = 0;
    char url[300], host[256];
    int code = 0;
    for (size_t i = 0; code == 0 && i < count; i++) {
        snprintf(url, sizeof url, strchr(names[i], ':') ? "%s://[%s]:%u" : "%s://%s:%u", scheme, names[i],
                 server->port);
        code = add_origin(server, url, err);
    }
    if (code == 0 && server->secure && gethostname(host, sizeof host) == 0) {
        snprintf(url, sizeof url, "%s://%s:%u", scheme, host, server->port);
        code = add_origin(server, url, err);
    }
    snprintf(server->link, sizeof server->link, six && !all ? "%s://[%s]:%u" : "%s://%s:%u", scheme, names[0],
             server->port);
    bool first = true;
    for (const char *origin; code == 0 && (origin = options_next(server->options, "origin", &at)); first = false) {
        if (first)
            snprintf(server->link, sizeof server->link, "%s", origin);
        code = add_origin(server, origin, err);
    }
    size_t len = strlen(server->link);
    if (len && server->link[len - 1] != '/' && len + 1 < sizeof server->link)
        memcpy(server->link + len, "/", 2);
    return code;
}

int server_listen(struct server *server, struct err *err)
{
    const char *address = options_text(server->options, "address"), *cert = options_text(server->options, "tls-cert"),
               *key = options_text(server->options, "tls-key");
    size_t at = 0;
    for (const char *url; (url = options_next(server->options, "origin", &at));) {
        _cleanup_(freep) char *origin = origin_of(url, err);
        if (!origin)
            return -EINVAL;
    }
    if (!cert != !key)
        return err_set(err, -EINVAL, "--tls-cert and --tls-key belong together");
    for (size_t i = 0; cert && i < 2; i++)
        if (access(i ? key : cert, R_OK) < 0)
            return err_errno(err, -errno, "cannot read %s", i ? key : cert);
    if (!cert && !address_is_loopback(address))
        return err_set(err, -EPERM,
                       "other machines can reach %s: give --tls-cert and --tls-key, or let a proxy do TLS (--origin)",
                       address);
    int code = listen_address(server, address, (uint16_t)options_number(server->options, "port"), cert != NULL, err);
    if (code == 0)
        code = listen_local(server, err);
    const char *proxy = options_text(server->options, "proxy");
    return code == 0 && proxy ? listen_proxy(server, proxy, err) : code;
}

/* ---- libwebsockets ---- */

/* Those who connect may name a protocol of their vhost (WebSocket): so what the server watches itself has another vhost. */
static const struct lws_protocols protocols[] = {{"http", on_http, sizeof(struct http_request), 0}, {NULL, NULL, 0, 0}};

/* Of every answer, also of those that libwebsockets gives. Pages load nothing from elsewhere, and nothing that a job has
 * written can run in them. */
const struct lws_protocol_vhost_options server_headers[] = {
    {&server_headers[1], NULL, "content-security-policy:",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
     "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {&server_headers[2], NULL, "x-content-type-options:", "nosniff"},
    {&server_headers[3], NULL, "referrer-policy:", "no-referrer"},
    {&server_headers[4], NULL, "x-frame-options:", "DENY"},
    {&server_headers[5], NULL, "cross-origin-resource-policy:", "same-origin"},
    {&server_headers[6], NULL, "cross-origin-opener-policy:", "same-origin"},
    {NULL, NULL, "permissions-policy:", "camera=(), geolocation=(), microphone=()"},
};

static struct lws_vhost *make_vhost(struct server *server, const char *name, bool secure)
{
    struct lws_context_creation_info info = {.port = CONTEXT_PORT_NO_LISTEN_SERVER,
                                             .protocols = protocols,
                                             .vhost_name = name,
                                             .headers = server_headers,
                                             .timeout_secs = (unsigned)time_hasten(HTTP_REQUEST_SECONDS),
                                             .keepalive_timeout = (int)time_hasten(HTTP_KEEP_SECONDS)};
    if (secure) {
        info.ssl_cert_filepath = options_text(server->options, "tls-cert");
        info.ssl_private_key_filepath = options_text(server->options, "tls-key");
        info.alpn = "h2,http/1.1";
        info.options = LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    }
    return lws_create_vhost(server->context, &info);
}

/* With a port that is no other vhost's: a name in a request's Host chooses among those that have the same. */
static struct lws_vhost *make_own_vhost(struct server *server, const struct lws_protocols *protocols_of_it)
{
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN, .protocols = protocols_of_it, .vhost_name = "own"};
    return lws_create_vhost(server->context, &info);
}

struct lws *server_watch(struct server *server, int fd, const char *protocol, void *opaque)
{
    lws_adopt_desc_t what = {.vh = server->own,
                             .type = LWS_ADOPT_RAW_FILE_DESC,
                             .fd = {.filefd = fd},
                             .vh_prot_name = protocol,
                             .opaque = opaque};
    return lws_adopt_descriptor_vhost_via_info(&what);
}

int server_make(struct server *server, const struct lws_protocols *own_protocols, struct err *err)
{
    struct lws_context_creation_info info = {.options = LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                                                        LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT,
                                             .user = server,
                                             .gid = (gid_t)-1,
                                             .uid = (uid_t)-1,
                                             .fd_limit_per_thread = CONNECTIONS_MOST + DESCRIPTORS_MORE,
                                             .max_http_header_pool = CONNECTIONS_MOST + DESCRIPTORS_MORE,
                                             .max_http_header_data = HEAD_ROOM_MOST,
                                             .pt_serv_buf_size = 16 << 10,
                                             .server_string = "scry"};
    bool tls = options_text(server->options, "tls-cert");
    if (!tls)
        info.options &= ~(uint64_t)LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    struct rlimit files = {0};
    server->connections_most = CONNECTIONS_MOST;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 8 * 5 < CONNECTIONS_MOST)
        server->connections_most = (unsigned)(files.rlim_cur / 8 * 5); /* the rest: for jobs, and children */
    lws_set_log_level(0, NULL);
    server->context = lws_create_context(&info);
    server->own = server->context ? make_own_vhost(server, own_protocols) : NULL;
    server->plain = server->own ? make_vhost(server, "default", false) : NULL;
    server->secure = server->plain && tls ? make_vhost(server, "tls", true) : NULL;
    if (!server->plain)
        return err_set(err, -EIO, "cannot start to serve: out of memory, or of open files (ulimit -n)");
    if (server->secure)
        certificate_follow(server);
    return tls && !server->secure ? err_set(err, -EINVAL, "--tls-cert, --tls-key: no certificate and its key, in PEM")
                                  : 0;
}

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

static void connection_drop(struct server *server, struct connection *connection)
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
        connection_drop(server, connection);
}

struct connection *connection_of(struct lws *wsi)
{
    return lws_get_opaque_user_data(lws_get_network_wsi(wsi));
}

static void let_in(struct server *server, int fd, size_t at)
{
    enum entrance entrance = server->listeners[at].entrance;
    struct sockaddr_storage from = {0};
    socklen_t size = sizeof from;
    struct address *address = NULL;
    uid_t uid;
    pid_t pid;
    int on = 1;
    /* whoever comes by a socket is let in also where the network has taken all it may have */
    bool welcome =
        server->connections < server->connections_most + (entrance == ENTRANCE_ADDRESS ? 0 : CONNECTIONS_OF_SOCKETS);
    if (entrance != ENTRANCE_ADDRESS) {
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
    *connection = (struct connection){.fd = fd,
                                      .entrance = entrance,
                                      .secure = server->listeners[at].secure,
                                      .address = address,
                                      .begun_ns = clock_now_ns()};
    HASH_ADD_INT(by_descriptor, fd, connection);
    server->connections++;
    if (address)
        address->connections++;
    server->incoming = connection;
    lws_adopt_socket_vhost(server->listeners[at].secure ? server->secure : server->plain, fd);
    if (server->incoming) { /* it was refused before it was known */
        server->incoming = NULL;
        connection_drop(server, connection);
    }
}

/* ---- what libwebsockets may read ---- */

/* What has come is no request that libwebsockets may see: says so, unless a request before it is being answered, and lets the other
 * end read that before it is cut off. */
static void connection_refuse(struct connection *connection)
{
    const struct head_refusal *refusal = connection->refusal;
    const struct lws_protocol_vhost_options *header = server_headers;
    SSL *tls = lws_get_ssl(connection->wsi);
    char text[2048], body[256];
    if (connection->answering || connection->refused)
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

static bool address_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Listens at an address as numbers; another one than the loopback needs `secure`. 0 or -errno with err. */
static int listen_address(struct server *server, const char *address, uint16_t port, bool secure, struct err *err)
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

static int listen_socket(struct server *server, const char *path, enum entrance entrance, uid_t uid, struct err *err)
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
    listener->entrance = entrance;
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

/* Listens at serve.sock in the runtime directory: only for the user of this server. 0 or -errno with err. */
static int listen_local(struct server *server, struct err *err)
{
    char dir[PATH_MAX - 16], path[PATH_MAX];
    int code = dirs_runtime(dir, sizeof dir, err);
    if (code < 0)
        return code;
    snprintf(path, sizeof path, "%s/serve.sock", dir);
    code = listen_socket(server, path, ENTRANCE_OWNER, geteuid(), err);
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

/* Listens for a proxy: "USER:SOCKET". Nobody but the user of this server and root may be able to change the socket's
 * directory, or one above it (base/system/dirs.h). 0 or -errno with err. */
static int listen_proxy(struct server *server, const char *spec, struct err *err)
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
        code = listen_socket(server, place, ENTRANCE_PROXY, user->pw_uid, err);
    /* All may connect, and all but one are sent away: the kernel knows no mode for one other user. */
    if (code == 0 && chmod(place, 0666) < 0)
        code = err_errno(err, -errno, "cannot open %s for the proxy", place);
    return code;
}
