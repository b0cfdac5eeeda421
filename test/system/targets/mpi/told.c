/* SPDX-License-Identifier: Apache-2.0 */
/*
 * told GO OUT [THREADS]: every rank but the last sends to the next one, in rounds, and counts itself what it does. It
 * begins when the file GO is there, which it looks for without MPI. What it counted is in OUT.RANK, a line `name value`
 * each; OUT.RANK.at is there from MPI_Init on, with addresses.
 *
 * With THREADS (MPI_THREAD_MULTIPLE), each of them does so with its own tag.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, LARGE = 200000, THREADS_MOST = 8, SLOW_NS = 5000000 };

static int rank, size;

struct work {
    int tag;
    uint64_t sends, bytes, even, ns, largest;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void wait_for(const char *path)
{
    struct timespec moment = {0, 1000000};
    while (access(path, F_OK) != 0)
        nanosleep(&moment, NULL);
}

static int count_of(int round)
{
    return round == 7 ? LARGE : round * 3;
}

__attribute__((noinline)) void send_one(struct work *work, const double *numbers, int round)
{
    int count = count_of(round);
    uint64_t begin = now_ns();
    MPI_Send(numbers, count, MPI_DOUBLE, rank + 1, work->tag, MPI_COMM_WORLD);
    work->ns += now_ns() - begin;
    work->sends++;
    work->even += round % 2 == 0;
    work->bytes += (uint64_t)count * sizeof *numbers;
    if ((uint64_t)count > work->largest)
        work->largest = (uint64_t)count;
}

__attribute__((noinline)) void receive_one(struct work *work, double *numbers, int round)
{
    struct timespec moment = {0, SLOW_NS};
    if (round == 7) /* the sender waits for us: too much to be sent off */
        nanosleep(&moment, NULL);
    MPI_Recv(numbers, LARGE, MPI_DOUBLE, MPI_ANY_SOURCE, work->tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void *exchange(void *arg)
{
    struct work *work = arg;
    double *numbers = calloc(LARGE, sizeof *numbers);
    for (int round = 0; numbers && round < ROUNDS; round++) {
        if (rank > 0)
            receive_one(work, numbers, round);
        if (rank + 1 < size)
            send_one(work, numbers, round);
    }
    free(numbers);
    return NULL;
}

/* MPI_Comm_dup calls it: what it calls itself is no call of the program's. */
static int copied(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag)
{
    int members;
    (void)key;
    MPI_Comm_size(comm, &members);
    ++*(int *)extra;
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int duplicates(void)
{
    MPI_Comm copy;
    int key, calls = 0;
    MPI_Comm_create_keyval(copied, MPI_COMM_NULL_DELETE_FN, &key, &calls);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &calls);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_free(&copy);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Comm_free_keyval(&key);
    return calls;
}

/* A call that fails. */
static int failed(void)
{
    int nothing = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return MPI_Send(&nothing, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
}

/* OUT.RANK.at: complete as soon as it is there. */
static void say_where(const char *out)
{
    char path[4096], name[4096];
    snprintf(path, sizeof path, "%s.%d.part", out, rank);
    snprintf(name, sizeof name, "%s.%d.at", out, rank);
    FILE *file = fopen(path, "w");
    if (!file)
        exit(2);
    fprintf(file, "send_one %" PRIuPTR "\nreceive_one %" PRIuPTR "\n", (uintptr_t)send_one, (uintptr_t)receive_one);
    fclose(file);
    rename(path, name);
}

static void say(const char *out, const struct work *work, int threads, int barriers, int nested, int result)
{
    char path[4096];
    struct work all = {0};
    snprintf(path, sizeof path, "%s.%d", out, rank);
    FILE *file = fopen(path, "w");
    if (!file)
        exit(2);
    for (int i = 0; i < threads; i++) {
        all.sends += work[i].sends;
        all.bytes += work[i].bytes;
        all.even += work[i].even;
        all.ns += work[i].ns;
        all.largest = work[i].largest;
    }
    fprintf(file,
            "sends %" PRIu64 "\nbytes %" PRIu64 "\neven %" PRIu64 "\nns %" PRIu64 "\nlargest %" PRIu64
            "\nbarriers %d\nnested %d\nresult %d\n",
            all.sends, all.bytes, all.even, all.ns, all.largest, barriers, nested, result);
    fclose(file);
}

int main(int argc, char **argv)
{
    static struct work work[THREADS_MOST];
    pthread_t ids[THREADS_MOST];
    int threads = argc > 3 ? atoi(argv[3]) : 0, level, barriers = 0;
    if (argc < 3 || threads < 0 || threads > THREADS_MOST)
        return 2;
    if (threads)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS_MOST; i++)
        work[i].tag = 10 + i;
    say_where(argv[2]);
    wait_for(argv[1]);
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, exchange, &work[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    if (!threads)
        exchange(&work[0]);
    for (; barriers < 3; barriers++)
        MPI_Barrier(MPI_COMM_WORLD);
    int nested = duplicates(), result = failed();
    say(argv[2], work, threads ? threads : 1, barriers, nested, result);
    MPI_Finalize();
    return 0;
}
