/* SPDX-License-Identifier: Apache-2.0 */
#include "broker/link.h"

#include "base/system/clock.h"
#include "base/system/pause.h"
#include "broker/local.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <mosquitto.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

struct mosquitto;
struct attempt;

static void attempt_abandon(struct attempt *attempt);

/*
 * Connecting may block for minutes, in the look-up of a name or in the system's attempts. So a thread does it, with
 * nothing but its own handle, and the loop goes on.
 */

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

/* Whether a thread still tries, also of one that was abandoned. */
static bool attempt_runs(void)
{
    return atomic_load(&running) > 0;
}

static void attempt_unref(struct attempt *attempt)
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

static void on_attempt_log(struct mosquitto *mosq, void *ctx, int level, const char *text)
{
    struct attempt *attempt = ctx;
    if (level == MOSQ_LOG_ERR && !*attempt->log)
        snprintf(attempt->log, sizeof attempt->log, "%s", text);
}

static void *attempt_end_thread(struct attempt *attempt)
{
    uint64_t one = 1;
    ssize_t put = write(attempt->ended, &one, sizeof one);
    (void)put; /* a new eventfd takes a one */
    attempt_unref(attempt);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static void *attempt_run(void *ctx)
{
    struct attempt *attempt = ctx;
    mosquitto_user_data_set(attempt->mosq, attempt);
    mosquitto_log_callback_set(attempt->mosq, on_attempt_log);
    struct err err;
    if (attempt->local && broker_local_start(NULL, &err) < 0) {
        snprintf(attempt->log, sizeof attempt->log, "%s", err.text);
        attempt->rc = MOSQ_ERR_UNKNOWN;
        return attempt_end_thread(attempt);
    }
    errno = 0;
    attempt->rc = mosquitto_connect(attempt->mosq, attempt->host, attempt->port, attempt->keepalive);
    attempt->error = errno;
    return attempt_end_thread(attempt);
}

static int attempt_start_thread(struct attempt *attempt)
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
    code = -pthread_create(&thread, &attributes, attempt_run, attempt);
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

/* Connects the handle to a host, or a unix socket (port 0), which
 * is the private broker's if local: that is started, if it does not run. And calls done in the loop. The handle is the attempt's from
 * now on: it must have no callbacks yet. NULL: no memory, or no thread; the handle stays the caller's. */
static struct attempt *attempt_begin(struct loop *loop, struct mosquitto *mosq_take, const char *host, int port,
                                     bool local, int keepalive, loop_timer_fn *done, void *ctx)
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
    if (!attempt->host || !attempt->source || attempt_start_thread(attempt) < 0) {
        attempt->mosq = NULL;
        attempt_abandon(attempt);
        return NULL;
    }
    return attempt;
}

/* Whenever it ends, nobody hears of it. NULL is fine. */
static void attempt_abandon(struct attempt *attempt)
{
    if (!attempt)
        return;
    loop_remove(attempt->source);
    attempt_unref(attempt);
}

/* In done or later: the connected handle, or NULL and why. Frees the attempt. */
static struct mosquitto *attempt_take(struct attempt *attempt, char *ret_why, int size)
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
        snprintf(ret_why, (size_t)size, "%s%s%.400s", attempt->port ? attempt->host : "", attempt->port ? ": " : "",
                 why);
    }
    attempt_abandon(attempt);
    return mosq;
}

enum {
    READS_AT_ONCE = 64, /* packets, before others in the loop have their turn */
    ENDED_OFTEN = 4,    /* connections, before it is said that they are ended again and again */
};

/* Published, and not yet acknowledged. It stays here when the connection is lost, and is sent again on the next one. */
struct outgoing {
    struct outgoing *next;
    int id, mid, qos;
    bool retain, done;
    size_t len;
    char *payload;
    char topic[];
};

struct link {
    struct loop *loop;
    struct broker_url url;
    char *client, *will_topic, *will;
    const char *what;
    size_t will_len;
    bool keep_session;
    int keepalive;
    const struct link_events *events;
    void *ctx;

