/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/mpi/trace.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "jobdir/mpi/text.h"
#include "shm/mpi_told.h"

/* ---- who is which rank ---- */

/* "NODE/PID-N" of a trace's directory. */
static const char *name_of(const struct trace *trace)
{
    const char *path = trace_path(trace), *slash = strrchr(path, '/');
    while (slash && slash > path && slash[-1] != '/')
        slash--;
    return slash ? slash : path;
}

const struct mpi_stats *mpi_trace_stats(const struct mpi_stats_set *set, const struct trace *trace)
{
    const struct mpi_stats *found = NULL;
    for (size_t i = 0; set && i < set->count; i++) {
        const struct mpi_stats *stats = &set->ranks[i];
        if (strcmp(stats->name, name_of(trace)) == 0)
            return stats;
        if (stats->pid == trace_pid(trace) && strcmp(stats->node, trace_node(trace)) == 0)
            found = stats;
    }
    return found;
}

int32_t mpi_trace_rank(const struct trace *trace, const struct mpi_stats *stats)
{
    const char *said = trace_value(trace, "mpi_rank");
    char *end = NULL;
    long rank = said ? strtol(said, &end, 10) : stats ? stats->rank : -1;
    return (said && (!*said || *end)) || rank < 0 || rank > INT32_MAX ? -1 : (int32_t)rank;
}

const char *mpi_trace_world(const struct trace *trace, const struct mpi_stats *stats)
{
    const char *world = trace_value(trace, "mpi_world");
    return world ? world : stats && stats->namespace ? stats->namespace : "";
}

uint32_t mpi_programs_number(struct mpi_programs *programs, const char *name)
{
    for (uint32_t i = programs->count; i; i--)
        if (strcmp(programs->names[i - 1], name) == 0)
            return i - 1;
    if (programs->count < sizeof programs->names / sizeof *programs->names) {
        char *copy = strdup(name);
        if (copy)
            programs->names[programs->count++] = copy;
    }
    return programs->count ? programs->count - 1 : 0;
}

void mpi_programs_init(struct mpi_programs *programs, const struct mpi_stats_set *set)
{
    programs->count = 0;
    for (size_t i = 0; set && i < set->count; i++)
        mpi_programs_number(programs, set->ranks[i].namespace);
}

void mpi_programs_done(struct mpi_programs *programs)
{
    for (uint32_t i = 0; i < programs->count; i++)
        free(programs->names[i]);
    programs->count = 0;
}

struct placed {
    struct trace *trace;
    const char *world;
    int32_t rank;
    size_t index, first; /* where it was; where the first of its program was */
};

static int by_world(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    int order = (left->rank < 0) - (right->rank < 0);
    order = order || left->rank < 0 ? order : strcmp(left->world, right->world);
    return order ? order : left->index < right->index ? -1 : left->index > right->index;
}

static int by_rank(const void *a, const void *b)
{
    const struct placed *left = a, *right = b;
    if (left->first != right->first)
        return left->first < right->first ? -1 : 1;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

int mpi_trace_order(struct trace **traces, size_t count, const struct mpi_stats_set *set)
{
    _cleanup_(freep) struct placed *list = calloc(count + 1, sizeof *list);
    if (!list)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const struct mpi_stats *stats = mpi_trace_stats(set, traces[i]);
        list[i] = (struct placed){.trace = traces[i],
                                  .world = mpi_trace_world(traces[i], stats),
                                  .rank = mpi_trace_rank(traces[i], stats),
                                  .index = i};
    }
    qsort(list, count, sizeof *list, by_world);
    for (size_t i = 0; i < count; i++) {
        bool same = i > 0 && list[i].rank >= 0 && strcmp(list[i].world, list[i - 1].world) == 0;
        list[i].first = same ? list[i - 1].first : list[i].index;
    }
    qsort(list, count, sizeof *list, by_rank);
    for (size_t i = 0; i < count; i++)
        traces[i] = list[i].trace;
    return 0;
}

/* ---- where its calls come from ---- */

struct place {
    struct place_key { /* no padding */
        uint64_t site, call;
    } key;
    const struct mpi_stats_site *site; /* NULL: there are several */
    UT_hash_handle hh;
};

struct mpi_layout_site { /* where the values of a layout have the site */
    const struct layout *layout;
    size_t at, size;
    bool found;
    UT_hash_handle hh;
};

uint64_t mpi_layout_site_of(struct mpi_layout_site **sites, const struct trace_event *event)
{
    struct mpi_layout_site *site;
    uint64_t value = 0;
    if (!event->layout)
        return 0;
    HASH_FIND_PTR(*sites, &event->layout, site);
    if (!site) {
        site = calloc(1, sizeof *site);
        if (!site)
            return 0;
        site->layout = event->layout;
        site->found = layout_find(event->layout, LAYOUT_ARGS, "site", &site->at, &site->size);
        HASH_ADD_PTR(*sites, layout, site);
    }
    if (!site->found || site->size > sizeof value || site->at + site->size > event->values_size)
        return 0;
    memcpy(&value, (const uint8_t *)event->values + site->at, site->size);
    return value;
}

void mpi_layout_sites_free(struct mpi_layout_site **sites)
{
    HASH_FREE_ALL(*sites);
}

struct mpi_trace {
    const struct trace *trace;
    const struct mpi_stats *stats;
    int32_t rank;
    struct place *places;
    struct mpi_layout_site *layouts;
};

