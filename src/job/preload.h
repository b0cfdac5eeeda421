/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loading the agent into the job: the library, and the environment variables by which the dynamic loader and the agent
 * find what they need (ld.so(8)):
 *
 *   LD_PRELOAD           the library, before what is there; after the address sanitizer's, which must be first
 *   SCRY_AGENT_SOCKET    where its monitor listens
 *   SCRY_TRACE_WANTED    1: tracing was asked for, so that a program without hooks is to be told
 *   SCRY_MPI             stats; messages (as it was before): they are numbered; off: calls of MPI are not looked at
 *   SCRY_MPI_DIR         where the libraries for MPI programs are (libscry-mpi-*.so)
 *   ASAN_OPTIONS         programs with the address sanitizer that the job starts would otherwise refuse to run
 *   SCRY_ASAN_PRELOAD    what was put before the library, for the agent to take it away from what the program starts
 */
#ifndef SCRY_JOB_PRELOAD_H
#define SCRY_JOB_PRELOAD_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"

struct preload {
    char library[PATH_MAX];   /* as it stands in LD_PRELOAD; "": nothing is loaded */
    char sanitizer[PATH_MAX]; /* to be put before it; "" */
    char socket[PATH_MAX];
    char mpi_dir[PATH_MAX]; /* "": there are none */
    bool wanted, mpi_off;
    bool is_script; /* the command is a file that is no program itself: what it starts may be */
};

/* For a command as given to execvp. 0, or -errno with err, which says why nothing can be loaded and what to do:
 * -ENOENT the library is missing, -ENOEXEC the program cannot be traced. *ret_preload is then empty and valid. */
int preload_find(struct preload *ret_preload, const char *command, bool wanted, struct err *err);

/* Changes the environment of this process: to be called in the child, or before exec. With an empty preload, what a job
 * around this one set is taken away. */
void preload_apply(const struct preload *preload);

#endif
