/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that answer: children in groups of their own, with limits of memory, time and output. */
#ifndef SCRY_WEB_SERVE_CHILD_H
#define SCRY_WEB_SERVE_CHILD_H

#include <libwebsockets.h>

#include "base/data/buf.h"
#include "web/http/server.h"

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

#endif
