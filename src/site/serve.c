/* SPDX-License-Identifier: Apache-2.0 */
#include "site/serve.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <libwebsockets.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "site/metrics.h"
#include "site/post.h"

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

static void say(const char *format, const char *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, text);
    log_warning(format, shown.data ? shown.data : "");
}

static bool ready(struct serve *serve, struct err *err)
{
    return serve->store || store_open(&serve->store, serve->record, serve->target ? DB_WRITE : DB_READ, err) == 0;
}

/* ---- metrics ---- */

static void answer(struct serve *serve, bool open_metrics)
{
    uint64_t now_ns = clock_now_ns();
    struct site site = {0};
    struct site_filter filter = {.since_seconds = SITE_RECENT_SECONDS};
    serve->requests++;
    if (serve->answer.ns && serve->answer.open_metrics == open_metrics &&
        now_ns - serve->answer.ns < SITE_FRESH_MS * UINT64_C(1000000))
        return;
    bool known = ready(serve, NULL) && site_ask(&site, store_db(serve->store), &filter, NULL) == 0;
    struct metrics metrics = {known ? &site : NULL, &serve->health, serve->post ? &serve->otlp.counts : NULL,
                              serve->requests};
    buf_clear(&serve->answer.text);
    metrics_put(&serve->answer.text, &metrics, open_metrics);
    serve->answer.ns = now_ns;
    serve->answer.open_metrics = open_metrics;
    site_done(&site);
}

struct visit {
    unsigned char *bytes; /* of the answer; it has its own, for others may come while it is sent */
    size_t len, sent;
};

static int send_head(struct lws *wsi, struct visit *visit, bool open_metrics)
{
    unsigned char room[LWS_PRE + 1024], *start = room + LWS_PRE, *at = start, *end = room + sizeof room - 1;
    const char *type = open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
    if (lws_add_http_common_headers(wsi, HTTP_STATUS_OK, type, visit->len, &at, end) ||
        lws_finalize_write_http_header(wsi, start, &at, end))
        return -1;
    lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten(SITE_VISIT_SECONDS));
    lws_callback_on_writable(wsi);
    return 0;
}

static int on_request(struct serve *serve, struct lws *wsi, struct visit *visit, const char *path)
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
    answer(serve, open_metrics);
    free(visit->bytes);
    *visit = (struct visit){.len = serve->answer.text.len};
    if (serve->answer.text.failed || !(visit->bytes = malloc(visit->len + 1)))
        return lws_return_http_status(wsi, HTTP_STATUS_INTERNAL_SERVER_ERROR, NULL) ||
                       lws_http_transaction_completed(wsi)
                   ? -1
                   : 0;
    memcpy(visit->bytes, serve->answer.text.data, visit->len);
    return send_head(wsi, visit, open_metrics);
}

static int send_some(struct lws *wsi, struct visit *visit)
{
    unsigned char room[LWS_PRE + AT_ONCE];
    size_t left = visit->len - visit->sent, len = left < AT_ONCE ? left : AT_ONCE;
    if (!visit->bytes)
        return 0;
    memcpy(room + LWS_PRE, visit->bytes + visit->sent, len);
    if (lws_write(wsi, room + LWS_PRE, len, len == left ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) != (int)len)
        return -1;
    visit->sent += len;
    if (visit->sent < visit->len) {
        lws_callback_on_writable(wsi);
        return 0;
    }
    free(visit->bytes);
    visit->bytes = NULL;
    return lws_http_transaction_completed(wsi) ? -1 : 0;
}

