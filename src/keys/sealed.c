/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/sealed.h"

#include "keys/authority.h"
#include "keys/internal.h"
#include "shm/waits.h"

#include <endian.h>
#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

/*
 * ---- HPKE ----
 *
 * Hybrid public key encryption (RFC 9180), base mode, single-shot: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, and AES-GCM
 * with keys of 32 bytes; those of 16 are for the RFC's examples. OpenSSL has it from version 3.2 on; this needs 3.0.
 */

enum { HPKE_KEY_BYTES = 32, HPKE_TAG_BYTES = 16 };

struct hpke {
    uint8_t key[32], nonce[12];
    unsigned key_bytes;
};

enum {
    HPKE_HASH_BYTES = 32,
    HPKE_NONCE_BYTES = 12,
    KEM_X25519 = 0x20,
    KDF_SHA256 = 1,
    AES_128_GCM = 1,
    AES_256_GCM = 2
};

/* Section 4. */
static bool hpke_hkdf(int mode, struct span salt, struct span key, struct span info, uint8_t *ret_bytes, size_t len)
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

static bool hpke_extract(struct suite suite, const char *salt, size_t salt_len, const char *label, struct span key,
                         uint8_t ret_bytes[HPKE_HASH_BYTES])
{
    static const char zeros[HPKE_HASH_BYTES]; /* an empty salt (RFC 5869) */
    _cleanup_(buf_done) struct buf labeled = BUF_INIT;
    buf_puts(&labeled, "HPKE-v1");
    buf_append(&labeled, suite.bytes, suite.len);
    buf_puts(&labeled, label);
    buf_append(&labeled, key.ptr, key.len);
    struct span with = salt_len ? span_of(salt, salt_len) : span_of(zeros, sizeof zeros);
    bool fine = !labeled.failed && hpke_hkdf(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, with, span_of(labeled.data, labeled.len),
                                             span_of(NULL, 0), ret_bytes, HPKE_HASH_BYTES);
    if (labeled.data)
        OPENSSL_cleanse(labeled.data, labeled.len);
    return fine;
}

static bool hpke_expand(struct suite suite, const uint8_t secret[HPKE_HASH_BYTES], const char *label, struct span info,
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
           hpke_hkdf(EVP_KDF_HKDF_MODE_EXPAND_ONLY, span_of(NULL, 0), span_of((const char *)secret, HPKE_HASH_BYTES),
                     span_of(labeled.data, labeled.len), ret_bytes, len);
}

/* The encapsulated key, section 4.1. */
static bool hpke_exchange(EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], uint8_t ret_shared[HPKE_KEY_BYTES])
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

static bool hpke_decapsulate(EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], bool sends,
                             uint8_t ret_secret[HPKE_HASH_BYTES])
{
    uint8_t shared[HPKE_KEY_BYTES], public_key[HPKE_KEY_BYTES], context[2 * HPKE_KEY_BYTES], extracted[HPKE_HASH_BYTES];
    size_t len = sizeof public_key;
    if (EVP_PKEY_get_raw_public_key(own, public_key, &len) != 1 || len != sizeof public_key)
        return false;
    memcpy(context, sends ? public_key : peer, HPKE_KEY_BYTES);
    memcpy(context + HPKE_KEY_BYTES, sends ? peer : public_key, HPKE_KEY_BYTES);
    bool fine =
        hpke_exchange(own, peer, shared) &&
        hpke_extract(kem_suite(), NULL, 0, "eae_prk", span_of((const char *)shared, sizeof shared), extracted) &&
        hpke_expand(kem_suite(), extracted, "shared_secret", span_of((const char *)context, sizeof context), ret_secret,
                    HPKE_HASH_BYTES);
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(extracted, sizeof extracted);
    return fine;
}

/* The key schedule, section 5.1. The sender's part: `own` is fresh for each message, for the public key `peer`. And the receiver's: `own` is its key
 * pair, `peer` the encapsulated key, that is the sender's public key. false: a key is none, or of small order. */
