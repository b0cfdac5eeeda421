/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of MPI that a process makes to itself, of 1 + n numbers; what each costs is counted. */
#include <mpi.h>

#include "cost.h"

static double out[2], in[2];

static void send_and_wait(int count)
{
    MPI_Request request;
    MPI_Isend(out, count, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* As of a program that polls between any two steps of its own (mpi/count/poll.c). */
static void poll_again(bool count, int tag)
{
    enum { POLLS = 1100, POLLS_BEFORE = 8 };
    for (int flag, i = count ? -POLLS_BEFORE : -POLLS; i < COST_TIMES; i++) {
        cost_mark(count && i >= 0, "Iprobe, again");
        MPI_Iprobe(0, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        cost_mark(count && i >= 0, NULL);
    }
}

static void calls(bool count, int n)
{
    int flag, rank, many = 1 + n;
    COST("Comm_rank", count, MPI_Comm_rank(MPI_COMM_WORLD, &rank))
    COST("Iprobe", count, MPI_Iprobe(0, 6 + many, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE))
    poll_again(count, 6 + many);
    COST("Allreduce", count, MPI_Allreduce(out, in, many, MPI_DOUBLE, MPI_SUM, MPI_COMM_SELF))
    COST("Sendrecv", count,
         MPI_Sendrecv(out, many, MPI_DOUBLE, 0, 1, in, many, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE))
    for (int i = 0; i < (count ? COST_TIMES : COST_WARM); i++) {
        MPI_Request request;
        MPI_Irecv(in, many, MPI_DOUBLE, 0, 2, MPI_COMM_WORLD, &request);
        cost_mark(count, "Isend + Wait");
        send_and_wait(many);
        cost_mark(count, NULL);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    cost_serve(calls);
    MPI_Finalize();
    return 0;
}
