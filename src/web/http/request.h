/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_HTTP_REQUEST_H
#define SCRY_WEB_HTTP_REQUEST_H

#include "base/data/buf.h"
#include "web/http/head.h"
#include "web/http/server.h"

#include <jansson.h>
#include <libwebsockets.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A request and its answer. What is wrong with a request is found before anything is done: method, host, origin, session,
 * right, limits; then its route is called, which answers now or later, at once or piece by piece.
 *
 * What the server says of a job a command says already as JSON: it runs `scry report`, `top`, `why` ... as children with limits, and
 * passes on what they print (serve/question.c). So a figure on a page is that of the command, for every job that the command
 * works for. What only pictures need is scry-view's. The server itself parses no trace, and never waits. doc/reference/api.json
 * is the contract, doc/explain/security.md has who gets in.
 */

enum method { METHOD_GET = 1, METHOD_HEAD = 2, METHOD_POST = 4, METHOD_PUT = 8, METHOD_DELETE = 16, METHOD_OTHER = 32 };
enum { BODY_MOST = 256 << 10, PATH_MOST = 1024, ARGUMENTS_MOST = 32, PARTS_OF_PATH = 3 };
/* Bytes of a refused body that are read and dropped: a browser that is cut off while it sends never sees why. */
enum { DROP_MOST = 256 << 20 };

/* Bytes that several answers may share. */
struct blob {
    unsigned count;     /* of those that have it */
    char *bytes, *gzip; /* gzip NULL: not made, or not smaller */
    size_t size, gzip_size;
    bool gzip_tried;
};
struct blob *blob_new(struct buf *take); /* NULL: out of memory; the buffer is empty then, too */
struct blob *blob_ref(struct blob *blob);
void blob_tag(const struct blob *blob, char ret_tag[BLOB_TAG]); /* for the header ETag, with its quotes */
void blob_unref(struct blob *blob);                             /* NULL is fine */
bool blob_zip(struct blob *blob); /* makes `gzip` once, for all that get it; false: it would not be smaller */

struct route;
struct http_request;
struct question;
struct answer;
typedef void answer_fn(struct http_request *request, const struct answer *answer);

/* Gives more of an answer, at most so many bytes: how many; 0, or fewer than there was room for where the size is not known: not
 * now, request_more is called when there is more; -1: it was the end; -2: it cannot be given, the connection ends. */
typedef ssize_t request_more_fn(struct http_request *request, unsigned char *room, size_t size);

struct reply {
    int status;
    const char *type;
    const char *etag, *cache, *encoding, *cookie, *disposition, *retry, *range, *range_unit; /* headers; NULL: none */
};

struct http_request {
    struct lws *wsi;
    struct server *server;
    struct question *question;                    /* that it waits for; NULL: none */
    void (*forget)(struct http_request *request); /* takes it from those who wait for that; NULL: it waits for none */
    answer_fn *then;                              /* what is done with its answer; NULL: it is given (answer_give) */
    struct http_request *next_asking, **before_asking; /* of those that wait for the same one */
    enum method method;
    const struct route *route;
    char path[PATH_MOST];             /* without the first slash */
    struct span parts[PARTS_OF_PATH]; /* of it, in place of the stars of the route */
    char *arguments[ARGUMENTS_MOST];  /* of the query: NAME=VALUE */
    size_t argument_count;
    unsigned rights, listed; /* listed: sources of jobs, while one is looked for */
    uint64_t session;        /* its number; 0: none */
    enum entrance entrance;
    bool by_cookie, takes_gzip, is_json, is_secure, mirror_is_new;
    char tags
        [160]; /* If-None-Match; "": none. The next likewise; the request's headers are gone when an answer is late */
    char range[64];
    char allow[32];     /* methods that the path has, when it has not this one */
    char *behind;       /* Last-Event-ID, or the argument `behind`; NULL: none */
    uint64_t body_size; /* as the request says */
    uint64_t until_ns;  /* it is to have come, or the answer to have gone; 0: no end */
    struct buf body;
    /* Of a route with `body`: gets its pieces as they come, and NULL at the end. -1: the connection ends. */
    int (*take_body)(struct http_request *request, const void *bytes, size_t size);
    struct reply refusal; /* status 0: none; its answer waits for the end of the body */
    const char *refusal_kind;
    char refusal_text[256];
    bool body_left, answered, close;
    lws_sorted_usec_list_t waiting; /* looks whether somebody waits for the answer, until it is there */
    /* the answer */
    struct blob *blob;
    const unsigned char *bytes; /* of the blob, or of this program */
    uint64_t left, sent;
    request_more_fn *more;
    void (*done)(
        struct http_request *request); /* frees what `extra` has; also if the answer was cut short. NULL: nothing */
    void *extra;
};

