/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of job_follow share: held children, and the reports about them. */
#ifndef SCRY_SERVICE_JOB_TEST_FOLLOW_SUPPORT_H
#define SCRY_SERVICE_JOB_TEST_FOLLOW_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/arena.h"
#include "lang/request.h"
#include "service/job/follow.h"

enum {
    CURSOR,
    TIME,
    SINGLY,
    REASON,
    LOST,
    STARTED,
    ENDED,
    ENDED_CPU,
    PEAK_PROCESSES,
    PEAK_THREADS,
    FORGOTTEN,
    ENDED_COUNT,
    ENDED_LIST,
    ALIVE_COUNT,
    ALIVE_LIST,
    COMING,
    UNSEEN,
    UNCLOCKED,
    MEMBERS
};
enum { ENDED_MEMBERS = 14, ALIVE_MEMBERS = 12 };

struct held {
    pid_t pid;
    int go;
};

struct answer {
    struct arena arena;
    const struct value *values;
};

/* A child that waits for its start. */
struct held hold(void (*work)(void));
void let_go(struct held *held);
void take(struct job_follow *follow, uint64_t cursor, struct answer *answer);
uint64_t number(const struct answer *answer, int member);
const struct value *find_ended(const struct answer *answer, pid_t pid);
/* Takes samples until `member` is `wanted`. */
void take_until(struct job_follow *follow, int member, uint64_t wanted, struct answer *answer);
bool missing_statuses(void);

#endif
