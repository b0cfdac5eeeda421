/* SPDX-License-Identifier: Apache-2.0 */
#include "monitor/mpi/test_fake_interposer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "jobdir/mpi/test_mpi_area.h"
#include "monitor/recorder/test_area_fixture.h"
#include "shm/area.h"

struct fake {
    uint8_t *area;
    struct doorbell *bell;
};

static uint64_t image = 1;

static size_t fill_hello(struct agent_hello *hello)
{
    size_t size = hello_fill(hello, AGENT_COUNTS_MPI, NULL);
    hello->image = image;
    hello->mpi = (struct hello_mpi){.version = MPIA_AREA_VERSION,
                                    .calls_hash = CALLS_HASH,
                                    .library = MPIA_LIBRARY_MPICH,
                                    .hint_rank = 1,
                                    .hint_size = 2};
    strcpy(hello->mpi.namespace, "some job");
    return size;
}

/* The status of the answer; its descriptors, or -1. */
static int greet(const struct agent_hello *hello, size_t size, int ret_fds[3])
{
    struct agent_welcome welcome;
    int fd = hello_dial();
    ret_fds[0] = ret_fds[1] = ret_fds[2] = -1;
    if (fd < 0 || send(fd, hello, size, 0) != (ssize_t)size || !hello_hear(fd, &welcome, sizeof welcome, ret_fds, 3))
        return 1;
    close(fd);
    return welcome.status;
}

static bool fake_connect(struct fake *fake)
{
    static struct agent_hello hello;
    int fds[3];
    struct stat st;
    size_t size = fill_hello(&hello);
    if (greet(&hello, size, fds) != 0 || fstat(fds[0], &st) < 0 || st.st_size != MPIA_AREA_SIZE ||
        st.st_blocks * 512 < MPIA_AREA_SIZE)
        return false;
    void *area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    void *bell = mmap(NULL, AREA_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    close(fds[0]);
    close(fds[1]);
    close(fds[2]);
    if (area == MAP_FAILED || bell == MAP_FAILED)
        return false;
    fake->area = area;
    fake->bell = bell;
    atomic_store(&((struct mpi_area *)area)->taken, 1u);
    return true;
}

/* What must be refused. */
static bool fake_refused(void)
{
    static struct agent_hello hello;
    int fds[3];
    bool ok = true;
    for (unsigned i = 0; i < 4; i++) {
        size_t size = fill_hello(&hello);
        if (i == 0)
            hello.mpi.version++;
        else if (i == 1)
            hello.mpi.calls_hash++;
        else if (i == 2)
            memset(hello.mpi.namespace, 'x', sizeof hello.mpi.namespace);
        else
            hello.mpi.library = 7;
        ok = greet(&hello, size, fds) == -EPROTO && fds[0] == -1 && ok;
    }
    return ok;
}

static bool fake_without_memory(void)
{
    static struct agent_hello hello;
    int fds[3];
    size_t size = fill_hello(&hello);
    return greet(&hello, size, fds) == -ENOMEM && fds[0] == -1;
}

static bool fake_functions(void)
{
    static struct agent_hello hello;
    int fds[3];
    size_t size = fill_hello(&hello);
    hello.flags = AGENT_HAS_HOOKS;
    return greet(&hello, size, fds) == 0 && fds[2] >= 0 && close(fds[0]) + close(fds[1]) + close(fds[2]) == 0;
}

static bool fake_say(uint32_t flags)
{
    static struct agent_hello hello;
    size_t size = fill_hello(&hello);
    hello.flags = flags;
    int fd = hello_dial();
    bool sent = send(fd, &hello, size, 0) == (ssize_t)size;
    close(fd);
    return sent;
}

static void fake_recv(const struct fake *fake, unsigned count, uint64_t bytes)
{
    for (unsigned i = 0; i < count; i++) {
        struct fake_call call = {CALL_MPI_Recv, 0, 5, bytes, __rdtsc(), 0, FAKE_SITE};
        fake_area_enter(fake->area, 0, &call);
        call.leave = __rdtsc();
        fake_area_leave(fake->area, 0, &call);
    }
}

static bool fake_serve(void *ctx, const struct child_command *command)
{
    struct fake *fake = ctx;
    struct mpi_area *head = (void *)fake->area;
    switch (command->letter) {
    case 'c':
        return fake_connect(fake);
    case 'l': /* too late: it had gone on without */
        if (!fake_connect(fake))
            return false;
        atomic_store(&((struct mpi_area *)fake->area)->taken, 0u);
        return true;
    case 'r':
        return fake_refused();
    case 'm':
        return fake_without_memory();
    case 'i':
        fake_area_start(fake->area, 1, 2, (uint32_t)getpid(), __rdtsc());
        area_ring(fake->bell);
        return true;
    case 'n':
        fake_recv(fake, command->number, 100);
        return true;
    case 'e': { /* and stays there */
        struct fake_call call = {CALL_MPI_Recv, 0, 5, 100, __rdtsc(), 0, FAKE_SITE};
        fake_area_enter(fake->area, 0, &call);
        return true;
    }
    case 'p':
        atomic_fetch_add(&head->reports, 1);
        area_ring(fake->bell);
        return true;
    case 'o': /* how it was set */
        return atomic_load(&head->on) == (command->number & 1) && atomic_load(&head->bits) == command->number >> 1;
    case 'd':
        return (atomic_load(&head->metrics) & (MPIA_METRIC_POKE - 1)) == command->number &&
               atomic_load(&head->selected[CALL_MPI_Recv / 64]) ==
                   (UINT64_C(1) << CALL_MPI_Recv % 64 |
                    (CALL_MPI_Recv / 64 == CALL_MPI_Send / 64 ? UINT64_C(1) << CALL_MPI_Send % 64 : 0));
    case 'z':
        return atomic_load(&head->reset) == command->number;
    case 'g': /* garbage over all that the monitor reads, but for what makes it an area */
        for (size_t i = 512; i < MPIA_AREA_SIZE; i++)
            fake->area[i] = (uint8_t)(i * 2654435761u >> 11);
        area_ring(fake->bell);
        return true;
    case 'a': /* as an agent without hooks, of this program or of another one */
        image += command->number;
        return fake_say(0);
    case 'x': /* it found no room for the descriptors */
        return fake_say(AGENT_COUNTS_MPI | AGENT_NO_FILES);
    case 'f': /* its functions are to be traced, too */
        return fake_functions();
    case 'y': /* but it found no room for their area */
        return fake_say(AGENT_HAS_HOOKS | AGENT_NO_ROOM);
    case 'q':
        fake_area_finalize(fake->area, __rdtsc(), __rdtsc());
        _exit(0);
    }
    return true;
}

void fake_interposer(int fd)
{
    struct fake fake = {NULL, NULL};
    child_serve(fd, fake_serve, &fake);
}
