/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_KEYS_AUTHORITY_H
#define SCRY_KEYS_AUTHORITY_H

#include "keys/keys.h"

/*
 * A user's authority, in the directory $XDG_CONFIG_HOME/scry/keys or ~/.config/scry/keys (0700, files 0600):
 *
 *     authority.pem, authority.key   signs all others
 *     own.pem                        a key file with all rights, which scry uses by default
 *     issued/SERIAL.pem              each certificate that was issued to a file, own.pem's too, with the authority's
 *     revoked.pem                    the list of revoked ones (CRL), signed
 *
 * Whoever revokes holds a lock (flock) on the directory. Files appear whole or not at all.
 */

/* The path of a file in the directory; name "": the directory. 0 or -errno with err. */
int authority_path(const char *name, char *ret_path, size_t size, struct err *err);

/* Makes the directory with a new authority, and own.pem. -EEXIST: there is one already, which is left as it is. */
int authority_init(const char *user, struct err *err);

/* Reads the authority with its private key. -ENOENT: there is none. */
int authority_read(struct key **ret_authority, struct err *err);

/* A new key: about's kind, rights, name, job, from and until. -EINVAL; -EKEYEXPIRED: the authority ends before. */
int key_issue(const struct key *authority, const struct key_about *about, struct key **ret_key, struct err *err);
/* Appends the key file's text; without the private key if `is_public`. 0 or -ENOMEM. */
int key_put_text(const struct key *key, bool is_public, struct buf *out);

/* The same, and remembers the certificate in issued/, before the file is written. */
int authority_issue(const struct key_about *about, const char *path, struct key_about *ret_about, struct err *err);

struct issued {
    struct key_about about;
    bool revoked;
};
/* All certificates in issued/, the newest first; the caller frees. Those that cannot be read are left out, and counted. */
int authority_list(struct issued **ret_list, size_t *ret_count, size_t *ret_damaged, struct err *err);

/* Revokes the key of this serial (or the beginning of one), or the only one of this name. *ret_about: of the
 * certificate; its name is "" for a whole serial that is not in issued/. 0; 1: it was revoked before; -ENOENT;
 * -EINVAL: several have that name; -EAGAIN: another process revokes right now. */
int authority_revoke(const char *which, struct key_about *ret_about, struct err *err);
/* Appends revoked.pem. 0; -ENOENT without err: nothing was revoked yet. */
int authority_revoked(struct buf *out, struct err *err);

#endif
