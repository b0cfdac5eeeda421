/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that scry run forks to work for it. It keeps no descriptor open that the job may wait for, and is not called
 * scry: a signal to all processes of that name, or of that command line, is for scry run.
 */
#ifndef SCRY_JOB_LAUNCH_WORKER_H
#define SCRY_JOB_LAUNCH_WORKER_H

/* In the child: sets the name, leaves the working directory, and closes all descriptors but `fd`. Returns fd's new
 * number. */
int worker_become(const char *name, int fd);

#endif