static bool hpke_setup(struct hpke *ret_hpke, EVP_PKEY *own, const uint8_t peer[HPKE_KEY_BYTES], bool sends,
                       struct span info, unsigned key_bytes)
{
    uint8_t context[1 + 2 * HPKE_HASH_BYTES] = {0 /* base mode */}, shared[HPKE_HASH_BYTES], secret[HPKE_HASH_BYTES];
    struct suite suite = hpke_suite(key_bytes);
    struct span empty = span_of("", 0), whole = span_of((const char *)context, sizeof context);
    bool fine = hpke_decapsulate(own, peer, sends, shared) &&
                hpke_extract(suite, NULL, 0, "psk_id_hash", empty, context + 1) &&
                hpke_extract(suite, NULL, 0, "info_hash", info, context + 1 + HPKE_HASH_BYTES) &&
                hpke_extract(suite, (const char *)shared, sizeof shared, "secret", empty, secret) &&
                hpke_expand(suite, secret, "key", whole, ret_hpke->key, key_bytes) &&
                hpke_expand(suite, secret, "base_nonce", whole, ret_hpke->nonce, HPKE_NONCE_BYTES);
    ret_hpke->key_bytes = key_bytes;
    OPENSSL_cleanse(shared, sizeof shared);
    OPENSSL_cleanse(secret, sizeof secret);
    ERR_clear_error();
    return fine;
}

static EVP_CIPHER_CTX *hpke_cipher_new(const struct hpke *hpke, bool seals, struct span aad)
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

/* Appends the text and its tag, encrypted; once for each setup. */
static bool hpke_seal(const struct hpke *hpke, struct span aad, struct span text, struct buf *out)
{
    unsigned char *to = (unsigned char *)buf_reserve(out, text.len + HPKE_TAG_BYTES);
    EVP_CIPHER_CTX *context = to ? hpke_cipher_new(hpke, true, aad) : NULL;
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

/* Appends the text. false: changed, or not for us; nothing is appended. */
static bool hpke_open(const struct hpke *hpke, struct span aad, struct span sealed, struct buf *out)
{
    if (sealed.len < HPKE_TAG_BYTES)
        return false;
    size_t text = sealed.len - HPKE_TAG_BYTES;
    unsigned char *to = (unsigned char *)buf_reserve(out, text + 1);
    EVP_CIPHER_CTX *context = to ? hpke_cipher_new(hpke, false, aad) : NULL;
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

/* ---- nonces that were seen ---- */

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
static struct nonce_seen *nonces_find(const struct nonces *nonces, const uint8_t nonce[16])
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
static int nonces_rebuild(struct nonces *nonces, time_t now)
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
            *nonces_find(&fresh, nonces->table[i].nonce) = nonces->table[i];
            fresh.count++;
        } else if (nonces->table[i].expires > fresh.forgotten) {
            fresh.forgotten = nonces->table[i].expires;
        }
    free(nonces->table);
    *nonces = fresh;
    return 0;
}

static size_t nonces_count(const struct nonces *nonces, uint32_t who, time_t now)
{
    size_t count = 0;
    for (size_t i = 0; i < nonces->room; i++)
        count += nonces->table[i].who == who && nonces->table[i].expires && nonces->table[i].expires >= now;
    return count;
}

int nonces_add(struct nonces *nonces, const uint8_t nonce[16], uint32_t who, time_t expires, time_t now, size_t most)
{
    if (nonces->room && nonces_find(nonces, nonce)->expires)
        return -EEXIST;
    if (expires <= nonces->forgotten)
        return -ESTALE;
    if (2 * (nonces->count + 1) > nonces->room || nonces->count >= most) {
        int code = nonces_rebuild(nonces, now);
        if (code < 0)
            return code;
    }
    if (nonces->count >= most || (nonces->count >= most / 2 && nonces_count(nonces, who, now) >= most / 4))
        return -ENOSPC;
    struct nonce_seen *seen = nonces_find(nonces, nonce);
    memcpy(seen->nonce, nonce, sizeof seen->nonce);
    seen->expires = expires;
    seen->who = who;
    nonces->count++;
    return 0;
}

