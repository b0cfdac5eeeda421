/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_KEYS_TRUST_H
#define SCRY_KEYS_TRUST_H

#include "keys/keys.h"

#include <openssl/x509.h>

/*
 * Whom one trusts over a connection on which both sides show certificates (TLS, src/link): keys of one's own authority,
 * that are valid and not revoked. The list of revoked ones is that of the authority's directory, read again when it has
 * changed.
 */

enum trust {
    TRUST_FINE,
    TRUST_FOREIGN, /* of another authority */
    TRUST_FORGED,  /* the signature is wrong */
    TRUST_EXPIRED, /* or not valid yet */
    TRUST_REVOKED,
};
const char *trust_name(enum trust trust); /* "fine", "of another authority", ... */

struct truster;
/* The key is borrowed. 0; -ENOMEM; -EBADMSG, -EPERM and others: there is a list of revoked keys that cannot be used. */
int truster_new(struct truster **ret_truster, const struct key *key, struct err *err);
void truster_free(struct truster *truster);
DEFINE_FREEP(truster, truster_free)
/* Reads the list again if it has changed. 1: it had; 0; -errno with err: what was known before holds. */
int truster_look(struct truster *truster, struct err *err);
/* *ret_about is what the certificate says, if it is none of TRUST_FOREIGN. */
enum trust truster_check(const struct truster *truster, X509 *cert, time_t now, struct key_about *ret_about);
/* Whether a key that was trusted before still is. */
enum trust truster_check_about(const struct truster *truster, const struct key_about *about, time_t now);

/* Borrowed from the key; the private one may be NULL. */
X509 *key_cert(const struct key *key);
EVP_PKEY *key_private(const struct key *key);

#endif
