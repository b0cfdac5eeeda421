/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/signed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

#include "keys/authority.h"
#include "keys/internal.h"

#define LABEL "scry signed 1" /* signed with its closing zero */
static const char certificate_name[] = "\"certificate\":\"", signature_name[] = "\",\"signature\":\"";
static const char line_start[] = "{\"type\":\"signature\",";
enum { SIGNATURE_TEXT = (KEY_SIGNATURE_BYTES + 2) / 3 * 4 };

/* A job's certificate that was checked: one follows another of the same job. */
struct checked {
    struct buf text; /* base64 */
    X509 *cert;
    struct key_about about;
    bool is_ours;
};

struct signed_readers_key {
    struct key *key;
    struct truster *truster; /* knows which keys are revoked */
    struct key_about about;
    struct checked last;
    time_t looked; /* for revoked ones */
};

static void put_base64(struct buf *out, const unsigned char *bytes, size_t len)
{
    char *to = buf_reserve(out, (len + 2) / 3 * 4 + 1);
    if (to)
        out->len += (size_t)EVP_EncodeBlock((unsigned char *)to, bytes, (int)len);
}

/* What the signature is over. */
static void put_signed_text(struct buf *out, const char *kind, const char *job, struct span text)
{
    buf_append(out, LABEL, sizeof LABEL);
    buf_append(out, kind, strlen(kind) + 1);
    buf_append(out, job, strlen(job) + 1);
    buf_append(out, text.ptr, text.len);
}

int signed_put(const struct key *key, const char *kind, const char *job, uint64_t last_seq, struct buf *message)
{
    _cleanup_(buf_done) struct buf all = BUF_INIT;
    unsigned char *der = NULL;
    uint8_t signature[KEY_SIGNATURE_BYTES];
    char last = message->len ? message->data[message->len - 1] : 0;
    bool is_lines = last == '\n';
    if (!is_lines && last != '}')
        return -EINVAL;
    size_t end = is_lines ? message->len : message->len - 1;
    int len = i2d_X509(key->cert, &der);
    put_signed_text(&all, kind, job, span_of(message->data, end));
    bool fine = len > 0 && !all.failed && key_sign(key, span_of(all.data, all.len), signature);
    if (fine) {
        message->len = end;
        if (is_lines)
            buf_printf(message, "%s\"seq\":%llu,\"t\":0,", line_start, (unsigned long long)last_seq);
        else
            buf_putc(message, ',');
        buf_puts(message, certificate_name);
        put_base64(message, der, (size_t)len);
        buf_puts(message, signature_name);
        put_base64(message, signature, sizeof signature);
        buf_puts(message, is_lines ? "\"}\n" : "\"}");
    }
    OPENSSL_free(der);
    ERR_clear_error();
    return fine && !message->failed ? 0 : -ENOMEM;
}

/* ---- readers ---- */

int signed_key_new(struct signed_readers_key **ret_key, struct err *err)
{
    struct signed_readers_key *key = calloc(1, sizeof *key);
    if (!key)
        return err_set(err, -ENOMEM, "out of memory");
    int code = key_own(&key->key, err);
    if (code == 0)
        code = truster_new(&key->truster, key->key, err);
    if (code < 0) {
        signed_key_free(key);
        return code;
    }
    key_about(key->key, &key->about);
    *ret_key = key;
    return 0;
}

void signed_key_free(struct signed_readers_key *key)
{
    if (!key)
        return;
    X509_free(key->last.cert);
    buf_done(&key->last.text);
    truster_free(key->truster);
    key_free(key->key);
    free(key);
}

/* The parts of a message that seems to be signed. */
struct parts {
    struct span text, certificate, signature;
};

static bool ends_with(struct span text, const char *end)
{
    size_t len = strlen(end);
    return text.len >= len && memcmp(text.ptr + text.len - len, end, len) == 0;
}

