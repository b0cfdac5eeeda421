/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/authority.h"

#include "base/data/grow.h"
#include "base/system/dirs.h"
#include "base/system/file.h"
#include "keys/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* The directory of an authority: how it is made, and how keys are issued. */

enum {
    DAY = 24 * 3600,
    BEFORE = DAY,          /* certificates are valid from a day before: clocks differ */
    YEARS_10 = 3653 * DAY, /* of an authority */
    YEAR = 366 * DAY,
};

int authority_path(const char *name, char *ret_path, size_t size, struct err *err)
{
    const char *slash = name[0] ? "/" : "";
    char config[PATH_MAX];
    int code = dirs_config(config, sizeof config, err);
    if (code == 0 && (size_t)snprintf(ret_path, size, "%s/keys%s%s", config, slash, name) >= size)
        code = err_set(err, -ENAMETOOLONG, "the path of the keys is too long: set XDG_CONFIG_HOME");
    return code;
}

/* ---- texts and files ---- */

static int put_text(X509 *cert, EVP_PKEY *private_key, X509 *authority, struct buf *out)
{
    _cleanup_(bio_st_freep) BIO *memory = BIO_new(BIO_s_mem());
    char *text;
    bool fine = memory && (!cert || PEM_write_bio_X509(memory, cert) == 1) &&
                (!private_key || PEM_write_bio_PKCS8PrivateKey(memory, private_key, NULL, NULL, 0, NULL, NULL) == 1) &&
                (!authority || PEM_write_bio_X509(memory, authority) == 1);
    long len = fine ? BIO_get_mem_data(memory, &text) : 0;
    if (fine) {
        buf_append(out, text, (size_t)len);
        OPENSSL_cleanse(text, (size_t)len);
    }
    ERR_clear_error();
    return fine && !out->failed ? 0 : -ENOMEM;
}

int key_put_text(const struct key *key, bool is_public, struct buf *out)
{
    return put_text(key->cert, is_public ? NULL : key->private_key, key->authority == key->cert ? NULL : key->authority,
                    out);
}

/* A new file, 0600, whole or not at all, and never in the place of another one. */
static int file_new(const char *path, const char *bytes, size_t len)
{
    _cleanup_(file_fresh_done) struct file_fresh fresh = FILE_FRESH_INIT;
    int code = file_fresh_open(&fresh, AT_FDCWD, path, 0600);
    if (code == 0)
        code = file_write_all(fresh.fd, bytes, len);
    if (code == 0 && fsync(fresh.fd) < 0)
        code = -errno;
    return code < 0 ? code : file_fresh_place(&fresh, true);
}

/* Writes a key file, 0600, and never over one that is there (-EEXIST). "-" is standard output. */
static int key_write(const struct key *key, const char *path, struct err *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    int code = key_put_text(key, false, &text);
    if (code == 0 && strcmp(path, "-") == 0)
        code = file_write_all(STDOUT_FILENO, text.data, text.len);
    else if (code == 0)
        code = file_new(path, text.data, text.len);
    if (text.data)
        OPENSSL_cleanse(text.data, text.cap);
    if (code == -EEXIST)
        return err_set(err, code, "%s is there already: keys are never overwritten", path);
    return code < 0 ? err_errno(err, code, "%s", path) : 0;
}

/* ---- a new authority ---- */

static int authority_save_file(const char *dir, const char *name, X509 *cert, EVP_PKEY *private_key, X509 *authority,
                               struct err *err)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char path[PATH_MAX];
    int code = put_text(cert, private_key, authority, &text);
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path)
        code = -ENAMETOOLONG;
    if (code == 0)
        code = file_new(path, text.data, text.len);
    if (text.data)
        OPENSSL_cleanse(text.data, text.cap);
    return code < 0 ? err_errno(err, code, "%s", path) : 0;
}

static int new_authority(const char *user, struct key **ret_authority, struct err *err)
{
    time_t now = time(NULL);
    struct key_about about = {.kind = KEY_AUTHORITY, .from = now - BEFORE, .until = now + YEARS_10};
    snprintf(about.owner, sizeof about.owner, "%s", user);
    EVP_PKEY *private_key = ed25519_new();
    X509 *cert = private_key ? cert_new(&about, private_key, NULL, private_key) : NULL;
    if (!cert) {
        EVP_PKEY_free(private_key);
        return err_set(err, -EINVAL, "no certificate can be made for the user \"%s\"", user);
    }
    return key_new_take(cert, NULL, private_key, ret_authority, err);
}

static int save_issued(const struct key *key, const char *dir, struct err *err)
{
    char name[80];
    snprintf(name, sizeof name, "issued/%s.pem", key->about.serial);
    return authority_save_file(dir, name, key->cert, NULL, key->authority, err);
}

