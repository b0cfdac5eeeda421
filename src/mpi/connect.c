/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "agent/mpi_host.h"
#include "agent/sys.h"
#include "mpi/self.h"
#include "shm/area.h"

enum {
    ANSWER_MS = 1000,
    HIGH_FD = 700, /* a program that expects the lowest free number gets it, whatever its threads do */
    FD_AREA = 0,
    FD_BELL,
    FDS,
};

static uint64_t now_ms(void)
{
    struct timespec now = {0, 0};
    sys_call2(SYS_clock_gettime, CLOCK_MONOTONIC, (long)&now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what hello says ---- */

static void text_copy(char *to, const char *from, size_t size)
{
    size_t length = from ? strnlen(from, size - 1) : 0;
    memcpy(to, from ? from : "", length);
    to[length] = '\0';
}

/* Field 22 of /proc/self/stat: the start of the process. */
static uint64_t start_ticks(void)
{
    char text[1024];
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)"/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    long got = sys_call4(SYS_read, fd, (long)text, sizeof text, 0);
    sys_call2(SYS_close, fd, 0);
    long at = got - 1;
    while (at >= 0 && text[at] != ')')
        at--;
    uint64_t value = 0;
    for (int field = 2; at >= 0 && at < got && field <= 22; at++) {
        if (text[at] == ' ')
            field++;
        else if (field == 22 && text[at] >= '0' && text[at] <= '9')
            value = value * 10 + (uint64_t)(text[at] - '0');
    }
    return value;
}

static const char *first_of(const char *const names[])
{
    for (size_t i = 0; names[i]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return value;
    }
    return NULL;
}

static int32_t number_of(const char *const names[])
{
    const char *text = first_of(names);
    long value = 0;
    for (; text && *text >= '0' && *text <= '9' && value < INT32_MAX / 10; text++)
        value = value * 10 + (*text - '0');
    return text && !*text ? (int32_t)value : -1;
}

/* What launchers tell the processes that they start. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
static const char *const namespace_names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "PMI_ID_NAMESPACE", "SLURM_STEP_ID", NULL};

static void hello_fill(struct mpi_hello *hello, const struct mpi_host *host)
{
    hello->magic = MPIA_HELLO_MAGIC;
    hello->version = MPIA_AREA_VERSION;
    hello->size = sizeof *hello;
    hello->calls_hash = CALLS_HASH;
    hello->pid = (int32_t)sys_call0(SYS_getpid);
    hello->ppid = (int32_t)sys_call0(SYS_getppid);
    hello->start_ticks = start_ticks();
    hello->library = host->library;
    hello->hint_rank = number_of(rank_names);
    hello->hint_size = number_of(size_names);
    text_copy(hello->namespace, first_of(namespace_names), sizeof hello->namespace);
    text_copy(hello->job, host->job, sizeof hello->job);
    long length = sys_call4(SYS_readlink, (long)"/proc/self/exe", (long)hello->exe, sizeof hello->exe - 1, 0);
    hello->exe[length > 0 ? length : 0] = '\0';
}

/* ---- the socket ---- */

static int socket_open(const char *path, uint64_t deadline)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || !*path || strlen(path) >= sizeof address.sun_path)
        return -1;
    text_copy(address.sun_path, path, sizeof address.sun_path);
    long low = sys_call4(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0);
    if (low < 0)
        return -1;
    long fd = sys_call4(SYS_fcntl, low, F_DUPFD_CLOEXEC, HIGH_FD, 0);
    if (fd < 0)
        fd = low;
    else
        sys_call2(SYS_close, low, 0);
    for (;;) {
        long result = sys_call4(SYS_connect, fd, (long)&address, sizeof address, 0);
        if (result == 0)
            return (int)fd;
        if ((result != -EAGAIN && result != -EINTR) || now_ms() >= deadline)
            break;
        sys_call4(SYS_poll, 0, 0, 2, 0);
    }
    sys_call2(SYS_close, fd, 0);
    return -1;
}

