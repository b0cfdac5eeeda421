/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report has to keep apart. By argument:
 *   merged      a communicator that both groups of another one make
 *   persistent  operations that are posted once and started often: 3 times 10 doubles to the next rank
 *   reset       5 reductions, then counting begins anew, then a barrier
 *   off         counting is off for 50 ms
 *   thread      another thread sends and waits; the rank itself only waits for it: 20 times 8 bytes to the next
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void merged(void)
{
    MPI_Comm half, between, all;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, (rank + 1) % 2, 77, &between);
    MPI_Intercomm_merge(between, rank % 2, &all);
    MPI_Comm_set_name(all, "merged");
    MPI_Barrier(all);
    MPI_Comm_free(&all);
    MPI_Comm_free(&between);
    MPI_Comm_free(&half);
}

static void persistent(void)
{
    double out[10] = {0}, in[10];
    MPI_Request requests[2];
    MPI_Send_init(out, 10, MPI_DOUBLE, (rank + 1) % size, 7, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(in, 10, MPI_DOUBLE, (rank + size - 1) % size, 7, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void reset(void)
{
    int one = 1, sum;
    for (int i = 0; i < 5; i++)
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Pcontrol(2);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void off(void)
{
    MPI_Pcontrol(0);
    usleep(50000);
    MPI_Pcontrol(1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void *exchange(void *ctx)
{
    double out = 0, in;
    MPI_Request request;
    for (int i = 0; i < 20; i++) {
        MPI_Irecv(&in, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
        MPI_Send(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return ctx;
}

static void thread(void)
{
    pthread_t other;
    if (pthread_create(&other, NULL, exchange, NULL) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    pthread_join(other, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"merged", merged}, {"persistent", persistent}, {"reset", reset}, {"off", off}, {"thread", thread}};
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[1], parts[i].name) == 0)
            parts[i].run();
    MPI_Finalize();
    return EXIT_SUCCESS;
}
