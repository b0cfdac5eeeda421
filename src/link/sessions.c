/* SPDX-License-Identifier: Apache-2.0 */
/* The sessions of scry-link serve: each has a connection to the monitor, which knows it as a tool, or as another monitor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "client/session.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "keys/trust.h"
#include "link/await.h"
#include "link/link.h"
#include "link/serve.h"
#include "shm/waits.h"
#include "wire/frame.h"
#include "wire/local.h"

struct link_session {
    struct serve *serve;
    struct link_session *next;
    struct end end;
    bool is_local; /* of this user's own process here: who has no key */
    struct key_about who;
    uint64_t lost_ns;  /* 0: it has a connection */
    struct door *door; /* of await.h, or NULL */
    bool waits;        /* for a monitor that is being started */
    char name[9];      /* the beginning of its number, for the log */
};

/* ---- over ---- */

static void session_free(struct link_session *session)
{
    struct serve *serve = session->serve;
    struct link_session **at = &serve->sessions;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    serve->count--;
    memcpy(serve->over[serve->over_next++ % SERVE_OVER], session->end.channel.session, CHANNEL_SESSION);
    door_free(session->door);
    end_done(&session->end);
    free(session);
}

static void on_lost(void *ctx, const struct err *why)
{
    struct link_session *session = ctx;
    session->lost_ns = clock_now_ns();
    log_info("link session=%s state=lost why=%s", session->name, LOG_TEXT(why->text));
}

static void on_over(void *ctx, const char *why)
{
    struct link_session *session = ctx;
    log_info("link session=%s state=over why=%s", session->name, LOG_TEXT(why));
    session_free(session);
}

/* Tells the other end, if it hears. */
static void end_now(struct link_session *session, const char *why)
{
    log_info("link session=%s state=ended why=%s", session->name, LOG_TEXT(why));
    if (session->end.transport)
        end_stop(&session->end, why);
    session_free(session);
}

/* ---- the monitor ---- */

static int connect_monitor(const struct serve *serve, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/monitor.sock", serve->dir);
    return local_connect(path, err);
}

static void set_monitor(struct link_session *session, int fd)
{
    session->waits = false;
    if (end_set_local_take(&session->end, fd) < 0)
        end_now(session, "out of memory at the other end");
}

static void on_door(void *ctx, int fd, const char *why)
{
    struct link_session *session = ctx;
    if (fd >= 0)
        set_monitor(session, fd);
    else
        end_now(session, why);
}

/* It is there, or could not be started: those who wait hear of it. */
static void on_started(void *ctx, int fd, uint32_t events)
{
    struct serve *serve = ctx;
    struct err err = {0};
    char text[256] = "";
    int status = 0;
    (void)fd;
    (void)events;
    waitpid(serve->starter, &status, 0);
    ssize_t got = read(serve->starter_errors, text, sizeof text - 1);
    text[got > 0 ? strcspn(text, "\n") : 0] = 0;
    loop_remove(serve->starter_source);
    close(serve->starter_fd);
    close(serve->starter_errors);
    serve->starter = 0;
    for (struct link_session *session = serve->sessions, *next; session; session = next) {
        next = session->next;
        if (!session->waits)
            continue;
        int monitor = connect_monitor(serve, &err);
        if (monitor >= 0) {
            set_monitor(session, monitor);
        } else {
            err_set(&err, monitor, "no monitor could be started there: %s", *text ? text : "it ended at once");
            end_now(session, err.text);
        }
    }
}

/* `scry-monitor --daemon`, whose first process ends when it can be connected to. */
static int start_monitor(struct serve *serve, struct err *err)
{
    char path[PATH_MAX], name[] = "scry-monitor", option[] = "--daemon", *argv[] = {name, option, NULL};
    int ends[2], code = serve->starter ? 0 : dirs_libexec("scry-monitor", path, sizeof path, err);
    if (code < 0 || serve->starter)
        return code;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_errno(err, -errno, "cannot start the monitor");
    code =
        client_spawn((struct spawn){.path = path, .argv = argv, .in = SPAWN_NULL, .out = SPAWN_NULL, .error = ends[1]},
                     &serve->starter);
    close(ends[1]);
    if (code < 0) {
        close(ends[0]);
        serve->starter = 0;
        return err_errno(err, code, "cannot start the monitor %s", path);
    }
    serve->starter_errors = ends[0];
    serve->starter_fd = (int)syscall(SYS_pidfd_open, serve->starter, 0);
    serve->starter_source = loop_add_fd(serve->loop, serve->starter_fd, EPOLLIN, on_started, serve);
    if (serve->starter_source)
        return 0;
    waitpid(serve->starter, NULL, 0);
    close(serve->starter_fd);
    close(serve->starter_errors);
    serve->starter = 0;
    return err_set(err, -ENOMEM, "out of memory at the other end");
}

