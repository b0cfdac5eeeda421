/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/test/test_world.h"

#include <poll.h>

#include "agent/safety/read.h"

struct world world;
static struct outside seen;

void world_reset(void)
{
    world = (struct world){.now_ns = UINT64_C(1000000000), .state = 'S', .ticks = 7};
}

void world_pass(uint64_t ms)
{
    world.now_ns += ms * 1000000;
}

uint64_t agent_now_ns(void)
{
    return world.now_ns;
}

int agent_poll(int fd, short events, uint64_t most_ns, short *ret_events)
{
    struct pollfd poll_fd = {fd, events, 0};
    int result = poll(&poll_fd, 1, 0);
    world.polls++;
    if (result == 0) {
        uint64_t end_ns = world.now_ns + most_ns;
        world.now_ns = end_ns;
        if (world.event_ns && world.event_ns <= end_ns) {
            world.now_ns = world.event_ns;
            world.event_ns = 0;
            world.event(world.event_ctx);
            result = poll(&poll_fd, 1, 0);
        }
    }
    *ret_events = poll_fd.revents;
    return result;
}

void agent_sleep_on(const _Atomic uint32_t *word, uint32_t value, uint64_t most_ns)
{
    short events;
    if (*word == value)
        agent_poll(-1, 0, most_ns, &events);
}

char agent_state_of(int32_t pid)
{
    world.looks++;
    return pid > 0 && !world.gone && (!world.pid || pid == world.pid) ? world.state : (char)0;
}

bool agent_is_there(int32_t pid)
{
    return !world.gone && (!world.pid || pid == world.pid);
}

const struct outside *outside_read(pid_t pid, unsigned what)
{
    if (world.busy)
        return NULL;
    world.looks++;
    seen = (struct outside){.pid = pid, .tracer = -1, .state = world.state, .ticks = world.state ? world.ticks : 0};
    return &seen;
}

void outside_release(void)
{
}
