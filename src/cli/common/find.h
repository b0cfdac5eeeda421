/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_CLI_COMMON_FIND_H
#define SCRY_CLI_COMMON_FIND_H

#include "base/data/buf.h"
#include "base/data/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * How every command finds the job that a person means: a directory, an id, a name, a prefix of an id, @last; or one at a
 * broker, by an URL (broker/url.h). For that one, a program of scry's (scry-mirror) makes a mirror of its directory, and
 * keeps it as new as the job while the command runs.
 */

struct found_job {
    char path[PATH_MAX]; /* the directory to read; of a remote job its mirror */
    bool remote;
    bool still;          /* from the record (scry record): no more comes while the command runs */
    char dir[PATH_MAX];  /* of a remote job: its directory there, as its monitor knows it; "": unknown. Else as path */
    struct buf url;      /* of a remote job: for requests, with its owner, id and the password. Show it to nobody */
    bool takes_requests; /* of a remote job: it has said where sealed requests go */
    pid_t follower;      /* 0: none; it ends when its input does */
    int input, output;
};

/* Waits until the mirror has what can be had, and prints on standard error what a person should know of that. 0 or
 * -errno with err. find_close in any case. */
int find_job(struct found_job *ret_job, const char *word, struct err *err);
/* The mirror that is here of the job that an URL names, with its user and id. Asks no broker. 0, or -errno: -ENOENT. */
int find_mirror(const char *url, char *ret_path, size_t size);
/* For what needs the traces: -ENOTSUP of a remote job, with a line that says where they are. */
int find_job_here(const struct found_job *job, struct err *err);
/* Prints what the program that follows a remote job has said since; cheap. 0, or -errno with err: it has ended, and nothing
 * new comes. */
int find_look(struct found_job *job, struct err *err);
void find_close(struct found_job *job);

/* The broker forgets a job there (an URL that names one), and *ret_job is its mirror here, which may not be there. A name that
 * several jobs have, and jobs that run, are refused; so are those that may still run, unless `unreachable_too`. dry: the same,
 * but it forgets nothing. find_close in any case. */
int find_forget(struct found_job *ret_job, const char *url, bool unreachable_too, bool dry, struct err *err);

/* Calls fn with the mirror of each job of the URL's owner, the newest first, as they come; what is known of them is new.
 * newest: of those that are over only LIST_NEWEST (jobdir/record/mirror.h), and *ret_more others are left out. */
typedef void find_list_fn(void *ctx, const char *path);
int find_list(const char *url, bool newest, find_list_fn *fn, void *ctx, size_t *ret_more, struct err *err);

/* Is the broker there, and may its owner write and read? Some seconds at most. 0 or -errno with err, which says why not. */
int find_reach(const char *url, struct err *err);

/* Jobs that are over and whose directories are gone, from the record (scry record): scry-record makes mirrors of them. */

/* Adds the jobs of the record that the list does not have, and sorts it by their ids. As jobdir_list. */
int record_add(char ***paths, size_t *count, struct err *err);

#endif
