/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signed messages: what a job says to all who follow it, its state, beats, records and small files. They are not secret, and
 * readers without a key read them as if nothing were signed. Whoever has the key file of a person knows the authority of
 * the job's owner, and thereby what the job itself has said, whoever can write to the broker.
 *
 * The key is the one with which the job answers requests (key_for_job); its certificate, which that authority has
 * signed, comes with each message, so that none depends on another that was lost. The signature (Ed25519) is over the
 * message as it is in octets, and comes behind it:
 *
 *     an object   its last members, ,"certificate":BASE64,"signature":BASE64}
 *     records     their last line, {"type":"signature","seq":SEQ,"t":0,"certificate":BASE64,"signature":BASE64}
 *
 * Its SEQ is that of the record before it: to whoever does not know of signatures, it is a record that comes twice. What is
 * signed is "scry signed 1", what kind of message it is (topic_signed), the job's id, each with a zero byte, and
 * the octets before: of an object those before that comma, of records all lines before.
 *
 * What signatures do not tell is when something was said: whoever kept a message can show it again. Records are the
 * same whenever they come, and files have versions. States have an order in which they can only go on (mirror, store).
 */
#ifndef SCRY_KEYS_SIGNED_H
#define SCRY_KEYS_SIGNED_H

#include "keys/keys.h"

enum {
    SIGNED_ROOM = 4 << 10, /* a signature is shorter, with its certificate */
};

/* Appends the signature of the job to an object, or to lines of records of which last_seq is the last one's number. 0; -EINVAL:
 * it is neither; -ENOMEM: the message is as before. */
int signed_put(const struct key *key, const char *kind, const char *job, uint64_t last_seq, struct buf *message);

enum signed_by {
    SIGNED_UNKNOWN, /* nobody can tell: there is no key of this owner */
    SIGNED_NOT,     /* by the job: not at all, or by a key that is not the job's, or was revoked, or it was changed */
    SIGNED_JOB,
};

struct signed_readers_key;
/* Of the person who reads (key_own). 0; -ENOENT: there is none; another -errno with err. */
int signed_key_new(struct signed_readers_key **ret_key, struct err *err);
void signed_key_free(struct signed_readers_key *key); /* NULL is fine */

/* Who has said it, below the topics of this owner. key NULL: nobody can tell. *ret_text: the message without the signature
 * if that is a line, whoever's it is. A job's key that has expired since is as good as before: it says who, not when. */
enum signed_by signed_check(struct signed_readers_key *key, const char *owner, const char *job, const char *kind,
                            struct span message, struct span *ret_text);

#endif
