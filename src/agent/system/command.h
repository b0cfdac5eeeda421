/* SPDX-License-Identifier: Apache-2.0 */
/* What each process of a job reports about itself when its program begins, traced or not (shm/command.h). */
#ifndef SCRY_AGENT_SYSTEM_COMMAND_H
#define SCRY_AGENT_SYSTEM_COMMAND_H

/* The arguments are those of a constructor in glibc; other C libraries pass nothing, which is noticed. `socket`: the
 * path of the agent socket; the fifo is beside it. Takes some microseconds; never waits. */
void command_say(const char *socket, int argc, char **argv, char **envp);

#endif
