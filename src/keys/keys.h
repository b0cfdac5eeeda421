/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may do what. Each user is an authority of their own: X.509 certificates with Ed25519 keys (OpenSSL), below
 * $XDG_CONFIG_HOME/scry/keys (0700). A certificate says whose it is, which kind of key it belongs to, and of keys for
 * people, what they may do to which jobs.
 *
 *     authority.pem, authority.key   the user's own; signs all others
 *     issued/SERIAL.pem              each certificate that was issued
 *     revoked.pem                    the list of revoked ones (CRL), signed
 *     own.pem                        certificate and key with all rights, which scry uses by default
 *
 * A key file is one PEM file, 0600: certificate, private key, and the authority's certificate.
 */
#ifndef SCRY_KEYS_KEYS_H
#define SCRY_KEYS_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/data/buf.h"
#include "base/data/err.h"
#include "base/data/span.h"

/* Bits. Each holds the ones before: who may control may observe. */
enum key_right {
    KEY_OBSERVE = 1, /* see: services that only inform */
    KEY_CONTROL = 2, /* change: settings, signals, rules, stop and continue */
    KEY_MEMORY = 4,  /* read and write values, memory, registers; call functions */
};

enum key_kind { KEY_PERSON, KEY_JOB, KEY_AUTHORITY };

struct key; /* certificate with its authority's; the private key, if it is one's own */

struct key_about {
    enum key_kind kind;
    unsigned rights; /* of a person */
    char owner[128]; /* the authority's name: the user whose jobs these are */
    char name[128];  /* for people: "laptop" */
    char job[256];   /* a glob of job ids or names; "*": all; of KEY_JOB the same */
    char serial[48]; /* hexadecimal */
    time_t from, until;
};

/* Reads a key file, or its text. 0; -ENOENT, -EACCES (others may read it), -EBADMSG, with err. */
int key_read(const char *path, struct key **ret_key, struct err *err);
int key_read_text(struct span text, struct key **ret_key, struct err *err);
void key_free(struct key *key);
void key_about(const struct key *key, struct key_about *ret_about);

#endif