static int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct serve *serve = lws_context_user(lws_get_context(wsi));
    struct visit *visit = user;
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
        return on_request(serve, wsi, visit, in);
    case LWS_CALLBACK_HTTP_BODY:
        return -1;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return send_some(wsi, visit);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (visit) {
            free(visit->bytes);
            visit->bytes = NULL;
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

static void trouble(struct serve *serve, const char *text)
{
    if (strcmp(serve->otlp.trouble, text) != 0) {
        snprintf(serve->otlp.trouble, sizeof serve->otlp.trouble, "%s", text);
        if (*text)
            say("OTLP: %s; it is tried again", text);
    }
}

static uint64_t wait_again(unsigned failures)
{
    return time_hasten(
        waits_again_ns(failures, SITE_FIRST_WAIT_MS * WAITS_NS_PER_MS, SITE_MOST_WAIT_MS * WAITS_NS_PER_MS));
}

/* Taken, or dropped: the next one is looked for. */
static void behind(struct serve *serve)
{
    struct err err = {0};
    serve->otlp.settled = otlp_done(serve->store, serve->target, &serve->otlp.batch, &err) < 0;
    if (serve->otlp.settled) {
        trouble(serve, err.code ? err.text : "out of memory");
        serve->otlp.next_ns = clock_now_ns() + wait_again(++serve->otlp.failures);
        return;
    }
    serve->otlp.since_ns = serve->otlp.next_ns = serve->otlp.failures = 0;
    serve->otlp.waiting = false;
}

static void drop(struct serve *serve, const char *why)
{
    serve->otlp.counts.dropped += serve->otlp.batch.records;
    log_warning("OTLP: %zu records are dropped", serve->otlp.batch.records);
    trouble(serve, why);
    behind(serve);
}

/* What the collector says that it did not take of a batch that it took. */
static uint64_t rejected(struct span answer)
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
        uint64_t refused = rejected(answer_text), all = serve->otlp.batch.records;
        refused = refused < all ? refused : all;
        serve->otlp.counts.sent += all - refused;
        serve->otlp.counts.dropped += refused;
        serve->otlp.counts.batches++;
        *serve->otlp.trouble = '\0';
        behind(serve);
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
        drop(serve, text);
        return;
    }
    serve->otlp.waiting = true;
    serve->otlp.next_ns = now_ns + wait_again(++serve->otlp.failures);
    trouble(serve, text);
}

/* true: there is nothing to send now. */
static bool send_next(struct serve *serve, uint64_t now_ns)
{
    struct err err = {0};
    if (serve->otlp.under_way || now_ns < serve->otlp.next_ns)
        return false;
    if (serve->otlp.settled) {
        behind(serve);
        return false;
    }
    if (!serve->otlp.waiting) {
        int code = ready(serve, &err) ? 0 : err.code;
        if (code == 0)
            code = otlp_next(serve->store, serve->target, &serve->otlp.batch, &err);
        if (code < 0) {
            trouble(serve, err.code ? err.text : "out of memory");
            serve->otlp.next_ns = now_ns + wait_again(++serve->otlp.failures);
            return false;
        }
        if (!serve->otlp.batch.records) {
            if (serve->otlp.batch.part_count)
                behind(serve); /* numbers that nobody has */
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
    bool nothing = !serve->post || send_next(serve, now_ns);
    if (serve->ended && (nothing || now_ns >= serve->end_ns)) {
        lws_cancel_service(serve->context);
        serve->end_ns = 0;
        return;
    }
    lws_sul_schedule(serve->context, 0, &serve->timer, on_timer, (serve->ended ? 20 : SITE_TICK_MS) * LWS_US_PER_MS);
}

/* ---- all of it ---- */

static int make(struct serve *serve, bool metrics)
{
    static const struct lws_protocols protocols[] = {{"http", on_http, sizeof(struct visit), 0},
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
    if (serve->post && post_is_tls(serve->post))
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

int serve_run(const char *record, bool metrics, const char *otlp, double retry_seconds)
{
    struct serve serve = {.record = record, .target = otlp, .retry_seconds = retry_seconds};
    struct err err = {0};
    int code = otlp ? post_new(&serve.post, otlp, on_answer, &serve, &err) : 0;
    if (code == 0 && (code = make(&serve, metrics)) < 0)
        err_set(&err, code, "cannot start to serve");
    while (code == 0 && !(serve.ended && !serve.end_ns))
        if (lws_service(serve.context, 0) < 0)
            break;
    if (code < 0)
        say("%s", err.text);
    if (serve.context)
        lws_context_destroy(serve.context);
    post_free(serve.post);
    store_close(serve.store);
    buf_done(&serve.answer.text);
    buf_done(&serve.otlp.batch.body);
    return code < 0 ? 1 : 0;
}
