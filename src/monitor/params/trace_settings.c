/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/params/trace_settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/params/mpi_params.h"
#include "options/options.h"
#include "shm/mpi_area.h"
#include "shm/waits.h"

enum {
    DEFAULT_STRING = 64,
    DEFAULT_ARRAY = 8,
    DEFAULT_VALUES = 1024,
    MOST_VALUES = 4000, /* a little below what a record holds */
};

/* Where the value is: bool, unsigned (numbers and choices), uint64_t (times and sizes), or a malloc'ed text. */
static const struct setting {
    const char *key;
    size_t offset;
} rows[] = {
#define AT(field) offsetof(struct trace_settings, field)
    {"trace", AT(selection)},
    {"args", AT(args)},
    {"locals", AT(locals)},
    {"statics", AT(statics)},
    {"count-only", AT(count_only)},
    {"depth", AT(depth)},
    {"array-items", AT(array_items)},
    {"string-bytes", AT(string_bytes)},
    {"min-time", AT(min_ns)},
    {"max-depth", AT(max_depth)},
    {"rate", AT(rate)},
    {"buffer", AT(buffer_bytes)},
    {"max-size", AT(max_bytes)},
    {"overflow", AT(policy)},
    {"read-by", AT(reader)},
    {"on", AT(on)},
    {"loaded", AT(loaded)},
    {"mpi", AT(mpi)},
    {"mpi-metrics", AT(mpi_metrics)},
    {"mpi-resolution", AT(mpi_bits)},
    {"mpi-distributions", AT(mpi_distributions)},
#undef AT
};
enum { ROWS = sizeof rows / sizeof *rows };

void trace_settings_done(struct trace_settings *settings)
{
    free(settings->selection);
    free(settings->mpi_distributions);
    free(settings->statics);
    settings->selection = settings->mpi_distributions = settings->statics = NULL;
}

int trace_settings_init(struct trace_settings *settings)
{
    *settings = (struct trace_settings){.on = true, .value_bytes = DEFAULT_VALUES, .wait_us = TRACE_WAIT_US};
    settings->selection = strdup("");
    settings->statics = strdup("");
    int code = settings->selection && settings->statics ? 0 : -ENOMEM;
    for (size_t i = 0; i < ROWS && code == 0; i++) {
        const char *otherwise = option_find_monitor(rows[i].key)->otherwise;
        code = otherwise ? trace_settings_set(settings, rows[i].key, otherwise, NULL) : 0;
    }
    if (code < 0)
        trace_settings_done(settings);
    return code;
}

/* "off" is no selection, and no files. */
static int set_text(char **inout_text, const char *value)
{
    char *copy = strdup(strcmp(value, "off") == 0 ? "" : value);
    if (!copy)
        return -ENOMEM;
    free(*inout_text);
    *inout_text = copy;
    return 0;
}

/* Bits of the words of --mpi-metrics: those of what is counted, messages, all, none. */
static uint32_t metrics_of(uint64_t words)
{
    enum { MESSAGES = 32, ALL = 64 };
    return (uint32_t)(words & MPIA_METRIC_ALL) | (words & MESSAGES ? MPIA_METRIC_MESSAGES : 0) |
           (words & ALL ? MPIA_METRIC_ALL : 0);
}

static int set_field(void *field, const struct option_row *row, const char *text, const struct option_value *value)
{
    switch (row->type) {
    case OPTION_SWITCH:
        *(bool *)field = value->on;
        return 0;
    case OPTION_TIME:
    case OPTION_SIZE:
        *(uint64_t *)field = value->number;
        return 0;
    case OPTION_CHOICES:
        *(uint32_t *)field = metrics_of(value->number);
        return 0;
    case OPTION_NUMBER:
    case OPTION_CHOICE:
        *(unsigned *)field = (unsigned)value->number;
        return 0;
    default:
        return set_text(field, text);
    }
}

/* What is refused, for nothing would come of it. */
static int check_loaded(const struct trace_settings *settings, const char *key, const char *value, struct err *err)
{
    if (strcmp(value, "off") == 0)
        return 0;
    if (strcmp(key, "mpi") == 0 && settings->loaded != TRACE_LOADED_ALL)
        return err_set(err, -EINVAL,
                       "the job was started with --mpi off, so its processes have nothing that counts calls "
                       "of MPI: start it without, and `scry set JOB mpi=off` switches that off and on");
    if (strcmp(key, "trace") == 0 && settings->loaded == TRACE_LOADED_NOTHING)
        return err_set(err, -EINVAL,
                       "the job was started with --trace off --mpi off, so its processes have nothing that "
                       "records calls: start it with --trace fn:none");
    return 0;
}

