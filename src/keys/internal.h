/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: OpenSSL's objects. Its errors become ours at once, and its queue is emptied. */
#ifndef SCRY_KEYS_INTERNAL_H
#define SCRY_KEYS_INTERNAL_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "keys/keys.h"

struct key {
    X509 *cert, *authority; /* of an authority both are the same */
    EVP_PKEY *private_key;  /* NULL: not ours */
    struct key_about about;
};

DEFINE_FREEP(x509_st, X509_free)
DEFINE_FREEP(X509_crl_st, X509_CRL_free)
DEFINE_FREEP(evp_pkey_st, EVP_PKEY_free)
DEFINE_FREEP(bio_st, BIO_free_all)

/* Before anything of OpenSSL: without its configuration file, which a batch job's environment may have changed. */
void keys_start(void);

/* Takes the references. Checks the shape, and that one signed the other. authority NULL: the certificate is one. */
int key_new_take(X509 *cert, X509 *authority, EVP_PKEY *private_key, struct key **ret_key, struct err *err);

/* What a certificate says; false: it is none of ours. */
bool cert_about(X509 *cert, struct key_about *ret_about);
/* A certificate for the public key, signed by the issuer; issuer NULL: by itself, an authority. NULL: failed. */
X509 *cert_new(const struct key_about *about, EVP_PKEY *public_key, X509 *issuer, EVP_PKEY *issuer_key);
EVP_PKEY *ed25519_new(void);

/* Ed25519. */
enum { KEY_SIGNATURE_BYTES = 64 };
bool key_sign(const struct key *key, struct span text, uint8_t ret_signature[KEY_SIGNATURE_BYTES]);
bool cert_verify(X509 *cert, struct span text, const char *signature);
/* Appends the bytes of a text in base64. false: it is none, or there is no memory. */
bool key_base64_decode(struct span text, struct buf *out);

/* Whose certificate it is: of this authority, signed by it, valid, and not in the list. */
enum trust cert_check(X509 *authority, X509_CRL *revoked, X509 *cert, time_t now, struct key_about *ret_about);

/* A list of revoked keys, PEM. -EBADMSG; -EPERM: not signed by this authority. */
int crl_read(struct span text, X509 *authority, X509_CRL **ret_crl, struct err *err);
/* Whether the list (NULL: empty) has the serial; and the list's own number, 0: none. */
bool crl_has(X509_CRL *crl, const char *serial);
int64_t crl_number(X509_CRL *crl);

/* "2026-11-23 06:30 UTC" */
struct when {
    char text[40];
};
struct when when_text(time_t time);

#endif
