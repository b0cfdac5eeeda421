/* SPDX-License-Identifier: Apache-2.0 */
#include "job/output/relay.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/process.h"
#include "base/system/wait_world.h"
#include "job/launch/launch.h"
#include "job/output/keep.h"
#include "shm/waits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PASS_MOST = 1 << 20,
    COPY_MOST = 64 << 10, /* what a pipe holds */
    KEEPERS_MOST = 100,
    TERMINAL_MOST = 16 << 10, /* so much is written to it beyond what can be read at once, in 6.18 8 KB */
    SOCKET_MOST = 4096,       /* a socket that can be written to has room for so much, and splice would wait for more */
};

/* The descriptors that relay and standby have, in this order. */
enum {
    FD_CONTROL,
    FD_WAKE,
    FD_LEASH,
    FD_HELD,
    FD_STREAM,
    FDS_STREAM = 6,
    FDS = FD_STREAM + RELAY_STREAMS * FDS_STREAM
};
enum { FD_JOB = TYPED_JOB, FD_TARGET = TYPED_USER, FD_COPY_IN, FD_COPY_OUT, FD_WAY_IN, FD_WAY_OUT };

struct side {
    struct relay_shared *shared;
    const char *dir;
    uint64_t most;
    int fds[FDS];
    struct side_stream {
        const char *name; /* NULL: there is none */
        int *fds;         /* FD_JOB ... */
        bool socket;
        bool terminal;    /* FD_JOB and FD_TARGET are terminals */
        bool watched;     /* that its reader goes away is seen before something is written: a pipe without a name */
        uint64_t way;     /* bytes that are on their way */
        uint64_t full_ns; /* since when there is no room for a copy; 0: there is */
        uint64_t due;     /* so much is to be passed on before the answer */
    } streams[RELAY_STREAMS];
    unsigned due;              /* of that question */
    unsigned resized;          /* so often it has been */
    bool hold;                 /* scry run is stopped: what is typed is not for the job, until it says something */
    int keeper_fd, standby_fd; /* pidfds; -1: there is none */
    pid_t standby;             /* the relay's child */
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static uint64_t bytes_in(int pipe)
{
    int bytes = 0;
    return pipe >= 0 && ioctl(pipe, FIONREAD, &bytes) == 0 && bytes > 0 ? (uint64_t)bytes : 0;
}

static void wake(const struct side *side)
{
    uint64_t one = 1;
    ssize_t put = write(side->fds[FD_WAKE], &one, sizeof one);
    (void)put; /* it is full of them */
}

static int pidfd_of(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* The pidfd of a child; one that cannot be watched is ended, since nobody would see when it ends: -1, as if it had not been made. */
static int child_watch(pid_t *inout_pid)
{
    int fd = *inout_pid > 0 ? pidfd_of(*inout_pid) : -1;
    if (fd < 0 && *inout_pid > 0) {
        kill(*inout_pid, SIGKILL);
        child_reap(*inout_pid);
        *inout_pid = -1;
    }
    return fd;
}

/* ---- the keeper ---- */

struct keeping {
    struct keep keep[RELAY_STREAMS];
    bool failed[RELAY_STREAMS];
};

static void keeping_fail(struct side *side, struct keeping *keeping, size_t i, int code)
{
    keeping->failed[i] = true;
    side->shared->streams[i].error = -code;
}

static void keeping_open(struct side *side, struct keeping *keeping, size_t i)
{
    if (keeping->failed[i] || keeping->keep[i].dir >= 0)
        return;
    int code = keep_open(&keeping->keep[i], side->dir, side->streams[i].name, side->most);
    if (code < 0)
        keeping_fail(side, keeping, i, code);
}

/* One piece of one stream. false: there is none. */
static bool keeping_take(struct side *side, struct keeping *keeping, size_t i)
{
    char bytes[COPY_MOST];
    const struct side_stream *stream = &side->streams[i];
    struct relay_bytes *shared = &side->shared->streams[i];
    shared->taking++;
    ssize_t got = read(stream->fds[FD_COPY_OUT], bytes, sizeof bytes);
    shared->taken += got > 0 ? (uint64_t)got : 0;
    shared->taking++;
    if (got <= 0)
        return false;
    keeping_open(side, keeping, i);
    int code = keeping->failed[i] ? 0 : keep_put(&keeping->keep[i], bytes, (size_t)got, clock_wall_ns());
    if (code < 0)
        keeping_fail(side, keeping, i, code);
    shared->kept += (uint64_t)got;
    return true;
}

/* Until nobody can copy anything any more. */
static _Noreturn void keeper_serve(struct side *side)
{
    struct keeping keeping;
    int fds[RELAY_STREAMS];
    bool open = true;
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        fds[i] = side->streams[i].name ? side->streams[i].fds[FD_COPY_OUT] : -1;
    worker_keep(KEEPER_PROCESS_NAME, fds, RELAY_STREAMS);
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        side->streams[i].fds[FD_COPY_OUT] = fds[i];
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        keeping.keep[i] = (struct keep){.dir = -1, .fd = -1, .times = -1};
        keeping.failed[i] = side->shared->streams[i].error;
    }
    while (open) {
        struct pollfd polls[RELAY_STREAMS];
        open = false;
        for (size_t i = 0; i < RELAY_STREAMS; i++) {
            polls[i] = (struct pollfd){.fd = keeping.failed[i] ? -1 : fds[i], .events = POLLIN};
            open |= polls[i].fd >= 0;
        }
        if (open)
            poll(polls, RELAY_STREAMS, -1);
        for (size_t i = 0; i < RELAY_STREAMS; i++)
            if (polls[i].revents && !keeping_take(side, &keeping, i) && !(polls[i].revents & POLLIN))
                fds[i] = -1;
    }
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        if (side->streams[i].name && side->shared->given)
            keeping_open(side, &keeping, i); /* that nothing was written is known, too */
        keep_done(&keeping.keep[i]);
    }
    _exit(0);
}

