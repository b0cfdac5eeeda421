/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that processes share with us, whatever is in them: the area of functions (agent_area.c) and the area of MPI
 * (monitor/mpi/life.c). Each is a file [mpi-]PID-STARTTICKS-SERIAL of the folder of areas. A sidecar beside each says
 * whose it is, for the next monitor (agent_adopt.c).
 *
 * What a program may touch has memory before: writing to a mapped page for which a full tmpfs has none left is SIGBUS,
 * and that must never meet a program. Where a control group that the monitor is in, too, limits memory, areas count as
 * the job's. A job that stays below its limit alone must do so while it is traced: all areas together get a small part
 * of the limit, and they grow only while much of it is unused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "monitor/recorder/agent.h"
#include "probe/node.h"
#include "probe/proc.h"
#include "shm/waits.h"

enum {
    BUFFERS_PART = 16,
    UNUSED_PART = 8,
    PROMISES_PART = 64, /* all that programs may have by themselves */
    PROMISED_PART = 8,  /* one of them, of what is left of that */
};

static const char *const prefixes[] = {[AREA_FUNCTIONS] = "", [AREA_MPI] = AREA_MPI_PREFIX};

/* ---- memory ---- */

static void memory_look(struct agents *agents)
{
    uint64_t now = clock_now_ns();
    if (now - agents->memory_ns > (uint64_t)AGENT_FILES_LOOK_MS * 1000000 || !agents->memory_ns) {
        struct memory_room room;
        size_t len;
        memory_room_read(&room);
        free(agents->groups);
        agents->groups = NULL;
        file_read("/proc/self/cgroup", &agents->groups, &len);
        agents->memory_ns = now;
        agents->memory_limit = room.limit;
        agents->memory_left = room.left;
    }
}

