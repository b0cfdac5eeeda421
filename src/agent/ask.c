/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/raw.h"
#include "agent/sys.h"

enum {
    HIGH_FD = 700, /* so that a program that expects the lowest free number gets it, whatever its threads do */
    RETRY_MS = 2,
    LOOK_MS = 5,        /* until it is looked why nothing comes, */
    LOOK_AGAIN_MS = 50, /* and again */
    STOPPED_MS = 200,   /* a stop that is over sooner is waited for, once in */
    MARK_MS = 10000,    /* this time by all processes together: then a mark beside the socket says that one has */
    STARVED_TIMES = 4,  /* one that wants a processor, or waits for a disk, on a busy node has so many times as long */
};

uint64_t agent_now_ms(void)
{
    struct {
        int64_t sec, nsec;
    } now = {0, 0};
    sys_call2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&now);
    return (uint64_t)now.sec * 1000 + (uint64_t)now.nsec / 1000000;
}

/* ---- a monitor that is stopped ---- */

static long file_read(const char *path, char *text, uint32_t size, struct stat *info)
{
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    long got = info ? sys_call2(SYS_fstat, fd, (long)info) : 0;
    if (got >= 0)
        got = sys_call4(SYS_read, fd, (long)text, size - 1, 0);
    sys_call2(SYS_close, fd, 0);
    text[got > 0 ? got : 0] = '\0';
    return got;
}

static char *number_put(char *at, int32_t number)
{
    char digits[12];
    unsigned count = 0;
    for (; number > 0; number /= 10)
        digits[count++] = (char)('0' + number % 10);
    while (count)
        *at++ = digits[--count];
    *at = '\0';
    return at;
}

/* The kernel's letter; 0: not known. */
static char state_of(int32_t pid)
{
    char path[32] = "/proc/", text[96];
    if (pid <= 0)
        return 0;
    raw_copy(number_put(path + 6, pid), "/stat", sizeof "/stat");
    long got = file_read(path, text, sizeof text, NULL);
    while (got > 0 && text[got - 1] != ')')
        got--;
    return got > 0 && text[got] == ' ' ? text[got + 1] : (char)0;
}

bool agent_is_stopped(int32_t pid)
{
    char state = state_of(pid);
    return state == 'T' || state == 't';
}

/* The monitor's number; 0: not known. */
static int32_t peer_of(int fd)
{
    struct {
        int32_t pid;
        uint32_t uid, gid;
    } peer = {0};
    uint32_t size = sizeof peer;
    return sys_call6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size, 0) < 0 ? 0 : peer.pid;
}

struct mark {
    char path[sizeof(struct sockaddr_un) + sizeof ".stopped"];
    int32_t pid; /* of the monitor that did not answer; 0: none */
    bool fresh;
};

static void mark_look(const char *socket, struct mark *ret_mark)
{
    struct stat info;
    struct {
        int64_t sec, nsec;
    } now = {0, 0};
    char text[16];
    size_t length = raw_length(socket, sizeof(struct sockaddr_un));
    raw_copy(ret_mark->path, socket, length);
    raw_copy(ret_mark->path + length, ".stopped", sizeof ".stopped");
    ret_mark->pid = 0;
    ret_mark->fresh = false;
    if (file_read(ret_mark->path, text, sizeof text, &info) <= 0)
        return;
    for (const char *c = text; *c >= '0' && *c <= '9' && ret_mark->pid < INT32_MAX / 10 - 9; c++)
        ret_mark->pid = ret_mark->pid * 10 + (*c - '0');
    sys_call2(SYS_clock_gettime, 0 /* CLOCK_REALTIME */, (long)&now);
    int64_t age = (now.sec - info.st_mtim.tv_sec) * 1000 + (now.nsec - info.st_mtim.tv_nsec) / 1000000;
    ret_mark->fresh = age >= 0 && age < MARK_MS;
}

static void mark_put(const struct mark *mark, int32_t pid)
{
    char text[16];
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)mark->path,
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return;
    sys_call4(SYS_write, fd, (long)text, number_put(text, pid) - text, 0);
    sys_call2(SYS_close, fd, 0);
}

/* Whether it is no use to wait on, `since` when it has been waited. fd: of the connection; -1: there is none, since too
 * many wait for one. */
static bool is_vain(const struct agent_question *question, int fd, uint64_t since)
{
    uint64_t waited = agent_now_ms() - since;
    struct mark mark;
    if (waited < LOOK_MS)
        return false;
    mark_look(question->socket, &mark);
    int32_t pid = fd >= 0 ? peer_of(fd) : mark.pid;
    if (!agent_is_stopped(pid))
        return false;
    if (mark.fresh && mark.pid == pid)
        return true;
    if (waited < STOPPED_MS)
        return false;
    mark_put(&mark, pid);
    return true;
}

