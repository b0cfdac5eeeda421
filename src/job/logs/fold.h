/* SPDX-License-Identifier: Apache-2.0 */
/* At most so many records of one pattern in one file: 10 a second, and 100 a minute. Pure; the caller has the clock. */
#ifndef SCRY_JOB_LOGS_FOLD_H
#define SCRY_JOB_LOGS_FOLD_H

#include <stdbool.h>
#include <stdint.h>

enum { FOLD_SECOND_MOST = 10, FOLD_MINUTE_MOST = 100 };

/* Zeroed: nothing has been recorded yet. */
struct fold {
    uint64_t folded;               /* lines since the last record */
    uint64_t second_ns, minute_ns; /* when the two buckets will be full again */
    uint64_t last_ns;              /* the last line that was folded */
};

/* A line matched. true: it is a record, and *ret_folded lines before it had none. */
bool fold_take(struct fold *fold, uint64_t now_ns, uint64_t *ret_folded);
/* The lines without a record that are to be reported now, for none has followed for a minute; `end`: in any case. */
uint64_t fold_rest(struct fold *fold, uint64_t now_ns, bool end);

#endif
