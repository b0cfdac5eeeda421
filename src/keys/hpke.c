/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/hpke.h"

#include <string.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>

#include "base/data/cleanup.h"

enum { HASH_BYTES = 32, NONCE_BYTES = 12, KEM_X25519 = 0x20, KDF_SHA256 = 1, AES_128_GCM = 1, AES_256_GCM = 2 };

/* ---- HKDF, section 4 ---- */

static bool hkdf(int mode, struct span salt, struct span key, struct span info, uint8_t *ret_bytes, size_t len)
{
    EVP_KDF *algorithm = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = algorithm ? EVP_KDF_CTX_new(algorithm) : NULL;
    OSSL_PARAM params[6], *param = params;
    *param++ = OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode);
    *param++ = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char *)"SHA256", 0);
    *param++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)key.ptr, key.len);
    if (mode == EVP_KDF_HKDF_MODE_EXTRACT_ONLY)
        *param++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)salt.ptr, salt.len);
    else
        *param++ = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)info.ptr, info.len);
    *param = OSSL_PARAM_construct_end();
    bool fine = context && EVP_KDF_derive(context, ret_bytes, len, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(algorithm);
    return fine;
}

struct suite {
    char bytes[10];
    size_t len;
};

static struct suite kem_suite(void)
{
    return (struct suite){{'K', 'E', 'M', 0, KEM_X25519}, 5};
}

static struct suite hpke_suite(unsigned key_bytes)
{
    char aead = key_bytes == 16 ? AES_128_GCM : AES_256_GCM;
    return (struct suite){{'H', 'P', 'K', 'E', 0, KEM_X25519, 0, KDF_SHA256, 0, aead}, 10};
}

static bool extract(struct suite suite, const char *salt, size_t salt_len, const char *label, struct span key,
                    uint8_t ret_bytes[HASH_BYTES])
{
    static const char zeros[HASH_BYTES]; /* an empty salt (RFC 5869) */
    _cleanup_(buf_done) struct buf labeled = BUF_INIT;
    buf_puts(&labeled, "HPKE-v1");
    buf_append(&labeled, suite.bytes, suite.len);
    buf_puts(&labeled, label);
    buf_append(&labeled, key.ptr, key.len);
    struct span with = salt_len ? span_of(salt, salt_len) : span_of(zeros, sizeof zeros);
    bool fine = !labeled.failed && hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, with, span_of(labeled.data, labeled.len),
                                        span_of(NULL, 0), ret_bytes, HASH_BYTES);
    if (labeled.data)
        OPENSSL_cleanse(labeled.data, labeled.len);
    return fine;
}

static bool expand(struct suite suite, const uint8_t secret[HASH_BYTES], const char *label, struct span info,
                   uint8_t *ret_bytes, size_t len)
{
    _cleanup_(buf_done) struct buf labeled = BUF_INIT;
    buf_putc(&labeled, (char)(len >> 8));
    buf_putc(&labeled, (char)len);
    buf_puts(&labeled, "HPKE-v1");
    buf_append(&labeled, suite.bytes, suite.len);
    buf_puts(&labeled, label);
    buf_append(&labeled, info.ptr, info.len);
    return !labeled.failed &&
           hkdf(EVP_KDF_HKDF_MODE_EXPAND_ONLY, span_of(NULL, 0), span_of((const char *)secret, HASH_BYTES),
                span_of(labeled.data, labeled.len), ret_bytes, len);
}

/* ---- the encapsulated key, section 4.1 ---- */

static bool exchange(EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], uint8_t ret_shared[HPKE_KEY_BYTES])
{
    EVP_PKEY *other = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, peer, HPKE_KEY_BYTES);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(own, NULL);
    size_t len = HPKE_KEY_BYTES;
    /* fails if all of the result is zero, as section 7.1.4 demands */
    bool fine = other && context && EVP_PKEY_derive_init(context) == 1 &&
                EVP_PKEY_derive_set_peer(context, other) == 1 && EVP_PKEY_derive(context, ret_shared, &len) == 1 &&
                len == HPKE_KEY_BYTES;
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(other);
    return fine;
}

