/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/follow.h"

#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/data/cleanup.h"

enum {
    BUFFER_BYTES = 4 << 20, /* some 10000 ends, where we may have so much */
    AT_ONCE = 64,
    MESSAGE_BYTES = 256,
};

/* <linux/cn_proc.h> of Linux 6.6; defined here since older headers lack them. */
#define EVENT_EXIT UINT32_C(0x80000000)
struct listen_input {
    uint32_t operation, events;
};

/* Inodes of the first namespaces (<linux/proc_ns.h> of the kernel): in others the kernel sends nothing, or numbers
 * that mean other processes here. */
static bool is_first(const char *link, unsigned long inode)
{
    char text[64];
    ssize_t len = readlink(link, text, sizeof text - 1);
    text[len > 0 ? len : 0] = 0;
    const char *number = strchr(text, '[');
    return number && strtoul(number + 1, NULL, 10) == inode;
}

static int events_ask(int fd, const struct listen_input *input, uint16_t size)
{
    _Alignas(NLMSG_ALIGNTO) char request[NLMSG_SPACE(sizeof(struct cn_msg) + sizeof *input)] = {0};
    struct nlmsghdr *header = (struct nlmsghdr *)request;
    struct cn_msg *message = NLMSG_DATA(header);
    header->nlmsg_len = NLMSG_LENGTH(sizeof *message + size);
    header->nlmsg_type = NLMSG_DONE;
    message->id = (struct cb_id){CN_IDX_PROC, CN_VAL_PROC};
    message->len = size;
    memcpy(message->data, input, size);
    return send(fd, request, header->nlmsg_len, 0) < 0 ? -errno : 0;
}

/* Before Linux 6.6 the kernel knows the first request alone, and sends all events; the second one says which. */
static int listen_to(int fd)
{
    const struct listen_input input = {PROC_CN_MCAST_LISTEN, EVENT_EXIT};
    int code = events_ask(fd, &input, sizeof input.operation);
    return code < 0 ? code : events_ask(fd, &input, sizeof input);
}

int exits_open(struct err *err)
{
    static const char contained[] = "in a container (namespace) the kernel reports no ends of processes";
    struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
    int bytes = BUFFER_BYTES;
    if (!is_first("/proc/self/ns/pid", 0xEFFFFFFC) || !is_first("/proc/self/ns/user", 0xEFFFFFFD))
        return err_set(err, -EACCES, "%s", contained);
    _cleanup_(closep) int fd = socket(PF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
    if (fd < 0)
        return err_set(err, -errno, "this kernel reports no ends of processes (built without CONFIG_PROC_EVENTS)");
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    int code = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 ? -errno : listen_to(fd);
    if (code == -ECONNREFUSED)
        return err_set(err, -EACCES, "%s", contained);
    if (code == -EPERM || code == -EACCES)
        return err_set(err, -EACCES, "the kernel reports ends of processes to root alone (before Linux 6.6)");
    if (code < 0)
        return err_errno(err, code, "ends of processes cannot be read (process events)");
    return TAKE_FD(fd);
}

static void event_take(const char *bytes, size_t size, exits_fn *fn, void *ctx)
{
    const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)bytes;
    const struct cn_msg *message = NLMSG_DATA(header);
    struct proc_event event;
    size_t most = NLMSG_LENGTH(sizeof *message) + sizeof event;
    /* later kernels may extend events */
    size_t least = NLMSG_LENGTH(sizeof *message) + offsetof(struct proc_event, event_data.exit.parent_pid);
    if (size < least || message->id.idx != CN_IDX_PROC || message->id.val != CN_VAL_PROC)
        return;
    memset(&event, 0, sizeof event);
    memcpy(&event, message->data, (size < most ? size : most) - NLMSG_LENGTH(sizeof *message));
    if ((uint32_t)event.what != EVENT_EXIT)
        return;
    const struct exit_event reported = {.pid = event.event_data.exit.process_tgid,
                                        .tid = event.event_data.exit.process_pid,
                                        .status = (int)event.event_data.exit.exit_code,
                                        .time_ns = event.timestamp_ns};
    fn(ctx, &reported);
}

int exits_read(int fd, exits_fn *fn, void *ctx)
{
    _Alignas(NLMSG_ALIGNTO) char bytes[AT_ONCE][MESSAGE_BYTES];
    struct sockaddr_nl from[AT_ONCE];
    struct iovec parts[AT_ONCE];
    struct mmsghdr messages[AT_ONCE];
    int code = 0;
    for (;;) {
        for (size_t i = 0; i < AT_ONCE; i++) {
            parts[i] = (struct iovec){bytes[i], sizeof bytes[i]};
            messages[i] = (struct mmsghdr){
                .msg_hdr = {
                    .msg_name = &from[i], .msg_namelen = sizeof from[i], .msg_iov = &parts[i], .msg_iovlen = 1}};
        }
        int count = recvmmsg(fd, messages, AT_ONCE, MSG_DONTWAIT, NULL);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == ENOBUFS) {
            code = -ENOBUFS;
            continue;
        }
        if (count < 0)
            return errno == EAGAIN ? code : -errno;
        for (int i = 0; i < count; i++)
            if (from[i].nl_pid == 0) /* the kernel */
                event_take(bytes[i], messages[i].msg_len, fn, ctx);
    }
}
