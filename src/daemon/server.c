/* SPDX-License-Identifier: Apache-2.0 */
/* Accepts the connections of tools. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system/log.h"
#include "base/system/loop.h"
#include "daemon/internal.h"
#include "monitor/engine/monitor.h"
#include "wire/local.h"

enum {
    /* For one process. A tool needs one connection, or one for each thread. More are a mistake, which must not lock out
     * the user's other tools, also where the monitor may have few open files. */
    PEER_CONNECTIONS = 1024,
    PEER_SHARE = 4, /* at most a fourth of the open files */
};

static void refuse(int fd, const char *why)
{
    struct buf frame = BUF_INIT;
    log_debug("connection state=refused why=%s", LOG_TEXT(why));
    frame_append(&frame, FRAME_GOODBYE, 0, 0, span_str(why), span_of("", 0));
    if (!frame.failed && send(fd, frame.data, frame.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_info("a refused connection did not get the reason");
    buf_done(&frame);
    close(fd);
}

static size_t peer_limit(void)
{
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    getrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur / PEER_SHARE < PEER_CONNECTIONS ? files.rlim_cur / PEER_SHARE : PEER_CONNECTIONS;
}

static bool peer_has_enough(struct server *server, pid_t pid, char *ret_why, size_t size)
{
    size_t count = 0, limit = peer_limit();
    for (const struct connection *connection = server->connections; connection; connection = connection->next)
        count += connection->session.peer_pid == pid;
    if (count < limit)
        return false;
    snprintf(ret_why, size,
             "process %d has %zu connections to this monitor, as many as one may have: it must close some", pid, count);
    if (server->refused != pid)
        log_warning("refused: %s", ret_why);
    server->refused = pid;
    return true;
}

static void add_connection(struct server *server, int fd)
{
    char why[160];
    uid_t uid;
    pid_t pid;
    if (local_peer(fd, &uid, &pid) < 0 || uid != geteuid()) {
        log_warning("a connection of user %u (pid %d) was refused", uid, pid);
        refuse(fd, "this monitor serves another user");
        return;
    }
    if (peer_has_enough(server, pid, why, sizeof why)) {
        refuse(fd, why);
        return;
    }
    struct connection *connection = connection_new(server);
    if (!connection || stream_new(&connection->stream, server->loop, fd) < 0) {
        if (connection)
            connection_free(connection);
        refuse(fd, "the monitor is out of memory");
        return;
    }
    connection->session.peer_pid = pid;
    connection_read(connection);
    log_debug("connection state=opened pid=%d connections=%zu", pid, server->count);
}

static void accept_ready(void *ctx, int fd, uint32_t events)
{
    (void)events;
    struct server *server = ctx;
    for (;;) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0) {
            add_connection(server, peer);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EMFILE && errno != ENFILE)
            return;
        /* all descriptors are used: accept the connection with the reserve, and refuse it */
        close(server->reserve_fd);
        peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (peer >= 0)
            refuse(peer, "the monitor has no more open files for connections (ulimit -n)");
        server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (peer < 0)
            return;
    }
}

static void print_connections(void *ctx, struct buf *out)
{
    const struct server *server = ctx;
    for (const struct connection *connection = server->connections; connection; connection = connection->next)
        buf_printf(out, "connection pid=%d tool=%u request_waits=%d requests_queued=%d queued_bytes=%zu dropped=%llu\n",
                   connection->session.peer_pid, connection->session.tool ? connection->session.tool->id : 0,
                   connection->session.waiting != NULL, connection->ready_source != NULL,
                   connection_waiting(connection), (unsigned long long)connection->dropped);
}

int server_new(struct server **ret_server, struct loop *loop, struct monitor *monitor, int fd,
               void (*idle)(void *ctx, bool stop), void *ctx)
{
    struct server *server = calloc(1, sizeof *server);
    if (!server)
        return -ENOMEM;
    *server = (struct server){.loop = loop, .monitor = monitor, .fd = fd, .idle = idle, .ctx = ctx};
    server->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->source = loop_add_fd(loop, fd, EPOLLIN, accept_ready, server);
    if (!server->source) {
        free(server);
        return -ENOMEM;
    }
    struct tree_server carried = carried_server(server);
    if (tree_new(monitor, &carried) < 0) {
        loop_remove(server->source);
        free(server);
        return -ENOMEM;
    }
    monitor->connections = (struct state_part){print_connections, server};
    *ret_server = server;
    return 0;
}

int server_listen(struct server *server, int fd)
{
    struct loop_source *source = loop_add_fd(server->loop, fd, EPOLLIN, accept_ready, server);
    if (!source) {
        close(fd);
        return -ENOMEM;
    }
    accept_ready(server, server->fd, EPOLLIN);
    loop_remove(server->source);
    close(server->fd);
    server->source = source;
    server->fd = fd;
    return 0;
}

void server_free(struct server *server)
{
    if (!server)
        return;
    server->idle = NULL;
    server->monitor->connections.print = NULL;
    while (server->connections)
        connection_free(server->connections);
    tree_free(server->monitor->tree);
    loop_remove(server->source);
    close(server->fd);
    close(server->reserve_fd);
    free(server);
}

size_t server_connections(const struct server *server)
{
    return server->count;
}
