/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which lines of the source places in programs are: function, file and line of each, by the debug information of the
 * module, if it still is the one that ran (its build-id is compared). What was found is kept in stats/sites.json of the
 * job directory, so that a program that is rebuilt or removed later keeps its names.
 */
#ifndef SCRY_JOB_PLACE_NAMES_H
#define SCRY_JOB_PLACE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"

enum { PLACE_NAMES_TIMEOUT_MS = 10000 };

struct place_names;

struct place_name {
    bool found;
    const char *function, *file; /* NULL: not known */
    uint32_t line;
};

int place_names_new(struct place_names **ret_names, struct arena *arena); /* 0, -ENOMEM; what it finds is in arena */
void place_names_free(struct place_names *names);

/* Something to look for: a return address, as the file of the module has it (hexadecimal build_id, "": it has none).
 * inlined: it is in the code of an inlined function, whose caller is meant. The texts are borrowed. The same place
 * again is the same one; its name is filled in by place_names_find. NULL: too many, or no memory. */
const struct place_name *place_names_add(struct place_names *names, const char *module, const char *build_id,
                                         uint64_t offset, bool inlined);

/* Looks for all, in a child that has so long. 0; 1: some could not be found, with err saying why for the first;
 * -ENOMEM. */
int place_names_find(struct place_names *names, const char *jobdir, unsigned timeout_ms, struct err *err);

#endif
