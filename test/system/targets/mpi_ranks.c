/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_ranks JOBDIR WIDTH HEIGHT STEPS: writes statistics as the monitor leaves them of WIDTH by HEIGHT ranks that
 * exchanged their edges with four neighbours (a torus) and added up a number after each of STEPS steps. Every number
 * follows from those, so that what a report says of thousands of ranks can be computed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobdir/mpi/stats.h"

enum { EDGE_BYTES = 800, SEND_NS = 2000, REDUCE_NS = 10000, COMPUTE_NS = 1000000, SITES_EACH = 8, MODULES = 2 };

struct grid {
    int width, height;
    uint64_t steps;
};

static int neighbour(const struct grid *grid, int rank, int way)
{
    static const int across[] = {1, -1, 0, 0}, down[] = {0, 0, 1, -1};
    int x = (rank % grid->width + across[way] + grid->width) % grid->width;
    int y = (rank / grid->width + down[way] + grid->height) % grid->height;
    return y * grid->width + x;
}

static struct mpi_stats_row row(uint32_t call, uint64_t count, uint64_t each_ns, uint64_t args, uint64_t sent,
                                uint64_t got)
{
    return (struct mpi_stats_row){.call = call,
                                  .count = count,
                                  .total_ns = count * each_ns,
                                  .min_ns = each_ns,
                                  .max_ns = each_ns,
                                  .args_bytes = args,
                                  .sent_bytes = sent,
                                  .got_bytes = got};
}

static int add_peer(struct mpi_stats_peer *peers, int used, int32_t rank, uint64_t steps)
{
    int at = 0;
    while (at < used && peers[at].peer != rank)
        at++;
    if (at == used)
        peers[at] = (struct mpi_stats_peer){.peer = rank, .call = CALL_NONE};
    peers[at].sent_count += steps;
    peers[at].got_count += steps;
    peers[at].sent_bytes += steps * EDGE_BYTES;
    peers[at].got_bytes += steps * EDGE_BYTES;
    peers[at].args_bytes += 2 * steps * EDGE_BYTES;
    return used + (at == used);
}

static int write_rank(const struct grid *grid, int rank, const char *dir)
{
    int size = grid->width * grid->height, peer_count = 0;
    uint64_t steps = grid->steps, bytes = steps * EDGE_BYTES;
    struct mpi_stats_row rows[] = {
        row(CALL_MPI_Sendrecv, 4 * steps, SEND_NS, 8 * bytes, 4 * bytes, 4 * bytes),
        row(CALL_MPI_Allreduce, steps, REDUCE_NS + (uint64_t)rank, 8 * steps, 8 * steps * (uint64_t)size,
            8 * steps * (uint64_t)size),
    };
    struct mpi_stats_site sites[SITES_EACH * MODULES];
    for (int i = 0; i < SITES_EACH * MODULES; i++)
        sites[i] = (struct mpi_stats_site){.call = i % 2 ? CALL_MPI_Allreduce : CALL_MPI_Sendrecv,
                                           .module = i < SITES_EACH ? "/nowhere/ocean" : "/nowhere/libhalo.so",
                                           .build_id = "00112233445566778899aabbccddeeff00112233",
                                           .function = "",
                                           .file = "",
                                           .offset = 0x1000 + 16 * (uint64_t)i,
                                           .count = steps,
                                           .total_ns = steps * SEND_NS,
                                           .min_ns = SEND_NS,
                                           .max_ns = SEND_NS};
    struct mpi_stats_peer peers[5];
    for (int way = 0; way < 4; way++)
        peer_count = add_peer(peers, peer_count, neighbour(grid, rank, way), steps);
    peers[peer_count++] = (struct mpi_stats_peer){.peer = MPIA_RANK_NONE,
                                                  .call = CALL_MPI_Allreduce,
                                                  .sent_count = steps,
                                                  .sent_bytes = 8 * steps * (uint64_t)size,
                                                  .got_count = steps,
                                                  .got_bytes = 8 * steps * (uint64_t)size,
                                                  .args_bytes = 8 * steps};
    struct mpi_stats_comm comms[] = {
        {.kind = MPIA_COMM_INTRA,
         .parent = UINT32_MAX,
         .size = (uint32_t)size,
         .rank = (uint32_t)rank,
         .collectives = (uint32_t)steps,
         .name = "MPI_COMM_WORLD"},
        {.kind = MPIA_COMM_INTRA,
         .number = 1,
         .parent = UINT32_MAX,
         .size = 1,
         .lowest = rank,
         .ranks = (int32_t[]){rank},
         .name = "MPI_COMM_SELF"},
    };
    uint64_t communicate = rows[0].total_ns + rows[1].total_ns, compute = 5 * steps * COMPUTE_NS;
    struct mpi_stats_clock clock = {.total_ns = compute + communicate,
                                    .compute_ns = compute,
                                    .communicate_ns = communicate,
                                    .count = 5 * steps,
                                    .compute_min_ns = COMPUTE_NS,
                                    .compute_max_ns = COMPUTE_NS,
                                    .communicate_min_ns = SEND_NS,
                                    .communicate_max_ns = REDUCE_NS + (uint64_t)rank};
    struct mpi_stats_thread thread = {.tid = 1000 + rank,
                                      .is_main = true,
                                      .name = "ocean",
                                      .outermost = clock,
                                      .blocking = clock,
                                      .now = {.peer = MPIA_RANK_NONE,
                                              .tag = MPIA_TAG_NONE,
                                              .source_peer = MPIA_RANK_NONE,
                                              .source_tag = MPIA_TAG_NONE,
                                              .comm = UINT32_MAX,
                                              .site = {.module = "", .build_id = "", .function = "", .file = ""}}};
    char node[32], path[4096];
    snprintf(node, sizeof node, "node%d", rank / 64);
    snprintf(path, sizeof path, "%s/stats/%s", dir, node);
    struct mpi_stats stats = {.name = "",
                              .node = node,
                              .exe = "/nowhere/ocean",
                              .processor = node,
                              .library = "openmpi",
                              .library_version = "Open MPI",
                              .namespace = "one",
                              .fault = "",
                              .pid = 1000 + rank,
                              .rank = rank,
                              .world_size = size,
                              .state = MPIA_ENDED,
                              .rows = rows,
                              .row_count = 2,
                              .sites = sites,
                              .site_count = SITES_EACH * MODULES,
                              .peers = peers,
                              .peer_count = (size_t)peer_count,
                              .comms = comms,
                              .comm_count = 2,
                              .threads = &thread,
                              .thread_count = 1};
    struct err err = {0};
    if (mpi_stats_write(&stats, path, 0, &err) == 0)
        return 0;
    fprintf(stderr, "mpi_ranks: %s\n", err.text);
    return 1;
}

int main(int argc, char **argv)
{
    struct grid grid = {.width = argc == 5 ? atoi(argv[2]) : 0, .height = argc == 5 ? atoi(argv[3]) : 0};
    grid.steps = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    if (grid.width < 1 || grid.height < 1) {
        fputs("usage: mpi_ranks JOBDIR WIDTH HEIGHT STEPS\n", stderr);
        return 2;
    }
    for (int rank = 0; rank < grid.width * grid.height; rank++)
        if (write_rank(&grid, rank, argv[1]))
            return 1;
    return 0;
}
