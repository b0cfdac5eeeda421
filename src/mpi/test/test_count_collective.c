/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What collectives move, in both conventions, against numbers by hand: at the root and elsewhere, in place, with counts
 * for each rank, on an intercommunicator, on topologies, non-blocking. n: ranks, r: this one; blocks of 8 bytes if
 * nothing else is said. Run with four ranks, or any other number but one.
 */
#include "mpi/test/test_count.h"

#include <string.h>

enum { B = 8, ROOM = 4096 };

static int n, r;
static char out[ROOM], in[ROOM];
static int counts[64], displacements[64]; /* rank i: i + 1 elements */
static MPI_Aint far_displacements[64];
static MPI_Datatype types[64];

static void check(const char *file, int line, uint32_t call, long long args, long long sent, long long got)
{
    struct mpi_row row = count_row(call);
    if ((long long)row.args_bytes != args)
        count_failed(file, line, "bytes by the arguments", (long long)row.args_bytes, args);
    if ((long long)row.sent_bytes != sent)
        count_failed(file, line, "bytes sent", (long long)row.sent_bytes, sent);
    if ((long long)row.got_bytes != got)
        count_failed(file, line, "bytes received", (long long)row.got_bytes, got);
    count_reset();
}
#define MOVED(name, args, sent, got) check(__FILE__, __LINE__, CALL_##name, args, sent, got)

/* With r + 1 elements of 8 bytes at rank r. */
static long long all(void)
{
    return 8ll * n * (n + 1) / 2;
}
static long long own(void)
{
    return 8ll * (r + 1);
}

/* ---- rooted ---- */

static void rooted(int root)
{
    bool at = r == root;
    W(MPI_Bcast)(out, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    CHECK_EQUAL(count_peer(0, root, CALL_MPI_Bcast).sent_count, 1);
    CHECK_EQUAL(count_peer(0, root, CALL_MPI_Bcast).sent_bytes, at ? n * B : 0);
    CHECK_EQUAL(count_peer(0, root, CALL_MPI_Bcast).got_bytes, B);
    MOVED(MPI_Bcast, B, at ? n * B : 0, B);
    W(MPI_Gather)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Gather, B, B, at ? n * B : 0);
    W(MPI_Gather)(at ? MPI_IN_PLACE : out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Gather, B, at ? 0 : B, at ? (n - 1) * B : 0);
    W(MPI_Scatter)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Scatter, B, at ? n * B : 0, B);
    W(MPI_Scatter)(out, 1, MPI_DOUBLE, at ? MPI_IN_PLACE : in, 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Scatter, B, at ? (n - 1) * B : 0, at ? 0 : B);
    W(MPI_Reduce)(out, in, 1, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    MOVED(MPI_Reduce, B, B, at ? n * B : 0);
    W(MPI_Reduce)(at ? MPI_IN_PLACE : out, in, 1, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    MOVED(MPI_Reduce, B, at ? 0 : B, at ? (n - 1) * B : 0);
    W(MPI_Gatherv)(out, r + 1, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Gatherv, own(), own(), at ? all() : 0);
    W(MPI_Gatherv)
    (at ? MPI_IN_PLACE : out, r + 1, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Gatherv, own(), at ? 0 : own(), at ? all() - own() : 0);
    W(MPI_Scatterv)(out, counts, displacements, MPI_DOUBLE, in, r + 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Scatterv, own(), at ? all() : 0, own());
    W(MPI_Scatterv)
    (out, counts, displacements, MPI_DOUBLE, at ? MPI_IN_PLACE : in, r + 1, MPI_DOUBLE, root, MPI_COMM_WORLD);
    MOVED(MPI_Scatterv, own(), at ? all() - own() : 0, at ? 0 : own());
    /* what the standard says is not looked at may be anything */
    W(MPI_Gatherv)
    (out, r + 1, MPI_DOUBLE, at ? in : NULL, at ? counts : NULL, at ? displacements : NULL,
     at ? MPI_DOUBLE : MPI_DATATYPE_NULL, root, MPI_COMM_WORLD);
    MOVED(MPI_Gatherv, own(), own(), at ? all() : 0);
}

/* ---- all to all ---- */

static void everywhere(void)
{
    W(MPI_Barrier)(MPI_COMM_WORLD);
    MOVED(MPI_Barrier, 0, 0, 0);
    W(MPI_Allreduce)(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(count_peer(0, MPIA_RANK_NONE, CALL_MPI_Allreduce).sent_count, 1);
    MOVED(MPI_Allreduce, B, n * B, n * B);
    W(MPI_Allreduce)(MPI_IN_PLACE, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Allreduce, B, (n - 1) * B, (n - 1) * B);
    W(MPI_Allgather)(out, 1, MPI_DOUBLE, in, 2, MPI_FLOAT, MPI_COMM_WORLD);
    MOVED(MPI_Allgather, B, n * B, n * B);
    W(MPI_Allgather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Allgather, B, (n - 1) * B, (n - 1) * B);
    W(MPI_Alltoall)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Alltoall, B, n * B, n * B);
    W(MPI_Alltoall)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Alltoall, B, (n - 1) * B, (n - 1) * B);
    W(MPI_Allgatherv)(out, r + 1, MPI_DOUBLE, in, counts, displacements, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Allgatherv, own(), n * own(), all());
    W(MPI_Allgatherv)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, counts, displacements, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Allgatherv, own(), (n - 1) * own(), all() - own());
    W(MPI_Reduce_scatter_block)(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Reduce_scatter_block, B, n * B, n * B);
    W(MPI_Reduce_scatter)(out, in, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Reduce_scatter, all(), all(), n * own());
    W(MPI_Reduce_scatter)(MPI_IN_PLACE, in, counts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Reduce_scatter, all(), all() - own(), (n - 1) * own());
    W(MPI_Scan)(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Scan, B, (n - r) * B, (r + 1) * B);
    W(MPI_Scan)(MPI_IN_PLACE, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Scan, B, (n - r - 1) * B, r * B);
    W(MPI_Exscan)(out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    MOVED(MPI_Exscan, B, (n - r - 1) * B, r * B);
}

