/* SPDX-License-Identifier: Apache-2.0 */
#include "job/mpi_names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uthash.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "job/aside.h"
#include "jobdir/text.h"
#include "symbols/elf_identity.h"
#include "symbols/lines.h"

enum { PLACES_MOST = 100000 };

/* One place in the code, however many ranks and calls have it. */
struct place {
    char *key; /* BUILD-ID OFFSET MODULE */
    const char *module, *build_id;
    uint64_t offset;
    const char *function, *file; /* NULL: not known yet */
    uint32_t line;
    bool found;
    UT_hash_handle hh;
};

struct names {
    struct place *places;
    struct arena *arena;
    size_t unknown;
    bool failed;
};

static struct place *place_of(struct names *names, const char *module, const char *build_id, uint64_t offset)
{
    struct place *place = NULL;
    char *key = arena_printf(names->arena, "%s %" PRIx64 " %s", build_id, offset, module);
    if (!key) {
        names->failed = true;
        return NULL;
    }
    HASH_FIND_STR(names->places, key, place);
    if (place || HASH_COUNT(names->places) >= PLACES_MOST)
        return place;
    place = arena_zalloc(names->arena, 1, sizeof *place);
    if (!place) {
        names->failed = true;
        return NULL;
    }
    *place = (struct place){.key = key, .module = module, .build_id = build_id, .offset = offset};
    HASH_ADD_KEYPTR(hh, names->places, place->key, strlen(place->key), place);
    return place;
}

static bool is_named(const struct mpi_stats_site *site)
{
    return !site->module || !*site->module || (site->function && *site->function);
}

static void each_site(struct mpi_stats_set *set, void (*fn)(struct names *names, struct mpi_stats_site *site),
                      struct names *names)
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

static void collect(struct names *names, struct mpi_stats_site *site)
{
    place_of(names, site->module, site->build_id ? site->build_id : "", site->offset);
}

static void apply(struct names *names, struct mpi_stats_site *site)
{
    const struct place *place = place_of(names, site->module, site->build_id ? site->build_id : "", site->offset);
    if (!place || !place->found)
        return;
    site->function = place->function ? place->function : "";
    site->file = place->file ? place->file : "";
    site->line = place->line;
}

/* ---- looking up, in the child ---- */

