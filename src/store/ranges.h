/* SPDX-License-Identifier: Apache-2.0 */
/* Which numbers of records of a job are stored, and on which day. What comes twice, and what is missing, is known by it. */
#ifndef SCRY_STORE_RANGES_H
#define SCRY_STORE_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

enum { RANGES_MOST = 4096 }; /* of a job; a hostile one could make a hole behind each record */

struct range {
    int64_t first, behind;
    char day[DB_DAY_SIZE]; /* "": never to be had, or dropped */
};

/* In the order of numbers; zero-initialised when empty. */
struct ranges {
    struct range *list;
    size_t count, room;
    int64_t changed; /* the first number of the lowest one that was changed; INT64_MAX: none was */
};

void ranges_done(struct ranges *ranges);
/* 0, -EEXIST, -E2BIG (too many), -ENOMEM. */
int ranges_add(struct ranges *ranges, int64_t seq, const char *day);
/* All that is missing from `first` to before `behind`, as never to be had. *ret_added: how many. As above. */
int ranges_fill(struct ranges *ranges, int64_t first, int64_t behind, int64_t *ret_added);
/* The first one from `from` on that is missing, and the one behind the last of these, at most `end`. */
int64_t ranges_missing(const struct ranges *ranges, int64_t from, int64_t end, int64_t *ret_behind);

/* Forgets all from this number on. */
void ranges_cut(struct ranges *ranges, int64_t behind);

/* From, and to the table. Errors of the database. */
int ranges_load(struct ranges *ranges, struct db *db, int64_t job, struct err *err);
int ranges_save(struct ranges *ranges, struct db *db, int64_t job, struct err *err);

#endif
