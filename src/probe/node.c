/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/node.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "lang/value.h"
#include "probe/proc.h"
#include "shm/waits.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <math.h>
#include <net/if_arp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <utmp.h>

enum {
    NODE_TEXT = 64,
    NODE_LINKS = 64, /* network links reported */
    NODE_DISKS = 256,
    NODE_FILE = 256, /* a small file of /proc or /sys */
};

struct node_link {
    char name[IF_NAMESIZE];
    char type[NODE_TEXT];
    char address[NODE_TEXT];
    int64_t kbytes_per_s;
    bool slow; /* a serial line */
};

struct node_facts {
    struct utsname system;
    int64_t boot_time;
    int64_t cpus, max_processes, cpu_mhz;
    int64_t page_size, pages;
    size_t disk_count;
    char disks[NODE_DISKS][32];
    int64_t disk_pages, tmp_pages, swap_pages;
    size_t link_count;
    struct node_link links[NODE_LINKS];
};

/* Measured once. */
struct node_bench {
    bool done;
    double integer, floating, memory;
};

/* Counters since boot; -1: not available. */
enum node_counter {
    COUNT_SWITCHES,
    COUNT_PAGE_IN,
    COUNT_PAGE_OUT,
    COUNT_DISK_READS,
    COUNT_DISK_WRITES,
    COUNT_NFS_READS,
    COUNT_NFS_WRITES,
    COUNT_LOCAL_PACKETS,
    COUNT_FAST_RECEIVED,
    COUNT_FAST_SENT,
    COUNT_SLOW_RECEIVED,
    COUNT_SLOW_SENT,
    NODE_COUNTERS
};
struct node_sample {
    uint64_t time_ns; /* 0: none taken */
    int64_t count[NODE_COUNTERS];
};

/* How many users are logged in, and whether one of them typed within the last five minutes. */
struct node_users {
    int64_t local, local_active, remote, remote_active;
};

static void node_links_read(struct node_facts *facts);

/* Facts of a node that do not change while it runs. Beside each, where it comes from. */

static bool read_text(char *ret_text, size_t size, const char *format, va_list args)
{
    char path[PATH_MAX];
    if (vsnprintf(path, sizeof path, format, args) >= (int)sizeof path)
        return false;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t len = read(fd, ret_text, size - 1);
    if (len < 0)
        return false;
    while (len > 0 && ret_text[len - 1] == '\n')
        len--;
    ret_text[len] = 0;
    return true;
}

bool node_read_text(char *ret_text, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    bool read = read_text(ret_text, size, format, args);
    va_end(args);
    return read;
}

/* The same as a number; -1 when there is none. */
static int64_t node_read_number(const char *format, ...)
{
    char text[NODE_FILE], *end;
    va_list args;
    va_start(args, format);
    bool read = read_text(text, sizeof text, format, args);
    va_end(args);
    if (!read)
        return -1;
    int64_t number = strtoll(text, &end, 10);
    return end == text || number < 0 ? -1 : number;
}

bool node_next_range(const char **at, long *ret_first, long *ret_last)
{
    char *end;
    long first = strtol(*at, &end, 10), last = first;
    if (end == *at)
        return false;
    if (*end == '-')
        last = strtol(end + 1, &end, 10);
    *at = *end == ',' ? end + 1 : end;
    *ret_first = first;
    *ret_last = last;
    return true;
}

/* "NAME 12" or "NAME: 12" at the start of a line; -1 when there is none. */
static int64_t node_find_number(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && (line[len] == ' ' || line[len] == ':'))
            return strtoll(line + len + 1, NULL, 10);
    }
    return -1;
}

/* Processors installed, which may be more than are online: the highest of "0-3,8" + 1 would count holes, so add up. */
static int64_t count_processors(void)
{
    char text[4096];
    int64_t count = 0;
    if (!node_read_text(text, sizeof text, "/sys/devices/system/cpu/present"))
        return sysconf(_SC_NPROCESSORS_CONF);
    const char *at = text;
    for (long first, last; node_next_range(&at, &first, &last);)
        count += last - first + 1;
    return count > 0 ? count : sysconf(_SC_NPROCESSORS_CONF);
}

