/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/shape/meeting.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "shm/mpi_area.h"

enum { PORT_MOST = 4096 }; /* more than MPI_MAX_PORT_NAME of any library */

static uint64_t hash(const void *bytes, size_t size)
{
    uint64_t value = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size; i++)
        value = (value ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
    return value;
}

/* As one of JSON's numbers, which have a sign; never 0. */
static uint64_t shown(uint64_t value, bool here)
{
    value = (value ^ value >> 31) * UINT64_C(0x94d049bb133111eb);
    value = (value ^ value >> 29) & INT64_MAX & ~(uint64_t)MPIA_MEETING_HERE;
    return value | 1 | (here ? MPIA_MEETING_HERE : 0);
}

uint64_t meeting_at_port(const char *name)
{
    size_t size = name ? strnlen(name, PORT_MOST) : 0;
    while (size && (uint8_t)name[size - 1] <= ' ') /* it may have come out of a file, or from Fortran */
        size--;
    return size ? shown(hash(name, size), false) : 0;
}

struct end { /* no padding */
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
static bool end_of(const struct sockaddr_storage *name, struct end *ret_end)
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

uint64_t meeting_on_socket(int fd)
{
    struct sockaddr_storage own = {0}, other = {0};
    socklen_t own_size = sizeof own, other_size = sizeof other;
    struct end ends[2];
    int error = errno;
    bool known = getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
                 getpeername(fd, (struct sockaddr *)&other, &other_size) == 0 && end_of(&own, &ends[0]) &&
                 end_of(&other, &ends[1]);
    errno = error;
    /* each side has the other's address as its peer's: the sum does not know which is which */
    if (!known)
        return 0;
    return shown(hash(&ends[0], sizeof ends[0]) + hash(&ends[1], sizeof ends[1]), is_loopback(&ends[0].address));
}