    struct attempt *attempt; /* while it connects */
    struct mosquitto *mosq;  /* from then on */
    struct loop_source *io, *retry, *tick, *timeout, *tell;
    bool writing; /* epoll waits until the socket takes more */
    bool up, broken, session_present;
    bool in_vain;                /* the last attempt was */
    bool been_up;                /* once, at least */
    unsigned failed;             /* attempts since it was up, and of use */
    unsigned brief;              /* attempts in a row of which no connection lasted */
    unsigned ended;              /* connections in a row that the broker took, and ended soon */
    unsigned thrown;             /* connections in a row that the broker ended at what it was sent */
    unsigned sent, acknowledged; /* of this connection */
    char sent_first[256];        /* the topic */
    uint64_t up_ns;
    int place; /* of url.places, that is tried now */
    char why[ERR_TEXT_SIZE];

    struct outgoing *first, **last;
    unsigned in_flight;
    int last_id;
    uint64_t messages; /* received */

    unsigned calling; /* callbacks in progress: link_close inside of one takes effect at its end */
    bool closed, says;
};

static const char lost_text[] = "the connection was lost";

static void retry_soon(struct link *link);
static void take_connection(void *ctx);

static void free_outgoing(struct outgoing *message)
{
    free(message->payload);
    free(message);
}

static void end_connection(struct link *link)
{
    loop_remove(link->io);
    loop_remove(link->tick);
    loop_remove(link->timeout);
    link->io = link->tick = link->timeout = NULL;
    attempt_abandon(link->attempt);
    link->attempt = NULL;
    if (link->mosq)
        mosquitto_destroy(link->mosq);
    link->mosq = NULL;
    link->up = link->broken = link->writing = false;
}

/* What is still to be written has some time: without DISCONNECT, the broker would publish the will. */
static void say_goodbye(struct link *link)
{
    mosquitto_disconnect(link->mosq);
    uint64_t end = clock_now_ns() + BROKER_GOODBYE_MS * 1000000ull;
    while (mosquitto_socket(link->mosq) >= 0 && mosquitto_want_write(link->mosq) && clock_now_ns() < end) {
        wait_fd(mosquitto_socket(link->mosq), POLLOUT, BROKER_GOODBYE_MS / 10);
        if (mosquitto_loop_write(link->mosq, 1) != MOSQ_ERR_SUCCESS)
            return;
    }
}

static void free_link(struct link *link)
{
    if (link->up && link->says && !link->broken)
        say_goodbye(link);
    end_connection(link);
    loop_remove(link->retry);
    loop_remove(link->tell);
    while (link->first) {
        struct outgoing *message = link->first;
        link->first = message->next;
        free_outgoing(message);
    }
    explicit_bzero(link->url.password, sizeof link->url.password);
    free(link->client);
    free(link->will_topic);
    free(link->will);
    free(link);
}

static void link_enter(struct link *link)
{
    link->calling++;
}

/* A broker that does not allow what it is sent may end the connection, as mosquitto 2.0 does, sometimes after it has
 * acknowledged it, and says no more. To come back at once, with the same, would be of no use. */
static void link_judge_end(struct link *link)
{
    bool lasted = link->up && clock_now_ns() - link->up_ns > time_hasten(BROKER_STEADY_NS);
    link->brief = lasted ? 0 : link->brief + 1;
    link->ended = lasted || !link->up ? 0 : link->ended + 1;
    if (!link->up)
        return;
    if (link->ended > ENDED_OFTEN && strcmp(link->why, lost_text) == 0)
        snprintf(link->why, sizeof link->why,
                 "the broker ends each connection after a moment: perhaps another %s is connected there by this one's "
                 "name, %s",
                 link->what, link->client);
    if (link->acknowledged > 1 || !link->sent || clock_now_ns() - link->up_ns > time_hasten(BROKER_BRIEF_NS)) {
        link->failed = link->thrown = 0;
        return;
    }
    if (++link->thrown > 1)
        snprintf(link->why, sizeof link->why,
                 "the broker ends the connection when it is sent %s: perhaps it does not allow that%s%s",
                 link->sent_first, *link->url.user ? " to " : "", link->url.user);
}

/* Connects again, later. Not inside libmosquitto's callbacks. */
static void link_lose(struct link *link)
{
    link_judge_end(link);
    end_connection(link);
    link->failed++;
    if (link->url.place_count)
        link->place = (link->place + 1) % link->url.place_count;
    retry_soon(link);
    if (!link->closed)
        link->events->lost(link->ctx, link->why);
}

