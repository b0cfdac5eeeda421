/* SPDX-License-Identifier: Apache-2.0 */
/*
 * traced WAY OUT: sends and receives in all the ways there are, or leaves calls in other ways than by returning. What a
 * trace is to tell of its messages is in OUT.RANK, a line each, in the order in which they are posted and complete:
 *
 *     KIND CALL COMM PEER TAG BYTES       with KIND as the trace has it, COMM world, self or a name of ours
 *
 *     messages    two ranks
 *     jump        an error handler leaves a call by longjmp, several times
 *     fails       a call returns an error
 *     fork        a child of rank 0 makes no calls, and ends
 *     callback    a reduction runs a function of ours
 *     loop N      N calls of MPI_Sendrecv of a rank to itself
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rank, size;
static FILE *out;
static double numbers[64], more[64];

#define SAY(kind, call, comm, peer, tag, bytes) \
    fprintf(out, "%s %s %s %d %d %d\n", kind, call, comm, peer, tag, (int)(bytes))
#define SENT(call, comm, tag, count) SAY("sent", call, comm, 1 - rank, tag, (count) * sizeof *numbers)
#define GOT(call, comm, tag, count) SAY("received", call, comm, 1 - rank, tag, (count) * sizeof *numbers)
#define POSTED(call, peer, tag) SAY("posted", call, "world", peer, tag, sizeof more)
#define ALL(call, comm, root, bytes) SAY("collective", call, comm, root, -3, bytes)
enum { ANY = -1, NONE = -3 /* no root */ };

