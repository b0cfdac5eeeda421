/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: the jobs of the program scry-symbols (symbols/client/helper.h). Each returns the program's exit
 * status. */
#ifndef SCRY_SYMBOLS_HELPER_JOBS_H
#define SCRY_SYMBOLS_HELPER_JOBS_H

#include <stdio.h>

int helper_index(char *const *files, int count, FILE *in, FILE *out);
int helper_compile(FILE *in, FILE *out);

/* Begins the time for one function, or for one file of that size: 60 s, and 1 s more for each 16 MB. */
void helper_guard(unsigned long long bytes);

#endif
