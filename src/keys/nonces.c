/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/nonces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/rand.h>

struct nonce_seen {
    uint8_t nonce[16];
    time_t expires; /* 0: a free place */
    uint32_t who;
};

void nonces_done(struct nonces *nonces)
{
    free(nonces->table);
    *nonces = (struct nonces){0};
}

/* Its place, or the free one where it belongs. */
static struct nonce_seen *find(const struct nonces *nonces, const uint8_t nonce[16])
{
    uint64_t halves[2];
    memcpy(halves, nonce, sizeof halves);
    uint64_t hash = (halves[0] ^ nonces->seed) * UINT64_C(0x9e3779b97f4a7c15);
    hash = ((hash >> 29) ^ hash ^ halves[1]) * (nonces->seed | 1);
    for (size_t at = hash >> 32;; at++) {
        struct nonce_seen *seen = &nonces->table[at & (nonces->room - 1)];
        if (!seen->expires || memcmp(seen->nonce, nonce, sizeof seen->nonce) == 0)
            return seen;
    }
}

/* A table with room for twice as many as are still valid. */
static int rebuild(struct nonces *nonces, time_t now)
{
    struct nonces fresh = {.room = 64, .seed = nonces->seed, .forgotten = nonces->forgotten};
    size_t valid = 0;
    for (size_t i = 0; i < nonces->room; i++)
        valid += nonces->table[i].expires && nonces->table[i].expires >= now;
    while (fresh.room < 4 * (valid + 1))
        fresh.room *= 2;
    if (!fresh.seed && RAND_bytes((unsigned char *)&fresh.seed, sizeof fresh.seed) != 1)
        return -ENOMEM;
    fresh.table = calloc(fresh.room, sizeof *fresh.table);
    if (!fresh.table)
        return -ENOMEM;
    for (size_t i = 0; i < nonces->room; i++)
        if (nonces->table[i].expires && nonces->table[i].expires >= now) {
            *find(&fresh, nonces->table[i].nonce) = nonces->table[i];
            fresh.count++;
        } else if (nonces->table[i].expires > fresh.forgotten) {
            fresh.forgotten = nonces->table[i].expires;
        }
    free(nonces->table);
    *nonces = fresh;
    return 0;
}

static size_t count_of(const struct nonces *nonces, uint32_t who, time_t now)
{
    size_t count = 0;
    for (size_t i = 0; i < nonces->room; i++)
        count += nonces->table[i].who == who && nonces->table[i].expires && nonces->table[i].expires >= now;
    return count;
}

int nonces_add(struct nonces *nonces, const uint8_t nonce[16], uint32_t who, time_t expires, time_t now, size_t most)
{
    if (nonces->room && find(nonces, nonce)->expires)
        return -EEXIST;
    if (expires <= nonces->forgotten)
        return -ESTALE;
    if (2 * (nonces->count + 1) > nonces->room || nonces->count >= most) {
        int code = rebuild(nonces, now);
        if (code < 0)
            return code;
    }
    if (nonces->count >= most || (nonces->count >= most / 2 && count_of(nonces, who, now) >= most / 4))
        return -ENOSPC;
    struct nonce_seen *seen = find(nonces, nonce);
    memcpy(seen->nonce, nonce, sizeof seen->nonce);
    seen->expires = expires;
    seen->who = who;
    nonces->count++;
    return 0;
}
