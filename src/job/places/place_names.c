/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/place_names.h"

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "job/places/sandboxed_child.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/index/elf_identity.h"
#include "symbols/index/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

struct place_names;

struct place_name {
    bool found;
    const char *function, *file; /* NULL: not known */
    uint32_t line;
};

static void place_names_free(struct place_names *names);
static int place_names_new(struct place_names **ret_names, struct arena *arena);
static int place_names_find(struct place_names *names, const char *jobdir, unsigned timeout_ms, struct err *err);
static const struct place_name *place_names_add(struct place_names *names, const char *module, const char *build_id,
                                                uint64_t offset, bool inlined);

static bool is_named(const struct mpi_stats_site *site)
{
    return !site->module || !*site->module || (site->function && *site->function);
}

static const struct place_name *name_of_site(struct place_names *names, const struct mpi_stats_site *site)
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
            if ((thread->polls || !stats->running) && thread->last.call != CALL_NONE && !is_named(&thread->last.site))
                fn(names, &thread->last.site);
        }
    }
}

static void collect(struct place_names *names, struct mpi_stats_site *site)
{
    name_of_site(names, site);
}

static void apply(struct place_names *names, struct mpi_stats_site *site)
{
    const struct place_name *place = name_of_site(names, site);
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

static const struct place_name *name_of_place(struct place_names *names, const struct trace_place *place)
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
            name_of_place(names, trace_place(traces[i], k));
    int code = place_names_find(names, jobdir, PLACE_NAMES_TIMEOUT_MS, err);
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < trace_place_count(traces[i]); k++) {
            const struct place_name *name = name_of_place(names, trace_place(traces[i], k));
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

/*
 * Finds the source lines of places in programs: function, file and line, by the debug information of the module, if it
 * is still the one that ran (by build-id). Found names are kept in stats/sites.json of the job directory, or where others
 * may write there in the reader's cache, so that a program that is rebuilt or removed later keeps its names.
 */

enum { PLACES_MOST = 200000, NAMES_MOST_BYTES = 64 << 20 };

/* A place in the code, shared by all ranks, calls and processes that have it. */
struct place {
    struct place_name name;
    char *key; /* BUILD-ID OFFSET MODULE, inlined or not */
    const char *module, *build_id;
    uint64_t offset;
    bool inlined;
    UT_hash_handle hh;
};

struct place_names {
    struct place *places;
    struct arena *arena;
    uint64_t until_ns; /* the child answers what it has by then */
    bool failed;
};

static int place_names_new(struct place_names **ret_names, struct arena *arena)
{
    struct place_names *names = calloc(1, sizeof *names);
    if (!names)
        return -ENOMEM;
    names->arena = arena;
    *ret_names = names;
    return 0;
}

static void place_names_free(struct place_names *names)
{
    if (names)
        HASH_CLEAR(hh, names->places);
    free(names);
}

/* Adds a place to look for: a return address in the module's file (hexadecimal build_id; "": none). inlined: it is in
 * the code of an inlined function, and the caller is wanted. The texts are borrowed. Equal places are the same pointer.
 * place_names_find fills in the name. NULL: too many, or no memory. */
static const struct place_name *place_names_add(struct place_names *names, const char *module, const char *build_id,
                                                uint64_t offset, bool inlined)
{
    struct place *place = NULL;
    char *key = arena_printf(names->arena, "%s %" PRIx64 " %s%s", build_id, offset, module, inlined ? " inlined" : "");
    if (!key) {
        names->failed = true;
        return NULL;
    }
    HASH_FIND_STR(names->places, key, place);
    if (place)
        return &place->name;
    if (HASH_COUNT(names->places) >= PLACES_MOST)
        return NULL;
    place = arena_zalloc(names->arena, 1, sizeof *place);
    if (!place) {
        names->failed = true;
        return NULL;
    }
    *place = (struct place){.key = key, .module = module, .build_id = build_id, .offset = offset, .inlined = inlined};
    HASH_ADD_KEYPTR(hh, names->places, place->key, strlen(place->key), place);
    return &place->name;
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
    err_set(err, -ESTALE, "%s has been replaced since it ran", place->module);
    return false;
}

static int by_module(const struct place *a, const struct place *b)
{
    int order = strcmp(a->module, b->module);
    return order ? order : strcmp(a->build_id, b->build_id);
}

static int by_address(const struct place *a, const struct place *b)
{
    int order = by_module(a, b);
    return order ? order : a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The frame with the call: for an inlined function, the frame around it. */
static const struct line_frame *calling(const struct line_location *where, const struct place *place)
{
    if (!place->inlined)
        return &where->frames[0];
    return where->frames[0].inlined && where->count > 1 ? &where->frames[1] : NULL;
}

static json_t *answer_of(struct lines *lines, const struct place *place)
{
    struct line_location where = {0};
    json_t *json = json_pack("{s:s}", "key", place->key);
    /* A return address: the call ends before it. */
    if (lines && lines_find(lines, place->offset - 1, &where) == 0 && where.count) {
        const struct line_frame *frame = calling(&where, place);
        if (frame && frame->function)
            json_object_set_new(json, "function", text_json(frame->function));
        if (frame && frame->file) {
            json_object_set_new(json, "file", text_json(frame->file));
            json_object_set_new(json, "line", json_integer(frame->line));
        }
    }
    line_location_done(&where);
    return json;
}

static json_t *look_up(const void *ctx)
{
    const struct place_names *names = ctx;
    struct place *places = names->places, *last = NULL;
    struct lines *lines = NULL;
    json_t *list = json_array(), *problem = json_null();
    HASH_SORT(places, by_address);
    for (struct place *place = places; place; place = place->hh.next) {
        struct err err = {0};
        if (place->name.found)
            continue;
        if (clock_now_ns() > names->until_ns)
            break;
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

static const char *keep_text(struct place_names *names, const json_t *json)
{
    const char *text = json_string_value(json);
    return text ? arena_dup(names->arena, text, strlen(text)) : NULL;
}

static void take_sites(struct place_names *names, const json_t *sites)
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
        place->name.found = true;
        place->name.function = keep_text(names, json_object_get(site, "function"));
        place->name.file = keep_text(names, json_object_get(site, "file"));
        json_int_t line = json_integer_value(json_object_get(site, "line"));
        place->name.line = line > 0 && line < INT_MAX ? (uint32_t)line : 0;
    }
}

/* The folder of what is kept, if nobody else can have put anything there, such as a link to a file of the reader. */
static int open_own_stats(const char *jobdir)
{
    _cleanup_(closep) int job = open(jobdir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job < 0 || file_check_own_directory(job, jobdir, NULL) < 0 ||
        (mkdirat(job, "stats", 0700) < 0 && errno != EEXIST))
        return -1;
    _cleanup_(closep) int stats = openat(job, "stats", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return stats >= 0 && file_check_own_directory(stats, "stats", NULL) == 0 ? TAKE_FD(stats) : -1;
}

/* With what was kept before (NULL: nothing), as text. */
static char *text_to_keep(const json_t *kept, const json_t *found)
{
    json_t *all = json_array();
    json_array_extend(all, json_object_get(kept, "sites"));
    json_array_extend(all, (json_t *)found);
    json_t *whole = json_pack("{s:i, s:o}", "version", 1, "sites", all);
    char *text = whole ? json_dumps(whole, JSON_INDENT(1)) : NULL;
    json_decref(whole);
    return text;
}

static bool keep_there(const char *jobdir, const json_t *kept, const json_t *found)
{
    _cleanup_(file_fresh_done) struct file_fresh fresh = FILE_FRESH_INIT;
    _cleanup_(closep) int stats = open_own_stats(jobdir);
    _cleanup_(freep) char *text = stats >= 0 ? text_to_keep(kept, found) : NULL;
    return text && file_fresh_open(&fresh, stats, "sites.json", 0600) == 0 &&
           file_write_all(fresh.fd, text, strlen(text)) == 0 && file_fresh_place(&fresh, false) == 0;
}

/* Of a job directory that is read-only, another user's, or one that others can write to. */
static void keep_in_cache(const char *path, const json_t *kept, const json_t *found)
{
    char directory[PATH_MAX];
    _cleanup_(freep) char *text = text_to_keep(kept, found);
    if (text && dirs_cache("names", directory, sizeof directory, NULL) == 0 && dirs_make(directory, 0700) == 0)
        cache_file_write(path, &(struct iovec){text, strlen(text)}, 1, NAMES_MOST_BYTES, NULL, NULL, NULL);
}

/* Of this job directory; "": none. */
static void find_in_cache(const char *jobdir, char *ret_path, size_t size)
{
    char directory[PATH_MAX], whole[PATH_MAX];
    if (!realpath(jobdir, whole) || dirs_cache("names", directory, sizeof directory, NULL) < 0 ||
        (size_t)snprintf(ret_path, size, "%s/%016" PRIx64, directory, sum_add(0, whole, strlen(whole))) >= size)
        *ret_path = '\0';
}

static json_t *read_kept(const char *path)
{
    _cleanup_(freep) char *text = NULL;
    size_t len;
    return file_read_plain(path, &text, &len) == 0 ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

static size_t count_unknown(const struct place_names *names)
{
    size_t count = 0;
    for (const struct place *place = names->places; place; place = place->hh.next)
        count += !place->name.found;
    return count;
}

/* Looks for all of them in a child, for at most timeout_ms. 0; 1: some were not found, with err for the first; -ENOMEM.
 */
static int place_names_find(struct place_names *names, const char *jobdir, unsigned timeout_ms, struct err *err)
{
    char there[PATH_MAX + 32], cached[PATH_MAX + 32];
    if (!names->places)
        return names->failed ? -ENOMEM : 0;
    snprintf(there, sizeof there, "%s/stats/sites.json", jobdir);
    find_in_cache(jobdir, cached, sizeof cached);
    json_t *kept_there = read_kept(there), *kept_cached = read_kept(cached);
    take_sites(names, json_object_get(kept_there, "sites"));
    take_sites(names, json_object_get(kept_cached, "sites"));
    size_t unknown = count_unknown(names);
    if (unknown && !names->failed) {
        /* An eighth is left for the answer to be written, and for one module whose information takes long. */
        names->until_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000 / 8 * 7;
        json_t *answer = sandboxed_child_run(look_up, names, timeout_ms);
        const json_t *sites = json_object_get(answer, "sites");
        const char *problem = json_string_value(json_object_get(answer, "problem"));
        take_sites(names, sites);
        if (json_array_size(sites) && !keep_there(jobdir, kept_there, sites) && *cached)
            keep_in_cache(cached, kept_cached, sites);
        unknown = count_unknown(names);
        if (unknown)
            err_set(err, -ENODATA, "%zu call sites have no names: %s", unknown,
                    problem ? problem : "their debug information took too long to read");
        json_decref(answer);
    }
    json_decref(kept_there);
    json_decref(kept_cached);
    return names->failed ? -ENOMEM : unknown > 0;
}
