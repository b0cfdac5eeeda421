/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The right moment to start: after the C library's own initialiser (before it there is no environment, and dlopen would
 * prevent it for good), and before the constructors of all other libraries, whose calls are to be recorded. The agent
 * is linked with -z initfirst: its constructor runs before the C library's initialiser, and registers itself to run
 * after it.
 */
#ifndef SCRY_AGENT_HOOKS_EARLY_H
#define SCRY_AGENT_HOOKS_EARLY_H

#include <stdbool.h>

typedef void early_function(int argc, char **argv, char **envp);

/* For a constructor: calls `fn` when the C library's initialiser has run, with its arguments. False, and nothing is
 * changed: it has run already, or cannot be waited for. */
bool early_after_libc(early_function *fn);
/* Did that constructor run before all others? */
bool early_was_first(void);

#endif
