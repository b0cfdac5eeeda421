/* SPDX-License-Identifier: Apache-2.0 */
/* The files of statistics of MPI in a job directory (jobdir/mpi/stats.h). What cannot be read is said and left out. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/record/parts.h"

/* ---- all of a job ---- */

struct reading {
    struct mpi_stats_set set;
    bool found;      /* there is a folder of them */
    const char *dir; /* that is read, of the set */
    int unreadable;
    struct err *err; /* of the first */
};

static void note_unreadable(struct reading *reading, const char *path, int code, const struct err *why)
{
    if (!reading->unreadable++ && *why->text)
        err_set(reading->err, code, "%s: %s", path, why->text);
    else if (reading->unreadable == 1)
        err_errno(reading->err, code, "%s", path);
}

/* NODE/PID-N of PID-N.json */
static bool name_of(const char *node, const char *file, char *ret_name, size_t size)
{
    int pid, incarnation, end = 0;
    if (!isdigit((unsigned char)*file) || sscanf(file, "%d-%d%n", &pid, &incarnation, &end) != 2 ||
        strcmp(file + end, ".json") != 0)
        return false;
    return snprintf(ret_name, size, "%s/%.*s", node, end, file) < (int)size;
}

static int read_one(struct reading *reading, const char *path, const char *name)
{
    struct mpi_stats_set *set = &reading->set;
    _cleanup_(freep) char *bytes = NULL;
    size_t size;
    struct err why = {.text = ""};
    struct mpi_stats *stats = mpi_stats_set_next(set);
    if (!stats)
        return -ENOMEM;
    int code = file_read_plain(path, &bytes, &size);
    if (code == 0)
        code = mpi_stats_parse(stats, bytes, size, set->arena, &why);
    if (code == -ENOMEM)
        return code;
    if (code < 0) {
        note_unreadable(reading, path, code, &why);
        return 0;
    }
    stats->name = arena_dup(set->arena, name, strlen(name));
    stats->dir = reading->dir;
    set->count += stats->name != NULL;
    return stats->name ? 0 : -ENOMEM;
}

static int read_node(struct reading *reading, const char *dir, const char *node)
{
    char path[PATH_MAX], name[PATH_MAX];
    int code = 0;
    if (snprintf(path, sizeof path, "%s/%s", dir, node) >= (int)sizeof path)
        return 0;
    DIR *files = opendir(path);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));)
        if (name_of(node, entry->d_name, name, sizeof name) &&
            snprintf(path, sizeof path, "%s/%s/%s", dir, node, entry->d_name) < (int)sizeof path)
            code = read_one(reading, path, name);
    if (files)
        closedir(files);
    return code;
}

/* Of the job, or of one of its parts. */
static int read_dir(void *ctx, const char *dir)
{
    struct reading *reading = ctx;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/stats", dir) >= (int)sizeof path)
        return -ENAMETOOLONG;
    DIR *nodes = opendir(path);
    if (!nodes && errno == ENOENT)
        return 0;
    if (!nodes)
        return err_errno(reading->err, -errno, "%s", path);
    reading->found = true;
    reading->dir = mpi_stats_set_text(&reading->set, dir);
    int code = reading->dir ? 0 : -ENOMEM;
    for (struct dirent *entry; code == 0 && (entry = readdir(nodes));)
        if (entry->d_name[0] != '.')
            code = read_node(reading, path, entry->d_name);
    closedir(nodes);
    return code;
}

int mpi_stats_read(struct mpi_stats_set *ret_set, const char *jobdir, struct err *err)
{
    struct reading reading = {.err = err};
    int code = job_dirs_each(jobdir, read_dir, &reading);
    if (code == 0 && !reading.found)
        code = err_errno(err, -ENOENT, "%s/stats", jobdir);
    if (code < 0) {
        mpi_stats_set_done(&reading.set);
        return code == -ENOMEM ? err_set(err, code, "out of memory") : code;
    }
    mpi_stats_set_sort(&reading.set);
    *ret_set = reading.set;
    return reading.unreadable;
}

/* ---- distributions ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct mpi_stats_distribution *)a)->name, ((const struct mpi_stats_distribution *)b)->name);
}

static bool is_distribution(const char *file)
{
    size_t len = strlen(file);
    return len > strlen(".dist") && strcmp(file + len - strlen(".dist"), ".dist") == 0;
}

int mpi_stats_read_distributions(struct mpi_stats *stats, const char *jobdir, struct arena *arena, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    struct reading reading = {.err = err};
    struct mpi_stats_distribution *list = NULL;
    size_t count = 0, room = 0;
    int code = 0;
    if (snprintf(dir, sizeof dir, "%s/stats/%s", stats->dir ? stats->dir : jobdir, stats->name) >= (int)sizeof dir)
        return err_set(err, -ENAMETOOLONG, "%s: the path is too long", jobdir);
    DIR *files = opendir(dir);
    for (struct dirent *entry; files && code == 0 && (entry = readdir(files));) {
        _cleanup_(freep) char *bytes = NULL;
        size_t size;
        struct err why = {.text = ""};
        if (!is_distribution(entry->d_name))
            continue;
        if (count == room) {
            room = room ? 2 * room : 32;
            struct mpi_stats_distribution *grown = arena_alloc(arena, room * sizeof *grown);
            if (!grown) {
                code = -ENOMEM;
                break;
            }
            if (count)
                memcpy(grown, list, count * sizeof *grown);
            list = grown;
        }
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        int bad = file_read_plain(path, &bytes, &size);
        if (bad == 0)
            bad = mpi_stats_parse_distribution(&list[count], bytes, size, arena, &why);
        if (bad == -ENOMEM)
            code = bad;
        else if (bad < 0)
            note_unreadable(&reading, path, bad, &why);
        else
            count++;
    }
    if (files)
        closedir(files);
    if (code < 0)
        return err_set(err, code, "out of memory");
    if (count)
        qsort(list, count, sizeof *list, by_name);
    stats->distributions = list;
    stats->distribution_count = count;
    return reading.unreadable;
}
