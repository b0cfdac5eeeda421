/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates: X.509 version 3, Ed25519 (RFC 8410). What a key may do stands in a URI among its alternative names. */
#include <string.h>

#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "keys/internal.h"

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

/* ---- the URI ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~*", c));
}

static void put_uri(struct buf *out, const struct key_about *about)
{
    buf_printf(out, "scry:%s?", kind_names[about->kind]);
    if (about->kind == KEY_PERSON) {
        buf_puts(out, "rights=");
        key_put_rights(out, about->rights);
        buf_putc(out, '&');
    }
    buf_puts(out, "job=");
    for (const char *c = about->job; *c; c++)
        if (is_plain(*c))
            buf_putc(out, *c);
        else
            buf_printf(out, "%%%02X", (unsigned char)*c);
}

static bool skip(struct span *text, const char *word)
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

static bool get_job(struct span text, char *ret_job, size_t size)
{
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int c = (unsigned char)text.ptr[i];
        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.ptr[i + 2]) : -1;
            c = high < 0 || low < 0 ? 0 : high << 4 | low;
            i += 2;
        } else if (!is_plain((char)c)) {
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
static bool get_uri(struct span text, struct key_about *about)
{
    if (skip(&text, "scry:job?job=")) {
        about->kind = KEY_JOB;
        return get_job(text, about->job, sizeof about->job);
    }
    about->kind = KEY_PERSON;
    if (!skip(&text, "scry:person?rights="))
        return false;
    for (unsigned i = 0; i < 3; i++)
        if (skip(&text, right_names[i])) {
            about->rights |= 1u << i;
            skip(&text, ",");
        }
    return (about->rights & KEY_OBSERVE) && skip(&text, "&job=") && get_job(text, about->job, sizeof about->job);
}

static bool read_uri(X509 *cert, struct key_about *about)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool found = false;
    if (names && sk_GENERAL_NAME_num(names) == 1) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, 0);
        const ASN1_IA5STRING *uri = name->type == GEN_URI ? name->d.uniformResourceIdentifier : NULL;
        found =
            uri && get_uri(span_of((const char *)ASN1_STRING_get0_data(uri), (size_t)ASN1_STRING_length(uri)), about);
    }
    GENERAL_NAMES_free(names);
    return found;
}

/* ---- reading ---- */

/* The common name, which must be the only part of the name. */
static bool read_name(const X509_NAME *name, char *ret_text, size_t size)
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

static bool read_time(const ASN1_TIME *at, time_t *ret_time)
{
    struct tm parts;
    if (ASN1_TIME_to_tm(at, &parts) != 1)
        return false;
    *ret_time = timegm(&parts);
    return *ret_time > 0;
}

static bool read_serial(X509 *cert, char *ret_text, size_t size)
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
                read_name(X509_get_issuer_name(cert), about.owner, sizeof about.owner) &&
                read_name(X509_get_subject_name(cert), about.name, sizeof about.name) &&
                read_time(X509_get0_notBefore(cert), &about.from) &&
                read_time(X509_get0_notAfter(cert), &about.until) &&
                read_serial(cert, about.serial, sizeof about.serial);
    if (fine && X509_check_ca(cert)) {
        about.kind = KEY_AUTHORITY;
        about.rights = KEY_RIGHTS;
        fine = X509_check_ca(cert) == 1 && X509_get_extension_flags(cert) & EXFLAG_SS;
    } else if (fine) {
        fine = read_uri(cert, &about) && X509_get_key_usage(cert) == KU_DIGITAL_SIGNATURE;
    }
    if (fine)
        fine = !(X509_get_extension_flags(cert) & (EXFLAG_CRITICAL | EXFLAG_INVALID));
    ERR_clear_error();
    if (fine)
        *ret_about = about;
    return fine;
}

/* ---- making ---- */

EVP_PKEY *ed25519_new(void)
{
    return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
}

static bool set_serial(X509 *cert)
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

static bool add_name(X509_NAME *name, const char *text)
{
    size_t len = strlen(text);
    return len && len <= NAME_MOST &&
           X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)text, (int)len, -1,
                                      0) == 1;
}

static bool add(X509 *cert, X509V3_CTX *context, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, context, nid, value);
    bool fine = extension && X509_add_ext(cert, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return fine;
}

/* By hand: a text for the configuration language of extensions could say more than one name. */
static bool add_uri(X509 *cert, const struct key_about *about)
{
    _cleanup_(buf_done) struct buf uri = BUF_INIT;
    put_uri(&uri, about);
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

static bool fill(X509 *cert, const struct key_about *about, EVP_PKEY *public_key, X509 *issuer)
{
    bool is_authority = !issuer;
    X509V3_CTX context;
    const char *name = about->kind == KEY_JOB ? "job" : is_authority ? about->owner : about->name;
    if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) || X509_set_pubkey(cert, public_key) != 1 ||
        !ASN1_TIME_adj(X509_getm_notBefore(cert), about->from, 0, 0) ||
        !ASN1_TIME_adj(X509_getm_notAfter(cert), about->until, 0, 0) || !add_name(X509_get_subject_name(cert), name) ||
        X509_set_issuer_name(cert, X509_get_subject_name(is_authority ? cert : issuer)) != 1)
        return false;
    X509V3_set_ctx(&context, is_authority ? cert : issuer, cert, NULL, NULL, 0);
    return add(cert, &context, NID_basic_constraints,
               is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE") &&
           add(cert, &context, NID_key_usage,
               is_authority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature") &&
           add(cert, &context, NID_subject_key_identifier, "hash") &&
           add(cert, &context, NID_authority_key_identifier, "keyid:always") && (is_authority || add_uri(cert, about));
}

X509 *cert_new(const struct key_about *about, EVP_PKEY *public_key, X509 *issuer, EVP_PKEY *issuer_key)
{
    X509 *cert = X509_new();
    if (cert && fill(cert, about, public_key, issuer) && X509_sign(cert, issuer_key, NULL) > 0)
        return cert;
    X509_free(cert);
    ERR_clear_error();
    return NULL;
}
