/* SPDX-License-Identifier: Apache-2.0 */
/* What each process of a job says of itself when its program begins, traced or not (shm/command.h). */
#ifndef SCRY_AGENT_COMMAND_H
#define SCRY_AGENT_COMMAND_H

/* The arguments of a constructor, as glibc passes them; other C libraries pass nothing, which is seen. `socket`: the
 * path of the agent socket, beside which the fifo is. Some microseconds; never waits. */
void command_say(const char *socket, int argc, char **argv, char **envp);

#endif
