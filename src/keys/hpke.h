/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hybrid public key encryption (RFC 9180), base mode, single-shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, and AES-GCM
 * with keys of 32 bytes; those of 16 are for the RFC's examples. OpenSSL has it from version 3.2 on; this needs 3.0.
 */
#ifndef SCRY_KEYS_HPKE_H
#define SCRY_KEYS_HPKE_H

#include <stdbool.h>
#include <stdint.h>

#include <openssl/evp.h>

#include "base/data/buf.h"

enum { HPKE_KEY_BYTES = 32, HPKE_TAG_BYTES = 16 };

struct hpke {
    uint8_t key[32], nonce[12];
    unsigned key_bytes;
};

/* The sender's part: `own` is fresh for each message, for the public key `peer`. And the receiver's: `own` is its key
 * pair, `peer` the encapsulated key, that is the sender's public key. false: a key is none, or of small order. */
bool hpke_setup(struct hpke *ret_hpke, EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], bool sends, struct span info,
                unsigned key_bytes);
/* Appends the text and its tag, encrypted; once for each setup. */
bool hpke_seal(const struct hpke *hpke, struct span aad, struct span text, struct buf *out);
/* Appends the text. false: changed, or not for us; nothing is appended. */
bool hpke_open(const struct hpke *hpke, struct span aad, struct span sealed, struct buf *out);

#endif
