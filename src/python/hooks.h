/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_PYTHON_HOOKS_H
#define SCRY_PYTHON_HOOKS_H

#include <stdbool.h>

/*
 * Python 3.9 to 3.11: a profile function (level calls) or a trace function (level lines) in C, in each thread that
 * Python makes. The program sees neither: sys.getprofile() and sys.gettrace() are None. If it sets its own, that
 * replaces ours, until it takes its own away again: then ours comes back when it executes some code, as notebooks do for
 * each cell.
 */

/* In the main thread, behind watch_start. NULL, or why not. */
const char *profile_start(bool lines);
/* An audit event of Python, behind profile_start: has the program set such a function? */
void profile_audit(const char *event);
/* The program is about to execute code, in this thread. */
void profile_resume(void);

/* Python 3.12 and 3.13: sys.monitoring with callbacks in C, as a tool of our own beside those of the program. */

/* In the main thread, behind watch_start. NULL, or why not. */
const char *monitoring_start(bool lines);

#endif
