/* SPDX-License-Identifier: Apache-2.0 */
/* Where functions are called from (trace_place): of each place the calls and their time. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "base/data/hash.h"
#include "jobdir/report/functions_internal.h"
#include "jobdir/text/text.h"

enum { SHOWN_SITES = 15, RECURSION = 32 /* calls around one that are looked at */ };

/* The call is inside of one from the same place: its time is in that one's. */
static bool is_inside(const struct call *call)
{
    const struct call *around = call->parent;
    for (unsigned i = 0; around && i < RECURSION; i++, around = around->parent)
        if (around->place == call->place)
            return true;
    return false;
}

static struct job_site *site_of(struct reading *reading, const struct trace_place *place)
{
    struct job_functions *all = reading->all;
    struct job_function *function = report_function(reading, place->function);
    struct job_site *site;
    char *key;
    if (!function)
        return NULL;
    int len = asprintf(&key, "%p %d %" PRIx64 " %s %s", (void *)function, place->inlined, place->offset,
                       place->build_id, place->module);
    if (len < 0)
        return NULL;
    HASH_FIND(hh, all->sites, key, (size_t)len, site);
    if (site || !(site = calloc(1, sizeof *site))) {
        free(key);
        return site;
    }
    *site = (struct job_site){.key = key,
                              .function = function,
                              .module = arena_dup(&all->names, place->module, strlen(place->module)),
                              .build_id = arena_dup(&all->names, place->build_id, strlen(place->build_id)),
                              .offset = place->offset,
                              .inlined = place->inlined,
                              .caller = "",
                              .file = ""};
    if (!site->module || !site->build_id) {
        free(key);
        free(site);
        return NULL;
    }
    HASH_ADD_KEYPTR(hh, all->sites, site->key, (size_t)len, site);
    return site;
}

void report_site_call(struct reading *reading, const struct call *call, double ns)
{
    const struct trace_place *place = call->place == UINT32_MAX ? NULL : trace_place(reading->trace, call->place);
    if (!place || !*place->module)
        return;
    if (!GROW_ZERO_TO(reading->sites, (size_t)call->place + 1, reading->site_room)) {
        reading->code = -ENOMEM;
        return;
    }
    struct job_site **site = &reading->sites[call->place];
    if (!*site && !(*site = site_of(reading, place))) {
        reading->code = -ENOMEM;
        return;
    }
    (*site)->calls++;
    if (!is_inside(call))
        (*site)->total_ns += ns;
}

static int by_total(const struct job_site *a, const struct job_site *b)
{
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    if (a->calls != b->calls)
        return a->calls > b->calls ? -1 : 1;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

void report_sites_sort(struct job_functions *all)
{
    HASH_SRT(hh, all->sites, by_total);
}

static bool same_line(const struct job_site *a, const struct job_site *b)
{
    return *a->file && a->function == b->function && a->line == b->line && strcmp(a->file, b->file) == 0 &&
           strcmp(a->caller, b->caller) == 0;
}

void job_sites_join(struct job_functions *functions)
{
    struct job_site *site, *next, *other;
    HASH_ITER(hh, functions->sites, site, next)
    {
        if (!*site->file) /* all of them that have no names are not compared with each other */
            continue;
        for (other = functions->sites; other != site && !same_line(other, site); other = other->hh.next)
            ;
        if (other == site)
            continue;
        other->calls += site->calls;
        other->total_ns += site->total_ns;
        HASH_DEL(functions->sites, site);
        free(site->key);
        free(site);
    }
    report_sites_sort(functions);
    functions->sites_named = true;
}

void report_sites_free(struct job_functions *all)
{
    HASH_FREE_ALL(all->sites, free(each->key));
    arena_done(&all->names);
}

static void put_place(struct buf *out, const void *at, const void *row, const void *all)
{
    const struct job_site *site = row;
    text_function(out, site->function->name, site->function->file);
    buf_puts(out, " from ");
    text_show(out, text_base(*site->file ? site->file : site->module));
    buf_printf(out, *site->file ? ":%" PRIu64 : "+0x%" PRIx64, *site->file ? site->line : site->offset);
    if (*site->caller) {
        buf_puts(out, " in ");
        text_show(out, site->caller);
    }
}

static json_t *name_json(const void *row, const void *all)
{
    return text_json(((const struct job_site *)row)->function->name);
}

const struct field report_site_fields[] = {
    {"function", FIELD_TEXT, .json = name_json},
    {"from_function", FIELD_TEXT, FIELD_AT(struct job_site, caller),
     .about = "the function that calls; \"\": not known"},
    {"from_file", FIELD_TEXT, FIELD_AT(struct job_site, file), .about = "\"\": not known"},
    {"from_line", FIELD_COUNT, FIELD_AT(struct job_site, line)},
    {"from_module", FIELD_TEXT, FIELD_AT(struct job_site, module)},
    {"from_offset", FIELD_COUNT, FIELD_AT(struct job_site, offset),
     .about = "the return address, as the file of the module has it"},
    {"calls", FIELD_COUNT, FIELD_AT(struct job_site, calls), .column = {2, 1, 8, "calls"}},
    {"total_ns", FIELD_NS, FIELD_AT(struct job_site, total_ns),
     .about = "of calls inside each other from one place, the outermost", .column = {1, 0, 15, "Calls come from"}},
    {.type = FIELD_SHOWN, .column = {3, 2, 0, "function, from", .text = put_place}},
    {0}};

json_t *report_sites_json(const void *functions, const void *all)
{
    json_t *list = json_array();
    size_t count = 0;
    for (const struct job_site *site = ((const struct job_functions *)functions)->sites;
         site && count < FUNCTIONS_SITES; site = site->hh.next, count++)
        json_array_append_new(list, fields_json(report_site_fields, site, functions));
    return list;
}

void report_put_sites(struct buf *out, const struct job_functions *functions)
{
    const struct job_site *list[SHOWN_SITES];
    size_t count = 0;
    for (const struct job_site *site = functions->sites; site && functions->sites_named && count < SHOWN_SITES;
         site = site->hh.next)
        list[count++] = site;
    fields_table(out, &(struct field_table){report_site_fields}, list, count, 0, functions);
}
