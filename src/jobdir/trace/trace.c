/* SPDX-License-Identifier: Apache-2.0 */
/* The traces of a job, those that follow each other, and what stands in each beside its streams. */
#include "jobdir/trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"
#include "jobdir/trace/internal.h"
#include "symbols/index/index.h"
#include "symbols/layout/layout.h"

/* ---- text files of a trace: .process, .functions, .places, .layouts and .modules, again and again while it grows ---- */

/* Reads a file from `from` on into a text that the trace owns, up to its last whole line; with `all`, what comes after
 * that, too. *ret_text NULL: nothing there. */
static int file_read_text(struct trace *trace, const char *name, uint64_t from, bool all, char **ret_text,
                          size_t *ret_len)
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
static void text_unescape(char *text)
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
static size_t line_split(char *line, char **fields, size_t most)
{
    size_t count = 0;
    fields[count++] = line;
    for (char *tab; count < most && (tab = strchr(fields[count - 1], '\t'));) {
        *tab = '\0';
        fields[count++] = tab + 1;
    }
    for (size_t i = 0; i < count; i++)
        text_unescape(fields[i]);
    return count;
}

/* The next line of *text, made a string. NULs within end it. */
static char *text_next_line(char **text, const char *end)
{
    if (*text >= end)
        return NULL;
    char *line = *text, *newline = memchr(line, '\n', (size_t)(end - line));
    *text = newline ? newline + 1 : line + (end - line);
    if (newline)
        *newline = '\0';
    return line;
}

static bool number_of(const char *text, uint64_t *ret_number)
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

