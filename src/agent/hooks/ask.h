/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A question to the monitor on its socket for agents, and its answer: the one conversation there is (the handshake of
 * shm/area.h). Only system calls, bounded waits, and no descriptor that stays.
 */
#ifndef SCRY_AGENT_HOOKS_ASK_H
#define SCRY_AGENT_HOOKS_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/waits.h"

enum { ASK_FDS = 3 }; /* at most, in an answer */

struct agent_question {
    const char *socket; /* its path */
    const void *hello;
    uint32_t hello_size;
    uint32_t welcome_size; /* the exact size of the answer; 0: do not wait for one */
    void *welcome;
    int *fds; /* received with the answer, else -1: the caller closes them in any case */
    uint32_t fd_count;
    enum wait_kind wait; /* limit for all of it: WAIT_HELLO or WAIT_HELLO_FORK */
    bool *ret_said;      /* NULL, or: the hello is with the monitor */
    bool alone;          /* only one thread, and the program has not begun: any descriptor number is fine */
};

/* 0: sent, and answered if an answer was expected. -ETIMEDOUT: the monitor took too long. -EMFILE: it answered, but
 * this process had no room for its descriptors. -EPROTO: no answer of a monitor. Others: there is no monitor. */
typedef int agent_ask_function(const struct agent_question *question);
agent_ask_function agent_ask;

#endif
