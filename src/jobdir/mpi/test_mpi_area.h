/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: an MPI area (shm/mpi_area.h) with a content that is known, as an interposer would have written it. */
#ifndef SCRY_JOBDIR_MPI_TEST_MPI_AREA_H
#define SCRY_JOBDIR_MPI_TEST_MPI_AREA_H

#include "shm/mpi_area.h"

/* What the monitor writes, with a clock of `rate` ticks a second. The memory is zeroed. */
void fake_area_make(void *area, int32_t pid, uint64_t rate);
/* MPI_Init returned at `ticks`, in the thread `tid`, which is block 0. With MPI_COMM_WORLD. */
void fake_area_start(void *area, int32_t rank, int32_t size, uint32_t tid, uint64_t ticks);
struct mpi_thread *fake_area_thread(void *area, uint32_t index, uint32_t tid, uint64_t ticks);

struct fake_call {
    uint32_t call;
    int32_t peer, tag;
    uint64_t bytes, enter, leave, site;
};
void fake_area_enter(void *area, uint32_t thread, const struct fake_call *call);
void fake_area_leave(void *area, uint32_t thread, const struct fake_call *call);
/* Both. */
void fake_area_call(void *area, uint32_t thread, const struct fake_call *call);
void fake_area_request(void *area, uint64_t handle, uint32_t call, int32_t peer, int32_t tag, uint64_t bytes,
                       uint64_t since);
void fake_area_finalize(void *area, uint64_t enter, uint64_t leave);

#endif