int trace_settings_set(struct trace_settings *settings, const char *key, const char *value, struct err *err)
{
    const struct option_row *row = option_find_monitor(key);
    struct option_value parsed;
    uint64_t selected[MPI_CALL_WORDS];
    if (!row)
        return err_set(err, -ENOENT, "there is no setting '%s' of tracing", key);
    int code = option_parse(row, value, NULL, &parsed, err);
    if (code == 0)
        code = check_loaded(settings, key, value, err);
    if (code < 0)
        return code;
    if (strcmp(key, "mpi-distributions") == 0 && !mpi_calls_parse(value, selected))
        return err_set(err, -EINVAL, "expected %s, not '%s'", row->expected, value);
    size_t i = 0;
    while (strcmp(rows[i].key, key) != 0)
        i++;
    if (set_field((char *)settings + rows[i].offset, row, value, &parsed) < 0)
        return err_set(err, -ENOMEM, "out of memory");
    if (row->type == OPTION_SELECTION) {
        settings->off = !parsed.on;
        settings->enabled = parsed.on;
    }
    return 0;
}

/* As people write it: in the largest unit of which it is a multiple. `units` have the largest first. */
struct unit {
    const char *name;
    double factor;
};

static void print_unit(uint64_t value, const struct unit *units, char *ret_text, size_t size)
{
    while (units->factor > 1 && value % (uint64_t)units->factor != 0)
        units++;
    if (value == 0)
        snprintf(ret_text, size, "0");
    else
        snprintf(ret_text, size, "%" PRIu64 "%s", value / (uint64_t)units->factor, units->name);
}

static const struct unit shown_times[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}},
                         shown_sizes[] = {{"G", 1073741824.}, {"M", 1048576.}, {"K", 1024}, {"", 1}};

static void print_metrics(const struct option_row *row, uint32_t metrics, char *ret_text, size_t size)
{
    struct span word;
    size_t len = 0;
    snprintf(ret_text, size, "%s", metrics == MPIA_METRIC_ALL ? "all" : "none");
    for (size_t i = 0; metrics != MPIA_METRIC_ALL && !span_is(word = option_word(row, i), "all"); i++)
        if (metrics & metrics_of(UINT64_C(1) << i) && len < size)
            len += (size_t)snprintf(ret_text + len, size - len, "%s%.*s", len ? "," : "", SPAN_ARG(word));
}

/* As trace_settings_set takes it: in `number`, or a text of its own. */
static const char *print_field(const struct option_row *row, const void *field, char *number, size_t size)
{
    switch (row->type) {
    case OPTION_SWITCH:
        return *(const bool *)field ? "yes" : "no";
    case OPTION_NUMBER:
        snprintf(number, size, "%u", *(const unsigned *)field);
        return number;
    case OPTION_TIME:
        print_unit(*(const uint64_t *)field, shown_times, number, size);
        return number;
    case OPTION_SIZE:
        print_unit(*(const uint64_t *)field, shown_sizes, number, size);
        return number;
    case OPTION_CHOICE:
        snprintf(number, size, "%.*s", SPAN_ARG(option_word(row, *(const unsigned *)field)));
        return number;
    case OPTION_CHOICES:
        print_metrics(row, *(const uint32_t *)field, number, size);
        return number;
    default:
        return *(char *const *)field;
    }
}

void trace_settings_each(const struct trace_settings *settings,
                         void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
    for (size_t i = 0; i < ROWS; i++) {
        char number[64];
        const void *field = (const char *)settings + rows[i].offset;
        const char *value = print_field(option_find_monitor(rows[i].key), field, number, sizeof number);
        bool off = field == &settings->selection ? settings->off : field == &settings->statics && !*value;
        if (field != &settings->loaded)
            fn(ctx, rows[i].key, off ? "off" : value);
    }
}

bool trace_settings_plain(const struct trace_settings *settings)
{
    return !settings->enabled && !settings->count_only && !(settings->selection && *settings->selection) &&
           !settings->args && !settings->locals && !(settings->statics && *settings->statics) && !settings->min_ns &&
           !settings->max_depth && !settings->rate && settings->policy == AREA_DROP;
}

unsigned trace_settings_values(const struct trace_settings *settings)
{
    bool more = settings->array_items > DEFAULT_ARRAY || settings->string_bytes > DEFAULT_STRING || *settings->statics;
    return more ? MOST_VALUES : settings->value_bytes;
}

bool trace_settings_compiled(const char *key)
{
    static const char *const keys[] = {"args", "locals", "statics", "depth", "array-items", "string-bytes"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}
