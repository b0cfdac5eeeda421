/* SPDX-License-Identifier: Apache-2.0 */
/* unreceived FILE: each rank but 0 sends it 3 messages of 400 bytes, tag 5, which rank 0 receives when FILE is there. */
#include <mpi.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES = 3, BYTES = 400 };

int main(int argc, char **argv)
{
    int rank, size;
    char bytes[BYTES] = "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; rank && i < MESSAGES; i++)
        MPI_Send(bytes, BYTES, MPI_CHAR, 0, 5, MPI_COMM_WORLD);
    for (int here = 0; access(argv[1], F_OK) < 0; nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL))
        MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &here, MPI_STATUS_IGNORE); /* the library takes what has come */
    for (int i = 0; !rank && i < MESSAGES * (size - 1); i++)
        MPI_Recv(bytes, BYTES, MPI_CHAR, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
