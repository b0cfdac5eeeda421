/* SPDX-License-Identifier: Apache-2.0 */
#include "web/http/visit.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "web/http/connection.h"

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
static bool visit_header(struct visit *visit, enum lws_token_indexes token, char *room, size_t size)
{
    int len = lws_hdr_total_length(visit->wsi, token);
    return len > 0 && (size_t)len < size && lws_hdr_copy(visit->wsi, room, (int)size, token) >= 0;
}

static bool visit_header_named(struct visit *visit, const char *name, char *room, size_t size)
{
    int named = (int)strlen(name), len = lws_hdr_custom_length(visit->wsi, name, named);
    return len > 0 && (size_t)len < size && lws_hdr_custom_copy(visit->wsi, room, (int)size, name, named) >= 0;
}

const char *visit_argument(const struct visit *visit, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < visit->argument_count; i++)
        if (strncmp(visit->arguments[i], name, len) == 0 && visit->arguments[i][len] == '=')
            return visit->arguments[i] + len + 1;
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

static enum method read_method(struct visit *visit, char **ret_uri, int *ret_len)
{
    char text[16] = "";
    int number = lws_http_get_uri_and_method(visit->wsi, ret_uri, ret_len);
    if (number == LWSHUMETH_COLON_PATH)
        visit_header(visit, WSI_TOKEN_HTTP_COLON_METHOD, text, sizeof text);
    for (size_t i = 0; i < METHODS; i++)
        if (number == methods[i].number || strcmp(text, methods[i].name) == 0)
            return methods[i].method;
    return METHOD_OTHER;
}

static void visit_refuse(struct visit *visit, int status, const char *kind, const char *text)
{
    if (visit->refusal.status)
        return;
    visit->refusal = (struct reply){.status = status};
    visit->refusal_kind = kind;
    snprintf(visit->refusal_text, sizeof visit->refusal_text, "%s", text);
}

static void read_arguments(struct visit *visit)
{
    char text[POSITION_TEXT];
    int len;
    for (int i = 0; (len = lws_hdr_copy_fragment(visit->wsi, text, sizeof text, WSI_TOKEN_HTTP_URI_ARGS, i)) != -1;
         i++) {
        if (len < 0 || visit->argument_count == ARGUMENTS_MOST) {
            visit_refuse(visit, 414, "too_long", "the query of the URL is too long");
            return;
        }
        if (!len)
            continue;
        if (!(visit->arguments[visit->argument_count] = strdup(text))) {
            visit_refuse(visit, 503, "memory", "out of memory; try again later");
            return;
        }
        visit->argument_count++;
    }
}

static void read_headers(struct visit *visit)
{
    char text[512], last[POSITION_TEXT] = "";
    const char *behind = visit_argument(visit, "behind");
    visit->takes_gzip =
        visit_header(visit, WSI_TOKEN_HTTP_ACCEPT_ENCODING, text, sizeof text) && foreign_takes_gzip(span_str(text));
    visit->is_json = visit_header(visit, WSI_TOKEN_HTTP_CONTENT_TYPE, text, sizeof text) &&
                     strncasecmp(text, "application/json", 16) == 0;
    visit->is_secure = lws_is_ssl(lws_get_network_wsi(visit->wsi)) ||
                       (visit_header(visit, WSI_TOKEN_ORIGIN, text, sizeof text) && strncmp(text, "https:", 6) == 0);
    visit_header(visit, WSI_TOKEN_HTTP_IF_NONE_MATCH, visit->tags, sizeof visit->tags);
    visit_header(visit, WSI_TOKEN_HTTP_RANGE, visit->range, sizeof visit->range);
    if (visit_header_named(visit, "last-event-id:", last, sizeof last) || behind)
        visit->behind = strdup(*last ? last : behind);
}

/* A zero byte would end a value here, and not for a proxy: in HTTP/2. (HTTP/1: head.h.) */
static void check_values(struct visit *visit)
{
    char text[POSITION_TEXT];
    for (int token = 0; token < WSI_TOKEN_COUNT; token++) {
        int len = lws_hdr_total_length(visit->wsi, (enum lws_token_indexes)token);
        if (len <= 0 || (size_t)len >= sizeof text)
            continue;
        if (lws_hdr_copy(visit->wsi, text, sizeof text, (enum lws_token_indexes)token) < 0 ||
            memchr(text, '\0', (size_t)len)) {
            visit_refuse(visit, 400, "header", "a header has a zero byte");
            visit->close = true;
            return;
        }
    }
}

