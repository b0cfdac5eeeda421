/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system/file.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "probe/perf_ring.h"
#include "symbols/index/lines.h"

/* A program that makes code while it runs maps again and again; more than this is not kept. */
enum { MAPPINGS_MOST = 1 << 16, FILES_MOST = 1 << 16, THREADS_MOST = 1 << 14 };
/* A file of a container has a descriptor for as long as the profile; others count by their names, so that /proc can always be read. */
enum { DESCRIPTORS_MOST = 512 };

static const char vdso[] = "[vdso]";

static void file_free(struct image_file *file)
{
    cfi_free(file->cfi);
    index_close(file->index);
    places_free(file->places);
    if (file->kept)
        close(file->kept);
    free(file->open_path);
    free(file->path);
    free(file);
}

/* What it executed is gone. */
static void program_forget(struct image_process *process)
{
    jit_free(process->jit);
    process->jit = NULL;
    python_sampler_free(process->python);
    process->python = NULL;
    process->has_python = false;
    process->looks = 0;
    process->sampled_ns = 0;
}

static void process_free(struct image_process *process)
{
    program_forget(process);
    free(process->mappings);
    free(process);
}

void images_done(struct images *images)
{
    struct image_process *process, *next_process;
    struct image_file *file, *next_file;
    struct image_thread *thread, *next_thread;
    HASH_ITER(hh, images->threads, thread, next_thread)
    {
        HASH_DEL(images->threads, thread);
        free(thread->stack);
        free(thread);
    }
    for (thread = images->gone; thread; thread = next_thread) {
        next_thread = thread->next;
        free(thread->stack);
        free(thread);
    }
    HASH_ITER(hh, images->processes, process, next_process)
    {
        HASH_DEL(images->processes, process);
        process_free(process);
    }
    HASH_ITER(hh, images->files, file, next_file)
    {
        HASH_DEL(images->files, file);
        file_free(file);
    }
}

struct image_process *image_process_of(struct images *images, pid_t pid)
{
    struct image_process *process;
    HASH_FIND_INT(images->processes, &pid, process);
    if (process)
        return process;
    process = calloc(1, sizeof *process);
    if (!process) {
        images->failed = true;
        return NULL;
    }
    process->pid = pid;
    process->threads = 1;
    process->number = images->numbered++;
    HASH_ADD_INT(images->processes, pid, process);
    return process;
}

struct image_thread *image_thread_of(const struct images *images, pid_t tid)
{
    struct image_thread *thread;
    HASH_FIND_INT(images->threads, &tid, thread);
    return thread;
}

static struct image_file *file_of(struct images *images, const struct image_file_key *key, const char *path)
{
    struct image_file *file;
    HASH_FIND(hh, images->files, key, sizeof *key, file);
    if (file)
        return file;
    file = HASH_COUNT(images->files) < FILES_MOST ? calloc(1, sizeof *file) : NULL;
    if (!file || !(file->path = strdup(path))) {
        free(file);
        images->failed = true;
        return NULL;
    }
    file->key = *key;
    HASH_ADD(hh, images->files, key, sizeof file->key, file);
    return file;
}

/* -1: it is not there, or not the one with that inode. The device is not compared: files in overlays and in btrfs have
 * another one in mappings than stat(2) says. */
static int open_at(const struct image_file *file, const char *path, struct stat *ret_stat)
{
    int fd = file_open_read(path); /* what a process has mapped may be a device, and to open that may do something */
    if (fd >= 0 && fstat(fd, ret_stat) == 0 && (uint64_t)ret_stat->st_ino == file->key.inode)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* By the path that it has for us, if that is the same; a process in a container has other files under the same names, and its own
 * view of them goes when it ends. Only those of it stay open: what is open cannot be unmounted, nor removed from NFS. */
static void file_open(struct image_file *file, pid_t pid)
{
    char path[PATH_MAX];
    struct stat theirs, ours;
    file->opened = true;
    if (strcmp(file->path, vdso) == 0)
        file->cfi = cfi_open(-1);
    if (file->path[0] != '/' || !file->key.inode ||
        snprintf(path, sizeof path, "/proc/%d/root%s", pid, file->path) >= (int)sizeof path)
        return;
    _cleanup_(closep) int fd = open_at(file, path, &theirs), own = open_at(file, file->path, &ours);
    if (own >= 0 && (fd < 0 || (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino))) {
        file->open_path = strdup(file->path);
        file->cfi = cfi_open(TAKE_FD(own));
        return;
    }
    int again = fd >= 0 && fd < DESCRIPTORS_MOST ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (again < 0)
        return;
    file->kept = TAKE_FD(fd);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), file->kept); /* scry-symbols opens it, too */
    file->open_path = strdup(path);
    file->cfi = cfi_open(again);
}

