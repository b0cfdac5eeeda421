/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread computes, without stopping it: the kernel's clock event takes samples of its program counter for a
 * short while (perf_event_open(2)), and the place with the most is named by debug information. On a busy machine that
 * takes until it had a processor, but not for long.
 */
#ifndef SCRY_JOB_WHERE_H
#define SCRY_JOB_WHERE_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum { WHERE_SAMPLE_MS = 60, WHERE_SAMPLE_MOST_MS = 1000, WHERE_TIMEOUT_MS = 10000 };

/* Appends "do_force (stommel.c:210)", or "libm.so.6+0x1234". 0; -ENODATA: it did not run meanwhile, or nothing is known
 * of the place; -EACCES where the system forbids it (perf_event_paranoid), -errno, with err. */
int where_computes(pid_t pid, pid_t tid, struct buf *out, struct err *err);

#endif
