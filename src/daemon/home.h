/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime directory of this monitor. A lock on the directory itself makes it ours: removing or renaming files does
 * not end that, but the end of the process does. So two monitors never serve one directory, nor wait at one doorbell.
 *
 * Removing files there must not harm a job. Missing files (a socket, the folder of areas) are made again. So is the
 * directory, which systemd removes with /run/user/UID at logout, as soon as the folder around it is there; a monitor
 * that nobody needs ends instead. If another monitor was faster and owns the new directory, this one goes on with the
 * tools and programs that it has, and ends with the last of them.
 */
#ifndef SCRY_DAEMON_HOME_H
#define SCRY_DAEMON_HOME_H

#include <limits.h>
#include <stdbool.h>

#include "base/data/err.h"

struct agents;
struct loop;
struct loop_source;
struct server;

struct home {
    char dir[PATH_MAX - 32], socket_path[PATH_MAX], pid_path[PATH_MAX];
    int dir_fd, pid_fd, socket_file; /* to recognise them at their paths; the first two hold the locks */
    int notify_fd;
    bool lost, taken; /* lost: nobody finds us; taken: another monitor owns the directory, so nobody will */
    struct loop *loop;
    struct server *server;
    struct agents *agents; /* NULL: tracing is not possible */
    struct loop_source *notify, *timer;
    unsigned settling; /* events in a row */
};
#define HOME_INIT ((struct home){.dir_fd = -1, .pid_fd = -1, .socket_file = -1, .notify_fd = -1})

/* Finds and locks the directory. 0, -EBUSY (a monitor has it) or -errno, with err. */
int home_take(struct home *home, struct err *err);

/* The socket for tools: a listening descriptor, the caller's, or -errno with err. */
int home_listen(struct home *home, struct err *err);

/* Watches the directory from here on. */
void home_watch(struct home *home, struct loop *loop, struct server *server, struct agents *agents);

/* First lets nobody new in. Then, when everything is released, lets another monitor in. Removes only our own files. */
void home_shut(struct home *home);
void home_leave(struct home *home);

#endif
