/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the monitor's replies and makes records from them. */
#ifndef SCRY_JOB_WATCH_ANSWER_H
#define SCRY_JOB_WATCH_ANSWER_H

#include <omis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "job/record/recorder.h"

/* Flags of node_get_info (specification 8.1.1). Bits 8 to 12: load, memory, paging, disks, network. Bits 0 to 3: what
 * the node is. Bit 14: no benchmarks, no look at every process, no waiting for rates: nothing of that is kept. */
enum { ANSWER_NODE_SAMPLE = 0x5f00, ANSWER_NODE_STATIC = 0x5f0f };

struct answer_context {
    struct recorder *recorder;
    uint64_t cursor;     /* of job_get_info, updated */
    uint64_t page_bytes; /* known after the first sample */
    bool node_known;
    bool fresh;                    /* the first answer of this monitor: processes that it does not know have ended */
    uint64_t coming;               /* processes, or their ends, not reported yet */
    uint64_t unseen, unclocked_ns; /* as in service/job/follow.h */
    uint64_t lost;                 /* process records lost so far, here or in the kernel */
};

/* The token that job_create returned. 0, or -errno with the monitor's error. */
int answer_token(Omis_reply reply, char *ret_token, size_t size, struct err *err);

/* Reads the answer to watch.c's request, node_get_info and job_get_info. */
int answer_sample(Omis_reply reply, struct answer_context *context, struct err *err);

#endif