static int fill_dir(const char *dir, const char *user, struct err *err)
{
    _cleanup_(key_freep) struct key *authority = NULL, *own = NULL;
    char path[PATH_MAX];
    int code = new_authority(user, &authority, err);
    if (code < 0)
        return code;
    struct key_about about = {.kind = KEY_PERSON,
                              .rights = KEY_RIGHTS,
                              .name = "own",
                              .job = "*",
                              .from = authority->about.from,
                              .until = authority->about.until};
    code = key_issue(authority, &about, &own, err);
    if (code == 0 && (size_t)snprintf(path, sizeof path, "%s/issued", dir) < sizeof path && mkdir(path, 0700) < 0)
        code = err_errno(err, -errno, "%s", path);
    if (code == 0)
        code = save_issued(own, dir, err);
    if (code == 0)
        code = authority_save_file(dir, "own.pem", own->cert, own->private_key, own->authority, err);
    if (code == 0)
        code = authority_save_file(dir, "authority.key", NULL, authority->private_key, NULL, err);
    return code == 0 ? authority_save_file(dir, "authority.pem", authority->cert, NULL, NULL, err) : code;
}

/* What fill_dir makes. */
static void remove_dir(const char *dir)
{
    static const char *const names[] = {"issued", ""};
    for (size_t i = 0; i < 2; i++) {
        char path[PATH_MAX];
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, names[i]) >= sizeof path)
            return;
        DIR *files = opendir(path);
        for (struct dirent *entry; files && (entry = readdir(files));)
            unlinkat(dirfd(files), entry->d_name, 0);
        if (files)
            closedir(files);
        rmdir(path);
    }
}

static int is_there(const char *dir, struct err *err)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/authority.pem", dir) < sizeof path && access(path, F_OK) == 0)
        return err_set(err, -EEXIST, "there is an authority already: %s (see scry keys list)", dir);
    return 0;
}

int authority_init(const char *user, struct err *err)
{
    char dir[PATH_MAX], parent[PATH_MAX], fresh[PATH_MAX + 8];
    keys_start();
    int code = authority_path("", dir, sizeof dir, err);
    if (code == 0)
        code = is_there(dir, err);
    if (code < 0)
        return code;
    snprintf(parent, sizeof parent, "%s", dir);
    *strrchr(parent, '/') = 0;
    if (parent[0] && (code = dirs_make(parent, 0700)) < 0)
        return err_errno(err, code, "%s", parent);
    /* made beside it and renamed: of two that do this at once, one has an authority, whole */
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", dir);
    if (!mkdtemp(fresh))
        return err_errno(err, -errno, "%s", fresh);
    code = fill_dir(fresh, user, err);
    if (code == 0 && rename(fresh, dir) < 0) {
        code = -errno;
        if (is_there(dir, err) == 0)
            code = code == -ENOTEMPTY || code == -EEXIST
                       ? err_set(err, code, "%s has files, but no authority: move them away first", dir)
                       : err_errno(err, code, "%s", dir);
    }
    if (code < 0)
        remove_dir(fresh);
    return code;
}

/* ---- issuing ---- */

static int check_text(const char *what, const char *text, struct err *err)
{
    if (!text[0])
        return err_set(err, -EINVAL, "%s is empty", what);
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return err_set(err, -EINVAL, "%s has a control character in it", what);
    return 0;
}

int key_issue(const struct key *authority, const struct key_about *about, struct key **ret_key, struct err *err)
{
    int code = check_text("the name of jobs", about->job, err);
    if (code == 0 && about->kind == KEY_PERSON)
        code = check_text("the key's name", about->name, err);
    if (code < 0)
        return code;
    if (about->kind == KEY_PERSON && !(about->rights & KEY_OBSERVE))
        return err_set(err, -EINVAL, "a key without the right to observe would be of no use");
    if (about->until > authority->about.until)
        return err_set(err, -EKEYEXPIRED, "the authority ends on %s: no key is valid longer (see scry-keys(1))",
                       when_text(authority->about.until).text);
    EVP_PKEY *private_key = ed25519_new();
    X509 *cert = private_key ? cert_new(about, private_key, authority->cert, authority->private_key) : NULL;
    if (!cert || X509_up_ref(authority->cert) != 1) {
        X509_free(cert);
        EVP_PKEY_free(private_key);
        return err_set(err, -EINVAL, "no certificate can be made with the name \"%s\": at most 64 characters, in UTF-8",
                       about->name);
    }
    return key_new_take(cert, authority->cert, private_key, ret_key, err);
}

int authority_read(struct key **ret_authority, struct err *err)
{
    static const char *const names[] = {"authority.pem", "authority.key"};
    char text[2 * KEY_TEXT_BYTES], path[PATH_MAX];
    size_t len = 0;
    int code = 0;
    for (size_t i = 0; i < 2 && code == 0; i++) {
        _cleanup_(freep) char *bytes = NULL;
        size_t more = 0;
        struct stat st;
        code = authority_path(names[i], path, sizeof path, err);
        if (code == 0 && (code = file_read(path, &bytes, &more)) < 0)
            code = code == -ENOENT && i == 0 ? err_set(err, code, "there is no authority yet: scry keys init makes one")
                                             : err_errno(err, code, "%s", path);
        else if (code == 0 && (stat(path, &st) < 0 || st.st_uid != geteuid() || (i == 1 && st.st_mode & 077)))
            code = err_set(err, -EACCES, "%s must be of mode 0600, and your own", path);
        else if (code == 0 && more > KEY_TEXT_BYTES / 2)
            code = err_set(err, -EBADMSG, "%s is too long to be what scry wrote", path);
        if (code == 0)
            memcpy(text + len, bytes, more);
        if (bytes)
            OPENSSL_cleanse(bytes, more);
        len += code == 0 ? more : 0;
    }
    struct err inner;
    if (code == 0 && (code = key_read_text(span_of(text, len), ret_authority, &inner)) < 0)
        err_set(err, code, "%s: %s", path, inner.text);
    OPENSSL_cleanse(text, sizeof text);
    if (code == 0 && (!(*ret_authority)->private_key || (*ret_authority)->about.kind != KEY_AUTHORITY)) {
        key_free(*ret_authority);
        code = err_set(err, -EBADMSG, "%s: there is no private key of an authority in it", path);
    }
    return code;
}

