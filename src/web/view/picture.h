/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_WEB_VIEW_PICTURE_H
#define SCRY_WEB_VIEW_PICTURE_H

#include "web/view/view.h"

/*
 * What was read of the traces of a job that is over: kept in the user's cache (jobdir/record/dir.h), so that the
 * next scry-view of the job needs no pass over them. It is the pyramids, the points from which lanes are read again, the
 * functions, the time line, the messages, and answers about the whole job that somebody asked for. A file is for one version of scry, and for the job directory as it was: its
 * files' names, sizes and times. What is damaged or of another one is not used, and written anew.
 *
 * The parts say what of them is kept, in one function for both directions. While one is read, each number may be
 * anything: who reads it checks what is used as an index or a size.
 */

/* Bytes on their way out to a file, or in. */
struct saving {
    struct buf *out; /* NULL: in */
    const char *in;
    size_t left;
    bool failed; /* nothing more is read or written; what was read is of no use */
};

void saved_bytes(struct saving *saving, void *bytes, size_t size);
#define SAVED(saving, lvalue) saved_bytes(saving, &(lvalue), sizeof(lvalue))
/* The list itself; in: a new one, malloc'ed, of *count items, NULL if there are none or it has failed. */
void *saved_list(struct saving *saving, void *list, size_t *count, size_t item_size);
/* The same of a text. */
char *saved_text(struct saving *saving, const char *text);
bool saved_flag(struct saving *saving, bool flag);
/* It fails unless this holds. */
static inline void saved_check(struct saving *saving, bool good)
{
    saving->failed |= !good;
}

/* Stands for the files of the job directory as they are now. */
uint64_t saved_key(const struct view *view);
/* Of a view that was opened with view->key. 1: it is complete; 0: there is no such file; -errno: there was one, but it
 * was not what it seemed: the view is to be opened again. */
int saved_read(struct view *view);
/* The same without a file, of a view that is complete: 0 or -errno; and from such bytes, whatever they are. */
int saved_put(struct buf *out, struct view *view);
int saved_take(struct view *view, const char *bytes, size_t size);
/* Writes it for the next time, if the view is complete, of a job that is over and has not changed, and it is worth it.
 * All such files together have at most so many bytes. Where that cannot be done, nothing happens. */
void saved_write(struct view *view, uint64_t most_bytes);

/* ---- the parts ---- */

void pyramid_save(struct saving *saving, struct pyramid *pyramid);
/* In: a new one. */
void pyramid_lane_save(struct saving *saving, struct pyramid_lane **lane, struct pyramid *pyramid);
void lane_save(struct saving *saving, struct view *view, struct view_lane *lane);
void lines_save(struct saving *saving, struct view *view);

#endif
