/* SPDX-License-Identifier: Apache-2.0 */
/* Services of the extension `mpi` on jobs: their ranks, why they do not move, their files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi_look.h"
#include "monitor/agents.h"
#include "monitor/call.h"
#include "monitor/mpi.h"
#include "monitor/node.h"
#include "service/ct.h"
#include "service/mpi.h"
#include "service/service.h"

const char *mpi_job_named(struct scry_call *call)
{
    struct span name = call->args[0].text;
    if (!name.len)
        return "";
    const char *dir = job_directory(call->monitor, name);
    if (dir)
        return dir;
    if (name.ptr[0] == '/' && (dir = call_string(call, 0))) /* its scry run is gone, or is elsewhere */
        return dir;
    if (name.ptr[0] != '/')
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here", SPAN_ARG(name));
    return NULL;
}

static const char *dir_or_all(const char *dir)
{
    return *dir ? dir : NULL;
}

/* ---- ranks ---- */

struct rank_list {
    struct scry_call *call;
    struct buf *text;
    const struct mpi_found *found;
    size_t found_count;
    bool *told; /* of found */
};

static void put_rank(struct rank_list *list, bool here, pid_t pid, const char *namespace, int32_t rank, int32_t size)
{
    struct err err;
    struct process *process = here ? process_get(list->call->monitor, pid, &err) : NULL;
    buf_puts(list->text, process ? process->object.token : TOKEN_UNDEFINED);
    buf_putc(list->text, ',');
    mpi_put_string(list->text, namespace);
    mpi_put_int(list->text, rank);
    mpi_put_int(list->text, size);
}

static const char *library_name(uint32_t library)
{
    return library == MPIA_LIBRARY_OPENMPI ? "openmpi" : library == MPIA_LIBRARY_MPICH ? "mpich" : "";
}

/* One with an area. Its memory is the program's. */
static void tell_process(void *ctx, struct mpi_process *process)
{
    struct rank_list *list = ctx;
    const struct mpi_area *head = mpi_process_head(process);
    const struct mpi_found *found = NULL;
    char namespace[sizeof head->namespace + 1] = "";
    int32_t rank = head->rank, size = head->world_size;
    for (size_t i = 0; i < list->found_count; i++)
        if (list->found[i].here && list->found[i].pid == mpi_process_pid(process)) {
            list->told[i] = true;
            found = &list->found[i];
        }
    memcpy(namespace, head->namespace, sizeof head->namespace);
    if (rank < 0 && found) {
        rank = found->rank;
        size = found->size;
    }
    put_rank(list, true, mpi_process_pid(process), namespace, rank, size);
    mpi_put_string(list->text, list->call->monitor->node->name);
    mpi_put_int(list->text, mpi_process_pid(process));
    mpi_put_string(list->text, library_name(head->library));
    mpi_put_string(list->text, mpi_state_name(atomic_load(&head->state)));
    mpi_put_string(list->text, mpi_process_exe(process));
    mpi_put_string(list->text, mpi_process_job(process));
}

static void tell_found(struct rank_list *list, const struct mpi_found *found)
{
    put_rank(list, found->here, found->pid, found->namespace, found->rank, found->size);
    mpi_put_string(list->text, found->host);
    mpi_put_int(list->text, found->pid);
    mpi_put_string(list->text, library_name(found->library));
    mpi_put_string(list->text, "found");
    mpi_put_string(list->text, found->exe);
    mpi_put_string(list->text, found->job);
}

void mpi_get_ranks(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct mpi_found *found = NULL;
    size_t count = 0;
    char note[256];
    if (!dir)
        return;
    int code = mpi_find_ranks(&found, &count, note, sizeof note);
    struct rank_list list = {.call = call,
                             .found = found,
                             .found_count = count,
                             .told = arena_zalloc(call->arena, count + 1, sizeof *list.told)};
    if (code < 0 || !list.told) {
        free(found);
        call_fail_errno(call, NULL, code < 0 ? code : -ENOMEM, NULL);
        return;
    }
    struct buf text = BUF_INIT;
    list.text = &text;
    mpi_put_string(&text, note);
    buf_putc(&text, '[');
    mpi_process_each(call->monitor->mpi, dir_or_all(dir), tell_process, &list);
    for (size_t i = 0; i < count; i++)
        if (!list.told[i] && (!*dir || (strcmp(found[i].job, dir) == 0 &&
                                        (!found[i].here || agents_job_has(call->monitor->agents, dir, found[i].pid)))))
            tell_found(&list, &found[i]);
    mpi_end_list(&text);
    call_text(call, NULL, &text);
    buf_done(&text);
    free(found);
}

/* ---- the wait-for graph ---- */

struct gathering {
    struct mpi_stats_set set;
    size_t room;
    bool failed;
};

static struct mpi_stats *gather_one(struct gathering *gathering)
{
    struct mpi_stats_set *set = &gathering->set;
    if (set->count == gathering->room) {
        size_t room = gathering->room ? 2 * gathering->room : 16;
        struct mpi_stats *grown = arena_alloc(set->arena, room * sizeof *grown);
        if (!grown) {
            gathering->failed = true;
            return NULL;
        }
        if (set->count)
            memcpy(grown, set->ranks, set->count * sizeof *grown);
        set->ranks = grown;
        gathering->room = room;
    }
    return &set->ranks[set->count];
}

static void gather_living(void *ctx, struct mpi_process *process)
{
    struct gathering *gathering = ctx;
    struct mpi_stats *stats = gather_one(gathering);
    struct err err;
    if (stats && mpi_process_take(process, stats, gathering->set.arena, &err) == 0 && stats->rank >= 0)
        gathering->set.count++;
}

