/* SPDX-License-Identifier: Apache-2.0 */
/* scry why, for programs. Both return a new reference, or NULL when out of memory. */
#ifndef SCRY_CLI_WHY_JSON_H
#define SCRY_CLI_WHY_JSON_H

#include <sys/types.h>

#include <jansson.h>

#include "job/places/deadlocks.h"
#include "jobdir/analysis/why.h"

struct why_row {
    const char *id, *state, *note; /* note: "": none */
    const struct mpi_why *mpi;     /* NULL: no ranks are known */
    const struct mpi_stats_set *set;
    const json_t *stall; /* its record, or NULL */
    json_t *cause;       /* or NULL */
    const struct deadlock *locks;
    size_t lock_count;
    const pid_t *processes; /* that are no ranks */
    size_t process_count;
};

json_t *why_json(const struct why_row *row);
json_t *why_schema(void);

#endif
