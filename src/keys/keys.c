/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, key files, and whom one trusts. */
#include "keys/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "keys/authority.h"
#include "keys/internal.h"

void keys_start(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
}

/* ---- certificates: X.509 version 3, Ed25519 (RFC 8410). What a key may do stands in a URI among its alternative names ---- */

enum { SERIAL_BYTES = 16, NAME_MOST = 64 /* of a common name, RFC 5280 */ };

static const char *const kind_names[] = {[KEY_PERSON] = "person", [KEY_JOB] = "job", [KEY_AUTHORITY] = "authority"};
static const char *const right_names[] = {"observe", "control", "memory"};

const char *key_kind_name(enum key_kind kind)
{
    return kind_names[kind];
}

void key_put_rights(struct buf *out, unsigned rights)
{
    const char *comma = "";
    for (unsigned i = 0; i < 3; i++)
        if (rights & 1u << i) {
            buf_printf(out, "%s%s", comma, right_names[i]);
            comma = ",";
        }
}

static bool uri_is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~*", c));
}

static void uri_put(struct buf *out, const struct key_about *about)
{
    buf_printf(out, "scry:%s?", kind_names[about->kind]);
    if (about->kind == KEY_PERSON) {
        buf_puts(out, "rights=");
        key_put_rights(out, about->rights);
        buf_putc(out, '&');
    }
    buf_puts(out, "job=");
    for (const char *c = about->job; *c; c++)
        if (uri_is_plain(*c))
            buf_putc(out, *c);
        else
            buf_printf(out, "%%%02X", (unsigned char)*c);
}

static bool span_skip(struct span *text, const char *word)
{
    size_t len = strlen(word);
    if (text->len < len || memcmp(text->ptr, word, len) != 0)
        return false;
    *text = span_of(text->ptr + len, text->len - len);
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool uri_read_job(struct span text, char *ret_job, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int c = (unsigned char)text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.ptr[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : high << 4 | low;
            i += 2;
        } else if (!uri_is_plain((char)c)) {
            return false;
        }
        if (!c || len + 1 >= size)
            return false;
        ret_job[len++] = (char)c;
    }
    ret_job[len] = 0;
    return len > 0;
}

/* One way to write it only, so that nobody reads another thing out of it than we do. */
static bool uri_parse(struct span text, struct key_about *about)
{
    if (span_skip(&text, "scry:job?job=")) {
        about->kind = KEY_JOB;
        return uri_read_job(text, about->job, sizeof about->job);
    }
    about->kind = KEY_PERSON;
    if (!span_skip(&text, "scry:person?rights="))
        return false;
    for (unsigned i = 0; i < 3; i++)
        if (span_skip(&text, right_names[i])) {
            about->rights |= 1u << i;
            span_skip(&text, ",");
        }
    return (about->rights & KEY_OBSERVE) && span_skip(&text, "&job=") &&
           uri_read_job(text, about->job, sizeof about->job);
}

static bool cert_read_uri(X509 *cert, struct key_about *about)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    if (names && sk_GENERAL_NAME_num(names) == 1) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, 0);
        const ASN1_IA5STRING *uri = name->type == GEN_URI ? name->d.uniformResourceIdentifier : NULL;
        found =
            uri && uri_parse(span_of((const char *)ASN1_STRING_get0_data(uri), (size_t)ASN1_STRING_length(uri)), about);
    }
    GENERAL_NAMES_free(names);
    return found;
}

/* The common name, which must be the only part of the name. */
static bool cert_read_name(const X509_NAME *name, char *ret_text, size_t size)
{
    unsigned char *text = NULL;
    int len = -1;
    if (X509_NAME_entry_count(name) == 1) {
        const X509_NAME_ENTRY *entry = X509_NAME_get_entry(name, 0);
        if (OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry)) == NID_commonName)
            len = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
    }
    bool fine = len > 0 && (size_t)len < size && !memchr(text, 0, (size_t)len);
    if (fine) {
        memcpy(ret_text, text, (size_t)len);
        ret_text[len] = 0;
    }
    OPENSSL_free(text);
    return fine;
}

