/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending WAY: how ranks end. Each first sends STEPS messages of 8 bytes to the next and gets as many.
 *
 *     finalize    as it should be
 *     kill        rank 1 is killed, the others wait for it
 *     wait        all wait for a file named "go" to appear, then as finalize
 *     abort       rank 1 calls MPI_Abort with 3
 *     exit        all end without MPI_Finalize, with status 0
 *     never       rank 1 never calls MPI_Init (nor do the others)
 *     status      rank 0 returns 5
 *     input       rank 0 copies its standard input, other ranks have none
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 100 };

int main(int argc, char **argv)
{
    int rank, size;
    double out = 1, in = 0;
    const char *way = argc > 1 ? argv[1] : "finalize";
    if (strcmp(way, "never") == 0)
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < STEPS; i++)
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, &in, 1, MPI_DOUBLE, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD); /* the launcher may end the others as soon as one is gone */
    if (strcmp(way, "kill") == 0) {
        if (rank == 1)
            raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "wait") == 0) {
        printf("waiting %d %d\n", rank, (int)getpid());
        fflush(stdout);
        while (access("go", F_OK) != 0)
            usleep(10000);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "abort") == 0) {
        if (rank == 1)
            MPI_Abort(MPI_COMM_WORLD, 3);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "exit") == 0) {
        _exit(0);
    } else if (strcmp(way, "input") == 0) {
        char line[256];
        while (rank == 0 && fgets(line, sizeof line, stdin))
            fputs(line, stdout);
        fflush(stdout);
    }
    MPI_Finalize();
    return strcmp(way, "status") == 0 && rank == 0 ? 5 : 0;
}