/*
 * Sealed messages. In opening one, nothing is believed before the signature is: what was encrypted could be from anybody
 * who knows the address. The order of the checks is that of the reasons in sealed.h, so that a wrong message is refused
 * for the first one that is true; only what passed all others is remembered as seen.
 */

enum { VERSION = 1, NONCE_BYTES = 16, KEY_BYTES = HPKE_KEY_BYTES, JOB_BYTES = 256 };
#define ADDRESS_LABEL "scry address 1" /* signed with its closing zero */
#define MESSAGE_LABEL "scry message 1"

struct sealed_box {
    const struct key *key;
    EVP_PKEY *exchange; /* X25519 */
    uint8_t public_key[KEY_BYTES];
    char job[JOB_BYTES], name[JOB_BYTES];
    struct buf address;
    struct nonces nonces;
    X509_CRL *revoked; /* NULL: nothing is */
    uint64_t counts[SEALED_REFUSALS];
};

const char *sealed_refusal_name(enum sealed_refusal refusal)
{
    static const char *const names[] = {
        "fine",    "damaged",   "foreign",
        "forged",  "expired",   "of another hour: the clocks differ, or it was kept back",
        "revoked", "other job", "repeated",
        "rights",  "full"};
    return refusal < SEALED_REFUSALS ? names[refusal] : "unknown";
}

uint64_t sealed_box_count(const struct sealed_box *box, enum sealed_refusal refusal)
{
    return box->counts[refusal];
}

void sealed_box_refuse(struct sealed_box *box, enum sealed_refusal refusal)
{
    box->counts[refusal]++;
}

/* ---- reading and writing ---- */

/* Takes so many bytes from the front; NULL: there are less. */
static const char *span_take(struct span *from, size_t len)
{
    const char *at = from->ptr;
    if (from->len < len)
        return NULL;
    *from = span_of(at + len, from->len - len);
    return at;
}

static bool span_take_number(struct span *from, size_t bytes, uint64_t *ret_number)
{
    const char *at = span_take(from, bytes);
    *ret_number = 0;
    for (size_t i = 0; at && i < bytes; i++)
        *ret_number = *ret_number << 8 | (unsigned char)at[i];
    return at;
}

static bool span_take_text(struct span *from, size_t number_bytes, struct span *ret_text)
{
    uint64_t len;
    const char *at = span_take_number(from, number_bytes, &len) ? span_take(from, len) : NULL;
    if (at)
        *ret_text = span_of(at, len);
    return at;
}

static void put_number(struct buf *out, size_t bytes, uint64_t number)
{
    while (bytes--)
        buf_putc(out, (char)(number >> 8 * bytes));
}

/* ---- signatures ---- */

/* What a message's signature is over. Both public keys are in it: it is for this receiver, in this encryption. */
static void put_signed(struct buf *out, const char *receiver, const char *encapsulated, struct span rest)
{
    buf_append(out, MESSAGE_LABEL, sizeof MESSAGE_LABEL);
    buf_append(out, receiver, KEY_BYTES);
    buf_append(out, encapsulated, KEY_BYTES);
    buf_append(out, rest.ptr, rest.len);
}

/* ---- addresses ---- */

/* An address that was read, and what has become of the certificate in it. */
struct address {
    X509 *cert;
    struct key_about about;
    struct span job;
    uint8_t public_key[KEY_BYTES];
};

/* Whose certificate it is: of our authority, signed by it, valid, and not revoked. */
static enum sealed_refusal sender_check(const struct sealed_box *box, X509 *cert, struct key_about *ret_about,
                                        time_t now)
{
    static const enum sealed_refusal refusals[] = {
        [TRUST_FINE] = SEALED_FINE,       [TRUST_FOREIGN] = SEALED_FOREIGN, [TRUST_FORGED] = SEALED_FORGED,
        [TRUST_EXPIRED] = SEALED_EXPIRED, [TRUST_REVOKED] = SEALED_REVOKED,
    };
    return refusals[cert_check(box->key->authority, box->revoked, cert, now, ret_about)];
}

