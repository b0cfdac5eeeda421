/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_PLACES_WHERE_H
#define SCRY_JOB_PLACES_WHERE_H

#include "base/data/buf.h"
#include "base/data/err.h"
#include "symbols/python/python.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Where a thread computes or is blocked, without stopping it. For a computing thread, the kernel's clock event samples
 * its program counter for a short while (perf_event_open(2)), and debug information names the place with the most
 * samples. On a busy machine this waits until the thread had a processor, within limits.
 */

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

/* Appends a place, "take_both (hang.c:42)". false: there is none. */
bool where_put(struct buf *out, const json_t *place);

/* Where the threads of a Python program are, in the user's own code if possible (symbols/python/python.h). */

struct python_places {
    struct python_stacks stacks;
};

/* Of all threads; of none where the process is no Python, or may not be read. Call python_places_done. */
void python_places_read(struct python_places *ret_places, pid_t pid);
void python_places_done(struct python_places *places);
/* NULL: it is not in Python, or not known where. *ret_loop: it is in asyncio's event loop, which that runs; may be
 * NULL. */
const struct python_frame *python_places_find(const struct python_places *places, pid_t tid, bool *ret_loop);
/* As python_waits_for. */
const char *python_places_waits(const struct python_places *places, pid_t tid);
/* Appends "solve (wait.py:12)". */
void python_place_put(struct buf *out, const struct python_frame *frame);

#endif
