/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealed messages: what goes through a broker whose operator may read, keep, repeat, change and drop everything. The
 * sender signs (Ed25519), then encrypts for one receiver (X25519 with a fresh key, HKDF-SHA256, AES-256-GCM). Each
 * message stands alone, so none depends on another that was lost.
 *
 * A receiver's address is its public X25519 key, signed by its certificate. Inside are the sender's certificate, the job,
 * a nonce, when it expires (by the job's clock, which its beats tell, so that clocks may differ by hours), the address
 * for answers, and the text.
 */
#ifndef SCRY_KEYS_SEALED_H
#define SCRY_KEYS_SEALED_H

#include "keys/keys.h"

struct sealed_box; /* one end: its key, its X25519 key, the nonces that it has seen, the keys that are revoked */

/* Why a message was refused. */
enum sealed_refusal {
    SEALED_FINE,
    SEALED_DAMAGED, /* it is no message, or was not for us, or was changed */
    SEALED_FOREIGN, /* of another authority */
    SEALED_FORGED,  /* a signature is wrong */
    SEALED_EXPIRED, /* the message, or its sender's certificate; or that is not valid yet */
    SEALED_REVOKED,
    SEALED_OTHER_JOB,
    SEALED_REPEATED, /* its nonce was seen */
    SEALED_RIGHTS,   /* what it asks for, its sender may not do */
    SEALED_FULL,     /* too many nonces are remembered: try again when some have expired */
    SEALED_REFUSALS,
};
const char *sealed_refusal_name(enum sealed_refusal refusal); /* "damaged", ... */

/* The key is borrowed, and must have its private part. job: the id, "" for a person's end. 0 or -errno. */
int sealed_box_new(struct sealed_box **ret_box, const struct key *key, const char *job, struct err *err);
void sealed_box_free(struct sealed_box *box);
/* A CRL, PEM. -EBADMSG; -EPERM: not signed by our authority; -ESTALE: older than the one that is known. */
int sealed_box_revoke(struct sealed_box *box, struct span crl, struct err *err);

/* The box's address, a signed text for others (base64, one line). */
int sealed_address(const struct sealed_box *box, struct buf *out);

struct sealed_sender { /* of a message that was opened */
    struct key_about about;
    uint8_t nonce[16];
    struct span address; /* for the answer; borrowed from the message's buffer */
};

/* Appends the message. answer_to: the nonce of the request that it answers, or NULL. expires: wall clock of the job. */
int sealed_put(struct sealed_box *box, struct span address, const uint8_t *answer_to, time_t expires, struct span text,
               struct buf *out, uint8_t ret_nonce[16], struct err *err);
/* Opens a message at the time `now`. *ret_text and what *ret_sender points to are in `*room`. answer_to: what it must
 * answer, or NULL. The certificate's owner, and its globs, have been held against the box's authority and job. */
enum sealed_refusal sealed_open(struct sealed_box *box, struct span message, time_t now, const uint8_t *answer_to,
                                struct buf *room, struct span *ret_text, struct sealed_sender *ret_sender);

#endif