/* `bytes` keeps what *ret_address points to. */
static enum sealed_refusal address_read(const struct sealed_box *box, struct span text, time_t now, struct buf *bytes,
                                        struct address *ret_address)
{
    struct span der, rest;
    if (!text.len || text.len > SEALED_ADDRESS_BYTES || !key_base64_decode(text, bytes))
        return SEALED_DAMAGED;
    rest = span_of(bytes->data, bytes->len);
    const char *version = span_take(&rest, 1), *public_key = span_take(&rest, KEY_BYTES);
    if (!version || *version != VERSION || !public_key || !span_take_text(&rest, 2, &ret_address->job) ||
        !span_take_text(&rest, 2, &der) || rest.len != KEY_SIGNATURE_BYTES)
        return SEALED_DAMAGED;
    const unsigned char *at = (const unsigned char *)der.ptr;
    ret_address->cert = d2i_X509(NULL, &at, (long)der.len);
    ERR_clear_error();
    if (!ret_address->cert || (const char *)at != der.ptr + der.len)
        return SEALED_DAMAGED;
    memcpy(ret_address->public_key, public_key, KEY_BYTES);
    enum sealed_refusal refusal = sender_check(box, ret_address->cert, &ret_address->about, now);
    if (refusal == SEALED_FOREIGN || refusal == SEALED_FORGED)
        return refusal;
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    buf_append(&all, ADDRESS_LABEL, sizeof ADDRESS_LABEL);
    buf_append(&all, bytes->data, bytes->len - KEY_SIGNATURE_BYTES);
    if (all.failed || !cert_verify(ret_address->cert, span_of(all.data, all.len), rest.ptr))
        return SEALED_FORGED;
    return refusal;
}

/* What a believed address is for. A job answers for itself, and is what its key's glob says. */
static enum sealed_refusal address_check(const struct sealed_box *box, const struct address *address)
{
    const struct key_about *about = &address->about;
    if (!span_is(address->job, box->job))
        return SEALED_OTHER_JOB;
    if (about->kind == box->key->about.kind)
        return SEALED_RIGHTS;
    return key_is_for(about, box->job, box->name) ? SEALED_FINE : SEALED_OTHER_JOB;
}

static int address_make(struct sealed_box *box)
{
    _cleanup_(buf_done) struct buf bytes = BUF_INIT;
    unsigned char *der = NULL;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    int len = i2d_X509(box->key->cert, &der);
    buf_append(&bytes, ADDRESS_LABEL, sizeof ADDRESS_LABEL);
    buf_putc(&bytes, VERSION);
    buf_append(&bytes, box->public_key, KEY_BYTES);
    put_number(&bytes, 2, strlen(box->job));
    buf_puts(&bytes, box->job);
    put_number(&bytes, 2, len > 0 ? (uint64_t)len : 0);
    buf_append(&bytes, der, len > 0 ? (size_t)len : 0);
    OPENSSL_free(der);
    if (len <= 0 || bytes.failed || !key_sign(box->key, span_of(bytes.data, bytes.len), signature))
        return -ENOMEM;
    buf_append(&bytes, signature, sizeof signature);
    buf_drop(&bytes, sizeof ADDRESS_LABEL);
    char *to = buf_reserve(&box->address, (bytes.len + 2) / 3 * 4 + 1);
    if (bytes.failed || !to)
        return -ENOMEM;
    box->address.len = (size_t)EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)bytes.data, (int)bytes.len);
    return box->address.len <= SEALED_ADDRESS_BYTES ? 0 : -EMSGSIZE;
}

int sealed_address(const struct sealed_box *box, struct buf *out)
{
    buf_append(out, box->address.data, box->address.len);
    return out->failed ? -ENOMEM : 0;
}

/* ---- boxes ---- */

/* Where the authority's directory can be read, it matters less that a broker keeps the list back. */
static void box_use_own_list(struct sealed_box *box)
{
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    if (authority_revoked(&list, NULL) == 0)
        sealed_box_revoke(box, span_of(list.data, list.len), NULL); /* of another authority: it is none of ours */
}

