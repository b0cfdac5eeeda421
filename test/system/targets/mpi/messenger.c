/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A MPI program that does what it is told: each rank reads lines from the FIFO DIRECTORY/RANK.in, and writes one line
 * for each to DIRECTORY/RANK.out. Between two lines it makes no MPI call.
 *
 *     send TO TAG BYTES VALUE     each byte has the value; "sent"
 *     recv FROM TAG               -1: any; "got FROM TAG BYTES VALUE"
 *     irecv ID FROM TAG           "posted"
 *     recvinit ID FROM TAG, start ID
 *     wait ID, waitall            "got ..." of each in the order of the ids; "cancelled"
 *     waitany                     the one that is complete: "got ..."
 *     cancel ID, free ID
 *     mprobe FROM TAG, mrecv      "matched", "got ..."
 *     sendrecv TO TAG BYTES VALUE FROM TAG
 *     isendrecv TO TAG BYTES VALUE FROM TAG    "posted"; wait 0 (MPI 4)
 *     iprobe FROM TAG             "there BYTES", "nothing"
 *     burst TO TAG COUNT          of one byte each, not waited for: "sent"; settle waits
 *     drain FROM TAG COUNT        receives as many
 *     spawn COUNT                 starts as many, which end at once: "done"
 *     dup, world                  what follows is on a duplicate of MPI_COMM_WORLD
 *     end                         "finalized", and ends when the FIFO does
 *
 * With LARGE_COUNTS it calls those functions that have counts of MPI_Count (MPI 4).
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LARGE_COUNTS
#define MPI_Send MPI_Send_c
#define MPI_Isend MPI_Isend_c
#define MPI_Recv MPI_Recv_c
#define MPI_Irecv MPI_Irecv_c
#define MPI_Sendrecv MPI_Sendrecv_c
#define MPI_Isendrecv MPI_Isendrecv_c
#define MPI_Mrecv MPI_Mrecv_c
#endif

enum { IDS = 16, MOST = 1 << 20, BURST = 4096 };

static FILE *out;
static MPI_Comm comm;
static MPI_Request requests[IDS];
static char *buffers[IDS], *buffer;
static int persistent[IDS];

static int source(int from)
{
    return from < 0 ? MPI_ANY_SOURCE : from;
}

static int any_tag(int tag)
{
    return tag < 0 ? MPI_ANY_TAG : tag;
}

static void say_got(MPI_Status *status, const char *content)
{
    int count = 0, cancelled = 0;
    MPI_Test_cancelled(status, &cancelled);
    if (cancelled) {
        fprintf(out, "cancelled");
        return;
    }
    MPI_Get_count(status, MPI_CHAR, &count);
    fprintf(out, "got %d %d %d %d", status->MPI_SOURCE, status->MPI_TAG, count, count ? content[0] : -1);
}

static void wait_all(void)
{
    MPI_Request active[IDS];
    MPI_Status statuses[IDS];
    int ids[IDS], count = 0;
    for (int i = 0; i < IDS; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            ids[count] = i;
            active[count++] = requests[i];
        }
    MPI_Waitall(count, active, statuses);
    for (int i = 0; i < count; i++) {
        fprintf(out, i ? ", " : "");
        say_got(&statuses[i], buffers[ids[i]]);
        if (!persistent[ids[i]])
            requests[ids[i]] = MPI_REQUEST_NULL;
    }
}

static void requests_do(const char *word, const int *n)
{
    MPI_Status status;
    int id = n[0];
    if (strcmp(word, "irecv") == 0) {
        MPI_Irecv(buffers[id], MOST, MPI_CHAR, source(n[1]), any_tag(n[2]), comm, &requests[id]);
        fprintf(out, "posted");
    } else if (strcmp(word, "recvinit") == 0) {
        MPI_Recv_init(buffers[id], MOST, MPI_CHAR, source(n[1]), any_tag(n[2]), comm, &requests[id]);
        persistent[id] = 1;
        fprintf(out, "made");
    } else if (strcmp(word, "start") == 0) {
        MPI_Start(&requests[id]);
        fprintf(out, "posted");
    } else if (strcmp(word, "wait") == 0) {
        MPI_Wait(&requests[id], &status);
        say_got(&status, buffers[id]);
    } else if (strcmp(word, "waitall") == 0) {
        wait_all();
    } else if (strcmp(word, "waitany") == 0) {
        MPI_Waitany(IDS, requests, &id, &status);
        say_got(&status, buffers[id]);
    } else if (strcmp(word, "cancel") == 0) {
        MPI_Cancel(&requests[id]);
        fprintf(out, "asked");
    } else if (strcmp(word, "free") == 0) {
        MPI_Request_free(&requests[id]);
        fprintf(out, "freed");
    } else
        fprintf(out, "what?");
}

