/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes a datatype has. Predefined ones never change; sizes of those that the program makes are kept from
 * their commit to their end, because a handle may come again as another type. One that was not seen being committed is
 * only asked for once a call with it has succeeded: asking for an invalid one would call the program's error handler.
 */
#ifndef SCRY_MPI_COUNT_TYPE_H
#define SCRY_MPI_COUNT_TYPE_H

#include "mpi/count/self.h"

#pragma GCC visibility push(hidden)

#define TYPE_UNKNOWN UINT64_MAX

/* The size if it is known without asking for anything uncertain, else TYPE_UNKNOWN. */
uint64_t type_look(struct mpi_self *self, MPI_Datatype type);
/* The size of a valid type. */
uint64_t type_ask(struct mpi_self *self, MPI_Datatype type);

/* After MPI_Init: the predefined ones. */
void type_start(void);
void type_committed(MPI_Datatype type);
void type_freed(uint64_t handle);

ALWAYS uint64_t type_size_known(struct mpi_self *self, MPI_Datatype type)
{
    uint64_t handle = HANDLE_OF(type);
#ifndef OPEN_MPI
    /* MPICH and what has its binary interface write the size of a basic type into the handle. */
    if (LIKELY((handle & UINT64_C(0xffff0000)) == UINT64_C(0x4c000000)))
        return handle >> 8 & 0xff;
#endif
    if (LIKELY(self->last_type == handle && self->type_generation == mpi_hot.type_generation))
        return self->last_size;
    return type_look(self, type);
}

/* Before the call: 0 if the size is not known yet. */
ALWAYS uint64_t type_bytes_of(MPI_Count count, uint64_t size)
{
    return UNLIKELY(size == TYPE_UNKNOWN || count < 0) ? 0 : (uint64_t)count * size;
}

ALWAYS uint64_t type_bytes_before(struct mpi_self *self, MPI_Count count, MPI_Datatype type)
{
    return type_bytes_of(count, type_size_known(self, type));
}

/* After it has succeeded; `size` as it was known before. `count` 0 may come with any type. */
ALWAYS uint64_t type_bytes_after(struct mpi_self *self, MPI_Count count, MPI_Datatype type, uint64_t size)
{
    if (UNLIKELY(size == TYPE_UNKNOWN))
        size = count > 0 ? type_ask(self, type) : 0;
    return (uint64_t)count * size;
}

ALWAYS uint64_t type_bytes(struct mpi_self *self, MPI_Count count, MPI_Datatype type)
{
    return UNLIKELY(count <= 0) ? 0 : type_bytes_after(self, count, type, type_size_known(self, type));
}

#pragma GCC visibility pop

#endif
