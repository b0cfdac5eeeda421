/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory buffers may have. They lie in a tmpfs, and count as the job's where the job has a limit of memory (a
 * control group) that the monitor is in, too. A job that stays below its limit alone must do so while it is traced: all
 * buffers together have a small part of the limit, and they grow only while much of it is unused.
 */
#include "base/clock.h"
#include "monitor/recorder/agents_internal.h"
#include "probe/memory_room.h"

enum { BUFFERS_PART = 16, UNUSED_PART = 8, LOOK_MS = 200 };

bool agents_memory_take(struct agents *agents, uint64_t bytes)
{
    uint64_t now = clock_now_ns();
    if (now - agents->memory_ns > (uint64_t)LOOK_MS * 1000000 || !agents->memory_ns) {
        struct memory_room room;
        memory_room_read(&room);
        agents->memory_ns = now;
        agents->memory_limit = room.limit;
        agents->memory_left = room.left;
    }
    if (agents->memory_left != UINT64_MAX) {
        uint64_t limit = agents->memory_limit, kept = limit / UNUSED_PART;
        if (agents->memory_taken + bytes > limit / BUFFERS_PART || bytes > agents->memory_left ||
            agents->memory_left - bytes < kept)
            return false;
        agents->memory_left -= bytes;
    }
    agents->memory_taken += bytes;
    return true;
}

bool agent_memory_take(struct agent *agent, uint64_t bytes)
{
    if (!agents_memory_take(agent->agents, bytes))
        return false;
    agent->memory_taken += bytes;
    return true;
}

void agent_memory_give_back(struct agent *agent, uint64_t bytes)
{
    agent->agents->memory_taken -= bytes;
    agent->memory_taken -= bytes;
}
