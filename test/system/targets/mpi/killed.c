/* SPDX-License-Identifier: Apache-2.0 */
/* killed: rank 0 sends rank 1 what nobody receives, rank 1 waits for what nobody sends, rank 2 is in a barrier; when
 * they are there (the time is enough for that), rank 3 kills them and itself. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, number = 0, pids[4], own = (int)getpid();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&own, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    if (rank == 0)
        MPI_Ssend(&number, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 2)
        MPI_Barrier(MPI_COMM_WORLD);
    sleep(1);
    for (int i = 0; i < 4; i++)
        kill(pids[i], SIGKILL);
    return 0;
}
