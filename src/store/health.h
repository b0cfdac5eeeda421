/* SPDX-License-Identifier: Apache-2.0 */
/* How the recorder is, as it says so about twice a second to the program that tells others (store/teller.h), on its
 * standard input: these bytes, each time. Counters begin with the recorder. */
#ifndef SCRY_STORE_HEALTH_H
#define SCRY_STORE_HEALTH_H

#include <stdint.h>

struct record_health {
    uint64_t written, repeated, dropped; /* records; dropped: to be asked for again, for there was no room */
    uint64_t pending_bytes;              /* not in the database yet */
    uint64_t messages;                   /* of the broker */
    double started, flushed;             /* wall clock; flushed: when the database last took something; 0: not yet */
    uint32_t connected, writable;        /* 0 or 1 */
};

#endif
