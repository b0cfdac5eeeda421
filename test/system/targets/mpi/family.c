/* SPDX-License-Identifier: Apache-2.0 */
/* family: starts three processes more by MPI_Comm_spawn, twice, and exchanges messages with them: each parent with each
 * child over the intercommunicator, and all of them in a ring over the merged one, a copy of it, and its even and odd
 * ranks. Prints, for each process, how many messages it has sent. */
#include <mpi.h>
#include <stdio.h>

enum { CHILDREN = 3, TAG = 5 };

static int ring(MPI_Comm comm, int tag)
{
    int rank, size, number = 1, got = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Sendrecv(&number, 1, MPI_INT, (rank + 1) % size, tag, &got, 1, MPI_INT, (rank + size - 1) % size, tag, comm,
                 MPI_STATUS_IGNORE);
    return 1;
}

static int exchange(MPI_Comm other, int child)
{
    int rank, remote, sent = 0, number = 0;
    MPI_Comm all, twin, half;
    MPI_Comm_rank(other, &rank);
    MPI_Comm_remote_size(other, &remote);
    for (int i = 0; i < remote; i++)
        if (child) {
            MPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, TAG, other, MPI_STATUS_IGNORE);
        } else {
            MPI_Send(&rank, 1, MPI_INT, i, TAG, other);
            sent++;
        }
    MPI_Intercomm_merge(other, child, &all);
    MPI_Comm_dup(all, &twin);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_split(all, rank % 2, 0, &half);
    sent += ring(all, 1) + ring(twin, 2) + ring(half, 3);
    MPI_Barrier(all);
    MPI_Comm_free(&all);
    MPI_Comm_free(&twin);
    MPI_Comm_free(&half);
    return sent;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, other;
    int rank, sent = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        sent = exchange(parent, 1);
        MPI_Comm_disconnect(&parent);
    } else {
        for (int i = 0; i < 2; i++) {
            MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                           MPI_ERRCODES_IGNORE);
            sent += exchange(other, 0);
            MPI_Comm_disconnect(&other);
        }
    }
    printf("%s %d sent %d\n", parent == MPI_COMM_NULL ? "parent" : "child", rank, sent);
    MPI_Finalize();
    return 0;
}
