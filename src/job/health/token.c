/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens: a JSON Web Token (RFC 7519), three parts in base64url with dots. In the second, "exp" says when. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "job/health/credentials.h"

/* Its six bits; -1: none of base64url. */
static int bits_of(char c)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c ? strchr(letters, c) : NULL;
    return at ? (int)(at - letters) : -1;
}

/* The bytes of a part; NULL: it is none. */
static char *decode(const char *text, size_t len, size_t *ret_len)
{
    char *bytes = len % 4 == 1 || !len ? NULL : malloc(len);
    uint32_t kept = 0;
    size_t count = 0;
    for (size_t i = 0; bytes && i < len; i++) {
        int bits = bits_of(text[i]);
        if (bits < 0) {
            explicit_bzero(bytes, count);
            free(bytes);
            return NULL;
        }
        kept = kept << 6 | (uint32_t)bits;
        if (i % 4)
            bytes[count++] = (char)(kept >> (6 - 2 * (i % 4)));
    }
    *ret_len = count;
    return bytes;
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
    char *claims = decode(first + 1, (size_t)(second - first - 1), &claims_len);
    if (!claims)
        return err_set(err, -EBADMSG, "its second part is no base64url");
    int code = read_claims(claims, claims_len, ret_expires, err);
    explicit_bzero(claims, claims_len);
    free(claims);
    return code;
}
