/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killed: rank 0 sends rank 1 what nobody receives, rank 1 waits for what nobody sends, rank 2 is in a barrier; when
 * they are there, rank 3 kills them and itself.
 *
 * Nothing comes back from such calls by which rank 3 could know. But a rank changes its name next to its call, and what
 * uses the processor for so long from then on is the call, which polls.
 */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define THERE "in its call"

enum { TICKS = 5, LOOK_US = 5000, SLEEPS = 2000 }; /* of the processor's time; looks at one that does not poll */

static bool has_name(int pid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    bool there = file && fgets(name, sizeof name, file) && strncmp(name, THERE, strlen(THERE)) == 0;
    if (file)
        fclose(file);
    return there;
}

/* Ticks of the processor that its main thread has used. */
static unsigned long used(int pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    FILE *file = fopen(path, "r");
    const char *behind = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    if (behind)
        sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
    if (file)
        fclose(file);
    return user + kernel;
}

static void wait_for(int pid)
{
    while (!has_name(pid))
        usleep(LOOK_US);
    unsigned long before = used(pid);
    for (int sleeps = 0; sleeps < SLEEPS && used(pid) < before + TICKS; sleeps++)
        usleep(LOOK_US);
}

int main(int argc, char **argv)
{
    int rank, number = 0, pids[4], own = (int)getpid();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Allgather(&own, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    if (rank < 3)
        prctl(PR_SET_NAME, THERE);
    if (rank == 0)
        MPI_Ssend(&number, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
    else if (rank == 1)
        MPI_Recv(&number, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 2)
        MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++)
        wait_for(pids[i]);
    for (int i = 0; i < 4; i++)
        kill(pids[i], SIGKILL);
    return 0;
}
