/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_LINK_AWAIT_H
#define SCRY_LINK_AWAIT_H

#include "link/serve.h"

/* scry-link await: the sessions of scry-link serve, but each one that comes is a monitor, which becomes a node here. */

/* The secret, the monitor here. 0 or -errno with err. */
int await_begin(struct serve *serve, struct err *err);
void await_end(struct serve *serve);
/* A socket that listens at all addresses of this machine, at a free port; or -errno. */
int await_listen(unsigned *ret_port);
/* Says on standard output how to come here: at this address, NULL: at serve->port. */
void await_tell(const struct serve *serve, const char *address);

/* A socket at which the monitor here is asked to attach a node. Called once: with the connection, which is the callee's, or -1
 * and why not; the latter also after the former. The door may be freed in it. */
struct door;
typedef void door_fn(void *ctx, int fd_take, const char *why);
int door_open(struct serve *serve, door_fn *fn, void *ctx, struct door **ret_door, struct err *err);
void door_free(struct door *door); /* NULL is fine */

#endif
