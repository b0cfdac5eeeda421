/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/cgroup.h"

#include <stdlib.h>
#include <string.h>

#include "jobdir/text/text.h"
#include "job/health/look.h"

enum { STAT = 8 << 10 };
#define NEARLY \
    0.7 /* of the limit: from there on what can be dropped is asked for, which costs the kernel something \
         */

static int64_t add_known(int64_t sum, int64_t more)
{
    return sum + (more > 0 && more < INT64_MAX - sum ? more : 0);
}

/* Without files in memory, which can be read again. Those that are not written yet count among them. */
static int64_t needed(const char *root, const struct cgroup_place *place, int64_t used)
{
    char text[STAT];
    if (look_read(root, text, sizeof text, "%.*s/memory.stat", (int)place->limit_len, place->folder) < 0)
        return -1;
    bool first = place->version == 1;
    int64_t files = add_known(0, look_find(text, first ? "total_inactive_file" : "inactive_file"));
    files = add_known(files, look_find(text, first ? "total_active_file" : "active_file"));
    files = add_known(files, first ? -1 : look_find(text, "slab_reclaimable"));
    return used > files ? used - files : 0;
}

int64_t cgroup_oom_kills(const char *root, const struct cgroup_place *place)
{
    char text[1024];
    const char *file = place->version == 1 ? "memory.oom_control" : "memory.events";
    return look_read(root, text, sizeof text, "%s/%s", place->folder, file) < 0 ? -1 : look_find(text, "oom_kill");
}

static void read_memory(const char *root, const struct cgroup_place *place, struct cgroup_state *state)
{
    bool first = place->version == 1;
    int len = (int)place->limit_len;
    state->memory =
        look_number(root, "%.*s/%s", len, place->folder, first ? "memory.usage_in_bytes" : "memory.current");
    state->memory_peak =
        look_number(root, "%.*s/%s", len, place->folder, first ? "memory.max_usage_in_bytes" : "memory.peak");
    if (place->limit < INT64_MAX && state->memory >= 0) {
        state->memory_limit = place->limit;
        if ((double)state->memory > NEARLY * (double)place->limit)
            state->memory_needed = needed(root, place, state->memory);
    }
    state->oom_kills = cgroup_oom_kills(root, place);
}

static void read_tasks(const char *root, const struct cgroup_place *place, struct cgroup_state *state)
{
    state->tasks = look_number(root, "%.*s/pids.current", (int)place->limit_len, place->folder);
    if (place->limit < INT64_MAX)
        state->tasks_limit = place->limit;
}

static void read_cpu(const char *root, const struct cgroup_place *place, struct cgroup_state *state)
{
    char text[1024];
    state->cpus_limit = place->cpus;
    if (place->cpus < 0 ||
        look_read(root, text, sizeof text, "%.*s/cpu.stat", (int)place->limit_len, place->folder) < 0)
        return;
    state->periods = look_find(text, "nr_periods");
    state->throttled_periods = look_find(text, "nr_throttled");
}

void cgroup_read(const char *root, const struct cgroup *group, struct cgroup_state *ret_state)
{
    *ret_state = (struct cgroup_state){-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    if (group->at[CGROUP_MEMORY].version)
        read_memory(root, &group->at[CGROUP_MEMORY], ret_state);
    if (group->at[CGROUP_TASKS].version)
        read_tasks(root, &group->at[CGROUP_TASKS], ret_state);
    if (group->at[CGROUP_CPU].version)
        read_cpu(root, &group->at[CGROUP_CPU], ret_state);
}

static void put_known(json_t *object, const char *name, int64_t number)
{
    if (number >= 0)
        json_object_set_new(object, name, json_integer(number));
}

static void put_known_real(json_t *object, const char *name, double number)
{
    if (number >= 0)
        json_object_set_new(object, name, json_real(number));
}

json_t *cgroup_json(const struct cgroup *group, const struct cgroup_state *state, double throttled)
{
    int version = group->at[CGROUP_MEMORY].version;
    if (!version || (state->memory < 0 && state->tasks < 0))
        return NULL;
    json_t *object = json_pack("{s:i, s:o}", "version", version, "path", text_json(group->name));
    put_known(object, "memory_bytes", state->memory);
    put_known(object, "memory_needed_bytes", state->memory_needed);
    put_known(object, "memory_peak_bytes", state->memory_peak);
    put_known(object, "memory_limit_bytes", state->memory_limit);
    put_known(object, "tasks", state->tasks);
    put_known(object, "tasks_limit", state->tasks_limit);
    put_known_real(object, "cpus_limit", state->cpus_limit);
    put_known_real(object, "throttled", throttled);
    put_known(object, "oom_kills", state->oom_kills);
    return object;
}
