/* SPDX-License-Identifier: Apache-2.0 */
/* The nonces that were seen, until they expire: a hash table of limited size. A zero struct is empty. */
#ifndef SCRY_KEYS_NONCES_H
#define SCRY_KEYS_NONCES_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct nonces {
    struct nonce_seen *table;
    size_t count, room; /* room: a power of two, more than twice the count */
    time_t forgotten;   /* the latest `expires` of those that were forgotten since they had expired */
    uint64_t seed;      /* whoever chooses nonces cannot make them collide */
};

void nonces_done(struct nonces *nonces);
/* Remembers it until `expires`. 0; -EEXIST: it is known; -ESTALE: it may have been, and was
 * forgotten before the clock was set back; -ENOSPC: `most` are known, and none of them has expired; or half as many, and a
 * fourth of `most` is of the same sender, `who`: nobody can take all the room of others; -ENOMEM. */
int nonces_add(struct nonces *nonces, const uint8_t nonce[16], uint32_t who, time_t expires, time_t now, size_t most);

#endif
