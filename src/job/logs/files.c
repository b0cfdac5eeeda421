/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/files.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"

/* ---- what becomes of files ---- */

static void on_lines(void *ctx, const char *bytes, size_t len, bool cut)
{
    struct log_file *file = ctx;
    log_match_lines(&file->matcher, file->files->now_ns(), bytes, len, cut);
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
        if (other == file || tail->fd < 0 || tail->stream || !is_same(&tail->identity, identity) ||
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
        if (file->tail.fd >= 0 && !file->tail.stream && file->tail.identity.device == status->st_dev &&
            file->tail.identity.inode == status->st_ino && has_path(file, &file->tail.identity))
            return true;
    return false;
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
    tail_init(&file->tail, file->path, (struct tail_calls){on_lines, on_state, on_known, on_left, file});
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
    char path[64], other[64];
    struct stat mine, its;
    stream_path(path, files->root, fd);
    stream_path(other, files->root, fd == STDOUT_FILENO ? STDERR_FILENO : STDOUT_FILENO);
    struct log_file *same = find_file(files, other), *file = find_file(files, path);
    if (!file && same && stat(path, &mine) == 0 && stat(other, &its) == 0 && mine.st_dev == its.st_dev &&
        mine.st_ino == its.st_ino)
        file = same;
    if (!file)
        file = add_file(files, path, fd == STDOUT_FILENO ? "stdout" : "stderr", true);
    want(file, given, rows, asked);
    return file != NULL;
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
    size_t len = strlen(files->cwd);
    bool inside = *name->shown != '/' && strncmp(path, files->cwd, len) == 0 && path[len] == '/';
    return inside ? path + len + 1 : path;
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
    forget_names(files);
    log_expressions_done(&files->expressions);
}
