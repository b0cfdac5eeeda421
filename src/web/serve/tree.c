/* SPDX-License-Identifier: Apache-2.0 */
#include "web/serve/tree.h"

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
#include "base/system/file.h"

enum { LOOKS_MOST = 2 * TREE_MOST, BLOCK = 512, NAME_MOST = 100, END_BLOCKS = 2 };

/* ---- the list ---- */

static int add(struct tree *tree, const char *path, const struct stat *info)
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

static int walk(struct tree *tree, int dir_take, const char *above, int depth)
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
            code = add(tree, path, &info);
        } else if (S_ISDIR(info.st_mode) && depth < TREE_DEPTH) {
            int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            code = fd >= 0 ? walk(tree, fd, path, depth + 1) : errno == EACCES || errno == ENOENT ? 0 : -errno;
        }
    }
    closedir(dir);
    return code;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

int tree_read(const char *dir, struct tree *ret_tree)
{
    *ret_tree = (struct tree){0};
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int code = walk(ret_tree, fd, "", 0);
    if (ret_tree->count)
        qsort(ret_tree->files, ret_tree->count, sizeof *ret_tree->files, compare);
    return code;
}

void tree_done(struct tree *tree)
{
    for (size_t i = 0; i < tree->count; i++)
        free(tree->files[i].path);
    free(tree->files);
    *tree = (struct tree){0};
}

int tree_open(int dir, const char *path)
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

static uint64_t blocks(uint64_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* Octal digits, or from 8 GB on the number itself, as GNU tar and others have it. */
static void put_number(char *field, size_t size, uint64_t value)
{
    if (value >> (3 * (size - 1)) == 0) {
        snprintf(field, size, "%0*llo", (int)size - 1, (unsigned long long)value);
        return;
    }
    for (size_t i = size; i-- > 1; value >>= 8)
        field[i] = (char)(value & 255);
    field[0] = (char)128;
}

static void put_block(char *block, const char *name, char type, uint64_t size, const struct tree_file *file)
{
    unsigned sum = 0;
    memset(block, 0, BLOCK);
    snprintf(block, NAME_MOST, "%s", name);
    put_number(block + 100, 8, file->executable ? 0755 : 0644);
    put_number(block + 108, 8, 0);
    put_number(block + 116, 8, 0);
    put_number(block + 124, 12, size);
    put_number(block + 136, 12, (uint64_t)(file->modified > 0 ? file->modified : 0));
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
}

/* A record of pax is "LENGTH path=NAME\n", where the length counts itself. */
static size_t put_record(char *room, size_t size, const char *name)
{
    size_t len = strlen(name) + sizeof " path=\n" - 1, digits = 1;
    while (snprintf(NULL, 0, "%zu", len + digits) > (int)digits)
        digits++;
    return (size_t)snprintf(room, size, "%zu path=%s\n", len + digits, name);
}

/* What stands before the bytes of the file; its size. */
static size_t put_head(char *room, size_t size, const char *top, const struct tree_file *file)
{
    char name[PATH_MAX + 256];
    snprintf(name, sizeof name, "%s/%s", top, file->path);
    size_t at = 0;
    if (strlen(name) >= NAME_MOST) {
        size_t len = put_record(room + BLOCK, size - 2 * BLOCK, name);
        put_block(room, "pax", 'x', len, file);
        memset(room + BLOCK + len, 0, blocks(len) - len);
        at = BLOCK + blocks(len);
    }
    put_block(room + at, name, '0', file->size, file);
    return at + BLOCK;
}

void tree_print(const struct tree *tree, const char *top)
{
    uint64_t size = END_BLOCKS * BLOCK;
    char head[sizeof((struct tar *)0)->head];
    for (size_t i = 0; i < tree->count; i++)
        size += put_head(head, sizeof head, top, &tree->files[i]) + blocks(tree->files[i].size);
    printf("%" PRIu64 "%c", size, '\0');
    for (size_t i = 0; i < tree->count; i++)
        printf("%" PRIu64 " %lld %d %s%c", tree->files[i].size, (long long)tree->files[i].modified,
               tree->files[i].executable, tree->files[i].path, '\0');
}

/* The next line of the list. NULL: there is none that is whole. */
static const char *next_line(struct tar *tar)
{
    const char *line = tar->next, *end = memchr(line, '\0', (size_t)(tar->end - line));
    tar->next = end ? end + 1 : tar->end;
    return end ? line : NULL;
}

int tar_begin(struct tar *tar, const char *dir, const char *top, const char *list, size_t size, uint64_t *ret_size)
{
    *tar = (struct tar){.next = list, .end = list + size, .top = top, .fd = -1};
    tar->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tar->dir < 0)
        return -errno;
    const char *line = next_line(tar);
    return line && sscanf(line, "%" SCNu64, ret_size) == 1 ? 0 : -EINVAL;
}

void tar_done(struct tar *tar)
{
    if (tar->fd >= 0)
        close(tar->fd);
    if (tar->dir >= 0)
        close(tar->dir);
}

static int next_file(struct tar *tar)
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
    const char *line = next_line(tar);
    if (!line || sscanf(line, "%" SCNu64 " %lld %d%n", &file.size, &modified, &executable, &at) != 3 || line[at] != ' ')
        return -EINVAL;
    file.path = (char *)line + at + 1;
    file.modified = (time_t)modified;
    file.executable = executable;
    tar->head_len = put_head(tar->head, sizeof tar->head, tar->top, &file);
    tar->fd = tree_open(tar->dir, file.path);
    tar->left = file.size;
    tar->zeros = blocks(file.size) - file.size;
    return 0;
}

ssize_t tar_read(struct tar *tar, unsigned char *room, size_t size)
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
        } else if (next_file(tar) < 0) {
            return -1;
        }
    }
    return (ssize_t)len;
}
