/* SPDX-License-Identifier: Apache-2.0 */
/* MPI in the process of the agents that are not there: the registry is the real one, which only looks for the monitor
 * in `struct agents`, first in both. */
#include <sys/mman.h>

#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "monitor/recorder/agent.h"
#include "service/omis/service.h"
#include "service/ct/test_fake_agents.h"

int fake_tells, fake_numbers;
bool fake_mpi_on = true;

enum { RANKS = 16 };
static struct agent ranks[RANKS];
static unsigned rank_count;

/* ---- of the agents' registry ---- */

struct agent *agents_known(struct agents *agents, pid_t pid)
{
    for (unsigned i = 0; i < rank_count; i++)
        if (ranks[i].pid == pid && ranks[i].mpi)
            return &ranks[i];
    return NULL;
}

void agent_mpi_done(struct agent *agent)
{
}

void agent_note(const struct agent *agent)
{
}

void area_file_end(struct agents *agents, struct area_file *file)
{
}

void area_file_leave(struct agents *agents, struct area_file *file)
{
}

/* ---- processes ---- */

void fake_mpi_come(struct monitor *monitor, pid_t pid)
{
    if (!monitor->mpi) {
        mpi_registry_new(&monitor->mpi, monitor->agents);
        lib_call_start(monitor);
    }
    fake_tells = fake_numbers = 0;
    ranks[rank_count] = (struct agent){.agents = monitor->agents, .pid = pid};
    struct mpi_process *process = mpi_process_new(&ranks[rank_count++]);
    process->head = mmap(NULL, sizeof *process->head, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    process->head->on = fake_mpi_on;
    mpi_process_came(process);
}

void fake_mpi_gone(struct monitor *monitor)
{
    while (monitor->mpi && monitor->mpi->list)
        mpi_process_free(monitor->mpi->list);
    mpi_registry_free(monitor->mpi);
    monitor->mpi = NULL;
    rank_count = 0;
}

void mpi_process_want(struct mpi_process *process, uint32_t bit, int change)
{
    fake_tells += bit & MPIA_METRIC_TELL ? change : 0;
    fake_numbers += bit & MPIA_METRIC_MESSAGES ? change : 0;
}

int mpi_process_want_calls(struct mpi_process *process, const uint64_t *calls, int change)
{
    mpi_process_want(process, MPIA_METRIC_TELL, change);
    return 0;
}

/* of monitor/mpi/life.c, which is not played */
void mpi_process_describe(struct agent *agent)
{
}

void mpi_tell_calls(const struct mpi_process *process)
{
}

uint32_t mpi_tell_bits(const struct mpi_process *process)
{
    return 0;
}
