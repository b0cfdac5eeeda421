/* SPDX-License-Identifier: Apache-2.0 */
#define HASH_NONFATAL_OOM 1 /* the default ends the program */
#include "job/watch/watch.h"

#include <errno.h>
#include <linux/acct.h>
#include <linux/genetlink.h>
#include <linux/taskstats.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/loop.h"

enum {
    BYTES_BUFFER = 8 << 20, /* of the kernel, until the next sample */
    BYTES_MESSAGE = 4096,
    BYTES_MOST = 100000, /* processes */
    BYTES_KEPT_TURNS = 2,
};

struct bytes_ended {
    pid_t pid;
    unsigned turn;
    bool whole; /* its last thread has ended */
    struct process_bytes sum;
    UT_hash_handle hh;
};

/* One attribute and its length, at `at`; NULL: there is none more. */
static const struct nlattr *attribute_next(const char **at, const char *end)
{
    const struct nlattr *attribute = (const struct nlattr *)(const void *)*at;
    if (end - *at < NLA_HDRLEN || attribute->nla_len < NLA_HDRLEN || attribute->nla_len > end - *at)
        return NULL;
    size_t whole = NLA_ALIGN(attribute->nla_len);
    *at = whole < (size_t)(end - *at) ? *at + whole : end;
    return attribute;
}

static const struct nlattr *attribute_find(const char *at, const char *end, int type)
{
    for (const struct nlattr *each; (each = attribute_next(&at, end));)
        if ((each->nla_type & NLA_TYPE_MASK) == type)
            return each;
    return NULL;
}

static const char *value_of(const struct nlattr *attribute, const char **ret_end)
{
    *ret_end = (const char *)attribute + attribute->nla_len;
    return (const char *)attribute + NLA_HDRLEN;
}

static int send_text(int fd, uint16_t family, uint8_t command, uint16_t type, const char *text)
{
    _Alignas(NLMSG_ALIGNTO) char message[256] = {0};
    struct nlmsghdr *header = (struct nlmsghdr *)message;
    struct genlmsghdr *call = NLMSG_DATA(header);
    struct nlattr *attribute = (struct nlattr *)((char *)call + GENL_HDRLEN);
    size_t len = strlen(text) + 1;
    if (NLMSG_LENGTH(GENL_HDRLEN + NLA_HDRLEN) + len > sizeof message)
        return -E2BIG;
    *call = (struct genlmsghdr){.cmd = command, .version = 1};
    attribute->nla_type = type;
    attribute->nla_len = (uint16_t)(NLA_HDRLEN + len);
    memcpy((char *)attribute + NLA_HDRLEN, text, len);
    *header = (struct nlmsghdr){.nlmsg_len = (uint32_t)(NLMSG_LENGTH(GENL_HDRLEN) + NLA_ALIGN(attribute->nla_len)),
                                .nlmsg_type = family,
                                .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK};
    return send(fd, message, header->nlmsg_len, 0) < 0 ? -errno : 0;
}

/* The next message of the kernel; its length, 0: none, or -errno. */
static ssize_t receive(int fd, char *ret_message, size_t size)
{
    struct sockaddr_nl from;
    socklen_t from_len = sizeof from;
    ssize_t len;
    do
        len = recvfrom(fd, ret_message, size, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    while ((len < 0 && errno == EINTR) || (len >= 0 && from.nl_pid != 0));
    return len >= 0 ? len : errno == EAGAIN ? 0 : -errno;
}

/* What the kernel answers to a request it answers at once: `ret_family`, if that is in it. 0, or -errno. */
static int await_answer(int fd, uint16_t *ret_family)
{
    _Alignas(NLMSG_ALIGNTO) char message[BYTES_MESSAGE];
    for (ssize_t len; (len = receive(fd, message, sizeof message)) != 0;) {
        if (len < 0)
            return (int)len;
        const struct nlmsghdr *header = (const struct nlmsghdr *)message;
        if (!NLMSG_OK(header, (size_t)len))
            continue;
        if (header->nlmsg_type == NLMSG_ERROR)
            return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
        const char *end, *at = (const char *)NLMSG_DATA(header) + GENL_HDRLEN;
        const struct nlattr *id = attribute_find(at, message + header->nlmsg_len, CTRL_ATTR_FAMILY_ID);
        if (ret_family && id && id->nla_len >= NLA_HDRLEN + sizeof *ret_family)
            memcpy(ret_family, value_of(id, &end), sizeof *ret_family);
    }
    return -ETIMEDOUT;
}

void bytes_open(struct bytes *bytes)
{
    struct sockaddr_nl address = {.nl_family = AF_NETLINK};
    int size = BYTES_BUFFER;
    uint16_t family = 0;
    char processors[32];
    *bytes = (struct bytes){.fd = -1};
    _cleanup_(closep) int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_GENERIC);
    snprintf(processors, sizeof processors, "0-%d", get_nprocs_conf() - 1);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        send_text(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, TASKSTATS_GENL_NAME) < 0 ||
        await_answer(fd, &family) < 0 || !family ||
        send_text(fd, family, TASKSTATS_CMD_GET, TASKSTATS_CMD_ATTR_REGISTER_CPUMASK, processors) < 0 ||
        await_answer(fd, NULL) < 0)
        return;
    bytes->fd = TAKE_FD(fd);
}