/* To rank i go i + r elements, and as many come from it. */
static void uneven(void)
{
    int send[64], displs[64], bytes_displs[64];
    long long sum = 0, mine = 8ll * 2 * r;
    for (int i = 0; i < n; i++) {
        send[i] = i + r;
        displs[i] = i ? displs[i - 1] + send[i - 1] : 0;
        bytes_displs[i] = 8 * displs[i];
        sum += 8ll * send[i];
    }
    W(MPI_Alltoallv)(out, send, displs, MPI_DOUBLE, in, send, displs, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Alltoallv, sum, sum, sum);
    W(MPI_Alltoallv)(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, send, displs, MPI_DOUBLE, MPI_COMM_WORLD);
    MOVED(MPI_Alltoallv, sum, sum - mine, sum - mine);
    W(MPI_Alltoallw)(out, send, bytes_displs, types, in, send, bytes_displs, types, MPI_COMM_WORLD);
    MOVED(MPI_Alltoallw, sum, sum, sum);
}

/* ---- non-blocking: the same numbers at the post, and the time until they complete ---- */

static void posted(void)
{
    MPI_Request request[4];
    static char more[ROOM];
    W(MPI_Ibarrier)(MPI_COMM_WORLD, &request[0]);
    W(MPI_Ibcast)(out, 1, MPI_DOUBLE, n - 1, MPI_COMM_WORLD, &request[1]);
    W(MPI_Iallreduce)(in, more, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request[2]);
    W(MPI_Igather)(in + 64, 1, MPI_DOUBLE, more + 64, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD, &request[3]);
    W(MPI_Waitall)(4, request, MPI_STATUSES_IGNORE);
    CHECK_EQUAL(count_pending(), 0);
    CHECK_EQUAL(SPAN(MPI_Ibarrier).count, 1);
    CHECK_EQUAL(SPAN(MPI_Iallreduce).count, 1);
    CHECK_EQUAL(ROW(MPI_Iallreduce).sent_bytes, n * B);
    CHECK_EQUAL(ROW(MPI_Iallreduce).got_bytes, n * B);
    CHECK_EQUAL(ROW(MPI_Igather).got_bytes, r == 0 ? n * B : 0);
    MOVED(MPI_Ibcast, B, r == n - 1 ? n * B : 0, B);
}

/* ---- intercommunicators: the lower half and the rest ---- */

