/* SPDX-License-Identifier: Apache-2.0 */
#include "service/mpi/mpi.h"

#include "jobdir/mpi/text.h"
#include "lang/value.h"
#include "lang/results.h"
#include "monitor/engine/execute.h"
#include "monitor/engine/object.h"
#include "monitor/mpi/mpi.h"
#include "monitor/params/params.h"
#include "monitor/recorder/agents.h"
#include "service/ct/ct.h"
#include "service/omis/service.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *mpi_state_name(uint32_t state);
static struct scry_object *mpi_asked_node(const struct scry_call *call);

/* mpi_get_activity: what each rank of a job does; cheap enough to be asked twice a second. */

struct activity {
    struct scry_call *call;
    struct buf *text;
};

/* The rank's thread called MPI_Init; before that, it is the one that is calling it. */
static const struct mpi_stats_thread *rank_thread(const struct mpi_stats *stats)
{
    for (size_t i = 0; i < stats->thread_count; i++)
        if (stats->threads[i].is_main)
            return &stats->threads[i];
    return stats->thread_count ? &stats->threads[0] : NULL;
}

static const char *state_of(const struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    if (stats->state == MPIA_OFF || stats->uncounted)
        return "off";
    if (stats->state == MPIA_LOADED)
        return "starting";
    bool in_call = thread && !thread->ended && thread->now.call != CALL_NONE;
    if (stats->state == MPIA_ENDED && !in_call)
        return "ended";
    return in_call ? "in_call" : "computing";
}

static void put_who(const struct activity *activity, const char *job, const char *namespace, int32_t rank, int32_t size,
                    pid_t pid)
{
    struct buf *text = activity->text;
    PUT(text, job, namespace, rank, size, activity->call->monitor->node->name, pid);
}

static void put_doing(struct buf *text, const struct mpi_stats *stats, const char *state)
{
    static const struct mpi_stats_thread none = {.now = {.peer = MPIA_RANK_NONE, .tag = MPIA_TAG_NONE}};
    const struct mpi_stats_thread *thread = rank_thread(stats), *shown = thread ? thread : &none;
    bool in_call = shown->now.call != CALL_NONE && !shown->ended && strcmp(state, "off") != 0;
    bool ticks = in_call || strcmp(state, "computing") == 0;
    struct buf people = BUF_INIT, details = BUF_INIT;
    if (in_call) {
        mpi_text_now(&people, stats, &shown->now);
        mpi_text_details(&details, stats, &shown->now);
    }
    PUT(text, stats->library, state, stats->spawned, in_call ? call_infos[shown->now.call].name : "",
        ticks ? shown->now.age_ns : 0, in_call ? shown->now.peer : MPIA_RANK_NONE,
        in_call ? shown->now.tag : MPIA_TAG_NONE, people.data ? people.data : "", shown->outermost.compute_ns,
        shown->outermost.communicate_ns, stats->fault, details.data ? details.data : "");
    buf_done(&people);
    buf_done(&details);
}

static void tell_living(void *ctx, struct mpi_process *process)
{
    struct activity *activity = ctx;
    struct arena arena = ARENA_INIT;
    struct mpi_stats stats;
    struct err err;
    if (mpi_process_snapshot_now(process, &stats, &arena, &err) == 0 &&
        (stats.rank >= 0 || stats.state != MPIA_LOADED)) {
        put_who(activity, mpi_process_job(process), stats.namespace, stats.rank, stats.world_size, stats.pid);
        put_doing(activity->text, &stats, state_of(&stats, rank_thread(&stats)));
    }
    arena_done(&arena);
}

static bool rank_lives(struct scry_call *call, const struct mpi_past *past)
{
    struct mpi_process *process = mpi_process_find(call->monitor->mpi, past->pid);
    return process && strcmp(mpi_process_job(process), past->job) == 0;
}

static void tell_past(void *ctx, const struct mpi_past *past)
{
    struct activity *activity = ctx;
    if (rank_lives(activity->call, past)) /* it executed another program, and goes on */
        return;
    static const struct mpi_stats nothing = {.library = "", .fault = ""};
    put_who(activity, past->job, past->namespace, past->rank, past->size, past->pid);
    put_doing(activity->text, &nothing, past->aborted ? "aborted" : past->state == MPIA_RUNNING ? "died" : "ended");
}

