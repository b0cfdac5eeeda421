/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 sends 10 messages of 16 bytes to each other rank. Also as a library that another program loads: run(). */
#include <mpi.h>
#include <stdio.h>

int run(int argc, char **argv)
{
    int rank, size;
    double numbers[2] = {1, 2};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int to = 1; to < size; to++)
        for (int i = 0; i < 10; i++) {
            if (rank == 0)
                MPI_Send(numbers, 2, MPI_DOUBLE, to, 1, MPI_COMM_WORLD);
            else if (rank == to)
                MPI_Recv(numbers, 2, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}

#ifndef PLUGIN
int main(int argc, char **argv)
{
    return run(argc, argv);
}
#endif
