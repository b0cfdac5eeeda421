/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/wrap/wrap.h"

#include <stdlib.h>
#include <string.h>

#include "agent/hooks/mpi_host.h"
#include "agent/system/sys.h"
#include "mpi/count/self.h"
#include "shm/area.h"

/* ---- what hello says ---- */

static void text_copy(char *to, const char *from, size_t size)
{
    size_t length = from ? strnlen(from, size - 1) : 0;
    memcpy(to, from ? from : "", length);
    to[length] = '\0';
}

static const char *first_of(const char *const names[])
{
    for (size_t i = 0; names[i]; i++) {
        const char *value = getenv(names[i]);
        if (value && *value)
            return value;
    }
    return NULL;
}

static int32_t number_of(const char *const names[])
{
    const char *text = first_of(names);
    long value = 0;
    for (; text && *text >= '0' && *text <= '9' && value < INT32_MAX / 10; text++)
        value = value * 10 + (*text - '0');
    return text && !*text ? (int32_t)value : -1;
}

/* What launchers tell the processes that they start. */
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
static const char *const namespace_names[] = {"PMIX_NAMESPACE", "PMI_JOBID", "PMI_ID_NAMESPACE", "SLURM_STEP_ID", NULL};

static void hello_fill(struct hello_mpi *hello, const struct mpi_host *host)
{
    const char *wanted = getenv("SCRY_MPI");
    hello->version = MPIA_AREA_VERSION;
    hello->calls_hash = CALLS_HASH;
    hello->library = host->library;
    hello->hint_rank = number_of(rank_names);
    hello->hint_size = number_of(size_names);
    hello->metrics = wanted && strcmp(wanted, "messages") == 0 ? MPIA_METRIC_MESSAGES : 0;
    text_copy(hello->namespace, first_of(namespace_names), sizeof hello->namespace);
}

/* ---- the area ---- */

static bool take_over(const struct mpi_shared *shared, const struct mpi_host *host)
{
    struct mpi_area *area = shared->area;
    if (shared->size < MPIA_AREA_SIZE || area->magic != MPIA_AREA_MAGIC || area->version != MPIA_AREA_VERSION ||
        area->calls_hash != CALLS_HASH || area->size != MPIA_AREA_SIZE)
        return false;
    area->library = host->library;
    if (host->why_not) {
        text_copy(area->fault, host->why_not, sizeof area->fault);
        atomic_store(&area->state, MPIA_OFF);
        area_ring(shared->bell);
        return false;
    }
    if (!self_start(area, shared->bell))
        return false;
    atomic_store(&area->taken, 1u);
    return true;
}

bool mpi_connect(const struct mpi_host *host)
{
    struct hello_mpi hello;
    struct mpi_shared shared;
    hello_fill(&hello, host);
    if (!host->connect(&hello, &shared))
        return false;
    if (take_over(&shared, host))
        return true;
    sys_call2(SYS_munmap, (long)shared.area, (long)shared.size);
    sys_call2(SYS_munmap, (long)shared.bell, sizeof *shared.bell);
    return false;
}
