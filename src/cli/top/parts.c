/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a job on other nodes, followed while they grow. */
#include <stdlib.h>
#include <string.h>

#include "base/system/pause.h"
#include "cli/top/top.h"
#include "jobdir/record/parts.h"
#include "shm/waits.h"

struct parts_adding {
    struct parts *parts;
    struct job_report *report;
};

static int part_add(void *ctx, const char *dir)
{
    struct parts_adding *look = ctx;
    struct parts *parts = look->parts;
    struct job_report *report = look->report;
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
    job_dirs_each(report->path, part_add, &(struct parts_adding){parts, report});
}

void parts_read(struct parts *parts, struct job_report *report)
{
    for (size_t i = 0; i < parts->count && i < report->part_count; i++)
        for (json_t *record; (record = spool_reader_next(&parts->readers[i]));) {
            job_model_apply(&report->parts[i].model, record);
            json_decref(record);
        }
}

static bool is_over(const struct job_report *part)
{
    return part->info.ended || part->state == JOB_ENDED || part->state == JOB_LOST;
}

struct parts_now parts_sum(const struct job_report *report)
{
    struct parts_now now = {0};
    for (size_t i = 0; i <= report->part_count; i++) {
        const struct job_model *model = job_report_model(report, i);
        bool over = i && is_over(&report->parts[i - 1]);
        now.started += model->started_total;
        now.cpu_ns += model->cpu_ns;
        if (over)
            continue;
        now.nodes++;
        now.processes += model->processes;
        now.threads += model->threads;
        now.rss += model->rss;
        now.memory += job_model_memory(model);
        now.cpu_share += model->cpu_share;
    }
    return now;
}

double parts_silent_seconds(const struct job_report *report, const struct job_report *part)
{
    enum { SAMPLES = 5 };
    double silent = job_report_result(report).wall_seconds - part->shift - part->model.last_seconds;
    double most = SAMPLES * part->info.sample_seconds;
    double least = (double)time_hasten(PARTS_SILENT_S * UINT64_C(1000)) / 1000;
    return is_over(part) || report->info.ended || silent <= (most > least ? most : least) ? 0 : silent;
}

void parts_done(struct parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        spool_reader_close(&parts->readers[i]);
    free(parts->readers);
    *parts = (struct parts){0};
}
