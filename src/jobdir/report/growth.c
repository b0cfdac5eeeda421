/* SPDX-License-Identifier: Apache-2.0 */
/* A job's memory that grows evenly: how fast, and when it comes to a limit. */
#include "jobdir/report/report.h"

#include "jobdir/text/text.h"

#define SOON_SECONDS (24 * 3600.0) /* what comes later is not said */

struct growth {
    double bytes_per_second, seconds;
    double limit_seconds; /* -1: not soon, or there is none */
    const char *limit;    /* "control group", "node" */
};

/* What it has until the limit of its control group; < 0: there is none. Files in memory, which count there, can be read again. */
static double left_in_group(const struct job_model *model, const json_t *group)
{
    const json_t *limit = json_object_get(group, "memory_limit_bytes"),
                 *needed = json_object_get(group, "memory_needed_bytes");
    if (!json_is_number(limit))
        return -1;
    double left = json_number_value(limit) - (needed ? json_number_value(needed) : (double)model->rss);
    return left > 0 ? left : 0;
}

static bool growth_of(const struct job_report *report, struct growth *ret_growth)
{
    const struct job_model *model = &report->model;
    const json_t *health = model->layers.health;
    const json_t *available = json_object_get(json_object_get(health, "memory"), "available_bytes");
    struct growth growth = {.limit_seconds = -1};
    growth.bytes_per_second = trend_growth(&model->growth, &growth.seconds);
    if (growth.bytes_per_second <= 0)
        return false;
    double group = left_in_group(model, json_object_get(health, "cgroup")), node = json_number_value(available);
    bool own = group >= 0 && (!json_is_number(available) || group < node);
    double left = own ? group : json_is_number(available) ? node : -1;
    if (left >= 0 && left < SOON_SECONDS * growth.bytes_per_second) {
        growth.limit_seconds = left / growth.bytes_per_second;
        growth.limit = own ? "control group" : "node";
    }
    *ret_growth = growth;
    return true;
}

bool job_report_put_growth(struct buf *out, const struct job_report *report)
{
    struct growth growth;
    bool over = report->info.ended || report->model.end;
    if (!growth_of(report, &growth))
        return false;
    buf_puts(out, over ? "grew " : "grows ");
    text_size(out, (uint64_t)growth.bytes_per_second);
    buf_puts(out, over ? "/s in its last " : "/s since ");
    text_seconds(out, growth.seconds);
    if (over || growth.limit_seconds < 0)
        return true;
    buf_printf(out, "; at this rate the limit of its %s in ", growth.limit);
    text_seconds(out, growth.limit_seconds);
    return true;
}

static json_t *limit_json(const void *row, const void *all)
{
    const struct growth *growth = row;
    return growth->limit_seconds >= 0 ? json_real(growth->limit_seconds) : json_null();
}

static const struct field growth_fields[] = {
    {"bytes_per_second", FIELD_NUMBER, FIELD_AT(struct growth, bytes_per_second)},
    {"seconds", FIELD_SECONDS, FIELD_AT(struct growth, seconds), .about = "for which it has grown so"},
    {"limit_seconds", FIELD_NUMBER, .flags = FIELD_OR_NULL, .json = limit_json,
     .about = "until that limit, at this rate; null: not within a day"},
    {"limit", FIELD_TEXT, FIELD_AT(struct growth, limit), FIELD_ZERO_IS_NULL,
     .about = "which it reaches first: of its control group, or the node's memory"},
    {0}};

static json_t *growth_json(const void *row, const void *all)
{
    struct growth growth;
    return growth_of(row, &growth) ? fields_json(growth_fields, &growth, NULL) : json_null();
}

const struct field report_growth_fields[] = {
    {"growth", FIELD_OBJECT, .flags = FIELD_OR_NULL, .json = growth_json, .of = growth_fields,
     .about = "of the memory of all processes, where it grows evenly, or did until the end; null: it does not"},
    {0}};