/* The value of an argument of the query; NULL: it was not given. */
const char *request_argument(const struct http_request *request, const char *name);

/* The body, which is to be a JSON object. NULL: it is none, and the request has its answer. */
json_t *request_json(struct http_request *request);

/* Answers, each once. The blob is taken. */
void request_answer(struct http_request *request, const struct reply *reply, struct blob *blob_take);
/* The bytes stay where they are. */
void request_answer_bytes(struct http_request *request, const struct reply *reply, const void *bytes, size_t size);
/* From `more`. size UINT64_MAX: not known, the end of the connection is the end. */
void request_answer_more(struct http_request *request, const struct reply *reply, uint64_t size, request_more_fn *more);
void request_answer_json(struct http_request *request, int status, json_t *json_take);
/* The same with a tag: 304 for who has it already. */
void request_answer_tagged(struct http_request *request, int status, const char *tag, struct blob *blob_take);
void request_answer_json_tagged(struct http_request *request, json_t *json_take);
/* {"error": {"kind": , "text": }}; the text is one line: what, and what to do. */
void request_answer_error(struct http_request *request, int status, const char *kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void request_answer_nothing(struct http_request *request); /* 204 */

/* May who asks be told more? For answers without an end: a session may end before. */
bool request_is_let_in(const struct http_request *request);

/* There is more of the answer. */
void request_more(struct http_request *request);

/* The protocol "http". */
int on_http(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);

/* Paths and what answers them. The program has one table; `scry-serve --routes` prints it, and a test holds doc/reference/api.json
 * against that. */

struct route {
    const char *path; /* relative; `*` is a part, `**` all parts that are left */
    enum method method;
    unsigned right; /* enum right; 0: no session is needed */
    void (*answer)(struct http_request *request);
    const char *asks;      /* what is asked for the answer: a command of scry, or a question to scry-view */
    const char *arguments; /* of the query, separated by blanks */
    bool body;             /* takes the body by itself, as it comes: `answer` is called before */
};
extern const struct route route_rows[];
extern const size_t route_count;
const char *method_name(enum method method);

/* What this room answers itself: who one is, the ways in, the pages. */
void answer_session_get(struct http_request *request); /* session.c */
void answer_session_post(struct http_request *request);
void answer_session_delete(struct http_request *request);
void answer_links_post(struct http_request *request);
void answer_page(struct http_request *request); /* pages.c */

/* The files of the pages, inside the program. The build of src/web/ui makes the table, sorted by path in the order of strcmp.
 * Without node it is one page that says what to do (pages.c). */

struct web_file {
    const char *path; /* relative: "index.html", "assets/app.js" */
    const char *type; /* "text/html; charset=utf-8" */
    const unsigned char *bytes;
    size_t size;
    const unsigned char *gzip; /* NULL: it would not be smaller */
    size_t gzip_size;
    const char *etag; /* with its quotes: a hash of the bytes */
};
extern const struct web_file web_files[];
extern const size_t web_file_count;
extern const bool web_pages_missing;

#endif