static bool is_same_file(const struct place *place, struct err *err)
{
    struct elf_identity identity;
    char build_id[2 * ELF_BUILD_ID + 1] = "";
    _cleanup_(closep) int fd = open(place->module, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int code = fd < 0 ? -errno : elf_identity_file(&identity, fd);
    if (code < 0) {
        err_errno(err, code, "%s", place->module);
        return false;
    }
    for (size_t i = 0; i < identity.build_id_size; i++)
        snprintf(build_id + 2 * i, 3, "%02x", identity.build_id[i]);
    if (strncmp(build_id, place->build_id, strlen(place->build_id)) == 0 && (*place->build_id || !*build_id))
        return true;
    err_set(err, -ESTALE, "%s was replaced since it ran", place->module);
    return false;
}

static int by_module(const struct place *a, const struct place *b)
{
    int order = strcmp(a->module, b->module);
    return order ? order : strcmp(a->build_id, b->build_id);
}

static json_t *answer_of(struct lines *lines, const struct place *place)
{
    struct line_location where = {0};
    json_t *json = json_pack("{s:s}", "key", place->key);
    /* A return address: the call ends before it. */
    if (lines && lines_find(lines, place->offset - 1, &where) == 0 && where.count) {
        const struct line_frame *frame = &where.frames[0];
        if (frame->function)
            json_object_set_new(json, "function", text_json(frame->function));
        if (frame->file) {
            json_object_set_new(json, "file", text_json(frame->file));
            json_object_set_new(json, "line", json_integer(frame->line));
        }
    }
    line_location_done(&where);
    return json;
}

static json_t *look_up(const void *ctx)
{
    const struct names *names = ctx;
    struct place *places = names->places, *last = NULL;
    struct lines *lines = NULL;
    json_t *list = json_array(), *problem = json_null();
    HASH_SORT(places, by_module);
    for (struct place *place = places; place; place = place->hh.next) {
        struct err err = {0};
        if (place->found)
            continue;
        if (!last || by_module(last, place) != 0) {
            struct lines_module module = {.path = place->module};
            lines_close(lines);
            lines = NULL;
            if (is_same_file(place, &err))
                lines_open_modules(&lines, &module, 1, &err);
            if (err.code && json_is_null(problem))
                problem = text_json(err.text);
            last = place;
        }
        if (lines)
            json_array_append_new(list, answer_of(lines, place));
    }
    lines_close(lines);
    return json_pack("{s:o, s:o}", "sites", list, "problem", problem);
}

/* ---- what was found before ---- */

static const char *keep_text(struct names *names, const json_t *json)
{
    const char *text = json_string_value(json);
    return text ? arena_dup(names->arena, text, strlen(text)) : NULL;
}

static void take(struct names *names, const json_t *sites)
{
    size_t index;
    json_t *site;
    json_array_foreach(sites, index, site)
    {
        struct place *place = NULL;
        const char *key = json_string_value(json_object_get(site, "key"));
        if (key)
            HASH_FIND_STR(names->places, key, place);
        if (!place)
            continue;
        place->found = true;
        place->function = keep_text(names, json_object_get(site, "function"));
        place->file = keep_text(names, json_object_get(site, "file"));
        json_int_t line = json_integer_value(json_object_get(site, "line"));
        place->line = line > 0 && line < INT_MAX ? (uint32_t)line : 0;
    }
}

static void sites_path(char *ret_path, size_t size, const char *jobdir)
{
    snprintf(ret_path, size, "%s/stats/sites.json", jobdir);
}

/* A job directory that may only be read keeps nothing. */
static void keep(const char *jobdir, json_t *kept, const json_t *found)
{
    char path[PATH_MAX + 32];
    json_t *all = json_is_array(json_object_get(kept, "sites")) ? json_object_get(kept, "sites") : json_array();
    json_array_extend(all, (json_t *)found);
    json_t *whole = json_pack("{s:i, s:O}", "version", 1, "sites", all);
    _cleanup_(freep) char *text = whole ? json_dumps(whole, JSON_INDENT(1)) : NULL;
    sites_path(path, sizeof path, jobdir);
    if (text)
        file_replace(path, text, strlen(text), 0600);
    json_decref(whole);
    if (all != json_object_get(kept, "sites"))
        json_decref(all);
}

static size_t count_unknown(const struct names *names)
{
    size_t count = 0;
    for (const struct place *place = names->places; place; place = place->hh.next)
        count += !place->found;
    return count;
}

int mpi_names_find(struct mpi_stats_set *set, const char *jobdir, unsigned timeout_ms, struct err *err)
{
    struct names names = {.arena = set->arena};
    char path[PATH_MAX + 32];
    each_site(set, collect, &names);
    if (!names.places)
        return names.failed ? -ENOMEM : 0;
    sites_path(path, sizeof path, jobdir);
    json_t *kept = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    take(&names, json_object_get(kept, "sites"));
    size_t unknown = count_unknown(&names);
    if (unknown && !names.failed) {
        json_t *answer = aside_run(look_up, &names, timeout_ms);
        const json_t *sites = json_object_get(answer, "sites");
        const char *problem = json_string_value(json_object_get(answer, "problem"));
        take(&names, sites);
        if (json_array_size(sites))
            keep(jobdir, kept, sites);
        unknown = count_unknown(&names);
        if (unknown)
            err_set(err, -ENODATA, "%zu call sites have no names: %s", unknown,
                    problem ? problem : "their debug information took too long to read");
        json_decref(answer);
    }
    json_decref(kept);
    each_site(set, apply, &names);
    HASH_CLEAR(hh, names.places);
    return names.failed ? -ENOMEM : unknown > 0;
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
