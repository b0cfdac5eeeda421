/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where areas and the doorbell are: in the runtime directory, RUNTIME/rings. Where that lies on a disk, each area costs
 * ten times as much, and what programs write into it is written to the disk, too; then RUNTIME/rings is a link to a
 * folder in memory (base/system/memory_dir.h), and areas for which there is no room lie in RUNTIME/rings.disk. A
 * monitor that comes later finds those of this one by the link.
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
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "monitor/recorder/agents_internal.h"
#include "probe/proc.h"

static const char *const shared[] = {"doorbell", "cells"}; /* by all agents of a monitor */
static const char MPI[] = AREA_MPI_PREFIX;

static bool is_area(const char *name)
{
    int pid;
    uint64_t ticks;
    return sscanf(strncmp(name, MPI, strlen(MPI)) == 0 ? name + strlen(MPI) : name, "%d-%" SCNu64, &pid, &ticks) == 2;
}

/* Whether an area in a folder whose runtime directory is not seen is of a process that is still there: its monitor may
 * be in another mount namespace. */
static bool lives(const char *name)
{
    int pid;
    uint64_t ticks;
    struct proc_stat now;
    name += strncmp(name, MPI, strlen(MPI)) == 0 ? strlen(MPI) : 0;
    return sscanf(name, "%d-%" SCNu64, &pid, &ticks) == 2 && pid > 0 && proc_stat_read(pid, 0, &now) == 0 &&
           now.start_ticks == ticks && now.state != 'Z';
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
    memory_dir_sweep(MEMORY_DIR_ROOT, lives);
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
static int move(struct agents *agents, struct err *err)
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
        return move(agents, err);
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
    memory_dir_sweep(MEMORY_DIR_ROOT, lives); /* what was left behind when it moved */
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

int agent_rings_make(struct agents *agents, bool on_disk, const char *name, char **ret_path)
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
