/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_LOGS_TAIL_H
#define SCRY_JOB_LOGS_TAIL_H

#include "job/logs/match.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Follows one file as it grows, is renamed and made anew, cut short, or removed. It looks and reads when it is called.
 * There is no inotify: that would cost whoever writes the file, and network file systems have none. The file is
 * opened by itself, so no offset is shared, and only if it is a regular one: reading from anything else would take
 * away what others are to read.
 */

/* Whoever has a file open that was renamed or removed still writes to it for a moment. */
enum { TAIL_QUIET_LOOKS = 2, TAIL_LAST_BYTES = 4 << 10 };

enum tail_state {
    TAIL_WATCHED,
    TAIL_WAITED_FOR,
    TAIL_ROTATED,
    TAIL_TRUNCATED,
    TAIL_REMOVED,
    TAIL_SKIPPED,
    TAIL_UNWATCHED,
    TAIL_STATES
};
extern const char *const tail_state_names[TAIL_STATES]; /* as in records */

/* Which file it is, by whatever name. A number of a removed file is used again, for a file that was born later. */
struct tail_identity {
    dev_t device;
    ino_t inode;
    uint64_t born_ns; /* 0: unknown */
};

struct tail_calls {
    lines_fn *lines;
    /* `first`: the next line is the file's first one. bytes: that were passed over. reason: "" or why. */
    void (*state)(void *ctx, enum tail_state state, bool first, uint64_t bytes, const char *reason);
    /* May be NULL. How much of a file that is opened was read under another name, and that it is closed now. */
    uint64_t (*known)(void *ctx, const struct tail_identity *identity, uint64_t size);
    void (*left)(void *ctx, const struct tail_identity *identity, uint64_t offset);
    /* May be NULL. Whether a file that is open there is in the way of whoever has made it (tail_rest). */
    bool (*yields)(void *ctx, int fd);
    void *ctx;
};

struct tail {
    const char *path; /* borrowed */
    struct tail_calls calls;
    bool stream;        /* /proc/PID/fd/N: what is found there later was not made by that name */
    bool kept;          /* a stream in segments (job/output/keep.h); path is their name without the offset */
    uint64_t segment;   /* the offset of the one that is read */
    uint64_t start_ns;  /* of a stream: CLOCK_REALTIME_COARSE; a file made before that is read from its end */
    int fd;             /* -1: not open */
    bool yields, rests; /* closed until the next look: tail_rest */
    uint64_t rested;    /* when it was so large */
    struct tail_identity identity;
    bool unlinked;              /* when it was opened */
    int refused;                /* why it was last not opened: an errno, or a number of its own; 0: it was not tried */
    unsigned quiet;             /* looks without anything new since the name has another file, or none */
    uint64_t start;             /* of what was written since it was opened */
    uint64_t offset, hand_over; /* read up to here only: another name has the rest */
    struct lines lines;
    char *last; /* of a stream: its last bytes when it was closed, or ended. The first line of them may be cut */
    size_t last_len;
    uint64_t last_ns; /* when they were written; CLOCK_REALTIME, of the file system's node */
    uint64_t read_ns; /* when it was read to its end last: what comes then was written later */
};

void tail_init(struct tail *tail, const char *path, struct tail_calls calls);
void tail_done(struct tail *tail); /* says nothing */

/* Looks what the name has become. A file that is opened now is read from its beginning; `at_end`: from its end. */
void tail_look(struct tail *tail, bool at_end);
/* Reads and hands over at most half of LINES_ROOM. false: there was nothing more. */
bool tail_read(struct tail *tail);
/* What an open file would be in the way of is closed until the next look, and read on if it is there then. */
void tail_rest(struct tail *tail);
bool tail_is_open(const struct tail *tail);     /* or rests */
uint64_t tail_backlog(const struct tail *tail); /* bytes that are not read yet */
/* Passes over what is not read yet but for the last bytes. */
void tail_skip(struct tail *tail, uint64_t keep, const char *reason);
/* The job has ended: a last line may have no end. */
void tail_end(struct tail *tail);

#endif
