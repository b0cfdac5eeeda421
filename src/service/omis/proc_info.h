/* SPDX-License-Identifier: Apache-2.0 */
/* The members of proc_get_info: one row each, in the order of their bits. */
#ifndef SCRY_SERVICE_OMIS_PROC_INFO_H
#define SCRY_SERVICE_OMIS_PROC_INFO_H

#include "base/data/buf.h"
#include "monitor/engine/process.h"

enum {
    PROC_INFO_BITS = 25,
    PROC_INFO_PRIVATE = 1 << 1 | 1 << 4 | 1 << 5, /* arguments and environment */
};

/* Appends the members that flags select, comma-separated. 0 or -errno (-ESRCH: it is gone). */
int proc_info_print(struct process *process, uint64_t flags, struct buf *out);

#endif
