/* SPDX-License-Identifier: Apache-2.0 */
/* What test_tracer_load.c brings into its targets. With OWN_MALLOC it looks like one that replaces malloc; with BLOCKS
 * its constructor takes until it is let go. With MPI it has a function that waits, in a library that is named as MPI's.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tracer/test_load_library.h"

/* Takes its time, and spoils what a function may spoil. */
__attribute__((visibility("default"))) long test_load(const struct test_load_data *data);
long test_load(const struct test_load_data *data)
{
    void *blocks[100];
    if (data->inside)
        atomic_fetch_add(data->inside, 1);
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc((size_t)i * 100);
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000 + (now.tv_nsec - begun.tv_nsec) / 1000000 < data->busy_ms);
    close(-1);
    if (data->inside)
        atomic_fetch_sub(data->inside, 1);
    return data->value + 1;
}

#ifdef OWN_MALLOC
__attribute__((visibility("default"))) void *malloc(size_t size);
void *malloc(size_t size)
{
    return calloc(1, size);
}
#endif

#ifdef MPI
__attribute__((visibility("default"))) void MPI_Test_wait(const _Atomic int *until);
void MPI_Test_wait(const _Atomic int *until)
{
    while (!*until)
        ;
}
#endif

#ifdef BLOCKS
__attribute__((constructor)) static void blocks(void)
{
    const char *flag = getenv("TEST_LOAD_FLAG"); /* an address */
    volatile int *until = flag ? (volatile int *)strtoull(flag, NULL, 16) : NULL;
    if (until)
        *until = 1;
    while (until && *until != 2)
        usleep(1000);
}
#endif