static bool decapsulate(EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], bool sends, uint8_t ret_secret[HASH_BYTES])
{
    uint8_t shared[HPKE_KEY_BYTES], public_key[HPKE_KEY_BYTES], context[2 * HPKE_KEY_BYTES], extracted[HASH_BYTES];
    size_t len = sizeof public_key;
    if (EVP_PKEY_get_raw_public_key(own, public_key, &len) != 1 || len != sizeof public_key)
        return false;
    memcpy(context, sends ? public_key : peer, HPKE_KEY_BYTES);
    memcpy(context + HPKE_KEY_BYTES, sends ? peer : public_key, HPKE_KEY_BYTES);
    bool fine = exchange(own, peer, shared) &&
                extract(kem_suite(), NULL, 0, "eae_prk", span_of((const char *)shared, sizeof shared), extracted) &&
                expand(kem_suite(), extracted, "shared_secret", span_of((const char *)context, sizeof context),
                       ret_secret, HASH_BYTES);
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(extracted, sizeof extracted);
    return fine;
}

/* ---- the key schedule, section 5.1 ---- */

bool hpke_setup(struct hpke *ret_hpke, EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], bool sends, struct span info,
                unsigned key_bytes)
{
    uint8_t context[1 + 2 * HASH_BYTES] = {0 /* base mode */}, shared[HASH_BYTES], secret[HASH_BYTES];
    struct suite suite = hpke_suite(key_bytes);
    struct span empty = span_of("", 0), whole = span_of((const char *)context, sizeof context);
    bool fine = decapsulate(own, peer, sends, shared) && extract(suite, NULL, 0, "psk_id_hash", empty, context + 1) &&
                extract(suite, NULL, 0, "info_hash", info, context + 1 + HASH_BYTES) &&
                extract(suite, (const char *)shared, sizeof shared, "secret", empty, secret) &&
                expand(suite, secret, "key", whole, ret_hpke->key, key_bytes) &&
                expand(suite, secret, "base_nonce", whole, ret_hpke->nonce, NONCE_BYTES);
    ret_hpke->key_bytes = key_bytes;
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(secret, sizeof secret);
    ERR_clear_error();
    return fine;
}

/* ---- AES-GCM ---- */

static EVP_CIPHER_CTX *cipher_new(const struct hpke *hpke, bool seals, struct span aad)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    const EVP_CIPHER *cipher = hpke->key_bytes == 16 ? EVP_aes_128_gcm() : EVP_aes_256_gcm();
    int len;
    if (context && EVP_CipherInit_ex(context, cipher, NULL, hpke->key, hpke->nonce, seals) == 1 &&
        EVP_CipherUpdate(context, NULL, &len, (const unsigned char *)aad.ptr, (int)aad.len) == 1)
        return context;
    EVP_CIPHER_CTX_free(context);
    return NULL;
}

bool hpke_seal(const struct hpke *hpke, struct span aad, struct span text, struct buf *out)
{
    unsigned char *to = (unsigned char *)buf_reserve(out, text.len + HPKE_TAG_BYTES);
    EVP_CIPHER_CTX *context = to ? cipher_new(hpke, true, aad) : NULL;
    int len, rest;
    bool fine = context && EVP_CipherUpdate(context, to, &len, (const unsigned char *)text.ptr, (int)text.len) == 1 &&
                EVP_CipherFinal_ex(context, to + len, &rest) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, HPKE_TAG_BYTES, to + text.len) == 1;
    if (fine)
        out->len += text.len + HPKE_TAG_BYTES;
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    return fine;
}

bool hpke_open(const struct hpke *hpke, struct span aad, struct span sealed, struct buf *out)
{
    if (sealed.len < HPKE_TAG_BYTES)
        return false;
    size_t text = sealed.len - HPKE_TAG_BYTES;
    unsigned char *to = (unsigned char *)buf_reserve(out, text + 1);
    EVP_CIPHER_CTX *context = to ? cipher_new(hpke, false, aad) : NULL;
    int len, rest;
    bool fine = context && EVP_CipherUpdate(context, to, &len, (const unsigned char *)sealed.ptr, (int)text) == 1 &&
                EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, HPKE_TAG_BYTES, (void *)(sealed.ptr + text)) == 1 &&
                EVP_CipherFinal_ex(context, to + len, &rest) == 1;
    if (fine)
        out->len += text;
    else if (to)
        OPENSSL_cleanse(to, text); /* not authenticated */
    EVP_CIPHER_CTX_free(context);
    ERR_clear_error();
    return fine;
}
