/* SPDX-License-Identifier: Apache-2.0 */
/* What libscry-credentials.so exports. */
#include "job/health/readers.h"

extern const struct credential_readers scry_credential_readers __attribute__((visibility("default")));
const struct credential_readers scry_credential_readers = {SCRY_VERSION, proxy_expires, tickets_expire};