/* It would answer if it could: whoever sleeps should have. */
static bool is_starved(const struct agent_question *question, int fd, uint64_t waited)
{
    char state = waited < (uint64_t)STARVED_TIMES * question->wait_ms ? state_of(peer_of(fd)) : (char)0;
    return state == 'R' || state == 'D';
}

/* ---- the conversation ---- */

static int wait_for(int fd, short what, const struct agent_question *question, uint64_t since)
{
    for (;;) {
        uint64_t waited = agent_now_ms() - since, slice = waited < LOOK_MS ? LOOK_MS : LOOK_AGAIN_MS;
        bool late = waited >= question->wait_ms, over = late && !is_starved(question, fd, waited);
        uint64_t left = over ? 0 : late ? slice : question->wait_ms - waited;
        struct pollfd poll = {fd, what, 0};
        long result = sys_call4(SYS_poll, (long)&poll, 1, (long)(left < slice ? left : slice), 0);
        if (result > 0)
            return poll.revents & what ? 0 : -ECONNRESET;
        if (result < 0 && result != -EINTR)
            return (int)result;
        if (over || is_vain(question, fd, since))
            return -ETIMEDOUT;
    }
}

/* In threads, and in handlers of signals; a moment in a program that has one thread and has not begun is nobody's. */
static int high_up(long low)
{
    long fd = sys_call4(SYS_fcntl, low, F_DUPFD_CLOEXEC, HIGH_FD, 0);
    if (fd < 0)
        return (int)low;
    sys_call2(SYS_close, low, 0);
    return (int)fd;
}

static int dial(const struct agent_question *question, uint64_t since)
{
    const char *path = question->socket;
    uint64_t looked = since;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = raw_length(path, sizeof address.sun_path);
    if (!length || length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    raw_copy(address.sun_path, path, length);
    long fd = sys_call4(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0);
    if (fd < 0)
        return (int)fd;
    if (!question->alone)
        fd = high_up(fd);
    for (;;) {
        long result = sys_call4(SYS_connect, fd, (long)&address, sizeof address, 0);
        if (result == 0)
            return (int)fd;
        bool again = result == -EAGAIN || result == -EINTR;
        uint64_t now = agent_now_ms();
        bool over = now - since >= question->wait_ms;
        if (again && !over && now - looked >= LOOK_MS) {
            looked = now;
            over = is_vain(question, -1, since);
        }
        if (!again || over) {
            sys_call2(SYS_close, fd, 0);
            return again ? -ETIMEDOUT : (int)result;
        }
        sys_call4(SYS_poll, 0, 0, RETRY_MS, 0);
    }
}

static int say(int fd, const struct agent_question *question, uint64_t since)
{
    for (;;) {
        long sent = sys_call6(SYS_sendto, fd, (long)question->hello, question->hello_size, MSG_NOSIGNAL, 0, 0);
        if (sent == (long)question->hello_size)
            return 0;
        if (sent == -EINTR)
            continue;
        int code = sent == -EAGAIN ? wait_for(fd, POLLOUT, question, since) : sent < 0 ? (int)sent : -EPROTO;
        if (code < 0)
            return code;
    }
}

static int hear(int fd, const struct agent_question *question, uint64_t since)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int) * ASK_FDS)];
    } control;
    struct iovec part = {question->welcome, question->welcome_size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    long got = -EAGAIN;
    while (got == -EAGAIN || got == -EINTR) {
        int code = wait_for(fd, POLLIN, question, since);
        if (code < 0)
            return code;
        message.msg_controllen = CMSG_LEN(sizeof(int) * question->fd_count); /* with CMSG_SPACE, one more may fit */
        got = sys_call4(SYS_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC, 0);
    }
    uint32_t count = 0;
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        count = (uint32_t)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (uint32_t i = 0; i < count && i < question->fd_count; i++)
        question->fds[i] = ((const int *)(const void *)CMSG_DATA(header))[i];
    if (got < 0)
        return (int)got;
    if (got != (long)question->welcome_size || (message.msg_flags & MSG_TRUNC))
        return -EPROTO;
    /* where all is cut off, the limit of open files did it; of more than there can be, what fits has come */
    if (message.msg_flags & MSG_CTRUNC)
        return count < question->fd_count ? -EMFILE : -EPROTO;
    return 0;
}

int agent_ask(const struct agent_question *question)
{
    uint64_t since = agent_now_ms();
    for (uint32_t i = 0; i < question->fd_count; i++)
        question->fds[i] = -1;
    int fd = dial(question, since);
    if (fd < 0)
        return fd;
    int code = say(fd, question, since);
    if (code == 0 && question->welcome_size)
        code = hear(fd, question, since);
    sys_call2(SYS_close, fd, 0);
    return code;
}