static bool cert_read_time(const ASN1_TIME *at, time_t *ret_time)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(at, &parts) != 1)
        return false;
    *ret_time = timegm(&parts);
    return *ret_time > 0;
}

static bool cert_read_serial(X509 *cert, char *ret_text, size_t size)
{
    const ASN1_INTEGER *serial = X509_get0_serialNumber(cert);
    size_t len = (size_t)ASN1_STRING_length(serial);
    if (!len || 2 * len >= size || ASN1_STRING_type(serial) != V_ASN1_INTEGER)
        return false;
    for (size_t i = 0; i < len; i++)
        snprintf(ret_text + 2 * i, 3, "%02x", ASN1_STRING_get0_data(serial)[i]);
    return true;
}

bool cert_about(X509 *cert, struct key_about *ret_about)
{
    struct key_about about = {.kind = KEY_PERSON};
    EVP_PKEY *public_key = X509_get0_pubkey(cert);
    bool fine = X509_get_version(cert) == X509_VERSION_3 && public_key && EVP_PKEY_is_a(public_key, "ED25519") &&
                cert_read_name(X509_get_issuer_name(cert), about.owner, sizeof about.owner) &&
                cert_read_name(X509_get_subject_name(cert), about.name, sizeof about.name) &&
                cert_read_time(X509_get0_notBefore(cert), &about.from) &&
                cert_read_time(X509_get0_notAfter(cert), &about.until) &&
                cert_read_serial(cert, about.serial, sizeof about.serial);
    if (fine && X509_check_ca(cert)) {
        about.kind = KEY_AUTHORITY;
        about.rights = KEY_RIGHTS;
        fine = X509_check_ca(cert) == 1 && X509_get_extension_flags(cert) & EXFLAG_SS;
    } else if (fine) {
        fine = cert_read_uri(cert, &about) && X509_get_key_usage(cert) == KU_DIGITAL_SIGNATURE;
    }
    if (fine)
        fine = !(X509_get_extension_flags(cert) & (EXFLAG_CRITICAL | EXFLAG_INVALID));
    ERR_clear_error();
    if (fine)
        *ret_about = about;
    return fine;
}

EVP_PKEY *ed25519_new(void)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
}

static bool cert_set_serial(X509 *cert)
{
    unsigned char bytes[SERIAL_BYTES];
    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char)((bytes[0] & 0x3f) | 0x40); /* positive, and as many digits as all others */
    BIGNUM *number = BN_bin2bn(bytes, sizeof bytes, NULL);
    bool fine = number && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert));
    BN_free(number);
    return fine;
}

static bool cert_set_name(X509_NAME *name, const char *text)
{
    size_t len = strlen(text);
    return len && len <= NAME_MOST &&
           X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)text, (int)len, -1,
                                      0) == 1;
}

static bool cert_add_extension(X509 *cert, X509V3_CTX *context, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
    bool fine = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return fine;
}

/* By hand: a text for the configuration language of extensions could say more than one name. */
static bool cert_add_uri(X509 *cert, const struct key_about *about)
{
    _cleanup_(buf_done) struct buf uri = BUF_INIT;
    uri_put(&uri, about);
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    bool fine = names && name && text && !uri.failed && ASN1_STRING_set(text, uri.data, (int)uri.len) == 1;
    if (fine) {
        GENERAL_NAME_set0_value(name, GEN_URI, TAKE_PTR(text));
        fine = sk_GENERAL_NAME_push(names, name) > 0;
        if (fine)
            name = NULL;
    }
    fine = fine && X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) == 1;
    ASN1_IA5STRING_free(text);
    GENERAL_NAME_free(name);
    GENERAL_NAMES_free(names);
    return fine;
}