static void tell_job(void *ctx, const char *dir)
{
    struct activity *activity = ctx;
    mpi_process_each(activity->call->monitor->mpi, dir, tell_living, activity);
    mpi_past_each(activity->call->monitor->mpi, dir, tell_past, activity);
}

static void mpi_get_activity(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct buf text = BUF_INIT;
    struct activity activity = {.call = call, .text = &text};
    if (!dir)
        return;
    put_list(&text);
    mpi_job_each(call->monitor, *dir ? dir : NULL, tell_job, &activity);
    put_end(&text);
    call_text(call, mpi_asked_node(call), &text);
    buf_done(&text);
}

/* Services of the extension `mpi` on jobs: their ranks, their files. */

const char *mpi_job_part(struct monitor *monitor, struct span name)
{
    const char *dir = job_directory(monitor, name);
    for (struct scry_object *object = monitor->objects; object && !dir; object = object->hh.next)
        if (job_object_is(monitor, object, name))
            dir = ((const struct job_object *)object->data)->dir;
    return dir;
}

void mpi_job_each(struct monitor *monitor, const char *dir, void (*fn)(void *ctx, const char *dir), void *ctx)
{
    fn(ctx, dir);
    for (struct scry_object *object = monitor->objects; dir && object; object = object->hh.next)
        if (job_object_is(monitor, object, span_str(dir)) && strcmp(((struct job_object *)object->data)->dir, dir) != 0)
            fn(ctx, ((struct job_object *)object->data)->dir);
}

const char *mpi_job_named(struct scry_call *call)
{
    struct span name = call->args[0].text;
    if (!name.len)
        return "";
    const char *dir = mpi_job_part(call->monitor, name);
    if (dir)
        return dir;
    if (name.ptr[0] == '/' && (dir = call_string(call, 0))) /* its scry run is gone, or is elsewhere */
        return dir;
    if (name.ptr[0] != '/')
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "no job %.*s runs here", SPAN_ARG(name));
    return NULL;
}

/* Of a call that has nodes behind the job: this one, or NULL where the tool has none, and asks its own. */
static struct scry_object *mpi_asked_node(const struct scry_call *call)
{
    return call->object_count ? call->objects[0] : NULL;
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
    PUT(list->text, value_token(span_str(process ? process->object.token : TOKEN_UNDEFINED)), namespace, rank, size);
}

static const char *library_name(uint32_t library)
{
    return library == MPIA_LIBRARY_OPENMPI ? "openmpi" : library == MPIA_LIBRARY_MPICH ? "mpich" : "";
}

/* A process with an area. That memory is the program's: do not trust it. */
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
    PUT(list->text, list->call->monitor->node->name, mpi_process_pid(process), library_name(head->library),
        mpi_state_name(atomic_load(&head->state)), mpi_process_exe(process), mpi_process_job(process));
}

static void tell_found(struct rank_list *list, const struct mpi_found *found)
{
    put_rank(list, found->here, found->pid, found->namespace, found->rank, found->size);
    PUT(list->text, found->host, found->pid, library_name(found->library), "found", found->exe, found->job);
}

static void mpi_get_ranks(struct scry_call *call)
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
        call_fail_errno(call, mpi_asked_node(call), code < 0 ? code : -ENOMEM, NULL);
        return;
    }
    struct buf text = BUF_INIT;
    list.text = &text;
    PUT(&text, note);
    put_list(&text);
    mpi_process_each(call->monitor->mpi, dir_or_all(dir), tell_process, &list);
    for (size_t i = 0; i < count; i++)
        if (!list.told[i] && (!*dir || (strcmp(found[i].job, dir) == 0 &&
                                        (!found[i].here || agents_job_has(call->monitor->agents, dir, found[i].pid)))))
            tell_found(&list, &found[i]);
    put_end(&text);
    call_text(call, mpi_asked_node(call), &text);
    buf_done(&text);
    free(found);
}

/* ---- files ---- */

static void mpi_flush(struct scry_call *call)
{
    const char *dir = mpi_job_named(call);
    struct err err = {0};
    if (!dir)
        return;
    int code = mpi_job_flush(call->monitor->mpi, dir_or_all(dir), true, &err);
    call_done(call, mpi_asked_node(call), code, &err);
}

