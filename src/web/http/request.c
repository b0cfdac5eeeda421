/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/request.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "web/http/server.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

const char *method_name(enum method method)
{
    switch (method) {
    case METHOD_GET:
        return "get";
    case METHOD_HEAD:
        return "head";
    case METHOD_POST:
        return "post";
    case METHOD_PUT:
        return "put";
    case METHOD_DELETE:
        return "delete";
    case METHOD_OTHER:
        break;
    }
    return "other";
}

static bool path_matches(const char *pattern, const char *path, struct span ret_parts[PARTS_OF_PATH])
{
    size_t count = 0;
    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        bool rest = pattern[1] == '*';
        size_t len = rest ? strlen(path) : strcspn(path, "/");
        pattern += rest;
        if (!len || count == PARTS_OF_PATH)
            return false;
        ret_parts[count++] = span_of(path, len);
        path += len;
    }
    return !*path;
}

/* The one for this path and method, and its parts. NULL: none; *ret_methods has those that the path has. */
static const struct route *route_find(const char *path, enum method method, struct span ret_parts[PARTS_OF_PATH],
                                      unsigned *ret_methods)
{
    bool api = strncmp(path, "api/", 4) == 0;
    enum method wanted = method == METHOD_HEAD ? METHOD_GET : method;
    *ret_methods = 0;
    for (size_t i = 0; i + 1 < route_count; i++) {
        if (!api || !path_matches(route_rows[i].path, path, ret_parts))
            continue;
        if (route_rows[i].method == wanted)
            return &route_rows[i];
        *ret_methods |= (unsigned)route_rows[i].method;
    }
    if (!api && wanted == METHOD_GET)
        return &route_rows[route_count - 1];
    *ret_methods |= api ? 0 : METHOD_GET;
    return NULL;
}

enum {
    HEAD_ROOM = 3 << 10, /* bytes of an answer's headers */
    AT_ONCE = 16 << 10,  /* bytes of an answer that are written at once */
    BODY_SECOND_BYTES = 1 << 10,
    SEND_SECOND_BYTES = 64 << 10,
};

/* ---- the request ---- */

/* The text of a header; *room is as it was if there is none, or it is longer. true: it is there. */
static bool request_header(struct http_request *request, enum lws_token_indexes token, char *room, size_t size)
{
    int len = lws_hdr_total_length(request->wsi, token);
    return len > 0 && (size_t)len < size && lws_hdr_copy(request->wsi, room, (int)size, token) >= 0;
}

static bool request_header_named(struct http_request *request, const char *name, char *room, size_t size)
{
    int named = (int)strlen(name), len = lws_hdr_custom_length(request->wsi, name, named);
    return len > 0 && (size_t)len < size && lws_hdr_custom_copy(request->wsi, room, (int)size, name, named) >= 0;
}

const char *request_argument(const struct http_request *request, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < request->argument_count; i++)
        if (strncmp(request->arguments[i], name, len) == 0 && request->arguments[i][len] == '=')
            return request->arguments[i] + len + 1;
    return NULL;
}

static const struct {
    const char *name;
    int number; /* of libwebsockets; HTTP/2 has the name in a header */
    enum method method;
} methods[] = {{"GET", LWSHUMETH_GET, METHOD_GET},
               {"HEAD", LWSHUMETH_HEAD, METHOD_HEAD},
               {"POST", LWSHUMETH_POST, METHOD_POST},
               {"PUT", LWSHUMETH_PUT, METHOD_PUT},
               {"DELETE", LWSHUMETH_DELETE, METHOD_DELETE}};
enum { METHODS = sizeof methods / sizeof *methods };

static enum method read_method(struct http_request *request, char **ret_uri, int *ret_len)
{
    char text[16] = "";
    int number = lws_http_get_uri_and_method(request->wsi, ret_uri, ret_len);
    if (number == LWSHUMETH_COLON_PATH)
        request_header(request, WSI_TOKEN_HTTP_COLON_METHOD, text, sizeof text);
    for (size_t i = 0; i < METHODS; i++)
        if (number == methods[i].number || strcmp(text, methods[i].name) == 0)
            return methods[i].method;
    return METHOD_OTHER;
}