bool image_address(const struct image_process *process, const struct image_mapping *mapping, uint64_t address,
                   uint64_t *ret_address, uint64_t *ret_bias)
{
    struct image_file *file = mapping->file;
    uint64_t offset = address - mapping->start + mapping->offset;
    if (!file->opened)
        file_open(file, process->pid);
    if (!cfi_address(file->cfi, offset, ret_address))
        return false;
    *ret_bias = address - *ret_address;
    return true;
}

/* The first mapping that ends above the address. */
static size_t mapping_at(const struct image_process *process, uint64_t address)
{
    size_t from = 0, to = process->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (process->mappings[middle].end <= address)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const struct image_mapping *image_find(const struct image_process *process, uint64_t address)
{
    size_t at = mapping_at(process, address);
    return at < process->count && process->mappings[at].start <= address ? &process->mappings[at] : NULL;
}

static bool make_room(struct images *images, struct image_process *process, size_t more)
{
    size_t room = process->count + more;
    if (room <= process->room)
        return true;
    room = room < 16 ? 16 : 2 * room;
    struct image_mapping *mappings = room > MAPPINGS_MOST ? NULL : realloc(process->mappings, room * sizeof *mappings);
    if (!mappings) {
        images->failed = true;
        return false;
    }
    process->mappings = mappings;
    process->room = room;
    return true;
}

/* What lay there before is gone, or cut; one that reaches beyond both of its ends becomes two. */
static void map(struct images *images, struct image_process *process, const struct image_mapping *new)
{
    if (new->end <= new->start || !make_room(images, process, 2))
        return;
    struct image_mapping *mappings = process->mappings;
    size_t at = mapping_at(process, new->start), end = at;
    if (at < process->count && mappings[at].start < new->start) {
        struct image_mapping rest = mappings[at];
        mappings[at++].end = new->start;
        end = at;
        if (rest.end > new->end) {
            rest.offset += new->end - rest.start;
            rest.start = new->end;
            memmove(&mappings[at + 1], &mappings[at], (process->count - at) * sizeof *mappings);
            mappings[at] = rest;
            process->count++;
        }
    }
    while (end < process->count && mappings[end].end <= new->end)
        end++;
    if (end < process->count && mappings[end].start < new->end) {
        mappings[end].offset += new->end - mappings[end].start;
        mappings[end].start = new->end;
    }
    memmove(&mappings[at + 1], &mappings[end], (process->count - end) * sizeof *mappings);
    mappings[at] = *new;
    process->count += 1 + at - end;
}

/* ---- perf's records ---- */

static void apply_mmap(struct images *images, const struct perf_event_header *header)
{
    const struct image_mmap *record = (const void *)(header + 1);
    size_t head = sizeof *header + sizeof *record, room = header->size - head;
    if (header->size <= head || !memchr(record->path, '\0', room))
        return;
    struct image_process *process = image_process_of(images, (pid_t)record->pid);
    struct image_file_key key = {record->major, record->minor, record->inode};
    if (strcmp(record->path, vdso) == 0)
        key.major = UINT32_MAX; /* else as what is in no file, code that was made by the program */
    struct image_file *file = process ? file_of(images, &key, record->path) : NULL;
    if (file && strstr(text_base(record->path), "python"))
        process->has_python = true;
    if (file)
        map(images, process,
            &(struct image_mapping){record->start, record->start + record->size, record->offset, file});
}

static void thread_name(struct images *images, pid_t tid, const char *name)
{
    struct image_thread *thread = image_thread_of(images, tid);
    if (thread)
        memcpy(thread->name, name, sizeof thread->name);
}

/* executes: it is the same one, which has run before. */
static void thread_begin(struct images *images, pid_t pid, pid_t tid, uint64_t now_ns, bool executes)
{
    struct image_thread *thread = image_thread_of(images, tid);
    if (thread) { /* the number has come again, or it has executed something */
        struct image_thread *gone = thread->stack ? malloc(sizeof *gone) : NULL;
        if (gone) {
            *gone = *thread;
            gone->next = images->gone;
            images->gone = gone;
        } else {
            free(thread->stack);
        }
        UT_hash_handle hh = thread->hh;
        *thread = (struct image_thread){.tid = tid,
                                        .pid = pid,
                                        .number = images->numbered++,
                                        .looked_ns = now_ns,
                                        .ran_ns = executes ? thread->ran_ns : 0,
                                        .hh = hh};
        return;
    }
    thread = HASH_COUNT(images->threads) < THREADS_MOST ? calloc(1, sizeof *thread) : NULL;
    if (!thread)
        return; /* nobody looks at it */
    *thread = (struct image_thread){.tid = tid, .pid = pid, .number = images->numbered++, .looked_ns = now_ns};
    HASH_ADD_INT(images->threads, tid, thread);
}

static void thread_end(struct images *images, pid_t tid)
{
    struct image_thread *thread = image_thread_of(images, tid);
    if (thread)
        thread->ended = true;
}

static void apply_name(struct images *images, const struct perf_event_header *header)
{
    const struct image_name *record = (const void *)(header + 1);
    const size_t head = sizeof *header + sizeof *record;
    struct perf_record_id id;
    char name[sizeof((struct image_thread *)0)->name];
    bool executed = header->misc & PERF_RECORD_MISC_COMM_EXEC;
    if (header->size <= head)
        return;
    memset(name, 0, sizeof name);
    snprintf(name, sizeof name, "%.*s", (int)(header->size - head), record->name);
    if (record->pid != record->tid && !executed) {
        thread_name(images, (pid_t)record->tid, name);
        return;
    }
    struct image_process *process = image_process_of(images, (pid_t)record->pid);
    if (!process)
        return;
    if (executed) { /* its memory is new, and it has one thread */
        process->count = 0;
        process->threads = 1;
        process->number = images->numbered++;
        program_forget(process);
        thread_begin(images, process->pid, process->pid, perf_record_id(header, &id) ? id.time_ns : clock_now_ns(),
                     true);
    }
    memcpy(process->name, name, sizeof process->name);
    thread_name(images, process->pid, name);
}

static void apply_fork(struct images *images, const struct perf_event_header *header)
{
    const struct image_task *record = (const void *)(header + 1);
    struct image_process *parent = image_process_of(images, (pid_t)record->parent);
    struct image_process *process = image_process_of(images, (pid_t)record->pid);
    if (!parent || !process)
        return;
    const struct image_thread *from = image_thread_of(images, (pid_t)record->parent_tid);
    thread_begin(images, process->pid, (pid_t)record->tid, record->time, false);
    thread_name(images, (pid_t)record->tid, from && from->pid == parent->pid ? from->name : parent->name);
    if (process == parent) {
        process->threads++;
        return;
    }
    parent->children++;
    process->parent = parent->pid;
    process->count = 0;
    process->threads = 1;
    process->children = 0;
    process->number = images->numbered++; /* the number of a process may come again */
    program_forget(process);
    process->has_python = parent->has_python;
    memcpy(process->name, parent->name, sizeof process->name);
    if (parent->count && make_room(images, process, parent->count)) {
        memcpy(process->mappings, parent->mappings, parent->count * sizeof *parent->mappings);
        process->count = parent->count;
    }
}

static void apply_exit(struct images *images, const struct perf_event_header *header)
{
    const struct image_task *record = (const void *)(header + 1);
    struct image_process *process, *parent;
    pid_t pid = (pid_t)record->pid;
    thread_end(images, (pid_t)record->tid);
    HASH_FIND_INT(images->processes, &pid, process);
    if (!process || --process->threads > 0)
        return;
    HASH_FIND_INT(images->processes, &process->parent, parent);
    if (parent && parent->children > 0)
        parent->children--;
    HASH_DEL(images->processes, process);
    process_free(process);
}

void images_apply(struct images *images, const struct perf_event_header *record)
{
    if (record->type == PERF_RECORD_MMAP2)
        apply_mmap(images, record);
    else if (record->type == PERF_RECORD_COMM)
        apply_name(images, record);
    else if (record->size < sizeof(struct perf_event_header) + sizeof(struct image_task))
        return;
    else if (record->type == PERF_RECORD_FORK)
        apply_fork(images, record);
    else if (record->type == PERF_RECORD_EXIT)
        apply_exit(images, record);
}
