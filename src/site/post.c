/* SPDX-License-Identifier: Apache-2.0 */
#include "site/post.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"

enum { AT_ONCE = 16 << 10, ANSWER_MOST = 4096, HEADERS = 16, SECONDS = 20 };

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

static void done(struct post *post, const char *why)
{
    if (post->over)
        return;
    post->over = true;
    post->wsi = NULL;
    post->fn(post->ctx, post->status, why, span_of(post->answer, post->answer_len));
}

/* ---- the URL and the headers ---- */

static int parse_url(struct post *post, const char *url, struct err *err)
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

static void decode(char *text)
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

static void parse_headers(struct post *post, const char *text)
{
    while (text && *text && post->header_count < HEADERS) {
        size_t len = strcspn(text, ",");
        const char *equals = memchr(text, '=', len);
        if (equals) {
            char *name = post->headers[post->header_count].name, *value = post->headers[post->header_count].value;
            snprintf(name, sizeof post->headers->name, "%.*s:", (int)(equals - text), text);
            snprintf(value, sizeof post->headers->value, "%.*s", (int)(text + len - equals - 1), equals + 1);
            decode(value);
            post->header_count++;
        }
        text += len + (text[len] == ',');
    }
}

int post_new(struct post **ret_post, const char *url, post_done_fn *fn, void *ctx, struct err *err)
{
    struct post *post = calloc(1, sizeof *post);
    if (!post)
        return err_set(err, -ENOMEM, "out of memory");
    int code = parse_url(post, url, err);
    if (code < 0) {
        free(post);
        return code;
    }
    post->fn = fn;
    post->ctx = ctx;
    post->over = true;
    parse_headers(post, getenv("OTEL_EXPORTER_OTLP_HEADERS"));
    *ret_post = post;
    return 0;
}

void post_free(struct post *post)
{
    free(post);
}

bool post_is_tls(const struct post *post)
{
    return post->tls;
}

/* ---- the request ---- */

void post_send(struct post *post, struct lws_context *context, struct span body)
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
        done(post, "no connection can be made");
}

static int add_headers(struct post *post, struct lws *wsi, unsigned char **at, unsigned char *end)
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

static int write_some(struct post *post, struct lws *wsi)
{
    unsigned char room[LWS_PRE + AT_ONCE];
    size_t left = post->body.len - post->sent, len = left < AT_ONCE ? left : AT_ONCE;
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

static void keep_answer(struct post *post, const char *bytes, size_t len)
{
    size_t room = sizeof post->answer - post->answer_len;
    memcpy(post->answer + post->answer_len, bytes, len < room ? len : room);
    post->answer_len += len < room ? len : room;
}

int post_callback(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct post *post = *(struct post **)lws_context_user(lws_get_context(wsi));
    char room[LWS_PRE + 1024], *at = room + LWS_PRE;
    int size = (int)sizeof room - LWS_PRE;
    switch (reason) {
    case LWS_CALLBACK_CLIENT_APPEND_HANDSHAKE_HEADER:
        return add_headers(post, wsi, in, *(unsigned char **)in + len);
    case LWS_CALLBACK_CLIENT_HTTP_WRITEABLE:
        return post->sent < post->body.len ? write_some(post, wsi) : 0;
    case LWS_CALLBACK_ESTABLISHED_CLIENT_HTTP:
        post->status = (int)lws_http_client_http_response(wsi);
        return 0;
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP:
        return lws_http_client_read(wsi, &at, &size) < 0 ? -1 : 0;
    case LWS_CALLBACK_RECEIVE_CLIENT_HTTP_READ:
        keep_answer(post, in, len);
        return 0;
    case LWS_CALLBACK_COMPLETED_CLIENT_HTTP:
        done(post, NULL);
        return -1;
    case LWS_CALLBACK_CLIENT_CONNECTION_ERROR:
        done(post, in ? in : "no connection can be made");
        return 0;
    case LWS_CALLBACK_CLOSED_CLIENT_HTTP:
        if (!post->over && !post->status)
            done(post, "the connection ended without an answer");
        else
            done(post, NULL);
        return 0;
    default:
        return lws_callback_http_dummy(wsi, reason, user, in, len);
    }
}
