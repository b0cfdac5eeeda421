/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hammer THREADS STEPS: with MPI_THREAD_MULTIPLE, every thread exchanges STEPS messages of 8 bytes with the thread of
 * its number on the other rank (two ranks), each on a communicator of its own or, the odd ones, on MPI_COMM_WORLD.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, steps;
static MPI_Comm own[64];

static void *hammer(void *number)
{
    int self = (int)(long)number;
    double out = self, in = 0;
    MPI_Request requests[2];
    for (int i = 0; i < steps; i++) {
        if (i % 2) {
            MPI_Sendrecv(&out, 1, MPI_DOUBLE, !rank, self, &in, 1, MPI_DOUBLE, !rank, self, own[self],
                         MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(&in, 1, MPI_DOUBLE, !rank, self, own[self], &requests[0]);
            MPI_Isend(&out, 1, MPI_DOUBLE, !rank, self, own[self], &requests[1]);
            MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        }
        if (in != self)
            MPI_Abort(MPI_COMM_WORLD, 4);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, threads = argc > 1 ? atoi(argv[1]) : 4;
    pthread_t ids[64];
    steps = argc > 2 ? atoi(argv[2]) : 1000;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (provided != MPI_THREAD_MULTIPLE || threads > 64)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < threads; i++)
        if (i % 2)
            own[i] = MPI_COMM_WORLD;
        else
            MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    for (long i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, hammer, (void *)i);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    if (rank == 0)
        printf("done\n");
    MPI_Finalize();
    return 0;
}