/* mpi_load: the interposer comes into processes that were not started by scry, one after the other. */

struct target {
    char token[TOKEN_TEXT_SIZE];
};

/* An mpi_load in progress over its processes. In the call's arena. */
struct loads {
    struct monitor *monitor;
    struct target *targets;
    size_t count, at;
    struct later *later;
};

static void load_next(struct loads *loads, struct scry_call *call);

static struct process *rank_current(struct loads *loads, struct scry_call *call, Omis_status *ret_status,
                                    struct err *err)
{
    return (struct process *)convert_one(call, span_str(loads->targets[loads->at].token), "p", true, ret_status, err);
}

static void load_done(void *ctx, struct process *ignored, int code, const struct err *why)
{
    struct loads *loads = ctx;
    struct scry_call *call = call_later_begin(loads->later);
    struct err err = *why;
    Omis_status status;
    struct process *process = rank_current(loads, call, &status, &err);
    if (!process)
        call_fail(call, NULL, status, "%s", err.text);
    else
        call_done(call, &process->object, code, &err);
    loads->at++;
    load_next(loads, call);
    call_later_end(loads->later, loads->at == loads->count);
}

static void load_cancelled(void *ctx)
{
    struct loads *loads = ctx;
    mpi_late_forget_all(loads->monitor->mpi, loads);
}

/* Goes on with the next processes, until one has to wait. */
static void load_next(struct loads *loads, struct scry_call *call)
{
    for (; loads->at < loads->count; loads->at++) {
        struct err err = {0};
        Omis_status status;
        struct process *process = rank_current(loads, call, &status, &err);
        if (!process) {
            call_fail(call, NULL, status, "%s", err.text);
            continue;
        }
        if (mpi_process_find(call->monitor->mpi, process->pid)) {
            call_ok(call, &process->object);
            continue;
        }
        int code = mpi_late_begin(process, load_done, loads, &err);
        if (code == 0)
            return;
        call_fail_errno(call, &process->object, code, &err);
    }
}

static void mpi_load(struct scry_call *call)
{
    struct loads *loads = arena_zalloc(call->arena, 1, sizeof *loads);
    struct target *targets = arena_zalloc(call->arena, call->object_count + 1, sizeof *targets);
    if (!loads || !targets) {
        call_fail_errno(call, NULL, -ENOMEM, NULL);
        return;
    }
    loads->monitor = call->monitor;
    loads->targets = targets;
    for (size_t i = 0; i < call->object_count; i++)
        snprintf(targets[loads->count++].token, TOKEN_TEXT_SIZE, "%s", call->objects[i]->token);
    loads->later = loads->count ? call_later(call, load_cancelled, loads) : NULL;
    if (!loads->later) {
        if (loads->count)
            call_fail(call, NULL, OMIS_UNSUPPORTED_SERVICE,
                      "it takes a while, so it cannot be used in braces or for an event");
        return;
    }
    struct scry_call *later = call_later_begin(loads->later);
    load_next(loads, later);
    call_later_end(loads->later, loads->at == loads->count);
}

/* The built-in extension `mpi`: information on MPI processes. */

/* ---- pieces ---- */

static const char *mpi_state_name(uint32_t state)
{
    static const char *const names[] = {"loaded", "running", "ended", "off"};
    return state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* Puts the number of a communicator, window or file by which tools know it; -1: none. */
static void put_comm(struct buf *text, const struct mpi_stats *stats, uint32_t index)
{
    PUT(text, index < stats->comm_count ? (int64_t)stats->comms[index].number : -1);
}

static const char *comm_name(const struct mpi_stats *stats, uint32_t index)
{
    return index < stats->comm_count ? stats->comms[index].name : "";
}

/* ---- the same for each process ---- */

typedef int stats_fn(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err);

static struct mpi_process *process_at(struct scry_call *call, size_t index, struct err *err)
{
    pid_t pid = call_process(call, index)->pid;
    struct mpi_process *process = mpi_process_find(call->monitor->mpi, pid);
    if (!process)
        err_set(
            err, -EOPNOTSUPP,
            "process %d is no MPI process that is watched: start it with `scry run` or `scry exec` to count its MPI "
            "calls",
            pid);
    return process;
}

/* Answers for each process with what `fn` writes. */
static void for_each(struct scry_call *call, stats_fn *fn)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct buf text = BUF_INIT;
        struct mpi_stats stats;
        struct arena arena = ARENA_INIT;
        struct mpi_process *process = process_at(call, i, &err);
        int code = process ? mpi_process_snapshot(process, &stats, &arena, &err) : -EOPNOTSUPP;
        if (code == 0)
            code = fn(call, &stats, &text, &err);
        if (code < 0)
            call_fail_errno(call, call->objects[i], code, &err);
        else
            call_text(call, call->objects[i], &text);
        buf_done(&text);
        arena_done(&arena);
    }
}

