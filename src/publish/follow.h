/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the spool of a job as it grows, and cuts it into batches: complete records of one stream, in the order of
 * their numbers, a line each. What is read is on the disk, so nothing is kept in memory that could not be read again:
 * after an outage it goes back to the first record that no broker has confirmed.
 *
 * No descriptor of it blocks but the file's. Not thread-safe.
 */
#ifndef SCRY_PUBLISH_FOLLOW_H
#define SCRY_PUBLISH_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/spool.h"

enum {
    FOLLOW_BATCH_BYTES = 64 << 10,     /* a batch is sent when it is this large, */
    FOLLOW_RECORD_BYTES = 500 << 10,   /* of a longer record only its head is sent, so that it fits into a message */
    FOLLOW_MARK_BYTES = 1 << 20,       /* where each such part of the file begins is known by its number */
    FOLLOW_STREAMS = STREAM_COUNT + 1, /* and one for streams of later versions */
};

struct batch {
    struct buf lines;
    unsigned stream; /* its place among the streams */
    char name[32];   /* of the stream */
    bool figures;    /* samples and the like: QoS 0 */
    uint64_t first_seq, last_seq;
    uint64_t offset;   /* in the spool, of its first record */
    uint64_t since_ns; /* when that was read */
};

struct follow_mark {
    uint64_t seq, offset;
};

struct follow {
    struct spool_reader reader;
    bool open;
    struct batch batches[FOLLOW_STREAMS], out;
    bool ready;                         /* `out` is to be sent */
    uint64_t next_seq;                  /* behind the last record that was read of the file, ever */
    uint64_t confirmed[FOLLOW_STREAMS]; /* of each stream: behind the last record that the broker is known to have */
    struct buf head[2];                 /* "job" and "node" as JSON texts */
    struct follow_mark *marks;
    size_t mark_count, mark_room;
};

/* 0; -ENOENT: there is no spool yet; -errno with err. */
int follow_open(struct follow *follow, const char *dir, struct err *err);
void follow_done(struct follow *follow);
/* The next batch that is to be sent, the same until follow_sent was called; NULL: none now. idle: nothing is under way,
 * so that no batch waits for more records. */
const struct batch *follow_next(struct follow *follow, uint64_t now_ns, bool idle);
void follow_sent(struct follow *follow);
/* When the next batch is old enough (CLOCK_MONOTONIC); 0: there is none. */
uint64_t follow_due_ns(const struct follow *follow);
/* The broker has all of the stream to before this number: it is not sent again. */
void follow_confirm(struct follow *follow, unsigned stream, uint64_t end_seq);
/* Where the first record is that was read and not sent, or `offset`, if that is less. */
uint64_t follow_unsent(const struct follow *follow, uint64_t offset);
/* Forgets what was not sent, and goes on from there. */
void follow_rewind(struct follow *follow, uint64_t offset);

/* Where to look for a record: an offset before it, where a line begins. */
uint64_t follow_find(const struct follow *follow, uint64_t seq);
/* Appends the record that `reader` has just returned as a line for readers without its file. `head` as in struct
 * follow. Returns its stream; *ret_name, *ret_figures as in struct batch. */
unsigned follow_line(const struct buf head[2], const struct spool_reader *reader, const json_t *record, struct buf *out,
                     char ret_name[32], bool *ret_figures);

#endif
