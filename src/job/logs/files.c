/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/files.h"

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- what becomes of files ---- */

/* Before it was read; after it was read before, whatever the clock of the file system's node says. */
static uint64_t written_ns(const struct log_file *file)
{
    struct stat status;
    uint64_t now_ns = file->files->now_ns(), wall_ns = clock_wall_ns();
    if (file->tail.fd < 0 || fstat(file->tail.fd, &status) < 0)
        return now_ns;
    uint64_t last_ns = (uint64_t)status.st_mtim.tv_sec * NS_PER_SECOND + (uint64_t)status.st_mtim.tv_nsec;
    uint64_t ago_ns = wall_ns > last_ns ? wall_ns - last_ns : 0;
    uint64_t least_ns = file->tail.read_ns < now_ns ? file->tail.read_ns : now_ns;
    return now_ns - least_ns > ago_ns ? now_ns - ago_ns : least_ns;
}

/* Of lines with terminals' signs, tabs and holes there are few that no text has; of numbers and of what is compressed one in 14. */
static bool is_data(const char *bytes, size_t len)
{
    enum { LOOKED_AT = 4 << 10, ONE_IN = 32, LEAST = 8 };
    static const char of_text[] = "\t\n\v\f\r\b\a\033";
    const size_t most = len < LOOKED_AT ? len : LOOKED_AT;
    size_t strange = 0;
    for (size_t i = 0; i < most; i++)
        strange += (unsigned char)bytes[i] < ' ' && bytes[i] && !memchr(of_text, bytes[i], sizeof of_text - 1);
    return strange >= LEAST && strange * ONE_IN > most;
}

/* Patterns take long for data, and find in it what nobody has said: who asks for a file knows better. */
static void on_lines(void *ctx, const char *bytes, size_t len, bool cut)
{
    struct log_file *file = ctx;
    const size_t half = len / 2;
    if (!file->asked && is_data(bytes, half) && is_data(bytes + half, len - half)) {
        file->matcher.line = -1;
        return;
    }
    log_match_lines(&file->matcher, written_ns(file), bytes, len, cut);
}

static void put_state(struct log_file *file, enum tail_state state, int64_t bytes, const char *reason)
{
    const struct log_expressions *expressions = &file->files->expressions;
    json_t *given = file->matcher.given ? json_array() : NULL;
    for (uint64_t rest = file->matcher.given; rest; rest &= rest - 1)
        json_array_append_new(given, json_string(expressions->given[__builtin_ctzll(rest)].name));
    expressions->sink->put(expressions->sink->ctx,
                           RECORD(log_file, .file = file->name, .state = tail_state_names[state],
                                  .reason = *reason ? reason : NULL, .bytes = bytes, .expressions = given));
    json_decref(given);
}

static void on_state(void *ctx, enum tail_state state, bool first, uint64_t bytes, const char *reason)
{
    struct log_file *file = ctx;
    const struct log_sink *sink = file->files->expressions.sink;
    uint64_t folded;
    if (state != TAIL_WAITED_FOR && state != TAIL_UNWATCHED && state != TAIL_REMOVED) {
        file->seen = true;
        file->matcher.line = first ? 0 : -1;
    }
    if (file->data)
        return;
    file->skipped_bytes += bytes;
    file->skipped_unsaid += bytes;
    if (file->files->silent && (state == TAIL_WATCHED || state == TAIL_WAITED_FOR || state == TAIL_UNWATCHED))
        return;
    if (state == TAIL_UNWATCHED && !file->asked && strcmp(file->name, "stdout") == 0)
        return; /* mostly it is for a person or another program */
    if (state == TAIL_UNWATCHED && file->asked)
        sink->note(sink->ctx, NOTE(log_unwatched, .file = file->name, .reason = reason));
    struct fold *states = file->wild ? &file->files->states : &file->states;
    if (!fold_take(states, file->files->now_ns(), &folded))
        return;
    put_state(file, state, state == TAIL_SKIPPED ? (int64_t)file->skipped_unsaid : -1, reason);
    if (state == TAIL_SKIPPED)
        file->skipped_unsaid = 0;
}

