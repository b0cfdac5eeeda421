/* SPDX-License-Identifier: Apache-2.0 */
/* A monitor of the test's own, to which one connects; its loop goes on only by here_step(). */
#ifndef SCRY_DAEMON_TEST_SUPPORT_H
#define SCRY_DAEMON_TEST_SUPPORT_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/connection.h"

struct here {
    struct server *server;
    bool stop_asked; /* by a tool */
};
extern struct here here;

/* Set-up and tear-down of a group of tests. */
int here_setup(void **state);
int here_teardown(void **state);

/* A descriptor, or -1. */
int here_connect(void);
void here_step(void);

#endif
