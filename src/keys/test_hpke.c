/* SPDX-License-Identifier: Apache-2.0 */
/* The first example of RFC 9180, A.1.1: its ciphers have keys of 16 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "keys/hpke.h"

static size_t hex(const char *text, uint8_t *ret_bytes)
{
    size_t len = strlen(text) / 2;
    for (size_t i = 0; i < len; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1]};
        ret_bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return len;
}

static void test_example(void **state)
{
    uint8_t sender[32], receiver[32], to[32], from[32], key[16], nonce[12], sealed[64];
    struct hpke seals, opens;
    _cleanup_(buf_done) struct buf out = BUF_INIT, back = BUF_INIT;
    hex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736", sender);
    hex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8", receiver);
    hex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d", to);
    hex("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431", from);
    hex("4531685d41d65f03dc48f6b8302c05b0", key);
    hex("56d890e5accaaf011cff4b7d", nonce);
    size_t len =
        hex("f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a", sealed);
    EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, sender, 32);
    EVP_PKEY *others = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, receiver, 32);
    struct span info = span_str("Ode on a Grecian Urn"), aad = span_str("Count-0");
    assert_true(hpke_setup(&seals, own, to, true, info, 16));
    assert_memory_equal(seals.key, key, 16);
    assert_memory_equal(seals.nonce, nonce, 12);
    assert_true(hpke_seal(&seals, aad, span_str("Beauty is truth, truth beauty"), &out));
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, sealed, len);
    assert_true(hpke_setup(&opens, others, from, false, info, 16));
    assert_true(hpke_open(&opens, aad, span_of(out.data, out.len), &back));
    assert_true(span_is(span_of(back.data, back.len), "Beauty is truth, truth beauty"));
    assert_false(hpke_open(&opens, span_str("Count-1"), span_of(out.data, out.len), &back));
    /* a public key of small order: the shared secret would be known to everybody */
    memset(from, 0, sizeof from);
    assert_false(hpke_setup(&opens, others, from, false, info, 32));
    EVP_PKEY_free(own);
    EVP_PKEY_free(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_example)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
