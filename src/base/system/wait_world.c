/* SPDX-License-Identifier: Apache-2.0 */
/* By /proc/PID/stat and /proc/PID/task/TID/schedstat, see proc(5). */
#include "base/system/wait_world.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"

static struct wait_process look(pid_t pid)
{
    struct proc_stat stat;
    if (pid <= 0 || proc_stat_of(pid, 0, &stat) < 0)
        return (struct wait_process){.state = 0};
    return (struct wait_process){.state = stat.state, .cpu_ns = stat.user_ns + stat.system_ns};
}

static struct wait_thread look_thread(pid_t pid, pid_t tid)
{
    struct wait_thread thread = {.state = proc_letter(pid, tid)};
    char text[128];
    thread.timed = proc_file_read(pid, tid, "schedstat", text, sizeof text, NULL) == 0 &&
                   sscanf(text, "%" SCNu64, &thread.ran_ns) == 1;
    return thread;
}

const struct wait_world wait_world_real = {
    .now_ns = clock_now_ns,
    .poll = poll,
    .look = look,
    .look_thread = look_thread,
};
const struct wait_world *wait_world = &wait_world_real;

bool wait_slice(enum wait_kind kind, uint64_t since_ns, struct pollfd *input)
{
    struct wait_seen seen = {.passed_ns = wait_now_ns() - since_ns};
    if (waits_judge(&wait_policies[kind], &seen) != WAIT_ON)
        return false;
    wait_poll(input, input != NULL, (int)(waits_slice_ns(&wait_policies[kind], &seen) / WAITS_NS_PER_MS) + 1);
    return true;
}
