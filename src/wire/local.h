/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local transport: unix stream sockets inside a directory that only their owner can enter.
 */
#ifndef SCRY_WIRE_LOCAL_H
#define SCRY_WIRE_LOCAL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/data/err.h"

/* scry-monitor ends with this status where another one owns the runtime directory. */
enum { LOCAL_BUSY = 3 };

/* Listens at path (at most 107 bytes), mode 0600, close-on-exec, non-blocking. Returns the descriptor or -errno;
 * -EADDRINUSE when somebody answers there; a dead socket file is replaced. From the moment that the file is there, it
 * can be connected to. Two that start at once must be kept apart by the caller (a lock): the later takes the earlier's
 * place. */
int local_listen(const char *path, struct err *err);

/* Connects, blocking, close-on-exec. Returns the descriptor or -errno. */
int local_connect(const char *path, struct err *err);

/* The same without waiting: -EAGAIN, with err, where whoever listens does not accept (it is stopped). Then non-blocking. */
int local_connect_at_once(const char *path, struct err *err);

/* The peer's credentials (SO_PEERCRED). 0 or -errno. */
int local_peer(int fd, uid_t *ret_uid, pid_t *ret_pid);

#endif