static void gather_past(void *ctx, const struct mpi_past *past)
{
    struct gathering *gathering = ctx;
    for (size_t i = 0; i < gathering->set.count; i++) /* it executed another program, and goes on */
        if (gathering->set.ranks[i].rank == past->rank &&
            strcmp(gathering->set.ranks[i].namespace, past->namespace) == 0)
            return;
    struct mpi_stats *stats = gather_one(gathering);
    const char *namespace = arena_dup(gathering->set.arena, past->namespace, strlen(past->namespace));
    if (!stats || !namespace)
        return;
    *stats = (struct mpi_stats){.name = "",
                                .node = "",
                                .exe = "",
                                .processor = "",
                                .library = "",
                                .library_version = "",
                                .namespace = namespace,
                                .fault = "",
                                .pid = past->pid,
                                .rank = past->rank,
                                .world_size = past->size,
                                .state = past->state,
                                .aborted = past->aborted,
                                .abort_code = past->abort_code};
    gathering->set.count++;
}

static int by_rank(const void *a, const void *b)
{
    const struct mpi_stats *one = a, *other = b;
    int order = strcmp(one->namespace, other->namespace);
    return order ? order : one->rank < other->rank ? -1 : one->rank > other->rank;
}

static void put_indices(struct buf *text, const uint32_t *indices, size_t count)
{
    buf_putc(text, '[');
    for (size_t i = 0; i < count; i++)
        mpi_put_uint(text, indices[i]);
    mpi_end_list(text);
    buf_putc(text, ',');
}

static void put_waits(struct buf *text, const struct mpi_why *why, size_t index)
{
    const struct mpi_why_rank *rank = &why->ranks[index];
    for (size_t i = 0; i < rank->thread_count; i++)
        for (size_t k = 0; k < rank->threads[i].condition_count; k++) {
            const struct mpi_why_condition *condition = &rank->threads[i].conditions[k];
            mpi_put_uint(text, index);
            mpi_put_int(text, rank->threads[i].thread ? rank->threads[i].thread->tid : 0);
            mpi_put_string(text, mpi_why_reason_name(condition->reason));
            mpi_put_string(text, call_infos[condition->call < CALL_COUNT ? condition->call : CALL_NONE].name);
            mpi_put_int(text, condition->peer);
            mpi_put_int(text, condition->tag);
            mpi_put_uint(text, condition->maybe);
            put_indices(text, condition->for_ranks, condition->for_count);
        }
}

static void put_graph(struct buf *text, const struct mpi_why *why)
{
    mpi_put_uint(text, why->still_ns);
    buf_putc(text, '[');
    for (size_t i = 0; i < why->count; i++) {
        const struct mpi_why_rank *rank = &why->ranks[i];
        mpi_put_uint(text, i);
        mpi_put_string(text, rank->stats->namespace);
        mpi_put_int(text, rank->stats->rank);
        mpi_put_int(text, rank->stats->pid);
        mpi_put_string(text, mpi_why_state_name(rank->state));
        mpi_put_uint(text, rank->stuck);
        mpi_put_int(text, rank->root == MPI_WHY_NONE ? -1 : (int64_t)rank->root);
    }
    mpi_end_list(text);
    buf_puts(text, ",[");
    for (size_t i = 0; i < why->count; i++)
        put_waits(text, why, i);
    mpi_end_list(text);
    buf_puts(text, ",[");
    for (size_t i = 0; i < why->finding_count; i++) {
        const struct mpi_why_finding *finding = &why->findings[i];
        mpi_put_string(text, mpi_why_kind_name(finding->kind));
        put_indices(text, finding->ranks, finding->rank_count);
        put_indices(text, finding->victims, finding->victim_count);
        mpi_put_string(text, finding->text);
    }
    mpi_end_list(text);
    buf_putc(text, ',');
    struct buf people = BUF_INIT;
    mpi_why_text(&people, why);
    value_print_string(text, span_of(people.data ? people.data : "", people.len));
    buf_done(&people);
}

int mpi_job_why(struct monitor *monitor, const char *dir, struct mpi_stats_set *ret_set, struct mpi_why *ret_why,
                struct arena *arena)
{
    struct gathering first = {.set = {.arena = arena}}, gathering = first;
    struct mpi_look *look = NULL;
    mpi_process_each(monitor->mpi, dir, gather_living, &first);
    if (first.failed || mpi_look_begin(&look, &first.set, NULL) < 0)
        return -ENOMEM;
    mpi_process_each(monitor->mpi, dir, gather_living, &gathering);
    mpi_past_each(monitor->mpi, dir, gather_past, &gathering);
    if (gathering.set.count)
        qsort(gathering.set.ranks, gathering.set.count, sizeof *gathering.set.ranks, by_rank);
    mpi_look_end_at_once(look, &gathering.set);
    *ret_set = gathering.set;
    return gathering.failed ? -ENOMEM : mpi_why_find(ret_why, ret_set, NULL, arena);
}

void mpi_get_wait_graph(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct arena arena = ARENA_INIT;
    struct mpi_stats_set set;
    struct mpi_why why;
    if (!dir)
        return;
    int code = mpi_job_why(call->monitor, dir_or_all(dir), &set, &why, &arena);
    if (code < 0) {
        call_fail_errno(call, NULL, code, NULL);
    } else {
        struct buf text = BUF_INIT;
        put_graph(&text, &why);
        call_text(call, NULL, &text);
        buf_done(&text);
    }
    arena_done(&arena);
}

/* ---- files ---- */

void mpi_flush(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct err err = {0};
    if (!dir)
        return;
    int code = call->monitor->mpi ? mpi_job_flush(call->monitor->mpi, dir_or_all(dir), &err) : 0;
    call_done(call, NULL, code, &err);
}
