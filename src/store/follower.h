/* SPDX-License-Identifier: Apache-2.0 */
/* What the recorder knows while it runs (store/follow.h): itself, and each job that it follows. */
#ifndef SCRY_STORE_FOLLOWER_H
#define SCRY_STORE_FOLLOWER_H

#include "base/system/loop.h"
#include "broker/link.h"
#include "broker/parts.h"
#include "broker/topics.h"
#include "keys/signed.h"
#include "store/follow.h"

enum {
    ASKS_AT_ONCE = 8,
};

struct followed {
    struct follower *follower;
    struct stored_job *job;
    struct followed *next; /* of all */
    struct parts parts;
    bool seen_state, over, connected, completing;
    bool is_signed;          /* the job signs what it says: nothing else is taken */
    enum signed_by by;       /* of the last message */
    uint64_t lease_until_ns; /* connected: until then, if no other beat comes; 0: no beat came */
    bool dropped;      /* something was, since it was last asked for: an answer does not say that the rest is lost */
    bool files_wanted; /* all files are to be asked for */
    bool told;         /* a person was told that it is stored */
    bool changed;      /* `stored` is to be said again */
    bool said_complete;
    int64_t said_seq;
    uint64_t said_ns;
    /* the question that is not answered yet; "": none */
    char reader[48];
    bool asked_files, answered; /* its end came */
    bool doubt;                 /* whether it ever reached the publisher */
    int64_t asked_from, asked_to, answered_to;
    int64_t vain_from; /* of the last answer that did not bring what it began with, and how often */
    unsigned vain;
    uint64_t asked_ns; /* of the question, or the last answer to it */
    int64_t missing;   /* the first number that was missing when it was last looked, and since when */
    uint64_t missing_ns, next_ask_ns;
    unsigned failures; /* questions that nobody answered */
};

struct follower {
    struct store *store;
    const struct follow_options *options;
    struct loop *loop;
    struct link *link;
    struct signed_readers_key *key; /* to see what a job has signed; NULL: nobody can tell */
    struct loop_source *flush_timer;
    struct followed *list;
    char id[32], where[512], lost[256], trouble[ERR_TEXT_SIZE];
    bool flush_armed, refused;
    unsigned asked_for, granted; /* subscriptions of this connection */
    unsigned asking;
    uint64_t heard_ns, keep_ns, dropped;
    uint64_t again_ns;    /* until what was not written is written again */
    unsigned vain;        /* flushes in a row that failed */
    uint64_t parts_bytes; /* of files of all jobs that are not whole */
    struct teller teller;
    uint64_t messages;
    double started, flushed; /* wall clock */
    int status;
};

/* Writes what is pending within a moment. */
void follower_flush_soon(struct follower *follower);

/* Makes it, if it is new; NULL: out of memory. */
struct followed *followed_find(struct follower *follower, const char *owner, const char *job);
/* A new connection: what was asked before is not answered any more. */
void followed_connected(struct follower *follower);
/* The last flush has changed its job. */
void followed_changed(struct follower *follower, struct followed *followed);
/* Is this the name of its question? */
bool followed_asked(struct followed *followed, const char *reader);
/* The publisher said its state: it does so when it connects, and may not have heard what was asked before. */
void followed_spoke(struct followed *followed);
/* `again/READER/end` came. */
void followed_answered(struct follower *follower, struct followed *followed, const json_t *end);
/* Asks for what is missing, says what is stored. true: all are over and stored, or can never be. */
bool followed_tick(struct follower *follower, uint64_t now_ns);
void followed_done(struct follower *follower);

#endif
