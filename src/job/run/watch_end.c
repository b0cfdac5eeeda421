/* SPDX-License-Identifier: Apache-2.0 */
#include "job/run/watch_end.h"

#include <poll.h>

#include "base/system/clock.h"
#include "shm/waits.h"

enum {
    END_MONITORS = 3, /* tried one after the other if they die */
};

/* The number of ended processes whose records are not all on disk. The job may know of an end before the traces do: no
 * more processes live there than here. */
static uint64_t unfinished(const struct job *job)
{
    const struct trace_info *traces = &job->watch.traces;
    uint64_t alive = HASH_COUNT(job->recorder.model.alive);
    return traces->draining + (job->seen_to_end && traces->live > alive ? traces->live - alive : 0);
}

/* Waits for a while until the records of ended processes are on disk. */
static void wait_for_traces(struct job *job)
{
    struct watch *watch = &job->watch;
    uint64_t start = clock_now_ns(), now, advanced = start, least = UINT64_MAX;
    bool flush = job->options->mpi != RUN_MPI_OFF, answered;
    int wait_ms = 1;
    do {
        if (unfinished(job)) { /* mostly they are already coming */
            poll(NULL, 0, wait_ms);
            wait_ms = 2 * wait_ms < END_TRACES_POLL_MS ? 2 * wait_ms : END_TRACES_POLL_MS;
        }
        watch_ask_traces(watch, flush);
        flush = false;
        answered = watch_wait(watch, END_ANSWER_MS);
        now = clock_now_ns();
        if (unfinished(job) < least) {
            least = unfinished(job);
            advanced = now;
        }
    } while (answered && unfinished(job) && now - advanced < END_WAIT_MS * UINT64_C(1000000) &&
             now - start < END_MOST_MS * UINT64_C(1000000));
    if (watch->traces.draining)
        recorder_note(&job->recorder, NOTE(traces_incomplete, .processes = watch->traces.draining,
                                           .seconds = (double)(now - start) / NS_PER_SECOND));
}

/* Has the processes' records brought to disk. If the monitor has died, before or meanwhile, another one does that. */
static void collect_traces(struct job *job)
{
    struct watch *watch = &job->watch;
    struct err err = {0};
    bool again = false;
    for (unsigned monitors = 0; monitors < END_MONITORS; monitors++) {
        if (watch->phase == WATCH_OFF && watch->was_up && watch_connect(watch, &err) == 0) {
            watch->phase = WATCH_IDLE;
            again = true;
        }
        if (watch->phase == WATCH_IDLE)
            wait_for_traces(job);
        if (watch->phase != WATCH_OFF)
            break;
    }
    if (again)
        watch_close(watch); /* it cannot follow an ended job */
}

void watch_end(struct job *job)
{
    struct watch *watch = &job->watch;
    if (watch->phase != WATCH_OFF && watch->phase != WATCH_IDLE)
        watch_wait(watch, END_ANSWER_MS);
    if (job->preload.library[0])
        collect_traces(job);
    uint64_t until = clock_now_ns() + END_WAIT_MS * UINT64_C(1000000);
    uint64_t lost_until = clock_now_ns() + END_LOST_MS * UINT64_C(1000000);
    uint64_t spread_until = clock_now_ns() + END_SPREAD_MS * UINT64_C(1000000);
    while (watch->phase == WATCH_IDLE) { /* again if many ended at once: the kernel reports one after the other */
        watch_tick(watch);
        job->seen_to_end = watch_wait(watch, END_ANSWER_MS);
        bool follows = job->spread && HASH_COUNT(job->recorder.model.alive) && clock_now_ns() < spread_until;
        bool hopeless = watch->lost && clock_now_ns() > lost_until; /* the records of their ends may be lost */
        if (!job->seen_to_end || (!watch->coming && !follows) || hopeless || clock_now_ns() > until)
            break;
        poll(NULL, 0, END_COMING_POLL_MS);
    }
    if (watch->phase == WATCH_IDLE && job->preload.library[0] && job->seen_to_end && !watch->traces.draining)
        wait_for_traces(job); /* for those whose ends were not known before */
}
