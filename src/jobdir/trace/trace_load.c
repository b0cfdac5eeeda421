/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text files of a trace, .process, .functions, .places, .layouts and .modules, again and again while it
 * grows. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/data/grow.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/internal.h"
#include "symbols/layout/layout.h"

/* ---- files of lines ---- */

/* Reads a file from `from` on into a text that the trace owns, up to its last whole line; with `all`, what comes after
 * that, too. *ret_text NULL: nothing there. */
static int read_text(struct trace *trace, const char *name, uint64_t from, bool all, char **ret_text, size_t *ret_len)
{
    char path[PATH_MAX];
    struct stat st;
    *ret_text = NULL;
    *ret_len = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", trace->path, name) >= sizeof path)
        return -ENAMETOOLONG;
    _cleanup_(closep) int fd = file_open_read(path);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        return -errno;
    if ((uint64_t)st.st_size <= from)
        return 0;
    if ((uint64_t)st.st_size - from > TRACE_META_LIMIT)
        return -EFBIG;
    size_t size = (size_t)((uint64_t)st.st_size - from), have = 0;
    struct trace_meta *meta = malloc(sizeof *meta + size + 1);
    if (!meta)
        return -ENOMEM;
    while (have < size) {
        ssize_t got = pread(fd, meta->text + have, size - have, (off_t)(from + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int code = -errno;
            free(meta);
            return code;
        }
        if (got == 0)
            break;
        have += (size_t)got;
    }
    const char *end = memrchr(meta->text, '\n', have);
    if (!all)
        have = end ? (size_t)(end - meta->text) + 1 : 0;
    meta->text[have] = '\0';
    meta->next = trace->texts;
    trace->texts = meta;
    *ret_text = meta->text;
    *ret_len = have;
    return 0;
}

/* Undoes the escapes in place. */
static void unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '\\' && text[1]) {
            text++;
            *to++ = *text == 't' ? '\t' : *text == 'n' ? '\n' : *text;
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
}

/* Splits a line into at most `most` fields; the last one takes the rest. */
static size_t split(char *line, char **fields, size_t most)
{
    size_t count = 0;
    fields[count++] = line;
    for (char *tab; count < most && (tab = strchr(fields[count - 1], '\t'));) {
        *tab = '\0';
        fields[count++] = tab + 1;
    }
    for (size_t i = 0; i < count; i++)
        unescape(fields[i]);
    return count;
}

/* The next line of *text, made a string. NULs within end it. */
static char *next_line(char **text, const char *end)
{
    if (*text >= end)
        return NULL;
    char *line = *text, *newline = memchr(line, '\n', (size_t)(end - line));
    *text = newline ? newline + 1 : line + (end - line);
    if (newline)
        *newline = '\0';
    return line;
}

bool trace_number_of(const char *text, uint64_t *ret_number)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (errno || end == text || *end || *text == '-')
        return false;
    *ret_number = number;
    return true;
}

/* ---- .process ---- */