static void between(void)
{
    MPI_Comm half, both;
    int lower = n / 2, mine = r < lower, others = mine ? n - lower : lower;
    W(MPI_Comm_split)(MPI_COMM_WORLD, mine, r, &half);
    W(MPI_Intercomm_create)(half, 0, MPI_COMM_WORLD, mine ? lower : 0, 3, &both);
    W(MPI_Comm_set_name)(both, "both");
    const struct mpi_comm *shown = count_comm("both");
    CHECK_EQUAL(shown->kind, MPIA_COMM_INTER);
    CHECK_EQUAL(shown->size, n - others);
    CHECK_EQUAL(shown->remote_size, others);
    count_reset();
    int root = mine ? r == 0 ? MPI_ROOT : MPI_PROC_NULL : 0; /* rank 0 of the lower half */
    bool at = root == MPI_ROOT, outside = root == MPI_PROC_NULL;
    W(MPI_Bcast)(out, 1, MPI_DOUBLE, root, both);
    MOVED(MPI_Bcast, outside ? 0 : B, at ? others * B : 0, outside || at ? 0 : B);
    W(MPI_Gather)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, root, both);
    MOVED(MPI_Gather, outside ? 0 : B, outside || at ? 0 : B, at ? others * B : 0);
    W(MPI_Scatter)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, root, both);
    MOVED(MPI_Scatter, outside ? 0 : B, at ? others * B : 0, outside || at ? 0 : B);
    W(MPI_Allgather)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, both);
    MOVED(MPI_Allgather, B, others * B, others * B);
    W(MPI_Allreduce)(out, in, 1, MPI_DOUBLE, MPI_SUM, both);
    MOVED(MPI_Allreduce, B, others * B, others * B);
    /* a message to rank 0 of the other half goes to a rank of the world */
    if (r == 0)
        W(MPI_Send)(out, 1, MPI_DOUBLE, 0, 5, both);
    if (r == lower)
        W(MPI_Recv)(in, 1, MPI_DOUBLE, 0, 5, both, MPI_STATUS_IGNORE);
    if (r == 0)
        CHECK_EQUAL(count_peer(count_comm_number("both"), lower, CALL_NONE).sent_bytes, B);
    if (r == lower)
        CHECK_EQUAL(count_peer(count_comm_number("both"), 0, CALL_NONE).got_bytes, B);
    W(MPI_Comm_free)(&both);
    W(MPI_Comm_free)(&half);
    CHECK(count_comm("both")->ended);
}

/* ---- neighbours ---- */

static void neighbours(void)
{
    MPI_Comm line, ring;
    int dims = n, open_ends = 0, there = n == 1 ? 0 : r == 0 || r == n - 1 ? 1 : 2;
    int both[2] = {2, 2}, displs[2] = {0, 2};
    W(MPI_Cart_create)(MPI_COMM_WORLD, 1, &dims, &open_ends, 0, &line);
    count_reset();
    W(MPI_Neighbor_allgather)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, line);
    MOVED(MPI_Neighbor_allgather, B, there * B, there * B);
    W(MPI_Neighbor_alltoall)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, line);
    MOVED(MPI_Neighbor_alltoall, B, there * B, there * B);
    W(MPI_Neighbor_alltoallv)(out, both, displs, MPI_DOUBLE, in, both, displs, MPI_DOUBLE, line);
    MOVED(MPI_Neighbor_alltoallv, 2 * there * B, 2 * there * B, 2 * there * B);
    W(MPI_Comm_free)(&line);
    /* each sends to the next two ranks */
    int to[2] = {(r + 1) % n, (r + 2) % n}, from[2] = {(r + n - 1) % n, (r + 2 * n - 2) % n};
    int send[2] = {1, 3}, send_displs[2] = {0, 1};
    W(MPI_Dist_graph_create_adjacent)
    (MPI_COMM_WORLD, 2, from, MPI_UNWEIGHTED, 2, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring);
    count_reset();
    W(MPI_Neighbor_allgather)(out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, ring);
    MOVED(MPI_Neighbor_allgather, B, 2 * B, 2 * B);
    W(MPI_Neighbor_alltoallv)(out, send, send_displs, MPI_DOUBLE, in, send, send_displs, MPI_DOUBLE, ring);
    MOVED(MPI_Neighbor_alltoallv, 4 * B, 4 * B, 4 * B);
    W(MPI_Neighbor_alltoallw)(out, send, far_displacements, types, in, send, far_displacements, types, ring);
    MOVED(MPI_Neighbor_alltoallw, 4 * B, 4 * B, 4 * B);
    W(MPI_Comm_free)(&ring);
}

/* The sequence number on its communicator: the same on all ranks. */
static void ordinals(void)
{
    uint32_t number = count_comm_number("MPI_COMM_WORLD"),
             before = atomic_load(&mpi_comm_at(area, number)->collectives);
    int most, least, mine;
    W(MPI_Barrier)(MPI_COMM_WORLD);
    W(MPI_Allreduce)(in, out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_EQUAL(atomic_load(&mpi_comm_at(area, number)->collectives), before + 2);
    CHECK_EQUAL(mpi_thread_at(area, 0)->now.ordinal, before + 2);
    mine = (int)before;
    MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    CHECK_EQUAL(most, least);
}

int main(int argc, char **argv)
{
    count_start();
    W(MPI_Init)(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &r);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    for (int i = 0; i < 64; i++) {
        counts[i] = i + 1;
        displacements[i] = i ? displacements[i - 1] + counts[i - 1] : 0;
        far_displacements[i] = 64 * i;
        types[i] = MPI_DOUBLE;
    }
    count_reset();
    rooted(0);
    rooted(n - 1);
    everywhere();
    uneven();
    posted();
    if (n > 1)
        between();
    neighbours();
    ordinals();
    W(MPI_Finalize)();
    return count_end();
}