/* The vendor's frequency; the highest one where only that is known; in a virtual machine what it says of itself. */
static int64_t processor_mhz(void)
{
    int64_t khz = node_read_number("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency");
    if (khz < 0)
        khz = node_read_number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    if (khz > 0)
        return khz / 1000;
    char text[4096]; /* the first processor's lines */
    if (!node_read_text(text, sizeof text, "/proc/cpuinfo"))
        return -1;
    const char *line = strstr(text, "cpu MHz");
    const char *colon = line ? strchr(line, ':') : NULL;
    double mhz = colon ? strtod(colon + 1, NULL) : 0;
    return mhz > 0 ? (int64_t)(mhz + 0.5) : -1;
}

static int64_t max_processes(void)
{
    int64_t ids = node_read_number("/proc/sys/kernel/pid_max");
    int64_t tasks = node_read_number("/proc/sys/kernel/threads-max");
    return ids < 0 || (tasks >= 0 && tasks < ids) ? tasks : ids;
}

static int compare_names(const void *a, const void *b)
{
    return strverscmp(a, b);
}

/*
 * Local disks are block devices with hardware (a `device` link) behind them: no loop, RAM, mapped or RAID devices,
 * which would count the same bytes again; no optical drives, no empty card readers, no hidden paths of multipath NVMe.
 */
static void read_disks(struct node_facts *facts)
{
    DIR *dir = opendir("/sys/block");
    if (!dir)
        return;
    uint64_t sectors = 0; /* of 512 bytes, whatever the device's own are */
    facts->disk_count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir)) && facts->disk_count < NODE_DISKS) {
        const char *name = entry->d_name;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "/sys/block/%s/device", name);
        if (name[0] == '.' || strlen(name) >= sizeof facts->disks[0] || access(path, F_OK) < 0 ||
            strncmp(name, "sr", 2) == 0 || strncmp(name, "fd", 2) == 0 ||
            node_read_number("/sys/block/%s/hidden", name) == 1)
            continue;
        int64_t size = node_read_number("/sys/block/%s/size", name);
        if (size <= 0)
            continue;
        sectors += (uint64_t)size;
        snprintf(facts->disks[facts->disk_count++], sizeof facts->disks[0], "%.31s", name);
    }
    closedir(dir);
    qsort(facts->disks, facts->disk_count, sizeof facts->disks[0], compare_names);
    facts->disk_pages = (int64_t)(sectors * 512 / (uint64_t)facts->page_size);
}

static void node_facts_read(struct node_facts *ret_facts)
{
    struct node_facts *facts = ret_facts;
    memset(facts, 0, sizeof *facts);
    uname(&facts->system);
    _cleanup_(freep) char *stat = NULL;
    facts->boot_time = file_read("/proc/stat", &stat, NULL) == 0 ? node_find_number(stat, "btime") : -1;
    facts->cpus = count_processors();
    facts->max_processes = max_processes();
    facts->cpu_mhz = processor_mhz();
    facts->page_size = sysconf(_SC_PAGESIZE);

    /* Memory that the kernel can use: a little less than is plugged in. */
    char text[4096] = "";
    node_read_text(text, sizeof text, "/proc/meminfo");
    int64_t total_kb = node_find_number(text, "MemTotal"), swap_kb = node_find_number(text, "SwapTotal");
    facts->pages = total_kb < 0 ? -1 : total_kb * 1024 / facts->page_size;
    facts->swap_pages = swap_kb < 0 ? -1 : swap_kb * 1024 / facts->page_size;

    read_disks(facts);
    struct statvfs tmp;
    facts->tmp_pages =
        statvfs("/tmp", &tmp) == 0 ? (int64_t)((uint64_t)tmp.f_blocks * tmp.f_frsize / (uint64_t)facts->page_size) : -1;
    node_links_read(facts);
}

