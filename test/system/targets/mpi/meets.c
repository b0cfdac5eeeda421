/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meets: programs that were started on their own and meet.
 *
 *     meets DIR server CLIENTS    accepts one after the other; a port's name is in DIR/port-N when the N-th may come
 *     meets DIR N                 the N-th, which connects
 *
 * Each rank of both sides sends one message to each of the other side, and one in a ring over the merged communicator.
 * Then both ranks 0 have a socket in common over which they join, and the client sends one message. Prints, for each
 * process, how many messages it has sent.
 */
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAG_ACROSS = 1, TAG_RING = 2, TAG_JOINED = 3 };

static char path[4096];

static void say(const char *dir, const char *number, const char *port, int tcp)
{
    char hidden[4200];
    snprintf(path, sizeof path, "%s/port-%s", dir, number);
    snprintf(hidden, sizeof hidden, "%s.new", path);
    FILE *file = fopen(hidden, "w");
    if (!file || fprintf(file, "%d\n%s\n", tcp, port) < 0 || fclose(file) || rename(hidden, path))
        MPI_Abort(MPI_COMM_WORLD, 3);
}

static int hear(const char *dir, const char *number, char *port, size_t size)
{
    int tcp = 0;
    FILE *file;
    snprintf(path, sizeof path, "%s/port-%s", dir, number);
    while (!(file = fopen(path, "r")))
        usleep(1000);
    if (fscanf(file, "%d\n", &tcp) != 1 || !fgets(port, (int)size, file))
        MPI_Abort(MPI_COMM_WORLD, 3);
    port[strcspn(port, "\n")] = 0;
    fclose(file);
    return tcp;
}

static int listening(int *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, 8) ||
        getsockname(fd, (struct sockaddr *)&address, &size))
        MPI_Abort(MPI_COMM_WORLD, 3);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static int calling(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address))
        MPI_Abort(MPI_COMM_WORLD, 3);
    return fd;
}

static int exchange(MPI_Comm other, int client)
{
    int rank, size, remote, number = 7, got = 0;
    MPI_Comm all;
    MPI_Request requests[64];
    MPI_Comm_remote_size(other, &remote);
    for (int i = 0; i < remote; i++)
        MPI_Isend(&number, 1, MPI_INT, i, TAG_ACROSS, other, &requests[i]);
    for (int i = 0; i < remote; i++)
        MPI_Recv(&got, 1, MPI_INT, i, TAG_ACROSS, other, MPI_STATUS_IGNORE);
    MPI_Waitall(remote, requests, MPI_STATUSES_IGNORE);
    MPI_Intercomm_merge(other, client, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    MPI_Sendrecv(&number, 1, MPI_INT, (rank + 1) % size, TAG_RING, &got, 1, MPI_INT, (rank + size - 1) % size, TAG_RING,
                 all, MPI_STATUS_IGNORE);
    MPI_Comm_free(&all);
    return remote + 1;
}

static int join(int fd, int client)
{
    int number = 9;
    MPI_Comm other;
    MPI_Comm_join(fd, &other);
    if (other == MPI_COMM_NULL)
        MPI_Abort(MPI_COMM_WORLD, 4);
    if (client)
        MPI_Send(&number, 1, MPI_INT, 0, TAG_JOINED, other);
    else
        MPI_Recv(&number, 1, MPI_INT, 0, TAG_JOINED, other, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&other);
    close(fd);
    return client;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, sent = 0, tcp = 0, client = argc == 3, clients = client ? 1 : atoi(argv[3]), fd = -1;
    char port[MPI_MAX_PORT_NAME] = "", number[16];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0 && !client) {
        MPI_Open_port(MPI_INFO_NULL, port);
        fd = listening(&tcp);
    }
    for (int i = 0; i < clients; i++) {
        MPI_Comm other;
        snprintf(number, sizeof number, "%d", i);
        if (rank == 0 && client)
            tcp = hear(argv[1], argv[2], port, sizeof port);
        else if (rank == 0)
            say(argv[1], number, port, tcp);
        if (client)
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        else
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
        sent += exchange(other, client);
        MPI_Comm_disconnect(&other);
        if (rank == 0)
            sent += join(client ? calling(tcp) : accept(fd, NULL, NULL), client);
    }
    if (rank == 0 && !client)
        MPI_Close_port(port);
    printf("%s %d sent %d\n", client ? "client" : "server", rank, sent);
    MPI_Finalize();
    return 0;
}
