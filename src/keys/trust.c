/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/trust.h"

#include "keys/authority.h"
#include "keys/internal.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/stat.h>

/* Certificates: X.509 version 3, Ed25519 (RFC 8410). What a key may do stands in a URI among its alternative names. */

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

/* ---- whom one trusts ---- */

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
