/* SPDX-License-Identifier: Apache-2.0 */
#include "job/health/credentials.h"

#include <errno.h>
#include <krb5.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* X.509 proxies (RFC 3820): a chain of certificates, and the key of the first one, in PEM. The first of them to expire
 * counts. */

enum { CHAIN_MOST = 32 };

int proxy_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    BIO *input = BIO_new_mem_buf(bytes, (int)len);
    int64_t least = INT64_MAX;
    X509 *certificate;
    for (int i = 0; input && i < CHAIN_MOST && (certificate = PEM_read_bio_X509(input, NULL, NULL, NULL)); i++) {
        struct tm end;
        int64_t seconds = ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1 ? (int64_t)timegm(&end) : 0;
        least = seconds < least ? seconds : least;
        X509_free(certificate);
    }
    BIO_free(input);
    ERR_clear_error();
    if (least == INT64_MAX || least <= 0)
        return err_set(err, -EBADMSG, "no certificate, or no time of its end, is in it");
    *ret_expires = least;
    return 0;
}

/* Kerberos tickets: the one that gets others (krbtgt) counts; without one the last of all to expire. */

#ifdef SCRY_KRB5

enum { TICKETS_MOST = 10000 };

static bool gets_others(const krb5_creds *ticket)
{
    const krb5_data *first = ticket->server && ticket->server->length > 0 ? &ticket->server->data[0] : NULL;
    static const char name[] = KRB5_TGS_NAME;
    return first && first->length == sizeof name - 1 && memcmp(first->data, name, first->length) == 0;
}

/* 0: there are none. */
static int64_t last_end(krb5_context context, krb5_ccache cache)
{
    krb5_cc_cursor cursor;
    krb5_creds ticket;
    int64_t last[2] = {0}; /* of all, and of those */
    if (krb5_cc_start_seq_get(context, cache, &cursor) != 0)
        return 0;
    for (int i = 0; i < TICKETS_MOST && krb5_cc_next_cred(context, cache, &cursor, &ticket) == 0; i++) {
        bool setting = ticket.server && krb5_is_config_principal(context, ticket.server);
        int64_t end = setting ? 0 : (int64_t)(uint32_t)ticket.times.endtime;
        int64_t *to = &last[gets_others(&ticket)];
        *to = end > *to ? end : *to;
        krb5_free_cred_contents(context, &ticket);
    }
    krb5_cc_end_seq_get(context, cache, &cursor);
    return last[1] ? last[1] : last[0];
}

int tickets_expire(const char *name, int64_t *ret_expires, struct err *err)
{
    krb5_context context = NULL;
    krb5_ccache cache = NULL;
    int64_t end = 0;
    krb5_error_code code = krb5_init_context(&context);
    if (code)
        return err_set(err, -EIO, "libkrb5 does not start: see /etc/krb5.conf");
    code = krb5_cc_resolve(context, name, &cache);
    if (code) {
        const char *text = krb5_get_error_message(context, code);
        err_set(err, -EBADMSG, "%s", text);
        krb5_free_error_message(context, text);
    } else {
        end = last_end(context, cache);
        krb5_cc_close(context, cache);
    }
    krb5_free_context(context);
    if (code)
        return -EBADMSG;
    if (!end)
        return err_set(err, -EBADMSG, "no tickets are in it");
    *ret_expires = end;
    return 0;
}

#else

int tickets_expire(const char *name, int64_t *ret_expires, struct err *err)
{
    return err_set(err, -ENOTSUP, "this scry was built without libkrb5");
}

#endif

/* What libscry-credentials.so exports. */

extern const struct credential_readers scry_credential_readers __attribute__((visibility("default")));
const struct credential_readers scry_credential_readers = {SCRY_VERSION, proxy_expires, tickets_expire};
