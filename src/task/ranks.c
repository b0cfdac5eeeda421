/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a run are in what was recorded: a monitor that does not answer in time lets a process go without it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "jobdir/mpi/stats.h"
#include "task/advance.h"

static bool has_trace(const struct mpi_stats *rank)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/trace/%s", rank->dir ? rank->dir : "", rank->name);
    return access(path, F_OK) == 0;
}

/* How many processes of the job its notes name that were let go (base/data/notes.h). */
static uint64_t untraced(const struct job_info *info)
{
    static const char *const names[] = {"late", "refused"};
    uint64_t count = 0;
    json_t *warning;
    size_t i;
    json_array_foreach(info->warnings, i, warning)
    {
        const char *note = json_string_value(json_object_get(warning, "note"));
        json_t *processes = json_object_get(json_object_get(warning, "fields"), "processes");
        for (size_t k = 0; note && k < sizeof names / sizeof *names; k++)
            if (strcmp(note, names[k]) == 0 &&
                json_integer_value(processes) > 0) /* another machine may have written it */
                count += (uint32_t)json_integer_value(processes);
    }
    return count;
}

/* One after the other: those of a program stand together, by their ranks, and one that has executed another program is there twice. */
static void count_ranks(const struct mpi_stats_set *set, uint64_t *ret_ranks, uint64_t *ret_counted,
                        uint64_t *ret_traced)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct mpi_stats *rank = &set->ranks[i], *before = i ? rank - 1 : NULL;
        bool same_world = before && strcmp(before->namespace, rank->namespace) == 0;
        if (!same_world && rank->world_size > 0)
            *ret_ranks += (uint64_t)rank->world_size;
        if (same_world && before->rank == rank->rank)
            continue;
        *ret_counted += 1;
        *ret_traced += has_trace(rank);
    }
}

json_t *task_ranks(const char *jobdir, const struct job_info *info)
{
    struct mpi_stats_set set = {0};
    uint64_t ranks = 0, counted = 0, traced = 0, let_go = untraced(info);
    if (mpi_stats_read(&set, jobdir, NULL) >= 0)
        count_ranks(&set, &ranks, &counted, &traced);
    mpi_stats_set_done(&set);
    json_t *facts = json_pack("{s:I}", "untraced_processes", (json_int_t)let_go);
    if (ranks)
        json_object_update_new(
            facts, json_pack("{s:I, s:I}", "ranks", (json_int_t)ranks, "ranks_counted", (json_int_t)counted));
    if (ranks && (traced || let_go)) /* else none was to be */
        json_object_set_new(facts, "ranks_traced", json_integer((json_int_t)traced));
    return facts;
}