/*
 * Counters that the rates of a node are differences of:
 *   switches            /proc/stat ctxt
 *   pages in, out       /proc/vmstat pgpgin, pgpgout: KBytes from and to block devices, swap and files alike
 *   disk reads, writes  /proc/diskstats, requests completed by the local disks (not by devices mapped on them)
 *   NFS                 /proc/net/rpc/nfs, READ and WRITE calls of all versions
 *   packets             /proc/net/dev; local ones pass the loopback in both directions and are counted once
 * Linux keeps no count of execs (`processes` in /proc/stat are forks) and none of system calls.
 */

static void sample_disks(struct node_sample *sample, const struct node_facts *facts)
{
    _cleanup_(freep) char *text = NULL;
    if (file_read("/proc/diskstats", &text, NULL) < 0)
        return;
    int64_t reads = 0, writes = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        char name[64];
        unsigned long long read, written;
        if (sscanf(line, "%*u %*u %63s %llu %*u %*u %*u %llu", name, &read, &written) != 3)
            continue;
        for (size_t i = 0; i < facts->disk_count; i++)
            if (strcmp(name, facts->disks[i]) == 0) {
                reads += (int64_t)read;
                writes += (int64_t)written;
            }
    }
    sample->count[COUNT_DISK_READS] = reads;
    sample->count[COUNT_DISK_WRITES] = writes;
}

/* The n-th number after the name and the count of numbers, 0 when the line is shorter. */
static int64_t nth_number(const char *line, int n)
{
    char *end = (char *)line + strcspn(line, " ");
    strtoull(end, &end, 10);
    int64_t number = 0;
    for (int i = 0; i <= n; i++) {
        const char *start = end;
        number = (int64_t)strtoull(start, &end, 10);
        if (end == start || *start == '\n')
            return 0;
    }
    return number;
}

static void read_nfs(struct node_sample *sample)
{
    /* Position of READ and WRITE among the procedures of each version (RFC 1094, RFC 1813; for 4 the client's own
     * list, include/linux/nfs4.h). */
    static const struct {
        const char *name;
        int read, write;
    } versions[] = {{"proc2 ", 6, 8}, {"proc3 ", 6, 7}, {"proc4 ", 1, 2}};
    _cleanup_(freep) char *text = NULL;
    int64_t reads = 0, writes = 0;
    if (file_read("/proc/net/rpc/nfs", &text, NULL) < 0) {
        _cleanup_(freep) char *systems = NULL;
        if (file_read("/proc/filesystems", &systems, NULL) < 0 || strstr(systems, "\tnfs"))
            return; /* there is a client that does not tell */
    }
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
            if (strncmp(line, versions[i].name, strlen(versions[i].name)) == 0) {
                reads += nth_number(line, versions[i].read);
                writes += nth_number(line, versions[i].write);
            }
    }
    sample->count[COUNT_NFS_READS] = reads;
    sample->count[COUNT_NFS_WRITES] = writes;
}

static void read_packets(struct node_sample *sample, const struct node_facts *facts)
{
    _cleanup_(freep) char *text = NULL;
    if (file_read("/proc/net/dev", &text, NULL) < 0)
        return;
    for (int i = COUNT_LOCAL_PACKETS; i <= COUNT_SLOW_SENT; i++)
        sample->count[i] = 0;
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        char *colon = strrchr(line, ':'); /* alias names hold colons */
        unsigned long long received, sent;
        if (!colon || sscanf(colon + 1, "%*u %llu %*u %*u %*u %*u %*u %*u %*u %llu", &received, &sent) != 2)
            continue;
        *colon = 0;
        line += strspn(line, " ");
        if (strcmp(line, "lo") == 0)
            sample->count[COUNT_LOCAL_PACKETS] += (int64_t)received;
        for (size_t i = 0; i < facts->link_count; i++) {
            const struct node_link *link = &facts->links[i];
            if (strcmp(line, link->name) == 0) {
                sample->count[link->slow ? COUNT_SLOW_RECEIVED : COUNT_FAST_RECEIVED] += (int64_t)received;
                sample->count[link->slow ? COUNT_SLOW_SENT : COUNT_FAST_SENT] += (int64_t)sent;
            }
        }
    }
}

