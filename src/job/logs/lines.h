/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts what is read into whole lines. A line ends with \n, or \r: programs that draw their progress end theirs with \r.
 * Bytes are bytes, NUL among them. Of a line longer than LINE_MOST only the beginning is kept.
 */
#ifndef SCRY_JOB_LOGS_LINES_H
#define SCRY_JOB_LOGS_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_MOST = 64 << 10, LINES_ROOM = 4 * LINE_MOST };

/* Lines with their ends, one or many. `cut`: it is one line, without its end, of which there is more. */
typedef void lines_fn(void *ctx, const char *bytes, size_t len, bool cut);

struct lines {
    char *bytes;  /* LINES_ROOM, or NULL */
    size_t len;   /* of the line that has not ended yet */
    bool passing; /* the rest of a cut line */
};

/* The room for what is read next, of *ret_room bytes, at least half of LINES_ROOM. NULL: out of memory. */
char *lines_room(struct lines *lines, size_t *ret_room);
/* So many bytes were put there. Each block is the caller's only during the call. */
void lines_take(struct lines *lines, size_t len, lines_fn *each, void *ctx);
/* There is no more: a last line may have no end. */
void lines_end(struct lines *lines, lines_fn *each, void *ctx);
/* Something was passed over, or begins anew; `inside`: probably in the middle of a line, whose rest is left out. */
void lines_reset(struct lines *lines, bool inside);
/* Nothing comes for a while: frees the room, unless a line has begun. */
void lines_rest(struct lines *lines);
void lines_done(struct lines *lines);

/* ---- the lines of a block ---- */

struct line_place {
    const char *start; /* without its end */
    size_t len;
    size_t next; /* where the next one begins in the block */
};

/* The line that contains bytes[at]; at < len. */
struct line_place line_at(const char *bytes, size_t len, size_t at);
/* How many \n there are. */
uint64_t lines_count(const char *bytes, size_t len);

#endif
