/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of MPI: out of an area whose content is known, to files and back, and from bytes that are not ours. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/dirs.h"
#include "jobdir/mpi/stats.h"
#include "jobdir/mpi/test_mpi_area.h"
#include "jobdir/mpi/text.h"

enum { RATE = 2000000000 /* two ticks a nanosecond */, START = 1000000, SITE = 0x401000 };

static void *area;
static struct arena arena;
static char dir[64];

static int start(void **state)
{
    area = mmap(NULL, MPIA_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    strcpy(dir, "/tmp/scry-mpi-stats-XXXXXX");
    if (area == MAP_FAILED || !mkdtemp(dir))
        return -1;
    fake_area_make(area, 77, RATE);
    return 0;
}

static int stop(void **state)
{
    char command[128];
    arena_done(&arena);
    munmap(area, MPIA_AREA_SIZE);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* Four sends of 1000 bytes to rank 1 that take 200 ticks each, 800 ticks apart; one receive. */
static void fill(void)
{
    fake_area_start(area, 0, 4, 77, START);
    for (unsigned i = 0; i < 4; i++)
        fake_area_call(
            area, 0,
            &(struct fake_call){CALL_MPI_Send, 1, 3, 1000, START + 1000 * i + 800, START + 1000 * i + 1000, SITE});
    fake_area_call(area, 0, &(struct fake_call){CALL_MPI_Recv, 2, 3, 16, START + 5000, START + 5001, SITE + 64});
}

static struct mpi_stats take(uint64_t now)
{
    struct mpi_stats stats;
    assert_int_equal(mpi_stats_take(&stats, area, now, &arena), 0);
    return stats;
}

static const struct mpi_stats_distribution *distribution(const struct mpi_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->distribution_count; i++)
        if (strcmp(stats->distributions[i].name, name) == 0)
            return &stats->distributions[i];
    fail_msg("there is no distribution %s", name);
    return NULL;
}

/* ---- taking ---- */

static void test_counts(void **state)
{
    fill();
    struct mpi_stats stats = take(START + 6001);
    assert_int_equal(stats.rank, 0);
    assert_int_equal(stats.world_size, 4);
    assert_string_equal(stats.library, "openmpi");
    assert_string_equal(stats.namespace, "job 1");
    assert_int_equal(stats.init_ns, 500);
    assert_int_equal(stats.row_count, 2);
    const struct mpi_stats_row *recv = &stats.rows[0], *send = &stats.rows[1]; /* by name */
    assert_int_equal(send->call, CALL_MPI_Send);
    assert_int_equal(send->count, 4);
    assert_int_equal(send->total_ns, 400);
    assert_int_equal(send->min_ns, 100);
    assert_int_equal(send->max_ns, 100);
    assert_int_equal(send->args_bytes, 4000);
    assert_int_equal(send->sent_bytes, 4000);
    assert_int_equal(recv->call, CALL_MPI_Recv);
    assert_int_equal(recv->got_bytes, 16);

    const struct mpi_stats_clock *clock = &stats.threads[0].outermost;
    assert_int_equal(clock->total_ns, 3000); /* 6001 ticks, rounded down */
    assert_int_equal(clock->communicate_ns, 400);
    assert_int_equal(clock->compute_ns, 2600);
    assert_int_equal(clock->count, 5);
    assert_true(stats.threads[0].is_main);
    assert_int_equal(stats.threads[0].now.call, CALL_NONE);
    assert_int_equal(stats.threads[0].now.age_ns, 500);

    assert_int_equal(stats.site_count, 2);
    assert_int_equal(stats.sites[0].call, CALL_MPI_Send); /* most time first */
    assert_int_equal(stats.sites[0].offset, 0x1000);
    assert_string_equal(stats.sites[0].module, "/bin/program");
    assert_string_equal(stats.sites[0].build_id, "ab01");
    assert_int_equal(stats.sites[0].count, 4);

    assert_int_equal(stats.peer_count, 2);
    assert_int_equal(stats.peers[0].peer, 1);
    assert_int_equal(stats.peers[0].comm, 0);
    assert_int_equal(stats.peers[0].sent_count, 4);
    assert_int_equal(stats.peers[0].sent_bytes, 4000);
    assert_int_equal(stats.peers[1].got_bytes, 16);
    assert_int_equal(stats.comm_count, 1);
    assert_int_equal(stats.comms[0].size, 4);
    assert_null(stats.comms[0].ranks);
    assert_int_equal(stats.comms[0].parent, UINT32_MAX);
}

static void test_distributions(void **state)
{
    fill();
    struct mpi_stats stats = take(0);
    const struct mpi_stats_distribution *latency = distribution(&stats, "MPI_Send.latency");
    assert_true(latency->is_time);
    assert_int_equal(latency->total, 400);
    assert_int_equal(latency->count, 1);
    assert_true(latency->buckets[0].from <= 100 && latency->buckets[0].to > 100);
    assert_int_equal(latency->buckets[0].count, 4);
    const struct mpi_stats_distribution *size = distribution(&stats, "MPI_Send.size");
    assert_false(size->is_time);
    assert_int_equal(size->total, 4000);
    assert_int_equal(size->buckets[0].from, 960); /* an eighth of the octave from 512 */
    assert_int_equal(size->buckets[0].to, 1024);
    /* a receive of one tick: less than a nanosecond */
    const struct mpi_stats_distribution *recv = distribution(&stats, "MPI_Recv.latency");
    assert_int_equal(recv->buckets[0].from, 0);
    assert_int_equal(recv->buckets[0].to, 1);
    assert_int_equal(distribution(&stats, "computation")->total, 2100);
    assert_int_equal(distribution(&stats, "blocking.communication")->total, 400);
}

/* Buckets of one resolution are unions of those of a finer one. */
static void test_resolutions(void **state)
{
    struct mpi_area *head = area;
    fake_area_start(area, 0, 1, 77, START);
    atomic_store(&head->bits, (uint32_t)MPIA_BITS_MOST);
    uint64_t at = START;
    for (unsigned i = 0; i < 100; i++, at += 5000)
        fake_area_call(area, 0, &(struct fake_call){CALL_MPI_Send, -3, 0, 1, at, at + 2048 + 32 * (i % 64), 0});
    atomic_store(&head->bits, 2u);
    fake_area_thread(area, 1, 78, START);
    fake_area_call(area, 1, &(struct fake_call){CALL_MPI_Send, -3, 0, 1, at, at + 2048 + 600, 0});
    struct mpi_stats stats = take(0);
    const struct mpi_stats_distribution *latency = distribution(&stats, "MPI_Send.latency");
    assert_int_equal(latency->count, 4); /* quarters of 1024 .. 2048 ns */
    uint64_t sum = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(latency->buckets[i].from, 1024 + 256 * i);
        assert_int_equal(latency->buckets[i].to, 1280 + 256 * i);
        sum += latency->buckets[i].count;
    }
    assert_int_equal(sum, 101);
    assert_int_equal(stats.thread_count, 2);
    assert_false(stats.threads[1].is_main);
}

