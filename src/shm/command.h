/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process reports about itself when its program begins, so that even the shortest processes are known. The agent
 * writes one such note to the fifo beside the agent socket (agent/hooks/start.c), and the monitor reads it
 * (monitor/recorder/agent_hello.c). A write of at most PIPE_BUF bytes is in the fifo completely or not at all,
 * whoever else writes. Without room, or without a reader, nobody waits.
 */
#ifndef SCRY_SHM_COMMAND_H
#define SCRY_SHM_COMMAND_H

#include <limits.h>
#include <stdint.h>

#define COMMAND_MAGIC UINT32_C(0x444d4373) /* "sCMD" */
#define COMMAND_FIFO "commands"

enum { COMMAND_CUT = 1 }; /* flags: there are more arguments, or more of the last */

struct command_note {
    uint32_t magic;
    uint16_t size, flags; /* size: of all of it */
    int32_t pid;
    uint32_t directory; /* bytes of texts that are the working directory, with its end; the first */
    uint64_t time_ns;   /* CLOCK_MONOTONIC */
    char texts[];       /* NUL-terminated: the directory ("": not known), the arguments; what is cut has no end */
};

enum { COMMAND_TEXTS = PIPE_BUF - sizeof(struct command_note) };

#endif
