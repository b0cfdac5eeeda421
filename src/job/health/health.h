/* SPDX-License-Identifier: Apache-2.0 */
/* The source `health` of the observer: looks at the node, the control group, file systems, processes and credentials.
 */
#ifndef SCRY_JOB_HEALTH_HEALTH_H
#define SCRY_JOB_HEALTH_HEALTH_H

#include "job/observe/observe.h"

extern const struct observe_source health_source;

#endif
