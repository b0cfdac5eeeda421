/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-site: what `scry site` becomes, and the part of `scry record` that tells others of jobs:
 *
 *     scry-site OPTION...                  see scry-site(1)
 *     scry-site serve metrics URL SECONDS  "-": not that one. The record is $SCRY_RECORD
 *
 * The latter runs beside a recorder (store/follow.h): it answers Prometheus on the socket 3, and sends records to a collector.
 * It reads how the recorder is from its standard input; at the end of that, it sends the rest and ends.
 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "shm/waits.h"
#include "site/metrics.h"
#include "site/site.h"
#include "store/store.h"

#include <errno.h>
#include <libwebsockets.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one request POST at a time, to a collector: http or https, over a connection of its own ---- */

struct post;

/* status: of the answer; 0: there was none, and why says why. `answer`: its beginning. */
typedef void post_done_fn(void *ctx, int status, const char *why, struct span answer);

enum { POST_AT_ONCE = 16 << 10, ANSWER_MOST = 4096, HEADERS = 16, SECONDS = 20 };

struct post {
    bool tls;
    int port;
    char host[256], path[512];
    struct {
        char name[128], value[1024];
    } headers[HEADERS];
    size_t header_count;
    post_done_fn *fn;
    void *ctx;
    struct span body;
    size_t sent;
    struct lws *wsi;
    int status;
    bool over; /* fn was called for this one */
    char answer[ANSWER_MOST];
    size_t answer_len;
};

static void post_done(struct post *post, const char *why)
{
    if (post->over)
        return;
    post->over = true;
    post->wsi = NULL;
    post->fn(post->ctx, post->status, why, span_of(post->answer, post->answer_len));
}

static int post_parse_url(struct post *post, const char *url, struct err *err)
{
    post->tls = strncmp(url, "https://", 8) == 0;
    const char *host = strstr(url, "://") ? strstr(url, "://") + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *path = host + len, *colon = memchr(host, ':', len);
    const char *end = *host == '[' ? memchr(host, ']', len) : NULL;
    if (memchr(host, '@', len))
        return err_set(err, -EINVAL, "--otlp: no names and passwords in the URL; OTEL_EXPORTER_OTLP_HEADERS has them");
    if (end)
        colon = end[1] == ':' ? end + 1 : NULL;
    size_t name = end ? (size_t)(end - host - 1) : colon ? (size_t)(colon - host) : len;
    post->port = colon ? atoi(colon + 1) : post->tls ? 443 : 4318;
    if (!name || name >= sizeof post->host || post->port <= 0 || post->port > 65535 ||
        strlen(path) >= sizeof post->path - 8)
        return err_set(err, -EINVAL, "--otlp: expected http[s]://HOST[:PORT][/PATH], not '%s'", url);
    snprintf(post->host, sizeof post->host, "%.*s", (int)name, end ? host + 1 : host);
    snprintf(post->path, sizeof post->path, "%s", *path && strcmp(path, "/") != 0 ? path : "/v1/logs");
    return 0;
}

static void text_decode(char *text)
{
    char *to = text;
    for (const char *c = text; *c; c++) {
        unsigned byte;
        if (*c == '%' && sscanf(c + 1, "%2x", &byte) == 1 && c[1] && c[2] && byte >= ' ') {
            *to++ = (char)byte;
            c += 2;
        } else if ((unsigned char)*c >= ' ') {
            *to++ = *c;
        }
    }
    *to = '\0';
}

static void post_parse_headers(struct post *post, const char *text)
{
    while (text && *text && post->header_count < HEADERS) {
        size_t len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);
        if (equals) {
            char *name = post->headers[post->header_count].name, *value = post->headers[post->header_count].value;
            snprintf(name, sizeof post->headers->name, "%.*s:", (int)(equals - text), text);
            snprintf(value, sizeof post->headers->value, "%.*s", (int)(text + len - equals - 1), equals + 1);
            text_decode(value);
            post->header_count++;
        }
        text += len + (text[len] == ',');
    }
}

/* The URL without a path gets /v1/logs. Headers are those of $OTEL_EXPORTER_OTLP_HEADERS: NAME=VALUE,NAME=VALUE, with %XX. 0, or
 * -EINVAL with err. */