/* Has epoll wait for what libmosquitto waits for. */
static void wait_for_socket(struct link *link)
{
    if (!link->io || link->broken || mosquitto_socket(link->mosq) < 0)
        return;
    bool writing = mosquitto_want_write(link->mosq);
    if (writing != link->writing && loop_set_events(link->io, EPOLLIN | (writing ? EPOLLOUT : 0)) == 0)
        link->writing = writing;
}

static void link_exit(struct link *link)
{
    if (link->calling == 1 && link->broken && !link->closed)
        link_lose(link);
    wait_for_socket(link);
    if (--link->calling == 0 && link->closed)
        free_link(link);
}

/* Until the next try; the half of long pauses is left to chance, a number up to 1023. */
static uint64_t retry_ns(const struct link *link, uint32_t chance)
{
    unsigned places = link->url.place_count ? (unsigned)link->url.place_count : 1;
    uint64_t pause = BROKER_FIRST_NS / 5; /* another node is likely to be there */
    if (link->failed >= places || link->brief >= AGAIN_MANY)
        pause = waits_again_ns(link->brief >= AGAIN_MANY ? link->brief : link->failed - places + 1, BROKER_FIRST_NS,
                               BROKER_LONGEST_NS);
    uint64_t most = pause < AGAIN_SELDOM_NS ? pause : pause + pause / 2;
    return most - pause / 2 * chance / 1024;
}

static void retry_soon(struct link *link)
{
    uint32_t chance = 0;
    if (getrandom(&chance, sizeof chance, GRND_NONBLOCK) < 0)
        chance = (uint32_t)clock_now_ns();
    loop_set_timer(link->retry, time_hasten(retry_ns(link, chance % 1024)), 0);
}

/* The connection is of no use any more; says why, if that is not known yet. */
static void give_up(struct link *link, const char *why)
{
    link->broken = true;
    if (!*link->why)
        snprintf(link->why, sizeof link->why, "%s", why);
}

static const char *reason_text(int rc)
{
    switch (rc) {
    case MOSQ_ERR_ERRNO: /* TLS has its own errors, and sets none when the other end is gone */
        return errno ? strerror(errno) : lost_text;
    case MOSQ_ERR_CONN_LOST:
        return lost_text;
    case MOSQ_ERR_KEEPALIVE:
        return "the broker does not answer any more";
    case MOSQ_ERR_PROTOCOL:
        return "what answers there does not speak MQTT 3.1.1";
    default:
        return mosquitto_strerror(rc);
    }
}

static void link_check(struct link *link, int rc)
{
    if (rc != MOSQ_ERR_SUCCESS)
        give_up(link, reason_text(rc));
}

static void tell_published(void *ctx)
{
    struct link *link = ctx;
    link->tell = NULL;
    link_enter(link);
    struct outgoing **at = &link->first;
    while (*at && !link->closed) {
        struct outgoing *message = *at;
        if (!message->done) {
            at = &message->next;
            continue;
        }
        int id = message->id;
        *at = message->next;
        if (!*at)
            link->last = at;
        link->in_flight--;
        free_outgoing(message);
        link->events->published(link->ctx, id);
        at = &link->first; /* it may have published more, or begun to free all */
    }
    link_exit(link);
}

/* Told later, as it may happen inside link_publish. */
static void on_publish(struct mosquitto *mosq, void *ctx, int mid)
{
    struct link *link = ctx;
    for (struct outgoing *message = link->first; message; message = message->next)
        if (message->mid == mid) {
            message->done = true;
            link->acknowledged += message->qos > 0;
        }
    if (!link->tell && !(link->tell = loop_add_deferred(link->loop, tell_published, link)))
        give_up(link, strerror(ENOMEM));
}

static int send_out(struct link *link, struct outgoing *message)
{
    if (!link->sent++)
        snprintf(link->sent_first, sizeof link->sent_first, "%s", message->topic);
    return mosquitto_publish(link->mosq, &message->mid, message->topic, (int)message->len, message->payload,
                             message->qos, message->retain);
}