/* ---- files ---- */

static void free_file(struct log_file *file)
{
    tail_done(&file->tail);
    log_matcher_done(&file->matcher);
    free(file->path);
    free(file->name);
    free(file);
}

static bool is_same(const struct tail_identity *one, const struct tail_identity *other)
{
    return one->device == other->device && one->inode == other->inode && one->born_ns == other->born_ns;
}

static bool want_the_same(const struct log_file *one, const struct log_file *other)
{
    return one->matcher.given == other->matcher.given && one->matcher.rows == other->matcher.rows;
}

static bool has_path(const struct log_file *file, const struct tail_identity *identity)
{
    struct stat named;
    return stat(file->path, &named) == 0 && named.st_dev == identity->device && named.st_ino == identity->inode;
}

/* A file that is renamed within what a wild name matches is read on, and not again. */
static uint64_t on_known(void *ctx, const struct tail_identity *identity, uint64_t size)
{
    struct log_file *file = ctx;
    struct log_files *files = file->files;
    for (struct log_file *other = files->files; other; other = other->hh.next) {
        struct tail *tail = &other->tail;
        if (other == file || !tail_is_open(tail) || tail->stream || !is_same(&tail->identity, identity) ||
            !want_the_same(file, other))
            continue;
        if (tail->hand_over == UINT64_MAX && !has_path(other, identity))
            tail->hand_over = size;
        return size;
    }
    for (size_t i = 0; identity->born_ns && i < LOG_LEFT; i++)
        if (is_same(&files->left[i].identity, identity) && files->left[i].given == file->matcher.given &&
            files->left[i].rows == file->matcher.rows)
            return files->left[i].offset;
    return 0;
}

static void on_left(void *ctx, const struct tail_identity *identity, uint64_t offset)
{
    struct log_file *file = ctx;
    struct log_files *files = file->files;
    files->left[files->left_count++ % LOG_LEFT] =
        (struct log_left){*identity, offset, file->matcher.given, file->matcher.rows};
}

/* Whether a file that is found is read already by another name, which is still its name. */
static bool has_other_name(const struct log_files *files, const struct stat *status)
{
    for (const struct log_file *file = files->files; file; file = file->hh.next)
        if (tail_is_open(&file->tail) && !file->tail.stream && file->tail.identity.device == status->st_dev &&
            file->tail.identity.inode == status->st_ino && has_path(file, &file->tail.identity))
            return true;
    return false;
}

/* ---- files that are in the way while they are open ---- */

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return *left < *right ? -1 : *left > *right;
}

void log_files_note_mounts(struct log_files *files)
{
    size_t room = 0;
    char *line = NULL;
    FILE *mounts = file_open_plain("/proc/self/mountinfo");
    for (size_t size = 0; mounts && getline(&line, &size, mounts) > 0;)
        if (GROW(files->mounts, files->mount_count, room))
            files->mounts[files->mount_count++] = strtoull(line, NULL, 10);
    free(line);
    if (mounts)
        fclose(mounts);
    if (files->mount_count)
        qsort(files->mounts, files->mount_count, sizeof *files->mounts, by_number);
}

