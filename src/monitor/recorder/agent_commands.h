/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes say of their commands when they begin (shm/command.h), all that have the agent loaded, traced or not.
 * It is read together, some twenty times a second at most, and handed to monitor->on_command.
 */
#ifndef SCRY_MONITOR_RECORDER_AGENT_COMMANDS_H
#define SCRY_MONITOR_RECORDER_AGENT_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"

struct agents;

struct agent_command {
    pid_t pid; /* as it says itself: in a namespace of its own it may be another's here */
    uint64_t time_ns;
    struct span directory, args; /* args: NUL-terminated, one after the other; the last perhaps without end */
    bool whole;                  /* no arguments are missing */
};

/* Makes the fifo, also anew. Where it cannot be, processes are not heard: that is logged. */
void agent_commands_listen(struct agents *agents);
void agent_commands_close(struct agents *agents);
/* Hands over what was said until now. */
void agent_commands_read(struct agents *agents);

#endif
