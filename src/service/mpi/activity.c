/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_get_activity: what each rank of a job does; cheap enough to be asked twice a second. */
#include <errno.h>
#include <string.h>

#include "jobdir/mpi/text.h"
#include "monitor/engine/call.h"
#include "monitor/mpi/mpi.h"
#include "monitor/engine/node.h"
#include "service/ct/job_object.h"
#include "service/mpi/mpi.h"
#include "lang/put.h"
#include "service/omis/service.h"

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

static bool lives(struct scry_call *call, const struct mpi_past *past)
{
    struct mpi_process *process = mpi_process_find(call->monitor->mpi, past->pid);
    return process && strcmp(mpi_process_job(process), past->job) == 0;
}

static void tell_past(void *ctx, const struct mpi_past *past)
{
    struct activity *activity = ctx;
    if (lives(activity->call, past)) /* it executed another program, and goes on */
        return;
    static const struct mpi_stats nothing = {.library = "", .fault = ""};
    put_who(activity, past->job, past->namespace, past->rank, past->size, past->pid);
    put_doing(activity->text, &nothing, past->aborted ? "aborted" : past->state == MPIA_RUNNING ? "died" : "ended");
}

static void tell_job(struct activity *activity, const char *dir)
{
    mpi_process_each(activity->call->monitor->mpi, dir, tell_living, activity);
    mpi_past_each(activity->call->monitor->mpi, dir, tell_past, activity);
}

void mpi_get_activity(struct scry_call *call)
{
    const struct span name = call->args[0].text;
    const char *dir = mpi_job_named(call);
    struct buf text = BUF_INIT;
    struct activity activity = {.call = call, .text = &text};
    if (!dir)
        return;
    put_list(&text);
    tell_job(&activity, *dir ? dir : NULL);
    /* A part may be beside the job itself: of its first node, where a batch system starts tasks. */
    for (struct scry_object *object = call->monitor->objects; *dir && object; object = object->hh.next)
        if (job_object_is(call->monitor, object, name) && strcmp(((struct job_object *)object->data)->dir, dir) != 0)
            tell_job(&activity, ((struct job_object *)object->data)->dir);
    put_end(&text);
    call_text(call, mpi_asked_node(call), &text);
    buf_done(&text);
}
