/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/mpi_names.h"

#include <errno.h>
#include <stdio.h>

#include "job/places/place_names.h"

static bool is_named(const struct mpi_stats_site *site)
{
    return !site->module || !*site->module || (site->function && *site->function);
}

static const struct place_name *name_of(struct place_names *names, const struct mpi_stats_site *site)
{
    return place_names_add(names, site->module, site->build_id ? site->build_id : "", site->offset, false);
}

static void each_site(struct mpi_stats_set *set, void (*fn)(struct place_names *names, struct mpi_stats_site *site),
                      struct place_names *names)
{
    for (size_t i = 0; i < set->count; i++) {
        struct mpi_stats *stats = &set->ranks[i];
        for (size_t j = 0; j < stats->site_count; j++)
            if (!is_named(&stats->sites[j]))
                fn(names, &stats->sites[j]);
        for (size_t j = 0; j < stats->thread_count; j++) {
            struct mpi_stats_thread *thread = &stats->threads[j];
            if (thread->now.call != CALL_NONE && !is_named(&thread->now.site))
                fn(names, &thread->now.site);
            if (thread->polls && !is_named(&thread->last.site))
                fn(names, &thread->last.site);
        }
    }
}

static void collect(struct place_names *names, struct mpi_stats_site *site)
{
    name_of(names, site);
}

static void apply(struct place_names *names, struct mpi_stats_site *site)
{
    const struct place_name *place = name_of(names, site);
    if (!place || !place->found)
        return;
    site->function = place->function ? place->function : "";
    site->file = place->file ? place->file : "";
    site->line = place->line;
}

int mpi_names_find(struct mpi_stats_set *set, const char *jobdir, unsigned timeout_ms, struct err *err)
{
    struct place_names *names;
    if (place_names_new(&names, set->arena) < 0)
        return -ENOMEM;
    each_site(set, collect, names);
    int code = place_names_find(names, jobdir, timeout_ms, err);
    each_site(set, apply, names);
    place_names_free(names);
    return code;
}

int mpi_names_report(struct mpi_report **ret_report, const char *jobdir, unsigned timeout_ms, struct err *err)
{
    struct err unnamed = {0};
    int code = mpi_report_read(ret_report, jobdir, err);
    if (code < 0)
        return code;
    if (mpi_names_find(&(*ret_report)->set, jobdir, timeout_ms, &unnamed) > 0)
        snprintf((*ret_report)->unnamed, sizeof(*ret_report)->unnamed, "%s", unnamed.text);
    code = mpi_report_add_up(*ret_report);
    if (code == 0)
        return 0;
    mpi_report_free(*ret_report);
    *ret_report = NULL;
    return err_set(err, code, "out of memory");
}
