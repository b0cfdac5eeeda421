/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An MPI area that a program has written over: 13 bytes each, which part of it, where, and eight bytes that stand there
 * then. Whatever comes out of it holds together, and its files can be read.
 */
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/mpi/test_mpi_area.h"

enum { PATCH = 13, PATCHES = 64, START = 1000000, RATE = 3000000000u };

static uint8_t *area;

/* Everything that can be there is there. */
static void make_area(void)
{
    area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    fuzz_expect(area != MAP_FAILED);
    fake_area_make(area, 77, RATE);
    fake_area_start(area, 0, 4, 77, START);
    fake_area_thread(area, 1, 78, START);
    for (unsigned i = 0; i < 8; i++) {
        uint64_t at = START + 1000 * i;
        fake_area_call(area, i % 2,
                       &(struct fake_call){i % 3 ? CALL_MPI_Send : CALL_MPI_Recv, (int32_t)i % 4, 1, 100 * i, at + 10,
                                           at + 20 + i, 0x401000 + 16 * (i / 2)});
    }
    for (unsigned i = 0; i < 4; i++)
        fake_area_request(area, 0x1000 + i, CALL_MPI_Irecv, MPIA_RANK_ANY, MPIA_TAG_ANY, 64, START + 5000);
    struct mpi_comm *half = mpi_comm_at(area, 1);
    half->size = half->remote_size = 2;
    half->ranks_at = half->remote_at = MPIA_AREA_SIZE - 64;
    atomic_store(&half->kind, (uint32_t)MPIA_COMM_INTER);
    atomic_store(&((struct mpi_area *)(void *)area)->comm_count, 2u);
    fake_area_enter(area, 0, &(struct fake_call){CALL_MPI_Recv, 3, 9, 8, START + 9000, 0, 0x401000});
}

/* Where patches go: mostly to what is in use. */
static uint32_t place(uint8_t part, uint32_t at)
{
    static const struct {
        uint32_t from, size;
    } parts[] = {
        {0, sizeof(struct mpi_area)},
        {MPIA_THREADS_AT, 1024},
        {MPIA_THREADS_AT + MPIA_THREAD_STRIDE, 1024},
        {MPIA_THREADS_AT, MPIA_THREAD_STRIDE},
        {MPIA_COMMS_AT, 4 * sizeof(struct mpi_comm)},
        {MPIA_REQUESTS_AT + 0x1000 * sizeof(struct mpi_request), 8 * sizeof(struct mpi_request)},
        {MPIA_MODULES_AT, 2 * sizeof(struct mpi_module)},
        {MPIA_POOL_AT, 64 << 10},
        {0, MPIA_AREA_SIZE - 8},
    };
    size_t index = part % (sizeof parts / sizeof *parts);
    uint32_t found = parts[index].from + at % parts[index].size;
    return found > MPIA_AREA_SIZE - 8 ? MPIA_AREA_SIZE - 8 : found;
}

static void check_group(const int32_t *ranks, uint32_t size)
{
    for (uint32_t i = 0; ranks && i < size; i++)
        fuzz_expect(ranks[i] >= MPIA_RANK_FOREIGN);
}

static void check_clock(const struct mpi_stats_clock *clock)
{
    fuzz_expect(clock->communicate_ns <= clock->total_ns);
    fuzz_expect(clock->compute_ns == clock->total_ns - clock->communicate_ns);
}

static void check(const struct mpi_stats *stats)
{
    fuzz_expect(stats->state <= MPIA_OFF);
    for (size_t i = 0; i < stats->comm_count; i++) {
        fuzz_expect(stats->comms[i].kind >= MPIA_COMM_INTRA && stats->comms[i].kind <= MPIA_COMM_FILE);
        check_group(stats->comms[i].ranks, stats->comms[i].size);
        check_group(stats->comms[i].remote_ranks, stats->comms[i].remote_size);
    }
    for (size_t i = 0; i < stats->row_count; i++)
        fuzz_expect(stats->rows[i].count && stats->rows[i].call && stats->rows[i].call < CALL_COUNT &&
                    stats->rows[i].min_ns <= stats->rows[i].max_ns);
    for (size_t i = 0; i < stats->site_count; i++)
        fuzz_expect(stats->sites[i].call && stats->sites[i].call < CALL_COUNT);
    for (size_t i = 0; i < stats->peer_count; i++)
        fuzz_expect(stats->peers[i].call < CALL_COUNT &&
                    (stats->peers[i].comm < stats->comm_count || stats->peers[i].comm == UINT32_MAX));
    for (size_t i = 0; i < stats->request_count; i++)
        fuzz_expect(stats->requests[i].call && stats->requests[i].call < CALL_COUNT);
    for (size_t i = 0; i < stats->thread_count; i++) {
        check_clock(&stats->threads[i].outermost);
        check_clock(&stats->threads[i].blocking);
        fuzz_expect(stats->threads[i].now.call < CALL_COUNT);
    }
    for (size_t i = 0; i < stats->distribution_count; i++) {
        const struct mpi_stats_distribution *distribution = &stats->distributions[i];
        for (size_t k = 0; k < distribution->count; k++) {
            const struct mpi_stats_bucket *bucket = &distribution->buckets[k];
            fuzz_expect(bucket->from < bucket->to && bucket->count && (!k || bucket[-1].to <= bucket->from));
        }
    }
}

static void check_file(const struct mpi_stats *stats, struct arena *arena)
{
    struct buf text = BUF_INIT;
    struct mpi_stats back;
    struct err err = {.text = ""};
    mpi_stats_print(stats, &text);
    fuzz_expect(!text.failed && text.data);
    if (mpi_stats_parse(&back, text.data, text.len, arena, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    fuzz_expect(back.row_count == stats->row_count && back.site_count == stats->site_count);
    fuzz_expect(back.peer_count == stats->peer_count && back.comm_count == stats->comm_count);
    fuzz_expect(back.thread_count == stats->thread_count && back.request_count == stats->request_count);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct {
        uint32_t at;
        uint8_t before[8];
    } patches[PATCHES];
    size_t count = 0;
    struct arena arena = ARENA_INIT;
    struct mpi_stats stats;
    if (!area)
        make_area();
    for (; count < PATCHES && size >= PATCH; data += PATCH, size -= PATCH, count++) {
        uint32_t at;
        memcpy(&at, data + 1, sizeof at);
        patches[count].at = place(data[0], at);
        memcpy(patches[count].before, area + patches[count].at, 8);
        memcpy(area + patches[count].at, data + 5, 8);
    }
    if (mpi_stats_take(&stats, area, size & 1 ? 0 : START + 10000, &arena) == 0) {
        check(&stats);
        check_file(&stats, &arena);
    }
    arena_done(&arena);
    while (count--) /* the last one first */
        memcpy(area + patches[count].at, patches[count].before, 8);
    return 0;
}
