/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/test/test_count.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>

#include "mpi/count/library.h"
#include "mpi/count/self.h"

struct mpi_area *area;
int count_failures;

/* bind.c's, which is not linked here */
void *mpi_real[CALL_COUNT][MPI_KINDS];

static void *find(void *handle, const char *name)
{
    return dlsym(handle, name);
}

void count_start(void)
{
    area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || !mpi_library_start(RTLD_DEFAULT, find)) {
        fprintf(stderr, "no area, or not the whole of MPI\n");
        exit(2);
    }
    madvise(area, MPIA_AREA_SIZE, MADV_DONTFORK);
    area->magic = MPIA_AREA_MAGIC;
    area->version = MPIA_AREA_VERSION;
    atomic_store(&area->on, 1);
    atomic_store(&area->metrics, MPIA_METRIC_ALL);
    atomic_store(&area->bits, MPIA_BITS_DEFAULT);
    for (size_t i = 0; i < sizeof area->selected / sizeof *area->selected; i++)
        atomic_store(&area->selected[i], UINT64_MAX);
    for (uint32_t i = 1; i < CALL_COUNT; i++) {
        char name[96];
        snprintf(name, sizeof name, "P%s", call_infos[i].name);
        mpi_real[i][0] = mpi_real[i][1] = dlsym(RTLD_DEFAULT, name);
    }
    if (!self_start(area, NULL)) {
        fprintf(stderr, "self_start\n");
        exit(2);
    }
}

void count_failed(const char *file, int line, const char *what, long long got, long long expected)
{
    fprintf(stderr, "rank %d: %s:%d: %s (%lld, %lld)\n", area->rank, file, line, what, got, expected);
    count_failures++;
}

int count_end(void)
{
    return count_failures ? 1 : 0;
}

/* ---- what the area says ---- */

static struct mpi_row sum(uint32_t call, bool spans)
{
    struct mpi_row all = {0};
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = mpi_thread_at(area, i);
        const struct mpi_row *row = spans ? &thread->spans[call] : &thread->rows[call];
        all.count += row->count;
        all.ticks += row->ticks;
        all.min = row->min && (!all.min || row->min < all.min) ? row->min : all.min;
        all.max = row->max > all.max ? row->max : all.max;
        all.args_bytes += row->args_bytes;
        all.sent_bytes += row->sent_bytes;
        all.got_bytes += row->got_bytes;
        all.ticks_at = row->ticks_at ? row->ticks_at : all.ticks_at;
        all.bytes_at = row->bytes_at ? row->bytes_at : all.bytes_at;
    }
    return all;
}

struct mpi_row count_row(uint32_t call)
{
    return sum(call, false);
}

struct mpi_row count_span(uint32_t call)
{
    return sum(call, true);
}

struct mpi_peer count_peer(uint32_t comm, int32_t peer, uint32_t call)
{
    struct mpi_peer all = {.comm = comm, .peer = peer, .call = call};
    for (uint32_t i = 0; i < MPIA_THREADS; i++) {
        const struct mpi_thread *thread = mpi_thread_at(area, i);
        const struct mpi_peer *rows =
            mpi_pool_at(area, thread->peers_at, (thread->peers_mask + 1) * sizeof(struct mpi_peer));
        for (uint32_t k = 0; thread->peers_at && k <= thread->peers_mask; k++) {
            if (!rows[k].used || rows[k].peer != peer || rows[k].call != call ||
                (comm != UINT32_MAX && rows[k].comm != comm))
                continue;
            all.used = 1;
            all.sent_count += rows[k].sent_count;
            all.sent_bytes += rows[k].sent_bytes;
            all.got_count += rows[k].got_count;
            all.got_bytes += rows[k].got_bytes;
            all.args_bytes += rows[k].args_bytes;
        }
    }
    return all;
}

uint32_t count_pending(void)
{
    uint32_t pending = 0;
    for (uint32_t i = 0; i < MPIA_REQUESTS; i++) {
        const struct mpi_request *request = mpi_request_at(area, i);
        pending += atomic_load(&request->handle) > 1 && atomic_load(&request->call) != CALL_NONE &&
                   !(request->flags & (MPIA_REQUEST_INACTIVE | MPIA_REQUEST_FREED));
    }
    return pending;
}

uint32_t count_comm_number(const char *name)
{
    for (uint32_t i = 0; i < atomic_load(&area->comm_count); i++)
        if (strcmp(mpi_comm_at(area, i)->name, name) == 0)
            return i;
    return UINT32_MAX;
}

const struct mpi_comm *count_comm(const char *name)
{
    static const struct mpi_comm none;
    uint32_t number = count_comm_number(name);
    return number == UINT32_MAX ? &none : mpi_comm_at(area, number);
}

uint64_t count_histogram(uint32_t at, uint64_t *ret_total)
{
    const struct mpi_histogram *histogram = mpi_pool_at(area, at, sizeof *histogram);
    uint64_t count = 0;
    *ret_total = histogram ? histogram->total : 0;
    for (uint32_t i = 0; histogram && i < histogram->bucket_count; i++)
        count += histogram->buckets[i];
    return count;
}

uint64_t count_rows(bool blocking)
{
    uint64_t ticks = 0;
    for (uint32_t call = 1; call < CALL_COUNT; call++)
        if (!mpi_call_is_untimed(call) && (!blocking || call_infos[call].blocking))
            ticks += mpi_thread_at(area, 0)->rows[call].ticks;
    return ticks;
}

void count_reset(void)
{
    atomic_fetch_add(&area->reset, 1);
}
