/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/report/mpi_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/mpi/look.h"
#include "jobdir/report/mpi_internal.h"
#include "shm/mpi_told.h"

int mpi_report_read(struct mpi_report **ret_report, const char *jobdir, struct err *err)
{
    struct mpi_report *report = calloc(1, sizeof *report);
    *ret_report = NULL;
    if (!report)
        return err_set(err, -ENOMEM, "out of memory");
    int code = mpi_stats_read(&report->set, jobdir, &report->unreadable);
    if (code >= 0 && (report->set.count || code)) {
        report->unreadable_count = (size_t)code;
        *ret_report = report;
        return 0;
    }
    struct err why = report->unreadable;
    mpi_report_free(report);
    return code == 0 || code == -ENOENT ? -ENOENT : err_set(err, code, "%s", why.text);
}

void mpi_report_free(struct mpi_report *report)
{
    if (!report)
        return;
    mpi_stats_set_done(&report->set);
    arena_done(&report->arena);
    free(report);
}

const struct mpi_stats_thread *mpi_report_main(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->thread_count; i++)
        if (stats->threads[i].is_main)
            return &stats->threads[i];
    return stats->thread_count ? &stats->threads[0] : NULL;
}

bool mpi_report_is_outside(uint32_t call)
{
    return mpi_call_is_untimed(call);
}

void mpi_report_others(const struct mpi_stats *stats, uint64_t *ret_count, uint64_t *ret_ns)
{
    *ret_count = *ret_ns = 0;
    for (size_t i = 0; i < stats->row_count; i++)
        if (!mpi_report_is_outside(stats->rows[i].call)) {
            *ret_count += stats->rows[i].others_count;
            *ret_ns += stats->rows[i].others_ns;
        }
}

const char *mpi_report_fate(const struct mpi_stats *stats)
{
    if (stats->aborted)
        return "called MPI_Abort";
    if (stats->running)
        return "running";
    if (stats->end.lost)
        return "lost with its node";
    switch (stats->state) {
    case MPIA_LOADED:
        return mpi_ended_before(stats);
    case MPIA_RUNNING:
        return "died without MPI_Finalize";
    case MPIA_OFF:
        return "not counted to the end";
    default:
        return "";
    }
}

struct ordered {
    uint64_t start_ns;
    size_t index;
};

