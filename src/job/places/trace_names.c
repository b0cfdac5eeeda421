/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/trace_names.h"

#include <errno.h>

#include "job/places/place_names.h"
#include "shm/waits.h"

static const struct place_name *name_of(struct place_names *names, const struct trace_place *place)
{
    /* a path is absolute; a name alone cannot be opened */
    return place && !*place->caller && *place->module == '/'
               ? place_names_add(names, place->module, place->build_id, place->offset, place->inlined)
               : NULL;
}

int trace_names_find(struct trace *const *traces, size_t count, const char *jobdir, struct arena *arena,
                     struct err *err)
{
    struct place_names *names;
    if (place_names_new(&names, arena) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < trace_place_count(traces[i]); k++)
            name_of(names, trace_place(traces[i], k));
    int code = place_names_find(names, jobdir, PLACE_NAMES_TIMEOUT_MS, err);
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < trace_place_count(traces[i]); k++) {
            const struct place_name *name = name_of(names, trace_place(traces[i], k));
            if (name && name->found)
                trace_place_name(traces[i], k, name->function ? name->function : "", name->file ? name->file : "",
                                 name->line);
        }
    place_names_free(names);
    return code;
}

static const struct place_name *site_name(struct place_names *names, const struct job_site *site)
{
    return *site->module == '/' ? place_names_add(names, site->module, site->build_id, site->offset, site->inlined)
                                : NULL;
}

int trace_names_sites(struct job_functions *functions, const char *jobdir, struct err *err)
{
    struct place_names *names;
    struct job_site *site = functions->sites;
    if (!site)
        return 0;
    if (place_names_new(&names, &functions->names) < 0)
        return -ENOMEM;
    for (size_t i = 0; site && i < FUNCTIONS_SITES; i++, site = site->hh.next)
        site_name(names, site);
    int code = place_names_find(names, jobdir, PLACE_NAMES_TIMEOUT_MS, err);
    site = functions->sites;
    for (size_t i = 0; site && i < FUNCTIONS_SITES; i++, site = site->hh.next) {
        const struct place_name *name = site_name(names, site);
        if (!name || !name->found)
            continue;
        site->caller = name->function ? name->function : "";
        site->file = name->file ? name->file : "";
        site->line = name->line;
    }
    job_sites_join(functions);
    place_names_free(names);
    return code;
}
