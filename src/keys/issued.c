/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that were issued, and the list of those that are revoked. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/data/grow.h"
#include "base/system/file.h"
#include "keys/authority.h"
#include "keys/internal.h"

static int by_age(const void *a, const void *b)
{
    const struct issued *one = a, *other = b;
    return one->about.from != other->about.from ? (one->about.from < other->about.from ? 1 : -1)
                                                : strcmp(one->about.serial, other->about.serial);
}

static int read_crl(X509_CRL **ret_crl, struct err *err)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t len;
    int code = authority_path("revoked.pem", path, sizeof path, err);
    *ret_crl = NULL;
    if (code < 0)
        return code;
    code = file_read(path, &text, &len);
    if (code < 0)
        return code == -ENOENT ? 0 : err_errno(err, code, "%s", path);
    _cleanup_(bio_st_freep) BIO *input = BIO_new_mem_buf(text, (int)len);
    *ret_crl = input ? PEM_read_bio_X509_CRL(input, NULL, NULL, NULL) : NULL;
    ERR_clear_error();
    return *ret_crl ? 0 : err_set(err, -EBADMSG, "%s is damaged: nothing is revoked before it is restored", path);
}

static ASN1_INTEGER *serial_number(const char *serial)
{
    BIGNUM *number = NULL;
    ASN1_INTEGER *integer = BN_hex2bn(&number, serial) ? BN_to_ASN1_INTEGER(number, NULL) : NULL;
    BN_free(number);
    return integer;
}

bool crl_has(X509_CRL *crl, const char *serial)
{
    X509_REVOKED *entry;
    ASN1_INTEGER *number = serial_number(serial);
    bool found = crl && number && X509_CRL_get0_by_serial(crl, &entry, number) == 1;
    ASN1_INTEGER_free(number);
    return found;
}

int64_t crl_number(X509_CRL *crl)
{
    ASN1_INTEGER *number = X509_CRL_get_ext_d2i(crl, NID_crl_number, NULL, NULL);
    int64_t value = 0;
    if (!number || ASN1_INTEGER_get_int64(&value, number) != 1 || value < 0)
        value = 0;
    ASN1_INTEGER_free(number);
    return value;
}

int authority_list(struct issued **ret_list, size_t *ret_count, size_t *ret_damaged, struct err *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    _cleanup_(X509_crl_st_freep) X509_CRL *crl = NULL;
    struct issued *list = NULL;
    size_t count = 0, cap = 0;
    *ret_damaged = 0;
    keys_start();
    int code = authority_path("issued", dir, sizeof dir, err);
    if (code < 0 || (code = read_crl(&crl, err)) < 0)
        return code;
    DIR *files = opendir(dir);
    if (!files)
        return errno == ENOENT ? err_set(err, -ENOENT, "there is no authority yet: scry keys init makes one")
                               : err_errno(err, -errno, "%s", dir);
    for (struct dirent *entry; code == 0 && (entry = readdir(files));) {
        struct key *key = NULL;
        size_t len = strlen(entry->d_name);
        if (len < 4 || strcmp(entry->d_name + len - 4, ".pem") != 0)
            continue; /* also what is just being written */
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (key_read(path, &key, NULL) < 0) {
            ++*ret_damaged;
            continue;
        }
        if (GROW(list, count, cap))
            list[count++] = (struct issued){key->about, crl_has(crl, key->about.serial)};
        else
            code = err_set(err, -ENOMEM, "out of memory");
        key_free(key);
    }
    closedir(files);
    if (code < 0) {
        free(list);
        return code;
    }
    if (count)
        qsort(list, count, sizeof *list, by_age);
    *ret_list = list;
    *ret_count = count;
    return 0;
}

/* ---- revoking ---- */

static bool add_serial(X509_CRL *crl, const char *serial)
{
    X509_REVOKED *entry = X509_REVOKED_new();
    ASN1_INTEGER *number = serial_number(serial);
    ASN1_TIME *now = ASN1_TIME_adj(NULL, time(NULL), 0, 0);
    bool fine = entry && number && now && X509_REVOKED_set_serialNumber(entry, number) == 1 &&
                X509_REVOKED_set_revocationDate(entry, now) == 1 && X509_CRL_add0_revoked(crl, entry) == 1;
    if (!fine)
        X509_REVOKED_free(entry);
    ASN1_INTEGER_free(number);
    ASN1_TIME_free(now);
    return fine;
}

/* Times, and the next number: what receivers know the newer list by. */
static bool date(X509_CRL *crl, const struct key *authority)
{
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    ASN1_TIME *now = ASN1_TIME_adj(NULL, time(NULL), 0, 0), *end = ASN1_TIME_adj(NULL, authority->about.until, 0, 0);
    int64_t last = crl_number(crl);
    bool fine = number && now && end && ASN1_INTEGER_set_int64(number, last + 1) == 1 &&
                X509_CRL_set1_lastUpdate(crl, now) == 1 && X509_CRL_set1_nextUpdate(crl, end) == 1 &&
                X509_CRL_add1_ext_i2d(crl, NID_crl_number, number, 0, X509V3_ADD_REPLACE) == 1;
    ASN1_INTEGER_free(number);
    ASN1_TIME_free(now);
    ASN1_TIME_free(end);
    return fine;
}