static int by_start(const void *a, const void *b)
{
    const struct ordered *left = a, *right = b;
    if (left->start_ns != right->start_ns)
        return left->start_ns < right->start_ns ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* Programs are counted as they started: those that another one spawned come after it. */
static int order_worlds(struct mpi_report *report)
{
    const struct mpi_stats_set *set = &report->set;
    _cleanup_(freep) struct ordered *order = calloc(set->count + 1, sizeof *order);
    struct mpi_stats *ranks = arena_zalloc(set->arena, set->count + 1, sizeof *ranks);
    if (!order || !ranks)
        return -ENOMEM;
    for (size_t i = 0, next; i < set->count; i = next) { /* they are in the order of their namespaces */
        uint64_t start_ns = UINT64_MAX;
        for (next = i; next < set->count && strcmp(set->ranks[next].namespace, set->ranks[i].namespace) == 0; next++)
            if (set->ranks[next].started_wall_ns && set->ranks[next].started_wall_ns < start_ns)
                start_ns = set->ranks[next].started_wall_ns;
        for (size_t k = i; k < next; k++)
            order[k] = (struct ordered){start_ns, k};
    }
    qsort(order, set->count, sizeof *order, by_start);
    for (size_t i = 0; i < set->count; i++)
        ranks[i] = set->ranks[order[i].index];
    report->set.ranks = ranks;
    return 0;
}

static void find_worlds(struct mpi_report *report)
{
    const struct mpi_stats_set *set = &report->set;
    for (size_t i = 0; i < set->count; i++) {
        if (i > 0 && strcmp(set->ranks[i].namespace, set->ranks[i - 1].namespace) != 0)
            report->worlds++;
        report->world_of[i] = report->worlds;
    }
    report->worlds += set->count != 0;
}

static void add_row(struct mpi_stats_row *into, const struct mpi_stats_row *row)
{
    if (row->count && (!into->count || row->min_ns < into->min_ns))
        into->min_ns = row->min_ns;
    if (row->max_ns > into->max_ns)
        into->max_ns = row->max_ns;
    into->call = row->call;
    into->open += row->open;
    into->open_ns += row->open_ns;
    into->count += row->count;
    into->total_ns += row->total_ns;
    into->args_bytes += row->args_bytes;
    into->sent_bytes += row->sent_bytes;
    into->got_bytes += row->got_bytes;
    into->got_unknown |= row->got_unknown;
    into->got_least |= row->got_least;
    into->others_count += row->others_count;
    into->others_ns += row->others_ns;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a == 0 || (b && b < a) ? b : a;
}

static void add_clock(struct mpi_stats_clock *into, const struct mpi_stats_clock *clock)
{
    into->total_ns += clock->total_ns;
    into->compute_ns += clock->compute_ns;
    into->communicate_ns += clock->communicate_ns;
    into->count += clock->count;
    into->compute_open_ns += clock->compute_open_ns;
    into->communicate_open_ns += clock->communicate_open_ns;
    into->compute_min_ns = least(into->compute_min_ns, clock->compute_min_ns);
    into->communicate_min_ns = least(into->communicate_min_ns, clock->communicate_min_ns);
    if (clock->compute_max_ns > into->compute_max_ns)
        into->compute_max_ns = clock->compute_max_ns;
    if (clock->communicate_max_ns > into->communicate_max_ns)
        into->communicate_max_ns = clock->communicate_max_ns;
}

static void add_rows(struct mpi_report *report, const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call < CALL_COUNT)
            add_row(&report->calls[stats->rows[i].call], &stats->rows[i]);
    for (size_t i = 0; i < stats->span_count; i++)
        if (stats->spans[i].call < CALL_COUNT)
            add_row(&report->spans[stats->spans[i].call], &stats->spans[i]);
    uint64_t count, ns;
    mpi_report_others(stats, &count, &ns);
    report->others_count += count;
    report->others_ns += ns;
    const struct mpi_stats_thread *thread = mpi_report_main(stats);
    if (thread) {
        add_clock(&report->outermost, &thread->outermost);
        add_clock(&report->blocking, &thread->blocking);
        report->finalized += stats->state == MPIA_ENDED;
    }
}

/* ---- call sites, the same of all ranks together ---- */

struct ranked_site {
    const struct mpi_stats_site *site;
    size_t rank;
};

static bool has_source(const struct mpi_stats_site *site)
{
    return site->file && *site->file && site->line;
}

/* The copies of a call in a function that was inlined, or unrolled, are one site to whoever reads its source. */
static int compare_sites(const struct mpi_stats_site *left, const struct mpi_stats_site *right)
{
    if (left->call != right->call)
        return left->call < right->call ? -1 : 1;
    int order = strcmp(left->module, right->module);
    order = order ? order : strcmp(left->build_id, right->build_id);
    order = order ? order : has_source(left) - has_source(right);
    if (order)
        return order;
    if (!has_source(left))
        return left->offset < right->offset ? -1 : left->offset > right->offset;
    order = strcmp(left->file, right->file);
    if (order == 0 && left->line != right->line)
        order = left->line < right->line ? -1 : 1;
    return order ? order : strcmp(left->function ? left->function : "", right->function ? right->function : "");
}

static int by_site(const void *a, const void *b)
{
    const struct ranked_site *left = a, *right = b;
    int order = compare_sites(left->site, right->site);
    return order ? order : left->rank < right->rank ? -1 : left->rank > right->rank;
}

static int by_time(const void *a, const void *b)
{
    const struct mpi_report_site *left = a, *right = b;
    if (left->total_ns != right->total_ns)
        return left->total_ns < right->total_ns ? 1 : -1;
    return left->call < right->call ? -1 : left->call > right->call;
}

