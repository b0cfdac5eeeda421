/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_HEALTH_CREDENTIALS_H
#define SCRY_JOB_HEALTH_CREDENTIALS_H

#include "base/data/err.h"
#include "job/health/health.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

/*
 * Credentials of the job that expire: X.509 proxies, bearer tokens, Kerberos tickets. Only when they expire is read. It
 * is not verified, and nothing of it is kept or recorded. Warns an hour before, ten minutes before, and when it is too
 * late.
 *
 * Which: X509_USER_PROXY, else /tmp/x509up_uUID. BEARER_TOKEN_FILE, else $XDG_RUNTIME_DIR/bt_uUID, else /tmp/bt_uUID
 * (WLCG Bearer Token Discovery). KRB5CCNAME, else /tmp/krb5cc_UID. What was not named, and had expired before the job
 * began, was left behind, and is none of the job's.
 *
 * Files that are on a file system that does not answer hold up nobody: each is read in a thread of its own.
 */

enum { CREDENTIALS = 3, CREDENTIAL_MOST = 1 << 20 };

/* When the credential in these bytes expires, in seconds since 1970. 0, or -errno with err for people. -ENODATA: never.
 */
int token_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err);

struct credential {
    const char *what; /* "X.509 proxy" */
    char *path;       /* NULL: there is none */
    bool named;       /* by the environment */
    bool answered;    /* it was looked at */
    bool known;       /* `expires` is */
    bool refused;     /* said that it cannot be read */
    int failures;     /* one after the other: a file may be about to be written */
    int said;         /* stages of warnings */
    int64_t expires;
    struct ask *ask;                                                                   /* it is being read; */
    uint64_t asked_ns;                                                                 /* since then */
    struct stat seen;                                                                  /* of the file that was read */
    int (*read)(const char *bytes, size_t len, int64_t *ret_expires, struct err *err); /* NULL: tickets */
};

struct credentials {
    struct credential of[CREDENTIALS];
    uint64_t looked_ns;
    bool looked;
    int wait_ms; /* for one that is being read; then the next look has it */
};

/* `variable` is getenv; relative names are of the directory `cwd`. */
void credentials_init(struct credentials *credentials, char *(*variable)(const char *name), const char *cwd);
/* now: seconds since 1970. */
void credentials_look(struct credentials *credentials, const struct look *look, int64_t now);
void credentials_done(struct credentials *credentials);

/*
 * What reads proxies and tickets: libscry-credentials.so, which is loaded only where there is one. OpenSSL and libkrb5
 * take some milliseconds to load, and scry starts often.
 */

struct credential_readers {
    const char *version; /* of scry: both come together */
    /* When the credential in these bytes expires, in seconds since 1970. 0, or -errno with err for people. */
    int (*proxy)(const char *bytes, size_t len, int64_t *ret_expires, struct err *err);
    /* The same of a cache by its name, as in KRB5CCNAME. -ENOTSUP: built without libkrb5. */
    int (*tickets)(const char *name, int64_t *ret_expires, struct err *err);
};

/* Inside of the library. */
int proxy_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err);
int tickets_expire(const char *name, int64_t *ret_expires, struct err *err);

#endif
