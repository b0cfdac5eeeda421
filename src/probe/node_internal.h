/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the probe: the parts of node.h. What is not known is -1 or "". Paths in /proc and /sys are those of proc(5)
 * and the kernel's Documentation/ABI.
 */
#ifndef SCRY_PROBE_NODE_INTERNAL_H
#define SCRY_PROBE_NODE_INTERNAL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/utsname.h>

#include "base/data/buf.h"

enum {
    NODE_TEXT = 64,
    NODE_LINKS = 64, /* network links reported */
    NODE_DISKS = 256,
    NODE_FILE = 256, /* a small file of /proc or /sys */
};

/* Reads the beginning of a small file as a string without its last newline; false if there is none. */
bool node_read_text(char *ret_text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The next range of a list of numbers such as "0-3,8"; moves *at after it. False: there is none. */
bool node_next_range(const char **at, long *ret_first, long *ret_last);
/* The same as a number; -1 when there is none. */
int64_t node_read_number(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "NAME 12" or "NAME: 12" at the start of a line; -1 when there is none. */
int64_t node_find_number(const char *text, const char *name);

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
void node_facts_read(struct node_facts *ret_facts);
void node_links_read(struct node_facts *facts); /* a part of node_facts_read */

/* Measured once, see node_bench.c. */
struct node_bench {
    bool done;
    double integer, floating, memory;
};
void node_bench_run(struct node_bench *bench);

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
void node_sample_read(struct node_sample *ret_sample, const struct node_facts *facts);

/* Processes that sleep with pages in memory; reads every process's stat. */
int64_t node_count_sleeping(void);

/* How many users are logged in, and whether one of them typed within the last five minutes. */
struct node_users {
    int64_t local, local_active, remote, remote_active;
};
void node_users_read(struct node_users *ret_users);

#endif
