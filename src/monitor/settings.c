/* SPDX-License-Identifier: Apache-2.0 */
/* What a job wants traced: defaults, and one setting at a time from text, by one table. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "monitor/agents.h"
#include "monitor/agents_internal.h"
#include "monitor/mpi_settings.h"

enum {
    DEPTH_LIMIT = 16,
    ARRAY_LIMIT = 1000,
    STRING_LIMIT = 3000,
    DEFAULT_STRING = 64,
    FILES_LIMIT = 1000, /* bytes */
    DEFAULT_ARRAY = 8,
    DEFAULT_VALUES = 1024,
    MOST_VALUES = 4000, /* a little below what a record holds */
    DEFAULT_WAIT_US = 100000,
};

int trace_settings_init(struct trace_settings *settings)
{
    *settings = (struct trace_settings){
        .on = true,
        .depth = 1,
        .string_bytes = DEFAULT_STRING,
        .array_items = DEFAULT_ARRAY,
        .value_bytes = DEFAULT_VALUES,
        .buffer_bytes = UINT64_C(64) << 20,
        .max_bytes = UINT64_C(2) << 30,
        .policy = AREA_DROP,
        .wait_us = DEFAULT_WAIT_US,
        .reader = AREA_READ_DIRECT,
        .mpi_metrics = MPIA_METRIC_ALL,
        .mpi_bits = MPIA_BITS_DEFAULT,
    };
    settings->selection = strdup("");
    settings->mpi_distributions = strdup("all");
    settings->statics = strdup("");
    return settings->selection && settings->mpi_distributions && settings->statics ? 0 : -ENOMEM;
}

void trace_settings_done(struct trace_settings *settings)
{
    free(settings->selection);
    free(settings->mpi_distributions);
    free(settings->statics);
    settings->selection = settings->mpi_distributions = settings->statics = NULL;
}

static bool parse_count(const char *text, uint64_t most, unsigned *ret_count)
{
    char *end;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : 0;
    if (!isdigit((unsigned char)*text) || *end || errno || value > most)
        return false;
    *ret_count = (unsigned)value;
    return true;
}

static bool parse_switch(const char *text, bool *ret_on)
{
    static const char *const yes[] = {"", "yes", "on", "true", "1"}, *const no[] = {"no", "off", "false", "0"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcasecmp(text, yes[i]) == 0)
            return *ret_on = true, true;
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (strcasecmp(text, no[i]) == 0)
            return *ret_on = false, true;
    return false;
}

static int parse_word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return -1;
}

static const char *const policies[] = {"drop", "wait", "flight", NULL};
static const char *const readers[] = {"direct", "syscall", "victim", NULL};

static const char *const loaded_words[] = {"all", "functions", "nothing", NULL};
static const char *const mpi_words[] = {"auto", "off", "stats", "trace", "messages", NULL};

enum setting_kind {
    SET_TRACE,
    SET_SWITCH,
    SET_COUNT,
    SET_TIME,
    SET_SIZE,
    SET_POLICY,
    SET_READER,
    SET_LOADED,
    SET_MPI,
    SET_METRICS,
    SET_PARTS,
    SET_CALLS,
    SET_FILES
};

static const struct setting {
    const char *key;
    enum setting_kind kind;
    size_t offset;
    uint64_t most;
    const char *expected;
} rows[] = {
#define AT(field) offsetof(struct trace_settings, field)
    {"trace", SET_TRACE, AT(selection), 0, "a selection of functions, or off"},
    {"args", SET_SWITCH, AT(args), 0, "yes or no"},
    {"locals", SET_SWITCH, AT(locals), 0, "yes or no"},
    {"statics", SET_FILES, AT(statics), 0, "source files such as 'solver*.c,model.h', or off"},
    {"count-only", SET_SWITCH, AT(count_only), 0, "yes or no"},
    {"depth", SET_COUNT, AT(depth), DEPTH_LIMIT, "a number of pointer levels from 0 to 16"},
    {"array-items", SET_COUNT, AT(array_items), ARRAY_LIMIT, "a number of elements from 0 to 1000"},
    {"string-bytes", SET_COUNT, AT(string_bytes), STRING_LIMIT, "a number of bytes from 0 to 3000"},
    {"min-time", SET_TIME, AT(min_ns), 0, "a time such as 500us, 2ms or 1s"},
    {"max-depth", SET_COUNT, AT(max_depth), UINT32_MAX, "a number (0: no limit)"},
    {"rate", SET_COUNT, AT(rate), UINT32_MAX, "a number (0: no limit)"},
    {"buffer", SET_SIZE, AT(buffer_bytes), 0, "a size from 1M to 64G"},
    {"max-size", SET_SIZE, AT(max_bytes), 0, "a size such as 500M or 2G"},
    {"overflow", SET_POLICY, AT(policy), 0, "drop, wait or flight"},
    {"read-by", SET_READER, AT(reader), 0, "direct, syscall or victim"},
    {"on", SET_SWITCH, AT(on), 0, "yes or no"},
    {"loaded", SET_LOADED, AT(loaded), 0, "all, functions or nothing"},
    {"mpi", SET_MPI, AT(mpi), 0, "auto, off, stats, trace or messages"},
    {"mpi-metrics", SET_METRICS, AT(mpi_metrics), 0,
     "all, none, or some of clocks, distributions, sites, peers, requests, messages, with commas"},
    {"mpi-resolution", SET_PARTS, AT(mpi_bits), 0, "parts of each doubling: 1, 2, 4, 8, 16, 32 or 64"},
    {"mpi-distributions", SET_CALLS, AT(mpi_distributions), 0,
     "all, none, or names of MPI calls with commas, such as MPI_Send,MPI_*reduce"},
#undef AT
};
enum { ROWS = sizeof rows / sizeof *rows };

