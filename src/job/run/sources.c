/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/sources.h"

#include <stddef.h>

const struct observe_source *const observe_sources[] = {
    NULL,
};
