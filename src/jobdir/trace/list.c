/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the traces of a job, and those that follow each other. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/record/parts.h"
#include "jobdir/trace/internal.h"

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