static void on_connect(struct mosquitto *mosq, void *ctx, int rc, int flags)
{
    struct link *link = ctx;
    if (rc != 0) {
        snprintf(link->why, sizeof link->why, "refused by the broker: %s", mosquitto_connack_string(rc));
        link->broken = true;
        return;
    }
    loop_remove(link->timeout);
    link->timeout = NULL;
    link->sent = link->acknowledged = 0;
    link->up_ns = clock_now_ns();
    for (struct outgoing *message = link->first; message && !link->broken; message = message->next)
        if (!message->done)
            link_check(link, send_out(link, message));
    if (link->broken)
        return;
    link->up = link->been_up = true;
    link->session_present = flags & 1;
    if (!link->closed)
        link->events->connected(link->ctx, link->session_present);
}

static void on_disconnect(struct mosquitto *mosq, void *ctx, int rc)
{
    give_up(ctx, reason_text(rc));
}

static void on_subscribe(struct mosquitto *mosq, void *ctx, int mid, int count, const int *granted)
{
    struct link *link = ctx;
    if (!link->closed && link->events->subscribed)
        link->events->subscribed(link->ctx, mid, count > 0 && granted[0] >= 0 && granted[0] <= 2);
}

static void on_message(struct mosquitto *mosq, void *ctx, const struct mosquitto_message *message)
{
    struct link *link = ctx;
    link->messages++;
    bool fits = message->payloadlen >= 0 && message->payloadlen <= LINK_MESSAGE_BYTES;
    if (!link->closed && link->events->message && fits)
        link->events->message(link->ctx, message->topic,
                              span_of(message->payload ? message->payload : "", (size_t)message->payloadlen),
                              message->retain);
}

/* OpenSSL's complaints come this way only. */
static void on_log(struct mosquitto *mosq, void *ctx, int level, const char *text)
{
    struct link *link = ctx;
    if (level == MOSQ_LOG_ERR && !*link->why)
        snprintf(link->why, sizeof link->why, "%s", text);
}

static void on_socket(void *ctx, int fd, uint32_t events)
{
    struct link *link = ctx;
    link_enter(link);
    if (events & EPOLLOUT)
        link_check(link, mosquitto_loop_write(link->mosq, 1));
    for (int i = 0; i < READS_AT_ONCE && !link->broken && !link->closed && events & ~(uint32_t)EPOLLOUT; i++) {
        uint64_t before = link->messages;
        link_check(link, mosquitto_loop_read(link->mosq, 1));
        if (link->messages == before)
            break;
    }
    link_exit(link);
}

static void on_tick(void *ctx)
{
    struct link *link = ctx;
    link_enter(link);
    link_check(link, mosquitto_loop_misc(link->mosq));
    link_exit(link);
}

static void on_no_answer(void *ctx)
{
    struct link *link = ctx;
    link_enter(link);
    link->why[0] = 0;
    give_up(link, "no answer within 10 s");
    link_exit(link);
}

