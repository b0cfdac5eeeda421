/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that the rates of a node are differences of:
 *   switches            /proc/stat ctxt
 *   pages in, out       /proc/vmstat pgpgin, pgpgout: KBytes from and to block devices, swap and files alike
 *   disk reads, writes  /proc/diskstats, requests completed by the local disks (not by devices mapped on them)
 *   NFS                 /proc/net/rpc/nfs, READ and WRITE calls of all versions
 *   packets             /proc/net/dev; local ones pass the loopback in both directions and are counted once
 * Linux keeps no count of execs (`processes` in /proc/stat are forks) and none of system calls.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "probe/node_internal.h"
#include "probe/proc.h"

static void read_disks(struct node_sample *sample, const struct node_facts *facts)
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

void node_sample_read(struct node_sample *ret_sample, const struct node_facts *facts)
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
    read_disks(sample, facts);
    read_nfs(sample);
    read_packets(sample, facts);
}

int64_t node_count_sleeping(void)
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
