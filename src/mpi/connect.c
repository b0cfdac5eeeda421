/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/connect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/mpi_host.h"
#include "agent/proc_text.h"
#include "agent/sys.h"
#include "mpi/self.h"
#include "shm/area.h"

enum {
    FD_AREA = 0,
    FD_BELL,
    FDS,
};

/* ---- what hello says ---- */

static void text_copy(char *to, const char *from, size_t size)
{
    size_t length = from ? strnlen(from, size - 1) : 0;
    memcpy(to, from ? from : "", length);
    to[length] = '\0';
}

/* The start of the process. */
static uint64_t start_ticks(void)
{
    char text[1024];
    proc_text_read(0, "stat", text, sizeof text);
    const char *at = proc_text_stat(text, 22);
    return proc_text_number(&at, 10);
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

static void hello_fill(struct mpi_hello *hello, const struct mpi_host *host)
{
    hello->magic = MPIA_HELLO_MAGIC;
    hello->version = MPIA_AREA_VERSION;
    hello->size = sizeof *hello;
    hello->calls_hash = CALLS_HASH;
    hello->pid = (int32_t)sys_call0(SYS_getpid);
    hello->ppid = (int32_t)sys_call0(SYS_getppid);
    hello->start_ticks = start_ticks();
    hello->library = host->library;
    hello->hint_rank = number_of(rank_names);
    hello->hint_size = number_of(size_names);
    const char *wanted = getenv("SCRY_MPI");
    hello->metrics = wanted && strcmp(wanted, "messages") == 0 ? MPIA_METRIC_MESSAGES : 0;
    text_copy(hello->namespace, first_of(namespace_names), sizeof hello->namespace);
    text_copy(hello->job, host->job, sizeof hello->job);
    long length = sys_call4(SYS_readlink, (long)"/proc/self/exe", (long)hello->exe, sizeof hello->exe - 1, 0);
    hello->exe[length > 0 ? length : 0] = '\0';
}

/* ---- the mappings ---- */

static void *map_shared(int fd, uint64_t size)
{
    struct stat info;
    if (sys_call2(SYS_fstat, fd, (long)&info) < 0 || (uint64_t)info.st_size < size)
        return NULL;
    long at = sys_call6(SYS_mmap, 0, (long)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at < 0 && at > -4096)
        return NULL;
    sys_call4(SYS_madvise, at, (long)size, MADV_DONTFORK, 0);
    return (void *)at;
}

static bool take_over(const int fds[FDS], const struct mpi_host *host)
{
    struct mpi_area *area = map_shared(fds[FD_AREA], MPIA_AREA_SIZE);
    struct doorbell *bell = map_shared(fds[FD_BELL], sizeof *bell);
    bool good = area && bell && area->magic == MPIA_AREA_MAGIC && area->version == MPIA_AREA_VERSION &&
                area->calls_hash == CALLS_HASH && area->size == MPIA_AREA_SIZE && bell->magic == DOORBELL_MAGIC;
    if (good)
        area->library = host->library;
    if (good && host->why_not) {
        text_copy(area->fault, host->why_not, sizeof area->fault);
        atomic_store(&area->state, MPIA_OFF);
        area_ring(bell);
        good = false;
    }
    if (good && self_start(area, bell)) {
        atomic_store(&area->taken, 1u);
        return true;
    }
    if (area)
        sys_call2(SYS_munmap, (long)area, MPIA_AREA_SIZE);
    if (bell)
        sys_call2(SYS_munmap, (long)bell, sizeof *bell);
    return false;
}

bool mpi_connect(const struct mpi_host *host)
{
    static struct mpi_hello hello; /* 8 KB: not on the stack of a thread that happens to call dlopen */
    struct mpi_welcome welcome = {.status = -1};
    int fds[FDS];
    const struct agent_question question = {.socket = host->socket,
                                            .hello = &hello,
                                            .hello_size = sizeof hello,
                                            .welcome = &welcome,
                                            .welcome_size = sizeof welcome,
                                            .fds = fds,
                                            .fd_count = FDS,
                                            .wait = WAIT_HELLO};
    hello_fill(&hello, host);
    bool done = host->ask(&question) == 0 && welcome.magic == MPIA_HELLO_MAGIC &&
                welcome.version == MPIA_AREA_VERSION && welcome.status == 0 && fds[FDS - 1] >= 0 &&
                take_over(fds, host);
    for (int i = 0; i < FDS; i++)
        if (fds[i] >= 0)
            sys_call2(SYS_close, fds[i], 0);
    return done;
}
