/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to the monitor on its socket for agents, and its answer: the one conversation there is (the handshake of
 * shm/area.h). Only system calls, bounded waits, and no descriptor that stays.
 */
#ifndef SCRY_AGENT_ASK_H
#define SCRY_AGENT_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/waits.h"

enum { ASK_FDS = 3 }; /* at most, in an answer */

struct agent_question {
    const char *socket; /* its path */
    const void *hello;
    uint32_t hello_size;
    uint32_t welcome_size; /* an answer has just that size; 0: none is waited for */
    void *welcome;
    int *fds; /* what came with the answer, the others are -1: the caller closes them, whatever is returned */
    uint32_t fd_count;
    enum wait_kind wait; /* how long, for all of it: WAIT_HELLO or WAIT_HELLO_FORK */
    bool alone;          /* there is one thread, and the program has not begun: any descriptor will do */
};

/* 0: said, and answered if an answer was waited for. -ETIMEDOUT: the monitor took too long; -EMFILE: it has answered,
 * but there was no room for its descriptors in this process; -EPROTO: the answer is none of a monitor's; others: it is
 * not there. */
typedef int agent_ask_function(const struct agent_question *question);
agent_ask_function agent_ask;

#endif
