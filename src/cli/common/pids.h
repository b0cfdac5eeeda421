/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of processes in place of a job: what scry why and scry snapshot take of programs that scry did not start. */
#ifndef SCRY_CLI_COMMON_PIDS_H
#define SCRY_CLI_COMMON_PIDS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/err.h"
#include "options/options.h"

/* Are the words of the command line such numbers, and not a job? Several words never are a job. */
bool pids_are_meant(const struct options *options);

/* These, and all that they have started, without those that have ended; free(). Logs what is wrong with each that may not be looked
 * at. The exit status; with errors *ret_count may be above 0: of the others. */
int pids_take(const struct options *options, pid_t **ret_list, size_t *ret_count);

/* The same again and again: says nothing, and who has ended is left out. */
void pids_living(const struct options *options, pid_t **ret_list, size_t *ret_count);

/* Whether its threads may be read. 0, or -errno with err, which says why not: it is none, has ended, is of the kernel, or of
 * somebody else. */
int pid_check(pid_t pid, struct err *err);

#endif
