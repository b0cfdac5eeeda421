/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of tools to the monitor: frames in, requests executed, replies out. Tools have turns of TURN_FRAMES
 * requests, with everything else that the loop has to do in between. A tool that does not read its replies is not read
 * from either; replies of triggered requests beyond QUEUE_LIMIT are dropped and it is told how many.
 */
#ifndef SCRY_DAEMON_CONNECTION_H
#define SCRY_DAEMON_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

struct loop;
struct monitor;
struct server;

/* Listens on fd (taken over). `idle` is called when the last connection has closed (stop: a tool asked for the end). */
int server_new(struct server **ret_server, struct loop *loop, struct monitor *monitor, int fd,
               void (*idle)(void *ctx, bool stop), void *ctx);
/* From now on there (taken over); whoever has come to the descriptor before is not lost. 0 or -errno. */
int server_listen(struct server *server, int fd);
void server_free(struct server *server); /* closes all connections */
size_t server_connections(const struct server *server);

#endif
