/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small files of a job directory: job.json, report.txt, stats/, and those of its parts, with their spools in pieces
 * (jobdir/record/mirror.h). Which there are, which have changed, and their content as messages. Never the traces, and
 * never what a link leads to.
 */
#ifndef SCRY_PUBLISH_FILES_H
#define SCRY_PUBLISH_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"

enum {
    FILES_MOST = 4096,            /* in a job directory; more are not published */
    FILES_LOOKED_MOST = 16384,    /* for which a directory is searched at a time: it may have a million others */
    FILES_BYTES_MOST = 16 << 20,  /* of one; a longer one is not published */
    FILES_TOTAL_MOST = 256 << 20, /* of all together, likewise */
    FILES_PART_BYTES = 300 << 10, /* of a file in one message */
};

struct small_file {
    char *path;    /* in the job directory */
    uint32_t hash; /* of that */
    int64_t piece; /* of a part's spool: its first byte, which stands at the end of the path; -1: a whole file */
    ino_t inode;
    int64_t changed_ns; /* by the file system */
    uint64_t bytes;
    uint64_t version;
    uint64_t sent_ns;    /* when it was last sent; 0: never */
    bool wanted;         /* it is to be sent */
    unsigned open_parts; /* parts that were sent and are not confirmed */
};

struct files {
    const char *dir; /* borrowed */
    struct small_file *list;
    size_t count, room, next; /* files come in the same order each time: the next one is probably there */
    uint64_t total, left_out; /* bytes; files beyond a limit, as far as was looked */
    size_t looked;            /* entries of directories, this time */
    uint64_t version;         /* the last one */
    bool parts_come;          /* a part is still being brought to the job directory */
};

/* A file that is being sent, to all or to one reader. */
struct file_load {
    size_t at; /* its place in the list */
    uint64_t version;
    char *bytes;
    size_t len;
    unsigned part, parts; /* the next; 0 parts: none is being sent */
};

void files_init(struct files *files, const char *dir);
void files_done(struct files *files);
/* Looks what has changed. all: also what changed a moment ago. */
void files_look(struct files *files, uint64_t now_ns, bool all);
/* The next that is to be sent, or count. */
size_t files_wanted(const struct files *files);
/* Reads it. false: it is gone, or longer than may be. */
bool files_load(const struct files *files, size_t at, struct file_load *ret_load);
void file_load_done(struct file_load *load);
/* Appends the message with the next part; the caller counts `part` on. */
void file_load_message(const struct files *files, const struct file_load *load, struct buf *out);

#endif