static void test_open_call(void **state)
{
    struct mpi_area *head = area;
    fill();
    head->finalize_enter = 0;
    fake_area_enter(area, 0, &(struct fake_call){CALL_MPI_Recv, 3, 9, 8, START + 6001, 0, SITE + 128});
    struct mpi_stats stats = take(START + 8001);
    const struct mpi_stats_clock *clock = &stats.threads[0].outermost;
    assert_int_equal(clock->total_ns, 4000);
    assert_int_equal(clock->communicate_ns, 1400);
    assert_int_equal(clock->compute_ns, 2600);
    const struct mpi_stats_now *now = &stats.threads[0].now;
    assert_int_equal(now->call, CALL_MPI_Recv);
    assert_int_equal(now->age_ns, 1000);
    assert_int_equal(now->peer, 3);
    assert_int_equal(now->tag, 9);
    assert_int_equal(now->comm, 0);
    assert_int_equal(now->site.offset, 0x1080); /* not in the table of sites yet, but in a module that is */
    assert_string_equal(now->site.module, "/bin/program");
    assert_int_equal(stats.rows[0].count, 1); /* it is not over */

    stats = take(0); /* when it ended is not known: at the last time that is */
    assert_int_equal(stats.threads[0].outermost.total_ns, 3000);
    assert_int_equal(stats.threads[0].now.call, CALL_MPI_Recv);
}

