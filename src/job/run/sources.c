/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/sources.h"

#include <stddef.h>

#include "job/health/health.h"
#include "job/logs/logs.h"
#include "job/python/inside.h"
#include "job/python/outside.h"
#include "job/scripts/scripts.h"

const struct observe_source *const observe_sources[] = {
    &health_source, &python_inside, &logs_source, &python_source, &scripts_source, NULL,
};
