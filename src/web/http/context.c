/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/cleanup.h"
#include "base/data/sum.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "shm/waits.h"
#include "web/http/connection.h"
#include "web/http/server.h"
#include "web/http/visit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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
static void look(lws_sorted_usec_list_t *timer)
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
    lws_sul_schedule(server->context, 0, timer, look,
                     (lws_usec_t)time_hasten(CERTIFICATE_LOOK_SECONDS * LWS_US_PER_SEC));
}

/* Looks at its files from now on, and uses what they have in server->tls. */
static void certificate_follow(struct server *server)
{
    server->certificate = server->certificate_seen = stamp_of(server);
    lws_sul_schedule(server->context, 0, &server->renewal, look,
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
static const struct lws_protocols protocols[] = {{"http", on_http, sizeof(struct visit), 0}, {NULL, NULL, 0, 0}};

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