static void request_refuse(struct http_request *request, int status, const char *kind, const char *text)
{
    if (request->refusal.status)
        return;
    request->refusal = (struct reply){.status = status};
    request->refusal_kind = kind;
    snprintf(request->refusal_text, sizeof request->refusal_text, "%s", text);
}

static void read_arguments(struct http_request *request)
{
    char text[POSITION_TEXT];
    int len;
    for (int i = 0; (len = lws_hdr_copy_fragment(request->wsi, text, sizeof text, WSI_TOKEN_HTTP_URI_ARGS, i)) != -1;
         i++) {
        if (len < 0 || request->argument_count == ARGUMENTS_MOST) {
            request_refuse(request, 414, "too_long", "the query of the URL is too long");
            return;
        }
        if (!len)
            continue;
        if (!(request->arguments[request->argument_count] = strdup(text))) {
            request_refuse(request, 503, "memory", "out of memory; try again later");
            return;
        }
        request->argument_count++;
    }
}

static void read_headers(struct http_request *request)
{
    char text[512], last[POSITION_TEXT] = "";
    const char *behind = request_argument(request, "behind");
    request->takes_gzip = request_header(request, WSI_TOKEN_HTTP_ACCEPT_ENCODING, text, sizeof text) &&
                          foreign_takes_gzip(span_str(text));
    request->is_json = request_header(request, WSI_TOKEN_HTTP_CONTENT_TYPE, text, sizeof text) &&
                       strncasecmp(text, "application/json", 16) == 0;
    request->is_secure =
        lws_is_ssl(lws_get_network_wsi(request->wsi)) ||
        (request_header(request, WSI_TOKEN_ORIGIN, text, sizeof text) && strncmp(text, "https:", 6) == 0);
    request_header(request, WSI_TOKEN_HTTP_IF_NONE_MATCH, request->tags, sizeof request->tags);
    request_header(request, WSI_TOKEN_HTTP_RANGE, request->range, sizeof request->range);
    if (request_header_named(request, "last-event-id:", last, sizeof last) || behind)
        request->behind = strdup(*last ? last : behind);
}

/* A zero byte would end a value here, and not for a proxy: in HTTP/2. (HTTP/1: head.h.) */
static void check_values(struct http_request *request)
{
    char text[POSITION_TEXT];
    for (int token = 0; token < WSI_TOKEN_COUNT; token++) {
        int len = lws_hdr_total_length(request->wsi, (enum lws_token_indexes)token);
        if (len <= 0 || (size_t)len >= sizeof text)
            continue;
        if (lws_hdr_copy(request->wsi, text, sizeof text, (enum lws_token_indexes)token) < 0 ||
            memchr(text, '\0', (size_t)len)) {
            request_refuse(request, 400, "header", "a header has a zero byte");
            request->close = true;
            return;
        }
    }
}

/* Pages of other sites cannot ask: neither under their name, which may lead here (DNS rebinding), nor under ours. */
static void check_origin(struct http_request *request)
{
    char host[256] = "", origin[300] = "", site[16] = "";
    if (request->entrance == ENTRANCE_OWNER)
        return;
    if (!request_header(request, WSI_TOKEN_HOST, host, sizeof host))
        request_header(request, WSI_TOKEN_HTTP_COLON_AUTHORITY, host, sizeof host);
    if (!server_is_host(request->server, host))
        request_refuse(request, 421, "host",
                       "this server is not called so; use its link, or name the URL with --origin");
    bool named = lws_hdr_total_length(request->wsi, WSI_TOKEN_ORIGIN) > 0;
    if (named && (!request_header(request, WSI_TOKEN_ORIGIN, origin, sizeof origin) ||
                  !server_is_origin(request->server, origin)))
        request_refuse(request, 403, "origin",
                       "pages of other origins may not ask; name the URL with --origin if it is yours");
    if (!named && (request->by_cookie || request->entrance == ENTRANCE_PROXY) &&
        !(request->method & (METHOD_GET | METHOD_HEAD)))
        request_refuse(request, 403, "origin",
                       "a request by a cookie or a proxy needs the header Origin; scripts use Authorization: Bearer");
    /* Passwords and cookies by which a proxy knows people may come along with requests of other pages, which say no origin if
     * they only load something. */
    if (request->entrance == ENTRANCE_PROXY && strncmp(request->path, "api/", 4) == 0 &&
        request_header_named(request, "sec-fetch-site:", site, sizeof site) && strcmp(site, "same-origin") != 0 &&
        strcmp(site, "none") != 0)
        request_refuse(request, 403, "origin", "pages of other origins may not ask");
}