static void blocking(MPI_Comm comm, const char *name)
{
    MPI_Status status;
    if (rank == 0) {
        MPI_Send(numbers, 3, MPI_DOUBLE, 1, 11, comm);
        SENT("MPI_Send", name, 11, 3);
        MPI_Ssend(numbers, 4, MPI_DOUBLE, 1, 12, comm);
        SENT("MPI_Ssend", name, 12, 4);
        MPI_Send(numbers, 1, MPI_DOUBLE, MPI_PROC_NULL, 12, comm); /* nothing */
    } else {
        MPI_Recv(numbers, 64, MPI_DOUBLE, 0, 11, comm, MPI_STATUS_IGNORE);
        GOT("MPI_Recv", name, 11, 3);
        MPI_Recv(numbers, 64, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        GOT("MPI_Recv", name, 12, 4);
        MPI_Recv(numbers, 64, MPI_DOUBLE, MPI_PROC_NULL, 12, comm, &status);
    }
    MPI_Sendrecv(numbers, 5, MPI_DOUBLE, 1 - rank, 13, more, 64, MPI_DOUBLE, 1 - rank, 13, comm, MPI_STATUS_IGNORE);
    SENT("MPI_Sendrecv", name, 13, 5);
    GOT("MPI_Sendrecv", name, 13, 5);
    MPI_Sendrecv_replace(numbers, 6, MPI_DOUBLE, 1 - rank, 14, MPI_ANY_SOURCE, 14, comm, &status);
    SENT("MPI_Sendrecv_replace", name, 14, 6);
    GOT("MPI_Sendrecv_replace", name, 14, 6);
}

static void begun(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int flag = 0;
    MPI_Irecv(more, 64, MPI_DOUBLE, 1 - rank, 21, MPI_COMM_WORLD, &requests[0]);
    POSTED("MPI_Irecv", 1 - rank, 21);
    MPI_Isend(numbers, 7, MPI_DOUBLE, 1 - rank, 21, MPI_COMM_WORLD, &requests[1]);
    SENT("MPI_Isend", "world", 21, 7);
    MPI_Waitall(2, requests, statuses);
    GOT("MPI_Irecv", "world", 21, 7);
    MPI_Irecv(more, 64, MPI_DOUBLE, MPI_ANY_SOURCE, 22, MPI_COMM_WORLD, &requests[0]);
    POSTED("MPI_Irecv", ANY, 22);
    MPI_Send(numbers, 8, MPI_DOUBLE, 1 - rank, 22, MPI_COMM_WORLD);
    SENT("MPI_Send", "world", 22, 8);
    for (; !flag; usleep(1000))
        MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    GOT("MPI_Irecv", "world", 22, 8);
    MPI_Irecv(more, 64, MPI_DOUBLE, 1 - rank, 999, MPI_COMM_WORLD, &requests[0]); /* nothing comes */
    POSTED("MPI_Irecv", 1 - rank, 999);
    MPI_Cancel(&requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
}

static void persistent(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Recv_init(more, 64, MPI_DOUBLE, 1 - rank, 31, MPI_COMM_WORLD, &requests[0]);
    MPI_Send_init(numbers, 9, MPI_DOUBLE, 1 - rank, 31, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 2; i++) {
        MPI_Startall(2, requests);
        POSTED("MPI_Recv_init", 1 - rank, 31);
        SENT("MPI_Send_init", "world", 31, 9);
        MPI_Waitall(2, requests, statuses);
        GOT("MPI_Recv_init", "world", 31, 9);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
}

static void matched(void)
{
    MPI_Message message;
    MPI_Status status;
    if (rank == 0) {
        MPI_Send(numbers, 10, MPI_DOUBLE, 1, 41, MPI_COMM_WORLD);
        SENT("MPI_Send", "world", 41, 10);
        return;
    }
    MPI_Mprobe(MPI_ANY_SOURCE, 41, MPI_COMM_WORLD, &message, &status);
    SAY("probed", "MPI_Mprobe", "world", 0, 41, 0);
    MPI_Mrecv(numbers, 64, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    GOT("MPI_Mrecv", "world", 41, 10);
}

static void collective(void)
{
    MPI_Comm twin;
    MPI_Request request;
    ALL("MPI_Barrier", "world", NONE, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    ALL("MPI_Bcast", "world", 1, 2 * sizeof *numbers);
    MPI_Bcast(numbers, 2, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    ALL("MPI_Comm_dup", "world", NONE, 0);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    blocking(twin, "twin");
    ALL("MPI_Allreduce", "twin", NONE, 3 * sizeof *numbers);
    MPI_Allreduce(numbers, more, 3, MPI_DOUBLE, MPI_SUM, twin);
    ALL("MPI_Ibarrier", "twin", NONE, 0);
    MPI_Ibarrier(twin, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    SAY("collective_done", "MPI_Ibarrier", "twin", NONE, -3, 0);
    ALL("MPI_Comm_free", "twin", NONE, 0);
    MPI_Comm_free(&twin);
}

/* ---- other ends of calls ---- */

static jmp_buf back;

static void jump(MPI_Comm *comm, int *code, ...)
{
    longjmp(back, 1);
}

__attribute__((noinline)) static void bad_send(void)
{
    MPI_Send(numbers, 1, MPI_DOUBLE, size + 5, 1, MPI_COMM_WORLD); /* there is no such rank */
}

static void jumps(void)
{
    MPI_Errhandler handler;
    volatile int times = 0;
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    setjmp(back);
    if (times++ < 5)
        bad_send();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
}

static void fails(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    bad_send();
}

static void add(void *in, void *to, int *count, MPI_Datatype *type)
{
    int bytes;
    MPI_Type_size(*type, &bytes); /* inside of the reduction */
    for (int i = 0; i < *count; i++)
        ((double *)to)[i] += ((double *)in)[i];
}

static void callback(void)
{
    MPI_Op op;
    MPI_Op_create(add, 1, &op);
    MPI_Allreduce(numbers, more, 4, MPI_DOUBLE, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
}

static void loop(int count)
{
    for (int i = 0; i < count; i++)
        MPI_Sendrecv(numbers, 1, MPI_DOUBLE, rank, 1, more, 1, MPI_DOUBLE, rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void forks(void)
{
    pid_t child = rank == 0 ? fork() : -1;
    if (child == 0)
        _exit(0);
    if (child > 0)
        waitpid(child, NULL, 0);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "";
    char path[4096];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    snprintf(path, sizeof path, "%s.%d", argc > 2 ? argv[2] : "traced", rank);
    out = fopen(path, "w");
    if (!out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (strcmp(way, "messages") == 0) {
        blocking(MPI_COMM_WORLD, "world");
        begun();
        persistent();
        matched();
        collective();
    } else if (strcmp(way, "jump") == 0) {
        jumps();
    } else if (strcmp(way, "fails") == 0) {
        fails();
    } else if (strcmp(way, "callback") == 0) {
        callback();
    } else if (strcmp(way, "fork") == 0) {
        forks();
    } else if (strcmp(way, "loop") == 0) {
        loop(argc > 3 ? atoi(argv[3]) : 1);
    }
    fclose(out);
    MPI_Finalize();
    return 0;
}