static int load_process(struct trace *trace, struct err *err)
{
    char *text;
    size_t len;
    int code = file_read_text(trace, ".process", 0, true, &text, &len);
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
    for (char *line; text && (line = text_next_line(&text, end));) {
        char *fields[2];
        if (line_split(line, fields, 2) < 2)
            continue;
        struct trace_pair *grown = realloc(trace->pairs, (trace->pair_count + 1) * sizeof *grown);
        if (!grown)
            return err_set(err, -ENOMEM, "out of memory");
        trace->pairs = grown;
        trace->pairs[trace->pair_count++] = (struct trace_pair){fields[0], fields[1]};
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
    size_t count = line_split(line, fields, 7);
    if (count < 4 || !number_of(fields[0], &id) || id >= TRACE_IDS || !number_of(fields[1], &address))
        return -EINVAL;
    if (!GROW_ZERO_TO(trace->functions, id + 1, trace->function_room))
        return -ENOMEM;
    if (count > 4 && !number_of(fields[4], &number))
        number = 0;
    if (count > 5 && !number_of(fields[5], &size))
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
    if (line_split(line, fields, 7) < 7 || !number_of(fields[0], &id) || id >= TRACE_IDS ||
        !number_of(fields[1], &function) || function >= TRACE_IDS || !number_of(fields[2], &address) ||
        !number_of(fields[3], &offset) || !number_of(fields[6], &inlined))
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
    if (line_split(line, fields, 2) < 2 || !number_of(fields[0], &id) || id >= TRACE_IDS)
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
    if (line_split(line, fields, 4) < 4 || !number_of(fields[0], &module.start) || !number_of(fields[1], &module.end) ||
        !number_of(fields[2], &module.bias) || strchr(fields[3], '/'))
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
    int code = file_read_text(trace, name, *at, false, &text, &len);
    if (code < 0) {
        if (code != -ENOENT && code != -ENOMEM)
            trace_tell(trace, "%s/%s: cannot be read: %s", trace->path, name, strerror(-code));
        return code == -ENOMEM ? code : 0;
    }
    const char *start = text, *end = text ? text + len : NULL;
    for (char *line; text && (line = text_next_line(&text, end));) {
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
    int code = file_read_text(trace, ".counts", 0, true, &text, &len);
    if (code < 0) {
        if (code != -ENOENT && code != -ENOMEM)
            trace_tell(trace, "%s/.counts: cannot be read: %s", trace->path, strerror(-code));
        return code == -ENOMEM ? code : 0;
    }
    const char *end = text ? text + len : NULL;
    for (char *line; text && (line = text_next_line(&text, end));) {
        char *fields[7];
        uint64_t id, at_least = 0;
        struct trace_count of = {0};
        size_t count = line_split(line, fields, 7);
        if (count < 3 || !number_of(fields[0], &id) || id >= TRACE_IDS || !number_of(fields[1], &of.calls) ||
            !number_of(fields[2], &of.ticks) || (count > 3 && !number_of(fields[3], &of.thinned)) ||
            (count > 4 && !number_of(fields[4], &of.open)) || (count > 5 && !number_of(fields[5], &of.unkept)) ||
            (count > 6 && !number_of(fields[6], &at_least)))
            continue;
        of.at_least = at_least != 0;
        of.function = (uint32_t)id;
        fn(ctx, &of);
    }
    return 0;
}

static int load_places(struct trace *trace)
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
        code = load_places(trace);
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

/* ---- the traces of a job ---- */

struct found {
    char *path;
    uint64_t start_ns;
};

static int compare_starts(const void *a, const void *b)
{
    const struct found *left = a, *right = b;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return strverscmp(left->path, right->path);
}

/* Only the line with the start. */
static uint64_t start_of(const char *path)
{
    enum { PIECES_MOST = 1 << 14 }; /* it has some dozen lines; a damaged one may be endless */
    char name[PATH_MAX], line[4096];
    if ((size_t)snprintf(name, sizeof name, "%s/.process", path) >= sizeof name)
        return UINT64_MAX;
    _cleanup_(fclosep) FILE *file = file_open_plain(name);
    for (size_t i = 0; file && i < PIECES_MOST && fgets(line, sizeof line, file); i++) {
        line[strcspn(line, "\n")] = '\0';
        uint64_t number;
        if (strncmp(line, "start_ns\t", 9) == 0 && number_of(line + 9, &number))
            return number;
    }
    return UINT64_MAX;
}

/* The folders in `path`, each given to `fn` by its path. */
static int each_folder(const char *path, int (*fn)(void *, const char *), void *ctx)
{
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    int code = 0;
    for (const struct dirent *entry; code == 0 && (entry = readdir(dir));) {
        char full[PATH_MAX];
        struct stat st;
        if (entry->d_name[0] != '.' &&
            (size_t)snprintf(full, sizeof full, "%s/%s", path, entry->d_name) < sizeof full && stat(full, &st) == 0 &&
            S_ISDIR(st.st_mode))
            code = fn(ctx, full);
    }
    closedir(dir);
    return code;
}

struct listing {
    struct found *list;
    size_t count;
};

static int list_add_trace(void *ctx, const char *path)
{
    struct listing *listing = ctx;
    struct found *grown = realloc(listing->list, (listing->count + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    listing->list = grown;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    grown[listing->count++] = (struct found){copy, start_of(path)};
    return 0;
}

static int list_add_node(void *ctx, const char *path)
{
    int code = each_folder(path, list_add_trace, ctx);
    return code == -ENOMEM ? code : 0; /* a node's folder that cannot be opened hides no other */
}

/* Of the job, or of one of its parts. */
static int list_add_dir(void *ctx, const char *dir)
{
    char root[PATH_MAX];
    if ((size_t)snprintf(root, sizeof root, "%s/trace", dir) >= sizeof root)
        return -ENAMETOOLONG;
    int code = each_folder(root, list_add_node, ctx);
    return code == -ENOENT ? 0 : code;
}

int trace_list(const char *jobdir, char ***ret_paths, size_t *ret_count, struct err *err)
{
    struct listing listing = {0};
    int code = job_dirs_each(jobdir, list_add_dir, &listing);
    char **paths = code == 0 ? calloc(listing.count + 1, sizeof *paths) : NULL;
    if (code == 0 && !paths)
        code = -ENOMEM;
    if (code == 0 && listing.count)
        qsort(listing.list, listing.count, sizeof *listing.list, compare_starts);
    for (size_t i = 0; i < listing.count; i++) {
        if (paths)
            paths[i] = listing.list[i].path;
        else
            free(listing.list[i].path);
    }
    free(listing.list);
    if (code < 0)
        return err_errno(err, code, "cannot list the traces in %s", jobdir);
    *ret_paths = paths;
    *ret_count = listing.count;
    return 0;
}

/* ---- traces that follow each other ---- */

static bool is_continued(const struct trace *trace)
{
    const char *state = trace_value(trace, "state");
    return state && strcmp(state, "continued") == 0;
}

bool trace_goes_on(const struct trace *trace, const struct trace *next)
{
    const char *boot = trace_own_value(trace, "boot_id"), *next_boot = trace_own_value(next, "boot_id");
    return trace != next && is_continued(trace) && trace->pid == next->pid && strcmp(trace->node, next->node) == 0 &&
           strcmp(boot ? boot : "", next_boot ? next_boot : "") == 0;
}

void trace_append(struct trace *trace, struct trace *next_take)
{
    while (trace->rest)
        trace = trace->rest;
    trace->rest = next_take;
}

struct trace *trace_rest(const struct trace *trace)
{
    return trace->rest;
}

/* PID-N without the N: two traces of one process. */
static bool same_process(const char *path, const char *other)
{
    const char *dash = strrchr(path, '-');
    return dash && strncmp(path, other, (size_t)(dash - path) + 1) == 0 && !strchr(other + (dash - path) + 1, '/');
}

void trace_append_all(struct trace *trace, char **paths, size_t count, trace_problem_fn *problem, void *ctx)
{
    const char *path = trace->path;
    for (size_t i = 0; i < count && is_continued(trace); i++) {
        struct trace *next;
        struct err err = {0};
        if (!paths[i] || !same_process(path, paths[i]) || strcmp(path, paths[i]) == 0)
            continue;
        if (trace_open(&next, paths[i], problem, ctx, &err) < 0)
            continue; /* it is told where it is read by itself */
        if (trace_goes_on(trace, next)) {
            trace_append(trace, next);
            free(paths[i]);
            paths[i] = NULL;
        } else {
            trace_close(next);
        }
    }
}

/* ---- problems ---- */

void trace_tell(struct trace *trace, const char *format, ...)
{
    char text[PATH_MAX + 256];
    if (!trace->problem || trace->problems_told > TRACE_PROBLEMS)
        return;
    if (trace->problems_told++ == TRACE_PROBLEMS) {
        snprintf(text, sizeof text, "%s: more of the kind is not listed", trace->path);
    } else {
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
    }
    trace->problem(trace->problem_ctx, text);
}

/* ---- values ---- */

const char *trace_own_value(const struct trace *trace, const char *key)
{
    for (size_t i = 0; i < trace->pair_count; i++)
        if (strcmp(trace->pairs[i].key, key) == 0)
            return trace->pairs[i].value;
    return NULL;
}

const char *trace_value(const struct trace *trace, const char *key)
{
    if (strcmp(key, "state") == 0)
        while (trace->rest)
            trace = trace->rest;
    return trace_own_value(trace, key);
}

uint64_t trace_number(const struct trace *trace, const char *key)
{
    const char *value = trace_own_value(trace, key);
    uint64_t number;
    return value && number_of(value, &number) ? number : 0;
}

bool trace_problem(const struct trace *trace, size_t index, struct kept_note *ret_note)
{
    for (size_t i = 0; i < trace->pair_count; i++)
        if (strcmp(trace->pairs[i].key, "problem") == 0 && index-- == 0) {
            note_read_line(ret_note, trace->pairs[i].value);
            return true;
        }
    return false;
}

/* ---- places ---- */

size_t trace_place_count(const struct trace *trace)
{
    size_t count = 0;
    for (; trace; trace = trace->rest)
        count = trace->place_room > count ? trace->place_room : count;
    return count;
}

const struct trace_place *trace_place(const struct trace *trace, uint32_t number)
{
    const struct trace_place *found = NULL;
    for (; trace; trace = trace->rest) {
        const struct trace_place *here =
            number < trace->place_room && trace->places[number].module ? &trace->places[number] : NULL;
        if (here && *here->module)
            return here;
        found = here ? here : found;
    }
    return found;
}

void trace_place_name(struct trace *trace, uint32_t number, const char *caller, const char *file, uint32_t line)
{
    struct trace_place *place = (struct trace_place *)(uintptr_t)trace_place(trace, number);
    if (!place)
        return;
    place->caller = caller;
    place->file = file;
    place->line = line;
}

uint32_t trace_place_function(struct trace *trace, uint32_t number, uint64_t tried)
{
    const struct trace_place *place = trace_place(trace, number);
    for (struct trace *part = trace; !place && part; part = part->rest)
        if (part->places_tried != tried) { /* packets came after the file was read */
            part->places_tried = tried;
            load_places(part);
            place = trace_place(part, number);
        }
    return place ? place->function : UINT32_MAX;
}

/* ---- a trace ---- */

/* The name of the folder above the trace's. */
static char *node_of(const char *path)
{
    const char *end = strrchr(path, '/'), *start = end;
    while (start && start > path && start[-1] != '/')
        start--;
    return start ? strndup(start, (size_t)(end - start)) : strdup("");
}

int trace_open(struct trace **ret_trace, const char *path, trace_problem_fn *problem, void *ctx, struct err *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return err_errno(err, -errno, "cannot open the trace %s", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, -ENOTDIR, "%s is no trace: it is not a directory", path);
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return err_set(err, -ENOMEM, "out of memory");
    trace->problem = problem;
    trace->problem_ctx = ctx;
    trace->path = strdup(path);
    trace->node = trace->path ? node_of(path) : NULL;
    int code = trace->node ? trace_update(trace, err) : err_set(err, -ENOMEM, "out of memory");
    if (code < 0) {
        trace_close(trace);
        return code;
    }
    *ret_trace = trace;
    return 0;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    trace_close(trace->rest);
    for (struct trace_meta *meta = trace->texts, *next; meta; meta = next) {
        next = meta->next;
        free(meta);
    }
    for (size_t i = 0; i < trace->layout_room; i++)
        layout_free(trace->layouts[i].layout);
    free(trace->layouts);
    for (size_t i = 0; i < trace->module_count; i++)
        index_close(trace->modules[i].index);
    free(trace->modules);
    free(trace->functions);
    free(trace->places);
    free(trace->by_address);
    free(trace->pairs);
    free(trace->process);
    free(trace->path);
    free(trace->node);
    free(trace);
}

pid_t trace_pid(const struct trace *trace)
{
    return trace->pid;
}

const char *trace_node(const struct trace *trace)
{
    return trace->node;
}

const char *trace_path(const struct trace *trace)
{
    return trace->path;
}

size_t trace_function_count(const struct trace *trace)
{
    size_t count = 0;
    for (; trace; trace = trace->rest)
        count = trace->function_room > count ? trace->function_room : count;
    return count;
}

size_t trace_thread_count(const struct trace *trace)
{
    return trace->thread_count;
}

/* A monitor that was killed early may have had only its address for a name. */
const struct trace_function *trace_function(const struct trace *trace, uint32_t id)
{
    const struct trace_function *found = NULL;
    for (; trace; trace = trace->rest) {
        const struct trace_function *here =
            id < trace->function_room && trace->functions[id].name ? &trace->functions[id] : NULL;
        if (here && (!trace->rest || strncmp(here->name, "0x", 2) != 0))
            return here;
        found = here ? here : found;
    }
    return found;
}

static const char *layout_text(void *ctx, uint32_t id)
{
    return trace_layout_text(ctx, id);
}

const struct layout *trace_layout(const struct trace *trace, uint32_t id)
{
    if (id >= trace->layout_room || !trace->layouts[id].text)
        return NULL;
    struct trace_layout_entry *entry = &trace->layouts[id];
    if (!entry->layout && !entry->bad) {
        struct err err = {0};
        _cleanup_(buf_done) struct buf whole = BUF_INIT;
        if (layout_expand(entry->text, id, layout_text, (void *)(uintptr_t)trace, &whole) < 0)
            entry->bad = err_set(&err, -EBADMSG, "it refers to parts that are not there");
        else
            entry->bad = layout_parse(&entry->layout, whole.data ? whole.data : "", &err) < 0;
        if (entry->bad) {
            entry->layout = NULL;
            trace_tell((struct trace *)(uintptr_t)trace, "%s/.layouts: layout %" PRIu32 ": %s", trace->path, id,
                       err.text);
        }
    }
    return entry->layout;
}

const char *trace_layout_text(const struct trace *trace, uint32_t id)
{
    return id < trace->layout_room ? trace->layouts[id].text : NULL;
}

uint32_t trace_layout_count(const struct trace *trace)
{
    return (uint32_t)trace->layout_room;
}

uint64_t trace_wall_ns(const struct trace *trace, uint64_t ticks)
{
    return trace->tick_zero_ns + (uint64_t)((unsigned __int128)ticks * NS_PER_SECOND / trace->ticks_per_second);
}

double trace_ticks_ns(const struct trace *trace, uint64_t ticks)
{
    return (double)ticks * trace->ns_per_tick;
}

/* ---- addresses ---- */

static int compare_addresses(const void *a, const void *b)
{
    const struct trace_function *left = *(struct trace_function *const *)a, *right = *(struct trace_function *const *)b;
    return left->address < right->address ? -1 : left->address > right->address;
}

static bool sort_addresses(struct trace *trace)
{
    if (trace->by_address)
        return true;
    trace->by_address = calloc(trace->function_room + 1, sizeof *trace->by_address);
    if (!trace->by_address)
        return false;
    trace->by_address_count = 0;
    for (size_t i = 0; i < trace->function_room; i++)
        if (trace->functions[i].name)
            trace->by_address[trace->by_address_count++] = &trace->functions[i];
    if (trace->by_address_count)
        qsort(trace->by_address, trace->by_address_count, sizeof *trace->by_address, compare_addresses);
    return true;
}

static bool name_address(struct trace *trace, uint64_t address, struct buf *out)
{
    if (!sort_addresses(trace))
        return false;
    /* the last that begins at or before the address */
    size_t low = COUNT_BEFORE(trace->by_address_count, i, trace->by_address[i]->address <= address);
    if (low == 0)
        return false;
    const struct trace_function *function = trace->by_address[low - 1];
    uint64_t offset = address - function->address;
    if (offset && offset >= function->size)
        return false;
    buf_puts(out, function->name);
    if (offset)
        buf_printf(out, "+0x%" PRIx64, offset);
    return true;
}

/* By the index of the file that was there; nothing where several were, one after the other. */
static bool name_by_module(struct trace *trace, uint64_t address, struct buf *out)
{
    struct trace_module *found = NULL;
    struct index_function function;
    for (size_t i = 0; i < trace->module_count; i++) {
        struct trace_module *module = &trace->modules[i];
        if (address < module->start || address >= module->end)
            continue;
        if (found && (strcmp(found->key, module->key) != 0 || found->bias != module->bias))
            return false;
        found = found ? found : module;
    }
    if (found && !found->looked) {
        found->looked = true;
        if (index_open_key(&found->index, found->key, NULL) < 0)
            found->index = NULL;
    }
    if (!found || !found->index || !index_find(found->index, address - found->bias, &function))
        return false;
    buf_puts(out, function.name);
    if (address - found->bias != function.address)
        buf_printf(out, "+0x%" PRIx64, address - found->bias - function.address);
    return true;
}

bool trace_name_address(void *ctx, uint64_t address, struct buf *out)
{
    for (struct trace *trace = ctx; trace; trace = trace->rest)
        if (name_address(trace, address, out))
            return true;
    for (struct trace *trace = ctx; trace; trace = trace->rest)
        if (name_by_module(trace, address, out))
            return true;
    return false;
}
