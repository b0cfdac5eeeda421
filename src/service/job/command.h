/* SPDX-License-Identifier: Apache-2.0 */
/* The command line and the working directory of a process, as they were when its program began, or when they were
 * first looked at. Shared between a process and the children that have executed nothing else. */
#ifndef SCRY_SERVICE_JOB_COMMAND_H
#define SCRY_SERVICE_JOB_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/span.h"

enum { JOB_COMMAND_BYTES = 16384 }; /* of arguments that are kept */

struct job_command {
    unsigned users;
    uint64_t time_ns; /* when that was so */
    bool said;        /* by the process itself */
    bool whole;       /* the arguments are all there */
    size_t args_size;
    const char *args; /* NUL-terminated, one after the other */
    char directory[]; /* "": not known */
};

/* NULL: out of memory, more than 12 MB of them are kept, or there are no arguments. */
struct job_command *job_command_new(struct span directory, struct span args, bool whole, uint64_t time_ns);
/* What /proc says of a process that lives. */
struct job_command *job_command_read(pid_t pid);
struct job_command *job_command_share(struct job_command *command); /* another user of it; NULL is fine */
void job_command_drop(struct job_command *command);                 /* one less */
/* In the request language: 1, or 0 if arguments are missing, and 2 more if the process has not said it itself; or -1 if
 * nothing is known (NULL); the directory; the list of arguments. */
void job_command_print(const struct job_command *command, struct buf *out);

#endif