int sealed_box_new(struct sealed_box **ret_box, const struct key *key, const char *job, const char *name,
                   struct err *err)
{
    const struct key_about *about = &key->about;
    keys_start();
    if (!key->private_key || about->kind == KEY_AUTHORITY)
        return err_set(err, -EINVAL, "this key is of kind %s%s: messages need one of a person or a job",
                       key_kind_name(about->kind), key->private_key ? "" : ", without its private part");
    if (!job[0] || strlen(job) >= JOB_BYTES || strlen(name) >= JOB_BYTES)
        return err_set(err, -EINVAL, "the job's id is empty, or its name is too long for messages");
    if (!key_is_for(about, job, name))
        return err_set(err, -EACCES, "the key %s is for jobs %s only: job %s needs another one", about->name,
                       about->job, job);
    int code = key_check_time(key, time(NULL), err);
    if (code < 0)
        return code;
    _cleanup_(sealed_box_freep) struct sealed_box *box = calloc(1, sizeof *box);
    size_t len = KEY_BYTES;
    if (!box)
        return err_set(err, -ENOMEM, "out of memory");
    box->key = key;
    snprintf(box->job, sizeof box->job, "%s", job);
    snprintf(box->name, sizeof box->name, "%s", name);
    box->exchange = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    if (!box->exchange || EVP_PKEY_get_raw_public_key(box->exchange, box->public_key, &len) != 1 ||
        address_make(box) < 0)
        return err_set(err, -ENOMEM, "no address for messages can be made");
    box_use_own_list(box);
    *ret_box = TAKE_PTR(box);
    return 0;
}

void sealed_box_free(struct sealed_box *box)
{
    if (!box)
        return;
    EVP_PKEY_free(box->exchange);
    X509_CRL_free(box->revoked);
    nonces_done(&box->nonces);
    buf_done(&box->address);
    free(box);
}

int sealed_box_revoke(struct sealed_box *box, struct span crl, struct err *err)
{
    _cleanup_(X509_crl_st_freep) X509_CRL *list = NULL;
    int code = crl.len > SEALED_MESSAGE_BYTES ? err_set(err, -EBADMSG, "the list of revoked keys is too long")
                                              : crl_read(crl, box->key->authority, &list, err);
    if (code < 0)
        return code;
    if (box->revoked && crl_number(list) < crl_number(box->revoked))
        return err_set(err, -ESTALE, "the list of revoked keys is older than the one that is known");
    X509_CRL_free(box->revoked);
    box->revoked = TAKE_PTR(list);
    return 0;
}

bool sealed_box_is_revoked(const struct sealed_box *box)
{
    return crl_has(box->revoked, box->key->about.serial);
}

/* ---- messages ---- */

static int address_refuse(enum sealed_refusal refusal, const struct address *address, struct err *err)
{
    switch (refusal) {
    case SEALED_FINE:
        return 0;
    case SEALED_EXPIRED:
        return err_set(err, -EKEYEXPIRED, "the key of the receiver expired, or is not valid yet");
    case SEALED_REVOKED:
        return err_set(err, -EPERM, "the key of the receiver is revoked");
    case SEALED_OTHER_JOB:
        return err_set(err, -EACCES, "the address is of another job, or its key is not for this one");
    case SEALED_RIGHTS:
        return err_set(err, -EACCES, "the address is of the kind %s, as our own", key_kind_name(address->about.kind));
    case SEALED_FOREIGN:
        return err_set(err, -EPERM, "the address is of another user's authority: is this the job's owner's key?");
    default:
        return err_set(err, -EBADMSG, "the address is damaged or forged");
    }
}

static bool message_seal(const struct sealed_box *box, const struct address *to, struct span plain, EVP_PKEY *fresh,
                         const uint8_t encapsulated[KEY_BYTES], struct buf *out)
{
    const char version = VERSION;
    struct hpke hpke;
    size_t before = out->len;
    buf_putc(out, version);
    buf_append(out, encapsulated, KEY_BYTES);
    bool fine = hpke_setup(&hpke, fresh, to->public_key, true, span_str(MESSAGE_LABEL), 32) &&
                hpke_seal(&hpke, span_of(&version, 1), plain, out) && !out->failed;
    if (!fine)
        out->len = before;
    OPENSSL_cleanse(&hpke, sizeof hpke);
    return fine;
}

