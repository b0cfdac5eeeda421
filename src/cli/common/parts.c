/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/parts.h"

#include <stdlib.h>
#include <string.h>

struct looking {
    struct parts *parts;
    struct job_report *report;
};

static int look_at(void *ctx, const char *dir)
{
    struct looking *looking = ctx;
    struct parts *parts = looking->parts;
    struct job_report *report = looking->report;
    if (dir == report->path)
        return 0;
    for (size_t i = 0; i < report->part_count; i++)
        if (strcmp(report->parts[i].path, dir) == 0)
            return 0;
    struct spool_reader *grown = realloc(parts->readers, (parts->count + 1) * sizeof *grown), reader;
    if (!grown)
        return 0;
    parts->readers = grown;
    if (spool_reader_open(&reader, dir, NULL) < 0) {
        spool_reader_close(&reader); /* it has just been made: the next time */
        return 0;
    }
    if (!job_report_add_part(report, dir)) {
        spool_reader_close(&reader);
        return -1;
    }
    parts->readers[parts->count++] = reader;
    return 0;
}

void parts_look(struct parts *parts, struct job_report *report)
{
    for (size_t i = 0; i < parts->count; i++)
        if (!report->parts[i].info.ended)
            job_report_look_at_part(report, &report->parts[i]);
    job_dirs_each(report->path, look_at, &(struct looking){parts, report});
}

void parts_read(struct parts *parts, struct job_report *report)
{
    for (size_t i = 0; i < parts->count && i < report->part_count; i++)
        for (json_t *record; (record = spool_reader_next(&parts->readers[i]));) {
            job_model_apply(&report->parts[i].model, record);
            json_decref(record);
        }
}

void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        spool_reader_close(&parts->readers[i]);
    free(parts->readers);
    *parts = (struct parts){0};
}
