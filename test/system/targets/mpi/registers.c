/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registers PLUGIN: opens a plugin, which registers its function from its constructor, and never asks the dynamic
 * linker for anything again; calls MPI itself once, and the function three times. Then it looks up MPI_Comm_size as the
 * next one. -DPLUGIN: the plugin.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void registers_add(void (*function)(void));

#ifdef PLUGIN
static void add_up(void)
{
    double one = 1, sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

__attribute__((constructor)) static void registered(void)
{
    registers_add(add_up);
}
#else
static void (*registered)(void);

void registers_add(void (*function)(void))
{
    registered = function;
}

int main(int argc, char **argv)
{
    int size = 0;
    Dl_info info;
    MPI_Init(&argc, &argv);
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW) || !registered)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        registered();
    int (*next)(MPI_Comm, int *) = (int (*)(MPI_Comm, int *))dlsym(RTLD_NEXT, "MPI_Comm_size");
    next(MPI_COMM_WORLD, &size);
    if (!dladdr((void *)next, &info) || !strstr(info.dli_fname, "libmpi") || size < 1)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Finalize();
    return 0;
}
#endif
