/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What two programs that meet (MPI_Comm_connect and MPI_Comm_accept, MPI_Comm_join) both know of it: the port's name,
 * or the two addresses of the socket. MPI itself does not say to either which the other one is. As a number, the same
 * on both sides: struct mpi_comm.meeting.
 */
#ifndef SCRY_MPI_SHAPE_MEETING_H
#define SCRY_MPI_SHAPE_MEETING_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

uint64_t meeting_at_port(const char *name); /* 0: there is none */
uint64_t meeting_on_socket(int fd);         /* 0: it has no two addresses of the internet (a socket of this host) */

#pragma GCC visibility pop

#endif
