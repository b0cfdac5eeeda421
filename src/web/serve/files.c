/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of directories of jobs and tasks: their list, one of them or a part of it, all as an archive. Links are not
 * followed, and left out; so is what may not be read. There may be very many: a child lists them, and the server takes a line
 * of that list when the file's turn comes, so that no turn of it is longer than others.
 */
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "web/serve/serve.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* ---- a directory ---- */

enum { TREE_MOST = 200000, TREE_DEPTH = 12 };

struct tree_file {
    char *path; /* within the directory */
    uint64_t size;
    time_t modified;
    bool executable;
};

struct tree {
    struct tree_file *files;    /* sorted by path */
    size_t count, room, looked; /* looked at: files, and what is none */
};

enum { LOOKS_MOST = 2 * TREE_MOST, BLOCK = 512, NAME_MOST = 100, END_BLOCKS = 2 };

static int tree_add(struct tree *tree, const char *path, const struct stat *info)
{
    if (tree->count == TREE_MOST)
        return -E2BIG;
    if (tree->count == tree->room) {
        size_t room = tree->room ? 2 * tree->room : 64;
        struct tree_file *grown = realloc(tree->files, room * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        tree->files = grown;
        tree->room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return -ENOMEM;
    tree->files[tree->count++] =
        (struct tree_file){copy, (uint64_t)info->st_size, info->st_mtim.tv_sec, info->st_mode & S_IXUSR};
    return 0;
}

static int tree_walk(struct tree *tree, int dir_take, const char *above, int depth)
{
    int code = 0;
    DIR *dir = fdopendir(dir_take);
    if (!dir) {
        code = -errno;
        close(dir_take);
        return code;
    }
    while (code == 0) {
        char path[PATH_MAX];
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            code = -errno; /* half of a list would look whole */
            break;
        }
        if (++tree->looked > LOOKS_MOST) /* also at what is no file: the server waits for this */
            code = -E2BIG;
        struct stat info;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            snprintf(path, sizeof path, "%s%s%s", above, *above ? "/" : "", entry->d_name) >= PATH_MAX ||
            fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISREG(info.st_mode) && faccessat(dirfd(dir), entry->d_name, R_OK, AT_EACCESS) == 0) {
            code = tree_add(tree, path, &info);
        } else if (S_ISDIR(info.st_mode) && depth < TREE_DEPTH) {
            int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            code = fd >= 0 ? tree_walk(tree, fd, path, depth + 1) : errno == EACCES || errno == ENOENT ? 0 : -errno;
        }
    }
    closedir(dir);
    return code;
}

static int file_compare(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

/* 0; -E2BIG: too many files; -errno. Pass it to tree_done in any case. A large directory takes seconds, one on a file system that
 * stands still takes for ever: so a child reads it. */
static int tree_read(const char *dir, struct tree *ret_tree)
{
    *ret_tree = (struct tree){0};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int code = tree_walk(ret_tree, fd, "", 0);
    if (ret_tree->count)
        qsort(ret_tree->files, ret_tree->count, sizeof *ret_tree->files, file_compare);
    return code;
}

static void tree_done(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->files[i].path);
    free(tree->files);
    *tree = (struct tree){0};
}

/* Opens a regular file within an open directory; parts of the path may not be links, nor "..". -errno. */
static int tree_open(int dir, const char *path)
{
    int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    while (at >= 0) {
        char name[NAME_MAX + 1];
        size_t len = strcspn(path, "/");
        bool last = !path[len];
        int next = -1, code = EINVAL;
        if (len && len <= NAME_MAX && !(len <= 2 && strncmp(path, "..", len) == 0)) {
            memcpy(name, path, len);
            name[len] = '\0';
            next = last ? file_open_own(at, name, O_RDONLY)
                        : openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            code = last ? -next : errno;
        }
        close(at);
        if (next < 0)
            return code == EISDIR || code == EINVAL ? -ENOENT : -code;
        if (last)
            return next;
        at = next;
        path += len + 1;
    }
    return -errno;
}

/* ---- the archive ---- */

/* An archive (POSIX.1-2001, pax) of the files as long as they were listed: what was appended since is left out, what was cut or
 * removed is zeros. So its size is known before. */
struct tar {
    const char *next, *end; /* of the list */
    const char *top;        /* the folder in the archive */
    int dir;                /* open; -1: none */
    int fd;                 /* of the file whose bytes come; < 0: none, or why it cannot be opened */
    uint64_t left, zeros;   /* of it; behind it */
    char head[3 * 1024 + 4096];
    size_t head_len, head_at;
    bool ended;
};