static void node_sample_read(struct node_sample *ret_sample, const struct node_facts *facts)
{
    struct node_sample *sample = ret_sample;
    for (int i = 0; i < NODE_COUNTERS; i++)
        sample->count[i] = -1;
    sample->time_ns = clock_now_ns();
    _cleanup_(freep) char *stat = NULL;
    if (file_read("/proc/stat", &stat, NULL) == 0)
        sample->count[COUNT_SWITCHES] = node_find_number(stat, "ctxt");
    _cleanup_(freep) char *vmstat = NULL;
    if (file_read("/proc/vmstat", &vmstat, NULL) == 0) {
        int64_t in = node_find_number(vmstat, "pgpgin"), out = node_find_number(vmstat, "pgpgout");
        sample->count[COUNT_PAGE_IN] = in < 0 ? -1 : in * 1024 / facts->page_size;
        sample->count[COUNT_PAGE_OUT] = out < 0 ? -1 : out * 1024 / facts->page_size;
    }
    sample_disks(sample, facts);
    read_nfs(sample);
    read_packets(sample, facts);
}

/* Processes that sleep with pages in memory; reads every process's stat. */
static int64_t node_count_sleeping(void)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return -1;
    int64_t count = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        struct proc_stat stat;
        if (isdigit((unsigned char)entry->d_name[0]) &&
            proc_stat_read((pid_t)strtol(entry->d_name, NULL, 10), 0, &stat) == 0)
            count += stat.state == 'S' && stat.resident_bytes > 0;
    }
    closedir(dir);
    return count;
}

/*
 * Logins: /run/utmp (utmp(5)), where it is kept; else the sessions of systemd-logind, which anybody may read (the files
 * are the ones that sd_login(3) reads). Remote is who came from another host; a display or terminal of this host is
 * local. Active is who used the terminal within five minutes, by its access time.
 */

static bool terminal_used(const char *terminal)
{
    char path[128];
    struct stat info;
    if (!terminal[0] || strstr(terminal, "..") || terminal[0] == ':')
        return false;
    snprintf(path, sizeof path, "/dev/%s", terminal);
    return stat(path, &info) == 0 && S_ISCHR(info.st_mode) && time(NULL) - info.st_atime <= USERS_ACTIVE_SECONDS;
}

static void count_user(struct node_users *users, bool remote, bool active)
{
    *(remote ? &users->remote : &users->local) += 1;
    if (active)
        *(remote ? &users->remote_active : &users->local_active) = 1;
}

static bool from_utmp(struct node_users *users)
{
    _cleanup_(closep) int fd = open(_PATH_UTMP, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    struct utmp entry;
    while (read(fd, &entry, sizeof entry) == sizeof entry) {
        if (entry.ut_type != USER_PROCESS || !entry.ut_user[0])
            continue;
        if (entry.ut_pid > 0 && kill(entry.ut_pid, 0) < 0 && errno == ESRCH)
            continue; /* left behind by a crash */
        char terminal[sizeof entry.ut_line + 1] = "";
        memcpy(terminal, entry.ut_line, sizeof entry.ut_line); /* NUL-terminated only when shorter */
        bool remote = entry.ut_host[0] && entry.ut_host[0] != ':' && strncmp(entry.ut_host, "tmux(", 5) != 0 &&
                      strncmp(entry.ut_host, "login screen", 12) != 0;
        count_user(users, remote, terminal_used(terminal));
    }
    return true;
}

static bool value_assigned(const char *text, const char *assignment)
{
    size_t len = strlen(assignment);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, assignment, len) == 0 && (line[len] == '\n' || !line[len]))
            return true;
    }
    return false;
}

