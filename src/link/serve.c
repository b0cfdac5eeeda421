/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scry-link serve [--listen HOST:PORT]...: the end of links beside a monitor. It listens on link.sock in the runtime
 * directory (scry-link bridge), and by TLS where --listen says so, and nowhere else. Whoever comes says hello in time, and
 * becomes a session. When it listens, it says so on standard output.
 */
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "base/system/pause.h"
#include "client/client.h"
#include "client/session.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/info.h"
#include "keys/keys.h"
#include "lang/value.h"
#include "link/end.h"
#include "link/link.h"
#include "shm/waits.h"
#include "wire/frame.h"
#include "wire/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SERVE_SESSIONS = 1024,    /* at once */
    SERVE_KEY_SESSIONS = 128, /* of one key */
    SERVE_GUESTS = 256,      /* connections on which nobody has said hello yet; the oldest is dropped for another one */
    SERVE_OVER = 256,        /* sessions that are over are remembered */
    SERVE_BYTES = 256 << 20, /* under way from monitors, of all sessions */
    LISTENERS = 2 * LINK_LISTEN_MOST,
    GUEST_BYTES = 4 << 10, /* that are read before somebody has said hello */
    FILES_MOST = 8192,
};

struct link_session;
struct guest;

struct serve {
    struct loop *loop;
    struct key *key; /* NULL: it does not listen on the network, or has a secret instead */
    struct tls *tls;
    bool awaits; /* scry-link await */
    unsigned port;
    char secret[2 * TLS_SECRET + 1];
    char dir[PATH_MAX]; /* the runtime directory */
    struct link_session *sessions;
    unsigned count;
    uint8_t over[SERVE_OVER][CHANNEL_SESSION];
    unsigned over_next;
    struct guest *guests, **guests_last; /* the oldest first */
    unsigned guest_count;
    struct loop_source *timer;
    uint64_t idle_ns; /* 0: it does not end by itself */
    uint64_t looked_ns, busy_ns;
    /* a monitor that is being started for the sessions that wait */
    pid_t starter;
    int starter_fd, starter_errors;
    struct loop_source *starter_source;
};

/* ---- monitors that come by themselves ---- */

/*
 * scry-link await: monitors come by themselves, where nobody may start anything on their machines (mpirun, srun). Each becomes
 * a session, and a node of the monitor here: that one is asked to attach what listens at a socket of ours, the door, and
 * what it says there goes to the monitor that came. So it is the one here that attaches, as everywhere.
 *
 * Whoever comes shows that they know the secret, which is made here and handed out with the job. Nothing else is asked.
 */

static const char scheme[] = "unix:";

/* A socket at which the monitor here is asked to attach a node. */
struct door {
    struct link_session *session; /* NULL: it is gone; the answer is still to come */
    int fd;                       /* -1: the monitor has come */
    struct loop_source *source;
    char name[sizeof scheme + 107];
    bool answered;
};

/* Once: with the connection, or -1 and why not; the latter also after the former. The door may be freed in it. */
static void session_on_door(struct link_session *session, int fd_take, const char *why);

static void door_close(struct door *door)
{
    if (door->fd < 0)
        return;
    loop_remove(door->source);
    close(door->fd);
    unlink(door->name + sizeof scheme - 1);
    door->fd = -1;
}

/* NULL is fine. */
static void door_free(struct door *door)
{
    if (!door)
        return;
    door_close(door);
    door->session = NULL;
    if (door->answered)
        free(door);
}

static void on_door(void *ctx, int fd, uint32_t events)
{
    struct door *door = ctx;
    int monitor = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    (void)events;
    if (monitor < 0)
        return;
    door_close(door);
    session_on_door(door->session, monitor, NULL);
}

/* Node or error. The session may have gone meanwhile. */
static void on_answer(Omis_reply reply, void *param)
{
    struct door *door = param;
    const Omis_object_result *results = reply[0]->status == OMIS_OK && reply[1] ? reply[1] : reply[0];
    const char *text = results->result ? results->result : "";
    bool fine = results->status == OMIS_OK && results != reply[0];
    door->answered = true;
    if (fine)
        printf("node %s\n", text);
    fflush(stdout);
    if (!fine)
        log_error("a monitor came, and cannot be attached: %s", text);
    if (!door->session) {
        free(door);
    } else if (!fine) {
        door_close(door);
        session_on_door(door->session, -1, text);
    }
    omis_reply_free(reply);
}

