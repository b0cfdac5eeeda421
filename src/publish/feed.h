/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a job directory is sent: its records in batches, its small files, and both again for readers who ask.
 *
 * follow_ follows the spool of a job as it grows, and cuts it into batches: complete records of one stream, in the order of
 * their numbers, a line each. What is read is on the disk, so nothing is kept in memory that could not be read again:
 * after an outage it goes back to the first record that no broker has confirmed.
 *
 * No descriptor of it blocks but the file's. Not thread-safe.
 */
#ifndef SCRY_PUBLISH_FEED_H
#define SCRY_PUBLISH_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "jobdir/record/info.h"
#include "jobdir/record/kinds.h"
#include "jobdir/record/output.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/hide_args.h"

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

/*
 * The small files of a job directory: job.json, report.txt, stats/, and those of its parts, with their spools in pieces
 * (jobdir/record/mirror.h). Which there are, which have changed, and their content as messages. Never the traces, and
 * never what a link leads to.
 *
 * And what the job printed, if that is asked for: what its relay keeps in the job directory, or the files that its output goes to. Each
 * piece is a small file, a segment of a mirror (jobdir/record/output.h). Of a stream there are the pieces of its beginning
 * and of its end; while the job runs no more than some KB a second, and what comes faster is passed over. At the end those come that are missing of both.
 */

enum {
    FILES_MOST = 4096,            /* in a job directory; more are not published */
    FILES_LOOKED_MOST = 16384,    /* for which a directory is searched at a time: it may have a million others */
    FILES_BYTES_MOST = 16 << 20,  /* of one; a longer one is not published */
    FILES_TOTAL_MOST = 256 << 20, /* of all together, likewise */
    FILES_PART_BYTES = 300 << 10, /* of a file in one message */
    PRINTED_PIECE = 32 << 10,     /* of what was printed; */
    PRINTED_PIECES = 32,          /* so many of the beginning, and of the end */
    PRINTED_BYTES_A_SECOND = 64 << 10,
};

struct small_file {
    char *path;    /* in the job directory */
    uint32_t hash; /* of that */
    int64_t piece; /* of a part's spool: its first byte, which stands at the end of the path; -1: a whole file */
    const char *const
        *stream; /* in output_names: `piece` is the first byte of one of what was printed; NULL: of none */
    ino_t inode;
    int64_t changed_ns; /* by the file system */
    uint64_t bytes;
    uint64_t version;
    uint64_t sent_ns;    /* when it was last sent; 0: never */
    bool wanted;         /* it is to be sent */
    unsigned open_parts; /* parts that were sent and are not confirmed */
};

struct printed {
    int fd;                             /* of a file; -1: the job directory has it */
    uint64_t from;                      /* where in it the job's begins */
    uint64_t seen;                      /* how long it was at the last look */
    size_t entries[2 * PRINTED_PIECES]; /* their places in the list, counted from 1; 0: none yet */
};

enum { /* bytes around a piece of what is printed, that say whether it begins or ends in a secret */
       PRINTED_BEFORE = 32 << 10,
       PRINTED_AFTER = 4 << 10,
};

struct files {
    const char *dir;             /* borrowed */
    const struct job_info *info; /* borrowed; NULL: what was printed is not published */
    struct hide_args *hide;      /* what of it; see hide_text */
    bool opened;                 /* files of what is printed were looked for */
    struct printed printed[OUTPUT_STREAMS];
    double credit; /* bytes of it */
    uint64_t credit_ns;
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
    char *path;
    uint64_t version;
    char *bytes;
    size_t len;
    unsigned part, parts; /* the next; 0 parts: none is being sent */
};

/* info: of the job, if what it prints is published; it may change between two looks. hide_args: the value of --hide-args, or
 * NULL, for that. */
void files_init(struct files *files, const char *dir, const struct job_info *info, const char *hide_args);
void files_done(struct files *files);
/* Looks what has changed. all: also what changed a moment ago. */
void files_look(struct files *files, uint64_t now_ns, bool all);
/* The next that is to be sent, or count. */
size_t files_wanted(const struct files *files);
/* Reads it. false: it is gone, or longer than may be. */
bool files_load(const struct files *files, size_t at, struct file_load *ret_load);
void file_load_done(struct file_load *load);
/* Appends the message with the next part; the caller counts `part` on. */
void file_load_message(const struct file_load *load, struct buf *out);

/*
 * What readers ask for again: records from one number to another, and all files. Anybody who may write below the job's
 * topics can ask, so all of it has a limit: questions that wait, bytes for one answer, bytes a second. An answer says
 * how far it went, and a reader that wants more asks again.
 */

enum {
    ASK_READER_SIZE = 65,
    ASKS_MOST = 64,                /* that wait; more are dropped */
    ASK_BYTES = 16 << 20,          /* of records in one answer */
    ASK_MESSAGE_BYTES = 128 << 10, /* of records in one message, or one record */
    ASK_BYTES_A_SECOND = 8 << 20,  /* for all; as much can be saved up */
};

struct ask {
    char reader[ASK_READER_SIZE];
    uint64_t from, to; /* records; to, without it, UINT64_MAX: all there are */
    bool files;
};

struct asks {
    const char *dir; /* borrowed */
    struct ask list[ASKS_MOST];
    size_t count;
    uint64_t dropped; /* questions, for the log */
    /* of the first: */
    bool begun;
    struct spool_reader reader;
    uint64_t next; /* the number behind the last record that was answered */
    uint64_t last; /* of the last record in `message` */
    size_t bytes, file;
    struct file_load load;
    struct buf message;
    const char *name; /* of the message: "records", "file", "end"; NULL: there is none */
    uint64_t last_ns;
    double credit; /* bytes */
};

/* false: it is no question. */
bool ask_parse(struct span payload, struct ask *ret_ask);

void asks_init(struct asks *asks, const char *dir);
/* Forgets all questions; also frees. */
void asks_clear(struct asks *asks);
void asks_add(struct asks *asks, const struct ask *ask);
/* The next message in `message`, `name`, for list[0].reader. The same until asks_sent. false: none now; *ret_due_ns:
 * try again then, 0: there are no questions. */
bool asks_next(struct asks *asks, const struct follow *follow, const struct files *files, uint64_t now_ns,
               uint64_t *ret_due_ns);
void asks_sent(struct asks *asks);

#endif
