/* SPDX-License-Identifier: Apache-2.0 */
/* A source of the observer: Python programs as the library inside tells of them (src/python, --script calls, lines). */
#ifndef SCRY_JOB_PYTHON_INSIDE_H
#define SCRY_JOB_PYTHON_INSIDE_H

#include "job/observe/observe.h"

extern const struct observe_source python_inside;

#endif