bool request_is_let_in(const struct http_request *request)
{
    return request->entrance != ENTRANCE_ADDRESS || session_lives(request->server->sessions, request->session);
}

static void check_session(struct http_request *request, struct connection *connection)
{
    char text[4096] = "";
    struct session *session = NULL;
    static const char bearer[] = "Bearer ";
    request->entrance = connection ? connection->entrance : ENTRANCE_ADDRESS;
    if (request->entrance != ENTRANCE_ADDRESS) { /* no header of a proxy says who it is, for anybody can send headers */
        request->rights = request->entrance == ENTRANCE_OWNER
                              ? RIGHT_ALL
                              : (unsigned)options_number(request->server->options, "rights") | RIGHT_OBSERVE;
        return;
    }
    if (request_header(request, WSI_TOKEN_HTTP_AUTHORIZATION, text, sizeof text)) {
        if (strncasecmp(text, bearer, sizeof bearer - 1) == 0)
            session = session_find(request->server->sessions, SECRET_BEARER,
                                   foreign_trim(span_str(text + sizeof bearer - 1)));
    } else if (request_header(request, WSI_TOKEN_HTTP_COOKIE, text, sizeof text)) {
        session = session_find(request->server->sessions, SECRET_SESSION,
                               foreign_cookie(span_str(text), request->server->cookie));
        request->by_cookie = session != NULL;
    }
    if (session) {
        request->session = session->number;
        request->rights = session->rights;
    }
    if (session ? !session_take(session) : connection && !connection_take(connection))
        request_refuse(request, 429, "too_many", "too many requests at once; try again in a second");
    else if (connection)
        connection_allow_request(connection, session != NULL);
}

static void check_route(struct http_request *request)
{
    unsigned other = 0;
    request->route = route_find(request->path, request->method, request->parts, &other);
    if (!request->route) {
        for (size_t i = 0; i < METHODS; i++)
            if (other & (unsigned)methods[i].method)
                snprintf(request->allow + strlen(request->allow), sizeof request->allow - strlen(request->allow),
                         "%s%s", *request->allow ? ", " : "", methods[i].name);
        request_refuse(request, other ? 405 : 404, other ? "method" : "unknown",
                       other ? "this path has other methods" : "there is nothing at this path");
        return;
    }
    if (!request->route->right || (request->rights & request->route->right))
        return;
    if (!request->rights)
        request_refuse(request, 401, "session",
                       "open the link that scry serve has printed, or print another one: scry serve --link");
    else
        request_refuse(request, 403, "rights",
                       "this session may not do that; print a link with more rights: scry serve --link");
}