int sealed_put(struct sealed_box *box, struct span address, const uint8_t *answer_to, time_t expires, struct span text,
               struct buf *out, uint8_t ret_nonce[16], struct err *err)
{
    static const uint8_t none[NONCE_BYTES];
    struct address to = {.cert = NULL};
    struct buf bytes = BUF_INIT, plain = BUF_INIT, all = BUF_INIT;
    uint8_t nonce[NONCE_BYTES], signature[KEY_SIGNATURE_BYTES], encapsulated[KEY_BYTES];
    size_t len = KEY_BYTES;
    if (text.len > SEALED_TEXT_BYTES)
        return err_set(err, -EMSGSIZE, "a message of %zu bytes is too long: at most %d", text.len, SEALED_TEXT_BYTES);
    enum sealed_refusal refusal = address_read(box, address, expires, &bytes, &to);
    int code = address_refuse(refusal == SEALED_FINE ? address_check(box, &to) : refusal, &to, err);
    EVP_PKEY *fresh = code == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "X25519") : NULL;
    if (code == 0 &&
        (!fresh || EVP_PKEY_get_raw_public_key(fresh, encapsulated, &len) != 1 || RAND_bytes(nonce, sizeof nonce) != 1))
        code = err_set(err, -ENOMEM, "no key for a message can be made");
    if (code == 0) {
        buf_append(&plain, nonce, sizeof nonce);
        buf_append(&plain, answer_to ? answer_to : none, NONCE_BYTES);
        put_number(&plain, 8, (uint64_t)expires);
        put_number(&plain, 4, box->address.len);
        buf_append(&plain, box->address.data, box->address.len);
        buf_append(&plain, text.ptr, text.len);
        put_signed(&all, (const char *)to.public_key, (const char *)encapsulated, span_of(plain.data, plain.len));
        buf_done(&bytes);
        if (!plain.failed && !all.failed && key_sign(box->key, span_of(all.data, all.len), signature)) {
            buf_append(&bytes, signature, sizeof signature);
            buf_append(&bytes, plain.data, plain.len);
        }
        if (!bytes.len || bytes.failed ||
            !message_seal(box, &to, span_of(bytes.data, bytes.len), fresh, encapsulated, out))
            code = err_set(err, -ENOMEM, "the message cannot be encrypted");
        else
            memcpy(ret_nonce, nonce, sizeof nonce);
    }
    EVP_PKEY_free(fresh);
    X509_free(to.cert);
    buf_done(&all);
    buf_done(&plain);
    buf_done(&bytes);
    return code;
}

