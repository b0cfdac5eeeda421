/* SPDX-License-Identifier: Apache-2.0 */
/* Programs whose functions say themselves when they begin (+NAME) and when they return (-NAME); where they are left in
 * another way they say nothing. On thread exits and jumps that would be ambiguous, so one thread does all. */
#pragma once

#include <stdio.h>

#define QUIET __attribute__((no_instrument_function))
#define SEPARATE __attribute__((noinline))

QUIET static inline void begins(const char *name)
{
    printf("+%s\n", name);
}

QUIET static inline void returns(const char *name)
{
    printf("-%s\n", name);
}

#define BEGINS begins(__func__)
#define RETURNS returns(__func__)