static int door_open(struct serve *serve, struct link_session *session, struct door **ret_door, struct err *err)
{
    static unsigned count;
    _cleanup_(freep) struct door *door = calloc(1, sizeof *door);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!door)
        return err_set(err, -ENOMEM, "out of memory at the other end");
    snprintf(door->name, sizeof door->name, "%s%.90s/join%d.%u", scheme, serve->dir, (int)getpid(), count++);
    door->session = session;
    door->fd = local_listen(door->name + sizeof scheme - 1, err);
    if (door->fd < 0)
        return door->fd;
    PUT_CALL(&text, "node_attach2", (const char *)door->name);
    door->source = loop_add_fd(serve->loop, door->fd, EPOLLIN, on_door, door);
    if (text.failed || !door->source) {
        door_close(door);
        return err_set(err, -ENOMEM, "out of memory at the other end");
    }
    *ret_door = door;
    client_request(span_of(text.data, text.len), on_answer, TAKE_PTR(door), 0);
    return 0;
}

static void on_replies(void *ctx, int fd, uint32_t events)
{
    struct serve *serve = ctx;
    (void)fd;
    (void)events;
    omis_handler();
    if (client_connected())
        return;
    log_error("the connection to the monitor here is lost");
    loop_stop(serve->loop);
}

/* The secret, the monitor here. 0 or -errno with err. */
static int await_begin(struct serve *serve, struct err *err)
{
    uint8_t secret[TLS_SECRET];
    int id = 0;
    if (getrandom(secret, sizeof secret, 0) != sizeof secret)
        return err_errno(err, -errno, "no random numbers");
    int code = tls_new_shared(&serve->tls, secret, true, err);
    for (size_t i = 0; i < sizeof secret; i++)
        snprintf(serve->secret + 2 * i, 3, "%02x", secret[i]);
    explicit_bzero(secret, sizeof secret);
    if (code == 0 && omis_init(NULL, NULL, NULL, &id) != OMIS_OK)
        code = err_set(err, -ECANCELED, "%s", client_error());
    if (code < 0)
        return code;
    return loop_add_fd(serve->loop, omis_fd(), EPOLLIN, on_replies, serve) ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* A socket that listens at all addresses of this machine, at a free port; or -errno. */
static int await_listen(unsigned *ret_port)
{
    int no = 0;
    struct sockaddr_in6 all = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in all4 = {.sin_family = AF_INET};
    socklen_t len = sizeof all;
    _cleanup_(closep) int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool fine = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) == 0 &&
                bind(fd, (struct sockaddr *)&all, sizeof all) == 0;
    if (!fine) { /* a machine without it */
        closep(&fd);
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        fine = fd >= 0 && bind(fd, (struct sockaddr *)&all4, sizeof all4) == 0;
    }
    if (!fine || listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)&all, &len) < 0)
        return -errno;
    *ret_port = ntohs(all.sin6_port); /* at the same place in both */
    return TAKE_FD(fd);
}

/* Says on standard output how to come here: at this address, NULL: at serve->port. */
static void await_tell(const struct serve *serve, const char *address)
{
    char host[256] = "localhost";
    if (gethostname(host, sizeof host - 1) < 0)
        log_warning("this machine has no name");
    if (address)
        printf("SCRY_JOIN=tls://%s#%s\n", address, serve->secret);
    else
        printf("SCRY_JOIN=tls://%s:%u#%s\n", host, serve->port, serve->secret);
    fflush(stdout);
}

static void await_end(struct serve *serve)
{
    explicit_bzero(serve->secret, sizeof serve->secret);
    omis_finalize();
}

/* ---- sessions: each has a connection to the monitor, which knows it as a tool, or as another monitor ---- */

struct link_session {
    struct serve *serve;
    struct link_session *next;
    struct end end;
    bool is_local; /* of this user's own process here: who has no key */
    struct key_about who;
    uint64_t lost_ns;  /* 0: it has a connection */
    struct door *door; /* of scry-link await, or NULL */
    bool waits;        /* for a monitor that is being started */
    char name[9];      /* the beginning of its number, for the log */
};

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
static void session_end(struct link_session *session, const char *why)
{
    log_info("link session=%s state=ended why=%s", session->name, LOG_TEXT(why));
    if (session->end.transport)
        end_stop(&session->end, why);
    session_free(session);
}