/* Pages of other sites cannot ask: neither under their name, which may lead here (DNS rebinding), nor under ours. */
static void check_origin(struct visit *visit)
{
    char host[256] = "", origin[300] = "", site[16] = "";
    if (visit->way == WAY_OWNER)
        return;
    if (!visit_header(visit, WSI_TOKEN_HOST, host, sizeof host))
        visit_header(visit, WSI_TOKEN_HTTP_COLON_AUTHORITY, host, sizeof host);
    if (!server_is_host(visit->server, host))
        visit_refuse(visit, 421, "host", "this server is not called so; use its link, or name the URL with --origin");
    bool named = lws_hdr_total_length(visit->wsi, WSI_TOKEN_ORIGIN) > 0;
    if (named &&
        (!visit_header(visit, WSI_TOKEN_ORIGIN, origin, sizeof origin) || !server_is_origin(visit->server, origin)))
        visit_refuse(visit, 403, "origin",
                     "pages of other origins may not ask; name the URL with --origin if it is yours");
    if (!named && (visit->by_cookie || visit->way == WAY_PROXY) && !(visit->method & (METHOD_GET | METHOD_HEAD)))
        visit_refuse(visit, 403, "origin",
                     "a request by a cookie or a proxy needs the header Origin; scripts use Authorization: Bearer");
    /* Passwords and cookies by which a proxy knows people may come along with requests of other pages, which say no origin if
     * they only load something. */
    if (visit->way == WAY_PROXY && strncmp(visit->path, "api/", 4) == 0 &&
        visit_header_named(visit, "sec-fetch-site:", site, sizeof site) && strcmp(site, "same-origin") != 0 &&
        strcmp(site, "none") != 0)
        visit_refuse(visit, 403, "origin", "pages of other origins may not ask");
}

bool visit_is_let_in(const struct visit *visit)
{
    return visit->way != WAY_ADDRESS || session_lives(visit->server->sessions, visit->session);
}

static void check_session(struct visit *visit, struct connection *connection)
{
    char text[4096] = "";
    struct session *session = NULL;
    static const char bearer[] = "Bearer ";
    visit->way = connection ? connection->way : WAY_ADDRESS;
    if (visit->way != WAY_ADDRESS) { /* no header of a proxy says who it is, for anybody can send headers */
        visit->rights = visit->way == WAY_OWNER
                            ? RIGHT_ALL
                            : (unsigned)options_number(visit->server->options, "rights") | RIGHT_OBSERVE;
        return;
    }
    if (visit_header(visit, WSI_TOKEN_HTTP_AUTHORIZATION, text, sizeof text)) {
        if (strncasecmp(text, bearer, sizeof bearer - 1) == 0)
            session =
                session_find(visit->server->sessions, SECRET_BEARER, foreign_trim(span_str(text + sizeof bearer - 1)));
    } else if (visit_header(visit, WSI_TOKEN_HTTP_COOKIE, text, sizeof text)) {
        session = session_find(visit->server->sessions, SECRET_SESSION,
                               foreign_cookie(span_str(text), visit->server->cookie));
        visit->by_cookie = session != NULL;
    }
    if (session) {
        visit->session = session->number;
        visit->rights = session->rights;
    }
    if (session ? !session_take(session) : connection && !connection_take(connection))
        visit_refuse(visit, 429, "too_many", "too many requests at once; try again in a second");
    else if (connection)
        connection_allow_request(connection, session != NULL);
}

static void check_route(struct visit *visit)
{
    unsigned other = 0;
    visit->route = route_find(visit->path, visit->method, visit->parts, &other);
    if (!visit->route) {
        for (size_t i = 0; i < METHODS; i++)
            if (other & (unsigned)methods[i].method)
                snprintf(visit->allow + strlen(visit->allow), sizeof visit->allow - strlen(visit->allow), "%s%s",
                         *visit->allow ? ", " : "", methods[i].name);
        visit_refuse(visit, other ? 405 : 404, other ? "method" : "unknown",
                     other ? "this path has other methods" : "there is nothing at this path");
        return;
    }
    if (!visit->route->right || (visit->rights & visit->route->right))
        return;
    if (!visit->rights)
        visit_refuse(visit, 401, "session",
                     "open the link that scry serve has printed, or print another one: scry serve --link");
    else
        visit_refuse(visit, 403, "rights",
                     "this session may not do that; print a link with more rights: scry serve --link");
}

