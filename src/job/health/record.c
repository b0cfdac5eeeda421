/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/record.h"

#include <math.h>

#include "base/system/clock.h"
#include "shm/waits.h"

#define MOVED_SHARE 0.1 /* of the processors, of time, of memory, of a limit, of a file system */

void window_begin(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                  double rooms)
{
    *window = (struct health_window){.from = *node,
                                     .last = *node,
                                     .group = *group,
                                     .cpu_peak = -1,
                                     .available_least = node->memory_available,
                                     .rooms = rooms};
}

/* ---- whether something moved ---- */

static double share(int64_t part, int64_t whole)
{
    return part < 0 || whole <= 0 ? 0 : (double)part / (double)whole;
}

static bool memory_moved(const struct health_window *window, const struct node_state *node,
                         const struct cgroup_state *group)
{
    double by = share(node->memory_available, node->memory_total) -
                share(window->from.memory_available, window->from.memory_total);
    double group_by =
        share(group->memory, group->memory_limit) - share(window->group.memory, window->group.memory_limit);
    return fabs(by) > MOVED_SHARE || fabs(group_by) > MOVED_SHARE || group->oom_kills != window->group.oom_kills;
}

/* Between the last two looks, and between the record before and then. */
static bool share_moved(const struct health_window *window, const struct node_state *node, enum node_count which,
                        double (*of)(const struct node_state *, const struct node_state *, enum node_count))
{
    double now = of(&window->last, node, which), before = of(&window->from, &window->last, which);
    return now >= 0 && before >= 0 && fabs(now - before) > MOVED_SHARE;
}

static bool rooms_moved(const struct health_window *window, double rooms)
{
    return fabs(rooms - window->rooms) > MOVED_SHARE / 2;
}

bool window_rooms_moved(const struct health_window *window, const struct cgroup_state *group, double rooms)
{
    return memory_moved(window, &window->last, group) || rooms_moved(window, rooms);
}

static bool has_moved(const struct health_window *window, const struct node_state *node,
                      const struct cgroup_state *group, double rooms)
{
    return memory_moved(window, node, group) || rooms_moved(window, rooms) ||
           share_moved(window, node, NODE_CPU_BUSY, node_cpu_share) ||
           share_moved(window, node, NODE_CPU_IOWAIT, node_cpu_share) ||
           share_moved(window, node, NODE_CPU_STEAL, node_cpu_share) ||
           share_moved(window, node, NODE_WAITED_MEMORY, node_waited_share) ||
           share_moved(window, node, NODE_WAITED_IO, node_waited_share);
}

bool window_add(struct health_window *window, const struct node_state *node, const struct cgroup_state *group,
                double rooms)
{
    uint64_t passed_ns = node->time_ns - window->from.time_ns;
    double busy = node_cpu_share(&window->last, node, NODE_CPU_BUSY);
    bool due = passed_ns >= HEALTH_RECORD_LEAST_NS ||
               (passed_ns >= HEALTH_RECORD_MOST_NS && has_moved(window, node, group, rooms));
    if (node->time_ns - window->last.time_ns >= HEALTH_PEAK_NS)
        window->cpu_peak = fmax(window->cpu_peak, busy);
    if (node->memory_available >= 0 && node->memory_available < window->available_least)
        window->available_least = node->memory_available;
    window->last = *node;
    return due;
}

/* ---- the record ---- */

/* Four digits of shares, and whole bytes: more would only make records longer. */
static double tidy(double number, double digits)
{
    return number < 0 ? -1 : round(number * digits) / digits;
}

static double cpu(const struct health_window *window, enum node_count which)
{
    return tidy(node_cpu_share(&window->from, &window->last, which), 1e4);
}

static double waited(const struct health_window *window, enum node_count which)
{
    return tidy(node_waited_share(&window->from, &window->last, which), 1e4);
}

static double rate(const struct health_window *window, enum node_count which, double digits)
{
    return tidy(node_rate(&window->from, &window->last, which), digits);
}

struct health_record window_record(const struct health_window *window)
{
    const struct node_state *from = &window->from, *to = &window->last;
    return (struct health_record){
        .seconds = tidy((double)(to->time_ns - from->time_ns) / NS_PER_SECOND, 1e3),
        .load = {.cpu = cpu(window, NODE_CPU_BUSY),
                 .cpu_peak = tidy(window->cpu_peak, 1e4),
                 .iowait = cpu(window, NODE_CPU_IOWAIT),
                 .steal = cpu(window, NODE_CPU_STEAL),
                 .load = to->load},
        .pressure = {.cpu = waited(window, NODE_WAITED_CPU),
                     .memory = waited(window, NODE_WAITED_MEMORY),
                     .memory_full = waited(window, NODE_WAITED_MEMORY_FULL),
                     .io = waited(window, NODE_WAITED_IO),
                     .io_full = waited(window, NODE_WAITED_IO_FULL)},
        .memory = {.total_bytes = to->memory_total,
                   .available_bytes = to->memory_available,
                   .available_least_bytes = window->available_least,
                   .swap_total_bytes = to->swap_total,
                   .swap_free_bytes = to->swap_free},
        .traffic = {.disk_read_bytes = rate(window, NODE_DISK_READ, 1),
                    .disk_written_bytes = rate(window, NODE_DISK_WRITTEN, 1),
                    .received_bytes = rate(window, NODE_RECEIVED, 1),
                    .sent_bytes = rate(window, NODE_SENT, 1),
                    .network_errors = rate(window, NODE_NETWORK_ERRORS, 1e4)},
    };
}

double window_throttled(const struct health_window *window, const struct cgroup_state *group)
{
    int64_t periods = group->periods - window->group.periods;
    int64_t kept = group->throttled_periods - window->group.throttled_periods;
    return window->group.periods < 0 || periods <= 0 || kept < 0 ? -1 : (double)kept / (double)periods;
}
