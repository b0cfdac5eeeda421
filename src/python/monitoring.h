/* SPDX-License-Identifier: Apache-2.0 */
/* Python 3.12 and 3.13: sys.monitoring with callbacks in C, as a tool of our own beside those of the program. */
#ifndef SCRY_PYTHON_MONITORING_H
#define SCRY_PYTHON_MONITORING_H

#include <stdbool.h>

/* In the main thread, behind watch_start. NULL, or why not. */
const char *monitoring_start(bool lines);

#endif
