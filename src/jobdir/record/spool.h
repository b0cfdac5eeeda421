/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spool, spool/records.jsonl: append-only records (jobdir/record/kinds.h), one JSON object a line. The first one
 * says what the file is: {"seq": 0, "type": "spool", "format": "scry-spool", "version": 1, "job": ID, "node": HOST,
 * "t": 0}. "seq" counts lines from 0. "job" and "node" of the first record hold for all that have none; "stream"
 * follows from "type". It is the source of truth: whatever is shown can be made from it again (jobdir/record/model.h).
 *
 * Writing never fails towards the caller. When the disk is full, a limit is reached or a write fails, the file is cut
 * back to its last whole record and recording stops; later records are counted as lost. When a full disk has room again, it
 * goes on with a record `gap`, which has the first number that was lost.
 */
#ifndef SCRY_JOBDIR_RECORD_SPOOL_H
#define SCRY_JOBDIR_RECORD_SPOOL_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/err.h"

enum {
    SPOOL_FIRST_SEQ = 1, /* after the one that says what it is */
    SPOOL_VERSION = 1,
    SPOOL_LINE_LIMIT = 64 << 20
};

/* Numbers of records are smaller, so that all readers of JSON have them exactly. Larger ones are damage, or malice. */
static const int64_t SPOOL_MOST_SEQ = INT64_C(1) << 53;

struct spool {
    int fd;             /* -1: not recording */
    int dir_fd;         /* of the job directory; -1: none */
    struct buf pending; /* records not yet written */
    uint64_t pending_records;
    uint64_t size_bytes; /* of the file, whole records only */
    uint64_t max_bytes;
    uint64_t next_seq;
    uint64_t written, lost;
    bool stopped;
    char reason[256]; /* why recording stopped; it stays when it goes on */
    uint64_t look_ns; /* stopped for want of room: when it is looked again; 0: for good */
    uint64_t gap_seq; /* of the first record that was lost then */
    double gap_from;  /* and its time */
};

/* Appends the first line of the spool of that job. */
void spool_first(struct buf *out, const char *id);
/* Opens (creates) the spool of the job directory at `path`, with that first line. On failure the spool is stopped with the reason set and
 * everything given to it is counted as lost. */
void spool_open(struct spool *spool, const char *path, const struct buf *first, uint64_t max_bytes);

/* Adopts the record, adds "seq" and appends it; written by spool_flush, or when much has gathered. */
void spool_put_take(struct spool *spool, json_t *record);
/* The same in two steps: appends the record (NULL: none) as a line, false: it could not be made; and so many such
 * lines.
 */
bool spool_line_take(json_t *record, uint64_t seq, struct buf *out);
/* Of the text of an object that has members, and neither "seq" nor "t". */
bool spool_line_of(struct span text, uint64_t seq, double seconds, struct buf *out);
void spool_put_lines(struct spool *spool, const char *lines, size_t len, uint64_t records);
void spool_flush(struct spool *spool);

/* Writes what is left, and gives back the room that was kept free for the end of the job (job.json, report.txt): call before
 * writing those. */
void spool_close(struct spool *spool);

/* Reading, also while the job runs. */
struct spool_reader {
    int fd;
    struct buf bytes;
    size_t used;
    uint64_t line;    /* of the file, from 1 */
    uint64_t unread;  /* lines that were no records */
    bool header_seen; /* the file starts as it should */
    json_t *first;    /* "job" and "node" of the first record; NULL: not known yet */
    struct span last; /* the line of the record that was returned last, without its end, until the next call */
    uint64_t offset;  /* in the file: where the next line begins */
    size_t line_most; /* bytes of a line; SPOOL_LINE_LIMIT, or what a reader of files of others sets after opening */
    bool skips;       /* in a line that is longer */
    bool in_pieces;   /* a call reads no more than one line may have: for who has others to serve, set after opening */
};

/* 0, or -errno with err; -EPROTO: a newer version, named. */
int spool_reader_open(struct spool_reader *ret_reader, const char *path, struct err *err);
/* The next record, a new reference; NULL: no more whole line (now). Lines that are no records, or too long, are skipped and counted.
 * `in_pieces` it is NULL within a line that is too long as well. */
json_t *spool_reader_next(struct spool_reader *reader);
/* Adds "job", "node" and "stream" where the record has none, for readers without its file. */
void spool_reader_complete(const struct spool_reader *reader, json_t *record);
/* Goes on at this offset, where a line begins. 0 or -errno. */
int spool_reader_seek(struct spool_reader *reader, uint64_t offset);
/* Bytes of a line that was begun and not finished. */
size_t spool_reader_rest(const struct spool_reader *reader);
void spool_reader_close(struct spool_reader *reader);

#endif
