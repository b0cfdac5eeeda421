/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why/json.h"

#include "cli/why/processes.h"
#include "cli/why/stall.h"
#include "jobdir/layers/last.h"
#include "jobdir/report/why_json.h"

static json_t *mpi_json(const void *row, const void *all)
{
    const struct mpi_why *mpi = ((const struct why_row *)row)->mpi;
    return mpi ? fields_json(mpi_why_fields, mpi, mpi) : json_null();
}

static json_t *locks_json(const void *row, const void *all)
{
    const struct why_row *why = row;
    return fields_list(deadlock_fields, why->locks, why->lock_count, sizeof *why->locks, NULL);
}

static json_t *stall_json(const void *row, const void *all)
{
    return why_stall_json(((const struct why_row *)row)->stall, ((const struct why_row *)row)->set);
}

static json_t *processes_json(const void *row, const void *all)
{
    return why_processes_json(((const struct why_row *)row)->processes, ((const struct why_row *)row)->process_count);
}

static const struct field fields[] = {
    {"id", FIELD_TEXT, FIELD_AT(struct why_row, id)},
    {"state", FIELD_TEXT, FIELD_AT(struct why_row, state), .about = "of the job"},
    {"cause", FIELD_OBJECT, FIELD_AT(struct why_row, cause), FIELD_OR_NULL, .of = last_reason_fields,
     .about =
         "of a job that failed the most probable reason, a [note](notes.md); null: it did not, or nothing says why"},
    {"mpi", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = mpi_json, .of = mpi_why_fields},
    {"deadlocks", FIELD_LIST, .json = locks_json, .of = deadlock_fields,
     .about = "of a running job, of processes that are no ranks: threads that wait for each other in a circle"},
    {"stall", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = stall_json, .of = why_stall_fields,
     .about = "when the job last recorded that its ranks stood still, and why they did then (scry run --mpi-stall)"},
    {"processes", FIELD_LIST, .json = processes_json, .of = why_process_fields,
     .about = "of a running job, those that are no ranks"},
    {"note", FIELD_TEXT, FIELD_AT(struct why_row, note), FIELD_ZERO_IS_NULL,
     .about = "why something is not as new or as complete as it could be"},
    {0}};

json_t *why_json(const struct why_row *row)
{
    return fields_json(fields, row, NULL);
}

json_t *why_schema(void)
{
    return fields_schema(fields);
}
