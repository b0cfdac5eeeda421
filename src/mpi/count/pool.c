/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/count/pool.h"

uint32_t pool_take(uint64_t size)
{
    struct mpi_area *area = mpi_hot.area;
    size = MPIA_ALIGN(size, 64);
    uint64_t used = atomic_load_explicit(&area->pool_used, memory_order_relaxed);
    do {
        if (used > MPIA_AREA_SIZE - MPIA_POOL_AT || size > MPIA_AREA_SIZE - MPIA_POOL_AT - used) {
            atomic_fetch_add(&area->pool_refused, size);
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&area->pool_used, &used, used + size));
    return (uint32_t)(MPIA_POOL_AT + used);
}

uint32_t histogram_bits(void)
{
    uint32_t bits = atomic_load_explicit(&mpi_hot.area->bits, memory_order_relaxed);
    return bits == 0 ? MPIA_BITS_DEFAULT : bits > MPIA_BITS_MOST ? MPIA_BITS_MOST : bits;
}

void COLD histogram_make(const struct mpi_self *self, uint32_t *at)
{
    uint32_t bits = self->bits, count = mpi_bucket_count(bits);
    uint32_t made = pool_take(sizeof(struct mpi_histogram) + count * sizeof(uint64_t));
    if (made) {
        struct mpi_histogram *histogram = pool_at(made);
        histogram->bits = bits;
        histogram->bucket_count = count;
    }
    /* of the threads that share a block one makes it; what another one has taken meanwhile stays unused */
    uint32_t none = 0;
    __atomic_compare_exchange_n(at, &none, made ? made : POOL_REFUSED, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

uint32_t histogram_clear(const struct mpi_self *self, uint32_t at)
{
    if (at <= POOL_REFUSED)
        return at;
    struct mpi_histogram *histogram = pool_at(at);
    if (histogram->bits != self->bits)
        return 0;
    histogram->total = 0;
    for (uint32_t i = 0; i < histogram->bucket_count; i++)
        histogram->buckets[i] = 0;
    return at;
}
