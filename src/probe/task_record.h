/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the probe: perf's records of births, names, ends and counts of tasks, as they come out of a ring. */
#ifndef SCRY_PROBE_TASK_RECORD_H
#define SCRY_PROBE_TASK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "probe/perf_ring.h"

struct task_record {
    uint64_t time_ns;
    uint32_t order; /* keeps a ring's order among equal times */
    uint16_t type;
    bool exec;
    uint32_t pid, ppid, tid, ptid;
    uint64_t value; /* READ, LOST */
    char comm[16];
};

/* Decodes what we use of a record; false for unexpected kinds and sizes. */
bool task_record_decode(const struct perf_event_header *record, struct task_record *ret_record);
/* By time, for qsort. */
int task_record_compare(const void *a, const void *b);

#endif
