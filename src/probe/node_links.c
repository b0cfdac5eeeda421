/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network links: interfaces with hardware behind them (a `device` link in /sys/class/net), or serial lines. Where a
 * node has none, as in a container, its virtual interfaces that carry an address stand in. Never the loopback.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/node_internal.h"

static bool has(const char *name, const char *what)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    return access(path, F_OK) == 0;
}

static const char *type_name(const char *name, int64_t type)
{
    switch (type) {
    case ARPHRD_ETHER:
        return has(name, "phy80211") || has(name, "wireless") ? "Wi-Fi" : "Ethernet";
    case ARPHRD_INFINIBAND:
        return "InfiniBand";
    case ARPHRD_ATM:
        return "ATM";
    case ARPHRD_FDDI:
        return "FDDI";
    case ARPHRD_IEEE1394:
        return "IEEE1394";
    case ARPHRD_SLIP:
    case ARPHRD_CSLIP:
        return "SLIP";
    case ARPHRD_PPP:
        return "PPP";
    default:
        return "";
    }
}

static bool is_serial(int64_t type)
{
    return type == ARPHRD_PPP || (type >= ARPHRD_SLIP && type <= ARPHRD_CSLIP6);
}

/* IPv4 before IPv6, global before link-local. */
static int address_rank(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return 3;
    if (address->sa_family != AF_INET6)
        return 0;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    return IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) ? 1 : 2;
}

static void find_address(const struct ifaddrs *addresses, const char *name, char ret_text[NODE_TEXT])
{
    int best = 0;
    ret_text[0] = 0;
    for (const struct ifaddrs *a = addresses; a; a = a->ifa_next) {
        if (!a->ifa_addr || strcmp(a->ifa_name, name) != 0 || address_rank(a->ifa_addr) <= best)
            continue;
        const void *bytes = a->ifa_addr->sa_family == AF_INET
                                ? (const void *)&((const struct sockaddr_in *)a->ifa_addr)->sin_addr
                                : (const void *)&((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
        if (inet_ntop(a->ifa_addr->sa_family, bytes, ret_text, NODE_TEXT))
            best = address_rank(a->ifa_addr);
    }
}

/* A port of a bond or bridge has no address itself: its master has. */
static void link_address(const struct ifaddrs *addresses, const char *name, char ret_text[NODE_TEXT])
{
    find_address(addresses, name, ret_text);
    char path[PATH_MAX], target[PATH_MAX];
    snprintf(path, sizeof path, "/sys/class/net/%s/master", name);
    ssize_t len = ret_text[0] ? -1 : readlink(path, target, sizeof target - 1);
    if (len <= 0)
        return;
    target[len] = 0;
    const char *slash = strrchr(target, '/');
    find_address(addresses, slash ? slash + 1 : target, ret_text);
}

/* sysfs tells Mbit/s of Ethernet, -1 or an error when the driver does not know; InfiniBand's rate is its port's. */
static int64_t bandwidth(const char *name)
{
    int64_t mbit = node_read_number("/sys/class/net/%s/speed", name);
    if (mbit > 0)
        return mbit * 1000 / 8;
    char path[PATH_MAX], text[NODE_FILE];
    snprintf(path, sizeof path, "/sys/class/net/%s/device/infiniband", name);
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    int64_t rate = -1;
    const struct dirent *entry;
    while (rate < 0 && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && node_read_text(text, sizeof text, "%s/%s/ports/1/rate", path, entry->d_name))
            rate = (int64_t)(strtod(text, NULL) * 1e6 / 8); /* "100 Gb/sec (4X EDR)" */
    closedir(dir);
    return rate > 0 ? rate : -1;
}

static int compare_links(const void *a, const void *b)
{
    return strverscmp(((const struct node_link *)a)->name, ((const struct node_link *)b)->name);
}

static void collect(struct node_facts *facts, const struct ifaddrs *addresses, bool hardware)
{
    DIR *dir = opendir("/sys/class/net");
    if (!dir)
        return;
    const struct dirent *entry;
    while ((entry = readdir(dir)) && facts->link_count < NODE_LINKS) {
        const char *name = entry->d_name;
        int64_t type = name[0] == '.' ? -1 : node_read_number("/sys/class/net/%s/type", name);
        if (type < 0 || type == ARPHRD_LOOPBACK || strlen(name) >= IF_NAMESIZE)
            continue;
        struct node_link link = {.kbytes_per_s = bandwidth(name), .slow = is_serial(type)};
        memcpy(link.name, name, strlen(name) + 1); /* fits: looked at above */
        link_address(addresses, name, link.address);
        if (hardware ? !has(name, "device") && !link.slow : !link.address[0])
            continue;
        snprintf(link.type, sizeof link.type, "%s", type_name(name, type));
        facts->links[facts->link_count++] = link;
    }
    closedir(dir);
    qsort(facts->links, facts->link_count, sizeof facts->links[0], compare_links);
}

void node_links_read(struct node_facts *facts)
{
    struct ifaddrs *addresses = NULL;
    if (getifaddrs(&addresses) < 0)
        addresses = NULL;
    facts->link_count = 0;
    collect(facts, addresses, true);
    if (facts->link_count == 0)
        collect(facts, addresses, false);
    if (addresses)
        freeifaddrs(addresses);
}