static void read_body_size(struct http_request *request)
{
    char text[32] = "";
    const struct connection *connection = connection_of(request->wsi);
    request->close |= connection && connection->head.state == HEAD_LAST; /* nothing behind this was looked at */
    if (lws_hdr_total_length(request->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0) {
        request_refuse(request, 411, "length", "say the length of the body; it cannot be sent in chunks");
        request->close = true;
    }
    if (lws_hdr_total_length(request->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0) {
        /* Without a length there is no body (RFC 9112, 6.3); libwebsockets waits for one, also behind the answer. */
        request->close |= request->method & (METHOD_POST | METHOD_PUT | METHOD_OTHER) &&
                          lws_get_network_wsi(request->wsi) == request->wsi;
        return;
    }
    if (!request_header(request, WSI_TOKEN_HTTP_CONTENT_LENGTH, text, sizeof text) ||
        !foreign_number(span_str(text), &request->body_size)) {
        request_refuse(request, 400, "length", "the header Content-Length is no number");
        request->close = true;
    }
    if (request->body_size > BODY_MOST && !(request->route && request->route->body && !request->refusal.status)) {
        request_refuse(request, 413, "too_large", "the body of the request is too large");
        request->close |= request->body_size > DROP_MOST;
    }
}

/* A body that pages of other sites could send without asking first is none of ours. */
json_t *request_json(struct http_request *request)
{
    json_t *json =
        request->is_json ? json_loadb(request->body.data ? request->body.data : "", request->body.len, 0, NULL) : NULL;
    if (json_is_object(json))
        return json;
    json_decref(json);
    request_answer_error(request, 400, "body", "expected a JSON object, and Content-Type: application/json");
    return NULL;
}

/* ---- the answer ---- */

void request_more(struct http_request *request)
{
    lws_callback_on_writable(request->wsi);
}

static bool head_add(struct http_request *request, const char *name, const char *value, unsigned char **at,
                     unsigned char *end)
{
    return !value || lws_add_http_header_by_name(request->wsi, (const unsigned char *)name,
                                                 (const unsigned char *)value, (int)strlen(value), at, end) == 0;
}

/* Nobody keeps a connection by sending, or taking, a byte from time to time: `seconds` from now, and `more` if something goes
 * on all the time. libwebsockets begins its own time anew with each piece. */
static void set_end(struct http_request *request, int seconds, uint64_t more)
{
    request->until_ns = clock_now_ns() + time_hasten((uint64_t)seconds * NS_PER_SECOND);
    request->until_ns += (more < INT_MAX ? more : INT_MAX) * NS_PER_SECOND;
    lws_set_timeout(request->wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten((uint64_t)seconds));
}

static bool goes_on(struct http_request *request, int seconds)
{
    if (request->until_ns)
        lws_set_timeout(request->wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten((uint64_t)seconds));
    return !request->until_ns || clock_now_ns() < request->until_ns;
}

/* Who has closed the connection waits no longer. libwebsockets does not read while an answer is made, nor while one without an end
 * is sent, but would be called by the kernel again and again for what there is to read: the end, or a next request. It is told not
 * to listen, but while it sends: then it would do nothing at all. */
static void look_who_waits(lws_sorted_usec_list_t *timer)
{
    struct http_request *request = lws_container_of(timer, struct http_request, waiting);
    /* answered by events, behind which nobody has to send anything */
    short events = request->answered ? POLLRDHUP | POLLIN : POLLRDHUP;
    if (request->answered && request->left != UINT64_MAX)
        return;
    if (wait_fd(lws_get_socket_fd(request->wsi), events, 0))
        lws_set_timeout(request->wsi, PENDING_TIMEOUT_HTTP_CONTENT, LWS_TO_KILL_ASYNC);
    else
        lws_sul_schedule(request->server->context, 0, &request->waiting, look_who_waits, HTTP_LOOK_MS * LWS_US_PER_MS);
}

static void watch_who_waits(struct http_request *request)
{
    if (lws_get_network_wsi(request->wsi) != request->wsi)
        return;
    if (!request->answered)
        lws_rx_flow_control(request->wsi, 0);
    lws_sul_schedule(request->server->context, 0, &request->waiting, look_who_waits, HTTP_LOOK_MS * LWS_US_PER_MS);
}

/* The headers are written when there is room for them, as all of the answer. */
static void request_start_answer(struct http_request *request, const struct reply *reply, uint64_t size)
{
    unsigned char room[LWS_PRE + HEAD_ROOM], *start = room + LWS_PRE, *at = start, *end = room + sizeof room - 1;
    char number[24];
    bool plain = reply->status == 204 || reply->status == 304;
    snprintf(number, sizeof number, "%llu", (unsigned long long)size);
    bool made = lws_add_http_header_status(request->wsi, (unsigned)reply->status, &at, end) == 0 &&
                head_add(request, "content-type:", plain ? NULL : reply->type, &at, end) &&
                head_add(request, "content-length:", plain || size == UINT64_MAX ? NULL : number, &at, end) &&
                head_add(request, "etag:", reply->etag, &at, end) &&
                head_add(request, "cache-control:", reply->cache ? reply->cache : "no-store", &at, end) &&
                head_add(request, "content-encoding:", reply->encoding, &at, end) &&
                head_add(request, "vary:", reply->encoding ? "accept-encoding" : NULL, &at, end) &&
                head_add(request, "set-cookie:", reply->cookie, &at, end) &&
                head_add(request, "content-disposition:", reply->disposition, &at, end) &&
                head_add(request, "retry-after:", reply->retry, &at, end) &&
                head_add(request, "allow:", *request->allow ? request->allow : NULL, &at, end) &&
                head_add(request, "content-range:", reply->range, &at, end) &&
                /* nginx, and others after it, pass events on as they come */
                head_add(request, "x-accel-buffering:", size == UINT64_MAX ? "no" : NULL, &at, end) &&
                head_add(request, "accept-ranges:", reply->range_unit, &at, end) &&
                (lws_get_network_wsi(request->wsi) != request->wsi ||
                 head_add(request, "connection:", request->close || size == UINT64_MAX ? "close" : NULL, &at, end)) &&
                lws_finalize_http_header(request->wsi, &at, end) == 0;
    request->close = request->close || size == UINT64_MAX || !made;
    if (!request->answered && lws_dll2_owner(&request->waiting.list))
        lws_rx_flow_control(request->wsi, 1);
    request->answered = true;
    buf_clear(&request->body);
    buf_append(&request->body, start, made ? (size_t)(at - start) : 0); /* the request's own is not needed any more */
    request->left = request->method == METHOD_HEAD || plain ? 0 : size;
    if (request->method == METHOD_HEAD || plain)
        request->more = NULL;
    if (request->left == UINT64_MAX)
        watch_who_waits(request);
    set_end(request, HTTP_SEND_SECONDS, size == UINT64_MAX ? 0 : size / SEND_SECOND_BYTES);
    if (size == UINT64_MAX)
        request->until_ns = 0;
    request_more(request);
}

void request_answer_bytes(struct http_request *request, const struct reply *reply, const void *bytes, size_t size)
{
    request->bytes = bytes;
    request_start_answer(request, reply, size);
}

void request_answer(struct http_request *request, const struct reply *reply, struct blob *blob)
{
    struct reply made = *reply;
    request->blob = blob;
    if (request->takes_gzip && blob_zip(blob)) {
        made.encoding = "gzip";
        request_answer_bytes(request, &made, blob->gzip, blob->gzip_size);
    } else {
        request_answer_bytes(request, reply, blob->bytes, blob->size);
    }
}

void request_answer_more(struct http_request *request, const struct reply *reply, uint64_t size, request_more_fn *more)
{
    request->more = more;
    request_start_answer(request, reply, size);
}

void request_answer_tagged(struct http_request *request, int status, const char *tag, struct blob *blob)
{
    struct reply reply = {.status = status, .type = "application/json", .etag = tag, .cache = "private, no-cache"};
    if (foreign_has_tag(span_str(request->tags), tag)) {
        blob_unref(blob);
        reply.status = 304;
        request_answer_bytes(request, &reply, NULL, 0);
    } else {
        request_answer(request, &reply, blob);
    }
}

/* A line of text; NULL: out of memory. */
static struct blob *blob_json(json_t *json_take)
{
    struct buf text = BUF_INIT;
    char *dumped = json_take ? json_dumps(json_take, JSON_COMPACT) : NULL;
    json_decref(json_take);
    text.failed = !dumped;
    buf_puts(&text, dumped ? dumped : "");
    buf_putc(&text, '\n');
    free(dumped);
    return blob_new(&text);
}

void request_answer_json_tagged(struct http_request *request, json_t *json)
{
    char tag[BLOB_TAG];
    struct blob *blob = blob_json(json);
    if (!blob) {
        request_answer_json(request, 503, NULL);
        return;
    }
    blob_tag(blob, tag);
    request_answer_tagged(request, 200, tag, blob);
}

void request_answer_json(struct http_request *request, int status, json_t *json)
{
    static const char none[] = "{\"error\": {\"kind\": \"memory\", \"text\": \"out of memory; try again later\"}}\n";
    struct blob *blob = blob_json(json);
    struct reply reply = request->refusal;
    reply.status = blob ? status : 503;
    reply.type = "application/json";
    if (blob)
        request_answer(request, &reply, blob);
    else
        request_answer_bytes(request, &reply, none, sizeof none - 1);
}

void request_answer_error(struct http_request *request, int status, const char *kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    request_answer_json(request, status, json_pack("{s:{s:s, s:o}}", "error", "kind", kind, "text", text_json(text)));
}

void request_answer_nothing(struct http_request *request)
{
    struct reply reply = request->refusal;
    reply.status = 204;
    request_answer_bytes(request, &reply, NULL, 0);
}

/* ---- the course of a request ---- */

static void request_reset(struct http_request *request)
{
    if (lws_dll2_owner(&request->waiting.list))
        lws_sul_schedule(request->server->context, 0, &request->waiting, NULL, LWS_SET_TIMER_USEC_CANCEL);
    if (request->forget)
        request->forget(request);
    if (request->done)
        request->done(request);
    for (size_t i = 0; i < request->argument_count; i++)
        free(request->arguments[i]);
    blob_unref(request->blob);
    free(request->behind);
    buf_done(&request->body);
    memset(request, 0, sizeof *request);
}

static void request_go(struct http_request *request)
{
    lws_set_timeout(request->wsi, NO_PENDING_TIMEOUT, 0);
    request->until_ns = 0;
    if (!request->refusal.status) {
        request->route->answer(request);
        if (!request->answered && !request->take_body)
            watch_who_waits(request);
        return;
    }
    if (request->refusal.status == 429)
        request->refusal.retry = "1";
    request_answer_error(request, request->refusal.status, request->refusal_kind, "%s", request->refusal_text);
}

/* libwebsockets decodes %0a and %0d before it looks for the end of the line: the path ends there, and what follows it is read as a
 * header. Then the version, which stands behind the path, is missing. */
static bool is_cut(struct http_request *request)
{
    char version[16];
    return lws_get_network_wsi(request->wsi) == request->wsi &&
           (!request_header(request, WSI_TOKEN_HTTP, version, sizeof version) || strncmp(version, "HTTP/1.", 7) != 0);
}

static void read_path(struct http_request *request)
{
    char *uri = NULL;
    int len = 0;
    bool plain = true;
    request->method = read_method(request, &uri, &len);
    if (len <= 0 || len >= PATH_MOST || *uri != '/') {
        request_refuse(request, 414, "too_long", "the path of the URL is too long");
        return;
    }
    memcpy(request->path, uri + 1, (size_t)len - 1);
    for (int i = 0; i < len - 1; i++)
        plain = plain && (unsigned char)request->path[i] >= ' ' && request->path[i] != 0x7f;
    if (!plain || is_cut(request)) {
        request_refuse(request, 400, "path", "the path of the URL has control characters");
        request->close = true;
    }
}

static int request_begin(struct http_request *request, struct server *server, struct lws *wsi)
{
    struct connection *connection = connection_of(wsi);
    request_reset(request);
    if (connection)
        connection->answering = true;
    request->server = server;
    request->wsi = wsi;
    read_path(request);
    check_values(request);
    check_session(request, connection);
    check_origin(request);
    read_arguments(request);
    read_headers(request);
    check_route(request);
    read_body_size(request);
    request->body_left = request->body_size > 0;
    if (request->body_left && !request->close &&
        !(request->route && request->route->body && !request->refusal.status)) {
        set_end(request, HTTP_BODY_SECONDS, 0);
        return 0;
    }
    request_go(request);
    if (request->take_body && !request->answered)
        set_end(request, HTTP_BODY_SECONDS, request->body_size / BODY_SECOND_BYTES);
    return 0;
}

static int on_body(struct http_request *request, const void *bytes, size_t len)
{
    struct connection *connection = connection_of(request->wsi);
    if (connection)
        connection_allow_body(connection, len);
    if (request->answered || request->close)
        return 0;
    if (!goes_on(request, HTTP_BODY_SECONDS))
        return -1;
    if (request->take_body)
        return request->take_body(request, bytes, len);
    if (request->refusal.status)
        return 0;
    if (request->body.len + len > BODY_MOST)
        return -1;
    buf_append(&request->body, bytes, len);
    return 0;
}

static int request_finish(struct http_request *request)
{
    struct lws *wsi = request->wsi;
    struct connection *connection = connection_of(wsi);
    bool close = request->close;
    request_reset(request);
    if (connection)
        connection->answering = false;
    close |= connection && connection->refusal; /* what stands behind this request is none: this is the last answer */
    return close || lws_http_transaction_completed(wsi) ? -1 : 0;
}

/* The next piece into the room: its size; 0: not now; -1: the connection is to end. */
static ssize_t next_piece(struct http_request *request, unsigned char *room, size_t most, bool *ret_last)
{
    ssize_t len = (ssize_t)most;
    if (request->more) {
        len = request->more(request, room, most);
        *ret_last = len == -1 || (len > 0 && request->left == (uint64_t)len);
        return len == -1 ? 0 : len < 0 ? -1 : len;
    }
    memcpy(room, request->bytes + request->sent, most);
    *ret_last = request->left == most;
    return len;
}

static int write_some(struct http_request *request)
{
    unsigned char room[LWS_PRE + AT_ONCE];
    bool last = false;
    if (!request->answered)
        return 0;
    if (request->body.len) {
        size_t len = request->body.len;
        if (len > AT_ONCE)
            return -1;
        memcpy(room + LWS_PRE, request->body.data, len);
        buf_done(&request->body);
        bool none = !request->left;
        if (lws_write(request->wsi, room + LWS_PRE, len,
                      LWS_WRITE_HTTP_HEADERS | (none ? LWS_WRITE_H2_STREAM_END : 0)) < 0)
            return -1;
        if (none)
            return request_finish(request);
        request_more(request);
        return 0;
    }
    lws_fileofs_t allowed = lws_get_peer_write_allowance(request->wsi);
    size_t most = request->left < AT_ONCE ? (size_t)request->left : AT_ONCE;
    if (allowed >= 0 && (uint64_t)allowed < most)
        most = (size_t)allowed;
    if (!most) { /* the other end's window is closed: libwebsockets would call at once, again and again */
        lws_set_timer_usecs(request->wsi, HTTP_WINDOW_MS * LWS_US_PER_MS);
        return request->until_ns && clock_now_ns() > request->until_ns ? -1 : 0;
    }
    ssize_t len = next_piece(request, room + LWS_PRE, most, &last);
    if (len < 0 || (!len && !last))
        return len < 0 ? -1 : 0;
    if (lws_write(request->wsi, room + LWS_PRE, (size_t)len, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)len)
        return -1;
    if (!goes_on(request, HTTP_SEND_SECONDS))
        return -1;
    request->sent += (uint64_t)len;
    if (request->left != UINT64_MAX)
        request->left -= (uint64_t)len;
    if (last)
        return request_finish(request);
    if (request->left != UINT64_MAX || (size_t)len == most)
        request_more(request);
    return 0;
}

int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct server *server = lws_context_user(lws_get_context(wsi));
    struct http_request *request = user;
    switch (reason) {
    case LWS_CALLBACK_OPENSSL_LOAD_EXTRA_SERVER_VERIFY_CERTS:
        server->tls = user;
        return 0;
    case LWS_CALLBACK_SERVER_NEW_CLIENT_INSTANTIATED:
        connection_began(server, wsi);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        if (lws_get_protocol(wsi) &&
            lws_get_protocol(wsi)->callback == on_http) /* those of other protocols come here, too */
            connection_ended(server, wsi);
        return 0;
    case LWS_CALLBACK_HTTP:
        return request_begin(request, server, wsi);
    case LWS_CALLBACK_HTTP_BODY:
        return on_body(request, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (!request->answered && request->body_left) {
            request->body_left = false;
            if (request->take_body)
                return request->take_body(request, NULL, 0);
            request_go(request);
        }
        return 0;
    case LWS_CALLBACK_TIMER:
        request_more(request);
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return write_some(request);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (request)
            request_reset(request);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: /* no WebSocket here, and HTTP/2 by TLS only */
        return lws_return_http_status(wsi, HTTP_STATUS_BAD_REQUEST, "without an upgrade, please") < 0 ? -1 : 1;
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return -1;
    default:
        return 0;
    }
}
