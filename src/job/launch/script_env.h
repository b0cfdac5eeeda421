/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command's environment has so that interpreters report from inside (--script calls, lines):
 *
 *   SCRY_SCRIPT_DIR      where each process that runs scripts makes its file (shm/script_ring.h)
 *   SCRY_SCRIPT          calls or lines
 *   LD_PRELOAD           the libraries for bash and Python, behind all that is there
 *
 * Without these levels what an outer job has set is removed.
 */
#ifndef SCRY_JOB_LAUNCH_SCRIPT_ENV_H
#define SCRY_JOB_LAUNCH_SCRIPT_ENV_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/data/err.h"

enum { SCRIPT_BASH, SCRIPT_PYTHON, SCRIPT_LIBRARIES };

struct script_env {
    char dir[PATH_MAX]; /* "": nothing is reported from inside */
    char level[8];
    char libraries[SCRIPT_LIBRARIES][PATH_MAX]; /* "": there is none */
};

/* For the job of this process. `level`: "calls" or "lines". 0, or -errno with err; then it is empty, and valid. */
int script_env_find(struct script_env *ret_env, const char *level, struct err *err);
/* Changes the environment of this process, after preload_apply. */
void script_env_apply(const struct script_env *env);

/* The directory of the job of the process `run`, scry run. 0 or -errno with err. */
int script_env_dir(char *ret_path, size_t size, pid_t run, struct err *err);

#endif
