/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: the jobs of the program scry-symbols (symbols/client/helper.h) that read a request from standard input, but for
 * `variable` (symbols/helper/variable.h). Each returns 0 if it is done. */
#ifndef SCRY_SYMBOLS_HELPER_JOBS_H
#define SCRY_SYMBOLS_HELPER_JOBS_H

#include <stdio.h>

int helper_compile(FILE *in, FILE *out);
/* Where all threads of processes are. */
int stacks_main(FILE *in, FILE *out);

/* Begins the time for one function, or for one file of that size: 60 s, and 1 s more for each 16 MB. */
void helper_guard(unsigned long long bytes);

#endif