static void keeper_make(struct side *side)
{
    bool any = false;
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        struct relay_bytes *bytes = &side->shared->streams[i];
        if (side->streams[i].name) {
            bytes->taken = bytes->copied - bytes_in(side->streams[i].fds[FD_COPY_OUT]);
            bytes->lost += bytes->taken - bytes->kept; /* the one before had them */
            bytes->kept = bytes->taken;
            bytes->taking = 0;
        }
        any |= side->streams[i].name && !bytes->error;
    }
    close_fd(&side->keeper_fd);
    if (!any)
        return;
    pid_t pid = side->shared->keepers++ < KEEPERS_MOST ? fork() : -1;
    if (pid == 0)
        keeper_serve(side);
    side->keeper_fd = child_watch(&pid);
    for (size_t i = 0; i < RELAY_STREAMS && pid < 0; i++)
        if (side->streams[i].name && !side->shared->streams[i].error)
            side->shared->streams[i].error = EAGAIN;
}

/* ---- the standby ---- */

/* What the relay has closed is not to be kept open here. Returns when the relay is dead. */
static void standby_serve(struct side *side, int relay_fd)
{
    bool dead = false;
    uint64_t woken;
    while (!dead && !side->shared->over) {
        struct pollfd polls[2] = {{.fd = relay_fd, .events = POLLIN}, {.fd = side->fds[FD_WAKE], .events = POLLIN}};
        poll(polls, 2, -1);
        dead = polls[0].revents;
        if (polls[1].revents)
            (void)!read(side->fds[FD_WAKE], &woken, sizeof woken);
        if (side->shared->let_go)
            close_fd(&side->fds[FD_HELD]);
        for (size_t i = 0; i < RELAY_STREAMS; i++)
            if (side->streams[i].name && side->shared->streams[i].closed) {
                close_fd(&side->streams[i].fds[FD_JOB]);
                close_fd(&side->streams[i].fds[FD_TARGET]);
            }
    }
    close(relay_fd);
    if (side->shared->over)
        _exit(0);
}

/* Returns true in the child, with a descriptor for the relay. */
static bool standby_make(struct side *side, int *ret_relay_fd)
{
    int own = pidfd_of(getpid());
    worker_rename(STANDBY_PROCESS_NAME); /* until there is one: who kills by name does not kill both */
    pid_t pid = own < 0 ? -1 : fork();
    if (pid == 0) {
        *ret_relay_fd = own;
        return true;
    }
    if (own >= 0)
        close(own);
    side->standby_fd = child_watch(&pid);
    side->standby = pid;
    worker_rename(RELAY_PROCESS_NAME);
    side->shared->relay = getpid();
    return false;
}

/* ---- the relay ---- */

/*
 * The session of the job's terminal ends with that. Who is left in it has nothing open there, or the user's terminal is gone: they get
 * a SIGHUP only if that was in front, as they would have. Else the leader keeps it from them, and is awaited.
 */
