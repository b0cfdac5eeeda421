/* SPDX-License-Identifier: Apache-2.0 */
/* calls CLASS...: calls of MPI of each class, of four ranks, and what is to be seen of them (expect.h). */
#include "expect.h"

#include <unistd.h>

enum { RANKS = 4, LENGTH = 10 };

static int rank, size, left, right;
static double out[LENGTH * RANKS], in[LENGTH * RANKS];
static const long long D = sizeof(double);

static void blocking(void)
{
    static char room[4096];
    MPI_Status status;
    MPI_Message message;
    void *detached;
    int detached_size;
    /* a message to the right, of each kind */
    if (rank % 2 == 0) {
        DO(MPI_Send, 3 * D, out, 3, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
        DO(MPI_Ssend, 4 * D, out, 4, MPI_DOUBLE, right, 2, MPI_COMM_WORLD);
        DO(MPI_Recv, LENGTH * D, in, LENGTH, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &status);
        DO(MPI_Recv, LENGTH * D, in, LENGTH, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        DO(MPI_Recv, LENGTH * D, in, LENGTH, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
        DO(MPI_Recv, LENGTH * D, in, LENGTH, MPI_DOUBLE, left, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        DO(MPI_Send, 3 * D, out, 3, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
        DO(MPI_Ssend, 4 * D, out, 4, MPI_DOUBLE, right, 2, MPI_COMM_WORLD);
    }
    sent(right, 3 * D);
    sent(right, 4 * D);
    got(left, 3 * D);
    got(left, 4 * D);
    DO(MPI_Buffer_attach, 0, room, sizeof room);
    DO(MPI_Bsend, 2 * D, out, 2, MPI_DOUBLE, left, 3, MPI_COMM_WORLD);
    DO(MPI_Probe, 0, right, 3, MPI_COMM_WORLD, &status);
    DO(MPI_Recv, 2 * D, in, 2, MPI_DOUBLE, right, 3, MPI_COMM_WORLD, &status);
    DO(MPI_Buffer_detach, 0, &detached, &detached_size);
    sent(left, 2 * D);
    got(right, 2 * D);
    DO(MPI_Sendrecv, 5 * D, out, 5, MPI_DOUBLE, right, 4, in, LENGTH, MPI_DOUBLE, left, 4, MPI_COMM_WORLD, &status);
    DO(MPI_Sendrecv_replace, 6 * D, out, 6, MPI_DOUBLE, left, 5, right, 5, MPI_COMM_WORLD, &status);
    sent(right, 5 * D);
    got(left, 5 * D);
    sent(left, 6 * D);
    got(right, 6 * D);
    /* to nobody */
    DO(MPI_Send, 3 * D, out, 3, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD);
    DO(MPI_Recv, 3 * D, in, 3, MPI_DOUBLE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    /* a matched probe */
    DO(MPI_Send, 1 * D, out, 1, MPI_DOUBLE, right, 6, MPI_COMM_WORLD);
    DO(MPI_Mprobe, 0, left, 6, MPI_COMM_WORLD, &message, &status);
    DO(MPI_Mrecv, 8 * D, in, 8, MPI_DOUBLE, &message, &status);
    sent(right, 1 * D);
    got(left, 1 * D);
}

static void nonblocking(void)
{
    MPI_Request requests[8];
    MPI_Status status, statuses[8];
    int index, count, indices[8], flag;
    DO(MPI_Irecv, LENGTH * D, in, LENGTH, MPI_DOUBLE, left, 11, MPI_COMM_WORLD, &requests[0]);
    DO(MPI_Isend, 7 * D, out, 7, MPI_DOUBLE, right, 11, MPI_COMM_WORLD, &requests[1]);
    DO(MPI_Wait, 0, &requests[0], &status);
    DO(MPI_Wait, 0, &requests[1], MPI_STATUS_IGNORE);
    sent(right, 7 * D);
    got(left, 7 * D);
    for (int i = 0; i < 4; i++) {
        DO(MPI_Irecv, D, in + i, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 20 + i, MPI_COMM_WORLD, &requests[i]);
        DO(MPI_Issend, D, out + i, 1, MPI_DOUBLE, i % 2 ? left : right, 20 + i, MPI_COMM_WORLD, &requests[4 + i]);
        sent(i % 2 ? left : right, D);
        got(i % 2 ? right : left, D);
    }
    DO(MPI_Waitany, 0, 4, requests, &index, &status);
    DO(MPI_Waitall, 0, 8, requests, MPI_STATUSES_IGNORE);
    DO(MPI_Irecv, D, in, 1, MPI_DOUBLE, left, 31, MPI_COMM_WORLD, &requests[0]);
    DO(MPI_Isend, D, out, 1, MPI_DOUBLE, right, 31, MPI_COMM_WORLD, &requests[1]);
    for (int left_over = 2; left_over > 0; left_over -= count == MPI_UNDEFINED ? left_over : count)
        DO(MPI_Waitsome, 0, 2, requests, &count, indices, statuses);
    sent(right, D);
    got(left, D);
    /* persistent, started three times */
    DO(MPI_Recv_init, 0, in, 2, MPI_DOUBLE, left, 41, MPI_COMM_WORLD, &requests[0]);
    DO(MPI_Send_init, 0, out, 2, MPI_DOUBLE, right, 41, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        DO(MPI_Startall, 4 * D, 2, requests);
        DO(MPI_Waitall, 0, 2, requests, statuses);
    }
    DO(MPI_Start, 2 * D, &requests[1]);
    DO(MPI_Start, 2 * D, &requests[0]);
    for (flag = 0; !flag;)
        DO(MPI_Testall, 0, 2, requests, &flag, statuses);
    DO(MPI_Request_free, 0, &requests[0]);
    DO(MPI_Request_free, 0, &requests[1]);
    for (int i = 0; i < 3; i++) {
        sent(right, 2 * D);
        got(left, 2 * D);
    }
    /* one that is given up, and one that is freed while it is under way */
    DO(MPI_Irecv, D, in, 1, MPI_DOUBLE, left, 99, MPI_COMM_WORLD, &requests[0]);
    DO(MPI_Cancel, 0, &requests[0]);
    DO(MPI_Wait, 0, &requests[0], &status);
    DO(MPI_Test_cancelled, 0, &status, &flag);
    DO(MPI_Isend, D, out, 1, MPI_DOUBLE, right, 51, MPI_COMM_WORLD, &requests[0]);
    DO(MPI_Request_free, 0, &requests[0]);
    DO(MPI_Recv, D, in, 1, MPI_DOUBLE, left, 51, MPI_COMM_WORLD, &status);
    sent(right, D);
    got(left, D);
    DO(MPI_Barrier, 0, MPI_COMM_WORLD);
}

static void collective(void)
{
    int counts[RANKS], places[RANKS];
    MPI_Request request;
    for (int i = 0; i < RANKS; i++) {
        counts[i] = i + 1;
        places[i] = i * LENGTH;
    }
    DO(MPI_Barrier, 0, MPI_COMM_WORLD);
    DO(MPI_Bcast, 5 * D, out, 5, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    DO(MPI_Gather, 2 * D, out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    DO(MPI_Gatherv, (rank + 1) * D, out, rank + 1, MPI_DOUBLE, in, counts, places, MPI_DOUBLE, 2, MPI_COMM_WORLD);
    DO(MPI_Scatter, 3 * D, out, 3, MPI_DOUBLE, in, 3, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    DO(MPI_Scatterv, (rank + 1) * D, out, counts, places, MPI_DOUBLE, in, rank + 1, MPI_DOUBLE, 3, MPI_COMM_WORLD);
    DO(MPI_Allgather, 2 * D, out, 2, MPI_DOUBLE, in, 2, MPI_DOUBLE, MPI_COMM_WORLD);
    DO(MPI_Alltoall, D, out, 1, MPI_DOUBLE, in, 1, MPI_DOUBLE, MPI_COMM_WORLD);
    DO(MPI_Reduce, 4 * D, out, in, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    DO(MPI_Allreduce, 4 * D, out, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    DO(MPI_Allreduce, 4 * D, MPI_IN_PLACE, in, 4, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    DO(MPI_Scan, D, out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    DO(MPI_Exscan, D, out, in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    DO(MPI_Reduce_scatter_block, 2 * D, out, in, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    DO(MPI_Iallreduce, 3 * D, out, in, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
    DO(MPI_Wait, 0, &request, MPI_STATUS_IGNORE);
    DO(MPI_Ibarrier, 0, MPI_COMM_WORLD, &request);
    DO(MPI_Wait, 0, &request, MPI_STATUS_IGNORE);
}

/* Messages on made communicators count for the ranks of MPI_COMM_WORLD. */
static void communicators(void)
{
    MPI_Comm half, copy, between;
    MPI_Datatype column;
    MPI_Request request;
    int mate = rank ^ 2, other = rank ^ 1; /* halves: 0 and 2, 1 and 3, the higher rank first */
    DO(MPI_Comm_split, 0, MPI_COMM_WORLD, rank % 2, -rank, &half);
    DO(MPI_Comm_set_name, 0, half, rank % 2 ? "odd" : "even");
    DO(MPI_Sendrecv, 2 * D, out, 2, MPI_DOUBLE, rank < 2 ? 0 : 1, 1, in, 2, MPI_DOUBLE, rank < 2 ? 0 : 1, 1, half,
       MPI_STATUS_IGNORE);
    sent(mate, 2 * D);
    got(mate, 2 * D);
    DO(MPI_Intercomm_create, 0, half, 0, MPI_COMM_WORLD, rank % 2 ? 2 : 3, 5, &between);
    DO(MPI_Sendrecv, 3 * D, out, 3, MPI_DOUBLE, rank < 2 ? 1 : 0, 1, in, 3, MPI_DOUBLE, rank < 2 ? 1 : 0, 1, between,
       MPI_STATUS_IGNORE);
    sent(other, 3 * D);
    got(other, 3 * D);
    DO(MPI_Comm_dup, 0, half, &copy);
    DO(MPI_Comm_idup, 0, MPI_COMM_WORLD, &(MPI_Comm){0}, &request);
    DO(MPI_Wait, 0, &request, MPI_STATUS_IGNORE);
    DO(MPI_Type_vector, 0, 3, 1, 4, MPI_DOUBLE, &column);
    DO(MPI_Type_commit, 0, &column);
    DO(MPI_Sendrecv, 6 * D, out, 2, column, right, 9, in, 6, MPI_DOUBLE, left, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    sent(right, 6 * D);
    got(left, 6 * D);
    DO(MPI_Type_free, 0, &column);
    DO(MPI_Comm_free, 0, &copy);
    DO(MPI_Comm_free, 0, &between);
    DO(MPI_Comm_free, 0, &half);
}

static void onesided(void)
{
    MPI_Win window;
    DO(MPI_Win_create, 0, in, sizeof in, sizeof *in, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    DO(MPI_Win_fence, 0, 0, window);
    DO(MPI_Put, 2 * D, out, 2, MPI_DOUBLE, right, 0, 2, MPI_DOUBLE, window);
    DO(MPI_Get, 3 * D, out, 3, MPI_DOUBLE, left, 4, 3, MPI_DOUBLE, window);
    DO(MPI_Win_fence, 0, 0, window);
    DO(MPI_Accumulate, D, out, 1, MPI_DOUBLE, right, 8, 1, MPI_DOUBLE, MPI_SUM, window);
    DO(MPI_Win_fence, 0, 0, window);
    DO(MPI_Win_lock, 0, MPI_LOCK_SHARED, right, 0, window);
    DO(MPI_Put, D, out, 1, MPI_DOUBLE, right, rank, 1, MPI_DOUBLE, window);
    DO(MPI_Win_unlock, 0, right, window);
    DO(MPI_Win_free, 0, &window);
}

static void files(void)
{
    MPI_File file;
    MPI_Status status;
    DO(MPI_File_open, 0, MPI_COMM_WORLD, "calls.data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    DO(MPI_File_write_at, 4 * D, file, rank * 4 * D, out, 4, MPI_DOUBLE, &status);
    DO(MPI_File_sync, 0, file);
    DO(MPI_Barrier, 0, MPI_COMM_WORLD);
    DO(MPI_File_read_at_all, 4 * D, file, rank * 4 * D, in, 4, MPI_DOUBLE, &status);
    DO(MPI_File_close, 0, &file);
}

static const struct {
    const char *name;
    void (*run)(void);
} classes[] = {{"blocking", blocking},           {"nonblocking", nonblocking}, {"collective", collective},
               {"communicators", communicators}, {"onesided", onesided},       {"files", files}};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    DO(MPI_Comm_rank, 0, MPI_COMM_WORLD, &rank);
    DO(MPI_Comm_size, 0, MPI_COMM_WORLD, &size);
    if (size != RANKS) {
        fprintf(stderr, "calls: for %d ranks\n", RANKS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    for (int i = 0; i < LENGTH * RANKS; i++)
        out[i] = rank + i / 100.0;
    for (int i = 1; i < argc; i++)
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++)
            if (strcmp(argv[i], classes[c].name) == 0)
                classes[c].run();
    expect_print(rank);
    MPI_Finalize();
    return 0;
}
