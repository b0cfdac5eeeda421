/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/type.h"

enum { SLOTS = 2048, PROBES = 16 };

/* Types that are predefined, and those of the program, by their handles; a size is valid while the handle stands there.
 */
static struct {
    _Atomic uint64_t handle; /* 0: never used, 1: was used, 2: is being written */
    uint64_t size;
} types[SLOTS];

static uint32_t slot_of(uint64_t handle, uint32_t probe)
{
    return ((uint32_t)(handle * UINT64_C(0x9e3779b97f4a7c15) >> 40) + probe) & (SLOTS - 1);
}

static uint64_t ask(MPI_Datatype type)
{
    MPI_Count size = 0;
    return mpi_library.Type_size_x(type, &size) == MPI_SUCCESS && size > 0 ? (uint64_t)size : 0;
}

static uint64_t cache(struct mpi_self *self, uint64_t handle, uint64_t size)
{
    if (self->type_generation != mpi_hot.type_generation) {
        for (uint32_t i = 0; i < SELF_TYPES; i++)
            self->types[i].handle = 0;
        self->type_generation = mpi_hot.type_generation;
    }
    uint32_t at = (uint32_t)(handle >> 9 ^ handle >> 4) & (SELF_TYPES - 1);
    self->types[at].handle = handle;
    self->types[at].size = size;
    self->last_type = handle;
    self->last_size = size;
    return size;
}

uint64_t type_look(struct mpi_self *self, MPI_Datatype type)
{
    uint64_t handle = HANDLE_OF(type);
    if (!mpi_hot.area || handle <= 2 || handle == HANDLE_OF(mpi_library.datatype_null))
        return 0;
    uint32_t cached = (uint32_t)(handle >> 9 ^ handle >> 4) & (SELF_TYPES - 1);
    if (self->types[cached].handle == handle && self->type_generation == mpi_hot.type_generation) {
        self->last_type = handle;
        return self->last_size = self->types[cached].size;
    }
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = slot_of(handle, i);
        if (atomic_load_explicit(&types[at].handle, memory_order_acquire) == handle)
            return cache(self, handle, types[at].size);
    }
    return TYPE_UNKNOWN;
}

uint64_t type_ask(struct mpi_self *self, MPI_Datatype type)
{
    uint64_t handle = HANDLE_OF(type);
    return !mpi_hot.area || handle == HANDLE_OF(mpi_library.datatype_null) ? 0 : ask(type);
}

void type_freed(uint64_t handle)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = slot_of(handle, i);
        uint64_t there = handle;
        if (atomic_compare_exchange_strong(&types[at].handle, &there, 1))
            break;
    }
    __atomic_fetch_add(&mpi_hot.type_generation, 1, __ATOMIC_RELEASE);
}

void type_committed(MPI_Datatype type)
{
    uint64_t handle = HANDLE_OF(type);
    if (!mpi_hot.area)
        return;
    type_freed(handle); /* out of our sight */
    for (uint32_t i = 0; i < PROBES; i++) {
        uint32_t at = slot_of(handle, i);
        uint64_t there = atomic_load(&types[at].handle);
        if (there <= 1 && atomic_compare_exchange_strong(&types[at].handle, &there, 2)) {
            types[at].size = ask(type);
            atomic_store_explicit(&types[at].handle, handle, memory_order_release);
            break;
        }
    }
}

void type_start(void)
{
    for (uint32_t i = 0; i < mpi_library.type_count; i++)
        type_committed(mpi_library.types[i]);
}
