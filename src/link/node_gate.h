/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections by ssh a user begins at the same moment on this machine. Each login is a process here, work for a
 * directory of users, and often a place in the queue of one machine in between, which refuses when it gets too many
 * (MaxStartups of sshd_config(5)).
 */
#ifndef SCRY_LINK_NODE_GATE_H
#define SCRY_LINK_NODE_GATE_H

enum { GATE_PLACES = 32 };

/* Waits for a place, as long as somebody has the other end of the socket `fd`. A descriptor: closing it gives the place back, as
 * the end of the process does. -EPIPE: nobody waits any more. -errno: there is no gate, and nothing to wait for. */
int gate_enter(int fd);

#endif
