/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/raw.h"
#include "agent/sys.h"

enum {
    HIGH_FD = 700, /* so that a program that expects the lowest free number gets it, whatever its threads do */
    RETRY_MS = 2,
};

uint64_t agent_now_ms(void)
{
    struct {
        int64_t sec, nsec;
    } now = {0, 0};
    sys_call2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&now);
    return (uint64_t)now.sec * 1000 + (uint64_t)now.nsec / 1000000;
}

static int wait_for(int fd, short what, uint64_t deadline)
{
    for (;;) {
        uint64_t now = agent_now_ms();
        struct pollfd poll = {fd, what, 0};
        long result = sys_call4(SYS_poll, (long)&poll, 1, now < deadline ? (long)(deadline - now) : 0, 0);
        if (result > 0)
            return poll.revents & what ? 0 : -ECONNRESET;
        if (result == -EINTR && now < deadline)
            continue;
        return result == 0 || result == -EINTR ? -ETIMEDOUT : (int)result;
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

static int dial(const char *path, bool alone, uint64_t deadline)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = raw_length(path, sizeof address.sun_path);
    if (!length || length >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    raw_copy(address.sun_path, path, length);
    long fd = sys_call4(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0);
    if (fd < 0)
        return (int)fd;
    if (!alone)
        fd = high_up(fd);
    for (;;) {
        long result = sys_call4(SYS_connect, fd, (long)&address, sizeof address, 0);
        if (result == 0)
            return (int)fd;
        bool again = result == -EAGAIN || result == -EINTR;
        if (!again || agent_now_ms() >= deadline) {
            sys_call2(SYS_close, fd, 0);
            return again ? -ETIMEDOUT : (int)result;
        }
        sys_call4(SYS_poll, 0, 0, RETRY_MS, 0);
    }
}

static int say(int fd, const struct agent_question *question, uint64_t deadline)
{
    for (;;) {
        long sent = sys_call6(SYS_sendto, fd, (long)question->hello, question->hello_size, MSG_NOSIGNAL, 0, 0);
        if (sent == (long)question->hello_size)
            return 0;
        if (sent == -EINTR)
            continue;
        int code = sent == -EAGAIN ? wait_for(fd, POLLOUT, deadline) : sent < 0 ? (int)sent : -EPROTO;
        if (code < 0)
            return code;
    }
}

static int hear(int fd, const struct agent_question *question, uint64_t deadline)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int) * ASK_FDS)];
    } control;
    struct iovec part = {question->welcome, question->welcome_size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    long got = -EAGAIN;
    while (got == -EAGAIN || got == -EINTR) {
        int code = wait_for(fd, POLLIN, deadline);
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
    uint64_t deadline = agent_now_ms() + question->wait_ms;
    for (uint32_t i = 0; i < question->fd_count; i++)
        question->fds[i] = -1;
    int fd = dial(question->socket, question->alone, deadline);
    if (fd < 0)
        return fd;
    int code = say(fd, question, deadline);
    if (code == 0 && question->welcome_size)
        code = hear(fd, question, deadline);
    sys_call2(SYS_close, fd, 0);
    return code;
}