static int add_pair(struct trace *trace, const char *key, const char *value)
{
    struct trace_pair *grown = realloc(trace->pairs, (trace->pair_count + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    trace->pairs = grown;
    trace->pairs[trace->pair_count++] = (struct trace_pair){key, value};
    return 0;
}

static int load_process(struct trace *trace, struct err *err)
{
    char *text;
    size_t len;
    int code = read_text(trace, ".process", 0, true, &text, &len);
    if (code == -ENOMEM)
        return err_set(err, code, "out of memory");
    if (code < 0)
        trace_tell(trace, "%s/.process: cannot be read: %s", trace->path, strerror(-code));
    /* the values of the last time go with their text */
    free(trace->process);
    trace->process = text ? trace->texts : NULL;
    if (text)
        trace->texts = trace->texts->next;
    trace->pair_count = 0;
    const char *end = text ? text + len : NULL;
    const char *last =
        text ? memrchr(text, '\n', len) : NULL; /* what was cut off within a line may be another number */
    bool whole = text && last == end - 1;
    if (text && !whole)
        trace_tell(trace, "%s/.process: the file ends within a line", trace->path);
    end = last ? last + 1 : text;
    for (char *line; text && (line = next_line(&text, end));) {
        char *fields[2];
        if (split(line, fields, 2) == 2 && add_pair(trace, fields[0], fields[1]) < 0)
            return err_set(err, -ENOMEM, "out of memory");
    }
    uint64_t version = trace_number(trace, "version");
    if (version > TRACE_VERSION)
        return err_set(err, -EPROTO, "%s: the trace has version %" PRIu64 ", this scry reads up to %d: use a newer one",
                       trace->path, version, TRACE_VERSION);
    trace->ticks_per_second = trace_number(trace, "ticks_per_second");
    if (!trace->ticks_per_second) {
        if (code == 0)
            trace_tell(trace, "%s/.process: no ticks_per_second: times are shown as if it were 1e9", trace->path);
        trace->ticks_per_second = NS_PER_SECOND;
    }
    trace->tick_zero_ns = trace_number(trace, "clock_offset_ns");
    trace->ns_per_tick = 1e9 / (double)trace->ticks_per_second;
    const char *state = trace_own_value(trace, "state");
    if (!state && whole)
        trace_tell(trace, "%s/.process: not whole: it does not say what became of the process", trace->path);
    trace->running = state && strcmp(state, "running") == 0;
    uint64_t pid = trace_number(trace, "pid");
    trace->pid = pid && pid <= INT_MAX ? (pid_t)pid : (pid_t)strtol(text_base(trace->path), NULL, 10);
    return 0;
}

/* ---- .functions and .layouts ---- */

static int add_function(struct trace *trace, char *line)
{
    char *fields[7];
    uint64_t id, address, number = 0, size = 0;
    size_t count = split(line, fields, 7);
    if (count < 4 || !trace_number_of(fields[0], &id) || id >= TRACE_IDS || !trace_number_of(fields[1], &address))
        return -EINVAL;
    if (!GROW_ZERO_TO(trace->functions, id + 1, trace->function_room))
        return -ENOMEM;
    if (count > 4 && !trace_number_of(fields[4], &number))
        number = 0;
    if (count > 5 && !trace_number_of(fields[5], &size))
        size = 0;
    trace->functions[id] = (struct trace_function){.id = (uint32_t)id,
                                                   .address = address,
                                                   .size = size,
                                                   .name = fields[2],
                                                   .file = fields[3],
                                                   .module = count > 6 ? fields[6] : "",
                                                   .line = number <= UINT32_MAX ? (uint32_t)number : 0};
    return 0;
}

static int add_place(struct trace *trace, char *line)
{
    char *fields[7];
    uint64_t id, function, address, offset, inlined;
    if (split(line, fields, 7) < 7 || !trace_number_of(fields[0], &id) || id >= TRACE_IDS ||
        !trace_number_of(fields[1], &function) || function >= TRACE_IDS || !trace_number_of(fields[2], &address) ||
        !trace_number_of(fields[3], &offset) || !trace_number_of(fields[6], &inlined))
        return -EINVAL;
    if (!GROW_ZERO_TO(trace->places, id + 1, trace->place_room))
        return -ENOMEM;
    trace->places[id] = (struct trace_place){.function = (uint32_t)function,
                                             .inlined = inlined,
                                             .address = address,
                                             .offset = offset,
                                             .module = fields[4],
                                             .build_id = fields[5],
                                             .caller = "",
                                             .file = ""};
    return 0;
}

static int add_layout(struct trace *trace, char *line)
{
    char *fields[2];
    uint64_t id;
    if (split(line, fields, 2) < 2 || !trace_number_of(fields[0], &id) || id >= TRACE_IDS)
        return -EINVAL;
    if (!GROW_ZERO_TO(trace->layouts, id + 1, trace->layout_room))
        return -ENOMEM;
    struct trace_layout_entry *entry = &trace->layouts[id];
    if (entry->layout && strcmp(entry->text, fields[1]) == 0)
        return 0;
    layout_free(entry->layout);
    *entry = (struct trace_layout_entry){.text = fields[1]};
    return 0;
}

static int add_module(struct trace *trace, char *line)
{
    char *fields[4];
    struct trace_module module = {0};
    if (split(line, fields, 4) < 4 || !trace_number_of(fields[0], &module.start) ||
        !trace_number_of(fields[1], &module.end) || !trace_number_of(fields[2], &module.bias) || strchr(fields[3], '/'))
        return -EINVAL;
    module.key = fields[3];
    if (trace->module_count >= TRACE_IDS || !GROW(trace->modules, trace->module_count, trace->module_room))
        return -ENOMEM;
    trace->modules[trace->module_count++] = module;
    return 0;
}

static int load_lines(struct trace *trace, const char *name, uint64_t *at, int (*add)(struct trace *, char *))
{
    char *text;
    size_t len;
    int code = read_text(trace, name, *at, false, &text, &len);
    if (code < 0) {
        if (code != -ENOENT && code != -ENOMEM)
            trace_tell(trace, "%s/%s: cannot be read: %s", trace->path, name, strerror(-code));
        return code == -ENOMEM ? code : 0;
    }
    const char *start = text, *end = text ? text + len : NULL;
    for (char *line; text && (line = next_line(&text, end));) {
        size_t offset = (size_t)(line - start);
        code = *line ? add(trace, line) : 0;
        if (code == -ENOMEM)
            return code;
        if (code < 0)
            trace_tell(trace, "%s/%s: offset %" PRIu64 ": not a line of this file", trace->path, name, *at + offset);
    }
    *at += len;
    return 0;
}

int trace_each_count(struct trace *trace, trace_count_fn *fn, void *ctx)
{
    char *text;
    size_t len;
    int code = read_text(trace, ".counts", 0, true, &text, &len);
    if (code < 0) {
        if (code != -ENOENT && code != -ENOMEM)
            trace_tell(trace, "%s/.counts: cannot be read: %s", trace->path, strerror(-code));
        return code == -ENOMEM ? code : 0;
    }
    const char *end = text ? text + len : NULL;
    for (char *line; text && (line = next_line(&text, end));) {
        char *fields[7];
        uint64_t id, at_least = 0;
        struct trace_count of = {0};
        size_t count = split(line, fields, 7);
        if (count < 3 || !trace_number_of(fields[0], &id) || id >= TRACE_IDS ||
            !trace_number_of(fields[1], &of.calls) || !trace_number_of(fields[2], &of.ticks) ||
            (count > 3 && !trace_number_of(fields[3], &of.thinned)) ||
            (count > 4 && !trace_number_of(fields[4], &of.open)) ||
            (count > 5 && !trace_number_of(fields[5], &of.unkept)) ||
            (count > 6 && !trace_number_of(fields[6], &at_least)))
            continue;
        of.at_least = at_least != 0;
        of.function = (uint32_t)id;
        fn(ctx, &of);
    }
    return 0;
}

int trace_load_places(struct trace *trace)
{
    return load_lines(trace, ".places", &trace->places_read, add_place);
}

int trace_update(struct trace *trace, struct err *err)
{
    int code = load_process(trace, err);
    if (code < 0)
        return code;
    uint64_t before = trace->functions_read;
    code = load_lines(trace, ".functions", &trace->functions_read, add_function);
    if (code == 0)
        code = trace_load_places(trace);
    if (code == 0)
        code = load_lines(trace, ".layouts", &trace->layouts_read, add_layout);
    if (code == 0)
        code = load_lines(trace, ".modules", &trace->modules_read, add_module);
    if (code < 0)
        return err_errno(err, code, "%s", trace->path);
    if (trace->functions_read != before) {
        free(trace->by_address);
        trace->by_address = NULL;
    }
    return 0;
}