static bool from_sessions(struct node_users *users)
{
    DIR *dir = opendir("/run/systemd/sessions");
    if (!dir)
        return false;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        char text[2048], terminal[64] = "";
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.') || /* "1.ref" is a pipe: opening it would wait */
            entry->d_type != DT_REG || !node_read_text(text, sizeof text, "/run/systemd/sessions/%s", entry->d_name))
            continue;
        if (!value_assigned(text, "CLASS=user") || value_assigned(text, "STATE=closing"))
            continue;
        const char *line = strstr(text, "\nTTY=");
        if (line)
            snprintf(terminal, sizeof terminal, "%.*s", (int)strcspn(line + 5, "\n"), line + 5);
        count_user(users, value_assigned(text, "REMOTE=1"), terminal_used(terminal));
    }
    closedir(dir);
    return true;
}

static void node_users_read(struct node_users *ret_users)
{
    *ret_users = (struct node_users){0};
    if (!from_utmp(ret_users) && !from_sessions(ret_users))
        *ret_users = (struct node_users){-1, -1, -1, -1};
}

/*
 * Network links: interfaces with hardware behind them (a `device` link in /sys/class/net), or serial lines. Where a
 * node has none, as in a container, its virtual interfaces that carry an address stand in. Never the loopback.
 */

static bool line_has(const char *name, const char *what)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", name, what);
    return access(path, F_OK) == 0;
}

static const char *type_name(const char *name, int64_t type)
{
    switch (type) {
    case ARPHRD_ETHER:
        return line_has(name, "phy80211") || line_has(name, "wireless") ? "Wi-Fi" : "Ethernet";
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
    find_address(addresses, basename(target), ret_text);
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

static void sample_collect(struct node_facts *facts, const struct ifaddrs *addresses, bool hardware)
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
        if (hardware ? !line_has(name, "device") && !link.slow : !link.address[0])
            continue;
        snprintf(link.type, sizeof link.type, "%s", type_name(name, type));
        facts->links[facts->link_count++] = link;
    }
    closedir(dir);
    qsort(facts->links, facts->link_count, sizeof facts->links[0], compare_links);
}

static void node_links_read(struct node_facts *facts)
{
    struct ifaddrs *addresses = NULL;
    if (getifaddrs(&addresses) < 0)
        addresses = NULL;
    facts->link_count = 0;
    sample_collect(facts, addresses, true);
    if (facts->link_count == 0)
        sample_collect(facts, addresses, false);
    if (addresses)
        freeifaddrs(addresses);
}

/*
 * The relative performance of a node, by three tiny loops, each the best of three runs of about a millisecond in the
 * processor time of this thread (so that a busy node is not called slow). Higher is faster; compare them between nodes
 * only, they are no statement about any program.
 *   integer   million steps/s of a xorshift64* generator: dependent shifts, exclusive ors and a multiplication
 *   floating  million multiply-adds/s in double precision, in four independent chains
 *   memory    MByte/s of copying one half of 8 MByte to the other (a node's last-level cache may hold that); not where
 *             the job, which these 8 MByte are taken from, may soon need them
 */

enum { RUNS = 3, INTEGER_STEPS = 400000, FLOATING_STEPS = 250000, HALF_BYTES = 4 << 20, LEAST_LEFT = 256 << 20 };

static double integer_run(char *block)
{
    uint64_t state = 88172645463325252u, sum = 0;
    for (int i = 0; i < INTEGER_STEPS; i++) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        sum += state * UINT64_C(2685821657736338717);
    }
    __asm__ volatile("" : : "r"(sum)); /* used, as far as the compiler knows */
    return INTEGER_STEPS / 1e6;
}