static void read_body_size(struct visit *visit)
{
    char text[32] = "";
    const struct connection *connection = connection_of(visit->wsi);
    visit->close |= connection && connection->head.state == HEAD_LAST; /* nothing behind this was looked at */
    if (lws_hdr_total_length(visit->wsi, WSI_TOKEN_HTTP_TRANSFER_ENCODING) > 0) {
        visit_refuse(visit, 411, "length", "say the length of the body; it cannot be sent in chunks");
        visit->close = true;
    }
    if (lws_hdr_total_length(visit->wsi, WSI_TOKEN_HTTP_CONTENT_LENGTH) <= 0) {
        /* Without a length there is no body (RFC 9112, 6.3); libwebsockets waits for one, also behind the answer. */
        visit->close |=
            visit->method & (METHOD_POST | METHOD_PUT | METHOD_OTHER) && lws_get_network_wsi(visit->wsi) == visit->wsi;
        return;
    }
    if (!visit_header(visit, WSI_TOKEN_HTTP_CONTENT_LENGTH, text, sizeof text) ||
        !foreign_number(span_str(text), &visit->body_size)) {
        visit_refuse(visit, 400, "length", "the header Content-Length is no number");
        visit->close = true;
    }
    if (visit->body_size > BODY_MOST && !(visit->route && visit->route->body && !visit->refusal.status)) {
        visit_refuse(visit, 413, "too_large", "the body of the request is too large");
        visit->close |= visit->body_size > DROP_MOST;
    }
}

/* A body that pages of other sites could send without asking first is none of ours. */
json_t *visit_json(struct visit *visit)
{
    json_t *json =
        visit->is_json ? json_loadb(visit->body.data ? visit->body.data : "", visit->body.len, 0, NULL) : NULL;
    if (json_is_object(json))
        return json;
    json_decref(json);
    visit_answer_error(visit, 400, "body", "expected a JSON object, and Content-Type: application/json");
    return NULL;
}

/* ---- the answer ---- */

void visit_more(struct visit *visit)
{
    lws_callback_on_writable(visit->wsi);
}

static bool head_add(struct visit *visit, const char *name, const char *value, unsigned char **at, unsigned char *end)
{
    return !value || lws_add_http_header_by_name(visit->wsi, (const unsigned char *)name, (const unsigned char *)value,
                                                 (int)strlen(value), at, end) == 0;
}

/* Nobody keeps a connection by sending, or taking, a byte from time to time: `seconds` from now, and `more` if something goes
 * on all the time. libwebsockets begins its own time anew with each piece. */
static void set_end(struct visit *visit, int seconds, uint64_t more)
{
    visit->until_ns = clock_now_ns() + time_hasten((uint64_t)seconds * NS_PER_SECOND);
    visit->until_ns += (more < INT_MAX ? more : INT_MAX) * NS_PER_SECOND;
    lws_set_timeout(visit->wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten((uint64_t)seconds));
}

static bool goes_on(struct visit *visit, int seconds)
{
    if (visit->until_ns)
        lws_set_timeout(visit->wsi, PENDING_TIMEOUT_HTTP_CONTENT, (int)time_hasten((uint64_t)seconds));
    return !visit->until_ns || clock_now_ns() < visit->until_ns;
}

/* Who has closed the connection waits no longer. libwebsockets does not read while an answer is made, nor while one without an end
 * is sent, but would be called by the kernel again and again for what there is to read: the end, or a next request. It is told not
 * to listen, but while it sends: then it would do nothing at all. */
static void look_who_waits(lws_sorted_usec_list_t *timer)
{
    struct visit *visit = lws_container_of(timer, struct visit, waiting);
    /* answered by events, behind which nobody has to send anything */
    short events = visit->answered ? POLLRDHUP | POLLIN : POLLRDHUP;
    if (visit->answered && visit->left != UINT64_MAX)
        return;
    if (wait_fd(lws_get_socket_fd(visit->wsi), events, 0))
        lws_set_timeout(visit->wsi, PENDING_TIMEOUT_HTTP_CONTENT, LWS_TO_KILL_ASYNC);
    else
        lws_sul_schedule(visit->server->context, 0, &visit->waiting, look_who_waits, HTTP_LOOK_MS * LWS_US_PER_MS);
}

static void watch_who_waits(struct visit *visit)
{
    if (lws_get_network_wsi(visit->wsi) != visit->wsi)
        return;
    if (!visit->answered)
        lws_rx_flow_control(visit->wsi, 0);
    lws_sul_schedule(visit->server->context, 0, &visit->waiting, look_who_waits, HTTP_LOOK_MS * LWS_US_PER_MS);
}