static struct bytes_ended *ended_find(struct bytes *bytes, pid_t pid)
{
    struct bytes_ended *ended;
    HASH_FIND_INT(bytes->ended, &pid, ended);
    return ended;
}

static void ended_drop(struct bytes *bytes, struct bytes_ended *ended)
{
    HASH_DEL(bytes->ended, ended);
    free(ended);
}

static void ended_add(struct bytes *bytes, const struct taskstats *stats)
{
    pid_t pid = (pid_t)stats->ac_tgid;
    struct bytes_ended *ended = ended_find(bytes, pid);
    if (!ended) {
        if (HASH_COUNT(bytes->ended) >= BYTES_MOST || !(ended = calloc(1, sizeof *ended)))
            return;
        ended->pid = pid;
        HASH_ADD_INT(bytes->ended, pid, ended);
        if (!ended->hh.tbl) {
            free(ended);
            return;
        }
    }
    if (ended->whole) /* its number is another's now */
        ended->sum = (struct process_bytes){0};
    ended->whole = stats->ac_flag & AGROUP;
    ended->turn = bytes->turn;
    ended->sum.read += (int64_t)stats->read_char;
    ended->sum.written += (int64_t)stats->write_char;
    ended->sum.disk_read += (int64_t)stats->read_bytes;
    ended->sum.disk_written += (int64_t)stats->write_bytes;
}

/* The end of a thread: TASKSTATS_TYPE_AGGR_PID, with the numbers in TASKSTATS_TYPE_STATS. Kernels before 5.19 do not
 * say of which process. */
static void take_message(struct bytes *bytes, const char *message, size_t len)
{
    const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)message;
    struct taskstats stats;
    if (!NLMSG_OK(header, len) || header->nlmsg_len < NLMSG_LENGTH(GENL_HDRLEN) || header->nlmsg_type < NLMSG_MIN_TYPE)
        return;
    const char *at = (const char *)NLMSG_DATA(header) + GENL_HDRLEN, *end = message + header->nlmsg_len;
    const struct nlattr *of_thread = attribute_find(at, end, TASKSTATS_TYPE_AGGR_PID);
    if (!of_thread)
        return;
    at = value_of(of_thread, &end);
    const struct nlattr *numbers = attribute_find(at, end, TASKSTATS_TYPE_STATS);
    if (!numbers)
        return;
    at = value_of(numbers, &end);
    size_t size = (size_t)(end - at);
    if (size < offsetof(struct taskstats, ac_tgid) + sizeof stats.ac_tgid)
        return;
    memset(&stats, 0, sizeof stats);
    memcpy(&stats, at, size < sizeof stats ? size : sizeof stats);
    ended_add(bytes, &stats);
}

void bytes_read(struct bytes *bytes, bool (*lives)(const void *ctx, pid_t pid), const void *ctx)
{
    _Alignas(NLMSG_ALIGNTO) char message[BYTES_MESSAGE];
    ssize_t len;
    if (bytes->fd < 0)
        return;
    bytes->turn++;
    while ((len = receive(bytes->fd, message, sizeof message)) != 0) {
        if (len < 0 && len != -ENOBUFS) /* that: some are lost, and more may be there */
            break;
        if (len > 0)
            take_message(bytes, message, (size_t)len);
    }
    struct bytes_ended *ended, *next;
    HASH_ITER(hh, bytes->ended, ended, next)
    if (bytes->turn - ended->turn > BYTES_KEPT_TURNS && !lives(ctx, ended->pid))
        ended_drop(bytes, ended);
}

struct process_bytes bytes_take(struct bytes *bytes, pid_t pid)
{
    struct bytes_ended *ended = ended_find(bytes, pid);
    struct process_bytes sum = {-1, -1, -1, -1};
    if (ended) {
        sum = ended->sum;
        ended_drop(bytes, ended);
    }
    return sum;
}

void bytes_close(struct bytes *bytes)
{
    struct bytes_ended *ended, *next;
    HASH_ITER(hh, bytes->ended, ended, next)
    ended_drop(bytes, ended);
    if (bytes->fd >= 0)
        close(bytes->fd);
    bytes->fd = -1;
}
