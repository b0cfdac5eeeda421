/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where perf may not tell which processes, threads and mappings there are, /proc is asked now and then, and what is new is told as
 * perf would have. What begins and ends between two looks is not seen.
 */
#include "profile/profile.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "probe/perf_ring.h"

static const char unnamed[] = "//anon"; /* as perf calls memory of no file */

static void record_tell(struct images *images, unsigned type, unsigned misc, const void *body, size_t size)
{
    struct {
        struct perf_event_header header;
        char body[IMAGE_RECORD_MOST];
    } record;
    if (size > sizeof record.body - sizeof(struct perf_record_id))
        return;
    const struct perf_record_id id = {.time_ns = clock_now_ns()};
    memcpy(record.body, body, size);
    memcpy(record.body + size, &id, sizeof id);
    record.header = (struct perf_event_header){
        .type = type, .misc = (uint16_t)misc, .size = (uint16_t)(sizeof record.header + size + sizeof id)};
    images_apply(images, &record.header);
}

static void task_tell(struct images *images, unsigned type, pid_t pid, pid_t parent, pid_t tid)
{
    const struct image_task task = {(uint32_t)pid, (uint32_t)parent, (uint32_t)tid, (uint32_t)parent, clock_now_ns()};
    record_tell(images, type, 0, &task, sizeof task);
}

static void mappings_tell(struct images *images, pid_t pid)
{
    struct proc_maps maps;
    if (proc_maps_read(pid, &maps) < 0)
        return;
    for (size_t i = 0; i < maps.count; i++) {
        const struct proc_map *map = &maps.maps[i];
        struct {
            struct image_mmap head;
            char path[PATH_MAX];
        } body = {.head = {.pid = (uint32_t)pid,
                           .tid = (uint32_t)pid,
                           .start = map->start,
                           .size = map->end - map->start,
                           .offset = map->offset,
                           .major = map->device_major,
                           .minor = map->device_minor,
                           .inode = map->inode}};
        const char *path = *map->path ? map->path : unnamed;
        size_t len = strlen(path);
        if (!map->execute || len >= sizeof body.path)
            continue;
        memcpy(body.path, path, len + 1);
        record_tell(images, PERF_RECORD_MMAP2, 0, &body, (offsetof(struct image_mmap, path) + len + 8) & ~(size_t)7);
    }
    proc_maps_done(&maps);
}

/* What it executes now. */
static void program_tell(struct images *images, pid_t pid)
{
    struct image_name name = {.pid = (uint32_t)pid, .tid = (uint32_t)pid};
    char text[16];
    proc_comm(pid, 0, text, sizeof text);
    struct {
        struct image_name head;
        char text[16];
    } body = {.head = name};
    memcpy(body.text, text, sizeof text);
    record_tell(images, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC, &body, sizeof body);
    mappings_tell(images, pid);
}

static void threads_tell(struct images *images, pid_t pid)
{
    char path[PROC_PATH_SIZE];
    proc_path(path, pid, 0, "task");
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0 && !image_thread_of(images, tid))
            task_tell(images, PERF_RECORD_FORK, pid, pid, tid);
    }
    if (dir)
        closedir(dir);
}

static void children_tell(struct images *images, pid_t pid)
{
    char text[4096], *at = text, *end;
    if (proc_file_read(pid, pid, "children", text, sizeof text, NULL) < 0)
        return;
    for (long child; (child = strtol(at, &end, 10)) > 0 && *end; at = end) { /* the last one may be cut */
        struct image_process *process;
        pid_t number = (pid_t)child;
        HASH_FIND_INT(images->processes, &number, process);
        if (!process)
            task_tell(images, PERF_RECORD_FORK, number, pid, number);
    }
}

void image_thread_tell_end(struct images *images, const struct image_thread *thread)
{
    task_tell(images, PERF_RECORD_EXIT, thread->pid, 0, thread->tid);
}

void images_look(struct images *images, pid_t root)
{
    struct image_process *process, *next;
    image_process_of(images, root);
    HASH_ITER(hh, images->processes, process, next) /* new ones come behind the last */
    {
        struct proc_stat stat;
        const pid_t pid = process->pid;
        int code = proc_stat_of(pid, 0, &stat);
        if (code == -ESRCH) {
            process->threads = 1;
            task_tell(images, PERF_RECORD_EXIT, pid, 0, pid);
            continue;
        }
        if (code < 0 || stat.state == 'Z')
            continue;
        if (!process->count || process->program != stat.arg_start) {
            program_tell(images, pid);
            process->program = stat.arg_start;
        }
        if (stat.threads != process->threads)
            threads_tell(images, pid);
        children_tell(images, pid);
    }
}

void image_look_again(struct images *images, struct image_process *process, uint64_t address)
{
    if (image_find(process, address) || clock_now_ns() - process->looked_ns < NS_PER_SECOND)
        return;
    process->looked_ns = clock_now_ns();
    mappings_tell(images, process->pid);
}
