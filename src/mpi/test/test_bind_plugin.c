/* SPDX-License-Identifier: Apache-2.0 */
/* What a program opens itself: nothing of MPI is known to the program. */
#include <mpi.h>

#pragma GCC visibility push(default)
extern int (*const plugin_pointer)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int (*const plugin_pointer)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Status *) = MPI_Recv;
int plugin_send(void);
int plugin_recv(void);

int plugin_send(void)
{
    return MPI_Send(0, 1, (MPI_Datatype)2, 3, 4, (MPI_Comm)5);
}

int plugin_recv(void)
{
    return plugin_pointer(0, 1, (MPI_Datatype)2, 3, 4, (MPI_Comm)5, 0);
}
