/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A child that scry run forks to work for it. It holds nothing of what the job may wait for to be closed, and is not
 * called scry: whoever signals all processes of that name, or of that command line, means scry run.
 */
#ifndef SCRY_JOB_HELPER_H
#define SCRY_JOB_HELPER_H

/* In the child: takes the name, becomes free of the working directory and of all descriptors but `fd`, whose new number
 * is returned. */
int helper_become(const char *name, int fd);

#endif