/* ---- rights ---- */

static bool is_confined(const struct key_about *who)
{
    return who->rights != KEY_RIGHTS || strcmp(who->job, "*") != 0;
}

/* The directory of the job that is meant: the one that was named, or the only one that the key can mean. */
static int find_job(const struct key_about *who, const char *wanted, char dir[PATH_MAX], struct err *err)
{
    struct job_info info;
    const char *job = *wanted ? wanted : who->job;
    if (!*wanted && strpbrk(job, "*?["))
        return err_set(err, -EINVAL,
                       "the key %s is for jobs %s, not for all that you may do here: name the job, tls://HOST:PORT/JOB",
                       who->name, who->job);
    if (strchr(job, '/') || job[0] == '.') /* a directory */
        return err_set(err, -EINVAL, "\"%s\" is no id or name of a job", job);
    if (jobdir_find(job, dir, PATH_MAX, NULL) < 0)
        return err_set(err, -ENOENT, "there is no job %s at the other end, or it is none that the key %s is for", job,
                       who->name);
    bool may = job_info_read(dir, &info, NULL) == 0 && key_is_for(who, info.id, info.name ? info.name : "");
    job_info_done(&info);
    return may ? 0
               : err_set(err, -EACCES, "there is no job %s at the other end, or it is none that the key %s is for", job,
                         who->name);
}

/* The first thing that the monitor hears, before anything of the other end (publish/control.c does the same): what the key may
 * do, or, if that is everything, only whose it is. */
static int confine(struct link_session *session, const char *wanted, struct err *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char dir[PATH_MAX];
    const struct key_about *who = &session->who;
    int code = is_confined(who) ? find_job(who, wanted, dir, err) : 0;
    if (code < 0)
        return code;
    if (!is_confined(who))
        dir[0] = '\0';
    const char *const texts[] = {dir, who->name, who->serial};
    buf_put_u32(&text, who->rights);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_append(&text, texts[i], strlen(texts[i]) + 1);
    frame_append(&session->end.to_local, FRAME_CONFINE, 0, 0, span_of(text.data, text.len), span_of("", 0));
    return text.failed || session->end.to_local.failed ? err_set(err, -ENOMEM, "out of memory at the other end") : 0;
}

/* ---- beginning ---- */

static struct link_session *find(const struct serve *serve, const uint8_t number[CHANNEL_SESSION])
{
    struct link_session *at = serve->sessions;
    while (at && memcmp(at->end.channel.session, number, CHANNEL_SESSION) != 0)
        at = at->next;
    return at;
}

static bool was_over(const struct serve *serve, const uint8_t number[CHANNEL_SESSION])
{
    for (size_t i = 0; i < SERVE_OVER; i++)
        if (memcmp(serve->over[i], number, CHANNEL_SESSION) == 0)
            return true;
    return false;
}

static unsigned count_of(const struct serve *serve, const struct key_about *who)
{
    unsigned count = 0;
    for (const struct link_session *at = serve->sessions; at; at = at->next)
        count += !at->is_local && strcmp(at->who.serial, who->serial) == 0;
    return count;
}

static int set_up(struct link_session *session, const struct hello *hello, struct err *err)
{
    struct serve *serve = session->serve;
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    int code = end_init(&session->end, serve->loop, hello->session, &events, session);
    if (code < 0)
        return err_set(err, code, "out of memory at the other end");
    if (!session->is_local && !serve->awaits)
        code = confine(session, hello->text, err);
    if (code < 0)
        return code;
    size_t share = SERVE_BYTES / (serve->count + 1);
    session->end.most = share < END_WAITING_BYTES ? share : END_WAITING_BYTES;
    if (serve->awaits)
        return door_open(serve, on_door, session, &session->door, err);
    int fd = connect_monitor(serve, err);
    if (fd == -ENOENT || fd == -ECONNREFUSED) {
        session->waits = true;
        return start_monitor(serve, err);
    }
    return fd < 0 ? fd : end_set_local_take(&session->end, fd);
}

