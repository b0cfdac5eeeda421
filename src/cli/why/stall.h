/* SPDX-License-Identifier: Apache-2.0 */
/* The record that a job writes when none of its ranks moves any more (scry run --mpi-stall). */
#ifndef SCRY_CLI_WHY_STALL_H
#define SCRY_CLI_WHY_STALL_H

#include <jansson.h>

#include "base/data/buf.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/text/fields.h"

/* `record` may be NULL. Addresses in it get the names that the call sites in `set` have. */
void why_stall_text(struct buf *out, const json_t *record, const struct mpi_stats_set *set);
extern const struct field why_stall_fields[];
json_t *why_stall_json(const json_t *record, const struct mpi_stats_set *set); /* null where there is none */

#endif
