/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, traced processes and helpers, for the monitor's state (monitor/engine/monitor.h). */
#include "base/system/log.h"
#include "monitor/recorder/agents_internal.h"
#include "monitor/engine/monitor.h"

static unsigned long long number(uint64_t value)
{
    return value;
}

static void print_job(const struct agents *agents, const struct trace_job *job, struct buf *out)
{
    unsigned living = 0, draining = 0;
    uint64_t records = job->events, discarded = job->discarded;
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->job != job)
            continue;
        living += !agent->ended;
        draining += agent_drains(agent);
        records += agent->events;
        discarded += agent->discarded;
    }
    buf_printf(out,
               "job dir=%s followed=%d traced=%u draining=%u hooked=%d unhooked_programs=%zu records=%llu "
               "discarded=%llu limited=%d refused=%u late=%u mpi_no_room=%u unreachable=%d",
               LOG_TEXT(job->dir), !job->ended, living, draining, job->hooked, job->noted_count, number(records),
               number(discarded), job->limited, job->refused, job->late, job->mpi_no_room, job->unreachable);
    if (job->refused)
        buf_printf(out, " refused_why=%s", LOG_TEXT(job->refused_why));
    buf_printf(out, " problem=%s\n", note_name(job->problem.note.kind));
}

static void print_agent(const struct agent *agent, struct buf *out)
{
    buf_printf(out,
               "agent pid=%d state=%s job=%s area_bytes=%llu packets=%u records=%llu discarded=%llu skipped=%llu "
               "damaged=%llu held=%d compiling=%d program=%s problem=%s\n",
               agent->pid,
               agent->ended     ? "draining"
               : agent->adopted ? "adopted"
                                : "traced",
               LOG_TEXT(agent->job ? agent->job->dir : ""), number(agent->files[AREA_FUNCTIONS].memory_taken),
               agent->released, number(agent->events), number(agent->discarded), number(agent->skipped),
               number(agent->damaged), agent->hold_timer != NULL, agent_compiling(agent), LOG_TEXT(agent->exe),
               note_name(agent->problem.note.kind));
}

void agents_state_print(void *ctx, struct buf *out)
{
    const struct agents *agents = ctx;
    unsigned traced = 0, ranks = 0;
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        traced += agent->view.area != NULL;
        ranks += agent->mpi != NULL;
    }
    buf_printf(out,
               "agents traced=%u ranks=%u hellos_waiting=%u areas=%s area_bytes=%llu area_bytes_left=%llu "
               "collect_ms=%llu\n",
               traced, ranks, agents->connection_count, LOG_TEXT(agents->rings), number(agents->memory_taken),
               number(agents->memory_left), number(agents->timer_ns / 1000000));
    buf_printf(out, "helpers running=%u waiting=%u started=%llu failed=%llu missing=%d\n", agents->helpers_running,
               helpers_waiting(agents), number(agents->helpers_started), number(agents->helpers_failed),
               agents->helper_missing);
    for (const struct trace_job *job = agents->jobs; job; job = job->hh.next)
        print_job(agents, job, out);
    for (const struct agent *agent = agents->list; agent; agent = agent->next) {
        if (agent->view.area)
            print_agent(agent, out);
        if (agent->mpi)
            agents->mpi->state_print(agent, out);
    }
}