static bool cert_fill(X509 *cert, const struct key_about *about, EVP_PKEY *public_key, X509 *issuer)
{
    bool is_authority = !issuer;
    X509V3_CTX context;
    const char *name = about->kind == KEY_JOB ? "job" : is_authority ? about->owner : about->name;
    if (X509_set_version(cert, X509_VERSION_3) != 1 || !cert_set_serial(cert) ||
        X509_set_pubkey(cert, public_key) != 1 || !ASN1_TIME_adj(X509_getm_notBefore(cert), about->from, 0, 0) ||
        !ASN1_TIME_adj(X509_getm_notAfter(cert), about->until, 0, 0) ||
        !cert_set_name(X509_get_subject_name(cert), name) ||
        X509_set_issuer_name(cert, X509_get_subject_name(is_authority ? cert : issuer)) != 1)
        return false;
    X509V3_set_ctx(&context, is_authority ? cert : issuer, cert, NULL, NULL, 0);
    return cert_add_extension(cert, &context, NID_basic_constraints,
                              is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
           cert_add_extension(cert, &context, NID_key_usage,
                              is_authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           cert_add_extension(cert, &context, NID_subject_key_identifier, "hash") &&
           cert_add_extension(cert, &context, NID_authority_key_identifier, "keyid:always") &&
           (is_authority || cert_add_uri(cert, about));
}

X509 *cert_new(const struct key_about *about, EVP_PKEY *public_key, X509 *issuer, EVP_PKEY *issuer_key)
{
    X509 *cert = X509_new();
    if (cert && cert_fill(cert, about, public_key, issuer) && X509_sign(cert, issuer_key, NULL) > 0)
        return cert;
    X509_free(cert);
    ERR_clear_error();
    return NULL;
}

/* ---- keys ---- */

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

static bool cert_is_issued_by(X509 *cert, X509 *authority)
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
    else if (!cert_is_issued_by(cert, authority))
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

/* ---- key files, PEM ---- */

enum { CERTS = 2 };

struct parts {
    X509 *certs[CERTS];
    size_t count;
    EVP_PKEY *private_key;
};

/* PKCS #8 (RFC 8410, section 7) by its parts: OpenSSL's decoders try all algorithms there are, which takes long. */
static EVP_PKEY *private_key_read(const unsigned char **at, long len)
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

static int parts_take(struct parts *parts, const char *name, const unsigned char *bytes, long len, struct err *err)
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
        parts->private_key = private_key_read(&end, len);
        if (!parts->private_key)
            return err_set(err, -EBADMSG, "the private key is damaged");
    } else if (strcmp(name, PEM_STRING_PKCS8) == 0) {
        return err_set(err, -EBADMSG, "the private key is encrypted: scry reads only keys without a password");
    } else {
        return 0;
    }
    return end == bytes + len ? 0 : err_set(err, -EBADMSG, "there is something behind a certificate or key");
}

