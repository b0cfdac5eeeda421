/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running the helper scry-symbols (symbols/client/helper.h): started, written to, read from, ended. A caller with a
 * loop of events calls these as the pipes get ready. One that has none, and may wait, calls helper_process_run.
 */
#ifndef SCRY_SYMBOLS_CLIENT_HELPER_PROCESS_H
#define SCRY_SYMBOLS_CLIENT_HELPER_PROCESS_H

#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "symbols/client/helper_client.h"

struct helper_process {
    pid_t pid;         /* a child of this process, which waits for it */
    int input, output; /* our ends of its standard input and output, non-blocking; -1: closed */
};

/* The child gets the two pipes and nothing else of ours; what this process blocks and ignores is its own. argv[0] is
 * for its name only. 0; -ENOENT: it is not installed; -errno. */
int helper_process_start(struct helper_process *ret_process, char *const argv[], struct err *err);

/* Writes what the pipe takes of a request; input is closed when all is written, or it has no reader. */
void helper_process_write(struct helper_process *process, const struct buf *request, size_t *inout_written);
/* Feeds the reader with what there is. How many bytes; 0: none now, or, if output is closed, never again; -errno. */
ssize_t helper_process_read(struct helper_process *process, struct helper_reader *reader);
/* Closes both, and waits for its end; `now`: it is killed before. */
void helper_process_end(struct helper_process *process, bool now);

/* All of it, waiting: `scry-symbols JOB` gets the request and says at most `limit` bytes within `time_ns`. 0 or -errno;
 * in any case the caller ends the reader, which has the answers. */
int helper_process_run(const char *job, const struct buf *request, uint64_t time_ns, size_t limit,
                       struct helper_reader *ret_reader, struct err *err);

#endif