static bool memory_take(struct agents *agents, uint64_t bytes)
{
    memory_look(agents);
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

/* A page belongs to the control group of who first touches it. In ours, that is looked at (memory_look); in another one, all
 * processes together might get beyond its limit, if it has any. */
static bool may_touch_first(const struct agents *agents, pid_t pid)
{
    char path[40];
    _cleanup_(freep) char *groups = NULL;
    size_t len;
    struct memory_room room;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (!agents->groups || file_read(path, &groups, &len) < 0)
        return false;
    return strcmp(groups, agents->groups) == 0 ||
           (memory_room_of(groups, MEMORY_ROOM_ROOT, &room) && room.left == UINT64_MAX);
}

/* A small part of what is left: else a few processes would have all of it, and use little. */
static uint64_t promise_most(const struct agents *agents)
{
    uint64_t limit = agents->memory_limit, promised = agents->memory_promised;
    uint64_t all = limit / PROMISES_PART, kept = limit / UNUSED_PART + promised;
    if (agents->memory_left == UINT64_MAX)
        return UINT64_MAX;
    if (promised >= all || kept >= agents->memory_left)
        return 0;
    uint64_t part = (all - promised) / PROMISED_PART, left = agents->memory_left - kept;
    return part < left ? part : left;
}

uint64_t area_file_promise(const struct agent *agent, struct area_file *file, uint64_t bytes)
{
    struct agents *agents = agent->agents;
    memory_look(agents);
    uint64_t most = promise_most(agents);
    bytes = bytes < most ? bytes : most;
    bool there = file->in_memory ? memory_dir_has_room(&agents->memory, bytes)
                                 : !agents->spill && memory_dir_is_memory(agents->rings);
    if (!bytes || !there || !may_touch_first(agents, agent->pid))
        return 0;
    area_file_promised(agents, file, bytes);
    return bytes;
}

void area_file_promised(struct agents *agents, struct area_file *file, uint64_t bytes)
{
    file->memory_promised += bytes;
    agents->memory_promised += bytes;
}

void area_file_kept(struct agents *agents, struct area_file *file, uint64_t bytes)
{
    bytes = bytes < file->memory_promised ? bytes : file->memory_promised;
    file->memory_promised -= bytes;
    agents->memory_promised -= bytes;
}

static int file_allocate(struct area_file *file, uint64_t from, uint64_t size)
{
    int code = fallocate(file->fd, 0, (off_t)from, (off_t)size) < 0 ? -errno : 0;
    return code == -EOPNOTSUPP ? 0 : code; /* such a file system has no holes to fall into */
}

int area_file_reserve(struct agents *agents, struct area_file *file, uint64_t from, uint64_t size)
{
    uint64_t start = from & ~(uint64_t)(AREA_PAGE - 1);
    uint64_t bytes = from + size - start;
    if (!memory_take(agents, bytes))
        return -ENOMEM;
    bool room = !file->in_memory || memory_dir_has_room(&agents->memory, bytes);
    int code = room ? file_allocate(file, start, bytes) : -ENOSPC;
    if (code == 0)
        file->memory_taken += bytes;
    else
        agents->memory_taken -= bytes;
    return code;
}

void area_file_give_back(struct agents *agents, struct area_file *file)
{
    agents->memory_taken -= file->memory_taken;
    file->memory_taken = 0;
    area_file_kept(agents, file, UINT64_MAX);
}

static int agent_rings_make(struct agents *agents, bool on_disk, const char *name, char **ret_path);

/* ---- files ---- */

static int make_in(struct agent *agent, struct area_file *file, bool on_disk, area_fill_fn *fill, void *ctx)
{
    struct agents *agents = agent->agents;
    char name[80];
    snprintf(name, sizeof name, "%s%d-%" PRIu64 "-%" PRIu64, prefixes[file - agent->files], agent->pid,
             agent->start_ticks, file->serial);
    file->fd = agent_rings_make(agents, on_disk, name, &file->path);
    file->in_memory = agents->spill && !on_disk;
    return file->fd < 0 ? file->fd : fill(agent, ctx);
}

int area_file_make(struct agent *agent, enum area_kind kind, area_fill_fn *fill, void *ctx)
{
    struct agents *agents = agent->agents;
    struct area_file *file = &agent->files[kind];
    file->serial = ++agents->last_serial;
    int code = make_in(agent, file, false, fill, ctx);
    if (code < 0)
        area_file_end(agents, file);
    if (code == 0 || code == -ENOMEM || !agents->spill)
        return code;
    code = make_in(agent, file, true, fill, ctx);
    if (code < 0)
        area_file_end(agents, file);
    return code;
}

void area_file_remove(const char *path)
{
    static const char *const ends[] = {"", ".job", ".job.new"};
    char file[PATH_MAX + 16];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(file, sizeof file, "%s%s", path, ends[i]);
        unlink(file);
    }
}

void area_file_end(struct agents *agents, struct area_file *file)
{
    if (file->path && file_is_at(file->path, file->fd))
        area_file_remove(file->path);
    area_file_leave(agents, file);
}

void area_file_leave(struct agents *agents, struct area_file *file)
{
    area_file_give_back(agents, file);
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    file->path = NULL;
    file->fd = -1;
}

/* ---- the folder ---- */

/*
 * Where areas and the doorbell are: in the runtime directory, RUNTIME/rings. Where that lies on a disk, each area costs
 * ten times as much, and what programs write into it is written to the disk, too; then RUNTIME/rings is a link to a
 * folder in memory (base/system/memory_dir.h), and areas for which there is no room lie in RUNTIME/rings.disk. A
 * monitor that comes later finds those of this one by the link.
 */

static const char *const shared[] = {"doorbell", "cells"}; /* by all agents of a monitor */

const char *area_numbers(const char *name)
{
    return strncmp(name, AREA_MPI_PREFIX, strlen(AREA_MPI_PREFIX)) == 0 ? name + strlen(AREA_MPI_PREFIX) : name;
}

static bool is_area(const char *name)
{
    int pid;
    uint64_t ticks;
    return sscanf(area_numbers(name), "%d-%" SCNu64, &pid, &ticks) == 2;
}

