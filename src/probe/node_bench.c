/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relative performance of a node, by three tiny loops, each the best of three runs of about a millisecond in the
 * processor time of this thread (so that a busy node is not called slow). Higher is faster; compare them between nodes
 * only, they are no statement about any program.
 *   integer   million steps/s of a xorshift64* generator: dependent shifts, exclusive ors and a multiplication
 *   floating  million multiply-adds/s in double precision, in four independent chains
 *   memory    MByte/s of copying one half of 8 MByte to the other (a node's last-level cache may hold that); not where
 *             the job, which these 8 MByte are taken from, may soon need them
 */
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/system/clock.h"
#include "probe/memory_room.h"
#include "probe/node_internal.h"

enum { RUNS = 3, INTEGER_STEPS = 400000, FLOATING_STEPS = 250000, HALF_BYTES = 4 << 20, LEAST_LEFT = 256 << 20 };

static double integer_run(char *block)
{
    uint64_t state = 88172645463325252u, sum = 0;
    for (int i = 0; i < INTEGER_STEPS; i++) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        sum += state * UINT64_C(2685821657736338717);
    }
    __asm__ volatile("" : : "r"(sum)); /* used, as far as the compiler knows */
    return INTEGER_STEPS / 1e6;
}

static double floating_run(char *block)
{
    double a = 1.0, b = 1.1, c = 1.2, d = 1.3;
    for (int i = 0; i < FLOATING_STEPS; i++) {
        a = a * 0.999999 + 1e-6;
        b = b * 0.999998 + 2e-6;
        c = c * 0.999997 + 3e-6;
        d = d * 0.999996 + 4e-6;
    }
    volatile double sink = a + b + c + d;
    (void)sink;
    return FLOATING_STEPS * 4 / 1e6;
}

static double memory_run(char *block)
{
    memcpy(block, block + HALF_BYTES, HALF_BYTES);
    __asm__ volatile("" : : "r"(block) : "memory");
    return HALF_BYTES / 1e6;
}

static double best_rate(double (*run)(char *block), char *block)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        double amount = run(block);
        uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        double rate = amount * 1e9 / (double)(took ? took : 1);
        if (rate > best)
            best = rate;
    }
    return (double)(int64_t)(best * 10) / 10; /* more digits would pretend */
}

void node_bench_run(struct node_bench *bench)
{
    if (bench->done)
        return;
    bench->done = true;
    bench->integer = best_rate(integer_run, NULL);
    bench->floating = best_rate(floating_run, NULL);
    bench->memory = -1;
    struct memory_room room;
    memory_room_read(&room);
    if (room.left < LEAST_LEFT)
        return;
    char *block = mmap(NULL, 2 * HALF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (block == MAP_FAILED)
        return;
    memset(block, 1, 2 * HALF_BYTES);
    bench->memory = best_rate(memory_run, block);
    munmap(block, 2 * HALF_BYTES);
}
