/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_DAEMON_CONNECTION_H
#define SCRY_DAEMON_CONNECTION_H

#include "monitor/engine/tool.h"
#include "monitor/tree/tree.h"
#include "wire/stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <uthash.h>

/*
 * Connections of tools to the monitor: frames in, requests executed, replies out. Tools take turns of TURN_FRAMES
 * requests, with the loop's other work in between. The monitor stops reading from a tool that does not read its
 * replies; replies of triggered requests beyond QUEUE_LIMIT are dropped, and the tool gets their number.
 */

struct loop;
struct monitor;
struct server;

/* Listens on fd (taken). `idle` is called when the last connection has closed (stop: a tool asked for the end). */
int server_new(struct server **ret_server, struct loop *loop, struct monitor *monitor, int fd,
               void (*idle)(void *ctx, bool stop), void *ctx);
/* Listens on another descriptor (taken) from now on. Connections that wait at the old one are not lost. 0 or -errno. */
int server_listen(struct server *server, int fd);
void server_free(struct server *server); /* closes all connections */
size_t server_connections(const struct server *server);

#endif