static void session_end(struct side *side, const struct side_stream *stream)
{
    struct pollfd user = {.fd = stream->fds[FD_TARGET]};
    poll(&user, 1, 0);
    bool loud = user.revents & (POLLERR | POLLHUP) && side->shared->taken;
    if (!loud && side->fds[FD_LEASH] >= 0 && send(side->fds[FD_LEASH], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        wait_fd(side->fds[FD_LEASH], 0, SESSION_END_MS);
}

/* From now on the job's end is gone when nobody of the job has it open. */
static void let_go(struct side *side)
{
    if (side->fds[FD_HELD] < 0)
        return;
    side->shared->let_go = true;
    close_fd(&side->fds[FD_HELD]);
    wake(side);
}

/* The job's end of it, or the reader's, is gone. */
static void stream_close(struct side *side, struct side_stream *stream)
{
    size_t i = (size_t)(stream - side->streams);
    if (stream->terminal && side->fds[FD_CONTROL] >= 0)
        typed_take_back(side->shared, stream->fds[FD_JOB]);
    if (stream->terminal)
        session_end(side, stream);
    let_go(side);
    side->shared->streams[i].closed = true;
    close_fd(&stream->fds[FD_JOB]);
    close_fd(&stream->fds[FD_TARGET]);
    wake(side);
}

static uint64_t bytes_ahead(const struct side *side, const struct side_stream *stream)
{
    uint64_t behind = side->shared->streams[stream - side->streams].behind;
    return behind < stream->way ? stream->way - behind : 0;
}

/* Without splice(2), or where what a terminal shows has to be changed. Who kills the relay in here takes away what it has read. */
static ssize_t take_by_hand(const struct side *side, const struct side_stream *stream)
{
    char bytes[RELAY_PIECE];
    ssize_t got = read(stream->fds[FD_JOB], bytes, sizeof bytes);
    if (got <= 0)
        return got;
    size_t len = side->shared->whole && !side->shared->taken ? terminal_plain(&side->shared->modes, bytes, (size_t)got)
                                                             : (size_t)got;
    return write(stream->fds[FD_WAY_IN], bytes, len);
}

/* Nothing is on its way: takes what there is now. */
static void stream_take(struct side *side, struct side_stream *stream)
{
    side->shared->streams[stream - side->streams].behind = UINT64_MAX;
    bool changed = stream->terminal && side->shared->whole && !side->shared->taken;
    ssize_t got = changed ? take_by_hand(side, stream)
                          : splice(stream->fds[FD_JOB], NULL, stream->fds[FD_WAY_IN], NULL,
                                   stream->terminal ? RELAY_PIECE : PASS_MOST, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (got < 0 && (errno == EINVAL || errno == ENOSYS))
        got = take_by_hand(side, stream);
    if (got > 0)
        stream->way = (uint64_t)got;
    else if (!(got < 0 && (errno == EAGAIN || errno == EINTR)))
        stream_close(side, stream);
}

/* Copies what is on its way, if there is room; for what keeps it the job waits RELAY_COPY_MS in all. */
static void stream_copy(struct side *side, struct side_stream *stream)
{
    struct relay_bytes *bytes = &side->shared->streams[stream - side->streams];
    bool stopped = bytes->error;
    ssize_t got = stopped ? -1 : tee(stream->fds[FD_WAY_OUT], stream->fds[FD_COPY_IN], PASS_MOST, SPLICE_F_NONBLOCK);
    bool full = !stopped && got < 0 && errno == EAGAIN;
    uint64_t now_ns = full || stream->full_ns ? clock_now_ns() : 0;
    uint64_t waited_ns = bytes->waited_ns + (stream->full_ns ? now_ns - stream->full_ns : 0);
    if (full && waited_ns < RELAY_COPY_MS * WAITS_NS_PER_MS) {
        stream->full_ns = stream->full_ns ? stream->full_ns : now_ns;
        return;
    }
    bytes->waited_ns = waited_ns;
    stream->full_ns = 0;
    bytes->missed += got > 0 ? 0 : stream->way;
    bytes->behind = got > 0 ? stream->way - (uint64_t)got : 0;
    bytes->copied += got > 0 ? (uint64_t)got : 0;
}

/* What was copied, whatever the dead relay has still said of it. */
static uint64_t bytes_copied(const struct side *side, size_t i)
{
    struct relay_bytes *bytes = &side->shared->streams[i];
    for (int tries = 0; tries < RELAY_KEPT_MS && side->keeper_fd >= 0; tries++) {
        unsigned taking = bytes->taking;
        uint64_t copied = bytes->taken + bytes_in(side->streams[i].fds[FD_COPY_OUT]);
        if (!(taking & 1) && bytes->taking == taking)
            return copied;
        if (wait_fd(side->keeper_fd, POLLIN, 1) > 0)
            break;
    }
    return bytes->copied;
}

/* Of a relay that was killed, between any two instructions: what is on its way is in a pipe, and of that what was copied is known. */
static void side_inherit(struct side *side)
{
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        struct side_stream *stream = &side->streams[i];
        struct relay_bytes *bytes = &side->shared->streams[i];
        if (!stream->name)
            continue;
        uint64_t copied = bytes_copied(side, i), more = copied > bytes->copied ? copied - bytes->copied : 0;
        stream->full_ns = 0;
        stream->way = bytes_in(stream->fds[FD_WAY_OUT]);
        if (bytes->behind >= stream->way)
            bytes->behind = stream->way - (more < stream->way ? more : stream->way);
        bytes->copied += more;
    }
}

/* What splice(2) does not take, as of a device without it. Who kills the relay in here takes away what it has read. */
static ssize_t pass_by_hand(const struct side_stream *stream, size_t len)
{
    char bytes[RELAY_PIECE];
    ssize_t got = read(stream->fds[FD_WAY_OUT], bytes, len < sizeof bytes ? len : sizeof bytes);
    for (ssize_t put = 0; put < got;) {
        ssize_t more = write(stream->fds[FD_TARGET], bytes + put, (size_t)(got - put));
        if (more < 0 && errno == EAGAIN)
            wait_fd(stream->fds[FD_TARGET], POLLOUT, -1);
        else if (more < 0 && errno != EINTR)
            return -1;
        put += more > 0 ? more : 0;
    }
    return got;
}

static void stream_pass(struct side *side, struct side_stream *stream)
{
    uint64_t ahead = bytes_ahead(side, stream);
    size_t len = stream->socket && ahead > SOCKET_MOST ? SOCKET_MOST : (size_t)ahead;
    ssize_t got =
        splice(stream->fds[FD_WAY_OUT], NULL, stream->fds[FD_TARGET], NULL, len, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got < 0 && (errno == EINVAL || errno == ENOSYS))
        got = pass_by_hand(stream, len);
    if (got < 0) {
        stream_close(side, stream);
        return;
    }
    uint64_t passed = (uint64_t)got;
    stream->way -= passed;
    stream->due -= passed < stream->due ? passed : stream->due;
}

static void stream_handle(struct side *side, struct side_stream *stream, const struct pollfd *job,
                          const struct pollfd *target)
{
    if (bytes_ahead(side, stream) && target->revents)
        stream_pass(side, stream);
    else if (!stream->way && job->revents & POLLIN)
        stream_take(side, stream);
    else if (!stream->way && (job->revents || target->revents & (POLLERR | POLLNVAL)))
        stream_close(side, stream);
    for (bool more = true; more && stream->way && stream->fds[FD_JOB] >= 0 && !bytes_ahead(side, stream);) {
        stream_copy(side, stream);
        more = bytes_ahead(side, stream) && !stream->socket; /* splice(2) would wait for that */
        if (more)
            stream_pass(side, stream);
    }
}

/* Whether all that scry run has asked about is passed on. */
static void answer(struct side *side)
{
    unsigned asked = side->shared->asked;
    bool all = true;
    if (asked == side->shared->passed)
        return;
    let_go(side);
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        struct side_stream *stream = &side->streams[i];
        if (!stream->name || stream->fds[FD_JOB] < 0)
            continue;
        if (stream->terminal)
            wait_fd(stream->fds[FD_JOB], POLLIN, 0); /* it takes in what it has been given */
        uint64_t left = bytes_in(stream->fds[FD_JOB]) + stream->way;
        if (side->due != asked)
            stream->due = left + (stream->terminal ? TERMINAL_MOST : 0);
        if (stream->terminal && !left)
            stream->due = 0;
        all &= stream->due == 0;
    }
    side->due = asked;
    if (!all)
        return;
    if (side->streams[0].terminal && side->streams[0].fds[FD_JOB] >= 0 && side->fds[FD_CONTROL] >= 0)
        typed_take_back(side->shared, side->streams[0].fds[FD_JOB]);
    side->shared->passed = asked;
    ssize_t put = send(side->fds[FD_CONTROL], "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)put; /* scry run has ended */
}

static void stream_polls(const struct side *side, const struct side_stream *stream, struct pollfd polls[3])
{
    bool ahead = stream->name && bytes_ahead(side, stream);
    bool waits = stream->name && !ahead && stream->way;
    const int *fds = stream->fds;
    polls[0] = (struct pollfd){.fd = stream->name && !stream->way ? fds[FD_JOB] : -1, .events = POLLIN};
    polls[1] = (struct pollfd){.fd = ahead || (stream->name && stream->watched) ? fds[FD_TARGET] : -1,
                               .events = ahead ? POLLOUT : 0};
    polls[2] = (struct pollfd){.fd = waits ? fds[FD_COPY_IN] : -1, .events = POLLOUT};
}

/* ---- a whole terminal: its size, its modes ---- */

static void resize(struct side *side)
{
    unsigned resized = side->shared->resized;
    for (size_t i = 0; i < RELAY_STREAMS && resized != side->resized; i++)
        if (side->streams[i].terminal && side->streams[i].fds[FD_JOB] >= 0)
            terminal_resize(side->streams[i].fds[FD_TARGET], side->streams[i].fds[FD_JOB]);
    side->resized = resized;
}

/* scry run has ended. If it was killed, the user's terminal is not left as the job needs it. */
static void control_end(struct side *side)
{
    close_fd(&side->fds[FD_CONTROL]);
    let_go(side);
    if (side->shared->taken && side->streams[0].fds[FD_TARGET] >= 0 &&
        terminal_is_taken(side->streams[0].fds[FD_TARGET], &side->shared->modes))
        terminal_give_back(side->streams[0].fds[FD_TARGET], &side->shared->modes);
    side->shared->taken = false;
}

/* Sees to it that there are both others. A standby that does not know the keeper is made anew. Returns true in the child. */
static bool others_make(struct side *side, bool keeper_died, bool standby_died, int *ret_relay_fd)
{
    if (keeper_died)
        keeper_make(side);
    if (!keeper_died && !standby_died && side->standby_fd >= 0)
        return false;
    close_fd(&side->standby_fd);
    if (side->standby > 0) {
        kill(side->standby, SIGKILL);
        child_reap(side->standby);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    return standby_make(side, ret_relay_fd);
}

/* Somebody can still write. */
static bool side_is_open(const struct side *side)
{
    bool open = false;
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        open |= side->streams[i].name && side->streams[i].fds[FD_JOB] >= 0;
    return open;
}

/* Returns true in a child that is to be the standby, with a descriptor for the relay. */
static bool relay_serve(struct side *side, int *ret_relay_fd)
{
    enum { CONTROL, KEEPER, STANDBY, TYPED, OWN = TYPED + 2 };
    const int *typed = side->streams[0].fds;
    char byte;
    if (others_make(side, side->keeper_fd < 0, true, ret_relay_fd))
        return true;
    answer(side);
    while (side_is_open(side)) {
        struct pollfd polls[OWN + 3 * RELAY_STREAMS] = {
            [CONTROL] = {.fd = side->fds[FD_CONTROL], .events = POLLIN},
            [KEEPER] = {.fd = side->keeper_fd, .events = POLLIN},
            [STANDBY] = {.fd = side->standby_fd, .events = POLLIN},
        };
        bool full = false;
        typed_polls(side->shared, typed, side->hold, polls + TYPED);
        for (size_t i = 0; i < RELAY_STREAMS; i++) {
            stream_polls(side, &side->streams[i], polls + OWN + 3 * i);
            full |= side->streams[i].full_ns != 0;
        }
        poll(polls, sizeof polls / sizeof *polls,
             full                   ? RELAY_COPY_MS / 4
             : side->standby_fd < 0 ? RELAY_AGAIN_MS
                                    : -1);
        if (polls[CONTROL].revents && recv(side->fds[FD_CONTROL], &byte, 1, MSG_DONTWAIT) == 0)
            control_end(side);
        side->hold &= !polls[CONTROL].revents;
        resize(side);
        typed_handle(side->shared, typed, &side->hold, polls + TYPED);
        for (size_t i = 0; i < RELAY_STREAMS; i++)
            if (side->streams[i].name && side->streams[i].fds[FD_JOB] >= 0)
                stream_handle(side, &side->streams[i], &polls[OWN + 3 * i], &polls[OWN + 3 * i + 1]);
        answer(side);
        if (side_is_open(side) && others_make(side, polls[KEEPER].revents, polls[STANDBY].revents, ret_relay_fd))
            return true;
    }
    side->shared->over = true;
    wake(side);
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        close_fd(&side->streams[i].fds[FD_COPY_IN]); /* the keeper ends */
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        continue;
    return false;
}

static _Noreturn void side_serve(struct side *side)
{
    int relay_fd = -1;
    while (relay_serve(side, &relay_fd)) {
        side->standby_fd = -1;
        side->standby = 0;
        side->due = side->shared->passed;
        standby_serve(side, relay_fd);
        side_inherit(side);
    }
    _exit(0);
}

static _Noreturn void relay_begin(struct side *side)
{
    sigset_t all;
    bool whole = true;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL); /* what ends scry run or the job is for them */
    signal(SIGPIPE, SIG_IGN);
    setsid();
    bool had[FDS];
    for (size_t i = 0; i < FDS; i++)
        had[i] = side->fds[i] >= 0;
    worker_keep(STANDBY_PROCESS_NAME, side->fds, FDS);
    for (size_t i = 0; i < FDS; i++)
        whole &= had[i] == (side->fds[i] >= 0);
    if (!whole || send(side->fds[FD_CONTROL], "", 1, MSG_NOSIGNAL) != 1)
        _exit(1);
    side_serve(side);
}

/* ---- what scry run does ---- */

/* NULL: it can be passed on; "": it is a file, or none. */
static const char *refusal_of(int target, struct stat *ret_status)
{
    int flags = fcntl(target, F_GETFD), mode = fcntl(target, F_GETFL);
    if (flags < 0 || flags & FD_CLOEXEC || mode < 0 || (mode & O_ACCMODE) == O_RDONLY ||
        fstat(target, ret_status) < 0 || S_ISREG(ret_status->st_mode))
        return ""; /* scry run has put something in place of a stream that is closed */
    if (S_ISFIFO(ret_status->st_mode) && mode & O_DIRECT)
        return "it is a pipe of messages, which have to stay apart; send it to a file or another pipe";
    int type;
    socklen_t size = sizeof type;
    bool packets = S_ISSOCK(ret_status->st_mode) &&
                   (getsockopt(target, SOL_SOCKET, SO_TYPE, &type, &size) < 0 || type != SOCK_STREAM);
    if (packets)
        return "it is a socket of messages, which have to stay apart; send it to a file or a pipe";
    if (S_ISFIFO(ret_status->st_mode) || S_ISSOCK(ret_status->st_mode) || isatty(target) ||
        (S_ISCHR(ret_status->st_mode) && ret_status->st_rdev == makedev(1, 3)))
        return NULL;
    return "it is a device; send it to a file or a pipe";
}

static int job_pipe(int target, const struct stat *status, int ret_ends[2])
{
    if (pipe2(ret_ends, O_CLOEXEC) < 0)
        return -errno;
    int size = S_ISFIFO(status->st_mode) ? fcntl(target, F_GETPIPE_SZ) : -1;
    if (size > 0 && size != fcntl(ret_ends[0], F_GETPIPE_SZ) && fcntl(ret_ends[0], F_SETPIPE_SZ, size) < 0)
        errno = 0; /* then as it is */
    return 0;
}

static int stream_start(struct relay *relay, struct side *side, size_t i, int target, const struct stat *status)
{
    struct side_stream *stream = &side->streams[i];
    struct statfs fs;
    int ends[2] = {-1, -1}, copy[2] = {-1, -1}, way[2] = {-1, -1};
    stream->terminal = relay->use != TERMINAL_LEFT && isatty(target);
    stream->socket = S_ISSOCK(status->st_mode);
    stream->watched = stream->terminal || (S_ISFIFO(status->st_mode) && fstatfs(target, &fs) == 0 &&
                                           (unsigned long)fs.f_type == PIPEFS_MAGIC);
    int code = stream->terminal ? terminal_open(&relay->terminal, target, relay->use) : job_pipe(target, status, ends);
    stream->fds[FD_TARGET] = stream->terminal ? relay->terminal.user : target;
    stream->fds[FD_JOB] = stream->terminal ? TAKE_FD(relay->terminal.master) : ends[0];
    relay->outputs[i] = stream->terminal ? TAKE_FD(relay->terminal.command) : ends[1];
    /* these stay as they are: a user may have 64 MB in all pipes, and less than that in each one then */
    if (code == 0 && (pipe2(copy, O_CLOEXEC | O_NONBLOCK) < 0 || pipe2(way, O_CLOEXEC | O_NONBLOCK) < 0))
        code = -errno;
    stream->fds[FD_COPY_OUT] = copy[0];
    stream->fds[FD_COPY_IN] = copy[1];
    stream->fds[FD_WAY_OUT] = way[0];
    stream->fds[FD_WAY_IN] = way[1];
    return code;
}

/* What can be done with a terminal; the others' reasons stay. */
static void terminal_choose(struct relay *relay, const int targets[RELAY_STREAMS], bool wanted[RELAY_STREAMS])
{
    const int streams[] = {STDIN_FILENO, targets[0], targets[1]};
    const char *reason;
    relay->use = terminal_use_of(streams, &reason);
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        if (wanted[i] && relay->use == TERMINAL_LEFT && isatty(targets[i])) {
            relay->reasons[i] = reason;
            wanted[i] = false;
        }
}

static int output_dup(struct relay *relay, int *ret_fd)
{
    *ret_fd = fcntl(relay->outputs[0], F_DUPFD_CLOEXEC, 3);
    return *ret_fd < 0 ? -errno : 0;
}

static int streams_start(struct relay *relay, struct side *side, const int targets[RELAY_STREAMS])
{
    static const char *const names[RELAY_STREAMS] = {"stdout", "stderr"};
    struct stat status[RELAY_STREAMS] = {0};
    bool wanted[RELAY_STREAMS];
    int code = 0;
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        const char *refusal = refusal_of(targets[i], &status[i]);
        wanted[i] = !refusal;
        relay->reasons[i] = refusal && *refusal ? refusal : NULL;
    }
    terminal_choose(relay, targets, wanted);
    bool pipes = wanted[0] && wanted[1] && !S_ISCHR(status[0].st_mode) && status[0].st_dev == status[1].st_dev &&
                 status[0].st_ino == status[1].st_ino;
    bool one = pipes || relay->use == TERMINAL_WHOLE;
    for (size_t i = 0; i < RELAY_STREAMS && code == 0; i++) {
        if (!wanted[i])
            continue;
        relay->names[i] = one ? "output" : names[i];
        if (one && i) {
            code = output_dup(relay, &relay->outputs[i]);
            continue;
        }
        side->streams[i].name = relay->names[i];
        code = stream_start(relay, side, i, targets[i], &status[i]);
    }
    if (code == 0 && relay->use == TERMINAL_WHOLE)
        code = output_dup(relay, &side->fds[FD_HELD]);
    if (code == 0 && relay->use == TERMINAL_WHOLE && isatty(STDIN_FILENO))
        code = output_dup(relay, &relay->input);
    return code;
}

static int relay_fork(struct relay *relay, struct side *side)
{
    int ends[2] = {-1, -1}, leash[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0 ||
        (side->fds[FD_WAKE] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
        (relay->use == TERMINAL_WHOLE && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, leash) < 0)) {
        closep(&ends[0]);
        closep(&ends[1]);
        return -errno;
    }
    relay->leash = leash[0];
    side->fds[FD_LEASH] = leash[1];
    side->fds[FD_CONTROL] = ends[1];
    relay->pid = fork();
    if (relay->pid == 0)
        relay_begin(side);
    int code = relay->pid < 0 ? -errno : 0;
    char byte;
    close(TAKE_FD(side->fds[FD_CONTROL]));
    relay->control = ends[0];
    return code == 0 && recv(relay->control, &byte, 1, 0) != 1 ? -EMFILE : code;
}

int relay_start(struct relay *ret_relay, const int targets[RELAY_STREAMS], const char *dir, uint64_t most)
{
    struct side side = {.dir = dir, .most = most, .keeper_fd = -1, .standby_fd = -1};
    *ret_relay = RELAY_NONE;
    for (size_t i = 0; i < FDS; i++)
        side.fds[i] = -1;
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        side.streams[i].fds = side.fds + FD_STREAM + i * FDS_STREAM;
    int code = streams_start(ret_relay, &side, targets);
    bool any = ret_relay->names[0] || ret_relay->names[1];
    ret_relay->shared = code == 0 && any
                            ? mmap(NULL, sizeof *side.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
                            : MAP_FAILED;
    side.shared = ret_relay->shared;
    if (code == 0 && any && side.shared != MAP_FAILED) {
        side.shared->whole = ret_relay->use == TERMINAL_WHOLE;
        side.shared->modes = ret_relay->terminal.modes;
        side.shared->supervisor = getpid();
    }
    if (code == 0 && any)
        code = side.shared == MAP_FAILED ? -ENOMEM : relay_fork(ret_relay, &side);
    for (size_t i = FD_WAKE; i < FDS; i++) /* the targets are the caller's */
        if (i < FD_STREAM || (i - FD_STREAM) % FDS_STREAM != FD_TARGET)
            closep(&side.fds[i]);
    if (ret_relay->shared == MAP_FAILED)
        ret_relay->shared = NULL;
    if (code < 0) {
        relay_done(ret_relay, false);
        ret_relay->names[0] = ret_relay->names[1] = NULL;
    }
    return code;
}

static void close_given(struct relay *relay)
{
    for (size_t i = 0; i < RELAY_STREAMS; i++)
        close_fd(&relay->outputs[i]);
    close_fd(&relay->input);
    close_fd(&relay->leash);
}

void relay_given(struct relay *relay)
{
    if (relay->shared)
        relay->shared->given = true;
    close_given(relay);
}

void relay_terminal(struct relay *relay, bool take)
{
    struct relay_shared *shared = relay->shared;
    if (!shared || !shared->whole || shared->taken == take || (take && relay->control < 0))
        return;
    if (take) {
        typed_before(shared, relay->terminal.user);
        shared->taken = terminal_take(relay->terminal.user, &shared->modes);
        relay_resized(relay); /* and what is typed is looked for */
    } else {
        shared->taken = false;
        terminal_type(relay->terminal.user, &shared->modes, shared->unread.bytes, shared->unread.len);
        shared->unread.len = 0;
        terminal_give_back(relay->terminal.user, &shared->modes);
    }
}

bool relay_waits_for_terminal(const struct relay *relay)
{
    return relay->shared && relay->shared->whole && !relay->shared->taken && relay->control >= 0;
}

int relay_fd(const struct relay *relay)
{
    return relay->shared && relay->shared->whole ? relay->control : -1;
}

void relay_lost(struct relay *relay)
{
    relay_terminal(relay, false);
    close_fd(&relay->control);
}

int relay_typed_signal(const struct relay *relay)
{
    return relay->shared ? relay->shared->typed_signal : 0;
}

void relay_resized(struct relay *relay)
{
    if (relay->terminal.user < 0 || !relay->shared)
        return;
    relay->shared->resized++;
    ssize_t put = send(relay->control, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)put; /* then at the next one */
}

static bool is_kept(const struct relay *relay)
{
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        const struct relay_bytes *bytes = &relay->shared->streams[i];
        if (bytes->kept < bytes->copied && !bytes->error)
            return false;
    }
    return true;
}

/* So much was taken from the job. */
static uint64_t bytes_passed(const struct relay *relay)
{
    uint64_t passed = 0;
    for (size_t i = 0; i < RELAY_STREAMS; i++) {
        const struct relay_bytes *bytes = &relay->shared->streams[i];
        passed += bytes->copied + bytes->missed;
    }
    return passed;
}

bool relay_wait(struct relay *relay, int interrupt)
{
    char byte;
    if (relay->control < 0)
        return true;
    unsigned asked = ++relay->shared->asked;
    ssize_t got = send(relay->control, "", 1, MSG_NOSIGNAL);
    while (got > 0 && relay->shared->passed != asked) {
        struct pollfd polls[2] = {{.fd = relay->control, .events = POLLIN}, {.fd = interrupt, .events = POLLIN}};
        uint64_t passed = bytes_passed(relay);
        int ready = wait_poll(polls, 2, RELAY_STUCK_MS);
        if ((ready < 0 && errno != EINTR) || (ready == 0 && bytes_passed(relay) == passed))
            break; /* a reader that waits for our end first */
        if (polls[1].revents)
            return false;
        if (polls[0].revents)
            got = recv(relay->control, &byte, 1, MSG_DONTWAIT);
    }
    for (uint64_t until_ns = clock_now_ns() + RELAY_KEPT_MS * WAITS_NS_PER_MS;
         !is_kept(relay) && clock_now_ns() < until_ns;)
        wait_fd(-1, 0, 1);
    return true;
}

const char *relay_lack(const struct relay *relay, size_t i, char *ret_text, size_t size)
{
    const struct relay_bytes *bytes = relay->shared && relay->names[i] ? &relay->shared->streams[i] : NULL;
    if (bytes && bytes->error)
        snprintf(ret_text, size, "%s", strerror(bytes->error));
    else if (bytes && bytes->lost)
        snprintf(ret_text, size, "%" PRIu64 " bytes were about to be written when " KEEPER_PROCESS_NAME " was killed",
                 (uint64_t)bytes->lost);
    else if (bytes && bytes->missed)
        snprintf(ret_text, size, "%" PRIu64 " bytes came faster than the disk took them", (uint64_t)bytes->missed);
    else
        return NULL;
    return ret_text;
}

void relay_done(struct relay *relay, bool job_started)
{
    close_given(relay);
    relay_terminal(relay, false);
    terminal_close(&relay->terminal);
    close_fd(&relay->control);
    _cleanup_(closep) int pidfd = relay->pid > 0 ? pidfd_of(relay->pid) : -1;
    if (relay->pid > 0 && !job_started)
        child_reap(relay->pid);
    else if (relay->pid > 0 && relay->shared->over && pidfd >= 0 && wait_fd(pidfd, POLLIN, RELAY_KEPT_MS) > 0)
        waitpid(relay->pid, NULL, WNOHANG);
    if (relay->shared)
        munmap(relay->shared, sizeof *relay->shared);
    relay->shared = NULL;
    relay->pid = 0;
}
