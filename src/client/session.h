/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLIENT_SESSION_H
#define SCRY_CLIENT_SESSION_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/system/process.h"
#include "client/client.h"
#include "lang/reply.h"
#include "wire/frame.h"

#include <limits.h>
#include <omis.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The inside of libomis: one connection to the monitor, the callbacks that wait for replies, and the queue of replies
 * that wait for omis_handler.
 *
 *     omis.c         the six procedures: locking, the state a call is allowed in
 *     connect.c      what omis_init takes out of argv and the environment; connecting, greeting and starting the monitor
 *     reader.c       <scry/omis.h>: reading replies
 *     session.c      sending, receiving, the queue, the loss of the connection; time limits of requests
 *
 * Nothing here locks or calls back; omis.c does both. Callbacks are called without the lock, so they may call anything.
 */

#define HASH_NONFATAL_OOM 1 /* the default ends the program, which a library may not do */
#include <uthash.h>

/*
 * Can a silent monitor still be expected to answer? A stopped one (SIGSTOP, a debugger) answers only when somebody
 * continues it. One that sleeps has nothing to do, and should have answered. One that works, wants a processor on a
 * busy machine, or waits for the disk will. By /proc/PID/stat, see proc(5).
 */
struct timeout {
    pid_t pid; /* 0: unknown (another machine or name space): only the time counts */
    uint64_t since_ns, cpu_ns;
};

/* Starts waiting for the monitor at the other end of a connected local socket: something was asked now. */
void timeout_start(struct timeout *ret_timeout, int fd);
/* Starts again, for the same monitor. */
void timeout_restart(struct timeout *timeout, uint64_t since_ns);
/* true: waiting is useless, and err (-ETIMEDOUT) says why and what to do. Uses the row WAIT_ANSWER, with `limit_ms`. */
bool timeout_over(const struct timeout *timeout, unsigned limit_ms, struct err *err);

enum {
    BUFFERED_REQUESTS_LIMIT = 1 << 20, /* bytes buffered for OMIS_BUFFER_REQUEST; more are sent at once */
    UNSENT_LIMIT = 4 << 20,            /* bytes the kernel did not take yet; above it, requests wait for the monitor */
    HANDLER_READ_LIMIT = 4 << 20,      /* bytes that one omis_handler reads, so that it always returns */
};

/* A request with a callback that waits for replies. */
struct pending {
    uint32_t id;
    client_callback_fn *callback;
    void *param;
    Omis_flags flags;
    bool answered;        /* the first reply has come */
    bool overdue;         /* the callback got an error: its time was over */
    unsigned timeout_ms;  /* 0: no limit */
    uint64_t deadline_ns; /* for the first reply; 0: none */
    UT_hash_handle hh;
};

/* A call that blocks for the first reply to `id`. */
struct waiter {
    uint32_t id;
    Omis_reply reply; /* NULL: not yet */
    unsigned timeout_ms;
    uint64_t deadline_ns; /* 0: none */
};

/* A reply on its way to the tool. */
struct delivery {
    struct delivery *next;
    client_callback_fn *callback; /* NULL: for the error handler */
    void *param;
    Omis_reply reply;
};

struct session {
    bool open; /* between omis_init and omis_finalize */
    pid_t pid; /* of the process that called omis_init */
    uint32_t generation;
    int tool_id;
    bool stop_at_finalize;
    void (*error_handler)(Omis_reply reply);

    int fd; /* -1: the connection is lost */
    struct timeout timeout;
    char lost_why[ERR_TEXT_SIZE];
    struct frame_reader reader;
    bool leaving; /* FINALIZE was put into out */
    bool goodbye; /* the monitor's answer to FINALIZE has come */

    struct buf out; /* frames to send */
    size_t sent;    /* bytes of out that the kernel has taken */
    bool flushing;  /* out has more than buffered requests: send as soon as possible */

    uint32_t last_id;
    struct pending *pending; /* by id */
    uint64_t deadline_ns;    /* when the first of them is over; 0: none */
    struct waiter *waiter;