/* The same place in two files is two sites: which of them a call came from is not known. */
static int place_add(struct mpi_trace *mpi, const struct mpi_stats_site *site)
{
    const struct place_key key = {site->offset, site->call};
    struct place *place;
    HASH_FIND(hh, mpi->places, &key, sizeof key, place);
    if (place) {
        place->site = NULL;
        return 0;
    }
    place = calloc(1, sizeof *place);
    if (!place)
        return -ENOMEM;
    place->key = key;
    place->site = site;
    HASH_ADD(hh, mpi->places, key, sizeof place->key, place);
    return 0;
}

int mpi_trace_new(struct mpi_trace **ret_mpi, const struct trace *trace, const struct mpi_stats *stats)
{
    struct mpi_trace *mpi = calloc(1, sizeof *mpi);
    if (!mpi)
        return -ENOMEM;
    *mpi = (struct mpi_trace){.trace = trace, .stats = stats, .rank = mpi_trace_rank(trace, stats)};
    for (size_t i = 0; stats && i < stats->site_count; i++)
        if (place_add(mpi, &stats->sites[i]) < 0) {
            mpi_trace_free(mpi);
            return -ENOMEM;
        }
    *ret_mpi = mpi;
    return 0;
}

void mpi_trace_free(struct mpi_trace *mpi)
{
    if (!mpi)
        return;
    HASH_FREE_ALL(mpi->places);
    mpi_layout_sites_free(&mpi->layouts);
    free(mpi);
}

int32_t mpi_trace_number(const struct mpi_trace *mpi)
{
    return mpi ? mpi->rank : -1;
}

uint32_t mpi_trace_thread(const struct mpi_trace *mpi)
{
    for (size_t i = 0; mpi && mpi->stats && i < mpi->stats->thread_count; i++)
        if (mpi->stats->threads[i].is_main)
            return (uint32_t)mpi->stats->threads[i].tid;
    return 0;
}

const struct mpi_stats_site *mpi_trace_site(struct mpi_trace *mpi, const struct trace_event *event)
{
    const struct trace_function *function = mpi ? trace_function(mpi->trace, event->function) : NULL;
    uint32_t call = function ? mpi_function_call(function->address) : (uint32_t)CALL_NONE;
    if (call == CALL_NONE)
        return NULL;
    if (mpi->rank < 0) /* of a job that runs */
        mpi->rank = mpi_trace_rank(mpi->trace, mpi->stats);
    const struct place_key key = {mpi_layout_site_of(&mpi->layouts, event), call};
    struct place *place = NULL;
    if (key.site)
        HASH_FIND(hh, mpi->places, &key, sizeof key, place);
    return place ? place->site : NULL;
}

bool mpi_trace_is_call(const struct mpi_trace *mpi, uint32_t function)
{
    const struct trace_function *known = mpi ? trace_function(mpi->trace, function) : NULL;
    return known && mpi_function_is(known->address);
}

/* What a number is called, of an argument of that name; NULL: it is just a number. */
static const char *word_for(const char *name, size_t len, const char *number, size_t digits)
{
    static const struct {
        const char *name, *number, *word;
    } words[] = {{"tag", "-1", "MPI_ANY_TAG"},       {"recvtag", "-1", "MPI_ANY_TAG"},
                 {"source", "-1", "MPI_ANY_SOURCE"}, {"source", "-2", "MPI_PROC_NULL"},
                 {"dest", "-2", "MPI_PROC_NULL"},    {"target_rank", "-2", "MPI_PROC_NULL"},
                 {"root", "-2", "MPI_PROC_NULL"},    {"root", "-4", "MPI_ROOT"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0 &&
            strlen(words[i].number) == digits && memcmp(words[i].number, number, digits) == 0)
            return words[i].word;
    return NULL;
}

/* `name = value, name = value`. What is not simple, as a string, stands at the end, and stays. */
void mpi_trace_show_values(struct buf *text, size_t from, bool sited)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    const char *at = text->data ? text->data + from : "", *end = text->data ? text->data + text->len : at;
    while (at < end) {
        size_t len = 0, digits = 0;
        while (at + len < end && (isalnum((unsigned char)at[len]) || at[len] == '_'))
            len++;
        const char *value = at + len + 3;
        if (!len || value >= end || memcmp(at + len, " = ", 3) != 0)
            break;
        while (value + digits < end && (isalnum((unsigned char)value[digits]) || value[digits] == '-'))
            digits++;
        const char *next = value + digits;
        bool more = end - next >= 2 && memcmp(next, ", ", 2) == 0;
        if (!digits || (next < end && !more))
            break;
        const char *word = word_for(at, len, value, digits);
        bool leave_out = sited && len == 4 && memcmp(at, "site", 4) == 0 && memcmp(value, "0x", 2) == 0;
        if (!leave_out) {
            buf_puts(&shown, shown.len ? ", " : "");
            buf_append(&shown, at, len + 3);
            buf_append(&shown, word ? word : value, word ? strlen(word) : digits);
        }
        at = more ? next + 2 : next;
    }
    if (at < end && shown.len)
        buf_puts(&shown, ", ");
    buf_append(&shown, at, (size_t)(end - at));
    if (!text->data)
        return;
    text->len = from;
    text->data[from] = '\0';
    buf_append(text, shown.data, shown.len);
    text->failed |= shown.failed;
}

void mpi_trace_comm(struct buf *out, const struct mpi_trace *mpi, uint64_t identity)
{
    size_t before = out->len;
    if (!mpi)
        return;
    for (size_t i = 0; mpi->stats && identity && out->len == before && i < mpi->stats->comm_count; i++)
        if (mpi->stats->comms[i].identity == (identity & INT64_MAX))
            mpi_text_comm(out, mpi->stats, (uint32_t)i);
    if (out->len == before && (identity == MPI_IDENTITY_WORLD || identity == MPI_IDENTITY_SELF))
        buf_puts(out, identity == MPI_IDENTITY_WORLD ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
}