static int post_new(struct post **ret_post, const char *url, post_done_fn *fn, void *ctx, struct err *err)
{
    struct post *post = calloc(1, sizeof *post);
    if (!post)
        return err_set(err, -ENOMEM, "out of memory");
    int code = post_parse_url(post, url, err);
    if (code < 0) {
        free(post);
        return code;
    }
    post->fn = fn;
    post->ctx = ctx;
    post->over = true;
    post_parse_headers(post, getenv("OTEL_EXPORTER_OTLP_HEADERS"));
    *ret_post = post;
    return 0;
}

/* The body is borrowed until fn is called, which may be at once. */
static void post_send(struct post *post, struct lws_context *context, struct span body)
{
    struct lws_client_connect_info info = {.context = context,
                                           .address = post->host,
                                           .port = post->port,
                                           .path = post->path,
                                           .host = post->host,
                                           .origin = post->host,
                                           .ssl_connection = post->tls ? LCCSCF_USE_SSL : 0,
                                           .method = "POST",
                                           .alpn = "http/1.1",
                                           .local_protocol_name = "otlp",
                                           .pwsi = &post->wsi};
    post->body = body;
    post->sent = post->answer_len = 0;
    post->status = 0;
    post->over = false;
    if (!lws_client_connect_via_info(&info))
        post_done(post, "no connection can be made");
}

static int post_add_headers(struct post *post, struct lws *wsi, unsigned char **at, unsigned char *end)
{
    static const char type[] = "application/json";
    if (lws_add_http_header_by_token(wsi, WSI_TOKEN_HTTP_CONTENT_TYPE, (const unsigned char *)type, (int)strlen(type),
                                     at, end) ||
        lws_add_http_header_content_length(wsi, post->body.len, at, end))
        return -1;
    for (size_t i = 0; i < post->header_count; i++)
        if (lws_add_http_header_by_name(wsi, (const unsigned char *)post->headers[i].name,
                                        (const unsigned char *)post->headers[i].value,
                                        (int)strlen(post->headers[i].value), at, end))
            return -1;
    lws_client_http_body_pending(wsi, 1);
    lws_callback_on_writable(wsi);
    return 0;
}

static int post_write(struct post *post, struct lws *wsi)
{
    unsigned char room[LWS_PRE + POST_AT_ONCE];
    size_t left = post->body.len - post->sent, len = left < POST_AT_ONCE ? left : POST_AT_ONCE;
    bool last = len == left;
    memcpy(room + LWS_PRE, post->body.ptr + post->sent, len);
    if (last)
        lws_client_http_body_pending(wsi, 0);
    if (lws_write(wsi, room + LWS_PRE, len, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) != (int)len)
        return -1;
    post->sent += len;
    if (last)
        lws_set_timeout(wsi, PENDING_TIMEOUT_AWAITING_SERVER_RESPONSE, SECONDS);
    else
        lws_callback_on_writable(wsi);
    return 0;
}

static void post_keep_answer(struct post *post, const char *bytes, size_t len)
{
    size_t room = sizeof post->answer - post->answer_len;
    memcpy(post->answer + post->answer_len, bytes, len < room ? len : room);
    post->answer_len += len < room ? len : room;
}

/* Its protocol among those of the context; a pointer to the struct post * is lws_context_user. */
static int post_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct post *post = *(struct post **)lws_context_user(lws_get_context(wsi));
    char room[LWS_PRE + 1024], *at = room + LWS_PRE;
    int size = (int)sizeof room - LWS_PRE;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return post_add_headers(post, wsi, in, *(unsigned char **)in + len);
    case LWS_CALLBACK_CLIENT_HTTP_WRITEABLE:
        return post->sent < post->body.len ? post_write(post, wsi) : 0;
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP:
        post->status = (int)lws_http_client_http_response(wsi);
        return 0;
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP:
        return lws_http_client_read(wsi, &at, &size) < 0 ? -1 : 0;
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ:
        post_keep_answer(post, in, len);
        return 0;
    case LWS_CALLBACK_COMPLETED_CLIENT_HTTP:
        post_done(post, NULL);
        return -1;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        post_done(post, in ? in : "no connection can be made");
        return 0;
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP:
        if (!post->over && !post->status)
            post_done(post, "the connection ended without an answer");
        else
            post_done(post, NULL);
        return 0;
    default:
        return lws_callback_http_dummy(wsi, reason, user, in, len);
    }
}

enum {
    VISITORS = 32,     /* connections at once; more are closed at once */
    AT_ONCE = 8 << 10, /* bytes of an answer */
    LISTENER = 3,      /* descriptors */
};

