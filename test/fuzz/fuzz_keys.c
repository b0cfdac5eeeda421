/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key files; and, where the first byte is no '-', a certificate (DER) behind it, which would else be hidden behind
 * base64. What was read says the same when it is written and read again.
 */
#include <string.h>

#include "fuzz.h"
#include "keys/authority.h"
#include "keys/internal.h"

static void check(const struct key_about *about)
{
    fuzz_expect(about->owner[0] && about->name[0] && about->serial[0]);
    fuzz_expect(memchr(about->owner, 0, sizeof about->owner) && memchr(about->name, 0, sizeof about->name));
    fuzz_expect(memchr(about->job, 0, sizeof about->job) && memchr(about->serial, 0, sizeof about->serial));
    fuzz_expect(about->kind == KEY_AUTHORITY || about->job[0]);
    fuzz_expect(about->kind != KEY_JOB || !about->rights);
    fuzz_expect(!(about->rights & ~(unsigned)KEY_RIGHTS));
    (void)key_is_for(about, "job-1", "name");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct key *key, *again;
    struct buf text = BUF_INIT;
    struct key_about about = {.kind = KEY_PERSON}, other;
    struct err err = {0};
    keys_start();
    if (size && data[0] != '-') {
        const unsigned char *at = data + 1;
        X509 *cert = d2i_X509(NULL, &at, (long)size - 1);
        if (cert && cert_about(cert, &about))
            check(&about);
        X509_free(cert);
        return 0;
    }
    if (key_read_text(span_of((const char *)data, size), &key, &err) < 0) {
        fuzz_expect(err.text[0]);
        return 0;
    }
    key_about(key, &about);
    check(&about);
    fuzz_expect(key_put_text(key, false, &text) == 0);
    fuzz_expect(key_read_text(span_of(text.data, text.len), &again, NULL) == 0);
    key_about(again, &other);
    fuzz_expect(strcmp(about.serial, other.serial) == 0 && about.is_private == other.is_private);
    key_free(key);
    key_free(again);
    buf_done(&text);
    return 0;
}