static int add_sites(struct mpi_report *report)
{
    size_t count = 0, used = 0;
    for (size_t i = 0; i < report->set.count; i++)
        count += report->set.ranks[i].site_count;
    _cleanup_(freep) struct ranked_site *list = calloc(count + 1, sizeof *list);
    report->sites = arena_zalloc(&report->arena, count + 1, sizeof *report->sites);
    struct mpi_report_site_rank *by_rank = arena_zalloc(&report->arena, count + 1, sizeof *by_rank);
    if (!list || !report->sites || !by_rank)
        return -ENOMEM;
    for (size_t i = 0; i < report->set.count; i++)
        for (size_t j = 0; j < report->set.ranks[i].site_count; j++)
            if (report->set.ranks[i].sites[j].count || report->set.ranks[i].sites[j].open)
                list[used++] = (struct ranked_site){&report->set.ranks[i].sites[j], i};
    qsort(list, used, sizeof *list, by_site);
    for (size_t i = 0; i < used; i++) {
        const struct mpi_stats_site *site = list[i].site;
        bool first = i == 0 || compare_sites(list[i - 1].site, site) != 0;
        if (first)
            report->sites[report->site_count++] =
                (struct mpi_report_site){.site = site, .call = site->call, .by_rank = by_rank};
        struct mpi_report_site *into = &report->sites[report->site_count - 1];
        if (first || list[i - 1].rank != list[i].rank) {
            into->ranks++;
            *by_rank++ =
                (struct mpi_report_site_rank){.index = list[i].rank, .rank = report->set.ranks[list[i].rank].rank};
        }
        by_rank[-1].count += site->count;
        by_rank[-1].total_ns += site->total_ns;
        by_rank[-1].open_ns += site->open_ns;
        into->count += site->count;
        into->total_ns += site->total_ns;
        into->args_bytes += site->args_bytes;
        into->others_count += site->others_count;
        into->others_ns += site->others_ns;
        into->open += site->open;
        into->open_ns += site->open_ns;
        if (site->count && (into->count == site->count || site->min_ns < into->min_ns))
            into->min_ns = site->min_ns;
        into->max_ns = site->max_ns > into->max_ns ? site->max_ns : into->max_ns;
    }
    qsort(report->sites, report->site_count, sizeof *report->sites, by_time);
    return 0;
}

/* ---- communicators ---- */

struct comm_use { /* of one rank */
    const struct mpi_stats *stats;
    uint32_t index, world;
    uint64_t path[4]; /* its identity, or of what it is made: from its own up to the world */
    struct mpi_report_comm sums;
};

/* As in analysis/why.h: by its identity, which is the same on all ranks, also where those have it from parents that
 * differ (both groups of an intercommunicator). Without one by kind, ordinal, lowest rank, and those of its parents, of
 * which four suffice for a report. */
static void identify(struct comm_use *use)
{
    uint32_t index = use->index;
    const struct mpi_stats *stats = use->stats;
    uint64_t identity = stats->comms[index].identity;
    if (identity) {
        use->path[0] = (uint64_t)stats->comms[index].kind;
        use->path[1] = identity;
        use->path[2] = identity == MPI_IDENTITY_SELF ? (uint64_t)stats->rank : 0;
        return;
    }
    for (unsigned depth = 0; depth < 4 && index < stats->comm_count; depth++) {
        const struct mpi_stats_comm *comm = &stats->comms[index];
        bool first = comm->parent == UINT32_MAX;
        use->path[depth] = (uint64_t)(uint32_t)(comm->lowest + 1) << 32 | (uint64_t)comm->kind << 28 |
                           ((first ? comm->number : comm->ordinal) & 0xfffffff);
        uint32_t parent = UINT32_MAX;
        for (uint32_t i = 0; i < index && !first; i++)
            if (stats->comms[i].number == comm->parent)
                parent = i;
        index = parent;
    }
}

static int by_identity(const void *a, const void *b)
{
    const struct comm_use *left = a, *right = b;
    if (left->world != right->world)
        return left->world < right->world ? -1 : 1;
    return memcmp(left->path, right->path, sizeof left->path);
}

