/* SPDX-License-Identifier: Apache-2.0 */
/* A program, and with -DLIBRARY a library that it is linked with and that initialises MPI in its constructor. */
#include <mpi.h>
#include <stddef.h>

#ifdef LIBRARY
int ready;

__attribute__((constructor)) static void begin(void)
{
    MPI_Init(NULL, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    ready = 1;
}
#else
extern int ready;

int main(void)
{
    for (int i = 0; i < 4; i++)
        MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return !ready;
}
#endif