static uint64_t tar_blocks(uint64_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Octal digits, or from 8 GB on the number itself, as GNU tar and others have it. */
static void tar_put_number(char *field, size_t size, uint64_t value)
{
    if (value >> (3 * (size - 1)) == 0) {
        snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)value);
        return;
    }
    for (size_t i = size; i-- > 1; value >>= 8)
        field[i] = (char)(value & 255);
    field[0] = (char)128;
}

static void tar_put_block(char *block, const char *name, char type, uint64_t size, const struct tree_file *file)
{
    unsigned sum = 0;
    memset(block, 0, BLOCK);
    snprintf(block, NAME_MOST, "%s", name);
    tar_put_number(block + 100, 8, file->executable ? 0755 : 0644);
    tar_put_number(block + 108, 8, 0);
    tar_put_number(block + 116, 8, 0);
    tar_put_number(block + 124, 12, size);
    tar_put_number(block + 136, 12, (uint64_t)(file->modified > 0 ? file->modified : 0));
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
}

/* A record of pax is "LENGTH path=NAME\n", where the length counts itself. */
static size_t tar_put_record(char *room, size_t size, const char *name)
{
    size_t len = strlen(name) + sizeof " path=\n" - 1, digits = 1;
    while (snprintf(NULL, 0, "%zu", len + digits) > (int)digits)
        digits++;
    return (size_t)snprintf(room, size, "%zu path=%s\n", len + digits, name);
}

/* What stands before the bytes of the file; its size. */
static size_t tar_put_head(char *room, size_t size, const char *top, const struct tree_file *file)
{
    char name[PATH_MAX + 256];
    snprintf(name, sizeof name, "%s/%s", top, file->path);
    size_t at = 0;
    if (strlen(name) >= NAME_MOST) {
        size_t len = tar_put_record(room + BLOCK, size - 2 * BLOCK, name);
        tar_put_block(room, "pax", 'x', len, file);
        memset(room + BLOCK + len, 0, tar_blocks(len) - len);
        at = BLOCK + tar_blocks(len);
    }
    tar_put_block(room + at, name, '0', file->size, file);
    return at + BLOCK;
}

/* On standard output, for tar_begin: an archive's size, with this folder in it, and its files. */
static void tree_print(const struct tree *tree, const char *top)
{
    uint64_t size = END_BLOCKS * BLOCK;
    char head[sizeof((struct tar *)0)->head];
    for (size_t i = 0; i < tree->count; i++)
        size += tar_put_head(head, sizeof head, top, &tree->files[i]) + tar_blocks(tree->files[i].size);
    printf("%" PRIu64 "%c", size, '\0');
    for (size_t i = 0; i < tree->count; i++)
        printf("%" PRIu64 " %lld %d %s%c", tree->files[i].size, (long long)tree->files[i].modified,
               tree->files[i].executable, tree->files[i].path, '\0');
}

/* The next line of the list. NULL: there is none that is whole. */
static const char *tar_next_line(struct tar *tar)
{
    const char *line = tar->next, *end = memchr(line, '\0', (size_t)(tar->end - line));
    tar->next = end ? end + 1 : tar->end;
    return end ? line : NULL;
}

/* From what was printed of this directory, which stays where it is, with this folder. *ret_size: of the archive. 0; -EINVAL; -errno. tar_done
 * in any case. */
static int tar_begin(struct tar *tar, const char *dir, const char *top, const char *list, size_t size,
                     uint64_t *ret_size)
{
    *tar = (struct tar){.next = list, .end = list + size, .top = top, .fd = -1};
    tar->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tar->dir < 0)
        return -errno;
    const char *line = tar_next_line(tar);
    return line && sscanf(line, "%" SCNu64, ret_size) == 1 ? 0 : -EINVAL;
}

static void tar_done(struct tar *tar)
{
    if (tar->fd >= 0)
        close(tar->fd);
    if (tar->dir >= 0)
        close(tar->dir);
}

