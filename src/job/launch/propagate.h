/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a job gets onto other nodes. Launchers of MPI start a daemon on each of them by ssh. They are
 * told to use scry-rsh instead (batch/rsh.c), which becomes that ssh, with `scry run --part-of` before the daemon. In the
 * environment of the command:
 *
 *   SCRY_PART              what a part is to know: HOST, ID, DIR, SCRY and options, with tabs between them
 *   SCRY_PART_HERE         1: this is below a part
 *   SCRY_JOIN              how monitors of other nodes come here (scry link join), where nobody may ssh
 *   SCRY_RSH_OMPI          what Open MPI used without this: "ssh : rsh", or what the user has set
 *   SCRY_RSH_HYDRA         the same of MPICH, and of those that have its launcher
 *   OMPI_MCA_plm_rsh_agent, HYDRA_LAUNCHER_EXEC    scry-rsh
 *
 * Where a batch system starts the daemons, these two are left alone: its tasks make their parts themselves (scry exec).
 * In an allocation that the job asks for itself, MPICH starts scry-rsh in place of srun, too; Open MPI's srun cannot be led.
 */
#ifndef SCRY_JOB_LAUNCH_PROPAGATE_H
#define SCRY_JOB_LAUNCH_PROPAGATE_H

#include <limits.h>
#include <stdbool.h>

struct propagation {
    char *part;         /* value of SCRY_PART; NULL: the job has no parts */
    char *join;         /* value of SCRY_JOIN; NULL: nobody awaits monitors here */
    bool is_part;       /* it is one itself */
    char rsh[PATH_MAX]; /* scry-rsh; "": there is none */
};

/* For a job in `dir`, with these options for its parts (tabs between them). Without memory it has none. */
void propagation_find(struct propagation *ret_propagation, const char *id, const char *dir, const char *host,
                      const char *options);
void propagation_done(struct propagation *propagation);
/* A batch system has given the job several nodes, or the command, or a script that it names, asks Slurm for them: their
 * tasks make the parts. */
bool propagation_is_by_batch(char *const *command);
/* Changes the environment of this process. An empty one removes what an outer job has set. */
void propagation_apply(const struct propagation *propagation);

/* For scry exec: whether the job that is to have this program is followed by no scry run above it on this node. */
bool propagation_is_outside(void);
/* Becomes the part of that job, with this command, or returns: another program of the same launcher is that already (which
 * SCRY_STEP names), or it cannot be done. */
void propagation_become_part(char **command);

#endif