/* Whether an area in a folder whose runtime directory is not seen is of a process that is still there: its monitor may
 * be in another mount namespace. */
static bool area_lives(const char *name)
{
    int pid;
    uint64_t ticks;
    struct proc_stat now;
    return sscanf(area_numbers(name), "%d-%" SCNu64, &pid, &ticks) == 2 && pid > 0 &&
           proc_stat_read(pid, 0, &now) == 0 && now.start_ticks == ticks && now.state != 'Z';
}

static bool has_areas(const char *folder)
{
    DIR *dir = opendir(folder);
    bool some = false;
    for (struct dirent *entry; dir && !some && (entry = readdir(dir));)
        some = is_area(entry->d_name);
    if (dir)
        closedir(dir);
    return some;
}

static bool leads_to(const char *link, const char *path)
{
    char target[PATH_MAX];
    ssize_t len = readlink(link, target, sizeof target - 1);
    target[len > 0 ? len : 0] = 0;
    return strcmp(target, path) == 0 && access(path, F_OK) == 0;
}

/* In place of what is there: a link, or a folder with nothing but what all agents share. */
static int put_link(const char *place, const char *path)
{
    char file[PATH_MAX + 16];
    struct stat st;
    if (lstat(place, &st) == 0) {
        for (size_t i = 0; i < sizeof shared / sizeof *shared && S_ISDIR(st.st_mode); i++) {
            snprintf(file, sizeof file, "%s/%s", place, shared[i]);
            if (unlink(file) < 0 && errno != ENOENT)
                return -errno;
        }
        if ((S_ISDIR(st.st_mode) ? rmdir(place) : unlink(place)) < 0)
            return -errno;
    }
    return symlink(path, place) < 0 ? -errno : 0;
}

/* Whether areas are in memory from now on. */
static bool open_memory(struct agents *agents, const char *place)
{
    struct memory_dir *memory = &agents->memory;
    struct err err = {0};
    if (memory_dir_is_memory(agents->runtime) || memory_dir_find(memory, MEMORY_DIR_ROOT, agents->runtime) < 0)
        return false;
    bool known = leads_to(place, memory->path);
    if (!known && has_areas(place)) /* of a monitor that had no room in memory; programs know its doorbell */
        return false;
    int code = known ? 0 : memory_dir_look(MEMORY_DIR_ROOT, &err);
    if (code == 0)
        code = memory_dir_open(memory, agents->runtime, known, &err);
    if (code == 0 && !known && (code = put_link(place, memory->path)) < 0) {
        err_errno(&err, code, "%s", place);
        memory_dir_remove(memory);
    }
    if (code < 0)
        log_info("buffers are on disk, in %s: %s", agents->runtime, err.text);
    return code == 0;
}

int agent_rings_open(struct agents *agents, struct err *err)
{
    char place[PATH_MAX], spill[PATH_MAX];
    struct stat st;
    memory_dir_sweep(MEMORY_DIR_ROOT, area_lives);
    snprintf(place, sizeof place, "%s/rings", agents->runtime);
    snprintf(spill, sizeof spill, "%s/rings.disk", agents->runtime);
    bool in_memory = open_memory(agents, place);
    agents->rings = strdup(in_memory ? agents->memory.path : place);
    agents->spill = in_memory ? strdup(spill) : NULL;
    if (!agents->rings || (in_memory && !agents->spill))
        return err_set(err, -ENOMEM, "out of memory");
    if (in_memory)
        return 0;
    if (lstat(place, &st) == 0 && S_ISLNK(st.st_mode))
        unlink(place);
    int code = dirs_make(place, 0700);
    return code < 0 ? err_errno(err, code, "cannot make %s", place) : 0;
}

/* Areas that there are stay where they are, with their doorbell, until their programs end: the folder that is left
 * behind, if it is in memory, is swept then. */