static int connect_monitor(const struct serve *serve, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/monitor.sock", serve->dir);
    return local_connect(path, err);
}

static void session_set_monitor(struct link_session *session, int fd)
{
    session->waits = false;
    if (end_set_local_take(&session->end, fd) < 0)
        session_end(session, "out of memory at the other end");
}

static void session_on_door(struct link_session *session, int fd, const char *why)
{
    if (fd >= 0)
        session_set_monitor(session, fd);
    else
        session_end(session, why);
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
            session_set_monitor(session, monitor);
        } else {
            err_set(&err, monitor, "no monitor could be started there: %s", *text ? text : "it ended at once");
            session_end(session, err.text);
        }
    }
}

/* `scry-monitor --daemon`, whose first process ends when it can be connected to. */
static int start_monitor(struct serve *serve, struct err *err)
{
    char path[PATH_MAX];
    int ends[3], code = serve->starter ? 0 : dirs_libexec("scry-monitor", path, sizeof path, err);
    if (code < 0 || serve->starter)
        return code;
    code = client_spawn_monitor(path, &serve->starter, ends);
    if (code < 0) {
        serve->starter = 0;
        return err_errno(err, code, "cannot start the monitor %s", path);
    }
    serve->starter_errors = ends[STDERR_FILENO];
    fcntl(serve->starter_errors, F_SETFL, O_NONBLOCK);
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

/* The directory of the job that is meant: the one that was named, or the only one that the key can mean. */
static int session_find_job(const struct key_about *who, const char *wanted, char dir[PATH_MAX], struct err *err)
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
static int session_confine(struct link_session *session, const char *wanted, struct err *err)
{
    char dir[PATH_MAX] = "";
    const struct key_about *who = &session->who;
    bool confined = who->rights != KEY_RIGHTS || strcmp(who->job, "*") != 0;
    int code = confined ? session_find_job(who, wanted, dir, err) : 0;
    if (code < 0)
        return code;
    frame_append_confine(&session->end.to_local, who->rights, confined ? dir : "", who->name, who->serial);
    return session->end.to_local.failed ? err_set(err, -ENOMEM, "out of memory at the other end") : 0;
}

static struct link_session *session_find(const struct serve *serve, const uint8_t number[CHANNEL_SESSION])
{
    struct link_session *at = serve->sessions;
    while (at && memcmp(at->end.channel.session, number, CHANNEL_SESSION) != 0)
        at = at->next;
    return at;
}

static bool session_was_over(const struct serve *serve, const uint8_t number[CHANNEL_SESSION])
{
    for (size_t i = 0; i < SERVE_OVER; i++)
        if (memcmp(serve->over[i], number, CHANNEL_SESSION) == 0)
            return true;
    return false;
}

static unsigned sessions_of(const struct serve *serve, const struct key_about *who)
{
    unsigned count = 0;
    for (const struct link_session *at = serve->sessions; at; at = at->next)
        count += !at->is_local && strcmp(at->who.serial, who->serial) == 0;
    return count;
}

static int session_set_up(struct link_session *session, const struct hello *hello, struct err *err)
{
    struct serve *serve = session->serve;
    static const struct end_events events = {.lost = on_lost, .over = on_over};
    int code = end_init(&session->end, serve->loop, hello->session, &events, session);
    if (code < 0)
        return err_set(err, code, "out of memory at the other end");
    if (!session->is_local && !serve->awaits)
        code = session_confine(session, hello->text, err);
    if (code < 0)
        return code;
    size_t share = SERVE_BYTES / (serve->count + 1);
    session->end.most = share < END_WAITING_BYTES ? share : END_WAITING_BYTES;
    if (serve->awaits)
        return door_open(serve, session, &session->door, err);
    int fd = connect_monitor(serve, err);
    if (fd == -ENOENT || fd == -ECONNREFUSED) {
        session->waits = true;
        return start_monitor(serve, err);
    }
    return fd < 0 ? fd : end_set_local_take(&session->end, fd);
}

/* Those that were left without a word are kept for who may come back, but not in the way of others. */
static void session_make_room(struct serve *serve, const struct key_about *who)
{
    struct link_session *oldest = NULL;
    bool all = serve->count >= SERVE_SESSIONS;
    if (!all && (!who || sessions_of(serve, who) < SERVE_KEY_SESSIONS))
        return;
    for (struct link_session *at = serve->sessions; at; at = at->next)
        if (at->lost_ns && (!oldest || at->lost_ns < oldest->lost_ns) &&
            (all || (!at->is_local && strcmp(at->who.serial, who->serial) == 0)))
            oldest = at;
    if (oldest)
        session_end(oldest, "another one needs its place");
}

static struct link_session *session_begin(struct serve *serve, const struct key_about *who, const struct hello *hello,
                                          struct err *err)
{
    struct link_session *session = NULL;
    session_make_room(serve, who);
    if (serve->count >= SERVE_SESSIONS)
        err_set(err, -EBUSY, "the other end has %d sessions already: end some", SERVE_SESSIONS);
    else if (who && !serve->awaits && sessions_of(serve, who) >= SERVE_KEY_SESSIONS)
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
    if (session_set_up(session, hello, err) < 0) {
        session_free(session);
        return NULL;
    }
    log_info("link session=%s key=%s name=%s state=begun", session->name, who ? who->serial : "-",
             LOG_TEXT(who ? who->name : ""));
    return session;
}

/* The session of this number, if it is of the same key: its number is a secret of both ends. */
static struct link_session *session_resume(const struct serve *serve, const struct key_about *who,
                                           const struct hello *hello, struct err *err)
{
    struct link_session *session = session_find(serve, hello->session);
    if (session && session->is_local == !who && (!who || strcmp(session->who.serial, who->serial) == 0))
        return session;
    if (!session && session_was_over(serve, hello->session))
        err_set(err, -ESHUTDOWN, "%s", ""); /* nothing is wrong */
    else
        err_set(err, -ECONNRESET,
                "the session is over: the other end did not hear from here for %d s, or was started again",
                LINK_LEASE_SECONDS);
    return NULL;
}

/* Who has said hello takes or begins a session, or is told why not. `who`: NULL for a user's own process on this machine.
 * Frees the transport in any case. */
static void sessions_take(struct serve *serve, struct transport *transport_take, const struct key_about *who,
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
    if (hello->flags & HELLO_RESUME || session_find(serve, hello->session))
        session = session_resume(serve, who, hello, &err);
    else
        session = session_begin(serve, who, hello, &err);
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

/* Once a second or so: those that nobody came back to end, and those whose key is not taken any more. */
static void sessions_tick(struct serve *serve, uint64_t now, bool keys_too)
{
    for (struct link_session *session = serve->sessions, *next; session; session = next) {
        next = session->next;
        enum trust trust = keys_too && !session->is_local
                               ? truster_check_about(tls_truster(serve->tls), &session->who, time(NULL))
                               : TRUST_FINE;
        if (trust != TRUST_FINE)
            session_end(session, trust == TRUST_REVOKED ? "this key was revoked" : "this key has expired");
        else if (session->lost_ns && now - session->lost_ns > time_hasten(LINK_LEASE_SECONDS * (uint64_t)NS_PER_SECOND))
            session_end(session, "nobody came back");
    }
}

static void sessions_end(struct serve *serve, const char *why)
{
    while (serve->sessions)
        session_end(serve->sessions, why);
}

/* ---- guests: who has not said hello yet ---- */

struct guest {
    struct serve *serve;
    struct guest *next;
    struct transport *transport;
    struct loop_source *source;
    struct buf in;
    uint64_t came_ns;
    bool leaves; /* it was refused, and is to hear why: who closes with bytes unread takes that back */
    char from[80];
};

struct listener {
    struct serve *serve;
    struct loop_source *source;
    int fd;
    bool is_local;
    bool deaf; /* until the next tick: there was no descriptor */
};
static struct listener listeners[LISTENERS];
static size_t listener_count;

static void guest_free(struct guest *guest)
{
    struct serve *serve = guest->serve;
    struct guest **at = &serve->guests;
    while (*at != guest)
        at = &(*at)->next;
    *at = guest->next;
    if (serve->guests_last == &guest->next)
        serve->guests_last = at;
    serve->guest_count--;
    loop_remove(guest->source);
    transport_free(guest->transport);
    buf_done(&guest->in);
    free(guest);
}

static void guest_refuse(struct guest *guest, const char *why)
{
    log_info("link from=%s refused=%s", guest->from, LOG_TEXT(why));
    guest->leaves = true;
    guest->came_ns =
        clock_now_ns() - time_hasten((SERVE_GUEST_SECONDS - SERVE_LEAVE_SECONDS) * (uint64_t)NS_PER_SECOND);
    shutdown(guest->transport->fd, SHUT_WR);
    loop_set_events(guest->source, EPOLLIN);
}

static void guest_see_off(struct guest *guest)
{
    char bytes[GUEST_BYTES];
    ssize_t got = recv(guest->transport->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        guest_free(guest);
}

/* Reads until there is a hello, and no further than a hello may be long. */
static void on_guest(void *ctx, int fd, uint32_t events)
{
    struct guest *guest = ctx;
    struct hello hello;
    struct err err = {0};
    (void)fd;
    (void)events;
    if (guest->leaves) {
        guest_see_off(guest);
        return;
    }
    int code = transport_shake(guest->transport, &err);
    if (code == -EAGAIN) {
        loop_set_events(guest->source, guest->transport->wants_output ? EPOLLOUT : EPOLLIN);
        return;
    }
    loop_set_events(guest->source, EPOLLIN);
    ssize_t took = 0, got = 1;
    while (code == 0 && took == 0 && got > 0 && guest->in.len < GUEST_BYTES) {
        char *room = buf_reserve(&guest->in, GUEST_BYTES);
        got = room ? transport_read(guest->transport, room, GUEST_BYTES, &err) : -ENOMEM;
        guest->in.len += got > 0 ? (size_t)got : 0;
        took = hello_parse(span_of(guest->in.data, guest->in.len), false, &hello);
    }
    if (code == 0 && took == 0 && got == -EAGAIN)
        return;
    if (code < 0) {
        guest_refuse(guest, err.text);
        return;
    }
    if (took <= 0) {
        guest_free(guest);
        return;
    }
    struct key_about who;
    if (guest->transport->ssl && !tls_peer(guest->serve->tls, guest->transport, &who)) {
        guest_free(guest);
        return;
    }
    struct transport *transport = TAKE_PTR(guest->transport);
    loop_remove(guest->source);
    guest->source = NULL;
    sessions_take(guest->serve, transport, transport->ssl ? &who : NULL, &hello,
                  span_of(guest->in.data + took, guest->in.len - (size_t)took));
    guest_free(guest);
}

/* Who has nobody to look after does not wake up. */
static void tick_soon(struct serve *serve)
{
    loop_set_timer(serve->timer, NS_PER_SECOND, 0);
}

static void guest_new(struct listener *listener, int fd, const char *from)
{
    struct serve *serve = listener->serve;
    struct guest *guest = calloc(1, sizeof *guest);
    struct err err;
    if (!guest) {
        close(fd);
        return;
    }
    if (serve->guest_count >= SERVE_GUESTS)
        guest_free(serve->guests);
    guest->serve = serve;
    guest->came_ns = clock_now_ns();
    snprintf(guest->from, sizeof guest->from, "%s", from);
    *serve->guests_last = guest;
    serve->guests_last = &guest->next;
    serve->guest_count++;
    if (listener->is_local)
        guest->transport = transport_new_take(fd);
    else if (tls_transport(serve->tls, fd, &guest->transport, &err) < 0)
        guest->transport = NULL;
    if (guest->transport)
        guest->source = loop_add_fd(serve->loop, fd, EPOLLIN, on_guest, guest);
    if (!guest->source)
        guest_free(guest);
    else
        tick_soon(serve);
}

static void on_listener(void *ctx, int fd, uint32_t events)
{
    struct listener *listener = ctx;
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    char host[64] = "", from[80] = "local";
    int yes = 1, guest = accept4(fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    uid_t uid;
    (void)events;
    if (guest < 0) {
        bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
        if (full && listener->serve->guests)
            guest_free(listener->serve->guests);
        if (full) {
            listener->deaf = true;
            loop_set_events(listener->source, 0);
            tick_soon(listener->serve);
        }
        return;
    }
    if (listener->is_local && (local_peer(guest, &uid, NULL) < 0 || uid != geteuid())) {
        close(guest);
        return;
    }
    if (!listener->is_local) {
        char port[8] = "";
        setsockopt(guest, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        getnameinfo((struct sockaddr *)&address, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
        snprintf(from, sizeof from, "[%s]:%s", host, port);
    }
    guest_new(listener, guest, from);
}

/* ---- as time goes by ---- */

static void on_tick(void *ctx)
{
    struct serve *serve = ctx;
    uint64_t now = clock_now_ns();
    bool keys_too = serve->key && now - serve->looked_ns >= time_hasten(SERVE_LOOK_SECONDS * (uint64_t)NS_PER_SECOND);
    for (size_t i = 0; i < listener_count; i++)
        if (listeners[i].deaf) {
            listeners[i].deaf = false;
            loop_set_events(listeners[i].source, EPOLLIN);
        }
    while (serve->guests && now - serve->guests->came_ns > time_hasten(SERVE_GUEST_SECONDS * (uint64_t)NS_PER_SECOND))
        guest_free(serve->guests);
    if (keys_too) {
        serve->looked_ns = now;
        struct err err;
        if (truster_look(tls_truster(serve->tls), &err) < 0)
            log_warning("%s", err.text);
    }
    sessions_tick(serve, now, keys_too);
    if (serve->count || serve->guest_count) {
        serve->busy_ns = now;
        tick_soon(serve);
    } else if (serve->idle_ns && now - serve->busy_ns >= serve->idle_ns) {
        loop_stop(serve->loop);
    } else if (serve->idle_ns) {
        loop_set_timer(serve->timer, serve->busy_ns + serve->idle_ns - now + 1, 0);
    }
}

/* ---- listening ---- */

static int add_listener(struct serve *serve, int fd, bool is_local, struct err *err)
{
    if (listener_count == LISTENERS) {
        close(fd);
        return err_set(err, -EINVAL, "too many addresses to listen at");
    }
    struct listener *listener = &listeners[listener_count++];
    *listener = (struct listener){.serve = serve, .fd = fd, .is_local = is_local};
    listener->source = loop_add_fd(serve->loop, fd, EPOLLIN, on_listener, listener);
    return listener->source ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int listen_address(const struct addrinfo *address)
{
    int yes = 1;
    _cleanup_(closep) int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof yes);
    if (bind(fd, address->ai_addr, address->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
        return -errno;
    return TAKE_FD(fd);
}

/* HOST:PORT, [ADDRESS]:PORT; *:PORT is all addresses of this machine. */
static int listen_at(struct serve *serve, const char *text, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list;
    struct link_endpoint endpoint;
    char url[LINK_NAME], service[8];
    bool all = strncmp(text, "*:", 2) == 0;
    if ((size_t)snprintf(url, sizeof url, "tls://%s%s", all ? "all" : "", all ? text + 1 : text) >= sizeof url ||
        strchr(text, '/') || link_endpoint_parse(url, &endpoint, err) < 0)
        return err_set(err, -EINVAL, "--listen expects HOST:PORT, [ADDRESS]:PORT or *:PORT, not \"%s\"", text);
    snprintf(service, sizeof service, "%u", endpoint.port);
    int failed = getaddrinfo(all ? NULL : endpoint.host, service, &hints, &list), code = -ENOENT, count = 0;
    if (failed)
        return err_set(err, -ENOENT, "--listen %s: %s", text, gai_strerror(failed));
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        int fd = listen_address(at);
        code = fd < 0 ? fd : add_listener(serve, fd, false, err);
        count += code == 0;
        if (code < 0 && !(all && code == -EAFNOSUPPORT))
            break;
    }
    freeaddrinfo(list);
    if (count && (code == 0 || code == -EAFNOSUPPORT))
        return 0;
    return err_errno(err, code, "cannot listen at %s", text);
}

/* Another one may be there, which does as well for those who come here. */
static int listen_locally(struct serve *serve, bool must, struct err *err)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/link.sock", serve->dir);
    int fd = local_listen(path, err);
    if (fd == -EADDRINUSE && !must)
        return 0;
    return fd < 0 ? fd : add_listener(serve, fd, true, err);
}

/* The file, unless another one has taken its place. */
static void leave_socket(const struct serve *serve)
{
    char path[PATH_MAX + 16];
    struct err err;
    snprintf(path, sizeof path, "%s/link.sock", serve->dir);
    int fd = local_connect(path, &err);
    if (fd == -ECONNREFUSED)
        unlink(path);
    else if (fd >= 0)
        close(fd);
}

/* ---- the whole ---- */

static void on_stop(void *ctx, int fd, uint32_t events)
{
    struct serve *serve = ctx;
    char bytes[64];
    ssize_t got = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    (void)events;
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        loop_stop(serve->loop);
}

static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= FILES_MOST)
        return;
    files.rlim_cur = files.rlim_max < FILES_MOST ? files.rlim_max : FILES_MOST;
    setrlimit(RLIMIT_NOFILE, &files);
}

/* A program that started us writes there: when it has ended, nobody needs us. */
static bool is_pipe(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int serve_start(struct serve *serve, const struct link_wishes *wishes, struct err *err)
{
    int code = dirs_runtime(serve->dir, sizeof serve->dir, err);
    serve->awaits = wishes->awaits;
    if (code == 0 && wishes->count && !wishes->awaits) { /* without keys nobody listens on a network */
        code = key_own(&serve->key, err);
        if (code == 0)
            code = tls_new(&serve->tls, serve->key, true, err);
    }
    if (code == 0 && (code = loop_new(&serve->loop)) < 0)
        err_errno(err, code, "no event loop");
    if (code == 0 && wishes->awaits)
        code = await_begin(serve, err);
    if (code < 0)
        return code;
    serve->guests_last = &serve->guests;
    serve->busy_ns = clock_now_ns();
    serve->idle_ns =
        wishes->count || wishes->beside || wishes->awaits ? 0 : SERVE_IDLE_SECONDS * (uint64_t)NS_PER_SECOND;
    serve->timer = loop_add_timer(serve->loop, 1, 0, on_tick, serve);
    if (!serve->timer || !loop_add_signal(serve->loop, SIGTERM, on_stop, serve) ||
        !loop_add_signal(serve->loop, SIGINT, on_stop, serve) ||
        ((wishes->beside || (wishes->awaits && is_pipe(STDIN_FILENO))) &&
         !loop_add_fd(serve->loop, STDIN_FILENO, EPOLLIN, on_stop, serve)))
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < wishes->count && code == 0; i++)
        code = listen_at(serve, wishes->listen[i], err);
    if (code == 0 && wishes->awaits) {
        if (wishes->count)
            return 0;
        int fd = await_listen(&serve->port);
        return fd < 0 ? err_errno(err, fd, "cannot listen") : add_listener(serve, fd, false, err);
    }
    return code < 0 ? code : listen_locally(serve, !wishes->count, err);
}

/* Whoever started us waits for this line, or for the one on standard error. */
static void announce(const struct serve *serve, const struct link_wishes *wishes)
{
    if (wishes->awaits) {
        await_tell(serve, wishes->count ? wishes->listen[0] : NULL);
        return;
    }
    for (size_t i = 0; i < wishes->count; i++)
        printf("scry: listens at %s\n", wishes->listen[i]);
    if (!wishes->count)
        puts("scry: listens");
    fflush(stdout);
    int log = wishes->beside ? link_open_log(serve->dir) : -1;
    if (log < 0)
        return;
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    close(log);
}

int link_serve(const struct link_wishes *wishes)
{
    static struct serve serve;
    struct err err;
    raise_files();
    int code = serve_start(&serve, wishes, &err);
    if (code < 0) {
        log_error("%s", err.text);
        return code == -EADDRINUSE ? LOCAL_BUSY : 1;
    }
    announce(&serve, wishes);
    code = loop_run(serve.loop);
    sessions_end(&serve, "the other end was stopped");
    if (serve.awaits)
        await_end(&serve);
    while (serve.guests)
        guest_free(serve.guests);
    bool had = false;
    for (size_t i = 0; i < listener_count; i++) {
        had |= listeners[i].is_local;
        close(listeners[i].fd);
    }
    if (had)
        leave_socket(&serve);
    loop_free(serve.loop);
    tls_free(serve.tls);
    key_free(serve.key);
    return code < 0 ? 1 : 0;
}