static void messages_do(const char *word, const int *n)
{
    static MPI_Message matched;
    MPI_Status status;
    int flag = 0, count = 0;
    if (strcmp(word, "send") == 0 || strcmp(word, "sendrecv") == 0 || strcmp(word, "isendrecv") == 0)
        memset(buffer, n[3], (size_t)n[2]);
    if (strcmp(word, "send") == 0) {
        MPI_Send(buffer, n[2], MPI_CHAR, n[0], n[1], comm);
        fprintf(out, "sent");
    } else if (strcmp(word, "recv") == 0) {
        MPI_Recv(buffer, MOST, MPI_CHAR, source(n[0]), any_tag(n[1]), comm, &status);
        say_got(&status, buffer);
    } else if (strcmp(word, "sendrecv") == 0) {
        MPI_Sendrecv(buffer, n[2], MPI_CHAR, n[0], n[1], buffers[0], MOST, MPI_CHAR, source(n[4]), any_tag(n[5]), comm,
                     &status);
        say_got(&status, buffers[0]);
#if MPI_VERSION >= 4
    } else if (strcmp(word, "isendrecv") == 0) {
        MPI_Isendrecv(buffer, n[2], MPI_CHAR, n[0], n[1], buffers[0], MOST, MPI_CHAR, source(n[4]), any_tag(n[5]), comm,
                      &requests[0]);
        fprintf(out, "posted");
#endif
    } else if (strcmp(word, "mprobe") == 0) {
        MPI_Mprobe(source(n[0]), any_tag(n[1]), comm, &matched, &status);
        fprintf(out, "matched");
    } else if (strcmp(word, "mrecv") == 0) {
        MPI_Mrecv(buffer, MOST, MPI_CHAR, &matched, &status);
        say_got(&status, buffer);
    } else if (strcmp(word, "iprobe") == 0) {
        MPI_Iprobe(source(n[0]), any_tag(n[1]), comm, &flag, &status);
        if (flag)
            MPI_Get_count(&status, MPI_CHAR, &count);
        fprintf(out, flag ? "there %d" : "nothing", count);
    } else
        requests_do(word, n);
}

static void many_do(const char *word, const int *n)
{
    static MPI_Request sends[BURST];
    static int count;
    if (strcmp(word, "burst") == 0) {
        for (count = 0; count < n[2] && count < BURST; count++)
            MPI_Isend(buffer, 1, MPI_CHAR, n[0], n[1], comm, &sends[count]);
        fprintf(out, "sent");
    } else if (strcmp(word, "drain") == 0) {
        for (int i = 0; i < n[2]; i++)
            MPI_Recv(buffer, 1, MPI_CHAR, n[0], n[1], comm, MPI_STATUS_IGNORE);
        fprintf(out, "drained");
    } else {
        MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
        fprintf(out, "settled");
    }
}

static char *program;

static void communicator_do(const char *word, const int *n)
{
    static char *arguments[] = {"spawned", NULL};
    MPI_Comm children;
    if (strcmp(word, "spawn") == 0) {
        MPI_Comm_spawn(program, arguments, n[0], MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE);
        MPI_Comm_disconnect(&children);
    } else if (strcmp(word, "dup") == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    else
        comm = MPI_COMM_WORLD;
    fprintf(out, "done");
}

int main(int argc, char **argv)
{
    char path[4096], line[256], word[32];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    comm = MPI_COMM_WORLD;
    program = argv[0];
    if (strcmp(argv[1], "spawned") == 0) {
        MPI_Comm_get_parent(&comm);
        MPI_Comm_disconnect(&comm);
        MPI_Finalize();
        return 0;
    }
    buffer = malloc(MOST);
    for (int i = 0; i < IDS; i++) {
        requests[i] = MPI_REQUEST_NULL;
        buffers[i] = malloc(MOST);
    }
    snprintf(path, sizeof path, "%s/%d.out", argv[1], rank);
    out = fopen(path, "w");
    snprintf(path, sizeof path, "%s/%d.in", argv[1], rank);
    FILE *in = fopen(path, "r");
    while (fgets(line, sizeof line, in)) {
        int n[6] = {0};
        if (sscanf(line, "%31s %d %d %d %d %d %d", word, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5]) < 1)
            continue;
        if (strcmp(word, "end") == 0)
            break;
        if (strcmp(word, "dup") == 0 || strcmp(word, "world") == 0 || strcmp(word, "spawn") == 0)
            communicator_do(word, n);
        else if (strcmp(word, "burst") == 0 || strcmp(word, "settle") == 0 || strcmp(word, "drain") == 0)
            many_do(word, n);
        else
            messages_do(word, n);
        fprintf(out, "\n");
        fflush(out);
    }
    MPI_Finalize();
    fprintf(out, "finalized\n");
    fflush(out);
    while (fgets(line, sizeof line, in))
        ;
    return 0;
}