/* What it came out of last stays there until the next call; which one it was is known by its place. */
static void test_last_call(void **state)
{
    fill();
    ((struct mpi_area *)area)->finalize_enter = 0;
    const struct fake_call call = {CALL_MPI_Iprobe, 3, 9, 0, START + 6001, START + 6101, SITE + 128};
    fake_area_enter(area, 0, &call);
    assert_int_equal(take(START + 6050).threads[0].last.call, CALL_NONE); /* it is in it */
    fake_area_leave(area, 0, &call);
    struct mpi_stats stats = take(START + 8001), back;
    const struct mpi_stats_now *last = &stats.threads[0].last;
    assert_int_equal(last->call, CALL_MPI_Iprobe);
    assert_int_equal(last->peer, 3);
    assert_int_equal(last->site.offset, 0x1080);
    struct err err;
    struct buf text = BUF_INIT;
    mpi_stats_print(&stats, &text);
    assert_int_equal(mpi_stats_parse(&back, text.data, text.len, &arena, &err), 0);
    assert_int_equal(back.threads[0].last.tag, 9);
    assert_string_equal(back.threads[0].held, "");
    buf_done(&text);
}

static void test_finalized(void **state)
{
    fill();
    fake_area_finalize(area, START + 6001, START + 7001);
    struct mpi_stats stats = take(START + 100000);
    assert_int_equal(stats.threads[0].outermost.total_ns, 3000); /* the clock stands */
    assert_int_equal(stats.finalize_ns, 500);
    assert_int_equal(stats.state, MPIA_ENDED);
}

/* What other threads than the rank do is counted with all, and apart; also of those that share the last block. */
static void test_other_threads(void **state)
{
    fill();
    fake_area_thread(area, 1, 78, START);
    struct mpi_thread *shared = fake_area_thread(area, MPIA_THREADS - 1, 79, START);
    for (unsigned i = 0; i < 2; i++) {
        uint32_t block = i ? MPIA_THREADS - 1 : 1;
        fake_area_call(area, block,
                       &(struct fake_call){CALL_MPI_Send, 1, 3, 10, START + 100, START + 700, SITE + 128 * i});
    }
    shared->sites_omitted = 5;
    ((struct mpi_site *)mpi_pool_at(area, shared->sites_at, 64))[200] = /* of a call that is only told */
        (struct mpi_site){.address = SITE + 200, .call = CALL_MPI_Comm_rank, .offset = 0x10c8};
    ((struct mpi_site *)mpi_pool_at(area, shared->sites_at, 64))[201] =
        (struct mpi_site){.address = SITE, .call = CALL_MPI_Send, .offset = 0x1000};
    atomic_store(&shared->state, (uint32_t)MPIA_THREAD_SHARED);
    struct mpi_stats stats = take(START + 6001);
    assert_int_equal(stats.thread_count, 2); /* the shared block is no thread */
    assert_int_equal(stats.threads[0].outermost.communicate_ns, 400);
    const struct mpi_stats_row *recv = &stats.rows[0], *send = &stats.rows[1];
    assert_int_equal(send->count, 6);
    assert_int_equal(send->total_ns, 1000);
    assert_int_equal(send->others_count, 2);
    assert_int_equal(send->others_ns, 600);
    assert_int_equal(recv->others_count, 0);
    assert_int_equal(stats.site_count, 4);
    assert_int_equal(stats.sites[0].offset, 0x1000);
    assert_int_equal(stats.sites[0].count, 5);
    assert_int_equal(stats.sites[0].min_ns, 100);
    assert_int_equal(stats.sites[0].others_count, 1);
    assert_int_equal(stats.sites[0].others_ns, 300);
    assert_int_equal(stats.sites[1].offset, 0x1080);
    assert_int_equal(stats.sites[1].others_count, 1);
    assert_int_equal(stats.sites[2].others_ns, 0);
    assert_int_equal(stats.sites[3].offset, 0x10c8);
    assert_int_equal(stats.sites[3].count, 0);
    assert_int_equal(stats.peers[0].sent_count, 6);
    assert_int_equal(stats.omitted, 5);
    atomic_store(&shared->state, (uint32_t)MPIA_THREAD_FREE); /* all of its threads found no room */
    stats = take(START + 6001);
    assert_int_equal(stats.omitted, 5);
    assert_int_equal(stats.rows[1].count, 5);
}

