/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_SERVE_CHILD_H
#define SCRY_WEB_SERVE_CHILD_H

#include "base/data/buf.h"
#include "web/http/server.h"

#include <jansson.h>
#include <libwebsockets.h>

/* Programs that answer: children in groups of their own, with limits of memory, time and output. */

struct child;
enum child_end { CHILD_EXITED, CHILD_SIGNALLED, CHILD_TOO_LONG, CHILD_TOO_LARGE };

struct child_spec {
    char *const *argv;       /* argv[0]: its path */
    const char *environment; /* NAME=VALUE beside the server's own; NULL: none */
    bool input;              /* it has a standard input, for child_write; otherwise that is empty */
    uint32_t limit_s;        /* 0: none */
    size_t output_most;
    void (*heard)(
        struct child *child); /* there is more in `out`, of which it may drop what it has used. NULL: nothing */
    void (*ended)(struct child *child); /* once; it is freed afterwards */
    void *ctx;
};

struct child_pipe {
    struct child *child;
    struct buf bytes;
    bool open;
};

struct child {
    struct child *next; /* of all */
    struct server *server;
    struct child_spec spec; /* without argv */
    pid_t pid;
    int input; /* -1: none */
    struct child_pipe out, error;
    lws_sorted_usec_list_t timer;
    uint64_t begun_ns;
    bool over; /* it is ended by force */
    enum child_end end;
    int exit_status; /* if it exited */
};

/* NULL: no more processes, memory or open files. */
struct child *child_start(struct server *server, const struct child_spec *spec);
/* Ends it by force; `ended` is called later. */
void child_kill(struct child *child);
/* All of it (at most PIPE_BUF bytes), or -EAGAIN: it does not read; -EPIPE: it is gone. */
int child_write(struct child *child, const char *bytes, size_t len);
/* The end of its input. */
void child_close_input(struct child *child);

/* Ends all of them, when the context is gone; nobody is told. */
void children_done(struct server *server);

/* Protocol of the context. */
int on_child(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len);

/*
 * scry-view (web/view/view.h), one for each job that is looked at. It reads a job's traces while nobody asks, so it is
 * kept: those that were asked last, and no longer than a while.
 */

/* kind NULL: `bytes` are the JSON of the answer, to be taken. Otherwise the text says what is wrong. */
typedef void viewer_done_fn(void *ctx, const char *kind, const char *text, struct buf *bytes);

struct viewers;
struct viewers *viewers_new(struct server *server); /* NULL: out of memory */
void viewers_free(struct viewers *viewers);         /* after the context */

/* The question is an object without an id, and gets one. fn is called once, never before this returns 0. -EAGAIN: it is asked too much at once;
 * -EINVAL: the question is too long; -ENOMEM: no more processes, memory or open files. */
int viewer_ask(struct viewers *viewers, const char *jobdir, json_t *question, viewer_done_fn *fn, void *ctx);
/* Nobody waits for the answer of the question that got this id: it comes soon, and may be an error. */
void viewer_forget(struct viewers *viewers, const char *jobdir, int64_t id);

#endif
