/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may open a FIFO, by what processes have in their command lines and scripts. That is no more than probable:
 * what stands there may never be executed, or may have been.
 */
#ifndef SCRY_JOB_PLACES_FIFOS_H
#define SCRY_JOB_PLACES_FIFOS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/buf.h"

enum fifo_use {
    FIFO_UNNAMED, /* not at all, or only so that the other end is opened, or none */
    FIFO_NAMED,   /* as an argument, of which nothing says what is done with it */
    FIFO_OPENED,  /* behind < or >, or as an argument, with a mode, or without one for reading */
};

/* What a process would do with the FIFO, whatever its directory, by the command line and the text of its script; "": it has none. What
 * is given to a script that writes to files whose names are given to it may be one of these. */
enum fifo_use fifo_use_in(const char *command, const char *script, const char *path, bool writes);

/* Those of `pids` that have its name so. ret_users has room for all. Returns how many. A file system that does not answer is waited for
 * 10 s. */
struct fifo_user {
    pid_t pid;
    enum fifo_use use; /* not FIFO_UNNAMED */
};
size_t fifo_users(const pid_t *pids, size_t count, const char *path, bool writes, struct fifo_user *ret_users);

/* Where all of the processes wait, some for a FIFO to be opened and the others for these, as far as it may be seen: that, and who
 * of them should open it, and what that one does. */
void fifos_text(struct buf *out, const pid_t *pids, size_t count);
/* In a line, for the first of these; nothing where not all wait so. */
void fifos_line(struct buf *out, const pid_t *pids, size_t count);

#endif
