/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime directory of this monitor, which it owns by a lock on the directory itself: nobody takes it away by
 * removing or renaming files, and it goes with the process. So two monitors never serve one directory, nor wait at one
 * doorbell.
 *
 * Whoever tidies up there must not harm a job. What is missing (a socket, the folder of areas) is made anew. Where the
 * directory itself has gone, as systemd removes /run/user/UID at logout, it is made anew, too, as soon as the folder
 * that it lies in is there; a monitor that nobody needs ends instead. Where somebody was quicker and another monitor
 * owns the new directory, this one goes on with the tools and programs that it has, and ends with the last of them.
 */
#ifndef SCRY_DAEMON_HOME_H
#define SCRY_DAEMON_HOME_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

struct agents;
struct loop;
struct loop_source;
struct server;

struct home {
    char dir[PATH_MAX - 32], socket_path[PATH_MAX], pid_path[PATH_MAX];
    int dir_fd, pid_fd, socket_file; /* to know them again at their paths; the first two hold the locks */
    int notify_fd;
    bool lost, taken; /* lost: nobody finds us; taken: nor ever will, for the directory is another monitor's */
    struct loop *loop;
    struct server *server;
    struct agents *agents; /* NULL: tracing is not possible */
    struct loop_source *notify, *timer;
    unsigned settling; /* events in a row */
};
#define HOME_INIT ((struct home){.dir_fd = -1, .pid_fd = -1, .socket_file = -1, .notify_fd = -1})

/* Finds and locks the directory. 0, -EBUSY (a monitor has it) or -errno, with err. */
int home_take(struct home *home, struct err *err);

/* The socket for tools: a descriptor that listens, the caller's, or -errno with err. */
int home_listen(struct home *home, struct err *err);

/* From here on it is looked after. */
void home_watch(struct home *home, struct loop *loop, struct server *server, struct agents *agents);

/* First nobody new comes, then, when everything is released, another monitor may. Only what is ours is removed. */
void home_shut(struct home *home);
void home_leave(struct home *home);

#endif
