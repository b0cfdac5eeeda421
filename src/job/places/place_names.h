/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the source lines of places in programs: function, file and line, by the debug information of the module, if it
 * is still the one that ran (by build-id). Found names are kept in stats/sites.json of the job directory, so that a
 * program that is rebuilt or removed later keeps its names.
 */
#ifndef SCRY_JOB_PLACES_PLACE_NAMES_H
#define SCRY_JOB_PLACES_PLACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "base/data/err.h"

struct place_names;

struct place_name {
    bool found;
    const char *function, *file; /* NULL: not known */
    uint32_t line;
};

int place_names_new(struct place_names **ret_names, struct arena *arena); /* 0, -ENOMEM; names are in arena */
void place_names_free(struct place_names *names);

/* Adds a place to look for: a return address in the module's file (hexadecimal build_id; "": none). inlined: it is in
 * the code of an inlined function, and the caller is wanted. The texts are borrowed. Equal places are the same pointer.
 * place_names_find fills in the name. NULL: too many, or no memory. */
const struct place_name *place_names_add(struct place_names *names, const char *module, const char *build_id,
                                         uint64_t offset, bool inlined);

/* Looks for all of them in a child, for at most timeout_ms. 0; 1: some were not found, with err for the first; -ENOMEM.
 */
int place_names_find(struct place_names *names, const char *jobdir, unsigned timeout_ms, struct err *err);

#endif
