/* SPDX-License-Identifier: Apache-2.0 */
/* Key files, and what is in them. */
#include "keys/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "keys/internal.h"

void keys_start(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}

struct when when_text(time_t time)
{
    struct when when = {""};
    struct tm parts;
    if (gmtime_r(&time, &parts))
        strftime(when.text, sizeof when.text, "%Y-%m-%d %H:%M UTC", &parts);
    return when;
}

void key_free(struct key *key)
{
    if (!key)
        return;
    X509_free(key->cert);
    X509_free(key->authority);
    EVP_PKEY_free(key->private_key);
    free(key);
}

void key_about(const struct key *key, struct key_about *ret_about)
{
    *ret_about = key->about;
}

bool key_is_for(const struct key_about *about, const char *job, const char *name)
{
    return fnmatch(about->job, job, 0) == 0 ||
           (about->kind == KEY_PERSON && name[0] && fnmatch(about->job, name, 0) == 0);
}

int key_check_time(const struct key *key, time_t now, struct err *err)
{
    struct key_about authority;
    const struct key_about *about = &key->about;
    if (now < about->from)
        return err_set(err, -EKEYEXPIRED, "the key of %s is valid from %s on: is this computer's clock right?",
                       about->name, when_text(about->from).text);
    if (now > about->until)
        return err_set(err, -EKEYEXPIRED, "the key of %s expired on %s: issue another one with scry keys issue",
                       about->name, when_text(about->until).text);
    if (cert_about(key->authority, &authority) && now > authority.until)
        return err_set(err, -EKEYEXPIRED, "the authority of %s expired on %s: make another one, see scry-keys(1)",
                       about->owner, when_text(authority.until).text);
    return 0;
}

/* ---- made of certificates ---- */

static bool is_issued_by(X509 *cert, X509 *authority)
{
    return X509_check_issued(authority, cert) == X509_V_OK && X509_verify(cert, X509_get0_pubkey(authority)) == 1;
}

int key_new_take(X509 *cert, X509 *authority, EVP_PKEY *private_key, struct key **ret_key, struct err *err)
{
    struct key *key = calloc(1, sizeof *key);
    struct key_about issuer;
    int code = 0;
    if (key && !authority && X509_up_ref(cert) == 1)
        authority = cert;
    if (!key || !authority) {
        X509_free(cert);
        X509_free(authority);
        EVP_PKEY_free(private_key);
        free(key);
        return err_set(err, -ENOMEM, "out of memory");
    }
    *key = (struct key){.cert = cert, .authority = authority, .private_key = private_key};
    if (!cert_about(cert, &key->about) || !cert_about(authority, &issuer) || issuer.kind != KEY_AUTHORITY ||
        (key->about.kind == KEY_AUTHORITY) != (cert == authority))
        code = err_set(err, -EBADMSG, "the certificate is none of scry's: scry keys issue makes them");
    else if (!is_issued_by(cert, authority))
        code = err_set(err, -EBADMSG, "the certificate was not signed by the authority that stands below it");
    else if (private_key && X509_check_private_key(cert, private_key) != 1)
        code = err_set(err, -EBADMSG, "the private key does not belong to the certificate");
    key->about.is_private = private_key != NULL;
    ERR_clear_error();
    if (code < 0) {
        key_free(key);
        return code;
    }
    *ret_key = key;
    return 0;
}

/* ---- signatures ---- */

bool key_sign(const struct key *key, struct span text, uint8_t ret_signature[KEY_SIGNATURE_BYTES])
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t len = KEY_SIGNATURE_BYTES;
    bool fine = context && EVP_DigestSignInit(context, NULL, NULL, NULL, key->private_key) == 1 &&
                EVP_DigestSign(context, ret_signature, &len, (const unsigned char *)text.ptr, text.len) == 1 &&
                len == KEY_SIGNATURE_BYTES;
    EVP_MD_CTX_free(context);
    return fine;
}

bool cert_verify(X509 *cert, struct span text, const char *signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool fine = context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, X509_get0_pubkey(cert)) == 1 &&
                EVP_DigestVerify(context, (const unsigned char *)signature, KEY_SIGNATURE_BYTES,
                                 (const unsigned char *)text.ptr, text.len) == 1;
    EVP_MD_CTX_free(context);
    ERR_clear_error();
    return fine;
}

bool key_base64_decode(struct span text, struct buf *out)
{
    size_t most = text.len / 4 * 3;
    unsigned char *to = text.len && text.len % 4 == 0 ? (unsigned char *)buf_reserve(out, most) : NULL;
    if (!to || EVP_DecodeBlock(to, (const unsigned char *)text.ptr, (int)text.len) != (int)most)
        return false;
    out->len += most - (text.ptr[text.len - 1] == '=') - (text.ptr[text.len - 2] == '=');
    return true;
}

/* ---- PEM ---- */

enum { CERTS = 2 };

struct parts {
    X509 *certs[CERTS];
    size_t count;
    EVP_PKEY *private_key;
};

