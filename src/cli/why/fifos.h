/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may open a FIFO, by what processes have in their command lines and scripts. That is no more than probable:
 * what stands there may never be executed, or may have been.
 */
#ifndef SCRY_CLI_WHY_FIFOS_H
#define SCRY_CLI_WHY_FIFOS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/data/buf.h"

/* Whether a text has the FIFO's name, whatever its directory, where it is opened: behind < or >, or as an argument, with a mode, or
 * without one for reading. */
bool fifo_is_opened_in(const char *text, const char *path, bool writes);

/* Those of `pids`, but `own`, that may open it so; at most `most`. Returns how many. A file system that does not answer is waited for 10 s. */
size_t fifo_openers(const pid_t *pids, size_t count, pid_t own, const char *path, bool writes, pid_t *ret_pids,
                    size_t most);

/* Where all of the processes wait, some for a FIFO to be opened and the others for these, as far as it may be seen: that, and who
 * of them should open it. */
void why_fifos_text(struct buf *out, const pid_t *pids, size_t count);

#endif
