/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a part of a job (jobdir/record/parts.h), for the node on which the job began: scry run has them brought there
 * (job/parts). Only regular files below the part's directory are read, whatever is asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "jobdir/record/dir.h"
#include "jobdir/record/parts.h"
#include "lang/put.h"
#include "lang/results.h"
#include "monitor/engine/execute.h"
#include "service/omis/service.h"

enum { FILES_MOST = 100000, READ_MOST = 1 << 20 };

struct looking {
    uint64_t wanted, count; /* parts of the job on this node, the first is 1 */
    char *path;
    size_t size;
};

static int look_at(void *ctx, const char *dir)
{
    struct looking *looking = ctx;
    if (++looking->count == looking->wanted)
        snprintf(looking->path, looking->size, "%s", dir);
    return 0;
}

/* The directory of a part on this node, and how many there are; 0: answered that there is none. Where several launchers
 * came to a node, the first part has the others in it (job/run/part.c). */
static uint64_t find_part(struct scry_call *call, char *ret_path, size_t size)
{
    struct err err = {0};
    char first[PATH_MAX];
    const char *job = call_string(call, 1);
    struct looking looking = {.wanted = call_unsigned(call, 2), .path = ret_path, .size = size};
    if (!job || !call_check_range(call, 2, 1, PARTS_MOST))
        return 0;
    int code = strchr(job, '/') ? err_set(&err, -EINVAL, "expected the id of a job, not a path: %s", job)
                                : jobdir_find_only(job, first, sizeof first, &err);
    if (code == 0)
        code = job_dirs_each(first, look_at, &looking);
    if (code == 0 && looking.wanted > looking.count)
        code = err_set(&err, -ENOENT, "there is no part %" PRIu64 " of job %s here", looking.wanted, job);
    if (code < 0)
        call_fail_errno(call, call->object_count ? call->objects[0] : NULL, code, &err);
    return code < 0 ? 0 : looking.count;
}

/* ---- the list ---- */

static void job_part_files(struct scry_call *call)
{
    char path[PATH_MAX], host[256] = "";
    uint64_t parts = call->object_count ? find_part(call, path, sizeof path) : 0;
    if (!parts)
        return;
    gethostname(host, sizeof host - 1);
    char *paths[] = {path, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, NULL);
    struct buf text = BUF_INIT;
    size_t count = 0;
    PUT(&text, path);
    put_list(&text);
    for (FTSENT *entry; tree && count < FILES_MOST && (entry = fts_read(tree));) {
        if (entry->fts_info == FTS_D && entry->fts_level == 1 && strcmp(entry->fts_name, "parts") == 0)
            fts_set(tree, entry, FTS_SKIP);
        if (entry->fts_info != FTS_F)
            continue;
        const struct timespec *changed = &entry->fts_statp->st_mtim;
        PUT(&text, entry->fts_path + strlen(path) + 1, (uint64_t)entry->fts_statp->st_size,
            (int64_t)(changed->tv_sec * NS_PER_SECOND + changed->tv_nsec));
        count++;
    }
    put_end(&text);
    PUT(&text, host, parts);
    if (tree)
        fts_close(tree);
    call_text(call, call->objects[0], &text);
    buf_done(&text);
}

/* ---- one of them ---- */

/* Nothing leads out of the directory: no link, and no "..". */
static int open_below(const char *dir, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    _cleanup_(closep) int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (at < 0)
        return -errno;
    int fd = (int)syscall(SYS_openat2, at, name, &how, sizeof how);
    int code = fd < 0 ? -errno : fstat(fd, &st) < 0 ? -errno : S_ISREG(st.st_mode) ? 0 : -EINVAL;
    if (code < 0 && fd >= 0)
        close(fd);
    return code < 0 ? code : fd;
}

static void job_part_read(struct scry_call *call)
{
    char path[PATH_MAX];
    struct err err = {0};
    if (!call->object_count || !call_check_range(call, 4, 0, INT64_MAX) || !call_check_range(call, 5, 1, READ_MOST) ||
        !find_part(call, path, sizeof path))
        return;
    const char *name = call_string(call, 3);
    if (!name)
        return;
    _cleanup_(closep) int fd = open_below(path, name);
    _cleanup_(freep) char *bytes = malloc(call_unsigned(call, 5));
    ssize_t got = fd < 0  ? fd
                  : bytes ? pread(fd, bytes, call_unsigned(call, 5), (off_t)call_unsigned(call, 4))
                          : -ENOMEM;
    got = got == -1 && fd >= 0 ? -errno : got;
    if (got < 0) {
        err_errno(&err, (int)got, "cannot read %s of %s", name, path);
        call_fail_errno(call, call->objects[0], (int)got, &err);
        return;
    }
    struct buf text = BUF_INIT;
    value_print_binary(&text, (struct span){bytes, (size_t)got});
    call_text(call, call->objects[0], &text);
    buf_done(&text);
}

/* ---- the end ---- */

static void job_part_brought(struct scry_call *call)
{
    char path[PATH_MAX], mark[PATH_MAX];
    struct err err = {0};
    if (!call->object_count || !find_part(call, path, sizeof path))
        return;
    bool fits = (size_t)snprintf(mark, sizeof mark, "%s/" PART_BROUGHT, path) < sizeof mark;
    _cleanup_(closep) int fd = fits ? file_open_own(AT_FDCWD, mark, O_WRONLY | O_CREAT) : -ENAMETOOLONG;
    if (fd >= 0) {
        call_ok(call, call->objects[0]);
        return;
    }
    err_errno(&err, fd, "cannot make %s/" PART_BROUGHT, path);
    call_fail_errno(call, call->objects[0], fd, &err);
}

const struct scry_service job_part_services[] = {
    {"job_part_files", SCRY_INFORMATION, "token<n>* node_list, string job, integer part -> " JOB_PART_FILES,
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_files,
     "The files of a part that a job, by its id, has on a node: where it is, of each file its name, its size, and when "
     "it was changed, ns since 1970; then the node as it calls itself, and how many parts the job has there. The first "
     "part is 1."},
    {"job_part_read", SCRY_INFORMATION,
     "token<n>* node_list, string job, integer part, string file, integer<bytes> offset, integer<bytes> count -> "
     "binary",
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_read, "So many bytes of such a file, at most 1 MB, fewer at its end."},
    {"job_part_brought", SCRY_MANIPULATION, "token<n>* node_list, string job, integer part -> void",
     SCRY_OPTIONAL | SCRY_LOCAL, job_part_brought,
     "All files of the part were read after its end: it need not wait any longer."},
    SERVICE_END,
};
