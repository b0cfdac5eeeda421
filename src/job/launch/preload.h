/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LAUNCH_PRELOAD_H
#define SCRY_JOB_LAUNCH_PRELOAD_H

#include "base/data/err.h"
#include "job/launch/propagate.h"
#include "shm/metrics.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/*
 * What the command's environment has so that interpreters report from inside (--script calls, lines):
 *
 *   SCRY_SCRIPT_DIR      where each process that runs scripts makes its file (shm/script_ring.h)
 *   SCRY_SCRIPT          calls or lines
 *   LD_PRELOAD           the libraries for bash and Python, behind all that is there
 *
 * And with --files, that all processes count their files:
 *
 *   SCRY_FILES           where they do (shm/files.h)
 *   LD_PRELOAD           the library for that, behind all that is there
 *
 * Without these levels what an outer job has set is removed.
 */

enum { SCRIPT_BASH, SCRIPT_PYTHON, SCRIPT_FILES, SCRIPT_LIBRARIES };

struct script_env {
    char dir[PATH_MAX]; /* "": nothing is reported from inside */
    char level[8];
    char files[METRICS_ENV_SIZE];               /* "": files are not counted */
    char libraries[SCRIPT_LIBRARIES][PATH_MAX]; /* "": there is none */
};

/* For the job of this process. `level`: "calls" or "lines". 0, or -errno with err; then it is empty, and valid. */
int script_env_find(struct script_env *ret_env, const char *level, struct err *err);
/* Finds the library that counts files, beside what is in it. false: it is missing. */
bool script_env_files(struct script_env *env);
/* Changes the environment of this process, after preload_apply. */
void script_env_apply(const struct script_env *env);

/* The directory of the job of the process `run`, scry run. 0 or -errno with err. */
int script_env_dir(char *ret_path, size_t size, pid_t run, struct err *err);

/*
 * Loads the agent into the job: the library, and the environment variables with which the dynamic loader and the agent
 * find what they need (ld.so(8)):
 *
 *   LD_PRELOAD           the library, before what is there; after the address sanitizer's, which must be first
 *   SCRY_AGENT_SOCKET    where its monitor listens
 *   SCRY_TRACE_WANTED    1: tracing was requested, so report programs without hooks; patches: and functions were named, which
 *                        get jumps to the hooks where they have none
 *   SCRY_MPI             stats; messages (as at the start): number them; off: do not look at MPI calls
 *   SCRY_MPI_DIR         where the libraries for MPI programs are (libscry-mpi-*.so)
 *   ASAN_OPTIONS         programs with the address sanitizer that the job starts would otherwise refuse to run
 *   SCRY_METRICS         where numbers that programs say themselves go (shm/metrics.h)
 *   SCRY_ASAN_PRELOAD    what was put before the library; the agent removes it for programs that this one starts
 */

struct preload {
    char library[PATH_MAX];   /* as in LD_PRELOAD; "": load nothing */
    char sanitizer[PATH_MAX]; /* to be put before it; "" */
    char socket[PATH_MAX];
    char mpi_dir[PATH_MAX];         /* "": there are none */
    char metrics[METRICS_ENV_SIZE]; /* ""; nowhere */
    bool wanted, patches, mpi_off;
    struct script_env script;
    struct propagation propagation;
    bool is_script; /* the command is no program itself, but may start some */
};

/* For a command as given to execvp. 0, or -errno with err: why nothing can be loaded, and what to do. -ENOENT: the
 * library is missing; -ENOEXEC: the program cannot be traced. Then it is empty and valid. It is zero before: that
 * is pages, and of most of them nothing is used. */
int preload_find(struct preload *preload, const char *command, bool wanted, struct err *err);

/* Changes the environment of this process: call it in the child, or before exec. An empty preload removes what an outer
 * job has set. */
void preload_apply(const struct preload *preload);

#endif