static uint32_t serial_hash(const char *serial)
{
    uint32_t hash = 2166136261; /* FNV-1a; serials are random */
    for (const char *at = serial; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619;
    return hash;
}

static enum sealed_refusal message_check_fresh(struct sealed_box *box, const char *serial, const char *nonce,
                                               uint64_t expires, time_t now)
{
    if (now < 0 || expires < (uint64_t)now || expires > (uint64_t)now + SEALED_WINDOW_SECONDS)
        return SEALED_HOUR;
    int code =
        nonces_add(&box->nonces, (const uint8_t *)nonce, serial_hash(serial), (time_t)expires, now, SEALED_NONCES);
    return code == 0 ? SEALED_FINE : code == -EEXIST ? SEALED_REPEATED : code == -ESTALE ? SEALED_HOUR : SEALED_FULL;
}

/* The parts of a message that was decrypted, all of which point into the room. */
struct message {
    const char *signature, *nonce, *answers, *encapsulated;
    uint64_t expires;
    struct span whole, address, text;
};

static bool message_decrypt(const struct sealed_box *box, struct span sealed, struct buf *room,
                            const char **ret_encapsulated)
{
    struct hpke hpke = {.key_bytes = 0};
    const char *version = span_take(&sealed, 1);
    const char *encapsulated = version && *version == VERSION ? span_take(&sealed, KEY_BYTES) : NULL;
    bool fine = encapsulated &&
                hpke_setup(&hpke, box->exchange, (const uint8_t *)encapsulated, false, span_str(MESSAGE_LABEL), 32) &&
                hpke_open(&hpke, span_of(version, 1), sealed, room);
    OPENSSL_cleanse(&hpke, sizeof hpke);
    *ret_encapsulated = encapsulated;
    return fine;
}

static bool message_parse(struct span plain, const char *encapsulated, struct message *ret_message)
{
    *ret_message = (struct message){.encapsulated = encapsulated, .signature = span_take(&plain, KEY_SIGNATURE_BYTES)};
    ret_message->whole = plain;
    ret_message->nonce = span_take(&plain, NONCE_BYTES);
    ret_message->answers = span_take(&plain, NONCE_BYTES);
    if (!ret_message->signature || !ret_message->answers || !span_take_number(&plain, 8, &ret_message->expires) ||
        !span_take_text(&plain, 4, &ret_message->address) || plain.len > SEALED_TEXT_BYTES)
        return false;
    ret_message->text = plain;
    return true;
}

static enum sealed_refusal message_check(struct sealed_box *box, const struct message *message, time_t now,
                                         const uint8_t *answer_to, struct address *from, struct buf *bytes)
{
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    enum sealed_refusal refusal = address_read(box, message->address, now, bytes, from);
    if (refusal == SEALED_DAMAGED || refusal == SEALED_FOREIGN || refusal == SEALED_FORGED)
        return refusal;
    put_signed(&all, (const char *)box->public_key, message->encapsulated, message->whole);
    if (all.failed || !cert_verify(from->cert, span_of(all.data, all.len), message->signature))
        return SEALED_FORGED;
    if (refusal != SEALED_FINE)
        return refusal;
    if ((refusal = address_check(box, from)) != SEALED_FINE)
        return refusal;
    if (answer_to && memcmp(answer_to, message->answers, NONCE_BYTES) != 0)
        return SEALED_DAMAGED;
    return message_check_fresh(box, from->about.serial, message->nonce, message->expires, now);
}

/* What was decrypted. */
static enum sealed_refusal message_open(struct sealed_box *box, struct span plain, const char *encapsulated, time_t now,
                                        const uint8_t *answer_to, struct span *ret_text,
                                        struct sealed_sender *ret_sender)
{
    struct address from = {.cert = NULL};
    struct message parts;
    struct buf bytes = BUF_INIT;
    enum sealed_refusal refusal = message_parse(plain, encapsulated, &parts)
                                      ? message_check(box, &parts, now, answer_to, &from, &bytes)
                                      : SEALED_DAMAGED;
    if (refusal == SEALED_FINE) {
        *ret_sender = (struct sealed_sender){.about = from.about, .address = parts.address};
        memcpy(ret_sender->nonce, parts.nonce, NONCE_BYTES);
        memcpy(ret_sender->answers, parts.answers, NONCE_BYTES);
        *ret_text = parts.text;
    }
    X509_free(from.cert);
    buf_done(&bytes);
    return refusal;
}

enum sealed_refusal sealed_open(struct sealed_box *box, struct span message, time_t now, const uint8_t *answer_to,
                                struct buf *room, struct span *ret_text, struct sealed_sender *ret_sender)
{
    const char *encapsulated;
    enum sealed_refusal refusal = SEALED_DAMAGED;
    buf_clear(room);
    if (message.len <= SEALED_MESSAGE_BYTES && message_decrypt(box, message, room, &encapsulated))
        refusal = message_open(box, span_of(room->data, room->len), encapsulated, now, answer_to, ret_text, ret_sender);
    if (refusal != SEALED_FINE && room->len)
        OPENSSL_cleanse(room->data, room->len);
    box->counts[refusal]++;
    return refusal;
}
