/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The six procedures (specification 7.1): what state a call is allowed in, and the lock.
 *
 * The library serves one thread at a time; the lock only keeps a program that breaks this rule from corrupting memory.
 * It is never held while a callback or the error handler runs, so these may call any of the six procedures, also
 * a blocking omis_request, and omis_finalize. A child made by fork does not own its parent's connection. Calls fail
 * there until it calls omis_init. (Process ids are compared, since a raw clone escapes pthread_atfork.)
 */
#pragma GCC visibility push(default)
#include <scry/omis.h>
#pragma GCC visibility pop

#include "client/session.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lang/request.h"
#include "shm/waits.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session the = {.fd = -1, .epoll_fd = -1, .event_fd = -1, .timer_fd = -1, .last = &the.first};
static char init_error[ERR_TEXT_SIZE];
static int init_code;
static unsigned answer_timeout_ms = ANSWER_TIMEOUT_MS;
static unsigned timeout_ms; /* of requests; 0: none */

/* In a child made by fork, a thread that does not exist there may have held the lock. */
static bool is_foreign(void)
{
    return the.open && the.pid != getpid();
}

/* ---- omis_init ---- */

static Omis_status status_of(int code)
{
    switch (code) {
    case -EINVAL:
        return OMIS_PARAMETER_ERROR;
    case -EACCES:
    case -EPERM:
        return OMIS_NO_PERMISSION;
    case -ENOMEM:
        return OMIS_NO_MEMORY;
    case -EPROTO:
    case -EALREADY:
    case -EBADMSG:
        return OMIS_INTERNAL_ERROR;
    default:
        return OMIS_OS_ERROR;
    }
}

static int init_locked(int *argc, char ***argv, void (*error_handler)(Omis_reply reply), int *tool_id, struct err *err)
{
    struct client_options options;
    if (the.open)
        return err_set(err, -EALREADY, "omis_init was called twice: call omis_finalize before the second time");
    int code = client_options_take(&options, argc, argv, err);
    if (code < 0)
        return code;
    options.welcome_timeout_ms = answer_timeout_ms;
    int id = tool_id ? *tool_id : 0, fd;
    struct frame_reader reader = {0};
    code = client_connect(&options, &id, &fd, &reader, err);
    if (code < 0) {
        frame_reader_done(&reader);
        return code;
    }
    session_init(&the);
    the.reader = reader;
    the.error_handler = error_handler;
    the.stop_at_finalize = options.stop_at_finalize;
    if (options.timeout_given)
        timeout_ms = options.timeout_ms;
    session_open(&the, fd, id);
    if (options.elsewhere[0])
        the.timeout.pid = 0; /* only the time counts */
    if (tool_id)
        *tool_id = id;
    return 0;
}

Omis_status omis_init(int *argc, char ***argv, void (*error_handler)(Omis_reply reply), int *tool_id)
{
    if (is_foreign()) {
        pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
        memcpy(&lock, &fresh, sizeof lock);
        session_close(&the); /* our copies; the parent's connection stays as it is */
    }
    struct err err = {0};
    pthread_mutex_lock(&lock);
    int code = init_locked(argc, argv, error_handler, tool_id, &err);
    memcpy(init_error, err.text, sizeof init_error);
    init_code = code;
    if (code == 0)
        init_error[0] = 0;
    pthread_mutex_unlock(&lock);
    if (code == 0)
        return OMIS_OK;
    /* The status alone says too little. */
    if (error_handler)
        error_handler(local_reply_new(status_of(code), err.text));
    return status_of(code);
}

bool client_join(void)
{
    char none[] = "", option[] = "--omis-no-start";
    char *arguments[] = {none, option, NULL}, **argv = arguments;
    int argc = 2;
    return omis_init(&argc, &argv, NULL, NULL) == OMIS_OK;
}

