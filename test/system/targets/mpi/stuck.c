/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck WAY: three ranks that cannot go on, or hardly.
 *
 *     tag        rank 0 receives another tag than rank 1 sent, and both go to a barrier
 *     wildcard   all receive from anybody
 *     waitall    0 and 1 wait in MPI_Waitall for each other's message, which neither sends; 2 waits for 0
 *     split      as deadlock, but on a made communicator where the ranks have other numbers
 *     ended      rank 0 receives from rank 1, which is done
 *     roots      MPI_Bcast of much, with different roots
 *     left       MPI_Reduce, in which rank 2 names rank 1 as the root, the others rank 0; who is not left in it goes on
 *     clock      rank 1 looks at the clock all the time, the others wait for it
 *     read       all write to a pipe file nobody reads: rank 1 computes (reads a fifo), the others wait for it
 *     ibarrier   0 and 2 wait for the end of MPI_Ibarrier, 1 sleeps
 *     alone      rank 0 receives from anybody on a communicator that only it is in; the others wait in a barrier
 *     silent     0 and 2 receive from 1, which never sends
 *     accept     0 waits for a program to connect, which never comes; 1 and 2 receive from 0
 *     answer     0 receives from anybody and answers; 1 sends to it as soon as there is a file "go", and receives
 *     joined     threads of 0 and 1 receive from each other, and the first ones wait for them; 2 waits for 0
 *     threads    two threads of 0 receive from 1, which waits for 0; 2 is done
 *     mutex      0 and 2 wait for 1, which waits for a mutex that it holds itself
 *     mutexes    two threads of 1 each hold the mutex that the other one wants; 0 and 2 wait for 1
 *     held       0 and 1 receive from each other; 0 holds the mutex that its thread which is to send wants
 *     unsent     0 and 1 receive from each other, and have threads that will send, but read from a fifo first
 *     idle       0 and 1 receive from each other, and have threads that wait for work, which nobody gives
 *     fifo       0 and 2 wait for 1, which opens a fifo that nobody writes
 *     lock       0 holds a lock on the window of 1 and sleeps; 1 and 2 want it
 *     locked     0 holds it and receives from 2, which wants it; 1 waits in a barrier
 *     test       0 asks with MPI_Test for what 1 does not send, which waits for 0; 2 waits in a barrier
 *     testall    0 and 1 ask with MPI_Testall for each other's message, which neither sends; 2 is done
 *     iprobe     0 asks with MPI_Iprobe, which anybody may send; 1 sleeps, 2 waits for 0
 *     sync       0 looks into its window with MPI_Win_sync for what 1 does not put there, which waits for 0; 2 waits for 1
 *     post       0 wants access to the window of 1, which sleeps and does not post; 2 waits for 0
 *     complete   1 has posted for 0 and 2 and waits; 2 does not begin, but receives from 1; 0 receives from 2
 *     file       0 and 2 write to a file together, 1 sleeps
 *     views      0 and 2 write to a file together, 1 sets its size
 *     group, cart, inter, merged, later
 *                on communicators made in so many ways, which have other numbers on each rank: 0 and 1 disagree
 */
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double numbers[300000];

