/* SPDX-License-Identifier: Apache-2.0 */
/* The area of a process's MPI (shm/mpi_area.h). All of the file has memory before the program gets it; the kernel
 * clears the pages only when they are touched. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"

static int map_head(struct mpi_process *process)
{
    void *page = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, mpi_process_fd(process), 0);
    if (page == MAP_FAILED)
        return -errno;
    process->head = page;
    return 0;
}

static void fill_head(struct mpi_process *process, const struct hello_mpi *hello)
{
    const struct agent *agent = process->agent;
    struct mpi_area *area = process->head;
    area->version = MPIA_AREA_VERSION;
    area->calls_hash = CALLS_HASH;
    area->pid = agent->pid;
    area->size = MPIA_AREA_SIZE;
    area->start_ticks = agent->start_ticks;
    area->serial = agent->files[AREA_MPI].serial;
    memcpy(area->namespace, hello->namespace, sizeof area->namespace);
    mpi_namespace_find(agent->pid, area->namespace, sizeof area->namespace);
    if (!*area->namespace && hello->hint_rank < 0) /* started without a launcher: a job of its own */
        snprintf(area->namespace, sizeof area->namespace, "pid %d", agent->pid);
    area->library = hello->library;
    area->rank = area->world_size = -1;
    atomic_store(&area->bits, (uint32_t)MPIA_BITS_DEFAULT);
    atomic_store(&area->metrics, (uint32_t)MPIA_METRIC_ALL);
    for (size_t i = 0; i < MPI_CALL_WORDS; i++)
        atomic_store(&area->selected[i], UINT64_MAX);
    atomic_store(&area->ticks_per_second, agent->agents->ticks_per_second);
    atomic_store(&area->on, 1u);
    area->magic = MPIA_AREA_MAGIC;
}

static int fill(struct agent *agent, void *ctx)
{
    struct area_file *file = &agent->files[AREA_MPI];
    int code = ftruncate(file->fd, MPIA_AREA_SIZE) < 0 ? -errno : 0;
    if (code == 0)
        code = area_file_reserve(agent->agents, file, 0, MPIA_AREA_SIZE);
    return code < 0 ? code : map_head(ctx);
}

int mpi_area_make(struct mpi_process *process, const struct hello_mpi *hello, struct err *err)
{
    struct agent *agent = process->agent;
    struct agents *agents = agent->agents;
    int code = area_file_make(agent, AREA_MPI, fill, process);
    if (code == -ENOMEM)
        return err_set(
            err, code,
            "no statistics of MPI of pid %d: the limit of memory leaves too little room for them (%d MB); raise "
            "it, or run the job with --mpi off",
            agent->pid, MPIA_AREA_SIZE >> 20);
    if (code < 0)
        return err_errno(err, code,
                         "no room for the statistics of MPI of pid %d in %s: free some, or set "
                         "XDG_RUNTIME_DIR",
                         agent->pid, agents->spill ? agents->spill : agents->rings);
    agent_clock_calibrate(agents);
    fill_head(process, hello);
    return 0;
}

int mpi_area_adopt(struct mpi_process *process, uint64_t size)
{
    int code = size == MPIA_AREA_SIZE ? map_head(process) : -EBADMSG;
    const struct mpi_area *area = process->head;
    if (code < 0)
        return code;
    return area->magic == MPIA_AREA_MAGIC && area->version == MPIA_AREA_VERSION && area->calls_hash == CALLS_HASH
               ? 0
               : -EBADMSG;
}
