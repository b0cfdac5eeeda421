/* SPDX-License-Identifier: Apache-2.0 */
/* Section of a report: the node's health over time, file systems, warnings about both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/layers/sections.h"
#include "jobdir/text/text.h"

enum { SPARK_COLUMNS = 40, SPARK_WINDOWS = 8, SHOWN_FILESYSTEMS = 10 };

/* ---- curves ---- */

/* How its values look, and what is not worth a line. */
static const struct {
    enum layer_curve curve;
    const char *name, *label;
    enum { AS_SHARE, AS_SIZE, AS_RATE } as;
    double least;
} curves[] = {
    {CURVE_CPU, "cpu", "processors busy", AS_SHARE, 0},
    {CURVE_IOWAIT, "iowait", "waiting for disks", AS_SHARE, 0.05},
    {CURVE_STEAL, "steal", "taken by other guests", AS_SHARE, 0.02},
    {CURVE_MEMORY, "memory", "memory used", AS_SHARE, 0},
    {CURVE_CGROUP_MEMORY, "cgroup_memory", "memory of the limit", AS_SHARE, 0},
    {CURVE_SWAP, "swap_bytes", "swap used", AS_SIZE, 1},
    {CURVE_PRESSURE_CPU, "pressure_cpu", "tasks short of CPU", AS_SHARE, 0.05},
    {CURVE_PRESSURE_MEMORY, "pressure_memory", "tasks short of memory", AS_SHARE, 0.01},
    {CURVE_PRESSURE_IO, "pressure_io", "tasks short of disks", AS_SHARE, 0.05},
    {CURVE_DISK_READ, "disk_read_bytes", "disks read", AS_RATE, 1 << 20},
    {CURVE_DISK_WRITTEN, "disk_written_bytes", "disks written", AS_RATE, 1 << 20},
    {CURVE_RECEIVED, "received_bytes", "network received", AS_RATE, 1 << 20},
    {CURVE_SENT, "sent_bytes", "network sent", AS_RATE, 1 << 20},
};
enum { CURVES = sizeof curves / sizeof *curves };
_Static_assert((int)CURVES == (int)LAYER_CURVES, "each curve has a row");

static void put_curves(struct buf *out, const struct layers *layers, bool ascii)
{
    for (size_t i = 0; i < CURVES && layers->curves; i++) {
        const struct series *series = &layers->curves[curves[i].curve];
        double most = series_max(series);
        size_t columns = series->used < SPARK_COLUMNS ? series->used : SPARK_COLUMNS;
        if (!series->used || most < curves[i].least)
            continue;
        buf_printf(out, "  %-22s ", curves[i].label);
        if (columns >= SPARK_WINDOWS) {
            series_sparkline(series, out, columns, curves[i].as == AS_SHARE ? 1 : 0, ascii);
            buf_putc(out, ' ');
        }
        buf_puts(out, "up to ");
        if (curves[i].as == AS_SHARE)
            buf_printf(out, "%.0f %%", 100 * most);
        else
            text_size(out, (uint64_t)fmin(most, 1e18));
        buf_puts(out, curves[i].as == AS_RATE ? "/s\n" : "\n");
    }
}

/* ---- file systems ---- */

static const struct field filesystem_fields[] = {
    {"path", FIELD_TEXT, FIELD_AT(struct layer_filesystem, path), .column = {1, 2, -28, "File systems"}},
    {"total_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, total_bytes), FIELD_NEGATIVE_IS_NULL,
     .column = {2, 1, 10, "size", .none = "?"}},
    {"least_free_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, least_free_bytes), FIELD_NEGATIVE_IS_NULL,
     .column = {3, 1, 11, "least free", .none = "?"}},
    {"least_free_at", FIELD_SECONDS, FIELD_AT(struct layer_filesystem, least_at), .about = "when that was"},
    {"free_bytes", FIELD_BYTES, FIELD_AT(struct layer_filesystem, free_bytes), FIELD_NEGATIVE_IS_NULL,
     .about = "as last seen", .column = {4, 1, 10, "at last", .none = "?"}},
    {"inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, inodes), FIELD_NEGATIVE_IS_NULL},
    {"least_free_inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, least_free_inodes), FIELD_NEGATIVE_IS_NULL},
    {"free_inodes", FIELD_INTEGER, FIELD_AT(struct layer_filesystem, free_inodes), FIELD_NEGATIVE_IS_NULL},
    {0}};

static double free_share(const struct layer_filesystem *system)
{
    return system->total_bytes > 0 ? (double)system->least_free_bytes / (double)system->total_bytes : 1;
}

static int by_free(const void *a, const void *b)
{
    const struct layer_filesystem *left = *(struct layer_filesystem *const *)a,
                                  *right = *(struct layer_filesystem *const *)b;
    double left_share = free_share(left), right_share = free_share(right);
    if (left_share != right_share)
        return left_share < right_share ? -1 : 1;
    return strcmp(left->path, right->path);
}

void health_text(struct buf *out, const struct layers *layers, bool ascii)
{
    size_t count;
    if (!layers->health)
        return;
    buf_puts(out, "\nHealth of the node\n");
    put_curves(out, layers, ascii);
    _cleanup_(freep) const struct layer_filesystem **systems = SORTED(layers->filesystems, &count, by_free);
    fields_table(out,
                 &(struct field_table){filesystem_fields, .most = SHOWN_FILESYSTEMS, .more = " (--json lists them)"},
                 systems, count, 0, layers);
}

/* ---- for programs ---- */

static json_t *windows_json(const struct series *series)
{
    json_t *list = json_array();
    for (size_t i = 0; i < series->used; i++)
        json_array_append_new(list, series->max[i] >= 0 ? json_real(series->max[i]) : json_null());
    return list;
}

static json_t *curves_json(const void *row, const void *all)
{
    const struct layers *layers = row;
    json_t *list = json_array();
    for (size_t i = 0; i < CURVES && layers->curves; i++) {
        const struct series *series = &layers->curves[curves[i].curve];
        if (series->used)
            json_array_append_new(list,
                                  json_pack("{s:s, s:f, s:f, s:o}", "name", curves[i].name, "most", series_max(series),
                                            "window_seconds", series->width_seconds, "max", windows_json(series)));
    }
    return list;
}

static const struct field curve_fields[] = {
    {"name", FIELD_CHOICE,
     .choices = "cpu|iowait|steal|memory|cgroup_memory|swap_bytes|pressure_cpu|pressure_memory|pressure_io|"
                "disk_read_bytes|disk_written_bytes|received_bytes|sent_bytes"},
    {"most", FIELD_NUMBER, .about = "the greatest value; shares are from 0 to 1, of disks and network bytes a second"},
    {"window_seconds", FIELD_NUMBER},
    {"max", FIELD_LIST, .of = fields_numbers, .about = "the greatest value in each window; null: not measured"},
    {0}};

static json_t *filesystems_json(const void *row, const void *all)
{
    return SORTED_JSON(((const struct layers *)row)->filesystems, by_free, filesystem_fields);
}

const struct field health_fields[] = {
    {"curves", FIELD_LIST, .json = curves_json, .of = curve_fields, .about = "that were measured"},
    {"filesystems", FIELD_LIST, .json = filesystems_json, .of = filesystem_fields,
     .about = "with the least left first"},
    {"oom_kills", FIELD_COUNT, FIELD_AT(struct layers, oom_kills),
     .about = "processes of the control group that the kernel killed for lack of memory"},
    {0}};