/* ---- communicators ---- */

static void put_group(struct buf *text, const int32_t *ranks, uint32_t size)
{
    put_list(text);
    for (uint32_t i = 0; i < size; i++)
        PUT(text, ranks ? ranks[i] : (int32_t)i);
    put_end(text);
}

static int comm_info(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    static const char *const kinds[] = {"", "intra", "inter", "window", "file"};
    put_list(text);
    for (size_t i = 0; i < stats->comm_count; i++) {
        const struct mpi_stats_comm *comm = &stats->comms[i];
        PUT(text, comm->number, kinds[comm->kind <= MPIA_COMM_FILE ? comm->kind : 0], comm->name, comm->size,
            (int32_t)comm->rank, comm->parent == UINT32_MAX ? -1 : (int64_t)comm->parent, call_infos[comm->call].name,
            comm->ended, comm->collectives);
        put_group(text, comm->ranks, comm->size);
        put_group(text, comm->remote_ranks, comm->remote_ranks ? comm->remote_size : 0);
    }
    put_end(text);
    return 0;
}

static void mpi_comm_get_info(struct scry_call *call)
{
    for_each(call, comm_info);
}

/* ---- statistics ---- */

struct line { /* of a primitive, or of a clock */
    const char *name;
    uint64_t count, total, min, max, bytes, sent, got;
    uint64_t completions, completion_total, completion_min, completion_max;
    uint64_t open; /* of total, what is not in count */
};

static double sum_average(uint64_t total, uint64_t count)
{
    return count ? (double)total / (double)count : 0;
}

enum { METRIC_AVERAGE = 4, METRIC_COMPLETION_AVERAGE = 12 };
static const struct {
    const char *name;
    size_t offset;
} metrics[] = {
#define M(name, member) \
    { \
        name, offsetof(struct line, member) \
    }
    M("count", count),
    M("total", total),
    M("min", min),
    M("max", max),
    M("average", total),
    M("bytes", bytes),
    M("sent", sent),
    M("received", got),
    M("completions", completions),
    M("completion_total", completion_total),
    M("completion_min", completion_min),
    M("completion_max", completion_max),
    M("completion_average", completion_total),
#undef M
};
enum { METRICS = sizeof metrics / sizeof *metrics };

static void put_metric(struct buf *text, const struct line *line, size_t metric)
{
    uint64_t value = *(const uint64_t *)(const void *)((const char *)line + metrics[metric].offset);
    if (metric == METRIC_AVERAGE || metric == METRIC_COMPLETION_AVERAGE) {
        bool whole = metric == METRIC_COMPLETION_AVERAGE;
        PUT(text, sum_average(whole ? value : value - line->open, whole ? line->completions : line->count));
    } else {
        PUT(text, value);
    }
}

static size_t find_metric(struct span name)
{
    size_t i = 0;
    while (i < METRICS && !span_is(name, metrics[i].name))
        i++;
    return i;
}

/* An empty list means all. */
static bool is_wanted(struct scry_call *call, const char *name)
{
    const struct value *list = &call->args[1];
    for (size_t i = 0; i < list->list.count; i++) {
        struct span pattern = list->list.items[i].text;
        const char *copy = arena_dup(call->arena, pattern.ptr, pattern.len);
        if (copy && fnmatch(copy, name, FNM_CASEFOLD) == 0)
            return true;
    }
    return list->list.count == 0;
}

static void put_line(struct scry_call *call, struct buf *text, const struct line *line)
{
    const struct value *list = &call->args[2];
    if (!is_wanted(call, line->name))
        return;
    PUT(text, line->name);
    for (size_t i = 0; i < (list->list.count ? list->list.count : METRICS); i++)
        put_metric(text, line, list->list.count ? find_metric(list->list.items[i].text) : i);
}

