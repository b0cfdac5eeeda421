/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hooks/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/system/sys.h"
#include "agent/system/world.h"
#include "shm/waits.h"

enum {
    HIGH_FD = 700, /* so that a program that expects the lowest free number gets it, whatever its threads do */
};

/* ---- a monitor that does not answer ---- */

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

/* Somebody waited for it in vain: who comes next does not. The monitor removes it when it lets somebody in. */
struct mark {
    int32_t pid; /* of the monitor; 0: not known, it let nobody in */
    bool stopped, fresh;
};

static void mark_path(const char *socket, char path[sizeof(struct sockaddr_un) + sizeof ".stopped"])
{
    size_t length = raw_length(socket, sizeof(struct sockaddr_un));
    raw_copy(path, socket, length);
    raw_copy(path + length, ".stopped", sizeof ".stopped");
}

static struct mark mark_read(const char *socket)
{
    struct mark mark = {.pid = 0};
    struct stat info;
    struct {
        int64_t sec, nsec;
    } now = {0, 0};
    char path[sizeof(struct sockaddr_un) + sizeof ".stopped"], text[16];
    const char *c = text;
    mark_path(socket, path);
    if (file_read(path, text, sizeof text, &info) <= 0)
        return mark;
    for (; *c >= '0' && *c <= '9' && mark.pid < INT32_MAX / 10 - 9; c++)
        mark.pid = mark.pid * 10 + (*c - '0');
    mark.stopped = *c == 'T';
    sys_call2(SYS_clock_gettime, 0 /* CLOCK_REALTIME */, (long)&now);
    int64_t age = (now.sec - info.st_mtim.tv_sec) * 1000 + (now.nsec - info.st_mtim.tv_nsec) / 1000000;
    mark.fresh = age >= 0 && age < AGENT_MARK_MS;
    return mark;
}

static void mark_put(const char *socket, int32_t pid, bool stopped)
{
    char path[sizeof(struct sockaddr_un) + sizeof ".stopped"], text[16];
    mark_path(socket, path);
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path,
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0)
        return;
    char *end = number_put(text, pid);
    *end++ = stopped ? 'T' : '-';
    sys_call4(SYS_write, fd, (long)text, end - text, 0);
    sys_call2(SYS_close, fd, 0);
}

/* Whether to wait on; if that is no use, whoever comes next hears of it. fd: of the connection; -1: there is none, since
 * too many wait for one. */
static enum wait_verdict judge(const struct agent_question *question, int fd, struct wait_seen *seen, bool look)
{
    const struct wait_policy *policy = &wait_policies[fd >= 0 ? question->wait : WAIT_DIAL];
    int32_t pid = fd >= 0 ? peer_of(fd) : 0;
    seen->limit_ns = wait_policies[question->wait].limit_ms * WAITS_NS_PER_MS;
    if (look && seen->passed_ns >= policy->first_look_ms * WAITS_NS_PER_MS) {
        struct mark mark = mark_read(question->socket);
        if (fd < 0)
            pid = mark.pid;
        seen->state = agent_state_of(pid);
        seen->in_vain = mark.fresh && mark.pid == pid && mark.stopped == waits_is_stopped(seen->state);
    }
    enum wait_verdict verdict = waits_judge(policy, seen);
    if (seen->in_vain)
        return verdict == WAIT_ON ? WAIT_LATE : verdict;
    if (verdict != WAIT_ON)
        mark_put(question->socket, pid, waits_is_stopped(seen->state));
    return verdict;
}

/* ---- the conversation ---- */

static int wait_for(int fd, short what, const struct agent_question *question, uint64_t since_ns)
{
    for (;;) {
        struct wait_seen seen = {.passed_ns = agent_now_ns() - since_ns};
        enum wait_verdict verdict = judge(question, fd, &seen, true);
        short came;
        /* whoever was late itself looks once more whether the answer is there */
        int result =
            agent_poll(fd, what, verdict == WAIT_ON ? waits_slice_ns(&wait_policies[question->wait], &seen) : 0, &came);
        if (result > 0)
            return came & what ? 0 : -ECONNRESET;
        if (result < 0 && result != -EINTR)
            return result;
        if (verdict != WAIT_ON)
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

static int dial(const struct agent_question *question, uint64_t since_ns)
{
    const char *path = question->socket;
    uint64_t looked_ns = 0;
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
        struct wait_seen seen = {.passed_ns = agent_now_ns() - since_ns};
        bool again = result == -EAGAIN || result == -EINTR;
        bool look = seen.passed_ns - looked_ns >= wait_policies[WAIT_DIAL].look_ms * WAITS_NS_PER_MS;
        if (look)
            looked_ns = seen.passed_ns;
        if (!again || judge(question, -1, &seen, look) != WAIT_ON) {
            sys_call2(SYS_close, fd, 0);
            return again ? -ETIMEDOUT : (int)result;
        }
        short came;
        agent_poll(-1, 0, AGENT_RETRY_MS * WAITS_NS_PER_MS, &came);
    }
}

static int say(int fd, const struct agent_question *question, uint64_t since_ns)
{
    for (;;) {
        long sent = sys_call6(SYS_sendto, fd, (long)question->hello, question->hello_size, MSG_NOSIGNAL, 0, 0);
        if (sent == (long)question->hello_size)
            return 0;
        if (sent == -EINTR)
            continue;
        int code = sent == -EAGAIN ? wait_for(fd, POLLOUT, question, since_ns) : sent < 0 ? (int)sent : -EPROTO;
        if (code < 0)
            return code;
    }
}

static int hear(int fd, const struct agent_question *question, uint64_t since_ns)
{
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int) * ASK_FDS)];
    } control;
    struct iovec part = {question->welcome, question->welcome_size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control};
    long got = -EAGAIN;
    while (got == -EAGAIN || got == -EINTR) {
        int code = wait_for(fd, POLLIN, question, since_ns);
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
    uint64_t since_ns = agent_now_ns();
    for (uint32_t i = 0; i < question->fd_count; i++)
        question->fds[i] = -1;
    int fd = dial(question, since_ns);
    if (fd < 0)
        return fd;
    int code = say(fd, question, since_ns);
    if (question->ret_said)
        *question->ret_said = code == 0;
    if (code == 0 && question->welcome_size)
        code = hear(fd, question, since_ns);
    sys_call2(SYS_close, fd, 0);
    return code;
}
