/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that exchange nothing with each other: each sends STEPS messages to itself, and ends with the status of its
 * argument; with "wait" they wait before, until they are killed; with
 * "crash" they crash half a second later. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 10 };

int main(int argc, char **argv)
{
    int rank, number = 0, got = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (; number < STEPS; number++)
        MPI_Sendrecv(&number, 1, MPI_INT, 0, 0, &got, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
    printf("rank %d got %d\n", rank, got);
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "crash") == 0) {
        usleep(500000); /* what has just begun may not be seen yet */
        raise(SIGSEGV);
    }
    while (argc > 1 && strcmp(argv[1], "wait") == 0)
        pause();
    MPI_Finalize();
    return argc > 1 ? atoi(argv[1]) : 0;
}