static int tar_next_file(struct tar *tar)
{
    long long modified;
    int executable, at = 0;
    struct tree_file file;
    if (tar->fd >= 0)
        close(tar->fd);
    tar->fd = -1;
    tar->head_at = tar->head_len = 0;
    if (tar->next == tar->end) {
        tar->zeros = END_BLOCKS * BLOCK;
        tar->ended = true;
        return 0;
    }
    const char *line = tar_next_line(tar);
    if (!line || sscanf(line, "%" SCNu64 " %lld %d%n", &file.size, &modified, &executable, &at) != 3 || line[at] != ' ')
        return -EINVAL;
    file.path = (char *)line + at + 1;
    file.modified = (time_t)modified;
    file.executable = executable;
    tar->head_len = tar_put_head(tar->head, sizeof tar->head, tar->top, &file);
    tar->fd = tree_open(tar->dir, file.path);
    tar->left = file.size;
    tar->zeros = tar_blocks(file.size) - file.size;
    return 0;
}

/* At most so many bytes more; 0: it was all; -1: a file is there and cannot be read. */
static ssize_t tar_read(struct tar *tar, unsigned char *room, size_t size)
{
    size_t len = 0;
    while (len < size) {
        size_t want = size - len;
        if (tar->head_at < tar->head_len) {
            size_t part = tar->head_len - tar->head_at < want ? tar->head_len - tar->head_at : want;
            memcpy(room + len, tar->head + tar->head_at, part);
            tar->head_at += part;
            len += part;
        } else if (tar->left) {
            size_t part = tar->left < want ? (size_t)tar->left : want;
            ssize_t got = tar->fd >= 0 ? read(tar->fd, room + len, part) : tar->fd == -ENOENT ? 0 : -1;
            if (got < 0)
                return -1;
            if (got == 0) { /* it is shorter than it was, or gone */
                memset(room + len, 0, part);
                got = (ssize_t)part;
            }
            tar->left -= (uint64_t)got;
            len += (size_t)got;
        } else if (tar->zeros) {
            size_t part = tar->zeros < want ? (size_t)tar->zeros : want;
            memset(room + len, 0, part);
            tar->zeros -= part;
            len += part;
        } else if (tar->ended) {
            break;
        } else if (tar_next_file(tar) < 0) {
            return -1;
        }
    }
    return (ssize_t)len;
}

static void refuse_file(struct http_request *request, const char *of)
{
    request_answer_error(request, 404, "unknown", "there is no such file in the %s's directory", of);
}

/* ---- answers: the list, which a child of this program makes ---- */

/* A task's files, and what its runs and builds printed. Runs are jobs, and have files of their own; a file that comes in is none
 * yet. */
bool file_is_output(const char *path)
{
    return (strncmp(path, "files/", 6) == 0 && path[6] != '.') ||
           (strncmp(path, "runs/", 5) == 0 && path[5] != '.' && !strchr(path + 5, '/'));
}

static int print_json(const struct tree *tree, bool outputs)
{
    json_t *list = json_array(), *json = json_pack("{s:o}", "files", list);
    for (size_t i = 0; json && i < tree->count; i++)
        if (!outputs || file_is_output(tree->files[i].path))
            json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "path", text_json(tree->files[i].path),
                                                  "size_bytes", (json_int_t)tree->files[i].size, "modified_seconds",
                                                  (json_int_t)tree->files[i].modified));
    int code = json ? json_dumpf(json, stdout, JSON_COMPACT) : -1;
    putchar('\n');
    json_decref(json);
    return code;
}

/* The forms in which a child lists files. */
static const char FILES_TREE[] = "tree", FILES_JSON[] = "json", FILES_OUTPUTS[] = "outputs";

int files_print(const char *form, const char *dir, const char *top)
{
    struct tree tree;
    struct err err = {0};
    int code = tree_read(dir, &tree);
    if (code == -E2BIG)
        err_set(&err, code, "there are more than %d files; copy the directory", TREE_MOST);
    else if (code < 0)
        err_errno(&err, code, "cannot read the directory");
    else if (strcmp(form, FILES_TREE) == 0)
        tree_print(&tree, top);
    else if (print_json(&tree, strcmp(form, FILES_OUTPUTS) == 0) < 0)
        err_set(&err, -ENOMEM, "out of memory");
    tree_done(&tree);
    if (err.code)
        log_error("%s", err.text);
    return err.code || fflush(stdout) != 0;
}

static void ask_files(struct http_request *request, const char *dir, const char *form, uint32_t fresh_ms)
{
    char top[FOREIGN_ID_MOST + 1]; /* foreign_is_id was asked: no longer, and no option */
    snprintf(top, sizeof top, "%.*s", SPAN_ARG(request->parts[0]));
    const char *argv[] = {"--files", form, dir, top, NULL};
    question_ask(
        request->server->questions, request,
        &(struct question_spec){
            .argv = argv, .own = true, .once = !fresh_ms, .fresh_ms = fresh_ms, .limit_s = DOWNLOAD_LIMIT_SECONDS});
}

