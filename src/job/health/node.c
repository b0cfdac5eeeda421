/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/node.h"

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "job/health/health.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BEGINNING = 512,    /* of /proc/stat: the line of all processors */
    VMSTAT = 16 << 10,  /* 5 KB are usual */
    TABLE = 128 << 10,  /* of disks or links */
    SECTOR_BYTES = 512, /* of diskstats, whatever the disk has */
    DISK_NAME = 64,
};

static int64_t oom_count_node(const char *root)
{
    char text[VMSTAT];
    return look_read(root, text, sizeof text, "/proc/vmstat") < 0 ? -1 : look_find(text, "oom_kill");
}

void oom_count_again(const char *root, struct oom_counts *counts)
{
    counts->node = oom_count_node(root);
    counts->group = counts->place.version ? cgroup_oom_kills(root, &counts->place) : -1;
}

void oom_count(const char *root, pid_t pid, struct oom_counts *ret_counts)
{
    if (!cgroup_find_memory(root, pid, &ret_counts->place))
        ret_counts->place.version = 0;
    oom_count_again(root, ret_counts);
}

/* ---- processors ---- */

static void read_processors(const char *root, struct node_state *state)
{
    enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };
    char text[BEGINNING];
    if (look_read(root, text, sizeof text, "/proc/stat") < 0 || strncmp(text, "cpu", 3) != 0 || text[3] != ' ')
        return;
    int64_t column[COLUMNS] = {0}, total = 0;
    char *at = text + 4;
    int count = 0;
    for (char *end = at; count < COLUMNS; count++, at = end) {
        column[count] = (int64_t)(strtoull(at, &end, 10) & INT64_MAX >> 4); /* eight of them can be added up */
        if (end == at)
            break;
        total += column[count];
    }
    if (count <= IDLE)
        return;
    state->count[NODE_CPU_TOTAL] = total;
    state->count[NODE_CPU_IOWAIT] = column[IOWAIT];
    state->count[NODE_CPU_STEAL] = column[STEAL];
    state->count[NODE_CPU_BUSY] = total - column[IDLE] - column[IOWAIT] - column[STEAL];
}

static void read_load(const char *root, struct node_state *state)
{
    char text[128], *end = text;
    if (look_read(root, text, sizeof text, "/proc/loadavg") < 0)
        return;
    double load = strtod(text, &end);
    state->load = end != text && load >= 0 && load < 1e9 ? load : -1;
}

/* ---- waiting ---- */

static void read_pressure(const char *root, const char *what, int64_t *ret_some, int64_t *ret_full)
{
    char text[BEGINNING];
    if (look_read(root, text, sizeof text, "/proc/pressure/%s", what) < 0)
        return;
    for (const char *line = text; line; line = look_next_line(line)) {
        const char *total = strstr(line, "total=");
        int64_t *to = strncmp(line, "some", 4) == 0 ? ret_some : strncmp(line, "full", 4) == 0 ? ret_full : NULL;
        if (total && to)
            *to = (int64_t)(strtoull(total + strlen("total="), NULL, 10) & INT64_MAX);
    }
}

/* ---- memory ---- */

static int64_t bytes_of(const char *text, const char *name)
{
    int64_t kilobytes = look_find(text, name);
    return kilobytes < 0 || kilobytes > INT64_MAX / 1024 ? -1 : kilobytes * 1024;
}

static void read_memory(const char *root, struct node_state *state)
{
    char text[VMSTAT];
    if (look_read(root, text, sizeof text, "/proc/meminfo") == 0) {
        state->memory_total = bytes_of(text, "MemTotal");
        state->memory_available = bytes_of(text, "MemAvailable");
        state->swap_total = bytes_of(text, "SwapTotal");
        state->swap_free = bytes_of(text, "SwapFree");
    }
    if (look_read(root, text, sizeof text, "/proc/vmstat") == 0) {
        state->count[NODE_OOM_KILLS] = look_find(text, "oom_kill");
        state->count[NODE_SWAPPED_IN] = look_find(text, "pswpin");
        state->count[NODE_SWAPPED_OUT] = look_find(text, "pswpout");
    }
}

/* ---- disks and network ---- */

static void count_more(int64_t *count, uint64_t more, uint64_t unit)
{
    uint64_t sum = (uint64_t)(*count < 0 ? 0 : *count) + more * unit;
    *count = (int64_t)(sum & INT64_MAX);
}

