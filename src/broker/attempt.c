/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/attempt.h"

#include <errno.h>
#include <mosquitto.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/data/err.h"
#include "broker/local.h"

enum { STACK_BYTES = 1 << 20 };

/* Two own it, the thread and the loop; who lets go of it last frees it. */
struct attempt {
    atomic_int owners;
    struct mosquitto *mosq;
    char *host;
    int port, keepalive;
    int rc, error;           /* of mosquitto_connect; set before ended */
    char log[ERR_TEXT_SIZE]; /* what libmosquitto complained of */
    bool local;
    int ended; /* eventfd */
    struct loop_source *source;
    loop_timer_fn *done;
    void *ctx;
};

static atomic_int running;

bool attempt_runs(void)
{
    return atomic_load(&running) > 0;
}

static void let_go(struct attempt *attempt)
{
    if (atomic_fetch_sub(&attempt->owners, 1) > 1)
        return;
    if (attempt->mosq)
        mosquitto_destroy(attempt->mosq);
    if (attempt->ended >= 0)
        close(attempt->ended);
    free(attempt->host);
    free(attempt);
}

static void on_log(struct mosquitto *mosq, void *ctx, int level, const char *text)
{
    struct attempt *attempt = ctx;
    if (level == MOSQ_LOG_ERR && !*attempt->log)
        snprintf(attempt->log, sizeof attempt->log, "%s", text);
}

static void *end_thread(struct attempt *attempt)
{
    uint64_t one = 1;
    ssize_t put = write(attempt->ended, &one, sizeof one);
    (void)put; /* a new eventfd takes a one */
    let_go(attempt);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *connect_it(void *ctx)
{
    struct attempt *attempt = ctx;
    mosquitto_user_data_set(attempt->mosq, attempt);
    mosquitto_log_callback_set(attempt->mosq, on_log);
    struct err err;
    if (attempt->local && broker_local_start(NULL, &err) < 0) {
        snprintf(attempt->log, sizeof attempt->log, "%s", err.text);
        attempt->rc = MOSQ_ERR_UNKNOWN;
        return end_thread(attempt);
    }
    errno = 0;
    attempt->rc = mosquitto_connect(attempt->mosq, attempt->host, attempt->port, attempt->keepalive);
    attempt->error = errno;
    return end_thread(attempt);
}

static int start_thread(struct attempt *attempt)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int code = -pthread_attr_init(&attributes);
    if (code < 0)
        return code;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all); /* signals are the loop's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    atomic_fetch_add(&attempt->owners, 1);
    atomic_fetch_add(&running, 1);
    code = -pthread_create(&thread, &attributes, connect_it, attempt);
    if (code < 0) {
        atomic_fetch_sub(&attempt->owners, 1);
        atomic_fetch_sub(&running, 1);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return code;
}

static void on_ended(void *ctx, int fd, uint32_t events)
{
    struct attempt *attempt = ctx;
    uint64_t ends;
    if (read(fd, &ends, sizeof ends) < 0) /* what the thread has written before is seen now */
        return;
    loop_remove(attempt->source);
    attempt->source = NULL;
    attempt->done(attempt->ctx);
}

struct attempt *attempt_begin(struct loop *loop, struct mosquitto *mosq_take, const char *host, int port, bool local,
                              int keepalive, loop_timer_fn *done, void *ctx)
{
    struct attempt *attempt = calloc(1, sizeof *attempt);
    if (!attempt)
        return NULL;
    attempt->owners = 1;
    attempt->port = port;
    attempt->local = local;
    attempt->keepalive = keepalive;
    attempt->done = done;
    attempt->ctx = ctx;
    attempt->host = strdup(host);
    attempt->ended = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (attempt->ended >= 0)
        attempt->source = loop_add_fd(loop, attempt->ended, EPOLLIN, on_ended, attempt);
    attempt->mosq = mosq_take;
    if (!attempt->host || !attempt->source || start_thread(attempt) < 0) {
        attempt->mosq = NULL;
        attempt_abandon(attempt);
        return NULL;
    }
    return attempt;
}

void attempt_abandon(struct attempt *attempt)
{
    if (!attempt)
        return;
    loop_remove(attempt->source);
    let_go(attempt);
}

struct mosquitto *attempt_take(struct attempt *attempt, char *ret_why, int size)
{
    struct mosquitto *mosq = NULL;
    if (attempt->rc == MOSQ_ERR_SUCCESS) {
        mosq = attempt->mosq;
        attempt->mosq = NULL;
    } else {
        const char *why = attempt->rc == MOSQ_ERR_EAI                       ? "its name cannot be looked up"
                          : *attempt->log                                   ? attempt->log
                          : attempt->rc == MOSQ_ERR_ERRNO && attempt->error ? strerror(attempt->error)
                          : attempt->rc == MOSQ_ERR_ERRNO                   ? "the connection was lost"
                                                                            : mosquitto_strerror(attempt->rc);
        snprintf(ret_why, (size_t)size, "%s%s%s", attempt->port ? attempt->host : "", attempt->port ? ": " : "", why);
    }
    attempt_abandon(attempt);
    return mosq;
}
