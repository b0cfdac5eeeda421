/* SPDX-License-Identifier: Apache-2.0 */
/* What the observer of a job looks at (job/observe/observe.h): the one table, which ends with NULL. */
#ifndef SCRY_JOB_RUN_SOURCES_H
#define SCRY_JOB_RUN_SOURCES_H

#include "job/observe/observe.h"

extern const struct observe_source *const observe_sources[];

#endif