static double floating_run(char *block)
{
    double a = 1.0, b = 1.1, c = 1.2, d = 1.3;
    for (int i = 0; i < FLOATING_STEPS; i++) {
        a = a * 0.999999 + 1e-6;
        b = b * 0.999998 + 2e-6;
        c = c * 0.999997 + 3e-6;
        d = d * 0.999996 + 4e-6;
    }
    volatile double sink = a + b + c + d;
    (void)sink;
    return FLOATING_STEPS * 4 / 1e6;
}

static double memory_run(char *block)
{
    memcpy(block, block + HALF_BYTES, HALF_BYTES);
    __asm__ volatile("" : : "r"(block) : "memory");
    return HALF_BYTES / 1e6;
}

static double best_rate(double (*run)(char *block), char *block)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        uint64_t start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        double amount = run(block);
        uint64_t took = clock_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        double rate = amount * 1e9 / (double)(took ? took : 1);
        if (rate > best)
            best = rate;
    }
    return (double)(int64_t)(best * 10) / 10; /* more digits would pretend */
}

static void node_bench_run(struct node_bench *bench)
{
    if (bench->done)
        return;
    bench->done = true;
    bench->integer = best_rate(integer_run, NULL);
    bench->floating = best_rate(floating_run, NULL);
    bench->memory = -1;
    struct memory_room room;
    memory_room_read(&room);
    if (room.left < LEAST_LEFT)
        return;
    char *block = mmap(NULL, 2 * HALF_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (block == MAP_FAILED)
        return;
    memset(block, 1, 2 * HALF_BYTES);
    bench->memory = best_rate(memory_run, block);
    munmap(block, 2 * HALF_BYTES);
}

/*
 * The answer to node_get_info: the members in the order of the specification (8.1.1), printed in the language's syntax.
 */

#define SECOND_NS ((uint64_t)NS_PER_SECOND)

enum { GROUPS = 14 };
_Static_assert(NODE_AT_HAND == 1 << GROUPS && NODE_INFO_BITS == GROUPS + 1, "it is the bit behind those of members");

struct node_probe {
    struct node_facts facts;
    struct node_bench bench;
    struct node_sample last, before;
    int64_t sleeping;
    uint64_t sleeping_time_ns;
};

struct printer {
    struct node_probe *probe;
    bool at_hand; /* NODE_AT_HAND */
    struct buf *out;
    double rates[NODE_COUNTERS]; /* per second; negative: unknown */
};

int node_probe_new(struct node_probe **ret_probe)
{
    struct node_probe *probe = calloc(1, sizeof *probe);
    if (!probe)
        return -ENOMEM;
    node_facts_read(&probe->facts);
    node_sample_read(&probe->last, &probe->facts);
    *ret_probe = probe;
    return 0;
}

void node_probe_free(struct node_probe *probe)
{
    free(probe);
}

/* Takes a sample for the rates, unless the last is younger than a second. Cheap (a few reads in /proc). */
static void node_probe_sample(struct node_probe *probe)
{
    if (clock_now_ns() - probe->last.time_ns < SECOND_NS)
        return;
    probe->before = probe->last;
    node_sample_read(&probe->last, &probe->facts);
}

static void compute_rates(struct printer *printer)
{
    struct node_probe *probe = printer->probe;
    node_probe_sample(probe);
    struct node_sample from = probe->before, to = probe->last;
    if (!from.time_ns) {
        from = probe->last;
        if (clock_now_ns() - from.time_ns >= NODE_FIRST_NS)
            node_sample_read(&to, &probe->facts);
    }
    double seconds = (double)(to.time_ns - from.time_ns) / 1e9;
    for (int i = 0; i < NODE_COUNTERS; i++) {
        int64_t a = from.count[i], b = to.count[i];
        printer->rates[i] = seconds <= 0 || a < 0 || b < a ? -1 : (double)(b - a) / seconds;
    }
}

/* ---- values ---- */

/* What is unknown is -1.0. */
static double rate_known(double number)
{
    return isfinite(number) && number >= 0 ? number : -1;
}

/* Of two counters together, unknown when one of them is. */
static int64_t rates_read(const struct printer *printer, enum node_counter one, enum node_counter other)
{
    double a = printer->rates[one], b = printer->rates[other];
    return a < 0 || b < 0 ? -1 : (int64_t)(a + b + 0.5);
}

static int64_t rate_of(const struct printer *printer, enum node_counter counter)
{
    double number = printer->rates[counter];
    return number < 0 ? -1 : (int64_t)(number + 0.5);
}

/* ---- static members ---- */

static void put_name(struct printer *printer)
{
    PUT(printer->out, printer->probe->facts.system.nodename);
}

static void put_system(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    PUT(printer->out, facts->system.sysname, facts->system.version, facts->system.release, facts->system.nodename,
        facts->boot_time);
}

static const struct node_bench *bench_of(const struct printer *printer)
{
    static const struct node_bench unknown = {.integer = -1, .floating = -1, .memory = -1};
    struct node_bench *bench = &printer->probe->bench;
    if (printer->at_hand && !bench->done)
        return &unknown;
    node_bench_run(bench);
    return bench;
}

static void put_processors(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    const struct node_bench *bench = bench_of(printer);
    PUT(printer->out, facts->system.machine, facts->cpus, facts->max_processes, facts->cpu_mhz,
        rate_known(bench->integer), rate_known(bench->floating));
}

static void put_memory(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    PUT(printer->out, facts->pages, facts->page_size, rate_known(bench_of(printer)->memory));
}

static void put_disks(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    PUT(printer->out, facts->disk_count, facts->disk_pages, facts->tmp_pages, facts->swap_pages,
        -1.0); /* a benchmark would disturb the disks of whoever computes here */
}

static void put_links(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    PUT(printer->out, facts->link_count);
    put_list(printer->out);
    for (size_t i = 0; i < facts->link_count; i++) {
        const struct node_link *link = &facts->links[i];
        PUT(printer->out, link->type, link->address, link->kbytes_per_s,
            -1.0); /* a loopback never leaves the kernel: it would measure the processor */
    }
    put_end(printer->out);
}

static void put_login_limit(struct printer *printer)
{
    PUT(printer->out, -1); /* Linux has no such limit for the node; PAM may set one per user */
}

/* ---- dynamic members ---- */

static void put_activity(struct printer *printer)
{
    PUT(printer->out, rate_of(printer, COUNT_SWITCHES), -1, -1); /* execs: not counted; nor are calls */
}

static void put_queues(struct printer *printer)
{
    struct node_probe *probe = printer->probe;
    _cleanup_(freep) char *stat = NULL;
    int64_t running = -1, blocked = -1;
    if (file_read("/proc/stat", &stat, NULL) == 0) {
        /* Running and ready tasks. The asking process is one of them, also on an idle node: leave it out. */
        running = node_find_number(stat, "procs_running");
        running -= running > 0;
        blocked = node_find_number(stat, "procs_blocked");
    }
    bool old = !probe->sleeping_time_ns || clock_now_ns() - probe->sleeping_time_ns > NODE_SLEEPING_NS;
    if (old && !printer->at_hand) {
        probe->sleeping = node_count_sleeping(); /* looks at every process: seldom */
        probe->sleeping_time_ns = clock_now_ns();
    }
    int64_t sleeping = old && printer->at_hand ? -1 : probe->sleeping;
    char text[NODE_FILE];
    double load[3] = {-1, -1, -1};
    if (node_read_text(text, sizeof text, "/proc/loadavg"))
        sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]);
    /* In page wait: Linux counts those under waiting for the disk. Swapped: it swaps pages, never whole processes. */
    PUT(printer->out, running, blocked, -1, sleeping, 0, load[0], load[1], load[2]);
}

