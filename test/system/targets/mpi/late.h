/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One of two ranks is late: it lets the other one wait for `us` from the moment on at which that one is at its call,
 * for who has less of the processors than others comes late by itself.
 */
#ifndef TARGET_LATE_H
#define TARGET_LATE_H

#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int late_pids[2];

static void late_start(void)
{
    int own = (int)getpid();
    MPI_Allgather(&own, 1, MPI_INT, late_pids, 1, MPI_INT, MPI_COMM_WORLD);
}

/* Or it is gone. */
static bool late_has_name(int pid, const char *wanted)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    bool there = !file || (fgets(name, sizeof name, file) && strncmp(name, wanted, strlen(wanted)) == 0);
    if (file)
        fclose(file);
    return there;
}

/* Directly before the call, by both. A rank changes its name next to its call. */
static void late_by(unsigned us, int rank, int late)
{
    static int times;
    char name[16];
    snprintf(name, sizeof name, "at call %d.", ++times % 1000);
    if (rank != late) {
        prctl(PR_SET_NAME, name);
        return;
    }
    while (!late_has_name(late_pids[!rank], name))
        usleep(1000);
    usleep(us);
}

#endif
