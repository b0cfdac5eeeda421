/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside jobdir: who waited for whom. analysis/messages_operations.c judges the parts of collective operations,
 * analysis/messages_waits.c messages, and then call by call: one may complete many things, and waits for the last of
 * them.
 */
#ifndef SCRY_JOBDIR_ANALYSIS_MESSAGES_WAITS_H
#define SCRY_JOBDIR_ANALYSIS_MESSAGES_WAITS_H

#include "jobdir/analysis/messages_internal.h"
#include "shm/mpi_told.h"

/* Of a part of a collective operation. */
struct mpi_verdict {
    const struct mpi_done *done; /* the call that completed it; NULL: the one that began it, or not known */
    int64_t until;               /* if it came before that, it waited; INT64_MIN: for nobody */
    uint32_t rank, place;        /* for whom, in which call */
    uint8_t kind;                /* enum mpi_wait_kind */
    bool judged;
};

struct waits {
    struct mpi_messages *messages;
    struct mpi_verdict **verdicts; /* by rank and part */
    uint32_t *same;                /* by place: the first that reads the same */
};

int mpi_waits_judge_operations(struct waits *waits); /* 0 or -ENOMEM */

#endif
