/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_MIRROR_FOLLOW_H
#define SCRY_MIRROR_FOLLOW_H

#include "broker/topics.h"
#include "jobdir/record/mirror.h"
#include "mirror/reader.h"
#include "mirror/states.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Follows a job into its mirror. It goes through these steps, and through the later ones again whenever the connection
 * comes back:
 *
 *   find      which job is meant, by the retained states (states.h)
 *   lock      the mirror; while another process writes it, only look whether that has caught up
 *   live      subscribe to all that the publisher sends
 *   question  ask the publisher for what is missing, until nothing is
 *   ready     tell scry
 *
 * The mirror's spool is that of the job, byte for byte; what nobody can give any more is a record `gap`. It holds back what comes
 * too early. Whether a job runs is said by a beat that came now, not by one from the broker's memory, and for how long by clocks
 * that nobody sets: clocks of two machines are not compared. Of a job that signs (keys/signed.h) only what it has signed is
 * believed, if there is a key of its user. The result is written behind the last record, so nobody who follows stops too early.
 */

/* What is asked of the publisher. One question at a time. */
struct question {
    bool open, asked;
    char id[64];
    int subscription;  /* of the answer: it is asked when that is granted */
    uint64_t from, to; /* to UINT64_MAX: all there is */
    bool files;
    uint64_t moved_ns;         /* when an answer, or a part of it, came last */
    unsigned silent;           /* so many times nobody answered */
    unsigned fruitless;        /* so many answers had not what was asked for */
    uint64_t wait_ns, next_ns; /* before the next one: longer each time that nothing came of it */
};

struct follow {
    struct reader *reader;
    struct states states;
    struct parts parts;
    struct question question;
    struct mirror *mirror; /* NULL: another process writes it */
    char job[256], path[PATH_MAX];
    json_t *remote;
    json_t *last_state; /* of the job that is over, until its records are here: nobody is to stop reading too early */
    int subscription;
    bool is_live, is_ready, is_dirty;
    bool is_signed;                         /* the job signs what it says: nothing else is taken */
    bool has_unsigned;                      /* something that it has not signed was taken, though there is a key */
    uint64_t doubt_ns;                      /* since when only that keeps it from being ready; 0: it did not yet */
    bool was_granted;                       /* a subscription, by this broker */
    uint64_t refused_ns;                    /* the last one; 0: none was */
    bool looking_around;                    /* whether the node was started again, by the states of other jobs */
    bool has_state, is_over, all_published; /* what the state says */
    int progress;                           /* of the state: state_progress */
    bool has_files;                         /* they were asked for, and came */
    bool has_gaps;                          /* some records cannot be had any more */
    bool gone, mute;    /* nobody publishes the job now, as far as is known; or somebody who does not answer */
    bool looked_at_all; /* for the job that is meant */
    uint64_t gone_ns;
    bool beats;                  /* a beat came since the question */
    uint64_t end;                /* behind the last record that the publisher has told of */
    uint64_t target;             /* what is to be there before it is ready; 0: not known yet */
    uint64_t seen_next, seen_ns; /* the mirror's next record, and since when */
    double written;              /* wall clock of remote.json */
    uint64_t refused;            /* messages that were none */
};

#endif