/* Since when the counts are. */
static void test_resets(void **state)
{
    struct mpi_area *head = area;
    fill();
    assert_int_equal(take(0).resets, 0);
    atomic_store(&head->reset_at, START + 3000);
    atomic_store(&head->reset, 2u);
    struct mpi_stats stats = take(0);
    assert_int_equal(stats.resets, 2);
    assert_int_equal(stats.reset_ns, 1500);
}

/* How long nothing was counted. */
static void test_paused(void **state)
{
    struct mpi_area *head = area;
    struct mpi_outermost *clock;
    fill();
    clock = &mpi_thread_at(area, 0)->outermost;
    assert_int_equal(take(START + 6001).paused_ns, 0);
    clock->first += 400; /* in between */
    assert_int_equal(take(START + 6001).paused_ns, 200);
    atomic_store(&head->pcontrol, 1u); /* and since its last call */
    assert_int_equal(take(START + 6001).paused_ns, 700);
    head->finalize_enter = START + 8001;
    atomic_store(&head->state, (uint32_t)MPIA_ENDED);
    assert_int_equal(take(START + 9001).paused_ns, 1700);
    atomic_store(&head->reset, 1u); /* before which it is not known */
    assert_int_equal(take(START + 9001).paused_ns, 1500);
}

static void test_requests(void **state)
{
    fill();
    fake_area_request(area, 0x7f0000001000, CALL_MPI_Irecv, MPIA_RANK_ANY, MPIA_TAG_ANY, 64, START + 5000);
    fake_area_request(area, 5, CALL_MPI_Isend, 2, 1, 32, START + 5500);
    fake_area_request(area, 1, CALL_MPI_Isend, 2, 1, 32, START + 5500); /* was used */
    struct mpi_stats stats = take(START + 6000);
    assert_int_equal(stats.request_count, 2);
    const struct mpi_stats_request *send = &stats.requests[stats.requests[0].call == CALL_MPI_Isend ? 0 : 1];
    const struct mpi_stats_request *recv = send == stats.requests ? send + 1 : stats.requests;
    assert_int_equal(send->handle, 5);
    assert_int_equal(send->age_ns, 250);
    assert_int_equal(send->thread, 0);
    assert_int_equal(recv->handle, 0x7f0000001000);
    assert_int_equal(recv->peer, MPIA_RANK_ANY);
    assert_int_equal(recv->flags, MPIA_REQUEST_RECEIVE);
}

static void test_no_area(void **state)
{
    struct mpi_area *head = area;
    struct mpi_stats stats;
    head->calls_hash++;
    assert_int_equal(mpi_stats_take(&stats, area, 0, &arena), -EBADMSG);
    head->calls_hash--;
    head->magic = 0;
    assert_int_equal(mpi_stats_take(&stats, area, 0, &arena), -EBADMSG);
}

/* ---- while it is being written ---- */

static _Atomic bool stop_calling;

static void *call_all_the_time(void *ctx)
{
    uint64_t at = START;
    while (!atomic_load(&stop_calling)) {
        fake_area_call(area, 0, &(struct fake_call){CALL_MPI_Send, 1, 3, 8, at + 10, at + 20, SITE});
        at += 20;
    }
    return NULL;
}

