/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the monitor's replies apart and turns what they say into records. */
#ifndef SCRY_JOB_ANSWER_H
#define SCRY_JOB_ANSWER_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "job/recorder.h"

/* Flags of node_get_info (specification 8.1.1): bits 8, 9, 10, 11 and 12 are the load, the memory, paging, disks and
 * the network; bits 0 to 3 say what the node is. */
enum { ANSWER_NODE_SAMPLE = 0x1f00, ANSWER_NODE_STATIC = 0x1f0f };

struct answer_context {
    struct recorder *recorder;
    uint64_t cursor;     /* of job_get_info, updated */
    uint64_t page_bytes; /* known after the first sample */
    bool node_known;
    bool fresh;                    /* the first answer of this monitor: what it does not know ended before it */
    uint64_t coming;               /* processes that were not told yet, or whose end was not */
    uint64_t unseen, unclocked_ns; /* as job_get_info tells them: service/job/follow.h */
    uint64_t lost;                 /* process records that were lost on the way so far, here or in the kernel */
};

/* The token that job_create returned. 0, or -errno with what the monitor says. */
int answer_token(Omis_reply reply, char *ret_token, size_t size, struct err *err);

/* node_get_info and job_get_info, as asked for by watch.c. */
int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err);

#endif
