/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/params/params.h"

#include "base/data/err.h"
#include "options/options.h"
#include "shm/mpi_area.h"
#include "shm/waits.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NAME_SIZE = 64 };

/* ---- what a call does ---- */

static bool has_role(uint32_t call, enum call_role role)
{
    const struct call_info *info = &call_infos[call];
    for (unsigned i = 0; i < info->param_count; i++)
        if (call_info_params(info)[i].role == role)
            return true;
    return false;
}

static bool sends(uint32_t call)
{
    const struct call_info *info = &call_infos[call];
    return info->class == CALL_CLASS_P2P && (info->volume == CALL_VOLUME_SEND || info->volume == CALL_VOLUME_SENDRECV ||
                                             strcmp(call_shape(info), "start") == 0);
}

static bool receives(uint32_t call)
{
    const struct call_info *info = &call_infos[call];
    return info->class == CALL_CLASS_P2P && (info->volume == CALL_VOLUME_RECV || info->volume == CALL_VOLUME_SENDRECV);
}

/* Bytes go somewhere. */
static bool transfers(uint32_t call)
{
    uint8_t volume = call_infos[call].volume;
    return sends(call) || (volume != CALL_VOLUME_NONE && volume != CALL_VOLUME_BARRIER);
}

static bool communicates(uint32_t call)
{
    return transfers(call) && call_infos[call].class != CALL_CLASS_IO;
}

/* ---- by number ---- */

#define TOLD(kind_, field) ((struct mpi_param){kind_, (uint32_t)offsetof(struct mpi_told, field)})
static const struct mpi_param none = {MPI_PARAM_NONE, 0};

static struct mpi_param result_of(uint32_t call)
{
    const char *type = call_result(&call_infos[call]);
    return TOLD(strcmp(type, "double") == 0 ? MPI_PARAM_FLOATING : MPI_PARAM_SIGNED, par);
}

/* What follows the arguments: 1 message, 2 its length, 3 and 4 of the second one. */
static struct mpi_param extra_at(uint32_t call, bool ended, unsigned number)
{
    bool both = sends(call) && receives(call);
    if (!communicates(call) || number > (both ? 4 : 2))
        return none;
    if (number == 1)
        return receives(call) && !sends(call) ? TOLD(MPI_PARAM_GOT, got) : TOLD(MPI_PARAM_SENT, sent);
    if (number == 2)
        return ended && call_is(call, CALL_IS_RECEIVED) ? TOLD(MPI_PARAM_UNSIGNED, got_bytes)
                                                        : TOLD(MPI_PARAM_UNSIGNED, bytes);
    if (!ended)
        return none;
    return number == 3 ? TOLD(MPI_PARAM_GOT, got) : TOLD(MPI_PARAM_UNSIGNED, got_bytes);
}

struct mpi_param mpi_param_at(uint32_t call, bool ended, unsigned number)
{
    unsigned count = call_infos[call].param_count;
    if (number == 0)
        return ended ? result_of(call) : none;
    if (number > count)
        return extra_at(call, ended, number - count);
    struct mpi_param param = {MPI_PARAM_SIGNED, (uint32_t)(offsetof(struct mpi_told, par) + 8 * number)};
    return number <= MPI_TOLD_PARS ? param : none;
}

unsigned mpi_param_last(uint32_t call)
{
    unsigned more = !communicates(call) ? 0 : sends(call) && receives(call) ? 4 : 2;
    return call_infos[call].param_count + more;
}

/* ---- by name ---- */

