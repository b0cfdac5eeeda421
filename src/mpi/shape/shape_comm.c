/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/shape.h"

#include "mpi/count/comm.h"
#include "mpi/shape/request.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* All processes of the parent take part in all of these, but for MPI_Comm_create_group and those without a parent: they
 * stand in the order of its collectives, like a barrier. */
static bool is_collective(const struct mpi_args *args)
{
    return args->call != CALL_MPI_Comm_create_group;
}

void comm_new_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    struct comm_info *parent = comm_find(self, args->comm);
    target.comm = parent->number;
    if (is_collective(args))
        target.ordinal = comm_ordinal(parent);
    if (args->call == CALL_MPI_Comm_spawn || args->call == CALL_MPI_Comm_spawn_multiple ||
        args->call == CALL_MPI_Comm_accept || args->call == CALL_MPI_Comm_connect)
        target.peer = comm_world_rank(parent, args->root);
    self_begin(self, args->blocking, &target);
}

static bool is_null(MPI_Comm comm)
{
    return HANDLE_OF(comm) == 0 || HANDLE_OF(comm) == HANDLE_OF(mpi_library.comm_null);
}

void comm_new_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS || !mpi_hot.area)
        return;
    struct comm_info *parent = comm_find(self, args->comm);
    if (parent->kind == MPIA_COMM_FREE && HANDLE_OF(args->comm))
        parent = comm_adopt(self, args->comm);
    uint32_t ordinal = is_collective(args) ? comm_made(parent) : comm_made_by_group(parent, args->group, args->tag);
    if (!is_null(*args->newcomm)) /* MPI_UNDEFINED, or not in the group: others have got one */
        comm_note(self, *args->newcomm, parent, args->call, ordinal);
}

/* ---- programs that meet ---- */

/*
 * What two programs that meet (MPI_Comm_connect and MPI_Comm_accept, MPI_Comm_join) both know of it: the port's name,
 * or the two addresses of the socket. MPI itself does not say to either which the other one is. As a number, the same
 * on both sides: struct mpi_comm.meeting.
 */
enum { PORT_MOST = 4096 }; /* more than MPI_MAX_PORT_NAME of any library */

static uint64_t meeting_hash(const void *bytes, size_t size)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        value = (value ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return value;
}

/* As one of JSON's numbers, which have a sign; never 0. */
static uint64_t meeting_number(uint64_t value, bool here)
{
    value = (value ^ value >> 31) * UINT64_C(0x94d049bb133111eb);
    value = (value ^ value >> 29) & INT64_MAX & ~(uint64_t)MPIA_MEETING_HERE;
    return value | 1 | (here ? MPIA_MEETING_HERE : 0);
}

/* 0: there is none. */
static uint64_t meeting_at_port(const char *name)
{
    size_t size = name ? strnlen(name, PORT_MOST) : 0;
    while (size && (uint8_t)name[size - 1] <= ' ') /* it may have come out of a file, or from Fortran */
        size--;
    return size ? meeting_number(meeting_hash(name, size), false) : 0;
}

struct socket_end { /* no padding */
    struct in6_addr address;
    uint32_t port;
};

/* Such an address each host has. */
static bool is_loopback(const struct in6_addr *address)
{
    bool four = IN6_IS_ADDR_V4MAPPED(address);
    return four ? address->s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(address);
}

/* An address of IPv4 is the same as it is in IPv6: the two sides may have opened their sockets differently. */
static bool socket_end_of(const struct sockaddr_storage *name, struct socket_end *ret_end)
{
    memset(ret_end, 0, sizeof *ret_end);
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)name;
        ret_end->address.s6_addr[10] = ret_end->address.s6_addr[11] = 0xff;
        memcpy(&ret_end->address.s6_addr[12], &in->sin_addr, sizeof in->sin_addr);
        ret_end->port = ntohs(in->sin_port);
    } else if (name->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)name;
        ret_end->address = in6->sin6_addr;
        ret_end->port = ntohs(in6->sin6_port);
    }
    return ret_end->port != 0;
}

/* 0: it has no two addresses of the internet (a socket of this host). */
static uint64_t meeting_on_socket(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_size = sizeof own, other_size = sizeof other;
    struct socket_end ends[2];
    int error = errno;
    bool known = getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
                 getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 && socket_end_of(&own, &ends[0]) &&
                 socket_end_of(&other, &ends[1]);
    errno = error;
    /* each side has the other's address as its peer's: the sum does not know which is which */
    if (!known)
        return 0;
    return meeting_number(meeting_hash(&ends[0], sizeof ends[0]) + meeting_hash(&ends[1], sizeof ends[1]),
                          is_loopback(&ends[0].address));
}

/* The port's name is for the root alone: others may have passed anything. */
void comm_connect_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    comm_new_after(self, args, result);
    if (result != MPI_SUCCESS || !mpi_hot.area || is_null(*args->newcomm))
        return;
    const struct comm_info *parent = comm_find(self, args->comm);
    uint64_t meeting = 0;
    if (args->call == CALL_MPI_Comm_join)
        meeting = meeting_on_socket(args->fd);
    else if (parent->kind != MPIA_COMM_FREE && (uint32_t)args->root == parent->rank)
        meeting = meeting_at_port(args->name);
    comm_met(comm_find(self, *args->newcomm), meeting);
}

/* ---- others ---- */

/* The new communicator may not be looked at before the request is complete; but it is the same as its parent. */
void comm_idup_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result != MPI_SUCCESS || !mpi_hot.area)
        return;
    struct comm_info *parent = comm_find(self, args->comm);
    uint32_t ordinal = comm_made(parent);
    if (!is_null(*args->newcomm) && parent->shown)
        comm_note_copy(self, *args->newcomm, parent, args->call, ordinal);
    if (self->counts) {
        struct request_about about = {
            .peer = MPIA_RANK_NONE,
            .tag = MPIA_TAG_NONE,
            .ordinal = self->now->ordinal,
            .comm = parent,
            .peer_call = args->call,
        };
        request_begin(self, *args->request, &about);
    }
}

/* Its handle may be given to another one before we are told that it is free: it is forgotten before. */
void comm_free_before(struct mpi_self *self, const struct mpi_args *args)
{
    struct self_target target = SELF_TARGET_NONE;
    uint64_t handle = args->newcomm ? HANDLE_OF(*args->newcomm) : 0;
    struct comm_info *comm = comm_find_handle(self, handle);
    target.comm = comm->number;
    target.ordinal = comm_ordinal(comm);
    bool predefined =
        handle == HANDLE_OF(mpi_library.comm_world) || handle == HANDLE_OF(mpi_library.comm_self); /* an error */
    if (comm->shown && !predefined)
        comm_forget(handle);
    self_begin(self, args->blocking, &target);
}

void comm_free_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
}

void comm_name_after(struct mpi_self *self, const struct mpi_args *args, int result)
{
    if (result == MPI_SUCCESS && mpi_hot.area)
        comm_name(comm_find(self, args->comm), args->name);
}