/* Who removes a directory finds an open file in it again, by another name, where such systems keep it: NFS, SMB, many of FUSE. */
static bool keeps_removed(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return false;
    switch ((uint32_t)fs.f_type) {
    case NFS_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case FUSE_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

/* The job has mounted it itself, and cannot unmount it while a file there is open. */
static bool is_mounted_since(const struct log_files *files, int fd)
{
    struct statx status;
    if (!files->mounts || statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) < 0 || !(status.stx_mask & STATX_MNT_ID))
        return false;
    uint64_t number = status.stx_mnt_id;
    return !bsearch(&number, files->mounts, files->mount_count, sizeof number, by_number);
}

/* What the job's command itself writes to, scry run has open, too. */
static bool on_yields(void *ctx, int fd)
{
    const struct log_file *file = ctx;
    return strncmp(file->path, "/proc/", strlen("/proc/")) != 0 &&
           (keeps_removed(fd) || is_mounted_since(file->files, fd));
}

static struct log_file *find_file(const struct log_files *files, const char *path)
{
    struct log_file *file;
    HASH_FIND_STR(files->files, path, file);
    return file;
}

static struct log_file *add_file(struct log_files *files, const char *path, const char *name, bool stream)
{
    const struct log_sink *sink = files->expressions.sink;
    struct log_file *file = find_file(files, path);
    if (file)
        return file;
    if (HASH_COUNT(files->files) >= LOG_FILES_MOST) {
        if (!files->full)
            sink->note(sink->ctx, NOTE(log_files_most, .files = LOG_FILES_MOST, .file = name));
        files->full = true;
        return NULL;
    }
    file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    *file = (struct log_file){.path = strdup(path), .name = strdup(name), .files = files};
    file->matcher = (struct log_matcher){.file = file->name, .expressions = &files->expressions, .line = -1};
    if (!file->path || !file->name) {
        free_file(file);
        return NULL;
    }
    tail_init(&file->tail, file->path, (struct tail_calls){on_lines, on_state, on_known, on_left, on_yields, file});
    file->tail.stream = stream;
    file->tail.start_ns = clock_ns(CLOCK_REALTIME_COARSE); /* the clock of file systems: never ahead of theirs */
    HASH_ADD_KEYPTR(hh, files->files, file->path, strlen(file->path), file);
    return file;
}

static void want(struct log_file *file, uint64_t given, uint64_t rows, bool asked)
{
    if (!file)
        return;
    file->matcher.given |= given;
    file->matcher.rows |= rows;
    file->asked |= asked;
}

/* ---- names ---- */

static int stream_of(const char *file)
{
    if (strcmp(file, "stdout") == 0 || strcmp(file, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    return strcmp(file, "stderr") == 0 || strcmp(file, "/dev/stderr") == 0 ? STDERR_FILENO : -1;
}

static void stream_path(char path[64], pid_t root, int fd)
{
    snprintf(path, 64, "/proc/%d/fd/%d", (int)root, fd);
}

/* Mostly both are one file: then it is read once, and lines are from "stdout" if anybody has asked for that. */
static bool add_stream(struct log_files *files, int fd, uint64_t given, uint64_t rows, bool asked)
{
    char path[64], other[64], kept[PATH_MAX];
    struct stat mine, its;
    const char *name = fd == STDOUT_FILENO ? "stdout" : "stderr";
    if (files->kept[fd - STDOUT_FILENO]) {
        snprintf(kept, sizeof kept, "%s/output/%s", files->dir, files->kept[fd - STDOUT_FILENO]);
        struct log_file *segments = add_file(files, kept, name, true);
        if (segments)
            segments->tail.kept = true;
        want(segments, given, rows, asked);
        return segments != NULL;
    }
    stream_path(path, files->root, fd);
    stream_path(other, files->root, fd == STDOUT_FILENO ? STDERR_FILENO : STDOUT_FILENO);
    struct log_file *same = find_file(files, other), *file = find_file(files, path);
    if (!file && same && stat(path, &mine) == 0 && stat(other, &its) == 0 && mine.st_dev == its.st_dev &&
        mine.st_ino == its.st_ino)
        file = same;
    if (!file)
        file = add_file(files, path, name, true);
    want(file, given, rows, asked);
    return file != NULL;
}

/* How a process has a file open: the flags of open(2). -1: it is gone, or we may not look. */
static long stream_flags(pid_t pid, int fd)
{
    char name[32], text[256];
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    const char *at = proc_file_read(pid, 0, name, text, sizeof text, NULL) == 0 ? strstr(text, "flags:") : NULL;
    return at ? strtol(at + strlen("flags:"), NULL, 8) : -1;
}

/* The one that is read already, by any name; NULL: none is. */
static struct log_file *find_open(const struct log_files *files, const struct stat *status)
{
    for (struct log_file *file = files->files; file; file = file->hh.next)
        if (tail_is_open(&file->tail) && file->tail.identity.device == status->st_dev &&
            file->tail.identity.inode == status->st_ino)
            return file;
    return NULL;
}

/* As people know it: from the job's directory on. */
static const char *path_from(const struct log_files *files, const char *path)
{
    size_t len = strlen(files->cwd);
    return strncmp(path, files->cwd, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

/* By its name: "solver.log", "rsl.error.0000" of WRF, "beam.msg" of Abaqus, "events.jsonl". */
bool log_files_is_log(const char *path)
{
    static const char *const ends[] = {".log",   ".out",    ".err",       ".error",     ".msg",
                                       ".jsonl", ".ndjson", "output.txt", "stdout.txt", "stderr.txt"},
                             word[] = "log";
    const char *name = text_base(path), *at = name;
    size_t len = strlen(name), digits = 0;
    while (digits < len && isdigit((unsigned char)name[len - 1 - digits]))
        digits++;
    len -= digits && digits < len && name[len - 1 - digits] == '.' ? digits + 1 : 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (len >= strlen(ends[i]) && strncmp(name + len - strlen(ends[i]), ends[i], strlen(ends[i])) == 0)
            return true;
    for (; (at = strcasestr(at, word)) != NULL; at++)
        if ((at == name || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[strlen(word)]))
            return true;
    return false;
}

static void add_found(struct log_files *files, pid_t pid, int fd, uint64_t rows)
{
    char link[64], path[PATH_MAX];
    struct stat status, named;
    bool log = fd > STDERR_FILENO;
    stream_path(link, pid, fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len <= 0)
        return;
    path[len] = 0;
    if ((log && !log_files_is_log(path)) || stat(link, &status) < 0 || !S_ISREG(status.st_mode) ||
        status.st_uid != geteuid())
        return;
    struct log_file *file = find_open(files, &status);
    if (file && file->found && (pid != files->root || file->found == LOG_FOUND_LEFT) &&
        !log) { /* mostly its shell has opened it */
        file->failed = file->found == pid ? file->failed : 0;
        if (file->found != pid && file->found != files->root) {
            memmove(file->before + 1, file->before, sizeof file->before - sizeof *file->before);
            file->before[0] = file->found;
        }
        file->found = pid;
    }
    if (file)
        return;
    long flags = stream_flags(pid, fd);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return;
    if (stat(path, &named) < 0 || named.st_dev != status.st_dev || named.st_ino != status.st_ino ||
        find_file(files, path) || HASH_COUNT(files->files) >= LOG_FILES_MOST)
        return;
    file = add_file(files, path, path_from(files, path), true);
    if (!file)
        return;
    *(log ? &files->log_count : &files->found_count) += 1;
    file->found = pid;
    file->log = log;
    file->data = fd != STDERR_FILENO;
    file->matcher.rows = file->data ? 0 : rows;
    file->tail.start_ns = flags & O_APPEND || files->start_ns == UINT64_MAX ? files->start_ns : 0;
    tail_look(&file->tail, false);
}

bool log_file_was_of(const struct log_file *file, pid_t pid)
{
    bool was = false;
    for (size_t i = 0; i < LOG_BEFORE; i++)
        was |= file->before[i] == pid;
    return was;
}

void log_files_leave_outputs(struct log_files *files, pid_t pid)
{
    char link[64];
    struct stat status;
    stream_path(link, pid, STDOUT_FILENO);
    for (struct log_file *file = files->files; file; file = file->hh.next) {
        bool had = log_file_was_of(file, pid);
        if (!file->data || file->log || (file->found != pid && !had) || stat(link, &status) < 0 ||
            (status.st_dev == file->tail.identity.device && status.st_ino == file->tail.identity.inode))
            continue;
        file->found = file->found == pid ? LOG_FOUND_LEFT : file->found;
        for (size_t i = 0; had && i < LOG_BEFORE; i++)
            file->before[i] = file->before[i] == pid ? 0 : file->before[i];
    }
}

void log_files_add_streams(struct log_files *files, pid_t pid, uint64_t rows)
{
    log_files_leave_outputs(files, pid);
    for (int fd = STDERR_FILENO; fd >= STDOUT_FILENO && rows && files->found_count < LOG_FOUND_MOST; fd--)
        add_found(files, pid, fd, rows);
}

void log_files_note_holder(struct log_files *files, pid_t pid, pid_t parent)
{
    for (struct log_file *file = files->files; file; file = file->hh.next)
        for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && file->found == pid && file->holder != parent; fd++) {
            char link[64];
            struct stat status;
            stream_path(link, parent, fd);
            if (stat(link, &status) == 0 && status.st_dev == file->tail.identity.device &&
                status.st_ino == file->tail.identity.inode)
                file->holder = parent;
        }
}

void log_files_add_logs(struct log_files *files, pid_t pid, uint64_t rows)
{
    enum { FDS_MOST = 32 }; /* those are opened early */
    for (int fd = STDERR_FILENO + 1; fd < FDS_MOST && rows && files->log_count < LOG_OPENED_MOST; fd++)
        add_found(files, pid, fd, rows);
}

/* ---- logs that nobody was seen to write ---- */

/* Of a directory at the end; and when the job begins, which waits for it: logs beyond that are known by when they were made. */
enum { NAMES_MOST = 10000, FIRST_NAMES_MOST = 500, THERE_MOST = 64 };

struct log_seen {
    char path[PATH_MAX];
    struct stat status;
};

/* The next log of this user in it; false: there is none, or enough was looked at. */
static bool next_log(DIR *dir, const char *directory, unsigned most, unsigned *looked, struct log_seen *ret_seen)
{
    const struct dirent *entry;
    while (*looked < most && (entry = readdir(dir)) != NULL) {
        ++*looked;
        int len = snprintf(ret_seen->path, sizeof ret_seen->path, "%s/%s", directory, entry->d_name);
        if (log_files_is_log(entry->d_name) && len > 0 && (size_t)len < sizeof ret_seen->path &&
            lstat(ret_seen->path, &ret_seen->status) == 0 && S_ISREG(ret_seen->status.st_mode) &&
            ret_seen->status.st_uid == geteuid())
            return true;
    }
    return false;
}

static uint64_t modified_ns(const struct stat *status)
{
    return (uint64_t)status->st_mtim.tv_sec * NS_PER_SECOND + (uint64_t)status->st_mtim.tv_nsec;
}

static struct log_there *find_there(const struct log_files *files, const struct stat *status)
{
    struct log_there key = {0}, *there;
    key.key.device = status->st_dev;
    key.key.inode = status->st_ino;
    HASH_FIND(hh, files->there, &key.key, sizeof key.key, there);
    return there;
}

void log_files_note_logs(struct log_files *files, const char *directory)
{
    DIR *dir = opendir(directory);
    struct log_seen seen;
    struct log_there *there;
    unsigned looked = 0;
    while (dir && HASH_COUNT(files->there) < THERE_MOST && next_log(dir, directory, FIRST_NAMES_MOST, &looked, &seen)) {
        if (find_there(files, &seen.status) || !(there = calloc(1, sizeof *there)))
            continue;
        there->key.device = seen.status.st_dev;
        there->key.inode = seen.status.st_ino;
        there->size = (uint64_t)seen.status.st_size;
        HASH_ADD(hh, files->there, key, sizeof there->key, there);
    }
    if (dir)
        closedir(dir);
}

/* That is followed, or was; NULL: none. */
static struct log_file *find_followed(const struct log_files *files, const struct stat *status)
{
    for (struct log_file *file = files->files; file; file = file->hh.next)
        if (file->tail.identity.device == status->st_dev && file->tail.identity.inode == status->st_ino)
            return file;
    return NULL;
}

/* From where on it was written since the job began. Of what was made before, and is not known to have been there, that is not known.
 * written: it is known that it was, and then anew if it is as large as before. */
static struct log_file *follow_found(struct log_files *files, const struct log_seen *seen, pid_t pid, bool written)
{
    const struct log_there *there = find_there(files, &seen->status);
    uint64_t size = (uint64_t)seen->status.st_size, from = there && there->size <= size ? there->size : 0;
    from = written && from == size ? 0 : from;
    struct log_file *file = from < size ? add_file(files, seen->path, path_from(files, seen->path), true) : NULL;
    if (!file)
        return NULL;
    files->log_count++;
    file->log = file->data = true;
    file->found = pid;
    file->tail.start_ns = there ? 0 : files->start_ns;
    tail_look(&file->tail, false);
    if (there)
        file->tail.start = file->tail.offset = from;
    return file;
}

/* It was there before the job, which has written to it since: nobody knows from where on, but at least the last line. */
static void begin_with_last_line(struct tail *tail)
{
    char bytes[TAIL_LAST_BYTES];
    uint64_t size = tail->start, from = size > sizeof bytes ? size - sizeof bytes : 0;
    ssize_t got = tail->fd >= 0 ? pread(tail->fd, bytes, (size_t)(size - from), (off_t)from) : 0;
    size_t at = got > 0 ? (size_t)got : 0;
    while (at && isspace((unsigned char)bytes[at - 1]))
        at--;
    while (at && bytes[at - 1] != '\n')
        at--;
    if (at || !from)
        tail->start = tail->offset = from + at;
}

struct log_file *log_files_find_output(struct log_files *files, const char *path)
{
    struct log_seen seen;
    if (files->start_ns == UINT64_MAX ||
        (size_t)snprintf(seen.path, sizeof seen.path, "%s", path) >= sizeof seen.path ||
        lstat(path, &seen.status) < 0 || !S_ISREG(seen.status.st_mode) || seen.status.st_uid != geteuid() ||
        !seen.status.st_size)
        return NULL;
    uint64_t written_ns = (uint64_t)seen.status.st_mtim.tv_sec * NS_PER_SECOND + (uint64_t)seen.status.st_mtim.tv_nsec;
    struct log_file *file = find_followed(files, &seen.status);
    if (file || written_ns < files->start_ns || HASH_COUNT(files->files) >= LOG_FILES_MOST)
        return file;
    file = find_file(files, path) ? NULL : follow_found(files, &seen, LOG_FOUND_LEFT, true);
    if (file && file->tail.start == (uint64_t)seen.status.st_size)
        begin_with_last_line(&file->tail);
    return file;
}

void log_files_find_logs(struct log_files *files, const char *directory, pid_t pid, uint64_t end_wall_ns)
{
    DIR *dir = files->start_ns == UINT64_MAX ? NULL : opendir(directory);
    struct log_seen seen;
    unsigned looked = 0;
    while (dir && files->log_count < LOG_OPENED_MOST && HASH_COUNT(files->files) < LOG_FILES_MOST &&
           next_log(dir, directory, NAMES_MOST, &looked, &seen)) {
        uint64_t written_ns = modified_ns(&seen.status);
        if (written_ns >= files->start_ns && written_ns <= end_wall_ns && !find_followed(files, &seen.status))
            follow_found(files, &seen, pid, false);
    }
    if (dir)
        closedir(dir);
}

/* ---- logs in new places ---- */

enum { NEW_NAMES_MOST = 2000, NEW_DEPTH_MOST = 3, NEW_FIRST_MOST = 16 };

struct log_search {
    struct log_files *files;
    pid_t pid;
    uint64_t since_ns, end_ns;
    unsigned names;    /* that may still be looked at, */
    uint64_t until_ns; /* until then */
    struct log_file *found[LOG_OPENED_MOST];
    size_t count;
    struct stat jobs; /* the directory of scry's own */
};

static void find_new_log(struct log_search *search, const struct log_seen *seen)
{
    struct log_files *files = search->files;
    uint64_t written_ns = modified_ns(&seen->status);
    if (!S_ISREG(seen->status.st_mode) || !log_files_is_log(seen->path) || written_ns < search->since_ns ||
        written_ns > search->end_ns || files->log_count >= LOG_OPENED_MOST ||
        HASH_COUNT(files->files) >= LOG_FILES_MOST || find_followed(files, &seen->status))
        return;
    struct log_file *file = follow_found(files, seen, search->pid, false);
    if (file && search->count < LOG_OPENED_MOST)
        search->found[search->count++] = file;
    if (file && file->tail.identity.born_ns < search->since_ns)
        file->tail.start = file->tail.offset = (uint64_t)seen->status.st_size; /* it was there */
}

static void find_new_in(struct log_search *search, const char *directory, int depth)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct log_seen seen;
    const struct dirent *entry;
    unsigned first = depth ? 0 : NEW_FIRST_MOST;
    if (fd >= 0 && !dir)
        close(fd);
    while (dir && search->names && (entry = readdir(dir)) != NULL) {
        search->names -= clock_now_ns() < search->until_ns ? 1 : search->names;
        if (entry->d_type == DT_REG && !log_files_is_log(entry->d_name))
            continue;
        int len = snprintf(seen.path, sizeof seen.path, "%s/%s", directory, entry->d_name);
        if (*entry->d_name == '.' || len < 0 || (size_t)len >= sizeof seen.path || lstat(seen.path, &seen.status) < 0 ||
            seen.status.st_uid != geteuid())
            continue;
        bool below = S_ISDIR(seen.status.st_mode) && depth < NEW_DEPTH_MOST &&
                     (seen.status.st_dev != search->jobs.st_dev || seen.status.st_ino != search->jobs.st_ino);
        if (below && (modified_ns(&seen.status) >= search->since_ns || (first && first--)))
            find_new_in(search, seen.path, depth + 1);
        else
            find_new_log(search, &seen);
    }
    if (dir)
        closedir(dir);
}

void log_files_find_new(struct log_files *files, const char *directory, pid_t pid, uint64_t since_wall_ns,
                        uint64_t end_wall_ns, bool alone)
{
    struct log_search search = {.files = files,
                                .pid = pid,
                                .since_ns = since_wall_ns,
                                .end_ns = end_wall_ns,
                                .names = NEW_NAMES_MOST,
                                .until_ns = clock_now_ns() + LOGS_TEE_MS * (NS_PER_SECOND / 1000)};
    char jobs[PATH_MAX];
    int len = files->dir ? snprintf(jobs, sizeof jobs, "%s/..", files->dir) : 0;
    if (len > 0 && (size_t)len < sizeof jobs && stat(jobs, &search.jobs) < 0)
        search.jobs = (struct stat){0};
    if (files->start_ns != UINT64_MAX)
        find_new_in(&search, directory, 0);
    bool several = search.count > 1 || !search.names; /* perhaps, if not all was looked at */
    while (alone && several && search.count)
        log_files_forget(search.found[--search.count]);
}

static bool is_wild(const char *pattern)
{
    for (; *pattern; pattern++) {
        if (strchr("*?[", *pattern))
            return true;
        if (*pattern == '\\' && pattern[1])
            pattern++;
    }
    return false;
}

static void unescape(char *path)
{
    char *to = path;
    for (; *path; path++) {
        if (*path == '\\' && path[1])
            path++;
        *to++ = *path;
    }
    *to = 0;
}

/* The pattern with the directory before it, in which nothing is a wildcard. NULL: out of memory. */
static char *absolute(const char *cwd, const char *pattern)
{
    struct buf out = BUF_INIT;
    while (strncmp(pattern, "./", 2) == 0)
        pattern += 2;
    for (const char *at = *pattern == '/' ? "" : cwd; *at; at++) {
        if (strchr("*?[\\", *at))
            buf_putc(&out, '\\');
        buf_putc(&out, *at);
    }
    if (*pattern != '/')
        buf_putc(&out, '/');
    buf_puts(&out, pattern);
    char *text = buf_take(&out);
    if (out.failed)
        free(text);
    return out.failed ? NULL : text;
}

bool log_files_add(struct log_files *files, const char *file, uint64_t given, uint64_t rows, bool asked)
{
    int fd = stream_of(file);
    if (fd >= 0)
        return add_stream(files, fd, given, rows, asked);
    if (files->name_count == sizeof files->names / sizeof *files->names)
        return false;
    struct log_name *name = &files->names[files->name_count];
    *name = (struct log_name){.pattern = absolute(files->cwd, file),
                              .shown = strdup(file),
                              .wild = is_wild(file),
                              .given = given,
                              .rows = rows};
    if (!name->pattern || !name->shown) {
        free(name->pattern);
        free(name->shown);
        return false;
    }
    files->name_count++;
    if (name->wild)
        return true;
    unescape(name->pattern);
    unescape(name->shown);
    want(add_file(files, name->pattern, name->shown, false), given, rows, true);
    return true;
}

/* As people know it: from the job's directory on, if the pattern was relative. */
static const char *shown_path(const struct log_files *files, const struct log_name *name, const char *path)
{
    return *name->shown != '/' ? path_from(files, path) : path;
}

static void take_path(struct log_files *files, const struct log_name *name, const char *path, bool at_end)
{
    struct log_file *file = find_file(files, path);
    struct stat status;
    if (!file) {
        if (stat(path, &status) < 0 || !S_ISREG(status.st_mode) || has_other_name(files, &status))
            return;
        file = add_file(files, path, shown_path(files, name, path), false);
        if (!file)
            return;
        file->wild = true;
        want(file, name->given, name->rows, true);
        tail_look(&file->tail, at_end);
    }
    want(file, name->given, name->rows, true);
}

void log_files_scan(struct log_files *files, bool at_end)
{
    for (size_t i = 0; i < files->name_count; i++) {
        glob_t found;
        if (!files->names[i].wild || glob(files->names[i].pattern, GLOB_NOSORT, NULL, &found) != 0)
            continue;
        files->names[i].met = true;
        for (size_t k = 0; k < found.gl_pathc; k++)
            take_path(files, &files->names[i], found.gl_pathv[k], at_end);
        globfree(&found);
    }
}

static void forget_names(struct log_files *files)
{
    for (size_t i = 0; i < files->name_count; i++) {
        free(files->names[i].pattern);
        free(files->names[i].shown);
    }
    files->name_count = 0;
}

void log_files_want_none(struct log_files *files)
{
    forget_names(files);
    for (struct log_file *file = files->files; file; file = file->hh.next) {
        file->matcher.given = file->matcher.rows = 0;
        file->asked = false;
    }
}

void log_files_forget(struct log_file *file)
{
    HASH_DEL(file->files->files, file);
    free_file(file);
}

void log_files_done(struct log_files *files)
{
    struct log_file *file, *next;
    HASH_ITER(hh, files->files, file, next)
    log_files_forget(file);
    struct log_there *there, *after;
    HASH_ITER(hh, files->there, there, after)
    {
        HASH_DEL(files->there, there);
        free(there);
    }
    forget_names(files);
    free(files->mounts);
    log_expressions_done(&files->expressions);
}
