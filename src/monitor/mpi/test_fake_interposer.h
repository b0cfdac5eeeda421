/* SPDX-License-Identifier: Apache-2.0 */
/* An interposer that is only a few lines: it speaks the protocol of shm/mpi_area.h, and counts calls that are known. */
#ifndef SCRY_MONITOR_MPI_TEST_FAKE_INTERPOSER_H
#define SCRY_MONITOR_MPI_TEST_FAKE_INTERPOSER_H

enum { FAKE_SITE = 0x401234 }; /* where it calls from */

/*
 * What a child does (child_new):
 *
 *   c    connects                                   r    says what must be refused
 *   m    connects where there is no memory          i    MPI_Init, as rank 1 of 2
 *   n N  N calls of MPI_Recv, each of 100 bytes     e    begins one, and stays there
 *   p    asks for a report                          o N  sees how it was set: on, and the bits above
 *   d N  sees these metrics, and two distributions  z N  sees so many resets
 *   g    garbage over all that the monitor reads    a N  says hello as an agent without hooks; 1: of another program
 *   q    MPI_Finalize, ends
 */
void fake_interposer(int fd);

#endif
