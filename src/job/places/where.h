/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread computes or is blocked, without stopping it. For a computing thread, the kernel's clock event samples
 * its program counter for a short while (perf_event_open(2)), and debug information names the place with the most
 * samples. On a busy machine this waits until the thread had a processor, within limits.
 */
#ifndef SCRY_JOB_PLACES_WHERE_H
#define SCRY_JOB_PLACES_WHERE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/err.h"

/* Appends "do_force (stommel.c:210)", or "do_force (stommel.c:210), in pow (libm.so.6)" where it is in a library of the
 * system that the program has called. 0; -ENODATA: it did not run meanwhile, or its place is not
 * known; -EACCES: not permitted (perf_event_paranoid); other -errno. With err. */
int where_computes(pid_t pid, pid_t tid, struct buf *out, struct err *err);

/*
 * Where in the program blocked threads are: the first function on each stack that belongs neither to the C library nor
 * to a header of the system. Nothing is stopped (symbols/index/lines.h). Returns a new reference to an array of `count`
 * objects with "module" and, if known, "function", "file", "line"; null for threads of which nothing is known. NULL:
 * nothing is known of any.
 */
json_t *where_blocked(pid_t pid, const pid_t *tids, size_t count);

/* Of a stack's addresses, innermost first, as lines_callers has them: the first, from the one of that number on, in a module
 * that is not left out, and in no header of the system. NULL: there is none. */
struct lines;
json_t *where_caller(struct lines *lines, const uint64_t *frames, size_t from, size_t count,
                     bool (*left_out)(const char *module));

/* Appends a place, "take_both (hang.c:42)". false: there is none. */
bool where_put(struct buf *out, const json_t *place);

#endif
