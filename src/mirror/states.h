/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The jobs of an owner, by the retained messages of their publishers. A broker sends those when somebody subscribes; that
 * all of them came is known when a message of our own, published afterwards, came back (states_marker). Where nobody may
 * publish, some seconds of silence must do. A broker may also drop what it has no room for, without a word: mosquitto keeps
 * 1000 messages for a reader, unless it is told otherwise. Beats are short, and few queues hold them back (QoS 0; mosquitto
 * drops them, too, since 2.0.16, when its reader is slow): so they tell of which jobs a state must come. States, and
 * beats, that did not are asked for one by one. Where beats were dropped, others may have been of which nobody knows.
 */
#ifndef SCRY_MIRROR_STATES_H
#define SCRY_MIRROR_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <uthash.h>

#include "mirror/reader.h"

struct state {
    char *job;            /* the id, by the topic */
    json_t *state, *beat; /* the last of each; NULL: none */
    bool beats;           /* a beat came just now, and not from the broker's memory */
    unsigned asked;       /* the pass in which it was last asked for what it lacks */
    enum signed_by state_by, beat_by;
    UT_hash_handle hh;
};

/* Of the jobs of a node: the newest, and the newest of those that began before, or after, another start of the node. */
struct node {
    UT_hash_handle hh;
    const struct state *newest, *other;
    char name[];
};

struct states {
    struct reader *reader;
    struct state *jobs; /* hash by id */
    char marker[64];
    int subscription; /* the last one */
    bool running, beats_too;
    struct loop_source *quiet;
    unsigned silent;    /* times that nothing came, not even the marker */
    unsigned round;     /* the number of the last marker */
    size_t lacking;     /* jobs with a beat and without a state, when that was last looked at */
    size_t asked_for;   /* the same, and those with a state and without a beat */
    unsigned pass;      /* each asks once for all that lack something, some at a time; */
    size_t pass_began;  /* with so many; 0: not yet */
    size_t forged;      /* messages in place of those that their jobs have signed */
    bool unsure;        /* in the end: there may be more, or the state of some is not known */
    struct node *nodes; /* hash by name */
    void (*all_came)(void *ctx);
    void *ctx;
};

/* Begins to collect, when connected; again after a connection was lost. `job` NULL: of all. */
void states_start(struct states *states, const char *job);
void states_stop(struct states *states);
void states_subscribed(struct states *states, int id);
/* true: the message was ours. */
bool states_message(struct states *states, const struct topic *topic, struct span payload, bool retained);
void states_done(struct states *states);

/* The job that is meant: an id, a name (of several the newest), a unique prefix of an id, @last. NULL with err. */
const struct state *states_find(const struct states *states, const char *word, struct err *err);

/* Whether its node was started again since: another job of this owner there says so. When all came. */
bool states_node_restarted(struct states *states, const struct state *job);
/* How far the job is in it, which only grows: 0: it runs; 1: it is over; 2: all of it is published. */
int state_progress(const json_t *state);
/* What a mirror is to say of it: `signed`. */
void state_put_signed(json_t *remote, enum signed_by by);
/* What job.json is to say; NULL: the state is not that of this job. Borrowed. */
const json_t *state_info(const json_t *state, const char *job);
/* The members of remote.json that are in a state and a beat; each may be NULL. retained: the beat is from the broker's
 * memory. */
void state_put_remote(json_t *remote, const struct reader *reader, const json_t *state, const json_t *beat,
                      bool retained);
/* Writes job.json of a mirror, if it changed. */
struct mirror;
int state_put_info(struct mirror *mirror, const char *path, const json_t *state, const char *job);

#endif
