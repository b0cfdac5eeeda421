/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the commands of scry-mirror share: the connection, and what they tell scry, which started them and waits. That is
 * lines on standard output, a word and a text without line ends:
 *
 *     ready PATH      the mirror has all that can be had now; it goes on until standard input closes. Of a job that was
 *                     forgotten: where its mirror is, if there is one
 *     job PATH        one of a listing, the newest first
 *     more COUNT      so many jobs that are over were left out of it
 *     note TEXT       for the person
 *     progress SHARE  0 to 1
 *     error TEXT      the last line: it could not be done
 */
#ifndef SCRY_MIRROR_READER_H
#define SCRY_MIRROR_READER_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/data/err.h"
#include "base/data/buf.h"
#include "base/system/loop.h"
#include "broker/link.h"
#include "broker/topics.h"
#include "broker/url.h"
#include "keys/signed.h"

struct reader {
    struct loop *loop;
    struct link *link; /* NULL: not yet */
    struct broker_url url;
    const char *owner;              /* whose jobs */
    char via[PATH_MAX];             /* the broker, without password, owner and job */
    char client[32];                /* our name there */
    struct signed_readers_key *key; /* to see what a job has signed; NULL: nobody can tell */
    char last_loss[256];            /* why the last attempt to connect failed; "": none has */
    int status;                     /* to exit with */
};

void reader_say(const char *word, const char *text);
void reader_say_err(const char *word, const struct err *err);
void reader_progress(uint64_t done, uint64_t all);
/* Says the error and ends the loop. */
void reader_fail(struct reader *reader, const struct err *err);

/* Begins to connect; `ctx` is that of the events. 0 or -errno. */
int reader_connect(struct reader *reader, const struct link_events *events, void *ctx, struct err *err);
/* For those who follow jobs: the person's key, if there is one. */
void reader_read_key(struct reader *reader);
/* Who has said it; see signed_check. Of other topics: SIGNED_UNKNOWN. */
enum signed_by reader_check(const struct reader *reader, const struct topic *topic, struct span payload,
                            struct span *ret_text);
/* A name for a question: letters and digits. */
void reader_question(const struct reader *reader, char ret_id[64]);
/* Subscribes to a topic of a job (NULL: of all jobs). Returns the subscription's number; < 0: -errno. */
int reader_subscribe(struct reader *reader, const char *job, const char *name, int qos);
void reader_publish_json(struct reader *reader, const char *topic, json_t *json_take);

/* What each `lost` does first: keeps why. true: to try again would be in vain, which it has said, and all is over. Where the
 * connection was up before, it is said, and tried again all the same. */
bool reader_lost(struct reader *reader, const char *why);
/* Of the events, for those who do not care: what is lost is asked again. */
void reader_published(void *ctx, int id);

/* The commands: the exit status. */
int follow_run(struct reader *reader);
int list_run(struct reader *reader);
int list_newest_run(struct reader *reader);
int relay_run(struct reader *reader);
/* Says to libomis, which waits for frames, why it could not begin. The exit status. */
int relay_refuse(const struct err *err);
int forget_run(struct reader *reader);
int forget_unreachable_run(struct reader *reader);
int forget_nothing_run(struct reader *reader);

#endif
