/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/cgroup.h"

#include "base/data/cleanup.h"
#include "base/data/buf.h"
#include "job/health/health.h"
#include "jobdir/text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the control groups of a process are. */

enum { TABLE = 256 << 10 };

static const char *const controllers[CGROUP_CONTROLLERS] = {"memory", "pids", "cpu"};

/* Whether a list with commas has the word. */
static bool has_word(struct span list, const char *word)
{
    while (list.len) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t len = comma ? (size_t)(comma - list.ptr) : list.len;
        if (span_is(span_of(list.ptr, len), word))
            return true;
        list = span_of(list.ptr + len, list.len - len);
        if (list.len)
            list = span_of(list.ptr + 1, list.len - 1);
    }
    return false;
}

/* ---- /proc/PID/cgroup: lines of NUMBER:CONTROLLERS:PATH ---- */

/* The path; `controller` NULL: of version 2. */
static bool find_path(const char *text, const char *controller, char *ret_path, size_t size)
{
    for (const char *line = text; line; line = look_next_line(line)) {
        size_t len = strcspn(line, "\n");
        const char *list = memchr(line, ':', len),
                   *path = list ? memchr(list + 1, ':', len - (size_t)(list + 1 - line)) : NULL;
        if (!path || path[1] != '/')
            continue;
        struct span names = span_of(list + 1, (size_t)(path - list - 1));
        if (controller ? !has_word(names, controller) : names.len != 0)
            continue;
        size_t path_len = (size_t)(line + len - path - 1);
        if (path_len >= size)
            continue;
        memcpy(ret_path, path + 1, path_len);
        ret_path[path_len] = 0;
        return true;
    }
    return false;
}

/* ---- /proc/self/mountinfo, see proc_pid_mountinfo(5) ---- */

struct mount {
    char top[PATH_MAX], folder[PATH_MAX];
};

/* Blanks and backslashes in names are \040 and the like. */
static bool unescape(struct span from, char *ret_to, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < from.len && len + 1 < size; i++) {
        const char *at = from.ptr + i;
        bool escaped = *at == '\\' && i + 3 < from.len && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
                       at[2] <= '7' && at[3] >= '0' && at[3] <= '7';
        ret_to[len++] = escaped ? (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0')) : *at;
        i += escaped ? 3 : 0;
    }
    ret_to[len] = 0;
    return len + 1 < size;
}

/* The next word of the line, which ends at `end`. */
static struct span next_word(const char **at, const char *end)
{
    const char *from = *at;
    while (from < end && *from == ' ')
        from++;
    const char *to = from;
    while (to < end && *to != ' ')
        to++;
    *at = to;
    return span_of(from, (size_t)(to - from));
}

/* Whether the line is a mount of such groups; `controller` NULL: of version 2. */
static bool parse_mount(const char *line, const char *controller, struct mount *ret_mount)
{
    const char *at = line, *end = line + strcspn(line, "\n");
    for (int i = 0; i < 3; i++)
        next_word(&at, end);
    struct span top = next_word(&at, end), folder = next_word(&at, end), word;
    do
        word = next_word(&at, end);
    while (word.len && !span_is(word, "-"));
    struct span type = next_word(&at, end);
    next_word(&at, end);
    struct span options = next_word(&at, end);
    if (controller ? !span_is(type, "cgroup") || !has_word(options, controller) : !span_is(type, "cgroup2"))
        return false;
    return unescape(top, ret_mount->top, sizeof ret_mount->top) &&
           unescape(folder, ret_mount->folder, sizeof ret_mount->folder);
}

static bool find_mount(const char *text, const char *controller, struct mount *ret_mount)
{
    for (const char *line = text; line; line = look_next_line(line))
        if (parse_mount(line, controller, ret_mount))
            return true;
    return false;
}

/* ---- both ---- */

static bool is_there(const char *root, const char *folder)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s", root, folder);
    return access(path, F_OK) == 0;
}

/* The group's folder. In a container without a name space of its own the path is the host's: then what is mounted is
 * the group, or one above it. */