    struct delivery *first, **last;
    size_t queued;
    uint64_t dropped; /* replies lost because there was no memory to queue them */

    /* What omis_fd hands out: an epoll descriptor over the socket and an eventfd that is set while replies are queued.
     * Made by the first omis_fd. */
    int epoll_fd, event_fd, timer_fd;
    bool signalled, watching_output;
};

/* ---- connect.c ---- */

enum start_policy { START_IF_NEEDED, START_NEVER };

struct client_options {
    char path[PATH_MAX]; /* "" : the monitor of this user on this node */
    char elsewhere
        [PATH_MAX]; /* "", or the URL of another machine, or of a job behind a broker; it may hold a password */
    enum start_policy start;
    bool stop_at_finalize;
    unsigned welcome_timeout_ms; /* for WELCOME */
    unsigned timeout_ms;         /* of requests; 0: none */
    bool timeout_given;
};

/* Takes --omis-... out of argv (both may be NULL). 0, or -EINVAL with argv unchanged. */
int client_options_take(struct client_options *ret_options, int *argc, char ***argv, struct err *err);

/* spawn_piped in a session of its own, and in an environment that says nothing of the job in which the tool is: what it
 * starts does not belong to that job. */
int client_spawn(struct spawn spawn, pid_t *ret_pid, int ret_ends[3]);
/* `scry-monitor --daemon`, whose first process ends when the monitor can be connected to, or could not start. Says why on ret_ends[2]. */
int client_spawn_monitor(const char *path, pid_t *ret_pid, int ret_ends[3]);
/* Waits for a lock in the runtime directory, so that only one starts something. A descriptor: closing it gives it back.
 * Or -errno. */
int client_lock(const char *runtime, const char *name, struct err *err);
/* A socket to the monitor of this runtime directory, which is started if none runs; it was not greeted. Or -errno. */
int client_monitor_socket(const char *runtime, const char *socket_path, struct err *err);
/* Connects and exchanges HELLO and WELCOME; starts the monitor if that is allowed. 0 or -errno: -EPROTO for a refusal
 * or a wrong answer, -ETIMEDOUT for none. *tool_id is in and out. */
int client_connect(const struct client_options *options, int *tool_id, int *ret_fd, struct frame_reader *reader,
                   struct err *err);

/* ---- session.c ---- */

void session_init(struct session *session);                      /* sets the closed state, whatever was there before */
void session_open(struct session *session, int fd, int tool_id); /* the reader was filled by client_connect */
void session_close(struct session *session);                     /* frees everything; undelivered replies too */

/* Appends a request's frame to the send buffer and registers the callback. Returns its id; 0: out of memory. */
uint32_t session_add_request(struct session *session, struct span text, client_callback_fn *callback, void *param,
                             Omis_flags flags, unsigned timeout_ms);

/* Sends what the kernel takes without blocking. Handles the loss of the connection. */
void session_send(struct session *session);

/* Reads at most `limit` bytes that have arrived; never blocks. */
void session_take_in(struct session *session, size_t limit);

/* Sends and receives until the first reply to waiter->id, the loss of the connection, or its deadline (the reply says
 * so). With id 0, until GOODBYE or the time-out. */
void session_wait(struct session *session, struct waiter *waiter, int timeout_ms);

/* Waits until no more than UNSENT_LIMIT bytes are unsent, or the deadline (0: none) is over. */
void session_drain(struct session *session, uint64_t deadline_ns);

/* The next delivery, or NULL; the caller frees it. */
struct delivery *session_next(struct session *session);

/* Queues a reply for a callback, or for the error handler (callback NULL). */
void session_queue(struct session *session, client_callback_fn *callback, void *param, Omis_reply reply);

/* The descriptor of omis_fd, or -1. */
int session_descriptor(struct session *session);

/* ---- time limits ---- */

uint64_t timeout_deadline_ns(unsigned timeout_ms); /* from now; 0 for 0 */
void timeout_expire(struct session *session);      /* queues what is over */

#endif