static struct mpi_param about(uint32_t call, bool ended, struct span name)
{
    bool tagged = has_role(call, CALL_ROLE_TAG) || has_role(call, CALL_ROLE_STAG);
    bool waits = call_is(call, CALL_IS_COMPLETES) && ended;
    bool both = has_role(call, CALL_ROLE_SOURCE) && has_role(call, CALL_ROLE_DEST);
    if (span_is(name, "peer") &&
        (has_role(call, CALL_ROLE_DEST) || has_role(call, CALL_ROLE_SOURCE) || has_role(call, CALL_ROLE_ROOT) || waits))
        return TOLD(MPI_PARAM_SIGNED, peer);
    if (span_is(name, "tag") && (tagged || waits))
        return TOLD(MPI_PARAM_SIGNED, tag);
    if (span_is(name, "source") && both)
        return TOLD(MPI_PARAM_SIGNED, source_peer);
    if (span_is(name, "source_tag") && both)
        return TOLD(MPI_PARAM_SIGNED, source_tag);
    if (span_is(name, "comm") && (has_role(call, CALL_ROLE_COMM) || has_role(call, CALL_ROLE_INTERCOMM)))
        return TOLD(MPI_PARAM_SIGNED, comm);
    if (span_is(name, "bytes") && transfers(call))
        return TOLD(MPI_PARAM_UNSIGNED, bytes);
    if (span_is(name, "received") && waits)
        return TOLD(MPI_PARAM_UNSIGNED, got_bytes);
    if (span_is(name, "ordinal") && call_infos[call].class == CALL_CLASS_COLLECTIVE)
        return TOLD(MPI_PARAM_UNSIGNED, ordinal);
    return none;
}

bool mpi_param_is_about(uint32_t call, bool ended, struct span name)
{
    return about(call, ended, name).kind != MPI_PARAM_NONE;
}

static int number_of(struct span name)
{
    unsigned number = 0, digits = 0;
    if (name.len && *name.ptr == '$')
        name = span_of(name.ptr + 1, name.len - 1);
    if (name.len < 4 || memcmp(name.ptr, "par", 3) != 0)
        return -1;
    for (size_t i = 3; i < name.len; i++, digits++) {
        if (!isdigit((unsigned char)name.ptr[i]) || digits == 3)
            return -1;
        number = number * 10 + (unsigned)(name.ptr[i] - '0');
    }
    return (int)number;
}

struct mpi_param mpi_param_named(uint32_t call, bool ended, struct span name)
{
    const struct call_info *info = &call_infos[call];
    struct mpi_param param = about(call, ended, name);
    int number = number_of(name);
    if (param.kind != MPI_PARAM_NONE)
        return param;
    if (number >= 0)
        return mpi_param_at(call, ended, (unsigned)number);
    for (unsigned i = 0; i < info->param_count; i++)
        if (span_is(name, call_param_name(&call_info_params(info)[i])))
            return mpi_param_at(call, ended, i + 1);
    /* what is no code of success: only by its number, so that a condition on all calls means those that failed */
    return span_is(name, "result") && strcmp(call_result(info), "int") == 0 ? mpi_param_at(call, ended, 0) : none;
}

int64_t mpi_param_bits(const struct mpi_told *told, struct mpi_param param)
{
    int64_t bits = 0;
    if (param.offset + sizeof bits <= sizeof *told)
        memcpy(&bits, (const char *)told + param.offset, sizeof bits);
    return bits;
}

/* ---- for people ---- */

