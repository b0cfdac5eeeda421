/* SPDX-License-Identifier: Apache-2.0 */
/* Where the threads of a Python program are, in the user's own code if possible (symbols/python/python.h). */
#ifndef SCRY_JOB_PLACES_PYTHON_PLACES_H
#define SCRY_JOB_PLACES_PYTHON_PLACES_H

#include "base/data/buf.h"
#include "symbols/python/python.h"

struct python_places {
    struct python_stacks stacks;
};

/* Of all threads; of none where the process is no Python, or may not be read. Call python_places_done. */
void python_places_read(struct python_places *ret_places, pid_t pid);
void python_places_done(struct python_places *places);
/* NULL: it is not in Python, or not known where. *ret_loop: it is in asyncio's event loop, which that runs; may be
 * NULL. */
const struct python_frame *python_places_find(const struct python_places *places, pid_t tid, bool *ret_loop);
/* Appends "solve (wait.py:12)". */
void python_place_put(struct buf *out, const struct python_frame *frame);

#endif
