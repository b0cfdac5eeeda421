/* SPDX-License-Identifier: Apache-2.0 */
/* --listen: the program scry-link beside the monitor, which takes connections from other machines. */
#ifndef SCRY_DAEMON_LISTEN_H
#define SCRY_DAEMON_LISTEN_H

#include <stddef.h>

#include "base/data/err.h"

enum { LISTEN_MOST = 16 };

/* Starts it, and waits until it listens. It ends with the monitor, however that ends. 0 or -errno with err. */
int listen_start(const char *const *addresses, size_t count, struct err *err);

#endif