static void add_use(struct mpi_report_comm *into, const struct mpi_stats *stats, uint32_t index)
{
    const struct mpi_stats_comm *comm = &stats->comms[index];
    into->ranks++;
    into->collectives = comm->collectives > into->collectives ? comm->collectives : into->collectives;
    for (size_t i = 0; i < stats->peer_count; i++) {
        const struct mpi_stats_peer *peer = &stats->peers[i];
        if (peer->comm != index)
            continue;
        if (peer->call == CALL_NONE) {
            into->moved.messages += peer->sent_count;
            into->moved.bytes += peer->sent_bytes;
        } else if (call_infos[peer->call].class == CALL_CLASS_ONESIDED) {
            into->moved.one_sided += peer->sent_bytes + peer->got_bytes;
        } else {
            into->moved.coll_sent += peer->sent_bytes;
            into->moved.coll_got += peer->got_bytes;
            into->moved.coll_args += peer->args_bytes;
        }
    }
}

static int by_first_rank(const void *a, const void *b)
{
    const struct mpi_report_comm *left = a, *right = b;
    if (left->stats != right->stats)
        return left->stats < right->stats ? -1 : 1;
    return left->index < right->index ? -1 : left->index > right->index;
}

/* Every rank has MPI_COMM_SELF, and windows and files are no communicators. */
static bool was_used(const struct mpi_report_comm *comm)
{
    const struct mpi_stats_comm *own = &comm->stats->comms[comm->index];
    const struct mpi_report_moved *moved = &comm->moved;
    bool idle = !moved->messages && !moved->coll_sent && !moved->coll_got && !comm->collectives && !moved->one_sided;
    return !idle || (own->kind <= MPIA_COMM_INTER && own->size + own->remote_size > 1);
}

static int add_comms(struct mpi_report *report)
{
    size_t count = 0, used = 0;
    for (size_t i = 0; i < report->set.count; i++)
        count += report->set.ranks[i].comm_count;
    struct comm_use *uses = calloc(count + 1, sizeof *uses);
    report->comms = arena_zalloc(&report->arena, count + 1, sizeof *report->comms);
    if (!uses || !report->comms) {
        free(uses);
        return -ENOMEM;
    }
    for (size_t i = 0; i < report->set.count; i++)
        for (uint32_t j = 0; j < report->set.ranks[i].comm_count; j++) {
            uses[used] = (struct comm_use){.stats = &report->set.ranks[i], .index = j, .world = report->world_of[i]};
            identify(&uses[used++]);
        }
    qsort(uses, used, sizeof *uses, by_identity);
    for (size_t i = 0, next; i < used; i = next) {
        struct mpi_report_comm *comm = &report->comms[report->comm_count++];
        *comm = (struct mpi_report_comm){.stats = uses[i].stats, .index = uses[i].index};
        for (next = i; next < used && by_identity(&uses[i], &uses[next]) == 0; next++)
            add_use(comm, uses[next].stats, uses[next].index);
        report->comm_count -= !was_used(comm);
    }
    free(uses);
    qsort(report->comms, report->comm_count, sizeof *report->comms, by_first_rank);
    for (size_t i = 0; i < report->comm_count && !report->peers_off; i++)
        report->comms[i].measured = &report->comms[i].moved;
    return 0;
}

/* What a receive that is posted gets is known when its request is complete. */
static bool posts_receives(uint32_t call)
{
    static const uint32_t calls[] = {CALL_MPI_Irecv,    CALL_MPI_Irecv_c, CALL_MPI_Imrecv,
                                     CALL_MPI_Imrecv_c, CALL_MPI_Start,   CALL_MPI_Startall};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (call == calls[i])
            return true;
    return false;
}

/* ---- calls that a rank was in when its statistics were taken, as it was killed: in the rows and call sites with the
 * others, so that what the clocks have of communication has a name ---- */

static struct mpi_stats_row *open_row_of(struct mpi_stats *stats, uint32_t call)
{
    for (size_t i = 0; i < stats->row_count; i++)
        if (stats->rows[i].call == call)
            return &stats->rows[i];
    stats->rows[stats->row_count] = (struct mpi_stats_row){.call = call};
    return &stats->rows[stats->row_count++];
}

