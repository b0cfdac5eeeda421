/* SPDX-License-Identifier: Apache-2.0 */
/* Which MPI processes tell of their calls: those whose job traces MPI, and those that somebody wants to hear of. */
#include <errno.h>
#include <stdlib.h>

#include "monitor/recorder/agent_mpi.h"
#include "monitor/mpi/internal.h"

static bool is_traced(const struct mpi_process *process)
{
    const struct trace_job *job = mpi_job(process);
    return job && job->settings.mpi == TRACE_MPI_TRACE;
}

uint32_t mpi_tell_bits(const struct mpi_process *process)
{
    const struct trace_settings *settings = mpi_job(process) ? &mpi_job(process)->settings : NULL;
    bool numbered = settings && (settings->mpi == TRACE_MPI_MESSAGES || settings->mpi_metrics & MPIA_METRIC_MESSAGES);
    return (is_traced(process) || process->tell_wishes > 0 ? MPIA_METRIC_TELL : 0u) |
           (numbered || process->message_wishes > 0 ? MPIA_METRIC_MESSAGES : 0u);
}

void mpi_tell_calls(const struct mpi_process *process)
{
    /* whoever wants calls of a process without saying which wants them all */
    bool all = is_traced(process) || process->tell_wishes > process->call_requests || !process->call_wishes;
    for (uint32_t word = 0; word < MPI_CALL_WORDS; word++) {
        uint64_t told = all ? UINT64_MAX : 0;
        for (uint32_t call = word * 64; !all && call < CALL_COUNT && call < word * 64 + 64; call++)
            told |= (uint64_t)(process->call_wishes[call] > 0) << call % 64;
        atomic_store(&process->head->untold[word], ~told);
    }
}

void mpi_process_want(struct mpi_process *process, uint32_t bit, int change)
{
    if (bit & MPIA_METRIC_TELL)
        process->tell_wishes += change;
    if (bit & MPIA_METRIC_MESSAGES)
        process->message_wishes += change;
    if (process->agent->ended || !process->head)
        return;
    mpi_tell_calls(process);
    const uint32_t ours = MPIA_METRIC_TELL | MPIA_METRIC_MESSAGES;
    uint32_t metrics = atomic_load(&process->head->metrics);
    atomic_store(&process->head->metrics, (metrics & ~ours) | mpi_tell_bits(process));
}

int mpi_process_want_calls(struct mpi_process *process, const uint64_t *calls, int change)
{
    if (!process->call_wishes && !(process->call_wishes = calloc(CALL_COUNT, sizeof *process->call_wishes)))
        return -ENOMEM;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (calls[call / 64] >> call % 64 & 1)
            process->call_wishes[call] = (uint16_t)(process->call_wishes[call] + change);
    process->call_requests += change;
    mpi_process_want(process, MPIA_METRIC_TELL, change);
    return 0;
}