/* The headers are written when there is room for them, as all of the answer. */
static void visit_start_answer(struct visit *visit, const struct reply *reply, uint64_t size)
{
    unsigned char room[LWS_PRE + HEAD_ROOM], *start = room + LWS_PRE, *at = start, *end = room + sizeof room - 1;
    char number[24];
    bool plain = reply->status == 204 || reply->status == 304;
    snprintf(number, sizeof number, "%llu", (unsigned long long)size);
    bool made = lws_add_http_header_status(visit->wsi, (unsigned)reply->status, &at, end) == 0 &&
                head_add(visit, "content-type:", plain ? NULL : reply->type, &at, end) &&
                head_add(visit, "content-length:", plain || size == UINT64_MAX ? NULL : number, &at, end) &&
                head_add(visit, "etag:", reply->etag, &at, end) &&
                head_add(visit, "cache-control:", reply->cache ? reply->cache : "no-store", &at, end) &&
                head_add(visit, "content-encoding:", reply->encoding, &at, end) &&
                head_add(visit, "vary:", reply->encoding ? "accept-encoding" : NULL, &at, end) &&
                head_add(visit, "set-cookie:", reply->cookie, &at, end) &&
                head_add(visit, "content-disposition:", reply->disposition, &at, end) &&
                head_add(visit, "retry-after:", reply->retry, &at, end) &&
                head_add(visit, "allow:", *visit->allow ? visit->allow : NULL, &at, end) &&
                head_add(visit, "content-range:", reply->range, &at, end) &&
                /* nginx, and others after it, pass events on as they come */
                head_add(visit, "x-accel-buffering:", size == UINT64_MAX ? "no" : NULL, &at, end) &&
                head_add(visit, "accept-ranges:", reply->range_unit, &at, end) &&
                (lws_get_network_wsi(visit->wsi) != visit->wsi ||
                 head_add(visit, "connection:", visit->close || size == UINT64_MAX ? "close" : NULL, &at, end)) &&
                lws_finalize_http_header(visit->wsi, &at, end) == 0;
    visit->close = visit->close || size == UINT64_MAX || !made;
    if (!visit->answered && lws_dll2_owner(&visit->waiting.list))
        lws_rx_flow_control(visit->wsi, 1);
    visit->answered = true;
    buf_clear(&visit->body);
    buf_append(&visit->body, start, made ? (size_t)(at - start) : 0); /* the request's own is not needed any more */
    visit->left = visit->method == METHOD_HEAD || plain ? 0 : size;
    if (visit->method == METHOD_HEAD || plain)
        visit->more = NULL;
    if (visit->left == UINT64_MAX)
        watch_who_waits(visit);
    set_end(visit, HTTP_SEND_SECONDS, size == UINT64_MAX ? 0 : size / SEND_SECOND_BYTES);
    if (size == UINT64_MAX)
        visit->until_ns = 0;
    visit_more(visit);
}

void visit_answer_bytes(struct visit *visit, const struct reply *reply, const void *bytes, size_t size)
{
    visit->bytes = bytes;
    visit_start_answer(visit, reply, size);
}

void visit_answer(struct visit *visit, const struct reply *reply, struct blob *blob)
{
    struct reply made = *reply;
    visit->blob = blob;
    if (visit->takes_gzip && blob_zip(blob)) {
        made.encoding = "gzip";
        visit_answer_bytes(visit, &made, blob->gzip, blob->gzip_size);
    } else {
        visit_answer_bytes(visit, reply, blob->bytes, blob->size);
    }
}

void visit_answer_more(struct visit *visit, const struct reply *reply, uint64_t size, visit_more_fn *more)
{
    visit->more = more;
    visit_start_answer(visit, reply, size);
}

