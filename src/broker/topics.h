/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BROKER_TOPICS_H
#define SCRY_BROKER_TOPICS_H

#include "base/data/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Topics. doc/reference/broker.md has what is published under each.
 *
 *     scry/v1/OWNER/JOB/NAME
 *
 * Levels consist of [A-Za-z0-9-] only, which all brokers take (NATS refuses dots and blanks): each other byte, also
 * "_", is "_" and two hexadecimal digits, a to f in lower case. No level is empty.
 */

enum { TOPIC_SIZE = 4096, TOPIC_LEVEL_SIZE = 400 }; /* decoded, a level has less bytes than that */

/* What a topic of a job is about; those of records are the names of their streams. */
enum topic_kind {
    TOPIC_STREAM,  /* "node", "script", ...: lines of records, see record_stream_name */
    TOPIC_STATE,   /* "state", retained: what the job is, and how it ended */
    TOPIC_BEAT,    /* "beat", retained; also the last will: that somebody still publishes it */
    TOPIC_FILE,    /* "file": a small file of the job directory, such as stats/NODE/PID-1.json */
    TOPIC_ASK,     /* "ask": a reader lacks records or files */
    TOPIC_AGAIN,   /* "again/READER/NAME": the answer to that; NAME is `records`, `file` or `end` */
    TOPIC_STORED,  /* "stored/RECORDER": a recorder has all up to this number on its disk */
    TOPIC_REQUEST, /* "request": a sealed message for the job (control) */
    TOPIC_REPLY,   /* "reply/SESSION": a sealed answer */
    TOPIC_REVOKED, /* "keys/revoked", of an owner: job is "" */
    TOPIC_UNKNOWN, /* something of a later version */
};

struct topic {
    char owner[TOPIC_LEVEL_SIZE], job[TOPIC_LEVEL_SIZE]; /* decoded; job "": of the owner as a whole */
    enum topic_kind kind;
    char name[64];               /* of TOPIC_STREAM and TOPIC_AGAIN; else "" */
    char rest[TOPIC_LEVEL_SIZE]; /* READER, RECORDER, SESSION, decoded; else "" */
};

/* Appends a level, encoded. */
void topic_put_level(struct buf *out, const char *text);
/* scry/v1/OWNER/JOB/NAME[/REST]. NULL for owner or job: "+", to subscribe to all. NAME is appended as it is, so it may be
 * "+" or "#". REST: NULL is none, "+" stays as it is. */
void topic_put(struct buf *out, const char *owner, const char *job, const char *name, const char *rest);
/* scry/v1/OWNER/JOB/again/READER/NAME; name may be "+". */
void topic_put_again(struct buf *out, const char *owner, const char *job, const char *reader, const char *name);
/* false: it is none of ours, or badly encoded, or decodes to a level with a zero byte or longer than a level may be. */
bool topic_parse(const char *text, struct topic *ret_topic);
/* READER of a question: this name, and what nobody can guess, so that nobody has the job sign an end of it beforehand. */
void topic_name_question(const char *self, char *ret_reader, size_t size);
/* Whether `again/READER/end` is the end of this question, of records from `from` on. A topic is not signed: of a job that
 * signs (is_signed), it is what the message itself says. Others may be older, and say nothing of the reader. */
bool topic_is_end_of(const json_t *end, const char *reader, uint64_t from, bool is_signed);
/* What kind of message a job signs there (keys/signed.h); NULL: none, or it is sealed, or no job's. */
const char *topic_signed(const struct topic *topic);
/* scry/v1/OWNER/keys/revoked, retained: the keys that their owner has revoked. */
void topic_put_revoked(struct buf *out, const char *owner);

/*
 * Small files of the job directory, which come in parts (doc/reference/broker.md, "file"), in any order and more than once.
 * A file is handed on when all of its parts are there. Sizes have limits: what others send must not fill the memory.
 */

struct parts_file;
struct parts {
    struct parts_file *files; /* hash by path */
    uint64_t held_bytes;      /* of files that are not whole */
    /* The same of all jobs of a process that follows many, which has a limit, too; NULL: none. */
    uint64_t *shared_bytes;
};

/* A whole file. Not 0: it is not taken, and the same may come again. */
typedef int parts_whole_fn(void *ctx, const char *path, int64_t version, struct span bytes);

/* Of a message `file`. 0: taken, or known already; -EBADMSG, -EFBIG, -ENOMEM, and what `whole` returned. */
int parts_take(struct parts *parts, struct span payload, parts_whole_fn *whole, void *ctx);
void parts_done(struct parts *parts);

/* Takes the first line that is not empty off a batch of records. false: there is none. */
bool lines_next(struct span *lines, struct span *ret_line);

#endif