static bool resolve(const char *root, const struct mount *mount, const char *path, struct cgroup_place *place)
{
    size_t top = strcmp(mount->top, "/") == 0 ? 0 : strlen(mount->top);
    place->mount_len = strlen(mount->folder);
    bool below = strncmp(path, mount->top, top) == 0 && (path[top] == '/' || !path[top]) && !strstr(path, "/..");
    const char *rest = below && strcmp(path + top, "/") != 0 ? path + top : "";
    if (place->mount_len + strlen(rest) >= sizeof place->folder)
        return false;
    snprintf(place->folder, sizeof place->folder, "%s%s", mount->folder, rest);
    if (is_there(root, place->folder))
        return true;
    place->folder[place->mount_len] = 0;
    return is_there(root, place->folder);
}

static bool find_place(const char *root, const char *groups, const char *mounts, const char *controller, int version,
                       struct cgroup_place *place, char *ret_path)
{
    struct mount mount;
    const char *which = version == 1 ? controller : NULL;
    if (!find_path(groups, which, ret_path, PATH_MAX) || !find_mount(mounts, which, &mount) ||
        !resolve(root, &mount, ret_path, place))
        return false;
    place->version = version;
    return true;
}

/* ---- limits ---- */

/* Of memory and tasks: the files with the limit and with what is used. */
static const char *const limit_files[2][2][2] = {
    [CGROUP_MEMORY] = {{"memory.limit_in_bytes", "memory.usage_in_bytes"}, {"memory.max", "memory.current"}},
    [CGROUP_TASKS] = {{"pids.max", "pids.current"}, {"pids.max", "pids.current"}},
};
#define UNLIMITED (INT64_C(1) << 60) /* version 1 has the largest number of whole pages */

/* How much of the folder is that of the group above. */
static size_t above(const struct cgroup_place *place, size_t len)
{
    while (len > place->mount_len && place->folder[--len] != '/')
        continue;
    return len;
}

static void find_limit(const char *root, enum cgroup_controller which, struct cgroup_place *place)
{
    const char *const *files = limit_files[which][place->version - 1];
    int64_t least_room = INT64_MAX;
    place->limit_len = strlen(place->folder);
    place->limit = INT64_MAX;
    for (size_t len = place->limit_len;; len = above(place, len)) {
        int64_t limit = look_number(root, "%.*s/%s", (int)len, place->folder, files[0]);
        int64_t high = files == limit_files[CGROUP_MEMORY][1]
                           ? look_number(root, "%.*s/memory.high", (int)len, place->folder)
                           : -1;
        limit = high >= 0 && high < limit ? high : limit; /* above it the kernel slows the job down instead */
        int64_t used = look_number(root, "%.*s/%s", (int)len, place->folder, files[1]);
        int64_t room = limit - (used > 0 ? used : 0);
        if (limit >= 0 && limit < UNLIMITED && room < least_room) {
            least_room = room;
            place->limit_len = len;
            place->limit = limit;
        }
        if (len <= place->mount_len)
            break;
    }
}

