/* SPDX-License-Identifier: Apache-2.0 */
/* --files: which files the job has read and written. files/files.c counts, in the processes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/proc_file.h"
#include "job/run/job.h"
#include "jobdir/text/text.h"
#include "shm/files.h"

enum { FILES_LISTED = 200 };

static const char SOURCE[] = "files that are read and written";

void files_share(struct job *job)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct script_env *env = &job->preload.script;
    if (!job->options->files || !job->dir[0])
        return;
    int fd = memfd_create(FILES_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct files *files = MAP_FAILED;
    if (fd >= 0 && posix_fallocate(fd, 0, sizeof *files) == 0 && fcntl(fd, F_ADD_SEALS, seals) == 0)
        files = mmap(NULL, sizeof *files, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (files == MAP_FAILED || !script_env_files(env)) {
        recorder_note(&job->recorder, NOTE(source_off, .source = SOURCE,
                                           .reason = files == MAP_FAILED ? "there is no memory for it"
                                                                         : "libscry-files.so is missing"));
        return;
    }
    files->version = FILES_VERSION;
    files->filters = (int32_t)proc_status_number(getpid(), 0, "Seccomp_filters");
    files->magic = FILES_MAGIC;
    snprintf(env->files, sizeof env->files, "/proc/%d/fd/%d", (int)job->info.supervisor, fd);
    job->files = files;
}

struct file_sum {
    char path[FILES_PATH], program[FILES_PROGRAM];
    int32_t pid;
    uint64_t read_bytes, written_bytes, reads, writes;
};

static int by_name(const void *a, const void *b)
{
    const struct file_sum *left = a, *right = b;
    int order = strcmp(left->path, right->path);
    return order ? order : strcmp(left->program, right->program);
}

static int by_bytes(const void *a, const void *b)
{
    const struct file_sum *left = a, *right = b;
    uint64_t first = left->read_bytes + left->written_bytes, second = right->read_bytes + right->written_bytes;
    return first != second ? (first < second ? 1 : -1) : by_name(a, b);
}

/* Of a slot, which may have anything in it. */
static void read_slot(const struct files_slot *slot, struct file_sum *ret_sum)
{
    *ret_sum = (struct file_sum){.pid = slot->pid,
                                 .read_bytes = atomic_load(&slot->read_bytes) & INT64_MAX >> 16,
                                 .written_bytes = atomic_load(&slot->written_bytes) & INT64_MAX >> 16,
                                 .reads = atomic_load(&slot->reads) & INT64_MAX >> 16,
                                 .writes = atomic_load(&slot->writes) & INT64_MAX >> 16};
    memcpy(ret_sum->path, slot->path, sizeof ret_sum->path - 1);
    memcpy(ret_sum->program, slot->program, sizeof ret_sum->program - 1);
}

static void sum_add(struct file_sum *sum, const struct file_sum *more)
{
    sum->read_bytes += more->read_bytes;
    sum->written_bytes += more->written_bytes;
    sum->reads += more->reads;
    sum->writes += more->writes;
}

/* Those of one name and program are one: a file that was written anew. */
static size_t collect(const struct files *files, struct file_sum *sums)
{
    size_t used = 0, count = 0;
    for (size_t i = 0; i < FILES_SLOTS; i++)
        if (atomic_load_explicit(&files->slots[i].state, memory_order_acquire) == FILES_READY)
            read_slot(&files->slots[i], &sums[used++]);
    qsort(sums, used, sizeof *sums, by_name);
    for (size_t i = 0; i < used; i++) {
        if (count && by_name(&sums[count - 1], &sums[i]) == 0)
            sum_add(&sums[count - 1], &sums[i]);
        else
            sums[count++] = sums[i];
    }
    qsort(sums, count, sizeof *sums, by_bytes);
    return count;
}

void files_put(struct job *job)
{
    const struct files *files = job->files;
    _cleanup_(freep) struct file_sum *sums = files ? calloc(FILES_SLOTS, sizeof *sums) : NULL;
    struct file_sum rest;
    if (!sums)
        return;
    size_t count = collect(files, sums);
    read_slot(&files->rest, &rest);
    struct files_record record = {.files = json_array(), .others = rest.reads + rest.writes > 0};
    for (size_t i = 0; i < count; i++) {
        if (i >= FILES_LISTED) {
            sum_add(&rest, &sums[i]);
            record.others++;
            continue;
        }
        const struct file_row row = {.path = sums[i].path,
                                     .program = sums[i].program,
                                     .pid = sums[i].pid,
                                     .read_bytes = sums[i].read_bytes,
                                     .written_bytes = sums[i].written_bytes,
                                     .reads = sums[i].reads,
                                     .writes = sums[i].writes};
        json_array_append_new(record.files, fields_json(record_file_fields, &row, NULL));
    }
    record.other_read_bytes = rest.read_bytes;
    record.other_written_bytes = rest.written_bytes;
    recorder_put(&job->recorder, RECORD_files, &record);
    if (!count)
        recorder_note(&job->recorder,
                      NOTE(source_off, .source = SOURCE,
                           .reason = "no process of the job that reads or writes loads what counts them; "
                                     "static programs do not"));
    json_decref(record.files);
}
