/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a job directory: a list of them, and the bytes of a tar archive of all. Links are not followed, and left out; so is
 * what may not be read. There may be very many: a child lists them, and the server takes a line of that list when the file's turn
 * comes, so that no turn of it is longer than others.
 */
#ifndef SCRY_WEB_SERVE_TREE_H
#define SCRY_WEB_SERVE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

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

/* 0; -E2BIG: too many files; -errno. Pass it to tree_done in any case. A large directory takes seconds, one on a file system that
 * stands still takes for ever: so a child reads it. */
int tree_read(const char *dir, struct tree *ret_tree);
/* On standard output, for tar_begin: an archive's size, with this folder in it, and its files. */
void tree_print(const struct tree *tree, const char *top);
void tree_done(struct tree *tree);
/* Opens a regular file within an open directory; parts of the path may not be links, nor "..". -errno. */
int tree_open(int dir, const char *path);

/* Answers with one of a directory's files, or the part of it that the visit asks for; `of` is what has it, for people. download.c */
struct visit;
void tree_answer_file(struct visit *visit, const char *dir, const char *path, const char *of);
/* What a task's directory shows: whether a file is among it; the list. */
bool file_is_output(const char *path);
void outputs_answer_list(struct visit *visit, const char *dir);

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
/* From what was printed of this directory, which stays where it is, with this folder. *ret_size: of the archive. 0; -EINVAL; -errno. tar_done
 * in any case. */
int tar_begin(struct tar *tar, const char *dir, const char *top, const char *list, size_t size, uint64_t *ret_size);
/* At most so many bytes more; 0: it was all; -1: a file is there and cannot be read. */
ssize_t tar_read(struct tar *tar, unsigned char *room, size_t size);
void tar_done(struct tar *tar);

#endif
