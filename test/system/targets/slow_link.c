/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands for `scry-link node NAME`, where NAME is SECONDS-NUMBER: it takes so long, as ssh does, and then carries bytes between its
 * standard input, a socket, and that of the monitor SLOW_LINK_NODES/NUMBER/monitor.sock. Each one is a byte in SLOW_LINK_NODES/begun.
 * Where SLOW_LINK_NODES/NUMBER/wait is a FIFO, it waits for a byte there, and ends.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static bool carry(int from, int to)
{
    char bytes[16384];
    ssize_t got = read(from, bytes, sizeof bytes), sent = 0;
    for (ssize_t at = 0; got > 0 && at < got; at += sent)
        if ((sent = write(to, bytes + at, (size_t)(got - at))) <= 0)
            return false;
    return got > 0;
}

static void begin(const char *nodes, const char *node)
{
    char path[256];
    snprintf(path, sizeof path, "%s/begun", nodes);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "", 1) != 1)
        exit(3);
    close(fd);
    snprintf(path, sizeof path, "%s/%s/wait", nodes, node);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    char byte;
    if (fd >= 0 && read(fd, &byte, 1) == 1)
        exit(1);
}

int main(int argc, char **argv)
{
    const char *nodes = getenv("SLOW_LINK_NODES");
    if (argc < 3 || !nodes)
        return 2;
    char *node;
    double seconds = strtod(argv[2], &node);
    if (*node++ != '-')
        return 2;
    begin(nodes, node);
    struct timespec wait = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&wait, NULL);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path, sizeof address.sun_path, "%s/%s/monitor.sock", nodes, node);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (length >= (int)sizeof address.sun_path || fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return 1;
    struct pollfd ends[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    while (poll(ends, 2, -1) > 0)
        for (int i = 0; i < 2; i++)
            if (ends[i].revents && !carry(ends[i].fd, ends[!i].fd))
                return 0;
    return 1;
}
