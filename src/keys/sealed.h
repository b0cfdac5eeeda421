/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_KEYS_SEALED_H
#define SCRY_KEYS_SEALED_H

#include "keys/keys.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/*
 * Sealed messages: what goes through a broker whose operator may read, keep, repeat, change and drop everything. The
 * sender signs (Ed25519), then encrypts for one receiver: HPKE (RFC 9180), base mode, DHKEM(X25519, HKDF-SHA256),
 * HKDF-SHA256, AES-256-GCM. The signature is over the receiver and its encryption, too: whoever gets a message cannot pass
 * it on as meant for another. Each message stands alone, so none depends on another that was lost.
 *
 * There are two kinds of ends, told apart by their keys: jobs take requests of people, people take answers of jobs.
 * An end's address is its public X25519 key, which lives as long as the box, with the job and its certificate, signed.
 * Inside a message are the sender's address, a nonce, which nonce it answers, when it expires (by the job's clock, which
 * its beats tell, so that clocks may differ by hours), and the text.
 *
 *     message   1 octet version (1), 32 encapsulated key, then encrypted:
 *               64 signature, 16 nonce, 16 nonce that is answered or zeros, 8 expires, 4 and the sender's address, the text
 *     address   in base64: 1 octet version (1), 32 public key, 2 and the job's id, 2 and the certificate (DER), 64 signature
 *
 * Numbers are big-endian; those before a text are its length. The signatures are over "scry message 1" and a zero byte,
 * the receiver's public key, the encapsulated key, and what follows the signature; and over "scry address 1" and a zero
 * byte, and what precedes the signature.
 */

enum {
    SEALED_TEXT_BYTES = 480 << 10,    /* of a text, at most */
    SEALED_MESSAGE_BYTES = 512 << 10, /* of a message */
    SEALED_ADDRESS_BYTES = 4 << 10,   /* of an address */
    SEALED_NONCES = 16 << 10,         /* that are remembered until they expire; of one key half of them at most */
};

struct sealed_box; /* one end: its key, its X25519 key, the nonces that it has seen, the keys that are revoked */

/* Why a message was refused. */
enum sealed_refusal {
    SEALED_FINE,
    SEALED_DAMAGED, /* it is no message, or was not for us, or was changed */
    SEALED_FOREIGN, /* of another authority */
    SEALED_FORGED,  /* a signature is wrong */
    SEALED_EXPIRED, /* its sender's certificate; or that is not valid yet */
    SEALED_HOUR,    /* the message has expired, or would be valid too long: the clocks differ, or it was kept back */
    SEALED_REVOKED,
    SEALED_OTHER_JOB, /* it is about another job, or its sender's key is not for this one */
    SEALED_REPEATED,  /* its nonce was seen */
    SEALED_RIGHTS,    /* what it asks for, its sender may not do: a job that asks, a person who answers */
    SEALED_FULL,      /* too many nonces are remembered, of this key or in all: try again when some have expired */
    SEALED_REFUSALS,
};
const char *sealed_refusal_name(enum sealed_refusal refusal); /* "damaged", ... */

/* The key is borrowed, and must have its private part. job: the id of the job that both ends are about, which people
 * must know before, for a broker could show them another job's address. name: the job's, for the globs of people's
 * keys; "": none. The list of revoked keys in the authority's directory is taken, if it can be read. 0; -EINVAL (kind
 * of the key), -EACCES (it is not for this job), -EKEYEXPIRED, -ENOMEM. */
int sealed_box_new(struct sealed_box **ret_box, const struct key *key, const char *job, const char *name,
                   struct err *err);
void sealed_box_free(struct sealed_box *box);
DEFINE_FREEP(sealed_box, sealed_box_free)
/* A CRL, PEM. -EBADMSG; -EPERM: not signed by our authority; -ESTALE: older than the one that is known. */
int sealed_box_revoke(struct sealed_box *box, struct span crl, struct err *err);
/* Whether our own key is in that list. */
bool sealed_box_is_revoked(const struct sealed_box *box);
/* How many messages were refused for this reason (SEALED_FINE: opened). And to count one that the caller refused. */
uint64_t sealed_box_count(const struct sealed_box *box, enum sealed_refusal refusal);
void sealed_box_refuse(struct sealed_box *box, enum sealed_refusal refusal);

/* The box's address, a signed text for others (base64, one line). 0 or -ENOMEM. */
int sealed_address(const struct sealed_box *box, struct buf *out);

struct sealed_sender { /* of a message that was opened */
    struct key_about about;
    uint8_t nonce[16];
    uint8_t answers[16]; /* the request's nonce; zeros: it answers none */
    struct span address; /* for the answer */
};

/* Appends the message. answer_to: the nonce of the request that it answers, or NULL. expires: wall clock of the job.
 * -EMSGSIZE; -EBADMSG, -EPERM, -EACCES, -EKEYEXPIRED: of the address, with err. */
int sealed_put(struct sealed_box *box, struct span address, const uint8_t *answer_to, time_t expires, struct span text,
               struct buf *out, uint8_t ret_nonce[16], struct err *err);
/* Opens a message at the time `now`, by the job's clock. *ret_text and what *ret_sender points to are in `*room`, which
 * is cleared before. answer_to: what it must answer (else it is SEALED_DAMAGED), or NULL: the caller looks at `answers`.
 * The sender's kind, owner, and glob have been held against the box; its rights are for the caller to ask. */
enum sealed_refusal sealed_open(struct sealed_box *box, struct span message, time_t now, const uint8_t *answer_to,
                                struct buf *room, struct span *ret_text, struct sealed_sender *ret_sender);

/* The nonces that were seen, until they expire: a hash table of limited size. A zero struct is empty. */

struct nonces {
    struct nonce_seen *table;
    size_t count, room; /* room: a power of two, more than twice the count */
    time_t forgotten;   /* the latest `expires` of those that were forgotten since they had expired */
    uint64_t seed;      /* whoever chooses nonces cannot make them collide */
};

void nonces_done(struct nonces *nonces);
/* Remembers it until `expires`. 0; -EEXIST: it is known; -ESTALE: it may have been, and was
 * forgotten before the clock was set back; -ENOSPC: `most` are known, and none of them has expired; or half as many, and a
 * fourth of `most` is of the same sender, `who`: nobody can take all the room of others; -ENOMEM. */
int nonces_add(struct nonces *nonces, const uint8_t nonce[16], uint32_t who, time_t expires, time_t now, size_t most);

#endif