/* Those that were left without a word are kept for who may come back, but not in the way of others. */
static void make_room(struct serve *serve, const struct key_about *who)
{
    struct link_session *oldest = NULL;
    bool all = serve->count >= SERVE_SESSIONS;
    if (!all && (!who || count_of(serve, who) < SERVE_KEY_SESSIONS))
        return;
    for (struct link_session *at = serve->sessions; at; at = at->next)
        if (at->lost_ns && (!oldest || at->lost_ns < oldest->lost_ns) &&
            (all || (!at->is_local && strcmp(at->who.serial, who->serial) == 0)))
            oldest = at;
    if (oldest)
        end_now(oldest, "another one needs its place");
}

static struct link_session *begin(struct serve *serve, const struct key_about *who, const struct hello *hello,
                                  struct err *err)
{
    struct link_session *session = NULL;
    make_room(serve, who);
    if (serve->count >= SERVE_SESSIONS)
        err_set(err, -EBUSY, "the other end has %d sessions already: end some", SERVE_SESSIONS);
    else if (who && !serve->awaits && count_of(serve, who) >= SERVE_KEY_SESSIONS)
        err_set(err, -EBUSY, "the key %s has %d sessions there already: end some", who->name, SERVE_KEY_SESSIONS);
    else if (!(session = calloc(1, sizeof *session)))
        err_set(err, -ENOMEM, "out of memory at the other end");
    if (!session)
        return NULL;
    session->serve = serve;
    session->is_local = !who;
    if (who)
        session->who = *who;
    for (size_t i = 0; i < sizeof session->name / 2; i++)
        snprintf(session->name + 2 * i, 3, "%02x", hello->session[i]);
    session->next = serve->sessions;
    serve->sessions = session;
    serve->count++;
    if (set_up(session, hello, err) < 0) {
        session_free(session);
        return NULL;
    }
    log_info("link session=%s key=%s name=%s state=begun", session->name, who ? who->serial : "-",
             LOG_TEXT(who ? who->name : ""));
    return session;
}

/* The session of this number, if it is of the same key: its number is a secret of both ends. */
static struct link_session *take_again(const struct serve *serve, const struct key_about *who,
                                       const struct hello *hello, struct err *err)
{
    struct link_session *session = find(serve, hello->session);
    if (session && session->is_local == !who && (!who || strcmp(session->who.serial, who->serial) == 0))
        return session;
    if (!session && was_over(serve, hello->session))
        err_set(err, -ESHUTDOWN, "%s", ""); /* nothing is wrong */
    else
        err_set(err, -ECONNRESET,
                "the session is over: the other end did not hear from here for %d s, or was started again",
                LINK_LEASE_SECONDS);
    return NULL;
}

void sessions_take(struct serve *serve, struct transport *transport_take, const struct key_about *who,
                   const struct hello *hello, struct span early)
{
    _cleanup_(transport_freep) struct transport *transport = transport_take;
    _cleanup_(buf_done) struct buf out = BUF_INIT, text = BUF_INIT;
    struct hello answer = {.version = HELLO_VERSION, .text = SCRY_VERSION};
    struct link_session *session = NULL;
    struct err err = {0};
    memcpy(answer.session, hello->session, CHANNEL_SESSION);
    hello_put(&out, &answer);
    if (hello->version != HELLO_VERSION) {
        transport_write(transport, out.data, out.len, &err);
        return;
    }
    if (hello->flags & HELLO_RESUME || find(serve, hello->session))
        session = take_again(serve, who, hello, &err);
    else
        session = begin(serve, who, hello, &err);
    if (!session) {
        channel_put_end(&text, hello->session, err.text);
        buf_put_u32(&out, (uint32_t)text.len);
        buf_append(&out, text.data, text.len);
    }
    bool said = !out.failed && transport_write(transport, out.data, out.len, &err) == (ssize_t)out.len;
    if (!session || !said)
        return;
    session->lost_ns = 0;
    if (end_attach_take(&session->end, TAKE_PTR(transport), early) < 0)
        session->lost_ns = clock_now_ns();
}

/* ---- as time goes by ---- */

void sessions_tick(struct serve *serve, uint64_t now, bool keys_too)
{
    for (struct link_session *session = serve->sessions, *next; session; session = next) {
        next = session->next;
        enum trust trust = keys_too && !session->is_local
                               ? truster_check_about(tls_truster(serve->tls), &session->who, time(NULL))
                               : TRUST_FINE;
        if (trust != TRUST_FINE)
            end_now(session, trust == TRUST_REVOKED ? "this key was revoked" : "this key has expired");
        else if (session->lost_ns && now - session->lost_ns > time_hasten(LINK_LEASE_SECONDS * (uint64_t)NS_PER_SECOND))
            end_now(session, "nobody came back");
    }
}

void sessions_end(struct serve *serve, const char *why)
{
    while (serve->sessions)
        end_now(serve->sessions, why);
}
