/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens: a JSON Web Token (RFC 7519), three parts in base64url with dots. In the second, "exp" says when. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/evp.h>

#include "base/data/cleanup.h"
#include "job/health/credentials.h"

/* The bytes of a part; NULL: it is none. */
static unsigned char *decode(const char *text, size_t len, size_t *ret_len)
{
    size_t padded = (len + 3) / 4 * 4;
    _cleanup_(freep) unsigned char *standard = malloc(padded + 1), *bytes = malloc(padded + 1);
    if (!standard || !bytes || !len)
        return NULL;
    for (size_t i = 0; i < padded; i++) {
        char c = i < len ? text[i] : '=';
        standard[i] = (unsigned char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    int got = EVP_DecodeBlock(bytes, standard, (int)padded);
    explicit_bzero(standard, padded);
    if (got < (int)(padded - len))
        return NULL;
    *ret_len = (size_t)got - (padded - len);
    return TAKE_PTR(bytes);
}

static int read_claims(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    json_t *claims = json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *end = json_object_get(claims, "exp");
    double seconds = json_number_value(end);
    int code = 0;
    if (!json_is_object(claims))
        code = err_set(err, -EBADMSG, "its second part is no JSON object");
    else if (!end)
        code = err_set(err, -ENODATA, "it never expires");
    else if (!json_is_number(end) || !(seconds >= 0) || seconds > 1e15)
        code = err_set(err, -EBADMSG, "its \"exp\" is no time");
    else
        *ret_expires = (int64_t)seconds;
    json_decref(claims);
    return code;
}

int token_expires(const char *bytes, size_t len, int64_t *ret_expires, struct err *err)
{
    while (len && isspace((unsigned char)*bytes)) {
        bytes++;
        len--;
    }
    const char *first = memchr(bytes, '.', len);
    const char *second = first ? memchr(first + 1, '.', len - (size_t)(first + 1 - bytes)) : NULL;
    if (!second)
        return err_set(err, -EBADMSG, "this is no JSON Web Token");
    size_t claims_len = 0;
    unsigned char *claims = decode(first + 1, (size_t)(second - first - 1), &claims_len);
    if (!claims)
        return err_set(err, -EBADMSG, "its second part is no base64url");
    int code = read_claims((const char *)claims, claims_len, ret_expires, err);
    explicit_bzero(claims, claims_len);
    free(claims);
    return code;
}
