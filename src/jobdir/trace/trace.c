/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/trace/trace.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/parts.h"
#include "jobdir/trace/internal.h"
#include "symbols/index/index.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Finding the traces of a job, and those that follow each other. */

/* ---- the traces of a job ---- */

struct found {
    char *path;
    uint64_t start_ns;
};

static int by_start(const void *a, const void *b)
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
        if (strncmp(line, "start_ns\t", 9) == 0 && trace_number_of(line + 9, &number))
            return number;
    }
    return UINT64_MAX;
}

static int add_found(struct found **list, size_t *count, const char *path)
{
    struct found *grown = realloc(*list, (*count + 1) * sizeof *grown);
    if (!grown)
        return -ENOMEM;
    *list = grown;
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    grown[(*count)++] = (struct found){copy, start_of(path)};
    return 0;
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

static int take_trace(void *ctx, const char *path)
{
    struct listing *listing = ctx;
    return add_found(&listing->list, &listing->count, path);
}

static int take_node(void *ctx, const char *path)
{
    int code = each_folder(path, take_trace, ctx);
    return code == -ENOMEM ? code : 0; /* a node's folder that cannot be opened hides no other */
}

/* Of the job, or of one of its parts. */
static int take_dir(void *ctx, const char *dir)
{
    char root[PATH_MAX];
    if ((size_t)snprintf(root, sizeof root, "%s/trace", dir) >= sizeof root)
        return -ENAMETOOLONG;
    int code = each_folder(root, take_node, ctx);
    return code == -ENOENT ? 0 : code;
}

int trace_list(const char *jobdir, char ***ret_paths, size_t *ret_count, struct err *err)
{
    struct listing listing = {0};
    int code = job_dirs_each(jobdir, take_dir, &listing);
    char **paths = code == 0 ? calloc(listing.count + 1, sizeof *paths) : NULL;
    if (code == 0 && !paths)
        code = -ENOMEM;
    if (code == 0 && listing.count)
        qsort(listing.list, listing.count, sizeof *listing.list, by_start);
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

/* What a trace says: its values, places, functions, layouts, and names of addresses. */

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
    return value && trace_number_of(value, &number) ? number : 0;
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
            trace_load_places(part);
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

static const char *text_of(void *ctx, uint32_t id)
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
        if (layout_expand(entry->text, id, text_of, (void *)(uintptr_t)trace, &whole) < 0)
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

static int by_address(const void *a, const void *b)
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
        qsort(trace->by_address, trace->by_address_count, sizeof *trace->by_address, by_address);
    return true;
}

static bool name_address(struct trace *trace, uint64_t address, struct buf *out)
{
    if (!sort_addresses(trace))
        return false;
    size_t low = 0, high = trace->by_address_count; /* the last that begins at or before the address */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace->by_address[middle]->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
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
