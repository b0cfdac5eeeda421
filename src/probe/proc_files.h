/* SPDX-License-Identifier: Apache-2.0 */
/* Which files a process has open, as /proc/PID/fd and fdinfo say (proc(5)). No file system is asked: one that does not
 * answer holds up nobody. */
#ifndef SCRY_PROBE_PROC_FILES_H
#define SCRY_PROBE_PROC_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct proc_open_file {
    int fd;
    const char *path;  /* of others than files: what the kernel calls them (eventpoll), or "" (pipe, socket) */
    const char *kind;  /* file, directory, device, pipe, socket, memory, other */
    int64_t offset;    /* -1: none, or not known */
    int64_t size;      /* bytes, as last known here; -1: none, or not known */
    const char *flags; /* words: read, write, append, nonblock, direct, sync */
};

/* Tells of each, ascending by number, `most` at the most. Returns how many there were (more than `most`: not all were
 * told), or -errno with err. What is borrowed is so for the call. */
typedef void proc_files_fn(void *ctx, const struct proc_open_file *file);
ssize_t proc_files_each(pid_t pid, size_t most, proc_files_fn *fn, void *ctx, struct err *err);

#endif
