/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread computes, or is blocked, without stopping it. Of one that computes the kernel's clock event takes
 * samples of its program counter for a short while (perf_event_open(2)), and the place with the most is named by debug
 * information. On a busy machine that takes until it had a processor, but not for long.
 */
#ifndef SCRY_JOB_WHERE_H
#define SCRY_JOB_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

enum { WHERE_SAMPLE_MS = 60, WHERE_SAMPLE_MOST_MS = 1000, WHERE_TIMEOUT_MS = 10000 };

/* Appends "do_force (stommel.c:210)", or "libm.so.6+0x1234". 0; -ENODATA: it did not run meanwhile, or nothing is known
 * of the place; -EACCES where the system forbids it (perf_event_paranoid), -errno, with err. */
int where_computes(pid_t pid, pid_t tid, struct buf *out, struct err *err);

/*
 * From where in the program threads of a process came to what they are blocked in: the first function on their stacks
 * that belongs neither to the C library nor to a header of the system. Nothing is stopped (symbols/index/lines.h). A
 * new reference to an array of `count` objects, "module", and "function", "file", "line" where they are known; null of
 * those of which nothing is. NULL: of none is anything.
 */
json_t *where_blocked(pid_t pid, const pid_t *tids, size_t count);

/* Appends such a place, "take_both (hang.c:42)"; false: there is none. */
bool where_put(struct buf *out, const json_t *place);

#endif
