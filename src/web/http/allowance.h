/* SPDX-License-Identifier: Apache-2.0 */
/* A limit of requests: so many a second, of which some may be saved up. */
#ifndef SCRY_WEB_HTTP_ALLOWANCE_H
#define SCRY_WEB_HTTP_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/system/clock.h"

struct allowance {
    double left;
    uint64_t at_ns; /* CLOCK_MONOTONIC: so many were left then */
};

/* May there be one more, now? Then it is counted. */
static inline bool allowance_take(struct allowance *allowance, double a_second, double saved_most)
{
    uint64_t now_ns = clock_now_ns();
    allowance->left += (double)(now_ns - allowance->at_ns) / NS_PER_SECOND * a_second;
    if (allowance->left > saved_most)
        allowance->left = saved_most;
    allowance->at_ns = now_ns;
    if (allowance->left < 1)
        return false;
    allowance->left -= 1;
    return true;
}

#endif
