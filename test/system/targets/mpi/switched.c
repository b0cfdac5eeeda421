/* SPDX-License-Identifier: Apache-2.0 */
/* switched FILE [kill]: two ranks; when they have said so, messages are under way and receives are posted, and they
 * wait until FILE is there. Then these are received, and as many once more are sent and received one by one. Each is of
 * another size. With `kill` the ranks are killed before MPI_Finalize. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { BEFORE = 5, POSTED = 3, AFTER = 10, SIZE = 1024 };

static char room[POSTED][SIZE];

static void send(int size, int tag)
{
    MPI_Send(room[0], size, MPI_CHAR, 1, tag, MPI_COMM_WORLD);
}

static void receive(int tag)
{
    MPI_Recv(room[0], SIZE, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Request requests[POSTED];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
        for (int i = 0; i < BEFORE; i++)
            send(100 + i, 1);
    else
        for (int i = 0; i < POSTED; i++)
            MPI_Irecv(room[i], SIZE, MPI_CHAR, 0, 2, MPI_COMM_WORLD, &requests[i]);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    while (access(argv[1], F_OK) != 0)
        usleep(10000);
    if (rank == 0)
        for (int i = 0; i < POSTED; i++)
            send(200 + i, 2);
    else
        MPI_Waitall(POSTED, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < BEFORE; i++)
        if (rank == 1)
            receive(1);
    for (int i = 0; i < AFTER; i++)
        if (rank == 0) {
            MPI_Recv(room[1], SIZE, MPI_CHAR, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            send(300 + i, 1);
        } else {
            MPI_Send(room[1], 400 + i, MPI_CHAR, 0, 4, MPI_COMM_WORLD);
            receive(1);
        }
    if (argc > 2)
        raise(SIGKILL);
    MPI_Finalize();
    return 0;
}