static bool set_trace(struct trace_settings *settings, const char *value)
{
    bool off = strcmp(value, "off") == 0;
    char *copy = strdup(off ? "" : value);
    if (!copy)
        return false;
    free(settings->selection);
    settings->selection = copy;
    settings->off = off;
    settings->enabled = !off;
    return true;
}

static bool set_calls(struct trace_settings *settings, const char *value)
{
    uint64_t selected[MPI_SELECTED];
    char *copy = mpi_calls_parse(value, selected) ? strdup(value) : NULL;
    if (!copy)
        return false;
    free(settings->mpi_distributions);
    settings->mpi_distributions = copy;
    return true;
}

static bool set_files(struct trace_settings *settings, const char *value)
{
    char *copy = strlen(value) <= FILES_LIMIT ? strdup(strcmp(value, "off") == 0 ? "" : value) : NULL;
    if (!copy)
        return false;
    free(settings->statics);
    settings->statics = copy;
    return true;
}

static bool set_row(struct trace_settings *settings, const struct setting *row, const char *value)
{
    void *field = (char *)settings + row->offset;
    uint64_t bytes;
    int word;
    switch (row->kind) {
    case SET_TRACE:
        return set_trace(settings, value);
    case SET_SWITCH:
        return parse_switch(value, field);
    case SET_COUNT:
        return parse_count(value, row->most, field);
    case SET_TIME:
        return time_parse(value, field);
    case SET_SIZE:
        if (!size_parse(value, &bytes))
            return false;
        if (row->offset == offsetof(struct trace_settings, buffer_bytes) &&
            (bytes < AREA_BUFFER_MIN || bytes > UINT64_C(64) << 30))
            return false;
        *(uint64_t *)field = bytes;
        return true;
    case SET_POLICY:
        word = parse_word(value, policies);
        if (word >= 0)
            settings->policy = (enum area_policy)word;
        return word >= 0;
    case SET_READER:
        word = parse_word(value, readers);
        if (word >= 0)
            settings->reader = (enum area_reader)word;
        return word >= 0;
    case SET_LOADED:
        word = parse_word(value, loaded_words);
        if (word >= 0)
            settings->loaded = (enum trace_loaded)word;
        return word >= 0;
    case SET_MPI:
        word = parse_word(value, mpi_words);
        if (word >= 0)
            settings->mpi = (enum trace_mpi)word;
        return word >= 0;
    case SET_METRICS:
        return mpi_metrics_parse(value, field);
    case SET_PARTS:
        return mpi_parts_parse(value, field);
    case SET_CALLS:
        return set_calls(settings, value);
    case SET_FILES:
        return set_files(settings, value);
    }
    return false;
}

/* What is refused, for nothing would come of it. */
static int check_loaded(const struct trace_settings *settings, enum setting_kind kind, const char *value,
                        struct err *err)
{
    if (strcmp(value, "off") == 0)
        return 0;
    if (kind == SET_MPI && settings->loaded != TRACE_LOADED_ALL)
        return err_set(err, -EINVAL,
                       "the job was started with --mpi off, so its processes have nothing that counts calls "
                       "of MPI: start it without, and `scry set JOB mpi=off` switches that off and on");
    if (kind == SET_TRACE && settings->loaded == TRACE_LOADED_NOTHING)
        return err_set(err, -EINVAL,
                       "the job was started with --trace off --mpi off, so its processes have nothing that "
                       "records calls: start it with --trace fn:none");
    return 0;
}

int trace_settings_set(struct trace_settings *settings, const char *key, const char *value, struct err *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].key, key) != 0)
            continue;
        if (rows[i].kind == SET_TRACE && strcmp(value, "off") != 0) {
            struct selection *selection;
            int code = selection_parse(&selection, value, err);
            if (code < 0)
                return code;
            selection_free(selection);
        }
        int code = check_loaded(settings, rows[i].kind, value, err);
        if (code < 0)
            return code;
        if (!set_row(settings, &rows[i], value))
            return err_set(err, -EINVAL, "expected %s, not '%s'", rows[i].expected, value);
        return 0;
    }
    return err_set(err, -ENOENT, "there is no setting '%s' of tracing", key);
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

void trace_settings_each(const struct trace_settings *settings,
                         void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
    for (size_t i = 0; i < ROWS; i++) {
        const void *field = (const char *)settings + rows[i].offset;
        char number[64];
        const char *value = number;
        switch (rows[i].kind) {
        case SET_TRACE:
            value = settings->off ? "off" : settings->selection;
            break;
        case SET_SWITCH:
            value = *(const bool *)field ? "yes" : "no";
            break;
        case SET_COUNT:
            snprintf(number, sizeof number, "%u", *(const unsigned *)field);
            break;
        case SET_TIME:
            print_unit(*(const uint64_t *)field, shown_times, number, sizeof number);
            break;
        case SET_SIZE:
            print_unit(*(const uint64_t *)field, shown_sizes, number, sizeof number);
            break;
        case SET_POLICY:
            value = policies[settings->policy];
            break;
        case SET_READER:
            value = readers[settings->reader];
            break;
        case SET_LOADED:
            continue;
        case SET_MPI:
            value = mpi_words[settings->mpi];
            break;
        case SET_METRICS:
            mpi_metrics_print(settings->mpi_metrics, number, sizeof number);
            break;
        case SET_PARTS:
            snprintf(number, sizeof number, "%u", 1u << settings->mpi_bits);
            break;
        case SET_CALLS:
            value = settings->mpi_distributions;
            break;
        case SET_FILES:
            value = *settings->statics ? settings->statics : "off";
            break;
        }
        fn(ctx, rows[i].key, value);
    }
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
