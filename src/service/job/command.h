/* SPDX-License-Identifier: Apache-2.0 */
/* The command line and the working directory of a process, from when its program began, or was first looked at. A
 * process shares them with children that have executed nothing else. */
#ifndef SCRY_SERVICE_JOB_COMMAND_H
#define SCRY_SERVICE_JOB_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/buf.h"
#include "base/data/span.h"

enum { JOB_COMMAND_BYTES = 16384 }; /* bytes of arguments to keep */

struct job_command {
    unsigned users;
    uint64_t time_ns; /* when they were read */
    bool said;        /* reported by the process itself */
    bool whole;       /* the arguments are all there */
    size_t args_size;
    const char *args; /* NUL-terminated, one after the other */
    char directory[]; /* "": not known */
};

/* NULL: out of memory, more than 12 MB are kept, or there are no arguments. */
struct job_command *job_command_new(struct span directory, struct span args, bool whole, uint64_t time_ns);
/* Reads it from /proc, for a living process. */
struct job_command *job_command_read(pid_t pid);
struct job_command *job_command_share(struct job_command *command); /* adds a reference; NULL is fine */
void job_command_drop(struct job_command *command);                 /* removes one */
/* Prints it in the request language: whole (1, or 0 if arguments are missing; plus 2 if the process has not reported it
 * itself; -1: not known, NULL), the directory, the list of arguments. */
void job_command_print(const struct job_command *command, struct buf *out);

#endif
