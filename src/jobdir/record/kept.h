/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of which a job may have any number, warnings above all: of each kind the first ones and the last ones are kept, and all are
 * counted. So neither a supervisor nor a report grows with them.
 */
#ifndef SCRY_JOBDIR_RECORD_KEPT_H
#define SCRY_JOBDIR_RECORD_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>
#include <uthash.h>

#include "jobdir/text/fields.h"

/* Of each kind: the first KEPT_EACH, and at least as many of the last; never three times as many. Beyond KEPT_KINDS all others are one. */
enum { KEPT_EACH = 100, KEPT_KINDS = 200 };

struct kept_kind {
    uint64_t total;
    size_t kept;
    UT_hash_handle hh;
    char name[];
};

struct kept {
    json_t *records; /* an array, in their order; the same one until kept_done */
    uint64_t total;
    struct kept_kind *kinds; /* hash by name */
};

int kept_init(struct kept *kept); /* 0, or -ENOMEM */
void kept_done(struct kept *kept);
/* `record` is borrowed; its kind is its "note", else its "kind", else "". */
void kept_add(struct kept *kept, const json_t *record);
/* How many are not kept, by kinds: an array of kept_omitted_fields; empty: all are. A new reference. */
json_t *kept_omitted(const struct kept *kept);
extern const struct field kept_omitted_fields[];

#endif
