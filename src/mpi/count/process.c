/* SPDX-License-Identifier: Apache-2.0 */
/* What happens once in a process, and what the program says about counting: MPI_Init, MPI_Finalize, MPI_Pcontrol. */
#include <errno.h>
#include <time.h>

#include "mpi/count/comm.h"
#include "mpi/count/self.h"
#include "mpi/count/type.h"
#include "shm/area.h"

static void ring(void)
{
    int error = errno;
    if (mpi_hot.bell)
        area_ring(mpi_hot.bell);
    errno = error;
}

void self_note_running(void)
{
    int initialized = 0, finalized = 0;
    if (mpi_library.Initialized(&initialized) == MPI_SUCCESS && mpi_library.Finalized(&finalized) == MPI_SUCCESS &&
        initialized && !finalized)
        mpi_hot.area->late = 1;
}

void self_init_enter(struct mpi_self *self)
{
    mpi_hot.area->init_enter = ticks_now();
}

static void names_get(struct mpi_area *area)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING > MPI_MAX_PROCESSOR_NAME ? MPI_MAX_LIBRARY_VERSION_STRING
                                                                      : MPI_MAX_PROCESSOR_NAME];
    int length = 0;
    if (mpi_library.Get_processor_name(text, &length) == MPI_SUCCESS)
        for (int i = 0; i < length && i < (int)sizeof area->processor - 1; i++)
            area->processor[i] = text[i];
    if (mpi_library.Get_library_version(text, &length) == MPI_SUCCESS)
        for (int i = 0; i < length && i < (int)sizeof area->version_text - 1 && text[i] != '\n'; i++)
            area->version_text[i] = text[i] == '\t' ? ' ' : text[i];
}

void self_init_return(struct mpi_self *self, bool succeeded)
{
    struct mpi_area *area = mpi_hot.area;
    if (!succeeded || !area || atomic_load(&area->state) != MPIA_LOADED)
        return;
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    uint64_t now = self->counts ? self->leave : ticks_now();
    area->init_wall_ns = (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec;
    int level = 0;
    if (mpi_library.Query_thread(&level) == MPI_SUCCESS)
        area->thread_level = level == MPI_THREAD_SINGLE       ? 0
                             : level == MPI_THREAD_FUNNELED   ? 1
                             : level == MPI_THREAD_SERIALIZED ? 2
                                                              : 3;
    mpi_hot.threads_multiple = area->thread_level == 3;
    comm_start();
    type_start();
    names_get(area);
    area->init_return = now;
    self->thread->is_main = 1;
    atomic_store(&area->state, MPIA_RUNNING);
    if (self->counts && self->metrics & MPIA_METRIC_CLOCKS)
        self_clocks_switch(self, true, now);
    ring();
}

void self_finalize_enter(struct mpi_self *self)
{
    struct mpi_area *area = mpi_hot.area;
    uint64_t now = self->enter; /* as of what it is in */
    if (self->clock_runs)
        self_clocks_switch(self, false, now);
    self->timed = self->fast = false;
    places_forget(self);
    area->finalize_enter = now;
    if (self_listener)
        self_listener->ends();
    atomic_store(&area->state, MPIA_ENDED);
    comm_end();
}

void self_finalize_return(struct mpi_self *self)
{
    if (!mpi_hot.area)
        return;
    mpi_hot.area->finalize_return = ticks_now();
    ring();
}

/* The levels of mpiP. */
void self_pcontrol(struct mpi_self *self, int level)
{
    struct mpi_area *area = mpi_hot.area;
    if (!area)
        return;
    switch (level) {
    case 0:
        atomic_store(&area->pcontrol, 1);
        self_left(self);
        self->fast = false;
        places_forget(self);
        if (self->clock_runs)
            self_clocks_switch(self, false, self->leave);
        break;
    case 1:
        atomic_store(&area->pcontrol, 0);
        if (self->paused && !self->clock_runs && atomic_load(&area->on) && atomic_load(&area->state) == MPIA_RUNNING &&
            atomic_load(&area->metrics) & MPIA_METRIC_CLOCKS)
            self_clocks_switch(self, true, ticks_now());
        break;
    case 2:
        atomic_store(&area->reset_at, ticks_now());
        atomic_fetch_add(&area->reset, 1);
        break;
    case 3:
    case 4:
        atomic_fetch_add(&area->reports, 1);
        ring();
        break;
    default: /* of no meaning here */
        break;
    }
}

void self_abort(int code)
{
    struct mpi_area *area = mpi_hot.area;
    if (!area)
        return;
    area->abort_code = code;
    atomic_store(&area->aborted, 1);
    ring();
}
