/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/fold.h"

#include "base/system/clock.h"

#define MINUTE_NS (60 * (uint64_t)NS_PER_SECOND)

/* A bucket of `most` that fills up in `period_ns` is kept as the moment at which it is full. */
static uint64_t after_one(uint64_t full_ns, uint64_t now_ns, uint64_t period_ns, uint64_t most)
{
    return (full_ns > now_ns ? full_ns : now_ns) + period_ns / most;
}

bool fold_take(struct fold *fold, uint64_t now_ns, uint64_t *ret_folded)
{
    uint64_t second = after_one(fold->second_ns, now_ns, NS_PER_SECOND, FOLD_SECOND_MOST);
    uint64_t minute = after_one(fold->minute_ns, now_ns, MINUTE_NS, FOLD_MINUTE_MOST);
    if (second > now_ns + NS_PER_SECOND || minute > now_ns + MINUTE_NS) {
        fold->folded++;
        fold->last_ns = now_ns;
        return false;
    }
    fold->second_ns = second;
    fold->minute_ns = minute;
    *ret_folded = fold->folded;
    fold->folded = 0;
    return true;
}

uint64_t fold_rest(struct fold *fold, uint64_t now_ns, bool end)
{
    if (!fold->folded || (!end && now_ns < fold->last_ns + MINUTE_NS))
        return 0;
    uint64_t rest = fold->folded;
    fold->folded = 0;
    return rest;
}
