/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which threads a library of MPI has made for itself: those that began in its code, or in that of what it is built on
 * (PMIx, UCX, libevent, libfabric). They make progress, and send nothing on their own.
 */
#ifndef SCRY_JOBDIR_MPI_THREAD_START_H
#define SCRY_JOBDIR_MPI_THREAD_START_H

#include <stdbool.h>
#include <sys/types.h>

/* `syscall`: of /proc/PID/task/TID/syscall, for its stack pointer. false: the program's, or not known. */
bool thread_is_of_mpi(pid_t pid, pid_t tid, const char *syscall);
/* Whether a file is such a library, by its name. */
bool thread_file_is_of_mpi(const char *path);

#endif