/* Takes it from the end. */
static bool take_end(struct span *text, const char *end)
{
    bool is_there = ends_with(*text, end);
    if (is_there)
        text->len -= strlen(end);
    return is_there;
}

/* Found from its end: whatever stands in the message, its last octets are of one form. */
static bool take_apart(struct span message, bool is_lines, struct parts *ret_parts)
{
    struct span left = message;
    if ((is_lines && !take_end(&left, "\n")) || !take_end(&left, "\"}") || left.len < SIGNATURE_TEXT)
        return false;
    left.len -= SIGNATURE_TEXT;
    ret_parts->signature = span_of(left.ptr + left.len, SIGNATURE_TEXT);
    if (!take_end(&left, signature_name))
        return false;
    const char *quote = memrchr(left.ptr, '"', left.len);
    if (!quote)
        return false;
    ret_parts->certificate = span_of(quote + 1, (size_t)(left.ptr + left.len - quote - 1));
    left.len = (size_t)(quote + 1 - left.ptr);
    if (!take_end(&left, certificate_name) || ret_parts->certificate.len > SIGNED_ROOM)
        return false;
    if (!is_lines && !take_end(&left, ","))
        return false;
    ret_parts->text = left;
    if (!is_lines)
        return true;
    const char *before = left.len ? memrchr(left.ptr, '\n', left.len) : NULL;
    if (!before)
        return false;
    ret_parts->text.len = (size_t)(before + 1 - left.ptr);
    return strncmp(before + 1, line_start, strlen(line_start)) ==
           0; /* ends with certificate_name's ':' at the latest */
}

/* Whether the certificate is one of our authority's, as far as that does not depend on the job. */
static bool look_at_certificate(struct signed_readers_key *key, struct span text)
{
    struct checked *last = &key->last;
    _cleanup_(buf_done) struct buf der = BUF_INIT;
    time_t now = time(NULL);
    if (now != key->looked)
        truster_look(key->truster, NULL); /* else what was known holds */
    key->looked = now;
    if (!last->text.len || !span_eq(text, span_of(last->text.data, last->text.len))) {
        X509_free(last->cert);
        last->cert = NULL;
        buf_clear(&last->text);
        buf_append(&last->text, text.ptr, text.len);
        if (last->text.failed || !key_base64_decode(text, &der))
            return false;
        const unsigned char *at = (const unsigned char *)der.data;
        last->cert = d2i_X509(NULL, &at, (long)der.len);
        enum trust trust = last->cert ? truster_check(key->truster, last->cert, now, &last->about) : TRUST_FOREIGN;
        last->is_ours =
            (trust == TRUST_FINE || trust == TRUST_EXPIRED || trust == TRUST_REVOKED) && last->about.kind == KEY_JOB;
        ERR_clear_error();
    }
    return last->cert && last->is_ours &&
           truster_check_about(key->truster, &last->about, last->about.until) != TRUST_REVOKED;
}

enum signed_by signed_check(struct signed_readers_key *key, const char *owner, const char *job, const char *kind,
                            struct span message, struct span *ret_text)
{
    struct parts parts;
    _cleanup_(buf_done) struct buf signature = BUF_INIT, all = BUF_INIT;
    bool is_lines = strcmp(kind, "records") == 0, seems = take_apart(message, is_lines, &parts);
    *ret_text = seems && is_lines ? parts.text : message;
    if (!key)
        return SIGNED_UNKNOWN;
    if (seems && look_at_certificate(key, parts.certificate) && key_is_for(&key->last.about, job, "") &&
        key_base64_decode(parts.signature, &signature) && signature.len == KEY_SIGNATURE_BYTES) {
        put_signed_text(&all, kind, job, parts.text);
        if (!all.failed && cert_verify(key->last.cert, span_of(all.data, all.len), signature.data))
            return SIGNED_JOB;
    }
    return strcmp(owner, key->about.owner) == 0 ? SIGNED_NOT : SIGNED_UNKNOWN;
}
