/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/world.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>

#include "agent/system/proc_text.h"

struct kernel_time {
    int64_t sec, nsec;
};

uint64_t agent_now_ns(void)
{
    struct kernel_time now = {0, 0};
    sys_call2(SYS_clock_gettime, 1 /* CLOCK_MONOTONIC */, (long)&now);
    return (uint64_t)now.sec * 1000000000 + (uint64_t)now.nsec;
}

int agent_poll(int fd, short events, uint64_t most_ns, short *ret_events)
{
    struct pollfd poll = {fd, events, 0};
    int result = (int)sys_call4(SYS_poll, (long)&poll, 1, (long)((most_ns + 999999) / 1000000), 0);
    *ret_events = poll.revents;
    return result;
}

void agent_sleep_on(const _Atomic uint32_t *word, uint32_t value, uint64_t most_ns)
{
    const struct kernel_time most = {(int64_t)(most_ns / 1000000000), (int64_t)(most_ns % 1000000000)};
    sys_call4(SYS_futex, (long)word, FUTEX_WAIT, value, (long)&most);
}

char agent_state_of(int32_t pid)
{
    char text[96] = "";
    if (pid > 0)
        proc_text_read(pid, "stat", text, sizeof text);
    return *proc_text_stat(text, 3);
}

bool agent_is_there(int32_t pid)
{
    return sys_call2(SYS_kill, pid, 0) != -ESRCH;
}