static void answer(int rank)
{
    while (rank == 1 && access("go", F_OK) != 0)
        usleep(10000);
    if (rank == 1)
        MPI_Send(numbers, 1, MPI_DOUBLE, 0, 4, MPI_COMM_WORLD);
    if (rank < 2)
        MPI_Recv(numbers, 1, MPI_DOUBLE, rank == 0 ? MPI_ANY_SOURCE : 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(numbers, 1, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD);
}

static void *receive(void *from)
{
    MPI_Recv(numbers, 1, MPI_DOUBLE, *(int *)from, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return NULL;
}

static void join(int rank)
{
    int other = rank == 0 ? 1 : 0;
    pthread_t thread;
    if (rank == 2)
        receive(&other);
    else if (pthread_create(&thread, NULL, receive, &other) == 0)
        pthread_join(thread, NULL);
}

static void receive_twice(int rank)
{
    int other = 1 - rank;
    pthread_t thread;
    if (rank > 1)
        return;
    if (rank == 0 && pthread_create(&thread, NULL, receive, &other) != 0)
        return;
    MPI_Recv(numbers + 1, 1, MPI_DOUBLE, other, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        pthread_join(thread, NULL);
}

static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both_hold_one;

static void take_both(int first)
{
    pthread_mutex_lock(&mutexes[first]);
    pthread_barrier_wait(&both_hold_one);
    pthread_mutex_lock(&mutexes[1 - first]);
}

static void *takes_both(void *ctx)
{
    take_both(1);
    return ctx;
}

static void *sends_later(void *other)
{
    char byte;
    int fd = open("fifo", O_RDONLY);
    if (read(fd, &byte, 1) == 1)
        MPI_Send(numbers + 1, 1, MPI_DOUBLE, *(int *)other, 4, MPI_COMM_WORLD);
    return other;
}

static void *sends_with_mutex(void *other)
{
    pthread_mutex_lock(&mutexes[0]);
    MPI_Send(numbers + 1, 1, MPI_DOUBLE, *(int *)other, 4, MPI_COMM_WORLD);
    return other;
}

static void *sends_what_comes(void *other)
{
    pthread_mutex_lock(&mutexes[0]);
    pthread_cond_wait(&work, &mutexes[0]);
    MPI_Send(numbers + 1, 1, MPI_DOUBLE, *(int *)other, 4, MPI_COMM_WORLD);
    return other;
}

static void threads_outside(const char *way, int rank)
{
    int other = rank == 0 ? 1 : 0;
    pthread_t thread;
    bool held = strcmp(way, "held") == 0 && rank == 0;
    if (held)
        pthread_mutex_lock(&mutexes[0]);
    if (strcmp(way, "mutexes") == 0 && rank == 1) {
        pthread_barrier_init(&both_hold_one, NULL, 2);
        if (pthread_create(&thread, NULL, takes_both, NULL) == 0)
            take_both(0);
    } else if (rank < 2 && (held || strcmp(way, "held") != 0)) {
        void *(*run)(void *) = held ? sends_with_mutex : strcmp(way, "idle") == 0 ? sends_what_comes : sends_later;
        if (pthread_create(&thread, NULL, run, &other))
            return;
    }
    MPI_Recv(numbers, 1, MPI_DOUBLE, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank < 2 && !held)
        pthread_join(thread, NULL);
}

static void look_into_window(int rank)
{
    MPI_Win window;
    double *base;
    MPI_Win_allocate(sizeof *base, sizeof *base, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    *base = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    while (rank == 0 && *(volatile double *)base == 0)
        MPI_Win_sync(window);
    MPI_Recv(numbers, 1, MPI_DOUBLE, rank - 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void want_lock(const char *way, int rank)
{
    MPI_Win window;
    MPI_Win_create(numbers, sizeof numbers, sizeof *numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        MPI_Put(numbers, 1, MPI_DOUBLE, 1, 0, 1, MPI_DOUBLE, window);
        MPI_Win_flush(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && strcmp(way, "lock") == 0)
        sleep(1000);
    else if (rank == 0)
        MPI_Recv(numbers, 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 2 || strcmp(way, "lock") == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        MPI_Put(numbers, 1, MPI_DOUBLE, 1, 1, 1, MPI_DOUBLE, window);
        MPI_Win_unlock(1, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void access_epoch(int target, MPI_Group group, MPI_Win window)
{
    MPI_Win_start(group, 0, window);
    MPI_Put(numbers, 1, MPI_DOUBLE, target, 0, 1, MPI_DOUBLE, window);
    MPI_Win_complete(window);
}

static void epochs(const char *way, int rank)
{
    static const int origins[] = {0, 2}, target = 1;
    bool complete = strcmp(way, "complete") == 0;
    MPI_Win window;
    MPI_Group all, one, two;
    MPI_Win_create(numbers, sizeof numbers, sizeof *numbers, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 1, &target, &one);
    MPI_Group_incl(all, 2, origins, &two);
    for (int i = 0; i < 2; i++) { /* twice as it should be */
        if (rank == 1) {
            MPI_Win_post(two, 0, window);
            MPI_Win_wait(window);
        } else
            access_epoch(1, one, window);
    }
    if (rank == 1 && complete) {
        MPI_Win_post(two, 0, window);
        MPI_Win_wait(window);
    } else if (rank == 1) {
        sleep(1000);
    } else if (rank == 0) {
        access_epoch(1, one, window);
    }
    if (rank != 1)
        MPI_Recv(numbers, 1, MPI_DOUBLE, rank == 0 ? 2 : complete ? 1 : 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void poll_with(const char *way, int rank)
{
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    int come = 0, other = 1 - rank;
    if (strcmp(way, "iprobe") == 0) {
        while (rank == 0 && !come) {
            MPI_Iprobe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &come, MPI_STATUS_IGNORE);
            usleep(1000);
        }
        if (rank == 1)
            sleep(1000);
        MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (strcmp(way, "test") == 0 && rank == 0) {
        MPI_Irecv(numbers, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, requests);
        while (!come)
            MPI_Test(requests, &come, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "test") == 0) {
        if (rank == 1)
            MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (rank < 2) {
        MPI_Irecv(numbers, 1, MPI_DOUBLE, other, 5, MPI_COMM_WORLD, requests);
        MPI_Irecv(numbers + 1, 1, MPI_DOUBLE, other, 6, MPI_COMM_WORLD, requests + 1);
        while (!come)
            MPI_Testall(2, requests, &come, MPI_STATUSES_IGNORE);
    }
}

static void disagree(MPI_Comm comm, int rank)
{
    if (rank == 0)
        MPI_Allreduce(numbers, numbers + 1, 1, MPI_DOUBLE, MPI_SUM, comm);
    else
        MPI_Barrier(comm);
}

/* Ranks 0 and 1 of `comm` in a group. */
static MPI_Comm two_of(MPI_Comm comm, int tag)
{
    static const int members[] = {0, 1};
    MPI_Group all, two;
    MPI_Comm made;
    MPI_Comm_group(comm, &all);
    MPI_Group_incl(all, 2, members, &two);
    MPI_Comm_create_group(comm, two, tag, &made);
    return made;
}

static void communicators(const char *way, int rank)
{
    MPI_Comm own[3], made, other;
    for (int i = 0; i < rank; i++) /* numbers differ */
        MPI_Comm_dup(MPI_COMM_SELF, &own[i]);
    if (strcmp(way, "cart") == 0) { /* made of one that is made of another one */
        int size = 3, turns = 1;
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &other);
        MPI_Cart_create(other, 1, &size, &turns, 1, &made);
        disagree(made, rank);
        return;
    }
    if (strcmp(way, "inter") == 0 || strcmp(way, "merged") == 0) { /* 0 on one side, 1 and 2 on the other */
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 3, &made);
        if (strcmp(way, "merged") == 0) {
            MPI_Intercomm_merge(made, rank > 0, &other);
            made = other;
            disagree(made, rank);
        } else { /* what disagrees between two groups may end in an error */
            if (rank == 1)
                sleep(1000);
            MPI_Barrier(made);
        }
        return;
    }
    if (strcmp(way, "later") == 0) {
        MPI_Request request;
        MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        disagree(made, rank);
        return;
    }
    if (rank == 2)
        return;
    two_of(MPI_COMM_WORLD, 5);
    made = two_of(MPI_COMM_WORLD, 7);
    disagree(two_of(made, 7), rank);
}

static void file(const char *way, int rank)
{
    MPI_File handle;
    MPI_File_open(MPI_COMM_WORLD, "together", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &handle);
    if (rank == 1 && strcmp(way, "file") == 0)
        sleep(1000);
    if (rank == 1)
        MPI_File_set_size(handle, 1 << 20);
    else
        MPI_File_write_all(handle, numbers, 1000, MPI_DOUBLE, MPI_STATUS_IGNORE);
}

__attribute__((noinline)) static void look_at_clock(void)
{
    for (struct timespec now;;)
        clock_gettime(CLOCK_MONOTONIC, &now);
}

int main(int argc, char **argv)
{
    int rank, other;
    const char *way = argc > 1 ? argv[1] : "";
    MPI_Request requests[2];
    static const char *const threaded[] = {"joined", "threads", "mutexes", "held", "unsent", "idle"};
    bool threads = false;
    for (size_t i = 0; i < sizeof threaded / sizeof *threaded; i++)
        threads |= strcmp(way, threaded[i]) == 0;
    MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &other);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    other = rank == 0 ? 1 : 0;
    if (strcmp(way, "tag") == 0) {
        if (rank == 1)
            MPI_Send(numbers, 1, MPI_DOUBLE, 0, 6, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Recv(numbers, 1, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "wildcard") == 0) {
        MPI_Recv(numbers, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "waitall") == 0 && rank < 2) {
        MPI_Irecv(numbers, 1, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(numbers + 1, 1, MPI_DOUBLE, 2, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (strcmp(way, "waitall") == 0) { /* what it has sent is no longer waited for */
        MPI_Send(numbers, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
        MPI_Send(numbers, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "split") == 0) {
        MPI_Comm turned;
        MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned); /* world rank 2 is 0 there, 0 is 2 */
        if (rank != 1)
            MPI_Recv(numbers, 1, MPI_DOUBLE, rank, 1, turned, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "ended") == 0) {
        if (rank == 0)
            MPI_Recv(numbers, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "roots") == 0) {
        MPI_Bcast(numbers, 300000, MPI_DOUBLE, rank == 1 ? 1 : 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "left") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        double sum, one = 1;
        MPI_Reduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, rank == 2 ? 1 : 0, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "clock") == 0) {
        if (rank == 1)
            look_at_clock();
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "read") == 0) {
        char byte;
        if (rank == 1) {
            int fd = open("fifo", O_RDWR);
            ssize_t got = fd < 0 ? -1 : read(fd, &byte, 1);
            (void)got;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "ibarrier") == 0) {
        if (rank == 1)
            sleep(1000);
        MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    } else if (strcmp(way, "mutex") == 0) {
        static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        for (int i = 0; i < 2 && rank == 1; i++)
            pthread_mutex_lock(&mutex);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (threads && strcmp(way, "joined") != 0 && strcmp(way, "threads") != 0) {
        if (rank < 2 || strcmp(way, "unsent") != 0)
            threads_outside(way, rank);
    } else if (strcmp(way, "fifo") == 0) {
        if (rank == 1)
            rank += open("some-fifo", O_RDONLY);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "answer") == 0) {
        answer(rank);
    } else if (strcmp(way, "joined") == 0) {
        join(rank);
    } else if (strcmp(way, "threads") == 0) {
        receive_twice(rank);
    } else if (strcmp(way, "lock") == 0 || strcmp(way, "locked") == 0) {
        want_lock(way, rank);
    } else if (strcmp(way, "test") == 0 || strcmp(way, "testall") == 0 || strcmp(way, "iprobe") == 0) {
        poll_with(way, rank);
    } else if (strcmp(way, "sync") == 0) {
        look_into_window(rank);
    } else if (strcmp(way, "post") == 0 || strcmp(way, "complete") == 0) {
        epochs(way, rank);
    } else if (strcmp(way, "alone") == 0) {
        if (rank == 0)
            MPI_Recv(numbers, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "accept") == 0) {
        char port[MPI_MAX_PORT_NAME];
        MPI_Comm other;
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        }
        MPI_Recv(numbers, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "silent") == 0) {
        if (rank == 1)
            sleep(1000);
        MPI_Recv(numbers, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (strcmp(way, "file") == 0 || strcmp(way, "views") == 0) {
        file(way, rank);
    } else {
        communicators(way, rank);
    }
    MPI_Finalize();
    return 0;
}