/* PKCS #8 (RFC 8410, section 7) by its parts: OpenSSL's decoders try all algorithms there are, which takes long. */
static EVP_PKEY *read_private(const unsigned char **at, long len)
{
    enum { OCTETS = 4, SIZE = 32 };
    PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, at, len);
    const ASN1_OBJECT *algorithm;
    const unsigned char *octets;
    EVP_PKEY *key = NULL;
    int count;
    if (info && PKCS8_pkey_get0(&algorithm, &octets, &count, NULL, info) == 1 &&
        OBJ_obj2nid(algorithm) == NID_ED25519 && count == 2 + SIZE && octets[0] == OCTETS && octets[1] == SIZE)
        key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, octets + 2, SIZE);
    PKCS8_PRIV_KEY_INFO_free(info);
    return key;
}

static int take_part(struct parts *parts, const char *name, const unsigned char *bytes, long len, struct err *err)
{
    const unsigned char *end = bytes;
    if (strcmp(name, PEM_STRING_X509) == 0) {
        X509 *cert = parts->count < CERTS ? d2i_X509(NULL, &end, len) : NULL;
        if (!cert)
            return err_set(err, -EBADMSG,
                           parts->count < CERTS ? "a certificate is damaged" : "there are too many certificates");
        parts->certs[parts->count++] = cert;
    } else if (strcmp(name, PEM_STRING_PKCS8INF) == 0) {
        if (parts->private_key)
            return err_set(err, -EBADMSG, "there are two private keys");
        parts->private_key = read_private(&end, len);
        if (!parts->private_key)
            return err_set(err, -EBADMSG, "the private key is damaged");
    } else if (strcmp(name, PEM_STRING_PKCS8) == 0) {
        return err_set(err, -EBADMSG, "the private key is encrypted: scry reads only keys without a password");
    } else {
        return 0;
    }
    return end == bytes + len ? 0 : err_set(err, -EBADMSG, "there is something behind a certificate or key");
}

static int read_parts(struct span text, struct parts *parts, struct err *err)
{
    _cleanup_(bio_st_freep) BIO *input = BIO_new_mem_buf(text.ptr, (int)text.len);
    char *name, *header;
    unsigned char *bytes;
    long len;
    int code = 0;
    while (code == 0 && input && PEM_read_bio(input, &name, &header, &bytes, &len) == 1) {
        code = take_part(parts, name, bytes, len, err);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_clear_free(bytes, (size_t)len);
    }
    /* no more begins: anything else is a part that is cut off or damaged */
    if (code == 0 && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        code = err_set(err, -EBADMSG, "it is cut off or damaged");
    ERR_clear_error();
    return code;
}

int key_read_text(struct span text, struct key **ret_key, struct err *err)
{
    struct parts parts = {.count = 0};
    keys_start();
    if (text.len > KEY_TEXT_BYTES)
        return err_set(err, -EBADMSG, "it is longer than a key file may be (%d bytes)", KEY_TEXT_BYTES);
    int code = read_parts(text, &parts, err);
    if (code == 0 && !parts.count)
        code =
            err_set(err, -EBADMSG, "there is no certificate in it: expected a key file, as scry keys issue writes it");
    if (code == 0)
        return key_new_take(parts.certs[0], parts.certs[1], parts.private_key, ret_key, err);
    X509_free(parts.certs[0]);
    X509_free(parts.certs[1]);
    EVP_PKEY_free(parts.private_key);
    return code;
}

/* ---- files ---- */

static int read_open(int fd, const char *path, struct key **ret_key, struct err *err)
{
    char text[KEY_TEXT_BYTES + 1];
    struct stat st;
    struct err inner;
    size_t len = 0;
    ssize_t got = 1;
    if (fstat(fd, &st) < 0)
        return err_errno(err, -errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, -EBADMSG, "%s: this is no file", path);
    while (len < sizeof text && (got = read(fd, text + len, sizeof text - len)) > 0)
        len += (size_t)got;
    if (got < 0)
        return err_errno(err, -errno, "%s", path);
    int code = key_read_text(span_of(text, len), ret_key, &inner);
    OPENSSL_cleanse(text, sizeof text);
    if (code < 0)
        return err_set(err, code, "%s: %s", path, inner.text);
    if ((*ret_key)->private_key && st.st_uid != geteuid())
        code = err_set(err, -EACCES, "%s belongs to another user: ask for a key of your own", path);
    else if ((*ret_key)->private_key && st.st_mode & 077)
        code =
            err_set(err, -EACCES, "%s can be read or changed by other users: chmod 600 it, or issue another key", path);
    if (code < 0) {
        key_free(*ret_key);
        *ret_key = NULL;
    }
    return code;
}

int key_read(const char *path, struct key **ret_key, struct err *err)
{
    /* O_NONBLOCK: a named pipe must not block us */
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct key *key = NULL;
    if (fd < 0)
        return err_errno(err, -errno, "%s", path);
    int code = read_open(fd, path, &key, err);
    if (code == 0)
        *ret_key = key;
    return code;
}