void mpi_params_print(struct buf *out, uint32_t call, bool ended)
{
    static const char *const names[] = {"peer", "tag", "source", "source_tag", "comm", "bytes", "received", "ordinal"};
    const struct call_info *info = &call_infos[call];
    if (ended)
        buf_puts(out, "par0 result, ");
    for (unsigned i = 0; i < info->param_count; i++)
        buf_printf(out, "par%u %s, ", i + 1, call_param_name(&call_info_params(info)[i]));
    for (unsigned i = info->param_count + 1; i <= mpi_param_last(call); i++) {
        struct mpi_param param = mpi_param_at(call, ended, i);
        if (param.kind != MPI_PARAM_NONE)
            buf_printf(out, "par%u (%s), ", i, param.kind >= MPI_PARAM_SENT ? "the message" : "its length");
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (mpi_param_is_about(call, ended, span_str(names[i])))
            buf_printf(out, "%s, ", names[i]);
    if (out->len >= 2 && out->data[out->len - 2] == ',')
        out->len -= 2;
}

/* ---- choosing calls ---- */

static void find_near(struct span name, const char *ret_near[MPI_NEAR])
{
    unsigned distances[MPI_NEAR] = {0};
    unsigned limit = fuzzy_limit(name.len);
    size_t count = 0;
    for (size_t i = 0; i < MPI_NEAR; i++)
        ret_near[i] = NULL;
    if (name.len >= NAME_SIZE)
        return;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        /* people leave out the MPI_, too */
        unsigned whole = fuzzy_distance(name.ptr, name.len, call_infos[call].name);
        unsigned rest = fuzzy_distance(name.ptr, name.len, call_infos[call].name + strlen("MPI_"));
        unsigned its = whole < rest ? whole : rest;
        if (its > limit || (count && its > distances[0] + 1))
            continue;
        size_t at = count < MPI_NEAR ? count++ : MPI_NEAR;
        for (; at > 0 && distances[at - 1] > its; at--)
            if (at < MPI_NEAR) {
                distances[at] = distances[at - 1];
                ret_near[at] = ret_near[at - 1];
            }
        if (at < MPI_NEAR) {
            distances[at] = its;
            ret_near[at] = call_infos[call].name;
        }
    }
    while (count && distances[count - 1] > distances[0] + 1) /* much worse than the best one, which came later */
        ret_near[--count] = NULL;
}

static bool choose(struct span word, uint64_t *calls)
{
    char pattern[NAME_SIZE];
    bool found = false;
    if (word.len >= sizeof pattern)
        return false;
    memcpy(pattern, word.ptr, word.len);
    pattern[word.len] = '\0';
    const char *name = strncasecmp(pattern, "PMPI_", 5) == 0 ? pattern + 1 : pattern;
    bool all = strcasecmp(name, "all") == 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (all || fnmatch(name, call_infos[call].name, FNM_CASEFOLD) == 0) {
            calls[call / 64] |= UINT64_C(1) << call % 64;
            found = true;
        }
    return found;
}

int mpi_calls_choose(struct span text, uint64_t ret_calls[MPI_CALL_WORDS], struct span *ret_wrong,
                     const char *ret_near[MPI_NEAR])
{
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool any = false;
    memset(ret_calls, 0, (CALL_COUNT + 63) / 64 * sizeof *ret_calls);
    while (at < end) {
        if (*at == ',' || isspace((unsigned char)*at)) {
            at++;
            continue;
        }
        const char *from = at;
        while (at < end && *at != ',' && !isspace((unsigned char)*at))
            at++;
        struct span word = span_of(from, (size_t)(at - from));
        if (!choose(word, ret_calls)) {
            *ret_wrong = word;
            find_near(word, ret_near);
            return -ENOENT;
        }
        any = true;
    }
    if (!any)
        choose(span_str("all"), ret_calls);
    return 0;
}

bool mpi_calls_parse(const char *text, uint64_t ret_calls[MPI_CALL_WORDS])
{
    struct span wrong;
    const char *near[MPI_NEAR];
    memset(ret_calls, 0, (CALL_COUNT + 63) / 64 * sizeof *ret_calls);
    return strcmp(text, "none") == 0 || (*text && mpi_calls_choose(span_str(text), ret_calls, &wrong, near) == 0);
}

int mpi_calls_unknown(const char *param, struct span wrong, const char *const near[MPI_NEAR], struct err *err)
{
    struct buf names = BUF_INIT;
    for (size_t i = 0; i < MPI_NEAR && near[i]; i++)
        buf_printf(&names, "%s%s", i ? ", " : ": is it ", near[i]);
    int code = err_set(err, -EINVAL, "%s: MPI has no call \"%.*s\"%.*s%s", param, SPAN_ARG(wrong), (int)names.len,
                       names.data ? names.data : "", names.len ? "?" : "");
    buf_done(&names);
    return code;
}

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