bool client_join_job(const char *url)
{
    static const char option[] = "--omis-connect=";
    char none[] = "", connect[sizeof option + PATH_MAX];
    char *arguments[] = {none, connect, NULL}, **argv = arguments;
    int argc = 2;
    bool joined = snprintf(connect, sizeof connect, "%s%s", option, url) < (int)sizeof connect &&
                  omis_init(&argc, &argv, NULL, NULL) == OMIS_OK;
    explicit_bzero(connect, sizeof connect);
    return joined;
}

/* ---- omis_request ---- */

static const char not_initialised[] = "omis_init was not called";
static const char not_ours[] =
    "this process was forked from the one that called omis_init: it must call omis_init itself";

/* A reply without the monitor: returned by a blocking call, else given to the callback. */
static Omis_reply reply_hand_out(bool waits, client_callback_fn *callback, void *param, Omis_reply reply)
{
    if (waits)
        return reply;
    session_queue(&the, callback, param, reply);
    return NULL;
}

static Omis_reply request_locked(struct span text, client_callback_fn *callback, void *param, Omis_flags flags)
{
    bool waits = !callback || (flags & OMIS_WAIT_FOR_FIRST_REPLY);
    if (!callback) /* these are about callbacks; a call that waits must get its reply */
        flags &= ~(Omis_flags)(OMIS_DONT_RETURN_OK | OMIS_DONT_RETURN_EN_DIS);
    if (waits) /* a buffered request is never answered */
        flags &= ~(Omis_flags)OMIS_BUFFER_REQUEST;
    if (text.len > FRAME_PAYLOAD_LIMIT - sizeof(uint32_t))
        return reply_hand_out(waits, callback, param,
                              client_reply(OMIS_PARAMETER_ERROR,
                                           "the request has %zu bytes, more than the limit of %zu", text.len,
                                           FRAME_PAYLOAD_LIMIT - sizeof(uint32_t)));
    if (the.fd < 0)
        return reply_hand_out(waits, callback, param, local_reply_new(OMIS_INTERNAL_ERROR, the.lost_why));
    uint32_t id = session_add_request(&the, text, callback, param, flags, waits ? 0 : timeout_ms);
    if (id == 0)
        return reply_hand_out(waits, callback, param, local_reply_no_memory());
    if (waits) {
        struct waiter waiter = {.id = id, .timeout_ms = timeout_ms, .deadline_ns = timeout_deadline_ns(timeout_ms)};
        session_wait(&the, &waiter, -1);
        return waiter.reply;
    }
    if (!(flags & OMIS_BUFFER_REQUEST) || the.out.len - the.sent > BUFFERED_REQUESTS_LIMIT) {
        session_send(&the);
        session_drain(&the, timeout_deadline_ns(timeout_ms));
    }
    return NULL;
}

Omis_reply client_request(struct span text, client_callback_fn *callback, void *param, Omis_flags flags)
{
    if (is_foreign())
        return local_reply_new(OMIS_INTERNAL_ERROR, not_ours);
    pthread_mutex_lock(&lock);
    /* Without a connection there is no omis_handler that could call back: the reply is returned in any case. */
    Omis_reply reply =
        the.open ? request_locked(text, callback, param, flags) : local_reply_new(OMIS_INTERNAL_ERROR, not_initialised);
    pthread_mutex_unlock(&lock);
    return reply;
}

Omis_reply client_ask(struct buf *text_take)
{
    Omis_reply reply =
        text_take->failed ? NULL : client_request(span_of(text_take->data, text_take->len), NULL, NULL, 0);
    buf_done(text_take);
    return reply;
}

Omis_reply omis_request(char *request, void (*callback)(Omis_reply reply, void *param), void *param, Omis_flags flags)
{
    /* Not strlen: a request may hold binary data with NULs in it. */
    struct span text = request ? span_of(request, request_length(request)) : span_of("", 0);
    return client_request(text, callback, param, flags);
}

void omis_reply_free(Omis_reply reply)
{
    local_reply_free(reply);
}

/* ---- omis_fd, omis_handler ---- */

int omis_fd(void)
{
    if (is_foreign())
        return -1;
    pthread_mutex_lock(&lock);
    int fd = the.open ? session_descriptor(&the) : -1;
    pthread_mutex_unlock(&lock);
    return fd;
}