static int parts_read(struct span text, struct parts *parts, struct err *err)
{
    _cleanup_(bio_st_freep) BIO *input = BIO_new_mem_buf(text.ptr, (int)text.len);
    char *name, *header;
    unsigned char *bytes;
    long len;
    int code = 0;
    while (code == 0 && input && PEM_read_bio(input, &name, &header, &bytes, &len) == 1) {
        code = parts_take(parts, name, bytes, len, err);
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
    int code = parts_read(text, &parts, err);
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

static int key_read_open(int fd, const char *path, struct key **ret_key, struct err *err)
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
    int code = key_read_open(fd, path, &key, err);
    if (code == 0)
        *ret_key = key;
    return code;
}

/* ---- whom one trusts ---- */

struct truster {
    const struct key *key;
    X509_CRL *revoked; /* NULL: nothing is */
    struct stat seen;  /* of the file that it was read from; zeros: there was none */
};

const char *trust_name(enum trust trust)
{
    static const char *const names[] = {"fine", "of another authority", "forged", "expired", "revoked"};
    return names[trust];
}

enum trust cert_check(X509 *authority, X509_CRL *revoked, X509 *cert, time_t now, struct key_about *ret_about)
{
    struct key_about issuer;
    if (!cert_about(cert, ret_about) || !cert_about(authority, &issuer))
        return TRUST_FOREIGN;
    if (ret_about->kind == KEY_AUTHORITY || X509_check_issued(authority, cert) != X509_V_OK)
        return TRUST_FOREIGN;
    bool is_signed = X509_verify(cert, X509_get0_pubkey(authority)) == 1;
    ERR_clear_error();
    if (!is_signed)
        return TRUST_FORGED;
    if (now < ret_about->from || now > ret_about->until || now < issuer.from || now > issuer.until)
        return TRUST_EXPIRED;
    return crl_has(revoked, ret_about->serial) ? TRUST_REVOKED : TRUST_FINE;
}

int crl_read(struct span text, X509 *authority, X509_CRL **ret_crl, struct err *err)
{
    _cleanup_(bio_st_freep) BIO *input = BIO_new_mem_buf(text.ptr, (int)text.len);
    _cleanup_(X509_crl_st_freep) X509_CRL *list = input ? PEM_read_bio_X509_CRL(input, NULL, NULL, NULL) : NULL;
    struct key_about issuer = {.owner = ""};
    bool is_signed = list && X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0 &&
                     X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1;
    ERR_clear_error();
    if (!list)
        return err_set(err, -EBADMSG, "the list of revoked keys is damaged");
    if (!is_signed) {
        cert_about(authority, &issuer);
        return err_set(err, -EPERM, "the list of revoked keys was not signed by the authority of %s", issuer.owner);
    }
    *ret_crl = TAKE_PTR(list);
    return 0;
}

int truster_look(struct truster *truster, struct err *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    X509_CRL *list = NULL;
    char path[PATH_MAX];
    struct stat st;
    int code = authority_path("revoked.pem", path, sizeof path, err);
    if (code < 0)
        return code;
    if (stat(path, &st) < 0) /* it may be there again, and what it said was signed */
        return errno == ENOENT ? 0 : err_errno(err, -errno, "%s", path);
    if (st.st_ino == truster->seen.st_ino && st.st_size == truster->seen.st_size &&
        st.st_mtim.tv_sec == truster->seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == truster->seen.st_mtim.tv_nsec)
        return 0;
    code = authority_revoked(&text, err);
    if (code == 0)
        code = crl_read(span_of(text.data, text.len), truster->key->authority, &list, err);
    if (code < 0)
        return code;
    truster->seen = st;
    if (truster->revoked && crl_number(list) < crl_number(truster->revoked)) {
        X509_CRL_free(list);
        return 0;
    }
    X509_CRL_free(truster->revoked);
    truster->revoked = list;
    return 1;
}

int truster_new(struct truster **ret_truster, const struct key *key, struct err *err)
{
    _cleanup_(truster_freep) struct truster *truster = calloc(1, sizeof *truster);
    if (!truster)
        return err_set(err, -ENOMEM, "out of memory");
    truster->key = key;
    int code = truster_look(truster, err);
    if (code < 0 && code != -EPERM) /* of another authority: the key is one that somebody else gave us */
        return code;
    *ret_truster = TAKE_PTR(truster);
    return 0;
}

void truster_free(struct truster *truster)
{
    if (!truster)
        return;
    X509_CRL_free(truster->revoked);
    free(truster);
}

enum trust truster_check(const struct truster *truster, X509 *cert, time_t now, struct key_about *ret_about)
{
    return cert_check(truster->key->authority, truster->revoked, cert, now, ret_about);
}

enum trust truster_check_about(const struct truster *truster, const struct key_about *about, time_t now)
{
    if (now < about->from || now > about->until)
        return TRUST_EXPIRED;
    return crl_has(truster->revoked, about->serial) ? TRUST_REVOKED : TRUST_FINE;
}

X509 *key_cert(const struct key *key)
{
    return key->cert;
}

EVP_PKEY *key_private(const struct key *key)
{
    return key->private_key;
}