static void put_free_memory(struct printer *printer)
{
    char text[4096] = "";
    int64_t page = printer->probe->facts.page_size;
    node_read_text(text, sizeof text, "/proc/meminfo");
    /* Free is what nobody uses, used is the rest: caches, which the kernel gives back at need, are in use. */
    int64_t total = node_find_number(text, "MemTotal"), free_kb = node_find_number(text, "MemFree");
    int64_t swap = node_find_number(text, "SwapFree");
    PUT(printer->out, free_kb < 0 ? -1 : free_kb * 1024 / page,
        free_kb < 0 || total < 0 ? -1 : (total - free_kb) * 1024 / page, swap < 0 ? -1 : swap * 1024 / page);
}

static void put_paging(struct printer *printer)
{
    /* swaps of whole processes do not happen; swapped pages are among those behind */
    PUT(printer->out, 0, 0, 0, rates_read(printer, COUNT_PAGE_IN, COUNT_PAGE_OUT), rate_of(printer, COUNT_PAGE_IN),
        rate_of(printer, COUNT_PAGE_OUT));
}

static void put_disk_rates(struct printer *printer)
{
    PUT(printer->out, rate_of(printer, COUNT_DISK_READS), rate_of(printer, COUNT_DISK_WRITES),
        rate_of(printer, COUNT_NFS_READS), rate_of(printer, COUNT_NFS_WRITES), -1,
        -1); /* read and write calls: counted per process only */
}

