/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The right moment to start: after the C library's own initialiser, for before it there is no environment and dlopen
 * would keep it from ever having one, and before the constructors of all other libraries, whose calls are to be
 * recorded. The agent is linked with -z initfirst: its constructor runs before the C library's initialiser, and puts
 * itself behind it.
 */
#ifndef SCRY_AGENT_EARLY_H
#define SCRY_AGENT_EARLY_H

#include <stdbool.h>

typedef void early_function(int argc, char **argv, char **envp);

/* Of a constructor: `fn` is called when the C library's initialiser has run, with its arguments. False: that has run
 * already, or cannot be waited for; nothing is changed then. */
bool early_after_libc(early_function *fn);
/* Whether that constructor was before all others. */
bool early_was_first(void);

#endif
