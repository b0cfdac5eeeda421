/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reads proxies and tickets: libscry-credentials.so, which is loaded only where there is one. OpenSSL and libkrb5
 * take some milliseconds to load, and scry starts often.
 */
#ifndef SCRY_JOB_HEALTH_READERS_H
#define SCRY_JOB_HEALTH_READERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

#define READERS_SYMBOL "scry_credential_readers"

struct credential_readers {
    const char *version; /* of scry: both come together */
    /* When the credential in these bytes expires, in seconds since 1970. 0, or -errno with err for people. */
    int (*proxy)(const char *bytes, size_t len, int64_t *ret_expires, struct err *err);
    /* The same of a cache by its name, as in KRB5CCNAME. -ENOTSUP: built without libkrb5. */
    int (*tickets)(const char *name, int64_t *ret_expires, struct err *err);
};

/* NULL with err: it is not there. For any thread. */
const struct credential_readers *readers_find(struct err *err);

/* Inside of the library. */
int proxy_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err);
int tickets_expire(const char *name, int64_t *ret_expires, struct err *err);

#endif
