/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mpi_served FILE: three ranks. Each sends 10 messages of 100 bytes, tag 1, to the next one; all add up a number 5
 * times on a communicator named "half" of ranks 0 and 2 (rank 1 on one of its own). Rank 0 posts a receive of 64 bytes
 * from anybody, tag 7, and then receives from rank 1, tag 9, which sends both only when FILE is there; rank 2 waits for
 * all.
 */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES = 10, BYTES = 100, SUMS = 5 };

static void wait_for(const char *file)
{
    while (access(file, F_OK) < 0)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

int main(int argc, char **argv)
{
    int rank, size;
    char out[BYTES] = "", in[BYTES], posted[64], byte = 0;
    double one = 1, sum;
    MPI_Comm half;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < MESSAGES; i++)
        MPI_Sendrecv(out, BYTES, MPI_CHAR, (rank + 1) % size, 1, in, BYTES, MPI_CHAR, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_set_name(half, "half");
    for (int i = 0; i < SUMS; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, half);
    if (rank == 0) {
        MPI_Irecv(posted, sizeof posted, MPI_CHAR, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &request);
        MPI_Recv(&byte, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        wait_for(argv[1]);
        MPI_Send(posted, sizeof posted, MPI_CHAR, 0, 7, MPI_COMM_WORLD);
        MPI_Send(&byte, 1, MPI_CHAR, 0, 9, MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("sum %g\n", sum);
    return 0;
}
