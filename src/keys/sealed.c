/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/sealed.h"

#include "keys/authority.h"
#include "keys/hpke.h"
#include "keys/internal.h"
#include "shm/waits.h"

#include <endian.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

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
static const char *take(struct span *from, size_t len)
{
    const char *at = from->ptr;
    if (from->len < len)
        return NULL;
    *from = span_of(at + len, from->len - len);
    return at;
}

static bool take_number(struct span *from, size_t bytes, uint64_t *ret_number)
{
    const char *at = take(from, bytes);
    *ret_number = 0;
    for (size_t i = 0; at && i < bytes; i++)
        *ret_number = *ret_number << 8 | (unsigned char)at[i];
    return at;
}

static bool take_text(struct span *from, size_t number_bytes, struct span *ret_text)
{
    uint64_t len;
    const char *at = take_number(from, number_bytes, &len) ? take(from, len) : NULL;
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
static enum sealed_refusal check_cert(const struct sealed_box *box, X509 *cert, struct key_about *ret_about, time_t now)
{
    static const enum sealed_refusal refusals[] = {
        [TRUST_FINE] = SEALED_FINE,       [TRUST_FOREIGN] = SEALED_FOREIGN, [TRUST_FORGED] = SEALED_FORGED,
        [TRUST_EXPIRED] = SEALED_EXPIRED, [TRUST_REVOKED] = SEALED_REVOKED,
    };
    return refusals[cert_check(box->key->authority, box->revoked, cert, now, ret_about)];
}

/* `bytes` keeps what *ret_address points to. */
static enum sealed_refusal read_address(const struct sealed_box *box, struct span text, time_t now, struct buf *bytes,
                                        struct address *ret_address)
{
    struct span der, rest;
    if (!text.len || text.len > SEALED_ADDRESS_BYTES || !key_base64_decode(text, bytes))
        return SEALED_DAMAGED;
    rest = span_of(bytes->data, bytes->len);
    const char *version = take(&rest, 1), *public_key = take(&rest, KEY_BYTES);
    if (!version || *version != VERSION || !public_key || !take_text(&rest, 2, &ret_address->job) ||
        !take_text(&rest, 2, &der) || rest.len != KEY_SIGNATURE_BYTES)
        return SEALED_DAMAGED;
    const unsigned char *at = (const unsigned char *)der.ptr;
    ret_address->cert = d2i_X509(NULL, &at, (long)der.len);
    ERR_clear_error();
    if (!ret_address->cert || (const char *)at != der.ptr + der.len)
        return SEALED_DAMAGED;
    memcpy(ret_address->public_key, public_key, KEY_BYTES);
    enum sealed_refusal refusal = check_cert(box, ret_address->cert, &ret_address->about, now);
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
static enum sealed_refusal check_address(const struct sealed_box *box, const struct address *address)
{
    const struct key_about *about = &address->about;
    if (!span_is(address->job, box->job))
        return SEALED_OTHER_JOB;
    if (about->kind == box->key->about.kind)
        return SEALED_RIGHTS;
    return key_is_for(about, box->job, box->name) ? SEALED_FINE : SEALED_OTHER_JOB;
}

static int make_address(struct sealed_box *box)
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
static void use_own_list(struct sealed_box *box)
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
        make_address(box) < 0)
        return err_set(err, -ENOMEM, "no address for messages can be made");
    use_own_list(box);
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

static int refuse_address(enum sealed_refusal refusal, const struct address *address, struct err *err)
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

static bool seal(const struct sealed_box *box, const struct address *to, struct span plain, EVP_PKEY *fresh,
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
    enum sealed_refusal refusal = read_address(box, address, expires, &bytes, &to);
    int code = refuse_address(refusal == SEALED_FINE ? check_address(box, &to) : refusal, &to, err);
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
        if (!bytes.len || bytes.failed || !seal(box, &to, span_of(bytes.data, bytes.len), fresh, encapsulated, out))
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

static uint32_t number_of(const char *serial)
{
    uint32_t hash = 2166136261; /* FNV-1a; serials are random */
    for (const char *at = serial; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619;
    return hash;
}

static enum sealed_refusal check_fresh(struct sealed_box *box, const char *serial, const char *nonce, uint64_t expires,
                                       time_t now)
{
    if (now < 0 || expires < (uint64_t)now || expires > (uint64_t)now + SEALED_WINDOW_SECONDS)
        return SEALED_HOUR;
    int code = nonces_add(&box->nonces, (const uint8_t *)nonce, number_of(serial), (time_t)expires, now, SEALED_NONCES);
    return code == 0 ? SEALED_FINE : code == -EEXIST ? SEALED_REPEATED : code == -ESTALE ? SEALED_HOUR : SEALED_FULL;
}

/* The parts of a message that was decrypted, all of which point into the room. */
struct message {
    const char *signature, *nonce, *answers, *encapsulated;
    uint64_t expires;
    struct span whole, address, text;
};

static bool decrypt(const struct sealed_box *box, struct span sealed, struct buf *room, const char **ret_encapsulated)
{
    struct hpke hpke = {.key_bytes = 0};
    const char *version = take(&sealed, 1);
    const char *encapsulated = version && *version == VERSION ? take(&sealed, KEY_BYTES) : NULL;
    bool fine = encapsulated &&
                hpke_setup(&hpke, box->exchange, (const uint8_t *)encapsulated, false, span_str(MESSAGE_LABEL), 32) &&
                hpke_open(&hpke, span_of(version, 1), sealed, room);
    OPENSSL_cleanse(&hpke, sizeof hpke);
    *ret_encapsulated = encapsulated;
    return fine;
}

static bool parse(struct span plain, const char *encapsulated, struct message *ret_message)
{
    *ret_message = (struct message){.encapsulated = encapsulated, .signature = take(&plain, KEY_SIGNATURE_BYTES)};
    ret_message->whole = plain;
    ret_message->nonce = take(&plain, NONCE_BYTES);
    ret_message->answers = take(&plain, NONCE_BYTES);
    if (!ret_message->signature || !ret_message->answers || !take_number(&plain, 8, &ret_message->expires) ||
        !take_text(&plain, 4, &ret_message->address) || plain.len > SEALED_TEXT_BYTES)
        return false;
    ret_message->text = plain;
    return true;
}

static enum sealed_refusal check(struct sealed_box *box, const struct message *message, time_t now,
                                 const uint8_t *answer_to, struct address *from, struct buf *bytes)
{
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    enum sealed_refusal refusal = read_address(box, message->address, now, bytes, from);
    if (refusal == SEALED_DAMAGED || refusal == SEALED_FOREIGN || refusal == SEALED_FORGED)
        return refusal;
    put_signed(&all, (const char *)box->public_key, message->encapsulated, message->whole);
    if (all.failed || !cert_verify(from->cert, span_of(all.data, all.len), message->signature))
        return SEALED_FORGED;
    if (refusal != SEALED_FINE)
        return refusal;
    if ((refusal = check_address(box, from)) != SEALED_FINE)
        return refusal;
    if (answer_to && memcmp(answer_to, message->answers, NONCE_BYTES) != 0)
        return SEALED_DAMAGED;
    return check_fresh(box, from->about.serial, message->nonce, message->expires, now);
}

/* What was decrypted. */
static enum sealed_refusal open_plain(struct sealed_box *box, struct span plain, const char *encapsulated, time_t now,
                                      const uint8_t *answer_to, struct span *ret_text, struct sealed_sender *ret_sender)
{
    struct address from = {.cert = NULL};
    struct message parts;
    struct buf bytes = BUF_INIT;
    enum sealed_refusal refusal =
        parse(plain, encapsulated, &parts) ? check(box, &parts, now, answer_to, &from, &bytes) : SEALED_DAMAGED;
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
    if (message.len <= SEALED_MESSAGE_BYTES && decrypt(box, message, room, &encapsulated))
        refusal = open_plain(box, span_of(room->data, room->len), encapsulated, now, answer_to, ret_text, ret_sender);
    if (refusal != SEALED_FINE && room->len)
        OPENSSL_cleanse(room->data, room->len);
    box->counts[refusal]++;
    return refusal;
}