struct serve {
    struct post *post; /* the first: post_callback finds it so; NULL: nothing is sent */
    struct lws_context *context;
    const char *record, *target;
    double retry_seconds;
    struct store *store;
    struct record_health health;
    bool ended; /* the recorder has */
    uint64_t end_ns;
    struct lws *listener; /* NULL: none */
    int visitors;
    struct {
        struct buf text;
        uint64_t ns;
        bool open_metrics;
    } answer;
    uint64_t requests;
    struct {
        struct otlp_counts counts;
        struct otlp_batch batch;
        bool under_way, waiting;    /* waiting: the batch is to be sent once more */
        bool settled;               /* it was taken or dropped, and that is to be written yet */
        uint64_t since_ns, next_ns; /* of the batch that is not taken: since when, and when it is tried again */
        unsigned failures;
        char trouble[256];
    } otlp;
    lws_sorted_usec_list_t timer;
    char input[sizeof(struct record_health)];
    size_t input_len;
};

static void say_trouble(const char *format, const char *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, text);
    log_warning(format, shown.data ? shown.data : "");
}

static bool serve_has_record(struct serve *serve, struct err *err)
{
    return serve->store || store_open(&serve->store, serve->record, serve->target ? DB_WRITE : DB_READ, err) == 0;
}

/* ---- metrics ---- */

static void serve_answer(struct serve *serve, bool open_metrics)
{
    uint64_t now_ns = clock_now_ns();
    struct site site = {0};
    struct site_filter filter = {.since_seconds = SITE_RECENT_SECONDS};
    serve->requests++;
    if (serve->answer.ns && serve->answer.open_metrics == open_metrics &&
        now_ns - serve->answer.ns < SITE_FRESH_MS * UINT64_C(1000000))
        return;
    bool known = serve_has_record(serve, NULL) && site_ask(&site, store_db(serve->store), &filter, NULL) == 0;
    struct metrics metrics = {known ? &site : NULL, &serve->health, serve->post ? &serve->otlp.counts : NULL,
                              serve->requests};
    buf_clear(&serve->answer.text);
    metrics_put(&serve->answer.text, &metrics, open_metrics);
    serve->answer.ns = now_ns;
    serve->answer.open_metrics = open_metrics;
    site_done(&site);
}

struct http_request {
    unsigned char *bytes; /* of the answer; it has its own, for others may come while it is sent */
    size_t len, sent;
};

static int request_send_head(struct lws *wsi, struct http_request *request, bool open_metrics)
{
    unsigned char room[LWS_PRE + 1024], *start = room + LWS_PRE, *at = start, *end = room + sizeof room - 1;
    const char *type = open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
    if (lws_add_http_common_headers(wsi, HTTP_STATUS_OK, type, request->len, &at, end) ||
        lws_finalize_write_http_header(wsi, start, &at, end))
        return -1;
    lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten(SITE_VISIT_SECONDS));
    lws_callback_on_writable(wsi);
    return 0;
}

static int on_request(struct serve *serve, struct lws *wsi, struct http_request *request, const char *path)
{
    char accept[512] = "";
    if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) <= 0)
        return lws_return_http_status(wsi, HTTP_STATUS_METHOD_NOT_ALLOWED, NULL) || lws_http_transaction_completed(wsi)
                   ? -1
                   : 0;
    if (strcmp(path, "/metrics") != 0)
        return lws_return_http_status(wsi, HTTP_STATUS_NOT_FOUND, "<p>Metrics are at /metrics.</p>") ||
                       lws_http_transaction_completed(wsi)
                   ? -1
                   : 0;
    if (lws_hdr_copy(wsi, accept, sizeof accept, WSI_TOKEN_HTTP_ACCEPT) < 0)
        *accept = '\0';
    bool open_metrics = strstr(accept, "application/openmetrics-text") != NULL;
    serve_answer(serve, open_metrics);
    free(request->bytes);
    *request = (struct http_request){.len = serve->answer.text.len};
    if (serve->answer.text.failed || !(request->bytes = malloc(request->len + 1)))
        return lws_return_http_status(wsi, HTTP_STATUS_INTERNAL_SERVER_ERROR, NULL) ||
                       lws_http_transaction_completed(wsi)
                   ? -1
                   : 0;
    memcpy(request->bytes, serve->answer.text.data, request->len);
    return request_send_head(wsi, request, open_metrics);
}