static int folder_move(struct agents *agents, struct err *err)
{
    char place[PATH_MAX], *rings = agents->rings, *spill = agents->spill;
    struct memory_dir memory = agents->memory;
    snprintf(place, sizeof place, "%s/rings", agents->runtime);
    if (has_areas(place))
        return err_set(err, -EBUSY, "%s has buffers of another monitor", place);
    agents->rings = agents->spill = NULL;
    agents->memory = MEMORY_DIR_INIT;
    int code = agent_rings_open(agents, err);
    if (code < 0) {
        free(agents->rings);
        free(agents->spill);
        memory_dir_close(&agents->memory);
        agents->rings = rings;
        agents->spill = spill;
        agents->memory = memory;
        return code;
    }
    free(rings);
    free(spill);
    memory_dir_close(&memory);
    return 0;
}

int agent_rings_again(struct agents *agents, bool moved, struct err *err)
{
    char place[PATH_MAX];
    snprintf(place, sizeof place, "%s/rings", agents->runtime);
    if (moved)
        return folder_move(agents, err);
    if (access(place, F_OK) == 0)
        return 0;
    int code = agents->spill ? memory_dir_open(&agents->memory, agents->runtime, true, err) : dirs_make(place, 0700);
    if (code == 0 && agents->spill)
        code = put_link(place, agents->memory.path);
    return code < 0 ? err_errno(err, code, "cannot make %s", place) : 0;
}

void agent_rings_close(struct agents *agents)
{
    char place[PATH_MAX];
    if (agents->spill)
        rmdir(agents->spill);
    if (agents->spill && !has_areas(agents->rings)) {
        snprintf(place, sizeof place, "%s/rings", agents->runtime);
        if (leads_to(place, agents->rings))
            unlink(place);
        memory_dir_remove(&agents->memory);
    }
    memory_dir_close(&agents->memory);
    memory_dir_sweep(MEMORY_DIR_ROOT, area_lives); /* what was left behind when it moved */
    free(agents->rings);
    free(agents->spill);
}

static int make_file(const char *folder, const char *name, char **ret_path)
{
    *ret_path = NULL;
    if (asprintf(ret_path, "%s/%s", folder, name) < 0) {
        *ret_path = NULL;
        return -ENOMEM;
    }
    return file_open_own(AT_FDCWD, *ret_path, O_RDWR | O_CREAT | O_EXCL);
}

/* A new file; a descriptor or -errno. ret_path is set in any case, NULL if there is no memory. */
static int agent_rings_make(struct agents *agents, bool on_disk, const char *name, char **ret_path)
{
    if (!on_disk && !agents->spill)
        return make_file(agents->rings, name, ret_path);
    *ret_path = NULL;
    if (on_disk) {
        int code = dirs_make(agents->spill, 0700);
        return code < 0 ? code : make_file(agents->spill, name, ret_path);
    }
    int code = make_file(agents->rings, name, ret_path);
    if (code == -ENOENT) {
        /* somebody tidied /dev/shm up: some systems do so when the user logs out, or between jobs */
        free(*ret_path);
        *ret_path = NULL;
        code = memory_dir_open(&agents->memory, agents->runtime, true, NULL);
        code = code < 0 ? code : make_file(agents->rings, name, ret_path);
    }
    return code;
}

static void each_in(const char *folder, void (*fn)(void *ctx, const char *folder, const char *name), void *ctx)
{
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_area(entry->d_name) && !strchr(entry->d_name, '.'))
            fn(ctx, folder, entry->d_name);
    if (dir)
        closedir(dir);
}

void agent_rings_each(struct agents *agents, void (*fn)(void *ctx, const char *folder, const char *name), void *ctx)
{
    char spill[PATH_MAX];
    each_in(agents->rings, fn, ctx);
    snprintf(spill, sizeof spill, "%s/rings.disk", agents->runtime);
    each_in(spill, fn, ctx); /* also if areas are no longer in memory */
}

bool agent_rings_in_memory(const struct agents *agents, const char *folder)
{
    return agents->spill && folder == agents->rings;
}