static struct mpi_stats_site *open_site_of(struct mpi_stats *stats, const struct mpi_stats_site *from, uint32_t call)
{
    for (size_t i = 0; i < stats->site_count; i++) {
        const struct mpi_stats_site *site = &stats->sites[i];
        if (site->call == call && site->offset == from->offset && strcmp(site->module, from->module) == 0)
            return &stats->sites[i];
    }
    struct mpi_stats_site *made = &stats->sites[stats->site_count++];
    *made = *from;
    made->call = call;
    made->count = made->total_ns = made->min_ns = made->max_ns = made->args_bytes = 0;
    made->others_count = made->others_ns = 0;
    return made;
}

static void add_open(struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    const struct mpi_stats_now *now = &thread->now;
    bool other = thread != mpi_report_main(stats);
    struct mpi_stats_row *row = open_row_of(stats, now->call);
    row->open++;
    row->open_ns += now->age_ns;
    row->total_ns += now->age_ns;
    row->others_ns += other ? now->age_ns : 0;
    if (!now->site.module)
        return;
    struct mpi_stats_site *site = open_site_of(stats, &now->site, now->call);
    site->open++;
    site->open_ns += now->age_ns;
    site->total_ns += now->age_ns;
    site->others_ns += other ? now->age_ns : 0;
}

/* A copy with room for one more of each thread. */
static int make_open_room(struct mpi_stats *stats, struct arena *arena)
{
    size_t rows = stats->row_count, sites = stats->site_count;
    struct mpi_stats_row *row = arena_zalloc(arena, rows + stats->thread_count + 1, sizeof *row);
    struct mpi_stats_site *site = arena_zalloc(arena, sites + stats->thread_count + 1, sizeof *site);
    if (!row || !site)
        return -ENOMEM;
    if (rows)
        memcpy(row, stats->rows, rows * sizeof *row);
    if (sites)
        memcpy(site, stats->sites, sites * sizeof *site);
    stats->rows = row;
    stats->sites = site;
    return 0;
}

static int add_open_calls(struct mpi_stats *stats, struct arena *arena)
{
    bool room = stats->open_added;
    if (room)
        return 0;
    stats->open_added = true;
    for (size_t i = 0; i < stats->thread_count && !stats->uncounted; i++) {
        const struct mpi_stats_thread *thread = &stats->threads[i];
        if (thread->ended || thread->now.call <= CALL_NONE || thread->now.call >= CALL_COUNT)
            continue;
        if (!room && make_open_room(stats, arena) < 0)
            return -ENOMEM;
        room = true;
        add_open(stats, thread);
    }
    return 0;
}

int mpi_report_add_up(struct mpi_report *report)
{
    report->world_of = arena_zalloc(&report->arena, report->set.count + 1, sizeof *report->world_of);
    if (!report->world_of || order_worlds(report) < 0)
        return -ENOMEM;
    find_worlds(report);
    for (size_t i = 0; i < report->set.count; i++)
        if (add_open_calls(&report->set.ranks[i], &report->arena) < 0)
            return -ENOMEM;
    report->clocks_off = report->peers_off = report->requests_off = report->set.count > 0;
    for (size_t i = 0; i < report->set.count; i++) {
        struct mpi_stats *stats = &report->set.ranks[i];
        for (size_t k = 0; k < stats->row_count; k++) {
            bool later = posts_receives(stats->rows[k].call);
            stats->rows[k].got_unknown = later && stats->requests_off;
            stats->rows[k].got_least = later && stats->requests_omitted;
        }
        report->clocks_off &= stats->clocks_off;
        report->peers_off &= stats->peers_off;
        report->requests_off &= stats->requests_off;
        add_rows(report, stats);
    }
    int code = add_sites(report);
    if (code == 0)
        code = add_comms(report);
    return code < 0 ? code : mpi_matrix_make(&report->matrix, &report->set, report->world_of, &report->arena);
}
