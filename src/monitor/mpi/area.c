/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The areas of MPI processes (shm/mpi_area.h) as files mpi-PID-STARTTICKS-SERIAL of the folder of areas
 * (agent_rings.c), each with a small one beside it that says whose it is. All of a file has memory before the program
 * gets it: writing to a mapped page for which a full tmpfs has none left is SIGBUS, and that must never meet a program.
 * The kernel clears the pages only when they are touched.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/log.h"
#include "monitor/engine/monitor.h"
#include "monitor/mpi/internal.h"
#include "probe/proc.h"

static const char PREFIX[] = "mpi-";

static int map_head(struct mpi_process *process)
{
    void *page = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, process->fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    process->head = page;
    return 0;
}

static void fill_head(struct mpi_process *process, const struct mpi_hello *hello)
{
    struct mpi_area *area = process->head;
    area->version = MPIA_AREA_VERSION;
    area->calls_hash = CALLS_HASH;
    area->pid = process->pid;
    area->size = MPIA_AREA_SIZE;
    area->start_ticks = process->start_ticks;
    area->serial = process->serial;
    memcpy(area->namespace, hello->namespace, sizeof area->namespace);
    mpi_namespace_find(process->pid, area->namespace, sizeof area->namespace);
    if (!*area->namespace && hello->hint_rank < 0) /* started without a launcher: a job of its own */
        snprintf(area->namespace, sizeof area->namespace, "pid %d", process->pid);
    area->library = hello->library;
    area->rank = area->world_size = -1;
    atomic_store(&area->bits, (uint32_t)MPIA_BITS_DEFAULT);
    atomic_store(&area->metrics, (uint32_t)MPIA_METRIC_ALL);
    for (size_t i = 0; i < MPI_SELECTED; i++)
        atomic_store(&area->selected[i], UINT64_MAX);
    atomic_store(&area->ticks_per_second, process->registry->agents->ticks_per_second);
    atomic_store(&area->on, 1u);
    area->magic = MPIA_AREA_MAGIC;
}

static int make_in(struct mpi_process *process, bool on_disk)
{
    struct agents *agents = process->registry->agents;
    char name[80];
    snprintf(name, sizeof name, "%s%d-%" PRIu64 "-%" PRIu64, PREFIX, process->pid, process->start_ticks,
             process->serial);
    process->fd = agent_rings_make(agents, on_disk, name, &process->path);
    if (process->fd < 0)
        return process->fd;
    if (agents->spill && !on_disk && !memory_dir_has_room(&agents->memory, MPIA_AREA_SIZE))
        return -ENOSPC;
    int code = ftruncate(process->fd, MPIA_AREA_SIZE) < 0 ? -errno : 0;
    if (code == 0 && fallocate(process->fd, 0, 0, MPIA_AREA_SIZE) < 0)
        code = errno == EOPNOTSUPP ? 0 : -errno; /* such a file system has no holes to fall into */
    return code < 0 ? code : map_head(process);
}

static void remove_files(const struct mpi_process *process)
{
    if (!process->path || !file_is_at(process->path, process->fd))
        return;
    unlink(process->path);
    agent_sidecar_remove(process->path);
}

int mpi_area_make(struct mpi_process *process, const struct mpi_hello *hello, struct err *err)
{
    struct agents *agents = process->registry->agents;
    process->serial = ++agents->last_serial;
    if (!agents_memory_take(agents, MPIA_AREA_SIZE))
        return err_set(
            err, -ENOMEM,
            "no statistics of MPI of pid %d: the limit of memory leaves too little room for them (%d MB); raise "
            "it, or run the job with --mpi off",
            process->pid, MPIA_AREA_SIZE >> 20);
    process->memory_taken = MPIA_AREA_SIZE;
    int code = make_in(process, false);
    if (code < 0 && agents->spill) {
        remove_files(process);
        mpi_area_close(process);
        free(process->path);
        process->path = NULL;
        code = make_in(process, true);
    }
    if (code < 0)
        return err_errno(err, code,
                         "no room for the statistics of MPI of pid %d in %s: free some, or set "
                         "XDG_RUNTIME_DIR",
                         process->pid, agents->spill ? agents->spill : agents->rings);
    agent_clock_calibrate(agents);
    fill_head(process, hello);
    return 0;
}

