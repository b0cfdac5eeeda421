/* SPDX-License-Identifier: Apache-2.0 */
/* What a batch system said of its job: the member "batch" of job.json. */
#include "jobdir/report/internal.h"
#include "jobdir/text/text.h"

const struct field job_batch_fields[] = {
    {"system", FIELD_TEXT, .about = "slurm, htcondor, pbs, lsf, sge"},
    {"id", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "its number of the job; null, here and below: it does not say"},
    {"array", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "12_3: the task 3 of the array of jobs 12"},
    {"step", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "of Slurm; null: the batch script"},
    {"partition", FIELD_TEXT, .flags = FIELD_OR_NULL, .about = "or queue"},
    {"nodes", FIELD_COUNT, .flags = FIELD_OR_NULL},
    {"cpus", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "that the job has on this node"},
    {"memory_bytes", FIELD_BYTES, .flags = FIELD_OR_NULL, .about = "that it asked for, on this node"},
    {"time_limit_seconds", FIELD_COUNT, .flags = FIELD_OR_NULL, .about = "that it may run"},
    {0}};

static void put_word(struct buf *out, const json_t *batch, const char *key, const char *label)
{
    const char *text = json_string_value(json_object_get(batch, key));
    if (!text)
        return;
    buf_puts(out, label);
    text_show(out, text);
}

static void put_count(struct buf *out, json_int_t count, const char *one)
{
    buf_printf(out, ", %lld %s%s", (long long)count, one, count == 1 ? "" : "s");
}

void report_batch_text(struct buf *out, const json_t *batch)
{
    json_int_t nodes = json_integer_value(json_object_get(batch, "nodes")),
               cpus = json_integer_value(json_object_get(batch, "cpus")),
               memory = json_integer_value(json_object_get(batch, "memory_bytes")),
               limit = json_integer_value(json_object_get(batch, "time_limit_seconds"));
    if (!batch)
        return;
    text_label(out, "batch");
    put_word(out, batch, "system", "");
    put_word(out, batch, "id", " job ");
    put_word(out, batch, "array", ", array ");
    put_word(out, batch, "step", ", step ");
    put_word(out, batch, "partition", ", ");
    if (nodes > 0)
        put_count(out, nodes, "node");
    if (cpus > 0)
        put_count(out, cpus, "processor");
    if (nodes > 1 && cpus > 0)
        buf_puts(out, " here");
    if (memory > 0) {
        buf_puts(out, ", ");
        text_size(out, (uint64_t)memory);
        buf_puts(out, " of memory asked for");
    }
    if (limit > 0) {
        buf_puts(out, ", at most ");
        text_seconds(out, (double)limit);
    }
    buf_putc(out, '\n');
}
