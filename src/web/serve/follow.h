/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a job as server-sent events, for all who look at it. Its spool, and those of its parts on other nodes, are
 * read while somebody looks; each record is turned into the text of an event once. The last of these are kept, for those who come
 * and those who are slow: whoever falls behind that goes on at the first that is there, and is told.
 */
#ifndef SCRY_WEB_SERVE_FOLLOW_H
#define SCRY_WEB_SERVE_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "jobdir/record/kinds.h"
#include "web/http/position.h"
#include "web/http/server.h"

enum { EVENTS_BYTES = 8 << 20 /* that are kept of a job */ };

struct event {
    char *text;            /* "id: ...\nevent: ...\ndata: ...\n\n" */
    uint32_t len, source;  /* source: which part */
    enum record_type type; /* RECORD_TYPES: one that is not known here */
    uint64_t offset;       /* in its source: where the next one begins */
};

struct follow;
struct follower { /* somebody who looks; in the list of the job */
    struct follow *follow;
    struct follower *next, **before;
    uint64_t next_event;                     /* its number */
    bool lost;                               /* some were gone when it came */
    struct position *behind;                 /* what it has got before it came; NULL: nothing */
    void (*more)(struct follower *follower); /* there are more events, or it was the last one */
};

struct follows;
struct follows *follows_new(struct server *server); /* NULL: out of memory */
void follows_free(struct follows *follows);

/* Begins. url: of the job at a broker, whose mirror the directory is, which is kept as new as the job; otherwise NULL. `behind`
 * is taken, or NULL. 0; -ENOMEM; -EMFILE: too many jobs are followed. */
int follow_begin(struct follows *follows, const char *jobdir, const char *url, struct position *behind_take,
                 struct follower *ret_follower);
void follow_end(struct follower *follower);

/* It has got this one. */
void follow_got(struct follower *follower);

/* The next event that it has not got; NULL: none now. *ret_lost: so many were left out before it, UINT64_MAX: it is not known how
 * many. The event is good until the loop goes on. */
const struct event *follow_next(struct follower *follower, uint64_t *ret_lost);
/* The job is over, and it has got all. The text of the last event. NULL: not yet. */
const struct event *follow_last(struct follower *follower);

#endif