static bool wait_for(int fd, short what, uint64_t deadline)
{
    for (;;) {
        uint64_t now = now_ms();
        struct pollfd poll = {fd, what, 0};
        long result = sys_call4(SYS_poll, (long)&poll, 1, now < deadline ? (long)(deadline - now) : 0, 0);
        if (result > 0)
            return poll.revents & what;
        if (result != -EINTR || now >= deadline)
            return false;
    }
}

static bool hello_send(int fd, const struct mpi_hello *hello, uint64_t deadline)
{
    for (;;) {
        long sent = sys_call6(SYS_sendto, fd, (long)hello, sizeof *hello, MSG_NOSIGNAL, 0, 0);
        if (sent == (long)sizeof *hello)
            return true;
        if (sent != -EINTR && (sent != -EAGAIN || !wait_for(fd, POLLOUT, deadline)))
            return false;
    }
}

static bool welcome_take(int fd, int fds[FDS], uint64_t deadline)
{
    struct mpi_welcome welcome = {0};
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(int) * FDS)];
    } control;
    struct iovec part = {&welcome, sizeof welcome};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    long got = -EAGAIN;
    while (got == -EAGAIN || got == -EINTR) {
        if (!wait_for(fd, POLLIN, deadline))
            return false;
        message.msg_controllen = sizeof control;
        got = sys_call4(SYS_recvmsg, fd, (long)&message, MSG_CMSG_CLOEXEC, 0);
    }
    unsigned count = 0;
    const struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        count = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < count && i < FDS; i++)
        fds[i] = ((const int *)(const void *)CMSG_DATA(header))[i];
    return got == (long)sizeof welcome && welcome.magic == MPIA_HELLO_MAGIC && welcome.version == MPIA_AREA_VERSION &&
           welcome.status == 0 && count == FDS && !(message.msg_flags & MSG_CTRUNC);
}

/* ---- the mappings ---- */

static void *map_shared(int fd, uint64_t size)
{
    struct stat info;
    if (sys_call2(SYS_fstat, fd, (long)&info) < 0 || (uint64_t)info.st_size < size)
        return NULL;
    long at = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at < 0 && at > -4096)
        return NULL;
    sys_call4(SYS_madvise, at, (long)size, MADV_DONTFORK, 0);
    return (void *)at;
}

static bool take_over(const int fds[FDS], const struct mpi_host *host)
{
    struct mpi_area *area = map_shared(fds[FD_AREA], MPIA_AREA_SIZE);
    struct doorbell *bell = map_shared(fds[FD_BELL], sizeof *bell);
    bool good = area && bell && area->magic == MPIA_AREA_MAGIC && area->version == MPIA_AREA_VERSION &&
                area->calls_hash == CALLS_HASH && area->size == MPIA_AREA_SIZE && bell->magic == DOORBELL_MAGIC;
    if (good)
        area->library = host->library;
    if (good && host->why_not) {
        text_copy(area->fault, host->why_not, sizeof area->fault);
        atomic_store(&area->state, MPIA_OFF);
        area_ring(bell);
        good = false;
    }
    if (good && self_start(area, bell))
        return true;
    if (area)
        sys_call2(SYS_munmap, (long)area, MPIA_AREA_SIZE);
    if (bell)
        sys_call2(SYS_munmap, (long)bell, sizeof *bell);
    return false;
}

bool mpi_connect(const struct mpi_host *host)
{
    static struct mpi_hello hello; /* 8 KB: not on the stack of a thread that happens to call dlopen */
    int error = errno, fds[FDS] = {-1, -1};
    uint64_t deadline = now_ms() + ANSWER_MS;
    hello_fill(&hello, host);
    int fd = socket_open(host->socket, deadline);
    bool done = fd >= 0 && hello_send(fd, &hello, deadline) && welcome_take(fd, fds, deadline) && take_over(fds, host);
    for (int i = 0; i < FDS; i++)
        if (fds[i] >= 0)
            sys_call2(SYS_close, fds[i], 0);
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    errno = error;
    return done;
}
