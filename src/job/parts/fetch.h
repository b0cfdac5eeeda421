/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_PARTS_FETCH_H
#define SCRY_JOB_PARTS_FETCH_H

#include "base/data/err.h"
#include "base/system/clock.h"
#include "jobdir/record/parts.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <uthash.h>

/*
 * Brings the parts of a job (jobdir/record/parts.h) from nodes that share no file system with this one, by requests to
 * their monitors (service/job/job.c). Each is a mirror here (jobdir/record/mirror.h). What only grows is read from where
 * it was read to, the rest anew when it was changed.
 */

struct fetched; /* a file, by its name */

struct fetch {
    const char *job, *id;      /* the job directory, and its id */
    char name[256];            /* as ssh was told, or the token of a node that came by itself */
    bool came;                 /* that is one */
    uint64_t number, parts;    /* which of the job's parts there, from 1; how many these are */
    char token[32];            /* of the node; "": not attached */
    char host[256];            /* as it calls itself; "": not known */
    char there[PATH_MAX];      /* the part's directory on the node; "": not known */
    char dir[PATH_MAX];        /* and here; "": not made yet */
    struct fetched *files;     /* hash by name */
    uint64_t brought, end_ns;  /* bytes; nothing more is brought from then on (clock_now_ns), 0: there is no end */
    bool shared;               /* it lies in the job directory already */
    bool is_set;               /* it was told what scry set has changed */
    bool complete, answered;   /* of the last round: it was all read; the node answered */
    bool given_up;             /* the command has ended, and it is refused */
    bool silent;               /* it did not answer in the round before */
    struct err err;            /* why not */
    bool unclocked;            /* it could not be reached only to compare clocks */
    struct clock_offset clock; /* the node's time of day, compared with ours */
    struct part_clock clock_written; /* what clock.json says of it; at_ns 0: nothing */
};

/* What a node may send of its part: it may be somebody else's by now. */
enum { FETCH_FILES = 100000, FETCH_PARTS = 256, FETCH_KEEP_FREE = 256 << 20 /* bytes of the file system */ };
#define FETCH_NO_PART "nothing of the job was recorded there: scry doctor --node %s says what is missing"

/* One round: reads what is new, at most so many bytes. Returns how many, or -errno with fetch->err. */
int64_t fetch_round(struct fetch *fetch, uint64_t most_bytes);
/* Only the clocks: its parts are here already. Not again once the node could not be reached. */
void fetch_compare(struct fetch *fetch);
/* Gives the part what scry set has changed since the job began. */
void fetch_set(struct fetch *fetch);
/* It has ended, and all of it is here. */
bool fetch_is_whole(const struct fetch *fetch);
/* Nothing has ever come from it: it could not be reached, or has no part. Err says why. */
bool fetch_is_refused(const struct fetch *fetch);
/* Tells the node that all is here. It may end with the part. */
void fetch_release(struct fetch *fetch);
/* Says in remote.json how it stands with the part. `over`: nothing more is fetched. */
void fetch_say(const struct fetch *fetch, bool over);
void fetch_done(struct fetch *fetch);

/* Whether clock.json is to be written again: it is known better, what it says has become too old, or a clock
 * was set. */
bool fetch_is_better_clock(const struct part_clock *now, const struct part_clock *written);

/* Also a node that never stops sending must not fill the disk, which has so much free, or keep us for ever. 0; -ETIMEDOUT,
 * -EFBIG, -ENOSPC with fetch->err: nothing more is brought. */
int fetch_check_limits(struct fetch *fetch, uint64_t free_bytes);

/* A name of a file that may be written below a part's directory: no way out of it, none of our own files. */
bool fetch_is_good_name(const char *name);
/* What only grows: all else is replaced as a whole. */
bool fetch_only_grows(const char *name);

/* Nodes that come by themselves, to the `scry-link await` of this program. */

struct awaited {
    FILE *said; /* who comes; NULL: nobody is awaited */
    int in;     /* scry-link await ends after this */
    pid_t pid;
};

/* Starts it, and waits until it says where to come; NULL, or what SCRY_JOIN is to be, with a newline, in `line`. What could not
 * be started leaves nothing behind; else awaited_end ends it. */
const char *awaited_begin(struct awaited *awaited, char *line, size_t size);
/* The token of another node that has come; false: there is none now. */
bool awaited_next(struct awaited *awaited, char *ret_token, size_t size);
void awaited_end(struct awaited *awaited);

#endif
