/* SPDX-License-Identifier: Apache-2.0 */
#include "publish/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "jobdir/record/mirror.h"
#include "jobdir/record/parts.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { DEPTH_MOST = 4 };
static const uint64_t NS_PER_MS = 1000000;

void files_init(struct files *files, const char *dir)
{
    *files = (struct files){.dir = dir};
}

void files_done(struct files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->list[i].path);
    free(files->list);
    *files = (struct files){0};
}

/* Greater than all before, also those of a publisher that was killed. */
static uint64_t next_version(struct files *files)
{
    uint64_t now = clock_wall_ns() / NS_PER_MS;
    files->version = now > files->version ? now : files->version + 1;
    return files->version;
}

/* FNV-1a: most paths begin alike. */
static uint32_t hash_of(const char *path)
{
    uint32_t hash = 2166136261;
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 16777619;
    return hash;
}

static struct small_file *find(struct files *files, const char *path, int64_t piece)
{
    uint32_t hash = hash_of(path);
    for (size_t i = 0; i < files->count; i++) {
        size_t at = files->next + i < files->count ? files->next + i : files->next + i - files->count;
        if (files->list[at].hash == hash && strcmp(files->list[at].path, path) == 0) {
            files->next = at + 1;
            return &files->list[at];
        }
    }
    char *copy = files->count < FILES_MOST && GROW(files->list, files->count, files->room) ? strdup(path) : NULL;
    if (!copy)
        return NULL;
    files->list[files->count] = (struct small_file){.path = copy, .hash = hash, .piece = piece};
    return &files->list[files->count++];
}

static void look_at(struct files *files, const char *path, int64_t piece, const struct stat *st, uint64_t now_ns,
                    bool all)
{
    struct small_file *file = find(files, path, piece);
    int64_t changed_ns = st->st_mtim.tv_sec * (int64_t)NS_PER_SECOND + st->st_mtim.tv_nsec;
    uint64_t bytes = (uint64_t)st->st_size;
    if (piece >= 0 && bytes == MIRROR_PIECE)
        changed_ns = 0; /* what comes behind it is no change */
    if (!file || bytes > FILES_BYTES_MOST || files->total + bytes > FILES_TOTAL_MOST + file->bytes) {
        files->left_out++;
        return;
    }
    bool same = file->version && file->inode == st->st_ino && file->changed_ns == changed_ns && file->bytes == bytes;
    if (same || (!all && file->sent_ns && now_ns - file->sent_ns < time_hasten(FILES_REST_MS * NS_PER_MS)))
        return;
    files->total += bytes - file->bytes;
    file->inode = st->st_ino;
    file->changed_ns = changed_ns;
    file->bytes = bytes;
    file->version = next_version(files);
    file->wanted = true;
}

static void look_in(struct files *files, int at_fd, const char *path, unsigned depth, uint64_t now_ns, bool all)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && files->looked < FILES_LOOKED_MOST && (entry = readdir(dir)); files->looked++) {
        char name[PATH_MAX];
        struct stat st;
        bool fits = (size_t)snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < sizeof name;
        if (entry->d_name[0] == '.' || !fits || fstatat(at_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue; /* also temporary files */
        if (S_ISREG(st.st_mode))
            look_at(files, name, -1, &st, now_ns, all);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MOST)
            look_in(files, at_fd, name, depth + 1, now_ns, all);
    }
    if (dir)
        closedir(dir);
}

