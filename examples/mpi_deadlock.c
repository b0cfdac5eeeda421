/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadlock as it happens in practice. Each rank hands its edge to its right neighbour and gets one from its left:
 * first MPI_Send, then MPI_Recv. Small messages fit into the library's buffers, so all is well, until the edges grow:
 * then MPI_Send waits for the receiver, who waits in its own MPI_Send, all around the circle.
 *
 *     mpirun -n 4 mpi_deadlock [NUMBERS]         default 1000000: hangs. 100: does not
 *
 * `scry why` names the circle. The remedy is MPI_Sendrecv, or MPI_Irecv before MPI_Send.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static void exchange(double *mine, double *theirs, int count, int left, int right)
{
    MPI_Send(mine, count, MPI_DOUBLE, right, 7, MPI_COMM_WORLD); /* waits here */
    MPI_Recv(theirs, count, MPI_DOUBLE, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, count = argc > 1 ? atoi(argv[1]) : 1000000;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    double *mine = calloc((size_t)count + 1, sizeof *mine), *theirs = calloc((size_t)count + 1, sizeof *theirs);
    if (!mine || !theirs)
        MPI_Abort(MPI_COMM_WORLD, 2);
    mine[0] = rank;
    if (rank == 0) {
        printf("every rank sends %d numbers to its right neighbour\n", count);
        fflush(stdout);
    }
    exchange(mine, theirs, count, (rank + size - 1) % size, (rank + 1) % size);
    if (rank == 0)
        printf("got the edge of rank %.0f\n", theirs[0]);
    free(mine);
    free(theirs);
    MPI_Finalize();
    return 0;
}
