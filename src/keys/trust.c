/* SPDX-License-Identifier: Apache-2.0 */
#include "keys/trust.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "keys/authority.h"
#include "keys/internal.h"

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
