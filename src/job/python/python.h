/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_PYTHON_STACK_JSON_H
#define SCRY_JOB_PYTHON_STACK_JSON_H

#include "job/observe/observe.h"
#include "symbols/python/python.h"

#include <jansson.h>

/* A source of the observer: Python programs as the library inside tells of them (src/python, --script calls, lines). */

extern const struct observe_source python_inside;

/*
 * Source of the observer: where the Python programs of the job are, read from their memory (symbols/python/python.h).
 * Nothing is put into them. A record "script_line" when the first thread is at another line of the user's own code, and
 * "python_stack" with all threads at times and when they stand still, both only where there is something new.
 */

extern const struct observe_source python_source;

#endif
