/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/world.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>

#include "agent/sys.h"

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
    char path[32] = "/proc/", digits[12], text[96], *at = path + 6;
    unsigned count = 0;
    if (pid <= 0)
        return 0;
    for (; pid > 0; pid /= 10)
        digits[count++] = (char)('0' + pid % 10);
    while (count)
        *at++ = digits[--count];
    for (const char *name = "/stat"; *name; name++)
        *at++ = *name;
    *at = '\0';
    long fd = sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
    long got = fd < 0 ? fd : sys_call4(SYS_read, fd, (long)text, sizeof text - 1, 0);
    if (fd >= 0)
        sys_call2(SYS_close, fd, 0);
    if (got < 0)
        got = 0;
    text[got] = '\0';
    while (got > 0 && text[got - 1] != ')')
        got--;
    return got > 0 && text[got] == ' ' ? text[got + 1] : (char)0;
}

bool agent_is_there(int32_t pid)
{
    return sys_call2(SYS_kill, pid, 0) != -ESRCH;
}