static void look_at_single(struct files *files, int fd, const char *path, uint64_t now_ns, bool all)
{
    struct stat st;
    if (fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        look_at(files, path, -1, &st, now_ns, all);
}

static void look_at_pieces(struct files *files, int fd, const char *path, uint64_t now_ns, bool all)
{
    char name[PATH_MAX];
    struct stat st;
    if (fstatat(fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return;
    off_t size = st.st_size;
    for (int64_t at = 0; at < size; at += MIRROR_PIECE) {
        st.st_size = size - at < MIRROR_PIECE ? size - at : MIRROR_PIECE;
        if (at / MIRROR_PIECE < MIRROR_PIECES &&
            (size_t)snprintf(name, sizeof name, "%s+%lld", path, (long long)at) < sizeof name)
            look_at(files, name, at, &st, now_ns, all);
        else
            files->left_out++;
    }
}

/* One directory, of the job or of a part of it: `in` is "" or parts/NAME/. */
static void look_at_job(struct files *files, int fd, const char *in, uint64_t now_ns, bool all)
{
    static const char *const single[] = {"job.json", "report.txt", "clock.json", "remote.json"};
    char path[PATH_MAX];
    size_t count = *in ? sizeof single / sizeof *single : 2; /* of a job, the others are of a mirror */
    for (size_t i = 0; i < count; i++)
        if ((size_t)snprintf(path, sizeof path, "%s%s", in, single[i]) < sizeof path)
            look_at_single(files, fd, path, now_ns, all);
    if ((size_t)snprintf(path, sizeof path, "%sstats", in) < sizeof path)
        look_in(files, fd, path, 1, now_ns, all);
    if (*in && (size_t)snprintf(path, sizeof path, "%sspool/records.jsonl", in) < sizeof path)
        look_at_pieces(files, fd, path, now_ns, all);
}

struct looking {
    struct files *files;
    int fd;
    uint64_t now_ns;
    bool all, comes;
};

static int look_at_part(void *ctx, const char *dir)
{
    struct looking *looking = ctx;
    char in[PATH_MAX] = "";
    if (dir != looking->files->dir && (size_t)snprintf(in, sizeof in, "parts/%s/", text_base(dir)) >= sizeof in)
        return 0;
    look_at_job(looking->files, looking->fd, in, looking->now_ns, looking->all);
    looking->comes |= *in && job_part_comes(dir);
    return 0;
}

void files_look(struct files *files, uint64_t now_ns, bool all)
{
    _cleanup_(closep) int fd = open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct looking looking = {files, fd, now_ns, all, false};
    files->left_out = files->looked = 0;
    files->next = 0;
    if (fd >= 0)
        job_dirs_each(files->dir, look_at_part, &looking);
    files->parts_come = looking.comes;
}

size_t files_wanted(const struct files *files)
{
    size_t at = 0;
    while (at < files->count && !files->list[at].wanted)
        at++;
    return at;
}

bool files_load(const struct files *files, size_t at, struct file_load *ret_load)
{
    const struct small_file *file = &files->list[at];
    _cleanup_(closep) int dir = open(files->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file->path);
    if (file->piece >= 0)
        *strrchr(path, '+') = 0;
    _cleanup_(closep) int fd = dir < 0 ? -1 : file_open_own(dir, path, O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (file->piece < 0 && st.st_size > FILES_BYTES_MOST) ||
        (file->piece >= 0 && (st.st_size <= file->piece || lseek(fd, (off_t)file->piece, SEEK_SET) < 0)))
        return false;
    size_t size = file->piece < 0                           ? (size_t)st.st_size
                  : st.st_size - file->piece < MIRROR_PIECE ? (size_t)(st.st_size - file->piece)
                                                            : MIRROR_PIECE;
    size_t len = 0;
    _cleanup_(freep) char *bytes = malloc(size + 1);
    while (bytes && len < size) {
        ssize_t got = read(fd, bytes + len, size - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    if (!bytes)
        return false;
    *ret_load = (struct file_load){.at = at,
                                   .version = file->version,
                                   .bytes = TAKE_PTR(bytes),
                                   .len = len,
                                   .parts = len ? (unsigned)((len + FILES_PART_BYTES - 1) / FILES_PART_BYTES) : 1};
    return true;
}

void file_load_done(struct file_load *load)
{
    free(load->bytes);
    *load = (struct file_load){0};
}

static void put_base64(struct buf *out, const unsigned char *bytes, size_t len)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        unsigned word = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? (unsigned)bytes[i + 2] : 0);
        buf_putc(out, letters[word >> 18]);
        buf_putc(out, letters[word >> 12 & 63]);
        buf_putc(out, left > 1 ? letters[word >> 6 & 63] : '=');
        buf_putc(out, left > 2 ? letters[word & 63] : '=');
    }
}

void file_load_message(const struct files *files, const struct file_load *load, struct buf *out)
{
    size_t from = (size_t)load->part * FILES_PART_BYTES;
    size_t len = load->len - from < FILES_PART_BYTES ? load->len - from : FILES_PART_BYTES;
    json_t *head = json_pack("{s:s, s:I, s:I, s:I, s:I}", "path", files->list[load->at].path, "bytes",
                             (json_int_t)load->len, "part", (json_int_t)load->part, "parts", (json_int_t)load->parts,
                             "version", (json_int_t)load->version);
    json_t *content = json_stringn(load->bytes + from, len); /* NULL: no UTF-8 */
    _cleanup_(freep) char *before = head ? json_dumps(head, JSON_COMPACT) : NULL;
    _cleanup_(freep) char *text = content ? json_dumps(content, JSON_ENCODE_ANY) : NULL;
    json_decref(head);
    json_decref(content);
    if (!before)
        return; /* a name that is no UTF-8 */
    buf_append(out, before, strlen(before) - 1);
    if (text && strlen(text) <= (size_t)FILES_PART_BYTES / 3 * 4) {
        buf_printf(out, ",\"text\":");
        buf_puts(out, text);
    } else {
        buf_puts(out, ",\"base64\":\"");
        put_base64(out, (const unsigned char *)load->bytes + from, len);
        buf_putc(out, '"');
    }
    buf_putc(out, '}');
}