static int request_send(struct lws *wsi, struct http_request *request)
{
    unsigned char room[LWS_PRE + AT_ONCE];
    size_t left = request->len - request->sent, len = left < AT_ONCE ? left : AT_ONCE;
    if (!request->bytes)
        return 0;
    memcpy(room + LWS_PRE, request->bytes + request->sent, len);
    if (lws_write(wsi, room + LWS_PRE, len, len == left ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) != (int)len)
        return -1;
    request->sent += len;
    if (request->sent < request->len) {
        lws_callback_on_writable(wsi);
        return 0;
    }
    free(request->bytes);
    request->bytes = NULL;
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct serve *serve = lws_context_user(lws_get_context(wsi));
    struct http_request *request = user;
    switch (reason) {
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        serve->visitors++;
        lws_set_opaque_user_data(wsi, serve);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (lws_get_opaque_user_data(wsi) == serve)
            serve->visitors--;
        lws_set_opaque_user_data(wsi, NULL);
        return 0;
    case LWS_CALLBACK_HTTP:
        return on_request(serve, wsi, request, in);
    case LWS_CALLBACK_HTTP_BODY:
        return -1;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return request_send(wsi, request);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (request) {
            free(request->bytes);
            request->bytes = NULL;
        }
        return 0;
    default:
        return lws_callback_http_dummy(wsi, reason, user, in, len);
    }
}