static int revoke_serial(X509_CRL **crl, const struct key *authority, const char *serial, struct err *err)
{
    char path[PATH_MAX], *text;
    if (!*crl) {
        *crl = X509_CRL_new();
        if (!*crl || X509_CRL_set_version(*crl, X509_CRL_VERSION_2) != 1 ||
            X509_CRL_set_issuer_name(*crl, X509_get_subject_name(authority->cert)) != 1)
            return err_set(err, -ENOMEM, "out of memory");
    } else if (X509_CRL_verify(*crl, X509_get0_pubkey(authority->cert)) != 1) {
        return err_set(err, -EBADMSG,
                       "revoked.pem was not signed by this authority: nothing is revoked before it is restored");
    }
    _cleanup_(bio_st_freep) BIO *memory = BIO_new(BIO_s_mem());
    if (!memory || !add_serial(*crl, serial) || !date(*crl, authority) || X509_CRL_sort(*crl) != 1 ||
        X509_CRL_sign(*crl, authority->private_key, NULL) <= 0 || PEM_write_bio_X509_CRL(memory, *crl) != 1)
        return err_set(err, -ENOMEM, "the list of revoked keys cannot be made");
    long len = BIO_get_mem_data(memory, &text);
    int code = authority_path("revoked.pem", path, sizeof path, err);
    if (code == 0 && (code = file_replace(path, text, (size_t)len, 0600)) < 0)
        err_errno(err, code, "%s", path);
    return code;
}

static bool is_whole_serial(const char *text)
{
    return strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static bool is_meant(const struct issued *issued, const char *which, bool revoked)
{
    const struct key_about *about = &issued->about;
    if (strlen(which) >= 6 && strncmp(about->serial, which, strlen(which)) == 0)
        return true;
    return about->kind == KEY_PERSON && issued->revoked == revoked && strcmp(about->name, which) == 0;
}

/* Which key is meant, among those that were issued: the beginning of a serial, or a name, first of those that are not
 * revoked yet. */
static int find(const char *which, struct key_about *ret_about, struct err *err)
{
    _cleanup_(freep) struct issued *list = NULL;
    _cleanup_(buf_done) struct buf serials = BUF_INIT;
    size_t count, damaged, found = 0;
    int code = authority_list(&list, &count, &damaged, err);
    if (code < 0)
        return code;
    for (unsigned revoked = 0; revoked < 2 && !found; revoked++)
        for (size_t i = 0; i < count; i++)
            if (is_meant(&list[i], which, revoked)) {
                *ret_about = list[i].about;
                if (found++ < 4)
                    buf_printf(&serials, " %.12s", list[i].about.serial);
            }
    if (found > 1)
        return err_set(err, -EINVAL, "%zu keys are named \"%s\"; give the serial:%s%s", found, which,
                       serials.data ? serials.data : "", found > 4 ? " ..." : "");
    if (!found && !is_whole_serial(which))
        return err_set(err, -ENOENT, "no key that was issued has the serial or the name \"%s\": see scry keys list",
                       which);
    if (!found)
        snprintf(ret_about->serial, sizeof ret_about->serial, "%s", which);
    return 0;
}

int authority_revoke(const char *which, struct key_about *ret_about, struct err *err)
{
    _cleanup_(key_freep) struct key *authority = NULL;
    _cleanup_(X509_crl_st_freep) X509_CRL *crl = NULL;
    struct key_about about = {.name = ""};
    char dir[PATH_MAX];
    int code = authority_read(&authority, err);
    if (code < 0 || (code = authority_path("", dir, sizeof dir, err)) < 0)
        return code;
    _cleanup_(closep) int lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0)
        return err_errno(err, -errno, "%s", dir);
    if (flock(lock, LOCK_EX | LOCK_NB) < 0)
        return err_errno(err, -errno, "another scry keys revokes right now");
    code = find(which, &about, err);
    if (code == 0)
        code = read_crl(&crl, err);
    if (code == 0 && crl_has(crl, about.serial))
        code = 1;
    else if (code == 0)
        code = revoke_serial(&crl, authority, about.serial, err);
    ERR_clear_error();
    if (code >= 0)
        *ret_about = about;
    return code;
}

int authority_revoked(struct buf *out, struct err *err)
{
    char path[PATH_MAX];
    _cleanup_(freep) char *text = NULL;
    size_t len;
    int code = authority_path("revoked.pem", path, sizeof path, err);
    if (code == 0 && (code = file_read(path, &text, &len)) < 0)
        return code == -ENOENT ? code : err_errno(err, code, "%s", path);
    if (code == 0)
        buf_append(out, text, len);
    return code == 0 && out->failed ? -ENOMEM : code;
}