static void test_concurrent(void **state)
{
    pthread_t thread;
    uint64_t last = 0;
    fake_area_start(area, 0, 4, 77, START);
    atomic_store(&stop_calling, false);
    assert_int_equal(pthread_create(&thread, NULL, call_all_the_time, NULL), 0);
    for (unsigned i = 0; i < 300; i++) {
        struct mpi_stats stats = take(1);
        const struct mpi_stats_clock *clock = &stats.threads[0].outermost;
        assert_int_equal(clock->compute_ns + clock->communicate_ns, clock->total_ns);
        assert_true(clock->total_ns % 5 == 0 && clock->total_ns >= last);
        last = clock->total_ns;
        if (stats.row_count)
            assert_true(stats.rows[0].min_ns == 5 && stats.rows[0].max_ns == 5);
        arena_reset(&arena);
    }
    atomic_store(&stop_calling, true);
    pthread_join(thread, NULL);
}

/* ---- files ---- */

/* All of each but what is between a last number of 32 bits, which ends at `gap`, and those of 64 behind it: the compiler
 * puts there what it likes. */
static void expect_same_rows(const void *one, size_t count, const void *other, size_t other_count, size_t size,
                             size_t gap)
{
    assert_int_equal(count, other_count);
    size_t behind = (gap + 7) & ~(size_t)7;
    for (size_t at = 0; at < count * size; at += size) {
        assert_memory_equal((const char *)one + at, (const char *)other + at, gap);
        assert_memory_equal((const char *)one + at + behind, (const char *)other + at + behind, size - behind);
    }
}

#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

static void test_round_trip(void **state)
{
    struct mpi_stats_set set;
    struct err err = {.text = ""};
    char path[128];
    fill();
    fake_area_request(area, 0x7f0000001000, CALL_MPI_Irecv, MPIA_RANK_ANY, MPIA_TAG_ANY, 64, START + 5000);
    struct mpi_comm *half = mpi_comm_at(area, 1);
    half->size = 2;
    half->parent = 0;
    half->ranks_at = MPIA_AREA_SIZE - 64;
    memcpy((uint8_t *)area + half->ranks_at, (int32_t[]){0, 2}, 8);
    strcpy(half->name, "say \"half\"\n\xff");
    half->call = CALL_MPI_Comm_split;
    atomic_store(&half->kind, (uint32_t)MPIA_COMM_INTRA);
    atomic_store(&((struct mpi_area *)area)->comm_count, 2u);
    fake_area_enter(area, 0, &(struct fake_call){CALL_MPI_Recv, 3, 9, 8, START + 6001, 0, SITE + 128});
    struct mpi_stats stats = take(START + 8001), other = stats;
    stats.node = "node 1";
    stats.exe = "/home/\xc3\xa4/a\\b";
    stats.running = true;
    other.node = "node 2";
    other.exe = "";
    other.rank = 1;
    snprintf(path, sizeof path, "%s/stats/node 1", dir);
    assert_int_equal(mpi_stats_write(&stats, path, 2, &err), 0);
    snprintf(path, sizeof path, "%s/stats/node 2", dir);
    assert_int_equal(mpi_stats_write(&other, path, 0, &err), 0);
    assert_int_equal(mpi_stats_read(&set, dir, &err), 0);
    assert_int_equal(set.count, 2);
    struct mpi_stats *back = &set.ranks[0];
    assert_int_equal(set.ranks[1].rank, 1);
    assert_string_equal(back->name, "node 1/77-2");
    assert_string_equal(back->node, stats.node);
    assert_string_equal(back->exe, stats.exe);
    assert_true(back->running);
    expect_same_rows(back->rows, back->row_count, stats.rows, stats.row_count, sizeof *stats.rows,
                     END_OF(struct mpi_stats_row, call));
    expect_same_rows(back->spans, back->span_count, stats.spans, stats.span_count, sizeof *stats.spans,
                     END_OF(struct mpi_stats_row, call));
    expect_same_rows(back->peers, back->peer_count, stats.peers, stats.peer_count, sizeof *stats.peers,
                     END_OF(struct mpi_stats_peer, call));
    expect_same_rows(back->requests, back->request_count, stats.requests, stats.request_count, sizeof *stats.requests,
                     END_OF(struct mpi_stats_request, ordinal));
    assert_int_equal(back->site_count, stats.site_count);
    assert_string_equal(back->sites[0].module, stats.sites[0].module);
    assert_int_equal(back->sites[0].total_ns, stats.sites[0].total_ns);
    assert_int_equal(back->comm_count, 2);
    assert_memory_equal(back->comms[1].ranks, ((int32_t[]){0, 2}), 8);
    assert_null(back->comms[0].ranks);
    assert_int_equal(back->comms[0].parent, UINT32_MAX);
    assert_int_equal(back->comms[1].call, CALL_MPI_Comm_split);
    assert_string_equal(back->comms[1].name, "say \"half\"\n\\xff"); /* no UTF-8: shown, not lost */
    assert_int_equal(back->thread_count, 1);
    assert_memory_equal(&back->threads[0].outermost, &stats.threads[0].outermost, sizeof stats.threads[0].outermost);
    assert_memory_equal(&back->threads[0].blocking, &stats.threads[0].blocking, sizeof stats.threads[0].blocking);
    assert_int_equal(back->threads[0].now.peer, 3);
    assert_int_equal(back->threads[0].now.site.offset, stats.threads[0].now.site.offset);
    assert_int_equal(back->distribution_count, 0);
    assert_int_equal(mpi_stats_read_distributions(back, dir, set.arena, &err), 0);
    assert_int_equal(back->distribution_count, stats.distribution_count);
    for (size_t i = 0; i < stats.distribution_count; i++) {
        const struct mpi_stats_distribution *before = &stats.distributions[i],
                                            *after = distribution(back, before->name);
        assert_int_equal(after->total, before->total);
        assert_int_equal(after->is_time, before->is_time);
        expect_same_rows(after->buckets, after->count, before->buckets, before->count, sizeof *before->buckets,
                         sizeof *before->buckets);
    }
    mpi_stats_set_done(&set);
}