void mpi_area_note(const struct mpi_process *process)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    buf_printf(&text, "%s\n%s\n%" PRId32 " %" PRId32 " %" PRId32 "\n", process->job ? process->job->dir : "",
               process->exe, process->incarnation, process->hint_rank, process->hint_size);
    if (file_is_at(process->path, process->fd)) /* else nobody finds it any more */
        agent_sidecar_write(process->path, &text);
}

void mpi_area_remove(struct mpi_process *process)
{
    remove_files(process);
    process->registry->agents->memory_taken -= process->memory_taken;
    process->memory_taken = 0;
}

void mpi_area_close(struct mpi_process *process)
{
    if (process->head)
        munmap(process->head, AREA_PAGE);
    if (process->fd >= 0)
        close(process->fd);
    process->head = NULL;
    process->fd = -1;
}

/* ---- those of a monitor before this one ---- */

static int take_over(struct mpi_process *process, const char *path)
{
    uint64_t size;
    int code = agent_area_open(path, &process->path, &process->fd, &size);
    if (code == 0) {
        process->memory_taken = MPIA_AREA_SIZE;
        process->registry->agents->memory_taken += MPIA_AREA_SIZE;
        code = size == MPIA_AREA_SIZE ? map_head(process) : -EBADMSG;
    }
    if (code < 0)
        return code;
    const struct mpi_area *area = process->head;
    return area->magic == MPIA_AREA_MAGIC && area->version == MPIA_AREA_VERSION && area->calls_hash == CALLS_HASH
               ? 0
               : -EBADMSG;
}

/* The file may have been replaced meanwhile. */
bool mpi_same_exe(const struct mpi_process *process, const char *exe)
{
    static const char deleted[] = " (deleted)";
    size_t len = strlen(process->exe);
    return strncmp(exe, process->exe, len) == 0 && (!exe[len] || strcmp(exe + len, deleted) == 0);
}

/* Whether that process still runs that program. */
static bool is_there(const struct mpi_process *process)
{
    struct proc_stat now;
    char exe[PATH_MAX];
    if (process->pid <= 0 || proc_stat_read(process->pid, 0, &now) < 0 || now.start_ticks != process->start_ticks ||
        now.state == 'Z')
        return false;
    return proc_exe(process->pid, exe, sizeof exe) < 0 || mpi_same_exe(process, exe);
}

struct adoption {
    struct mpi_registry *registry;
    int (*fn)(struct mpi_process *process, const char *job);
};

static void adopt(void *ctx, const char *folder, const char *name)
{
    const struct adoption *adoption = ctx;
    struct mpi_registry *registry = adoption->registry;
    char path[PATH_MAX], text[SIDECAR_LIMIT];
    char *lines[SIDECAR_LINES]; /* job directory, program, three numbers */
    int pid, end = 0;
    uint64_t ticks, serial;
    const char *numbers = name + strlen(PREFIX);
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        sscanf(numbers, "%d-%" SCNu64 "-%" SCNu64 "%n", &pid, &ticks, &serial, &end) != 3 || numbers[end])
        return;
    if (serial > registry->agents->last_serial)
        registry->agents->last_serial = serial;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    bool whole = agent_sidecar_read(path, text, lines);
    struct mpi_process *process = whole ? mpi_process_new(registry, pid, lines[1]) : NULL;
    if (process) {
        process->start_ticks = ticks;
        process->serial = serial;
        process->ended = !is_there(process);
    }
    bool known = process && sscanf(lines[2], "%" SCNd32 " %" SCNd32 " %" SCNd32, &process->incarnation,
                                   &process->hint_rank, &process->hint_size) == 3;
    if (known && take_over(process, path) == 0 && adoption->fn(process, lines[0]) == 0)
        return;
    log_warning("the statistics of MPI in %s cannot be read: removed", path);
    unlink(path);
    agent_sidecar_remove(path);
    if (process)
        mpi_process_free(process);
}

void mpi_area_adopt_all(struct mpi_registry *registry, int (*fn)(struct mpi_process *process, const char *job))
{
    struct adoption adoption = {registry, fn};
    agent_rings_each(registry->agents, adopt, &adoption);
}
