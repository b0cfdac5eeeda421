/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stack for programs of ours that is large enough where that of the user is limited to little (ulimit -s): the limit
 * is meant for the job, and stays as it is for what is started.
 */
#ifndef SCRY_BASE_STACK_H
#define SCRY_BASE_STACK_H

/* What fn returns. Threads get a stack of that size, too. */
int stack_run(int (*fn)(int argc, char **argv), int argc, char **argv);

#endif
