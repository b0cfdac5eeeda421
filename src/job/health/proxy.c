/* SPDX-License-Identifier: Apache-2.0 */
/* X.509 proxies (RFC 3820): a chain of certificates, and the key of the first one, in PEM. The first of them to expire
 * counts. */
#include <errno.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "job/health/readers.h"

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
