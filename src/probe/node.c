/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer to node_get_info: the members in the order of the specification (8.1.1), printed in the language's syntax.
 */
#include "probe/node.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "lang/put.h"
#include "probe/node_internal.h"
#include "shm/waits.h"

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
static double known(double number)
{
    return isfinite(number) && number >= 0 ? number : -1;
}

/* Of two counters together, unknown when one of them is. */
static int64_t rates(const struct printer *printer, enum node_counter one, enum node_counter other)
{
    double a = printer->rates[one], b = printer->rates[other];
    return a < 0 || b < 0 ? -1 : (int64_t)(a + b + 0.5);
}

static int64_t rate(const struct printer *printer, enum node_counter counter)
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
    PUT(printer->out, facts->system.machine, facts->cpus, facts->max_processes, facts->cpu_mhz, known(bench->integer),
        known(bench->floating));
}

static void put_memory(struct printer *printer)
{
    const struct node_facts *facts = &printer->probe->facts;
    PUT(printer->out, facts->pages, facts->page_size, known(bench_of(printer)->memory));
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
    PUT(printer->out, rate(printer, COUNT_SWITCHES), -1, -1); /* execs: not counted, see node_rates.c; nor are calls */
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
    PUT(printer->out, 0, 0, 0, rates(printer, COUNT_PAGE_IN, COUNT_PAGE_OUT), rate(printer, COUNT_PAGE_IN),
        rate(printer, COUNT_PAGE_OUT));
}

static void put_disk_rates(struct printer *printer)
{
    PUT(printer->out, rate(printer, COUNT_DISK_READS), rate(printer, COUNT_DISK_WRITES), rate(printer, COUNT_NFS_READS),
        rate(printer, COUNT_NFS_WRITES), -1, -1); /* read and write calls: counted per process only */
}

static void put_packets(struct printer *printer)
{
    PUT(printer->out, rate(printer, COUNT_LOCAL_PACKETS), rates(printer, COUNT_FAST_RECEIVED, COUNT_FAST_SENT),
        rate(printer, COUNT_FAST_RECEIVED), rate(printer, COUNT_FAST_SENT),
        rates(printer, COUNT_SLOW_RECEIVED, COUNT_SLOW_SENT), rate(printer, COUNT_SLOW_RECEIVED),
        rate(printer, COUNT_SLOW_SENT));
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