void visit_answer_tagged(struct visit *visit, int status, const char *tag, struct blob *blob)
{
    struct reply reply = {.status = status, .type = "application/json", .etag = tag, .cache = "private, no-cache"};
    if (foreign_has_tag(span_str(visit->tags), tag)) {
        blob_unref(blob);
        reply.status = 304;
        visit_answer_bytes(visit, &reply, NULL, 0);
    } else {
        visit_answer(visit, &reply, blob);
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

void visit_answer_json_tagged(struct visit *visit, json_t *json)
{
    char tag[BLOB_TAG];
    struct blob *blob = blob_json(json);
    if (!blob) {
        visit_answer_json(visit, 503, NULL);
        return;
    }
    blob_tag(blob, tag);
    visit_answer_tagged(visit, 200, tag, blob);
}

void visit_answer_json(struct visit *visit, int status, json_t *json)
{
    static const char none[] = "{\"error\": {\"kind\": \"memory\", \"text\": \"out of memory; try again later\"}}\n";
    struct blob *blob = blob_json(json);
    struct reply reply = visit->refusal;
    reply.status = blob ? status : 503;
    reply.type = "application/json";
    if (blob)
        visit_answer(visit, &reply, blob);
    else
        visit_answer_bytes(visit, &reply, none, sizeof none - 1);
}

void visit_answer_error(struct visit *visit, int status, const char *kind, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    visit_answer_json(visit, status, json_pack("{s:{s:s, s:o}}", "error", "kind", kind, "text", text_json(text)));
}

void visit_answer_nothing(struct visit *visit)
{
    struct reply reply = visit->refusal;
    reply.status = 204;
    visit_answer_bytes(visit, &reply, NULL, 0);
}

/* ---- the course of a visit ---- */

static void visit_reset(struct visit *visit)
{
    if (lws_dll2_owner(&visit->waiting.list))
        lws_sul_schedule(visit->server->context, 0, &visit->waiting, NULL, LWS_SET_TIMER_USEC_CANCEL);
    if (visit->forget)
        visit->forget(visit);
    if (visit->done)
        visit->done(visit);
    for (size_t i = 0; i < visit->argument_count; i++)
        free(visit->arguments[i]);
    blob_unref(visit->blob);
    free(visit->behind);
    buf_done(&visit->body);
    memset(visit, 0, sizeof *visit);
}

static void visit_go(struct visit *visit)
{
    lws_set_timeout(visit->wsi, NO_PENDING_TIMEOUT, 0);
    visit->until_ns = 0;
    if (!visit->refusal.status) {
        visit->route->answer(visit);
        if (!visit->answered && !visit->take_body)
            watch_who_waits(visit);
        return;
    }
    if (visit->refusal.status == 429)
        visit->refusal.retry = "1";
    visit_answer_error(visit, visit->refusal.status, visit->refusal_kind, "%s", visit->refusal_text);
}

/* libwebsockets decodes %0a and %0d before it looks for the end of the line: the path ends there, and what follows it is read as a
 * header. Then the version, which stands behind the path, is missing. */
static bool is_cut(struct visit *visit)
{
    char version[16];
    return lws_get_network_wsi(visit->wsi) == visit->wsi &&
           (!visit_header(visit, WSI_TOKEN_HTTP, version, sizeof version) || strncmp(version, "HTTP/1.", 7) != 0);
}

static void read_path(struct visit *visit)
{
    char *uri = NULL;
    int len = 0;
    bool plain = true;
    visit->method = read_method(visit, &uri, &len);
    if (len <= 0 || len >= PATH_MOST || *uri != '/') {
        visit_refuse(visit, 414, "too_long", "the path of the URL is too long");
        return;
    }
    memcpy(visit->path, uri + 1, (size_t)len - 1);
    for (int i = 0; i < len - 1; i++)
        plain = plain && (unsigned char)visit->path[i] >= ' ' && visit->path[i] != 0x7f;
    if (!plain || is_cut(visit)) {
        visit_refuse(visit, 400, "path", "the path of the URL has control characters");
        visit->close = true;
    }
}

static int visit_begin(struct visit *visit, struct server *server, struct lws *wsi)
{
    struct connection *connection = connection_of(wsi);
    visit_reset(visit);
    if (connection)
        connection->visited = true;
    visit->server = server;
    visit->wsi = wsi;
    read_path(visit);
    check_values(visit);
    check_session(visit, connection);
    check_origin(visit);
    read_arguments(visit);
    read_headers(visit);
    check_route(visit);
    read_body_size(visit);
    visit->body_left = visit->body_size > 0;
    if (visit->body_left && !visit->close && !(visit->route && visit->route->body && !visit->refusal.status)) {
        set_end(visit, HTTP_BODY_SECONDS, 0);
        return 0;
    }
    visit_go(visit);
    if (visit->take_body && !visit->answered)
        set_end(visit, HTTP_BODY_SECONDS, visit->body_size / BODY_SECOND_BYTES);
    return 0;
}

static int on_body(struct visit *visit, const void *bytes, size_t len)
{
    struct connection *connection = connection_of(visit->wsi);
    if (connection)
        connection_allow_body(connection, len);
    if (visit->answered || visit->close)
        return 0;
    if (!goes_on(visit, HTTP_BODY_SECONDS))
        return -1;
    if (visit->take_body)
        return visit->take_body(visit, bytes, len);
    if (visit->refusal.status)
        return 0;
    if (visit->body.len + len > BODY_MOST)
        return -1;
    buf_append(&visit->body, bytes, len);
    return 0;
}

static int visit_finish(struct visit *visit)
{
    struct lws *wsi = visit->wsi;
    struct connection *connection = connection_of(wsi);
    bool close = visit->close;
    visit_reset(visit);
    if (connection)
        connection->visited = false;
    close |= connection && connection->refusal; /* what stands behind this request is none: this is the last answer */
    return close || lws_http_transaction_completed(wsi) ? -1 : 0;
}

/* The next piece into the room: its size; 0: not now; -1: the connection is to end. */
static ssize_t next_piece(struct visit *visit, unsigned char *room, size_t most, bool *ret_last)
{
    ssize_t len = (ssize_t)most;
    if (visit->more) {
        len = visit->more(visit, room, most);
        *ret_last = len == -1 || (len > 0 && visit->left == (uint64_t)len);
        return len == -1 ? 0 : len < 0 ? -1 : len;
    }
    memcpy(room, visit->bytes + visit->sent, most);
    *ret_last = visit->left == most;
    return len;
}

static int write_some(struct visit *visit)
{
    unsigned char room[LWS_PRE + AT_ONCE];
    bool last = false;
    if (!visit->answered)
        return 0;
    if (visit->body.len) {
        size_t len = visit->body.len;
        if (len > AT_ONCE)
            return -1;
        memcpy(room + LWS_PRE, visit->body.data, len);
        buf_done(&visit->body);
        bool none = !visit->left;
        if (lws_write(visit->wsi, room + LWS_PRE, len, LWS_WRITE_HTTP_HEADERS | (none ? LWS_WRITE_H2_STREAM_END : 0)) <
            0)
            return -1;
        if (none)
            return visit_finish(visit);
        visit_more(visit);
        return 0;
    }
    lws_fileofs_t allowed = lws_get_peer_write_allowance(visit->wsi);
    size_t most = visit->left < AT_ONCE ? (size_t)visit->left : AT_ONCE;
    if (allowed >= 0 && (uint64_t)allowed < most)
        most = (size_t)allowed;
    if (!most) { /* the other end's window is closed: libwebsockets would call at once, again and again */
        lws_set_timer_usecs(visit->wsi, HTTP_WINDOW_MS * LWS_US_PER_MS);
        return visit->until_ns && clock_now_ns() > visit->until_ns ? -1 : 0;
    }
    ssize_t len = next_piece(visit, room + LWS_PRE, most, &last);
    if (len < 0 || (!len && !last))
        return len < 0 ? -1 : 0;
    if (lws_write(visit->wsi, room + LWS_PRE, (size_t)len, last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) < (int)len)
        return -1;
    if (!goes_on(visit, HTTP_SEND_SECONDS))
        return -1;
    visit->sent += (uint64_t)len;
    if (visit->left != UINT64_MAX)
        visit->left -= (uint64_t)len;
    if (last)
        return visit_finish(visit);
    if (visit->left != UINT64_MAX || (size_t)len == most)
        visit_more(visit);
    return 0;
}

int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
    struct server *server = lws_context_user(lws_get_context(wsi));
    struct visit *visit = user;
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
        return visit_begin(visit, server, wsi);
    case LWS_CALLBACK_HTTP_BODY:
        return on_body(visit, in, len);
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (!visit->answered && visit->body_left) {
            visit->body_left = false;
            if (visit->take_body)
                return visit->take_body(visit, NULL, 0);
            visit_go(visit);
        }
        return 0;
    case LWS_CALLBACK_TIMER:
        visit_more(visit);
        return 0;
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return write_some(visit);
    case LWS_CALLBACK_CLOSED_HTTP:
    case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        if (visit)
            visit_reset(visit);
        return 0;
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE: /* no WebSocket here, and HTTP/2 by TLS only */
        return lws_return_http_status(wsi, HTTP_STATUS_BAD_REQUEST, "without an upgrade, please") < 0 ? -1 : 1;
    case LWS_CALLBACK_FILTER_PROTOCOL_CONNECTION:
        return -1;
    default:
        return 0;
    }
}