static int on_listener(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct serve *serve = lws_context_user(lws_get_context(wsi));
    if (reason != LWS_CALLBACK_RAW_RX_FILE)
        return 0;
    for (int i = 0, on = 1, fd; i < VISITORS && (fd = accept4(LISTENER, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0;
         i++) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (serve->visitors >= VISITORS)
            close(fd);
        else
            lws_adopt_socket_vhost(lws_get_vhost(wsi), fd);
    }
    return 0;
}

/* ---- the recorder ---- */

static int on_recorder(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct serve *serve = lws_context_user(lws_get_context(wsi));
    if (reason == LWS_CALLBACK_RAW_CLOSE_FILE && !serve->ended) {
        serve->ended = true;
        serve->end_ns = clock_now_ns() + time_hasten(SITE_REST_SECONDS * UINT64_C(1000000000));
        serve->otlp.next_ns = 0;
        if (serve->listener) /* the next recorder wants it */
            lws_set_timeout(serve->listener, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
    }
    if (reason != LWS_CALLBACK_RAW_RX_FILE)
        return 0;
    ssize_t got = read(STDIN_FILENO, serve->input + serve->input_len, sizeof serve->input - serve->input_len);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return -1;
    serve->input_len += got > 0 ? (size_t)got : 0;
    if (serve->input_len == sizeof serve->input) {
        memcpy(&serve->health, serve->input, sizeof serve->health);
        serve->input_len = 0;
    }
    return 0;
}

/* ---- records to the collector ---- */

static void otlp_trouble(struct serve *serve, const char *text)
{
    if (strcmp(serve->otlp.trouble, text) != 0) {
        snprintf(serve->otlp.trouble, sizeof serve->otlp.trouble, "%s", text);
        if (*text)
            say_trouble("OTLP: %s; it is tried again", text);
    }
}

static uint64_t otlp_again_ns(unsigned failures)
{
    return time_hasten(
        waits_again_ns(failures, SITE_FIRST_WAIT_MS * WAITS_NS_PER_MS, SITE_MOST_WAIT_MS * WAITS_NS_PER_MS));
}

/* Taken, or dropped: the next one is looked for. */
static void otlp_settle(struct serve *serve)
{
    struct err err = {0};
    serve->otlp.settled = otlp_done(serve->store, serve->target, &serve->otlp.batch, &err) < 0;
    if (serve->otlp.settled) {
        otlp_trouble(serve, err.code ? err.text : "out of memory");
        serve->otlp.next_ns = clock_now_ns() + otlp_again_ns(++serve->otlp.failures);
        return;
    }
    serve->otlp.since_ns = serve->otlp.next_ns = serve->otlp.failures = 0;
    serve->otlp.waiting = false;
}

static void otlp_drop(struct serve *serve, const char *why)
{
    serve->otlp.counts.dropped += serve->otlp.batch.records;
    log_warning("OTLP: %zu records are dropped", serve->otlp.batch.records);
    otlp_trouble(serve, why);
    otlp_settle(serve);
}

/* What the collector says that it did not take of a batch that it took. */
static uint64_t otlp_rejected(struct span answer)
{
    json_t *json = json_loadb(answer.ptr, answer.len, 0, NULL);
    const json_t *number = json_object_get(json_object_get(json, "partialSuccess"), "rejectedLogRecords");
    long long count = json_is_string(number) ? atoll(json_string_value(number)) : json_integer_value(number);
    json_decref(json);
    return count > 0 ? (uint64_t)count : 0;
}

static void on_timer(lws_sorted_usec_list_t *timer);

static void on_answer(void *ctx, int status, const char *why, struct span answer_text)
{
    struct serve *serve = ctx;
    uint64_t now_ns = clock_now_ns();
    char text[256];
    serve->otlp.under_way = false;
    if (status >= 200 && status < 300) {
        uint64_t refused = otlp_rejected(answer_text), all = serve->otlp.batch.records;
        refused = refused < all ? refused : all;
        serve->otlp.counts.sent += all - refused;
        serve->otlp.counts.dropped += refused;
        serve->otlp.counts.batches++;
        *serve->otlp.trouble = '\0';
        otlp_settle(serve);
        lws_sul_schedule(serve->context, 0, &serve->timer, on_timer, 1);
        return;
    }
    if (status)
        snprintf(text, sizeof text, "%s answers with status %d", serve->target, status);
    else
        snprintf(text, sizeof text, "%s: %s", serve->target, why ? why : "no answer");
    bool again = !status || status == 408 || status == 429 || status == 502 || status == 503 || status == 504;
    if (!serve->otlp.since_ns)
        serve->otlp.since_ns = now_ns;
    if (!again || (double)(now_ns - serve->otlp.since_ns) > serve->retry_seconds * 1e9) {
        otlp_drop(serve, text);
        return;
    }
    serve->otlp.waiting = true;
    serve->otlp.next_ns = now_ns + otlp_again_ns(++serve->otlp.failures);
    otlp_trouble(serve, text);
}

/* true: there is nothing to send now. */
static bool otlp_send_next(struct serve *serve, uint64_t now_ns)
{
    struct err err = {0};
    if (serve->otlp.under_way || now_ns < serve->otlp.next_ns)
        return false;
    if (serve->otlp.settled) {
        otlp_settle(serve);
        return false;
    }
    if (!serve->otlp.waiting) {
        int code = serve_has_record(serve, &err) ? 0 : err.code;
        if (code == 0)
            code = otlp_next(serve->store, serve->target, &serve->otlp.batch, &err);
        if (code < 0) {
            otlp_trouble(serve, err.code ? err.text : "out of memory");
            serve->otlp.next_ns = now_ns + otlp_again_ns(++serve->otlp.failures);
            return false;
        }
        if (!serve->otlp.batch.records) {
            if (serve->otlp.batch.part_count)
                otlp_settle(serve); /* numbers that nobody has */
            serve->otlp.next_ns = now_ns + SITE_LOOK_MS * UINT64_C(1000000);
            return true;
        }
    } else {
        serve->otlp.counts.retries++;
    }
    serve->otlp.under_way = true;
    post_send(serve->post, serve->context, span_of(serve->otlp.batch.body.data, serve->otlp.batch.body.len));
    return false;
}

static void on_timer(lws_sorted_usec_list_t *timer)
{
    struct serve *serve = lws_container_of(timer, struct serve, timer);
    uint64_t now_ns = clock_now_ns();
    bool nothing = !serve->post || otlp_send_next(serve, now_ns);
    if (serve->ended && (nothing || now_ns >= serve->end_ns)) {
        lws_cancel_service(serve->context);
        serve->end_ns = 0;
        return;
    }
    lws_sul_schedule(serve->context, 0, &serve->timer, on_timer, (serve->ended ? 20 : SITE_TICK_MS) * LWS_US_PER_MS);
}

/* ---- all of it ---- */

static int serve_start(struct serve *serve, bool metrics)
{
    static const struct lws_protocols protocols[] = {{"http", on_http, sizeof(struct http_request), 0},
                                                     {"otlp", post_callback, 0, 4096},
                                                     {"listener", on_listener, 0, 0},
                                                     {"recorder", on_recorder, 0, 0},
                                                     {NULL, NULL, 0, 0}};
    struct lws_context_creation_info info = {.port = CONTEXT_PORT_NO_LISTEN_SERVER,
                                             .protocols = protocols,
                                             .user = serve,
                                             .gid = (gid_t)-1,
                                             .uid = (uid_t)-1,
                                             .timeout_secs = (unsigned)time_hasten(SITE_VISIT_SECONDS),
                                             .keepalive_timeout = (int)time_hasten(SITE_KEEP_SECONDS),
                                             .fd_limit_per_thread = 2 * VISITORS,
                                             .max_http_header_pool = VISITORS + 4,
                                             .server_string = "scry"};
    if (serve->post && serve->post->tls)
        info.options |= LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    lws_set_log_level(0, NULL);
    serve->context = lws_create_context(&info);
    struct lws_vhost *vhost = serve->context ? lws_get_vhost_by_name(serve->context, "default") : NULL;
    if (!vhost || !lws_adopt_descriptor_vhost(vhost, LWS_ADOPT_RAW_FILE_DESC,
                                              (lws_sock_file_fd_type){.filefd = STDIN_FILENO}, "recorder", NULL))
        return -EIO;
    if (metrics &&
        !(serve->listener = lws_adopt_descriptor_vhost(vhost, LWS_ADOPT_RAW_FILE_DESC,
                                                       (lws_sock_file_fd_type){.filefd = LISTENER}, "listener", NULL)))
        return -EIO;
    lws_sul_schedule(serve->context, 0, &serve->timer, on_timer, 1);
    return 0;
}

/* otlp: URL or NULL. The exit status. */
static int serve_run(const char *record, bool metrics, const char *otlp, double retry_seconds)
{
    struct serve serve = {.record = record, .target = otlp, .retry_seconds = retry_seconds};
    struct err err = {0};
    int code = otlp ? post_new(&serve.post, otlp, on_answer, &serve, &err) : 0;
    if (code == 0 && (code = serve_start(&serve, metrics)) < 0)
        err_set(&err, code, "cannot start to serve");
    while (code == 0 && !(serve.ended && !serve.end_ns))
        if (lws_service(serve.context, 0) < 0)
            break;
    if (code < 0)
        say_trouble("%s", err.text);
    if (serve.context)
        lws_context_destroy(serve.context);
    free(serve.post);
    store_close(serve.store);
    buf_done(&serve.answer.text);
    buf_done(&serve.otlp.batch.body);
    return code < 0 ? 1 : 0;
}

/* ---- the program ---- */

enum { FAILED = 1, USAGE = 2 };

static int print_failure(const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_error("%s", shown.data ? shown.data : "out of memory");
    return FAILED;
}

static int print_site(const struct site *site, bool as_json)
{
    _cleanup_(buf_done) struct buf out = BUF_INIT;
    if (as_json) {
        json_t *json = site_json(site);
        char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
        json_decref(json);
        buf_puts(&out, text ? text : "");
        buf_putc(&out, '\n');
        out.failed |= !text;
        free(text);
    } else {
        site_print(&out, site, text_columns(STDOUT_FILENO));
    }
    if (out.failed)
        return print_failure(&(struct err){-1, "out of memory"});
    if (fwrite(out.data, 1, out.len, stdout) < out.len || fflush(stdout) != 0)
        return print_failure(&(struct err){-1, "cannot write to standard output"});
    return 0;
}

static int cmd_site(int argc, char **argv)
{
    struct options options;
    struct err err = {0};
    struct store *store = NULL;
    struct site site = {0};
    char where[PATH_MAX];
    if (options_parse(&options, COMMAND_SITE, argc, argv, &err) < 0) {
        print_failure(&err);
        options_done(&options);
        return USAGE;
    }
    struct site_filter filter = {options_text(&options, "owner"), options_text(&options, "node"),
                                 (double)options_number(&options, "since") / NS_PER_SECOND};
    int code = store_place(options_text(&options, "record"), where, sizeof where, &err);
    if (code == 0)
        code = store_open(&store, where, DB_READ, &err);
    if (code == 0)
        code = site_ask(&site, store_db(store), &filter, &err);
    int status = code < 0 ? print_failure(&err) : print_site(&site, options_on(&options, "json"));
    site_done(&site);
    store_close(store);
    options_done(&options);
    return status;
}

static int cmd_serve(char **argv)
{
    char where[PATH_MAX];
    struct err err = {0};
    log_open("scry record", 0);
    if (store_place(NULL, where, sizeof where, &err) < 0)
        return print_failure(&err);
    return serve_run(where, strcmp(argv[2], "metrics") == 0, strcmp(argv[3], "-") == 0 ? NULL : argv[3],
                     strtod(argv[4], NULL));
}

int main(int argc, char **argv)
{
    umask(077);
    signal(SIGPIPE, SIG_IGN);
    log_open("scry site", 0);
    if (argc == 5 && strcmp(argv[1], "serve") == 0)
        return cmd_serve(argv);
    return cmd_site(argc, argv);
}
