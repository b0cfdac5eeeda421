/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs our programs on a stack that is large enough even if the user's limit is small (ulimit -s). The limit is for the
 * job, and stays for the programs that are started.
 */
#ifndef SCRY_BASE_SYSTEM_STACK_H
#define SCRY_BASE_SYSTEM_STACK_H

/* Returns fn's result. Threads get stacks of that size, too. */
int stack_run(int (*fn)(int argc, char **argv), int argc, char **argv);

#endif