static void put_packets(struct printer *printer)
{
    PUT(printer->out, rate_of(printer, COUNT_LOCAL_PACKETS), rates_read(printer, COUNT_FAST_RECEIVED, COUNT_FAST_SENT),
        rate_of(printer, COUNT_FAST_RECEIVED), rate_of(printer, COUNT_FAST_SENT),
        rates_read(printer, COUNT_SLOW_RECEIVED, COUNT_SLOW_SENT), rate_of(printer, COUNT_SLOW_RECEIVED),
        rate_of(printer, COUNT_SLOW_SENT));
}

static void put_users(struct printer *printer)
{
    struct node_users users;
    node_users_read(&users);
    PUT(printer->out, users.local, users.local_active, users.remote, users.remote_active);
}

static const struct {
    void (*put)(struct printer *printer);
    bool rates;
} groups[GROUPS] = {
    {put_name},         {put_system},           {put_processors},     {put_memory}, {put_disks},
    {put_links},        {put_login_limit},      {put_activity, true}, {put_queues}, {put_free_memory},
    {put_paging, true}, {put_disk_rates, true}, {put_packets, true},  {put_users},
};

uint64_t node_probe_wait_ns(const struct node_probe *probe, uint64_t flags)
{
    uint64_t passed_ns = clock_now_ns() - probe->last.time_ns;
    if (probe->before.time_ns || passed_ns >= NODE_FIRST_NS || flags & NODE_AT_HAND)
        return 0;
    for (int i = 0; i < GROUPS; i++)
        if (groups[i].rates && flags >> i & 1)
            return NODE_FIRST_NS - passed_ns;
    return 0;
}

int node_probe_print(struct node_probe *probe, uint64_t flags, struct buf *out, struct err *err)
{
    if (flags >> NODE_INFO_BITS)
        return err_set(err, -EINVAL, "flags 0x%llx of node_get_info: only the bits 0 to %d have a meaning",
                       (unsigned long long)flags, NODE_INFO_BITS - 1);
    struct printer printer = {.probe = probe, .at_hand = flags & NODE_AT_HAND, .out = out};
    bool have_rates = false;
    for (int i = 0; i < GROUPS; i++) {
        if (!(flags >> i & 1))
            continue;
        if (groups[i].rates && !have_rates) {
            compute_rates(&printer);
            have_rates = true;
        }
        groups[i].put(&printer);
    }
    return out->failed ? err_set(err, -ENOMEM, "out of memory while printing the facts of this node") : 0;
}