/* The last computation has no communication after it. */
static void put_clock(struct scry_call *call, struct buf *text, const struct mpi_stats *stats,
                      const struct mpi_stats_clock *clock, const char *computation, const char *communication)
{
    put_line(call, text,
             &(struct line){.name = computation,
                            .count = clock->count + (stats->state == MPIA_ENDED),
                            .total = clock->compute_ns,
                            .open = clock->compute_open_ns,
                            .min = clock->compute_min_ns,
                            .max = clock->compute_max_ns});
    put_line(call, text,
             &(struct line){.name = communication,
                            .count = clock->count,
                            .total = clock->communicate_ns,
                            .open = clock->communicate_open_ns,
                            .min = clock->communicate_min_ns,
                            .max = clock->communicate_max_ns});
}

static const struct mpi_stats_row *span_of_call(const struct mpi_stats *stats, uint32_t call)
{
    static const struct mpi_stats_row none;
    for (size_t i = 0; i < stats->span_count; i++)
        if (stats->spans[i].call == call)
            return &stats->spans[i];
    return &none;
}

static int get_stats(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    const struct value *list = &call->args[2];
    put_list(text);
    for (size_t i = 0; i < (list->list.count ? list->list.count : METRICS); i++)
        PUT(text, metrics[list->list.count ? find_metric(list->list.items[i].text) : i].name);
    put_end(text);
    put_list(text);
    for (size_t i = 0; i < stats->thread_count; i++)
        if (stats->threads[i].is_main) { /* it is the rank */
            put_clock(call, text, stats, &stats->threads[i].outermost, "computation", "communication");
            put_clock(call, text, stats, &stats->threads[i].blocking, "blocking.computation", "blocking.communication");
        }
    for (size_t i = 0; i < stats->row_count; i++) {
        const struct mpi_stats_row *row = &stats->rows[i], *span = span_of_call(stats, row->call);
        put_line(call, text,
                 &(struct line){.name = call_infos[row->call].name,
                                .count = row->count,
                                .total = row->total_ns,
                                .min = row->min_ns,
                                .max = row->max_ns,
                                .bytes = row->args_bytes,
                                .sent = row->sent_bytes,
                                .got = row->got_bytes,
                                .completions = span->count,
                                .completion_total = span->total_ns,
                                .completion_min = span->min_ns,
                                .completion_max = span->max_ns});
    }
    put_end(text);
    return 0;
}

/* Refuses unknown primitives: without an error they would look as if they had not been called. */
static int check_primitives(struct scry_call *call, struct err *err)
{
    static const char *const clocks[] = {"computation", "communication", "blocking.computation",
                                         "blocking.communication"};
    const struct value *list = &call->args[1];
    uint64_t calls[(CALL_COUNT + 63) / 64];
    struct span wrong;
    const char *near[MPI_NEAR];
    for (size_t i = 0; i < list->list.count; i++) {
        struct span name = list->list.items[i].text;
        const char *copy = arena_dup(call->arena, name.ptr, name.len);
        bool found = copy && mpi_calls_choose(name, calls, &wrong, near) == 0;
        for (size_t k = 0; copy && k < sizeof clocks / sizeof *clocks; k++)
            found |= fnmatch(copy, clocks[k], FNM_CASEFOLD) == 0;
        if (copy && !found)
            return mpi_calls_unknown("primitives", wrong, near, err);
    }
    return 0;
}