int authority_issue(const struct key_about *about, const char *path, struct key_about *ret_about, struct err *err)
{
    _cleanup_(key_freep) struct key *authority = NULL, *key = NULL;
    char dir[PATH_MAX], issued[PATH_MAX];
    struct key_about wanted = *about;
    int code = authority_read(&authority, err);
    if (code == 0)
        code = key_check_time(authority, time(NULL), err);
    if (code == 0) {
        wanted.from -= BEFORE;
        code = key_issue(authority, &wanted, &key, err);
    }
    if (code == 0)
        code = authority_path("", dir, sizeof dir, err);
    if (code < 0 || (code = save_issued(key, dir, err)) < 0)
        return code;
    code = key_write(key, path, err);
    if (code < 0 && (size_t)snprintf(issued, sizeof issued, "%s/issued/%s.pem", dir, key->about.serial) < sizeof issued)
        unlink(issued);
    *ret_about = key->about;
    return code;
}

static int read_option(const char *option, struct key **ret_key, struct err *err)
{
    bool is_text = strstr(option, "-----BEGIN") != NULL;
    struct err inner;
    if (!is_text)
        return key_read(option, ret_key, err);
    int code = key_read_text(span_str(option), ret_key, &inner);
    return code < 0 ? err_set(err, code, "SCRY_KEY: %s", inner.text) : 0;
}

/* A key with its private part, of that kind. */
static int check_kind(const struct key *key, enum key_kind kind, struct err *err)
{
    if (key->about.kind == kind && key->private_key)
        return 0;
    return err_set(err, -EINVAL, "a key of a %s is needed, and this is one of a %s%s (scry keys issue --kind %s)",
                   key_kind_name(kind), key_kind_name(key->about.kind),
                   key->private_key ? "" : ", without its private part", key_kind_name(kind));
}

/* The key, if all was well so far and it is valid now; else it is freed. */
static int hand_out(struct key *key, int code, struct key **ret_key, struct err *err)
{
    if (code == 0)
        code = key_check_time(key, time(NULL), err);
    if (code < 0)
        key_free(key);
    else
        *ret_key = key;
    return code;
}

int key_own(struct key **ret_key, struct err *err)
{
    const char *option = getenv("SCRY_KEY");
    struct key *key = NULL;
    char path[PATH_MAX];
    int code = authority_path("own.pem", path, sizeof path, err);
    if (option && option[0])
        code = read_option(option, &key, err);
    else if (code == 0 && (code = key_read(path, &key, err)) == -ENOENT)
        err_set(
            err, code,
            "there is no key in %s: `scry keys init` makes one; for another user's job put the key that they gave you "
            "into SCRY_KEY",
            path);
    if (code == 0)
        code = check_kind(key, KEY_PERSON, err);
    return hand_out(key, code, ret_key, err);
}

int key_for_job(const char *job_id, const char *option, struct key **ret_key, struct err *err)
{
    struct key *key = NULL;
    int code;
    if (option && option[0]) {
        code = read_option(option, &key, err);
    } else {
        _cleanup_(key_freep) struct key *authority = NULL;
        time_t now = time(NULL);
        code = authority_read(&authority, err);
        if (code == 0)
            code = key_check_time(authority, now, err);
        if (code < 0)
            return code;
        time_t until = now + YEAR < authority->about.until ? now + YEAR : authority->about.until;
        struct key_about about = {.kind = KEY_JOB, .from = now - BEFORE, .until = until};
        snprintf(about.job, sizeof about.job, "%s", job_id);
        code = key_issue(authority, &about, &key, err);
    }
    if (code < 0)
        return code;
    code = check_kind(key, KEY_JOB, err);
    if (code == 0 && !key_is_for(&key->about, job_id, ""))
        code = err_set(err, -EINVAL, "the job's key is for jobs %s only, and this one is %s", key->about.job, job_id);
    return hand_out(key, code, ret_key, err);
}

/* The keys that were issued, and the list of those that are revoked. */

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
static bool crl_set_dates(X509_CRL *crl, const struct key *authority)
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
    if (!memory || !add_serial(*crl, serial) || !crl_set_dates(*crl, authority) || X509_CRL_sort(*crl) != 1 ||
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
static int issued_find(const char *which, struct key_about *ret_about, struct err *err)
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
    code = issued_find(which, &about, err);
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
