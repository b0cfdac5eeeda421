/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/sources.h"

#include <stddef.h>

#include "job/health/health.h"

const struct observe_source *const observe_sources[] = {
    &health_source,
    NULL,
};