/* Whole disks with hardware behind them: what is built of others (md, dm, loop) would count twice. */
static bool is_disk(const char *root, const char *name)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/sys/block/%s/device", root, name);
    return len > 0 && (size_t)len < sizeof path && !strchr(name, '/') && access(path, F_OK) == 0;
}

static void read_disks(const char *root, struct node_state *state)
{
    _cleanup_(freep) char *text = malloc(TABLE);
    if (!text || look_read(root, text, TABLE, "/proc/diskstats") < 0)
        return;
    for (const char *line = text; line; line = look_next_line(line)) {
        char name[DISK_NAME] = "";
        uint64_t read = 0, written = 0;
        if (sscanf(line, " %*u %*u %63s %*u %*u %" SCNu64 " %*u %*u %*u %" SCNu64, name, &read, &written) != 3 ||
            !is_disk(root, name))
            continue;
        count_more(&state->count[NODE_DISK_READ], read, SECTOR_BYTES);
        count_more(&state->count[NODE_DISK_WRITTEN], written, SECTOR_BYTES);
    }
}

static void read_network(const char *root, struct node_state *state)
{
    _cleanup_(freep) char *text = malloc(TABLE);
    if (!text || look_read(root, text, TABLE, "/proc/net/dev") < 0)
        return;
    for (const char *line = text; line; line = look_next_line(line)) {
        const char *name = line + strspn(line, " "), *colon = strchr(name, ':'), *end = strchr(name, '\n');
        uint64_t received = 0, receive_errors = 0, sent = 0, send_errors = 0;
        if (!colon || (end && colon > end) || strncmp(name, "lo:", 3) == 0 ||
            sscanf(colon + 1, " %" SCNu64 " %*u %" SCNu64 " %*u %*u %*u %*u %*u %" SCNu64 " %*u %" SCNu64, &received,
                   &receive_errors, &sent, &send_errors) != 4)
            continue;
        count_more(&state->count[NODE_RECEIVED], received, 1);
        count_more(&state->count[NODE_SENT], sent, 1);
        count_more(&state->count[NODE_NETWORK_ERRORS], receive_errors, 1);
        count_more(&state->count[NODE_NETWORK_ERRORS], send_errors, 1);
    }
}

void node_state_read(const char *root, uint64_t now_ns, struct node_state *ret_state)
{
    struct node_state *state = ret_state;
    *state = (struct node_state){
        .time_ns = now_ns, .memory_total = -1, .memory_available = -1, .swap_total = -1, .swap_free = -1, .load = -1};
    for (int i = 0; i < NODE_COUNTS; i++)
        state->count[i] = -1;
    int64_t unused;
    read_processors(root, state);
    read_load(root, state);
    read_pressure(root, "cpu", &state->count[NODE_WAITED_CPU], &unused);
    read_pressure(root, "memory", &state->count[NODE_WAITED_MEMORY], &state->count[NODE_WAITED_MEMORY_FULL]);
    read_pressure(root, "io", &state->count[NODE_WAITED_IO], &state->count[NODE_WAITED_IO_FULL]);
    read_memory(root, state);
    read_disks(root, state);
    read_network(root, state);
}

/* ---- differences ---- */

/* How much a count grew; -1: unknown, or it was reset. */
static int64_t node_grown(const struct node_state *from, const struct node_state *to, enum node_count which)
{
    int64_t before = from->count[which], now = to->count[which];
    return before < 0 || now < before ? -1 : now - before;
}

static double at_most_one(double share)
{
    return share > 1 ? 1 : share;
}

double node_cpu_share(const struct node_state *from, const struct node_state *to, enum node_count which)
{
    int64_t total = node_grown(from, to, NODE_CPU_TOTAL), part = node_grown(from, to, which);
    return total <= 0 || part < 0 ? -1 : at_most_one((double)part / (double)total);
}

double node_rate(const struct node_state *from, const struct node_state *to, enum node_count which)
{
    int64_t grown = node_grown(from, to, which);
    return grown < 0 || to->time_ns <= from->time_ns
               ? -1
               : (double)grown * NS_PER_SECOND / (double)(to->time_ns - from->time_ns);
}

double node_waited_share(const struct node_state *from, const struct node_state *to, enum node_count which)
{
    double us_per_second = node_rate(from, to, which);
    return us_per_second < 0 ? -1 : at_most_one(us_per_second / 1e6);
}
