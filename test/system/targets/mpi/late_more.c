/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks, of which 0 is 120 ms late for everything: messages that are probed, or completed by another call than the
 * one that began them, collective operations likewise, communicators, windows, files. The only argument is a folder. */
#include "late.h"

enum { LATE_US = 120000, TAG = 3, LARGE = 4 << 20 };

static char data[LARGE];
static int rank;

static void late(void)
{
    MPI_Barrier(MPI_COMM_WORLD); /* nobody has to wait for more than this once */
    late_by(LATE_US, rank, 0);
}

static void in_probe(void)
{
    late();
    if (rank == 0)
        MPI_Ssend(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    else {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Recv(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void in_mprobe(void)
{
    MPI_Message message;
    late();
    if (rank == 0)
        MPI_Send(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    else {
        MPI_Mprobe(0, TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Mrecv(data, 8, MPI_CHAR, &message, MPI_STATUS_IGNORE);
    }
}

static void wait_for_receive(void)
{
    MPI_Request request;
    late();
    if (rank == 0)
        MPI_Send(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    else {
        MPI_Irecv(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void wait_for_send(void)
{
    MPI_Request request;
    late();
    if (rank == 0)
        MPI_Recv(data, LARGE, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else {
        MPI_Isend(data, LARGE, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void wait_for_all(void)
{
    MPI_Request requests[2];
    late();
    if (rank == 0) {
        MPI_Irecv(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        MPI_Send(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Irecv(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[0]);
        MPI_Issend(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
}

static void for_nonblocking_receive(void)
{
    MPI_Request request;
    late();
    if (rank == 0) {
        MPI_Irecv(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else
        MPI_Ssend(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD);
}

static void wait_for_root(void)
{
    MPI_Request request;
    late();
    MPI_Ibcast(data, 4, MPI_CHAR, 0, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void wait_for_barrier(void)
{
    MPI_Request request;
    late();
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void communicators(void)
{
    MPI_Comm copy, half, grid;
    int dims[1] = {2}, periods[1] = {0};
    late();
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    late();
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &half);
    late();
    MPI_Cart_create(copy, 1, dims, periods, 0, &grid);
    MPI_Comm_free(&grid);
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
}

static void windows(void)
{
    MPI_Win window;
    late();
    MPI_Win_create(data, 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    late();
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    late();
    MPI_Win_free(&window);
}

static void files(const char *folder)
{
    char path[1000];
    MPI_File file;
    snprintf(path, sizeof path, "%s/data", folder);
    late();
    MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_close(&file);
}

/* Nobody can say what these wait for: they only look. */
static void looks(void)
{
    int flag = 0;
    late();
    if (rank == 0)
        MPI_Send(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    while (rank == 1 && !flag) {
        MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        usleep(1000);
    }
    if (rank == 1)
        MPI_Recv(data, 8, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    late_start();
    in_probe();
    in_mprobe();
    wait_for_receive();
    wait_for_send();
    wait_for_all();
    for_nonblocking_receive();
    wait_for_root();
    wait_for_barrier();
    communicators();
    windows();
    files(argv[1]);
    looks();
    MPI_Finalize();
    return 0;
}