static void mpi_get_stats(struct scry_call *call)
{
    const struct value *list = &call->args[2];
    struct err err;
    if (check_primitives(call, &err) < 0) {
        call_fail(call, NULL, OMIS_PARAMETER_ERROR, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < list->list.count; i++)
        if (find_metric(list->list.items[i].text) == METRICS) {
            call_fail(call, NULL, OMIS_PARAMETER_ERROR,
                      "metrics: expected count, total, min, max, average, bytes, sent, received, and completions, "
                      "completion_total, completion_min, completion_max, completion_average");
            return;
        }
    for_each(call, get_stats);
}

static int get_distribution(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    const struct mpi_stats_distribution *found = NULL;
    struct span name = call->args[1].text;
    for (size_t i = 0; i < stats->distribution_count && !found; i++)
        if (span_is(name, stats->distributions[i].name))
            found = &stats->distributions[i];
    PUT(text, !found || found->is_time ? "ns" : "bytes", found ? found->total : 0);
    put_list(text);
    for (size_t i = 0; found && i < found->count; i++) {
        PUT(text, found->buckets[i].from, found->buckets[i].to, found->buckets[i].count);
    }
    put_end(text);
    return 0;
}

/* computation, communication, blocking.computation ..., CALL.latency, CALL.size, CALL.completion */
static bool is_distribution(struct span name)
{
    static const char *const kinds[] = {".latency", ".size", ".completion"};
    static const char *const clocks[] = {"computation", "communication", "blocking.computation",
                                         "blocking.communication"};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
        if (span_is(name, clocks[i]))
            return true;
    for (uint32_t call = 1; call < CALL_COUNT; call++) {
        size_t len = strlen(call_infos[call].name);
        if (name.len <= len || memcmp(name.ptr, call_infos[call].name, len) != 0)
            continue;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (span_is(span_of(name.ptr + len, name.len - len), kinds[i]))
                return true;
    }
    return false;
}

static void mpi_get_distribution(struct scry_call *call)
{
    if (is_distribution(call->args[1].text))
        for_each(call, get_distribution);
    else
        call_fail(call, NULL, OMIS_PARAMETER_ERROR,
                  "name: expected computation, communication, blocking.computation, blocking.communication, and "
                  "CALL.latency, CALL.size, CALL.completion, such as MPI_Send.latency");
}

static int get_sites(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    uint64_t limit = call_unsigned(call, 1), shown = 0;
    put_list(text);
    for (size_t i = 0; i < stats->site_count && (!limit || shown < limit); i++) {
        const struct mpi_stats_site *site = &stats->sites[i];
        if (!site->count)
            continue;
        shown++;
        PUT(text, call_infos[site->call].name, site->module, site->offset, site->count, site->total_ns, site->min_ns,
            site->max_ns, site->args_bytes);
    }
    put_end(text);
    return 0;
}

static void mpi_get_sites(struct scry_call *call)
{
    if (call_check_range(call, 1, 0, INT64_MAX))
        for_each(call, get_sites);
}

/* ---- who exchanges messages with whom ---- */

static int get_matrix(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    PUT(text, stats->rank);
    put_list(text);
    for (size_t i = 0; i < stats->peer_count; i++) {
        const struct mpi_stats_peer *peer = &stats->peers[i];
        if (mpi_stats_is_epoch(peer))
            continue;
        PUT(text, peer->peer);
        put_comm(text, stats, peer->comm);
        PUT(text, call_infos[peer->call].name, peer->sent_count, peer->sent_bytes, peer->got_count, peer->got_bytes,
            peer->args_bytes);
    }
    put_end(text);
    return 0;
}

static void mpi_get_matrix(struct scry_call *call)
{
    for_each(call, get_matrix);
}

/* ---- what goes on now ---- */

static int get_pending(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    put_list(text);
    for (size_t i = 0; i < stats->request_count; i++) {
        const struct mpi_stats_request *request = &stats->requests[i];
        PUT(text, request->handle, call_infos[request->call].name,
            request->flags & MPIA_REQUEST_RECEIVE ? "receive"
            : request->flags & MPIA_REQUEST_SEND  ? "send"
                                                  : "other",
            request->flags & MPIA_REQUEST_INACTIVE ? "inactive"
            : request->flags & MPIA_REQUEST_FREED  ? "freed"
                                                   : "active",
            request->peer, request->tag);
        put_comm(text, stats, request->comm);
        PUT(text, request->bytes, request->age_ns);
    }
    put_end(text);
    return 0;
}

static void mpi_get_pending(struct scry_call *call)
{
    for_each(call, get_pending);
}

static void put_thread(struct buf *text, const struct mpi_stats *stats, const struct mpi_stats_thread *thread)
{
    const struct mpi_stats_now *now = &thread->now;
    PUT(text, thread->tid, thread->is_main, thread->ended ? "(ended)" : call_infos[now->call].name, now->age_ns,
        now->peer, now->tag, now->source_peer, now->source_tag);
    put_comm(text, stats, now->comm);
    PUT(text, comm_name(stats, now->comm), now->bytes, now->waiting, now->site.module, now->site.offset,
        thread->outermost.compute_ns, thread->outermost.communicate_ns);
}

static int get_state(struct scry_call *call, const struct mpi_stats *stats, struct buf *text, struct err *err)
{
    PUT(text, mpi_state_name(stats->state), stats->rank, stats->world_size, stats->library, stats->fault);
    put_list(text);
    for (size_t i = 0; i < stats->thread_count; i++)
        put_thread(text, stats, &stats->threads[i]);
    put_end(text);
    return 0;
}

static void mpi_get_state(struct scry_call *call)
{
    for_each(call, get_state);
}

static void mpi_reset(struct scry_call *call)
{
    for (size_t i = 0; i < call->object_count; i++) {
        struct err err = {0};
        struct mpi_process *process = process_at(call, i, &err);
        if (process)
            mpi_process_reset(process);
        call_done(call, call->objects[i], process ? 0 : -EOPNOTSUPP, &err);
    }
}

#define PROCESSES "token<p>* proc_list"
#define JOB "a job is named by its directory, its id or its token; \"\": all of the node"
#define JOB_ON_NODES "[string job], [token<n>* node_list]"

const struct scry_service mpi_services[] = {
    {"mpi_get_ranks", SCRY_INFORMATION, JOB_ON_NODES " -> { string note; any* ranks }", SCRY_OPTIONAL, mpi_get_ranks,
     "The ranks of MPI jobs on the nodes, also of those that were not started by scry (" JOB
     "): token (u_0: on another node), MPI "
     "job, rank, size, host, pid, library, state (loaded, running, ended, off; found: known from outside only), "
     "program, "
     "job. note: what could not be found out, and why."},
    {"mpi_get_activity", SCRY_INFORMATION, JOB_ON_NODES " -> " MPI_ACTIVITY_ROW "* ranks", SCRY_OPTIONAL,
     mpi_get_activity,
     "What the ranks of a job on the nodes do (" JOB
     "). state: starting, computing, in_call, ended, died, aborted, or off (not counted); spawned: 1; call: \"\" if it "
     "is in none; since_ns: how long it computes or is in the call; peer: a world rank; text: the call for people; "
     "details: the same without the call; "
     "compute_ns, communicate_ns: since MPI_Init. Costs little."},
    {"mpi_comm_get_info", SCRY_INFORMATION, PROCESSES " -> any* communicators", SCRY_OPTIONAL, mpi_comm_get_info,
     "The communicators, windows and files of MPI processes: number, kind (intra, inter, window, file), name, size, "
     "own rank, number of the one it was made from (-1: none), call that made it, 1 if it was freed, number of "
     "collective calls, world ranks of its group, and of the remote group."},
    {"mpi_get_stats", SCRY_INFORMATION,
     PROCESSES ", [string* primitives], [string* metrics] -> { string* metrics; any* rows }", SCRY_OPTIONAL,
     mpi_get_stats,
     "Statistics of MPI processes. Each row has a name, then the metrics: a primitive that occurred; or computation, "
     "communication, blocking.computation and blocking.communication of the rank's own thread. primitives: names with "
     "wildcards. metrics: count, total, min, max, average (ns), bytes (of the arguments), sent, received "
     "(transferred); for non-blocking calls, from post to completion: completions, completion_total, completion_min, "
     "completion_max, completion_average. Default: all."},
    {"mpi_get_distribution", SCRY_INFORMATION,
     PROCESSES ", string name -> { string unit; integer total; any* buckets }", SCRY_OPTIONAL, mpi_get_distribution,
     "One distribution: from, to (exclusive), count, in ns or bytes. name: computation, communication, "
     "blocking.computation, blocking.communication, MPI_Send.latency, MPI_Send.size, MPI_Isend.completion and so on."},
    {"mpi_get_sites", SCRY_INFORMATION, PROCESSES ", [integer limit] -> any* sites", SCRY_OPTIONAL, mpi_get_sites,
     "Call sites of MPI, most time first, at most limit (0: all): call, file, address in it, calls, total, shortest "
     "and longest time in ns, bytes."},
    {"mpi_get_matrix", SCRY_INFORMATION, PROCESSES " -> { integer rank; any* rows }", SCRY_OPTIONAL, mpi_get_matrix,
     "With whom processes exchange messages: world rank (-1: any, -2: nobody, -3: none, -4: root, -5: another MPI "
     "job), number of the communicator, call (\"\": point-to-point messages; else the collective with its root, or "
     "the one-sided operation with its target), messages and bytes sent, messages and bytes received, bytes of the "
     "arguments."},
    {"mpi_get_pending", SCRY_INFORMATION, PROCESSES " -> " MPI_OPERATION "* operations", SCRY_OPTIONAL, mpi_get_pending,
     "Operations that are not completed: request, call, send, receive or other, active, inactive or freed, world "
     "rank, tag, number of the communicator, bytes, age in ns."},
    {"mpi_get_state", SCRY_INFORMATION,
     PROCESSES " -> { string state; integer rank; integer ranks; string library; string fault; any* threads }",
     SCRY_OPTIONAL, mpi_get_state,
     "What the threads of MPI processes do: thread id, 1 for the rank's own, call (\"\": it computes), for how many "
     "ns, world rank, tag, rank and tag of the receiving half of a send-receive, number and name of the communicator, "
     "window or file, bytes, number of requests, file and address of the call, ns of computation and of "
     "communication."},
    {"mpi_get_wait_graph", SCRY_INFORMATION, "[string job], [integer record] -> " MPI_WAIT_GRAPH, SCRY_OPTIONAL,
     mpi_get_wait_graph,
     "Why the ranks of a job do not move: one graph of all nodes that the tool has attached, or of this one (" JOB
     "). It takes some tenths of a second, to see who polls and who has no "
     "processor; so it cannot be used in braces and for an event. record: 1 writes what was seen to the job "
     "directory, on other nodes to that of the job's part. "
     "still: ns without the begin or end of a call. ranks: index, MPI job, rank, pid, state, 1 if it can never move "
     "again, index of the rank that it waits for in the end (-1). waits: index of the rank, thread id, reason (send, "
     "receive, collective, target, finalize, post, complete), call, world rank, tag, 1 if it may have come true "
     "already, indices of the ranks any of which would do. findings, gravest first: kind (deadlock, mismatch, ...), "
     "indices of the ranks, indices of those that wait for them, text. text: all of it for people. nodes: how many "
     "ranks run there, and when the last one was looked at, ns since 1970 of that node's clock; problem: it has not "
     "answered."},
    {"mpi_look", SCRY_INFORMATION, "token<n>* node_list, string job, integer record -> " MPI_LOOKED,
     SCRY_OPTIONAL | SCRY_LOCAL, mpi_look,
     "What the nodes give to that graph: the ranks that a job has there, each as JSON (doc/reference/mpi-stats.schema"
     ".json), without statistics of calls. record: as there."},
    {"mpi_flush", SCRY_MANIPULATION, JOB_ON_NODES " -> void", SCRY_OPTIONAL, mpi_flush,
     "Write the statistics of a job's MPI processes to its directory (" JOB ")."},
    {"mpi_reset", SCRY_MANIPULATION, PROCESSES " -> void", SCRY_OPTIONAL, mpi_reset,
     "Start the statistics of MPI processes again, with each thread's next call."},
    {"mpi_load", SCRY_MANIPULATION, PROCESSES " -> void", SCRY_OPTIONAL, mpi_load,
     "Bring the interposer into MPI processes that were not started by scry: from then on their calls are counted, "
     "events of library calls happen, and they have message queues; it stays there when they are detached. One of a "
     "process's threads is made to load it, at a moment at which that is safe; where none is found within 3 s, or it "
     "cannot be done at all, the error says why. Enabling an event of library calls does it, too."},
    {"mpi_job_has_stalled", SCRY_EVENT,
     "string job, floating<s> seconds -> { string job; floating<s> seconds; integer ranks; string text; string "
     "finding; integer late }",
     SCRY_OPTIONAL, NULL,
     "For this time no rank of a job has begun or ended a call, and at least one is in a call (" JOB "). Reported once "
     "for each stall. ranks: the number of ranks on this node. text: why they do not move, from mpi_get_wait_graph. "
     "finding: its first finding, in a line. late: of a rank that computes while others wait for it, the number of its "
     "process; 0: there is none.",
     .event = &mpi_stalled_ops},
    SERVICE_END,
};