/* What a reset took away is not left behind. */
static void test_old_distributions_go(void **state)
{
    struct err err = {.text = ""};
    char path[160];
    fill();
    struct mpi_stats stats = take(0);
    assert_int_equal(mpi_stats_write(&stats, dir, 0, &err), 0);
    snprintf(path, sizeof path, "%s/77-0/MPI_Send.latency.dist", dir);
    assert_int_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < stats.distribution_count; i++)
        if (strncmp(stats.distributions[i].name, "MPI_Send", 8) == 0)
            stats.distributions[i] = stats.distributions[--stats.distribution_count], i--;
    assert_int_equal(mpi_stats_write(&stats, dir, 0, &err), 0);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof path, "%s/77-0/MPI_Recv.latency.dist", dir);
    assert_int_equal(access(path, F_OK), 0);
}

static void put_file(const char *path, const char *text, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static void test_unreadable_ones(void **state)
{
    struct mpi_stats_set set;
    struct err err = {.text = ""};
    struct buf text = BUF_INIT;
    char path[160], other[200];
    assert_int_equal(mpi_stats_read(&set, dir, &err), -ENOENT);
    fill();
    struct mpi_stats stats = take(0);
    snprintf(path, sizeof path, "%s/stats/node", dir);
    assert_int_equal(mpi_stats_write(&stats, path, 0, &err), 0);
    mpi_stats_print(&stats, &text);
    snprintf(other, sizeof other, "%s/78-0.json", path);
    put_file(other, text.data, text.len / 2);
    assert_int_equal(mpi_stats_read(&set, dir, &err), 1);
    assert_int_equal(set.count, 1);
    assert_non_null(strstr(err.text, "78-0.json"));
    mpi_stats_set_done(&set);

    static const char newer[] = "{\"version\": 2}", none[] = "[1]";
    put_file(other, newer, strlen(newer));
    assert_int_equal(mpi_stats_read(&set, dir, &err), 1);
    assert_non_null(strstr(err.text, "version 2"));
    mpi_stats_set_done(&set);
    put_file(other, none, strlen(none));
    assert_int_equal(mpi_stats_read(&set, dir, &err), 1);
    mpi_stats_set_done(&set);

    snprintf(other, sizeof other, "%s/77-0/MPI_Send.size.dist", path);
    put_file(other, "# scry distribution 1\n5 4 1\n", 28);
    snprintf(other, sizeof other, "%s/78-0.json", path);
    unlink(other);
    assert_int_equal(mpi_stats_read(&set, dir, &err), 0);
    assert_int_equal(mpi_stats_read_distributions(&set.ranks[0], dir, set.arena, &err), 1);
    assert_non_null(strstr(err.text, "MPI_Send.size.dist"));
    assert_non_null(strstr(err.text, "line 2"));
    assert_int_equal(set.ranks[0].distribution_count, stats.distribution_count - 1);
    mpi_stats_set_done(&set);
    buf_done(&text);
}

/* Each says where it is wrong. */
static void test_wrong_values(void **state)
{
    static const struct {
        const char *json, *where;
    } wrong[] = {
        {"{\"version\":1,\"pid\":\"x\"}", "pid"},
        {"{\"version\":1,\"pid\":99999999999}", "pid"},
        {"{\"version\":1,\"exe\":5}", "exe"},
        {"{\"version\":1,\"init_ns\":-1}", "init_ns"},
        {"{\"version\":1,\"threads\":5}", "threads"},
        {"{\"version\":1,\"threads\":[5]}", "threads"},
        {"{\"version\":1,\"threads\":[{\"outermost\":{},\"blocking\":{}}]}", "threads.now"},
        {"{\"version\":1,\"threads\":[{\"outermost\":{},\"blocking\":{},\"now\":{\"waits\":[1,2,3,4,5,6,7,8,9]}}]}",
         "waits"},
        {"{\"version\":1,\"calls\":{\"columns\":[\"call\"],\"rows\":[[\"MPI_Nothing\"]]}}", "calls.call"},
        {"{\"version\":1,\"calls\":{\"columns\":[\"call\",\"count\"],\"rows\":[[\"MPI_Send\"]]}}", "calls.rows"},
        {"{\"version\":1,\"calls\":{\"columns\":5,\"rows\":[]}}", "calls.columns"},
        {"{\"version\":1,\"calls\":{\"columns\":[]}}", "calls.rows"},
        {"{\"version\":1,\"communicators\":{\"columns\":[\"size\",\"ranks\"],\"rows\":[[3,[0,1]]]}}",
         "communicators.ranks"},
        {"{\"version\":1,\"communicators\":{\"columns\":[\"size\",\"ranks\"],\"rows\":[[4000000000,null]]}}",
         "communicators.ranks"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct mpi_stats stats;
        struct err err = {.text = ""};
        assert_int_equal(mpi_stats_parse(&stats, wrong[i].json, strlen(wrong[i].json), &arena, &err), -EBADMSG);
        if (!strstr(err.text, wrong[i].where))
            fail_msg("%s: %s", wrong[i].json, err.text);
    }
    /* what is not there is empty; what is not known is left out; indices that point nowhere are none */
    static const char sparse[] =
        "{\"version\":1,\"future\":{},\"peers\":{\"columns\":[\"new\",\"comm\"],\"rows\":[[1,7]]}}";
    struct mpi_stats stats;
    struct err err;
    assert_int_equal(mpi_stats_parse(&stats, sparse, strlen(sparse), &arena, &err), 0);
    assert_string_equal(stats.exe, "");
    assert_int_equal(stats.peer_count, 1);
    assert_int_equal(stats.peers[0].comm, UINT32_MAX);
}

/* The call, and what stands behind it in a column of its own. */
static void check_now(const struct mpi_stats_now *now, const char *text, const char *details)
{
    static struct mpi_stats_comm comms[] = {{.number = 0, .parent = UINT32_MAX}, {.name = "out.dat"}};
    const struct mpi_stats stats = {.comms = comms, .comm_count = 2};
    struct buf out = BUF_INIT;
    mpi_text_now(&out, &stats, now);
    assert_string_equal(out.data, text);
    buf_clear(&out);
    buf_puts(&out, "");
    mpi_text_details(&out, &stats, now);
    assert_string_equal(out.data, details);
    buf_done(&out);
}

#define OTHERS(peer_, bytes_, comm_) \
    .peer = peer_, .tag = MPIA_TAG_NONE, .source_peer = MPIA_RANK_NONE, .bytes = bytes_, .comm = comm_
static void test_now(void **state)
{
    (void)state;
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Recv, OTHERS(3, 8, 0)},
              "MPI_Recv of 8 B from rank 3 on MPI_COMM_WORLD", "8 B from rank 3 on MPI_COMM_WORLD");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Recv, OTHERS(3, 0, 9)}, "MPI_Recv from rank 3", "from rank 3");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Bcast, OTHERS(2, 0, 0), .ordinal = 4},
              "MPI_Bcast, root 2 on MPI_COMM_WORLD (collective 4)", "root 2 on MPI_COMM_WORLD (collective 4)");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Bcast, OTHERS(2, 8, 0), .ordinal = 4},
              "MPI_Bcast of 8 B, root 2 on MPI_COMM_WORLD (collective 4)",
              "8 B, root 2 on MPI_COMM_WORLD (collective 4)");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Barrier, OTHERS(MPIA_RANK_NONE, 0, 0), .ordinal = 4},
              "MPI_Barrier on MPI_COMM_WORLD (collective 4)", "on MPI_COMM_WORLD (collective 4)");
    check_now(
        &(struct mpi_stats_now){.call = CALL_MPI_File_close, OTHERS(MPIA_RANK_NONE, 0, 1), .flags = MPIA_NOW_FILE},
        "MPI_File_close out.dat", "out.dat");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_File_read, OTHERS(MPIA_RANK_NONE, 8, 1), .flags = MPIA_NOW_FILE},
              "MPI_File_read of 8 B of out.dat", "8 B of out.dat");
    check_now(
        &(struct mpi_stats_now){
            .call = CALL_MPI_Waitall, OTHERS(MPIA_RANK_NONE, 8, 0), .flags = MPIA_NOW_REQUESTS, .waiting = 2},
        "MPI_Waitall for 2 requests", "for 2 requests");
    check_now(&(struct mpi_stats_now){.call = CALL_MPI_Init, OTHERS(MPIA_RANK_NONE, 0, 9)}, "MPI_Init", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, start, stop),
        cmocka_unit_test_setup_teardown(test_distributions, start, stop),
        cmocka_unit_test_setup_teardown(test_resolutions, start, stop),
        cmocka_unit_test_setup_teardown(test_open_call, start, stop),
        cmocka_unit_test_setup_teardown(test_last_call, start, stop),
        cmocka_unit_test_setup_teardown(test_finalized, start, stop),
        cmocka_unit_test_setup_teardown(test_other_threads, start, stop),
        cmocka_unit_test_setup_teardown(test_resets, start, stop),
        cmocka_unit_test_setup_teardown(test_paused, start, stop),
        cmocka_unit_test_setup_teardown(test_requests, start, stop),
        cmocka_unit_test_setup_teardown(test_no_area, start, stop),
        cmocka_unit_test_setup_teardown(test_concurrent, start, stop),
        cmocka_unit_test_setup_teardown(test_round_trip, start, stop),
        cmocka_unit_test_setup_teardown(test_old_distributions_go, start, stop),
        cmocka_unit_test_setup_teardown(test_unreadable_ones, start, stop),
        cmocka_unit_test_setup_teardown(test_wrong_values, start, stop),
        cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