/* The processors that a group may use; -1: no limit. */
static double cpus_of(const char *root, const struct cgroup_place *place, int len)
{
    int64_t quota, period;
    char text[128];
    if (place->version == 1) {
        quota = look_number(root, "%.*s/cpu.cfs_quota_us", len, place->folder);
        period = look_number(root, "%.*s/cpu.cfs_period_us", len, place->folder);
    } else {
        char *end = text;
        if (look_read(root, text, sizeof text, "%.*s/cpu.max", len, place->folder) < 0 || strncmp(text, "max", 3) == 0)
            return -1;
        quota = strtoll(text, &end, 10);
        period = strtoll(end, NULL, 10);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : -1;
}

static void find_cpus(const char *root, struct cgroup_place *place)
{
    place->cpus = -1;
    for (size_t len = strlen(place->folder);; len = above(place, len)) {
        double cpus = cpus_of(root, place, (int)len);
        if (cpus > 0 && (place->cpus < 0 || cpus < place->cpus)) {
            place->cpus = cpus;
            place->limit_len = len;
        }
        if (len <= place->mount_len)
            return;
    }
}

/* /proc/PID/cgroup and the mounts. */
struct tables {
    char *groups, *mounts;
};

static void tables_done(struct tables *tables)
{
    free(tables->groups);
    free(tables->mounts);
}

static bool tables_read(const char *root, pid_t pid, struct tables *tables)
{
    *tables = (struct tables){malloc(TABLE), malloc(TABLE)};
    return tables->groups && tables->mounts &&
           look_read(root, tables->groups, TABLE, "/proc/%d/cgroup", (int)pid) == 0 &&
           look_read(root, tables->mounts, TABLE, "/proc/self/mountinfo") == 0;
}

static bool find_controller(const char *root, const struct tables *tables, enum cgroup_controller which,
                            struct cgroup_place *place, char *ret_path)
{
    return find_place(root, tables->groups, tables->mounts, controllers[which], 1, place, ret_path) ||
           find_place(root, tables->groups, tables->mounts, controllers[which], 2, place, ret_path);
}

bool cgroup_find_memory(const char *root, pid_t pid, struct cgroup_place *ret_place)
{
    _cleanup_(tables_done) struct tables tables;
    char path[PATH_MAX];
    return tables_read(root, pid, &tables) && find_controller(root, &tables, CGROUP_MEMORY, ret_place, path);
}

void cgroup_find(const char *root, pid_t pid, struct cgroup *ret_group)
{
    _cleanup_(tables_done) struct tables tables;
    memset(ret_group, 0, sizeof *ret_group);
    if (!tables_read(root, pid, &tables))
        return;
    snprintf(ret_group->said, sizeof ret_group->said, "%s", tables.groups);
    for (enum cgroup_controller i = 0; i < CGROUP_CONTROLLERS; i++) {
        struct cgroup_place *place = &ret_group->at[i];
        char path[PATH_MAX];
        if (!find_controller(root, &tables, i, place, path))
            continue;
        if (i == CGROUP_MEMORY)
            snprintf(ret_group->name, sizeof ret_group->name, "%s", path);
        if (i == CGROUP_CPU)
            find_cpus(root, place);
        else
            find_limit(root, i, place);
    }
}

bool cgroup_left(const char *root, pid_t pid, const struct cgroup *group)
{
    char said[CGROUP_SAID];
    return look_read(root, said, sizeof said, "/proc/%d/cgroup", (int)pid) == 0 && *said &&
           strcmp(said, group->said) != 0;
}

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

/* Of the job: what was counted since it came into the group, and where it was before. */
static int64_t job_kills(const struct cgroup_before *before, const struct cgroup_state *state)
{
    if (before->oom_kills < 0 || state->oom_kills < before->oom_kills)
        return before->oom_kills_elsewhere;
    return before->oom_kills_elsewhere + state->oom_kills - before->oom_kills;
}

void cgroup_enter(struct cgroup_before *before, const struct cgroup_state *left, const struct cgroup_state *state)
{
    int64_t kills = left ? job_kills(before, left) : 0;
    *before = (struct cgroup_before){state->oom_kills, state->memory_peak, kills};
}

json_t *cgroup_json(const struct cgroup *group, const struct cgroup_state *state, const struct cgroup_before *before,
                    double throttled)
{
    int version = group->at[CGROUP_MEMORY].version;
    if (!version || (state->memory < 0 && state->tasks < 0))
        return NULL;
    json_t *object = json_pack("{s:i, s:o}", "version", version, "path", text_json(group->name));
    put_known(object, "memory_bytes", state->memory);
    put_known(object, "memory_needed_bytes", state->memory_needed);
    put_known(object, "memory_peak_bytes", state->memory_peak);
    if (before->memory_peak >= 0 && state->memory_peak > before->memory_peak)
        put_known(object, "job_memory_peak_bytes", state->memory_peak);
    put_known(object, "memory_limit_bytes", state->memory_limit);
    put_known(object, "tasks", state->tasks);
    put_known(object, "tasks_limit", state->tasks_limit);
    put_known_real(object, "cpus_limit", state->cpus_limit);
    put_known_real(object, "throttled", throttled);
    put_known(object, "oom_kills", state->oom_kills);
    if (state->oom_kills >= 0)
        put_known(object, "job_oom_kills", job_kills(before, state));
    return object;
}