static int set_up(struct link *link, struct mosquitto *mosq)
{
    const struct broker_url *url = &link->url;
    mosquitto_max_inflight_messages_set(mosq, 0); /* LINK_IN_FLIGHT is the limit */
    int rc = mosquitto_int_option(mosq, MOSQ_OPT_TCP_NODELAY, 1);
    if (rc == 0 && link->will_topic)
        rc = mosquitto_will_set(mosq, link->will_topic, (int)link->will_len, link->will, 1, true);
    if (rc == 0 && *url->user)
        rc = mosquitto_username_pw_set(mosq, url->user, *url->password ? url->password : NULL);
    if (rc == 0 && url->tls && !*url->ca)
        rc = mosquitto_int_option(mosq, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
    if (rc == 0 && url->tls && *url->ca)
        rc = mosquitto_tls_set(mosq, url->ca, NULL, *url->cert ? url->cert : NULL, *url->key ? url->key : NULL, NULL);
    return rc;
}

/* mosquitto does not say which. */
static void give_up_files(struct link *link)
{
    const char *files[] = {link->url.ca, link->url.cert, link->url.key};
    link->in_vain = true;
    char why[sizeof link->why];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (*files[i] && access(files[i], R_OK) < 0) {
            snprintf(why, sizeof why, "%s: %s", files[i], strerror(errno));
            give_up(link, why);
            return;
        }
    give_up(link, "ca, cert or key is no PEM file, or key does not belong to cert");
}

static void link_begin(void *ctx)
{
    struct link *link = ctx;
    link_enter(link);
    link->why[0] = 0;
    link->in_vain = false;
    link->mosq = mosquitto_new(link->client, !link->keep_session, link);
    int rc = link->mosq ? set_up(link, link->mosq) : MOSQ_ERR_NOMEM;
    if (rc == MOSQ_ERR_INVAL && *link->url.ca)
        give_up_files(link);
    else
        link_check(link, rc);
    if (!link->broken) {
        const struct broker_place *place = link->url.place_count ? &link->url.places[link->place] : NULL;
        link->attempt = attempt_begin(link->loop, link->mosq, place ? place->host : link->url.path,
                                      place ? place->port : 0, link->url.local, link->keepalive, take_connection, link);
        link->timeout = loop_add_timer(link->loop, time_hasten(BROKER_ANSWER_NS), 0, on_no_answer, link);
        if (link->attempt)
            link->mosq = NULL; /* the attempt's, until it is done */
        if (!link->attempt || !link->timeout)
            give_up(link, strerror(ENOMEM));
    }
    link_exit(link);
}

/* The attempt is done. */
static void take_connection(void *ctx)
{
    struct link *link = ctx;
    link_enter(link);
    link->mosq = attempt_take(link->attempt, link->why, sizeof link->why);
    link->attempt = NULL;
    if (!link->mosq) {
        link->broken = true;
        /* "verif" is the only word that libmosquitto has for it; before it stands the host's name */
        size_t place_count = link->url.place_count ? (size_t)link->url.place_count : 1;
        size_t host = link->url.place_count ? strlen(link->url.places[link->place].host) : 0;
        link->in_vain = link->url.tls && link->failed + 1 >= place_count && strlen(link->why) > host &&
                        strcasestr(link->why + host, "verif");
    } else {
        mosquitto_user_data_set(link->mosq, link);
        mosquitto_connect_with_flags_callback_set(link->mosq, on_connect);
        mosquitto_disconnect_callback_set(link->mosq, on_disconnect);
        mosquitto_publish_callback_set(link->mosq, on_publish);
        mosquitto_subscribe_callback_set(link->mosq, on_subscribe);
        mosquitto_message_callback_set(link->mosq, on_message);
        mosquitto_log_callback_set(link->mosq, on_log);
        link->tick =
            loop_add_timer(link->loop, NS_PER_SECOND, NS_PER_SECOND * (uint64_t)link->keepalive / 5, on_tick, link);
        link->writing = true;
        link->io = loop_add_fd(link->loop, mosquitto_socket(link->mosq), EPOLLIN | EPOLLOUT, on_socket, link);
        if (!link->io || !link->tick)
            give_up(link, strerror(ENOMEM));
    }
    link_exit(link);
}

int link_open(struct link **ret_link, struct loop *loop, const struct link_options *options, struct err *err)
{
    if (!options->client || !*options->client || (!options->url->place_count && !*options->url->path))
        return err_set(err, -EINVAL, "a connection to a broker needs a name, and the broker's address");
    if (mosquitto_lib_init() != MOSQ_ERR_SUCCESS) /* never cleaned up: an abandoned attempt may still use it */
        return err_set(err, -ENOMEM, "libmosquitto cannot be used");
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return err_errno(err, -ENOMEM, "a connection to a broker");
    link->loop = loop;
    link->url = *options->url;
    link->events = options->events;
    link->ctx = options->ctx;
    link->keep_session = options->keep_session;
    link->keepalive = options->keepalive_seconds ? options->keepalive_seconds : BROKER_KEEPALIVE_SECONDS;
    if (link->keepalive < 5)
        link->keepalive = 5; /* libmosquitto's least */
    link->last = &link->first;
    link->what = options->what;
    link->client = strdup(options->client);
    link->retry = loop_add_timer(loop, 0, 0, link_begin, link);
    bool memory = link->client && link->retry;
    if (options->will_topic) {
        link->will_topic = strdup(options->will_topic);
        link->will = malloc(options->will.len + 1);
        link->will_len = options->will.len;
        memory = memory && link->will_topic && link->will;
        if (link->will)
            memcpy(link->will, options->will.ptr, options->will.len);
    }
    if (!memory) {
        free_link(link);
        return err_errno(err, -ENOMEM, "a connection to a broker");
    }
    *ret_link = link;
    return 0;
}

void link_close(struct link *link, bool says)
{
    if (!link)
        return;
    link->closed = true;
    link->says = says;
    if (!link->calling)
        free_link(link);
}

void link_leave(int status)
{
    if (!attempt_runs())
        return;
    fflush(NULL);
    _exit(status);
}

bool link_is_in_vain(const struct link *link)
{
    return link->in_vain;
}

bool link_has_been_up(const struct link *link)
{
    return link->been_up;
}

void link_hurry(struct link *link)
{
    link->brief = link->failed = 0; /* a series of quick attempts begins anew */
    if (!link->up && !link->attempt && !link->mosq && !link->closed)
        loop_set_timer(link->retry, 1, 0);
}

bool link_is_up(const struct link *link)
{
    return link->up && !link->broken && !link->closed;
}

unsigned link_in_flight(const struct link *link)
{
    return link->in_flight;
}

/* libmosquitto wrote at once, if it was not inside of a callback. If that ended the connection: `lost` comes from the loop. */
static void after_write(struct link *link)
{
    if (link->calling)
        return;
    if (link->broken)
        loop_set_timer(link->tick, 0, 0);
    wait_for_socket(link);
}

int link_publish(struct link *link, const char *topic, struct span payload, int qos, bool retain, int *ret_id)
{
    if (payload.len > LINK_MESSAGE_BYTES)
        return -EMSGSIZE;
    if (!link_is_up(link))
        return -ENOTCONN;
    if (link->in_flight >= LINK_IN_FLIGHT)
        return -EAGAIN;
    size_t topic_size = strlen(topic) + 1;
    struct outgoing *message = calloc(1, sizeof *message + topic_size);
    char *copy = malloc(payload.len + 1);
    if (!message || !copy) {
        free(message);
        free(copy);
        return -ENOMEM;
    }
    memcpy(message->topic, topic, topic_size);
    if (payload.len)
        memcpy(copy, payload.ptr, payload.len);
    message->payload = copy;
    message->len = payload.len;
    message->qos = qos;
    message->retain = retain;
    link->last_id = link->last_id == INT_MAX ? 1 : link->last_id + 1;
    message->id = link->last_id;
    *link->last = message;
    struct outgoing **place = link->last;
    link->last = &message->next;
    link->in_flight++;

    int rc = send_out(link, message);
    if (rc == MOSQ_ERR_NOMEM || rc == MOSQ_ERR_INVAL || rc == MOSQ_ERR_MALFORMED_UTF8 || rc == MOSQ_ERR_PAYLOAD_SIZE ||
        rc == MOSQ_ERR_OVERSIZE_PACKET) {
        *place = NULL;
        link->last = place;
        link->in_flight--;
        free_outgoing(message);
        return rc == MOSQ_ERR_NOMEM                                            ? -ENOMEM
               : rc == MOSQ_ERR_PAYLOAD_SIZE || rc == MOSQ_ERR_OVERSIZE_PACKET ? -EMSGSIZE
                                                                               : -EINVAL;
    }
    link_check(link, rc); /* lost just now: it is sent again */
    after_write(link);
    if (ret_id)
        *ret_id = message->id;
    return 0;
}

int link_subscribe(struct link *link, const char *pattern, int qos, int *ret_id)
{
    if (!link_is_up(link))
        return -ENOTCONN;
    int id, rc = mosquitto_subscribe(link->mosq, &id, pattern, qos);
    if (rc == MOSQ_ERR_NOMEM)
        return -ENOMEM;
    if (rc == MOSQ_ERR_INVAL || rc == MOSQ_ERR_MALFORMED_UTF8)
        return -EINVAL;
    link_check(link, rc);
    after_write(link);
    if (rc != MOSQ_ERR_SUCCESS)
        return -ENOTCONN;
    if (ret_id)
        *ret_id = id;
    return 0;
}

int link_unsubscribe(struct link *link, const char *pattern)
{
    if (!link_is_up(link))
        return -ENOTCONN;
    link_check(link, mosquitto_unsubscribe(link->mosq, NULL, pattern));
    after_write(link);
    return link->broken ? -ENOTCONN : 0;
}
