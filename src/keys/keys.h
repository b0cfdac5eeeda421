/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what. Each user is an authority of their own: X.509 certificates with Ed25519 keys (OpenSSL). A certificate
 * says in its alternative name (RFC 5280 4.2.1.6), a URI, which kind of key it belongs to, and which jobs it is for:
 *
 *     scry:person?rights=observe,control&job=GLOB      somebody who looks at jobs, or changes them
 *     scry:job?job=GLOB                                a job
 *
 * The authority's name, the issuer, is the user whose jobs these are; the subject is the name of the key.
 *
 * A key file is PEM, 0600: certificate, private key, and the authority's certificate. keys/authority.h has the directory
 * where an authority keeps its own.
 */
#ifndef SCRY_KEYS_KEYS_H
#define SCRY_KEYS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/err.h"

/* Bits. Whoever may change or read values may also observe: certificates say so, with both bits. */
enum key_right {
    KEY_OBSERVE = 1, /* see: services that only inform */
    KEY_CONTROL = 2, /* change: settings, signals, rules, stop and continue */
    KEY_MEMORY = 4,  /* read and write values, memory, registers; call functions */
    KEY_RIGHTS = 7,  /* all */
};

enum key_kind { KEY_PERSON, KEY_JOB, KEY_AUTHORITY };
const char *key_kind_name(enum key_kind kind);         /* "person", "job", "authority" */
void key_put_rights(struct buf *out, unsigned rights); /* "observe,control"; nothing for 0 */

struct key; /* certificate with its authority's; the private key, if it is one's own */

struct key_about {
    enum key_kind kind;
    unsigned rights; /* of a person */
    bool is_private; /* the private key is there */
    char owner[128]; /* the authority's name: the user whose jobs these are */
    char name[128];  /* for people: "laptop" */
    char job[256];   /* a glob: of people, of job ids and names, "*": all; of jobs, of ids; of authorities "" */
    char serial[48]; /* hexadecimal, lower case */
    time_t from, until;
};

enum { KEY_TEXT_BYTES = 16 << 10 }; /* of a key file */

/* Reads a key file, or its text. 0; -ENOENT, -EACCES (a private key that others may read, or of another user),
 * -EBADMSG, with err. That the certificate is its authority's has been checked, not whether it is valid now. */
int key_read(const char *path, struct key **ret_key, struct err *err);
int key_read_text(struct span text, struct key **ret_key, struct err *err);
void key_free(struct key *key);
DEFINE_FREEP(key, key_free)
void key_about(const struct key *key, struct key_about *ret_about);

/* 0; -EKEYEXPIRED, also if it is not valid yet: err says which, since when, and what to do. */
int key_check_time(const struct key *key, time_t now, struct err *err);

/* Whether the key's glob has the job: by its id, and of people's keys by its name, too ("": it has none). */
bool key_is_for(const struct key_about *about, const char *job, const char *name);

/*
 * The key with which a job proves that it is this job. `option`, of --key or SCRY_KEY: the path of a key file of kind
 * job, or its text; NULL: if the user's own authority can be read, a fresh key for this job alone, which is on no disk.
 * 0; -ENOENT without err: there is neither, so the job takes no requests. Else -errno with err.
 */
int key_for_job(const char *job_id, const char *option, struct key **ret_key, struct err *err);

/* The key of who looks at jobs or steers them: of SCRY_KEY (a path, or the text), else own.pem of the user's authority. 0;
 * -ENOENT: there is none; another -errno; all with err, that it is no key of a person, too. */
int key_own(struct key **ret_key, struct err *err);

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
struct x509_st; /* of OpenSSL: X509, EVP_PKEY */
struct evp_pkey_st;
/* The key is borrowed. 0; -ENOMEM; -EBADMSG, -EPERM and others: there is a list of revoked keys that cannot be used. */
int truster_new(struct truster **ret_truster, const struct key *key, struct err *err);
void truster_free(struct truster *truster);
DEFINE_FREEP(truster, truster_free)
/* Reads the list again if it has changed. 1: it had; 0; -errno with err: what was known before holds. */
int truster_look(struct truster *truster, struct err *err);
/* *ret_about is what the certificate says, if it is none of TRUST_FOREIGN. */
enum trust truster_check(const struct truster *truster, struct x509_st *cert, time_t now, struct key_about *ret_about);
/* Whether a key that was trusted before still is. */
enum trust truster_check_about(const struct truster *truster, const struct key_about *about, time_t now);

/* Borrowed from the key; the private one may be NULL. */
struct x509_st *key_cert(const struct key *key);
struct evp_pkey_st *key_private(const struct key *key);

#endif