/* Delivers what was queued at the time of the call. What callbacks add waits for the next call, and omis_fd shows it.
 */
void omis_handler(void)
{
    if (is_foreign())
        return;
    pthread_mutex_lock(&lock);
    if (the.open && the.flushing)
        session_send(&the);
    if (the.open) {
        session_take_in(&the, HANDLER_READ_LIMIT);
        timeout_expire(&the);
    }
    uint32_t generation = the.generation;
    size_t count = the.queued + (the.dropped ? 1 : 0);
    while (count-- && the.open && the.generation == generation) {
        struct delivery *delivery = session_next(&the);
        if (!delivery)
            break;
        void (*error_handler)(Omis_reply) = the.error_handler;
        pthread_mutex_unlock(&lock);
        if (delivery->callback)
            delivery->callback(delivery->reply, delivery->param);
        else if (error_handler)
            error_handler(delivery->reply);
        free(delivery);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- omis_finalize ---- */

static void ask_to_leave(void)
{
    uint32_t stop = htole32(the.stop_at_finalize);
    if (!the.leaving)
        frame_append(&the.out, FRAME_FINALIZE, 0, 0, span_of((const char *)&stop, sizeof stop), span_of("", 0));
    the.leaving = true;
}

static Omis_status finalize_locked(void)
{
    if (!the.open)
        return OMIS_INTERNAL_ERROR;
    Omis_status status = OMIS_INTERNAL_ERROR; /* the connection was lost, or the monitor does not answer */
    if (the.fd >= 0) {
        ask_to_leave();
        if (the.out.failed) {
            status = OMIS_NO_MEMORY; /* closing releases everything, too */
        } else {
            struct waiter waiter = {.id = 0};
            bool hurry = timeout_ms && timeout_ms < ANSWER_TIMEOUT_MS;
            session_wait(&the, &waiter, hurry ? (int)timeout_ms : ANSWER_TIMEOUT_MS);
            if (the.goodbye)
                status = OMIS_OK;
        }
    }
    session_close(&the);
    return status;
}

Omis_status omis_finalize(void)
{
    if (is_foreign())
        return OMIS_INTERNAL_ERROR;
    pthread_mutex_lock(&lock);
    Omis_status status = finalize_locked();
    pthread_mutex_unlock(&lock);
    return status;
}

void omis_set_timeout(unsigned milliseconds)
{
    pthread_mutex_lock(&lock);
    timeout_ms = milliseconds;
    pthread_mutex_unlock(&lock);
}

/* ---- client.h ---- */

void client_leave(void)
{
    if (is_foreign())
        return;
    pthread_mutex_lock(&lock);
    if (the.open && the.fd >= 0) {
        ask_to_leave();
        session_send(&the);
    }
    pthread_mutex_unlock(&lock);
}

void client_set_timeout(unsigned limit_ms)
{
    answer_timeout_ms = limit_ms;
}

const char *client_hangs(uint64_t since_ns, unsigned limit_ms)
{
    static struct err why;
    if (!client_connected())
        return NULL;
    if (the.timeout.since_ns != since_ns)
        timeout_restart(&the.timeout, since_ns);
    return timeout_over(&the.timeout, limit_ms, &why) ? why.text : NULL;
}

const char *client_error(void)
{
    return init_error;
}

bool client_timed_out(void)
{
    return init_code == -ETIMEDOUT;
}

bool client_found_none(void)
{
    return init_code == -ESRCH;
}

bool client_connected(void)
{
    return the.open && !is_foreign() && the.fd >= 0;
}

bool client_pending(void)
{
    return the.open && !is_foreign() && (the.pending || the.queued);
}

size_t client_unanswered(void)
{
    size_t count = 0;
    struct pending *pending, *after;
    if (client_connected())
        HASH_ITER(hh, the.pending, pending, after)
        {
            count += !pending->answered && !pending->overdue;
        }
    return count;
}

void client_send(void)
{
    pthread_mutex_lock(&lock);
    if (the.open && !is_foreign())
        session_send(&the);
    pthread_mutex_unlock(&lock);
}
