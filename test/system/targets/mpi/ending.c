/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ending WAY: how ranks end. Each first sends STEPS messages of 8 bytes to the next and gets as many.
 *
 *     finalize    as it should be
 *     kill        rank 1 is killed, the others wait for it
 *     wait        all wait for a file named "go" to appear, then as finalize
 *     abort       rank 1 calls MPI_Abort with 3
 *     abort0      and with 0
 *     leave       rank 1 says why, and ends with 0 without MPI_Finalize, the others wait for it
 *     error       rank 1 sends to a rank that there is not
 *     exit        all end without MPI_Finalize, with status 0
 *     sealed      all are killed if they read a link or open a file from then on, send as many again,
 *                 write "sent" to a file of their own, and end without MPI_Finalize
 *     never       rank 1 never calls MPI_Init (nor do the others)
 *     status      rank 0 returns 5
 *     input       rank 0 copies its standard input, other ranks have none
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mpi.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STEPS = 100 };

static void seal(void)
{
#define KILLS(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)
    struct sock_filter list[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 KILLS(SYS_readlink),
                                 KILLS(SYS_openat),
                                 KILLS(SYS_socket),
                                 KILLS(SYS_connect),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof list / sizeof *list, list};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        abort();
}

int main(int argc, char **argv)
{
    int rank, size;
    double out = 1, in = 0;
    const char *way = argc > 1 ? argv[1] : "finalize";
    if (strcmp(way, "never") == 0)
        return 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < STEPS; i++)
        MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 1, &in, 1, MPI_DOUBLE, (rank + size - 1) % size, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD); /* the launcher may end the others as soon as one is gone */
    if (strcmp(way, "kill") == 0) {
        if (rank == 1)
            raise(SIGKILL);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "wait") == 0) {
        printf("waiting %d %d\n", rank, (int)getpid());
        fflush(stdout);
        while (access("go", F_OK) != 0)
            usleep(10000);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "leave") == 0) {
        if (rank == 1) {
            fprintf(stderr, "ERROR: the mesh is empty\n");
            exit(0);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "error") == 0) {
        if (rank == 1)
            MPI_Send(&out, 1, MPI_DOUBLE, 99, 1, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "abort") == 0 || strcmp(way, "abort0") == 0) {
        if (rank == 1)
            MPI_Abort(MPI_COMM_WORLD, strcmp(way, "abort") == 0 ? 3 : 0);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (strcmp(way, "sealed") == 0) {
        char name[32];
        snprintf(name, sizeof name, "sent.%d", rank);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        seal();
        for (int i = 0; i < STEPS; i++)
            MPI_Sendrecv(&out, 1, MPI_DOUBLE, (rank + 1) % size, 2, &in, 1, MPI_DOUBLE, (rank + size - 1) % size, 2,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (write(fd, "sent", 4) == 4)
            MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);
    } else if (strcmp(way, "exit") == 0) {
        _exit(0);
    } else if (strcmp(way, "input") == 0) {
        char line[256];
        while (rank == 0 && fgets(line, sizeof line, stdin))
            fputs(line, stdout);
        fflush(stdout);
    }
    MPI_Finalize();
    return strcmp(way, "status") == 0 && rank == 0 ? 5 : 0;
}
