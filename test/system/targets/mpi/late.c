/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks that wait for each other by turns, 150 ms each time: for a send, for a receive, for a barrier, for a root.
 * Then messages whose receives complete in another order than they were posted. */
#include "late.h"

enum { LATE_US = 150000, TAG = 3 };

static void late_sender(int rank, char *data)
{
    late_by(LATE_US, rank, 0);
    if (rank == 0) {
        MPI_Send(data, 8, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(data, 8, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void late_receiver(int rank, char *data)
{
    late_by(LATE_US, rank, 1);
    if (rank == 0) {
        MPI_Ssend(data, 16, MPI_CHAR, 1, TAG, MPI_COMM_WORLD);
    } else {
        MPI_Recv(data, 16, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void late_for_all(int rank, char *data)
{
    late_by(LATE_US, rank, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    late_by(LATE_US, rank, 0);
    MPI_Bcast(data, 4, MPI_CHAR, 0, MPI_COMM_WORLD);
}

static void out_of_order(int rank, char *data)
{
    MPI_Request requests[4];
    for (int i = 0; i < 4; i++)
        if (rank == 0)
            MPI_Isend(data, 100 + i, MPI_CHAR, 1, TAG, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(data + 200 * i, 200, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &requests[i]);
    for (int i = 3; i >= 0; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    static char data[1000];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    late_start();
    late_sender(rank, data);
    late_receiver(rank, data);
    late_for_all(rank, data);
    out_of_order(rank, data);
    MPI_Finalize();
    return 0;
}