/* Never an older list: who has heard that a run is over asks once, for the last time. */
void outputs_answer_list(struct http_request *request, const char *dir)
{
    ask_files(request, dir, FILES_OUTPUTS, 0);
}

void answer_files(struct http_request *request)
{
    struct named_job job;
    if (job_of_request_here(request, &job))
        ask_files(request, job.path, FILES_JSON, DOWNLOAD_FRESH_MS);
}

/* ---- answers: one file ---- */

static ssize_t more_of_file(struct http_request *request, unsigned char *room, size_t size)
{
    ssize_t got = read((int)(intptr_t)request->extra, room, size);
    return got > 0 ? got : -2; /* it was cut, or cannot be read: the connection ends, so that this is seen */
}

static void close_file(struct http_request *request)
{
    close((int)(intptr_t)request->extra);
}

/* Always something to keep, never something to show: what a job wrote may look like a page. */
void tree_answer_file(struct http_request *request, const char *home, const char *path, const char *of)
{
    struct stat info;
    char range[96];
    uint64_t from = 0, len;
    struct reply reply = {.status = 200, .type = "application/octet-stream", .disposition = "attachment"};
    _cleanup_(closep) int dir = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = dir >= 0 ? tree_open(dir, path) : -1;
    if (fd < 0 || fstat(fd, &info) < 0) {
        refuse_file(request, of);
        return;
    }
    uint64_t size = len = (uint64_t)info.st_size;
    reply.range_unit = "bytes";
    switch (foreign_range(span_str(request->range), size, &from, &len)) {
    case RANGE_PART:
        reply.status = 206;
        snprintf(range, sizeof range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, from, from + len - 1, size);
        reply.range = range;
        lseek(fd, (off_t)from, SEEK_SET);
        break;
    case RANGE_BEYOND:
        close(fd);
        snprintf(range, sizeof range, "bytes */%" PRIu64, size);
        request->refusal.range = range;
        request_answer_error(request, 416, "range", "the file has %" PRIu64 " bytes", size);
        return;
    case RANGE_NONE:
        break;
    }
    request->extra = (void *)(intptr_t)fd;
    request->done = close_file;
    request_answer_more(request, &reply, len, more_of_file);
}

void answer_file(struct http_request *request)
{
    struct named_job job;
    char path[PATH_MAX];
    if (!job_of_request_here(request, &job))
        return;
    snprintf(path, sizeof path, "%.*s", SPAN_ARG(request->parts[1]));
    tree_answer_file(request, job.path, path, "job");
}

/* ---- all of them ---- */

struct archive {
    struct tar tar;
    struct blob *list; /* of its files */
    char top[FOREIGN_ID_MOST + 1];
};

static ssize_t more_of_archive(struct http_request *request, unsigned char *room, size_t size)
{
    struct archive *archive = request->extra;
    ssize_t len = tar_read(&archive->tar, room, size);
    return len > 0 ? len : len < 0 ? -2 : -1; /* what is broken off is seen to be */
}

static void archive_done(struct http_request *request)
{
    struct archive *archive = request->extra;
    tar_done(&archive->tar);
    blob_unref(archive->list);
    free(archive);
}

static void on_files(struct http_request *request, const struct answer *answer)
{
    char disposition[FOREIGN_ID_MOST + 64];
    struct named_job job;
    uint64_t size;
    if (!answer->blob) {
        answer_give(request, answer);
        return;
    }
    if (!job_of_request_here(request, &job))
        return;
    struct archive *archive = calloc(1, sizeof *archive);
    if (!archive) {
        request_answer_error(request, 503, "memory", "out of memory; try again later");
        return;
    }
    archive->list = blob_ref(answer->blob);
    request->extra = archive;
    request->done = archive_done;
    snprintf(archive->top, sizeof archive->top, "%.*s", SPAN_ARG(request->parts[0]));
    if (tar_begin(&archive->tar, job.path, archive->top, archive->list->bytes, archive->list->size, &size) < 0) {
        refuse_file(request, "job");
        return;
    }
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s.tar\"", archive->top);
    request_answer_more(request,
                        &(struct reply){.status = 200, .type = "application/x-tar", .disposition = disposition}, size,
                        more_of_archive);
}

void answer_archive(struct http_request *request)
{
    struct named_job job;
    if (!job_of_request_here(request, &job))
        return;
    request->then = on_files;
    ask_files(request, job.path, FILES_TREE, DOWNLOAD_FRESH_MS);
}
