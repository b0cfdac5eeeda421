/* SPDX-License-Identifier: Apache-2.0 */
/* Sealed messages: each reason for which one is refused, and every way to damage one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "keys/authority.h"
#include "keys/sealed.c" /* what is encrypted can be damaged only from inside */
#include "shm/waits.h"

#define JOB "20261123T063000-node1-4711-ab12"
static time_t now;
static struct key *authority, *stranger, *job_key, *own;
static struct sealed_box *job, *person;
static struct span job_address, person_address;
static struct buf addresses[2], room;

static struct key *authority_new(const char *user)
{
    struct key_about about = {.kind = KEY_AUTHORITY, .from = now - 9000, .until = now + 900000};
    struct key *key;
    snprintf(about.owner, sizeof about.owner, "%s", user);
    EVP_PKEY *private_key = ed25519_new();
    assert_int_equal(key_new_take(cert_new(&about, private_key, NULL, private_key), NULL, private_key, &key, NULL), 0);
    return key;
}

static struct key *issue(const struct key *by, enum key_kind kind, unsigned rights, const char *glob, long from,
                         long until)
{
    struct key_about about = {
        .kind = kind, .rights = rights, .name = "laptop", .from = now + from, .until = now + until};
    struct key *key;
    struct err err;
    snprintf(about.job, sizeof about.job, "%s", glob);
    if (key_issue(by, &about, &key, &err) < 0)
        fail_msg("%s", err.text);
    return key;
}

static struct sealed_box *box_new(const struct key *key, const char *id)
{
    struct sealed_box *box;
    struct err err;
    if (sealed_box_new(&box, key, id, "climate-3", &err) < 0)
        fail_msg("%s", err.text);
    return box;
}

static struct span address_of(struct sealed_box *box, struct buf *out)
{
    buf_clear(out);
    assert_int_equal(sealed_address(box, out), 0);
    return span_of(out->data, out->len);
}

static int setup(void **state)
{
    now = time(NULL);
    authority = authority_new("u123");
    stranger = authority_new("u123");
    job_key = issue(authority, KEY_JOB, 0, JOB, -60, 3600);
    own = issue(authority, KEY_PERSON, KEY_RIGHTS, "*", -3600, 3600);
    job = box_new(job_key, JOB);
    person = box_new(own, JOB);
    job_address = address_of(job, &addresses[0]);
    person_address = address_of(person, &addresses[1]);
    return 0;
}

static int teardown(void **state)
{
    sealed_box_free(job);
    sealed_box_free(person);
    key_free(job_key);
    key_free(own);
    key_free(authority);
    key_free(stranger);
    for (size_t i = 0; i < 2; i++)
        buf_done(&addresses[i]);
    buf_done(&room);
    return 0;
}

static uint8_t nonce[16];

static int put(struct sealed_box *box, const char *text, time_t expires, struct buf *out)
{
    buf_clear(out);
    return sealed_put(box, job_address, NULL, expires, span_str(text), out, nonce, NULL);
}

static enum sealed_refusal open_by(struct sealed_box *box, const struct buf *message, time_t at)
{
    struct span text;
    struct sealed_sender sender;
    return sealed_open(box, span_of(message->data, message->len), at, NULL, &room, &text, &sender);
}

/* A message of a key: how the job takes it. */
static enum sealed_refusal take_from(struct key *key, const char *id)
{
    struct buf message = BUF_INIT;
    struct sealed_box *box = box_new(key, id);
    /* as somebody would who does not look at what the address says */
    struct sealed_box bent = *box;
    snprintf(bent.job, sizeof bent.job, "%s", JOB);
    struct key other = *own;
    other.private_key = key->private_key;
    bent.key = &other;
    assert_int_equal(put(&bent, "x", now + 60, &message), 0);
    enum sealed_refusal refusal = open_by(job, &message, now);
    sealed_box_free(box);
    key_free(key);
    buf_done(&message);
    return refusal;
}

static void test_there_and_back(void **state)
{
    struct buf message = BUF_INIT, answer = BUF_INIT;
    struct span text;
    struct sealed_sender sender;
    uint8_t asked[16], other[16];
    assert_int_equal(sealed_put(person, job_address, NULL, now + 60, span_str("please"), &message, asked, NULL), 0);
    assert_null(memmem(message.data, message.len, "please", 6));
    assert_null(memmem(message.data, message.len, "laptop", 6));
    assert_int_equal(sealed_open(job, span_of(message.data, message.len), now, NULL, &room, &text, &sender),
                     SEALED_FINE);
    assert_true(span_is(text, "please"));
    assert_string_equal(sender.about.name, "laptop");
    assert_string_equal(sender.about.owner, "u123");
    assert_int_equal(sender.about.rights, KEY_RIGHTS);
    assert_memory_equal(sender.nonce, asked, 16);
    assert_int_equal(sealed_put(job, sender.address, sender.nonce, now + 60, span_str(""), &answer, other, NULL), 0);
    struct span sealed = span_of(answer.data, answer.len);
    assert_int_equal(sealed_open(person, sealed, now, other, &room, &text, &sender),
                     SEALED_DAMAGED); /* another question */
    assert_int_equal(sealed_open(person, sealed, now, asked, &room, &text, &sender), SEALED_FINE);
    assert_int_equal(text.len, 0);
    assert_memory_equal(sender.answers, asked, 16);
    assert_int_equal(sender.about.kind, KEY_JOB);
    /* an answer is none for the job, nor a question one for a person */
    assert_int_equal(open_by(job, &answer, now), SEALED_DAMAGED);
    assert_int_equal(open_by(person, &message, now), SEALED_DAMAGED);
    assert_int_equal(sealed_box_count(person, SEALED_FINE), 1);
    assert_int_equal(sealed_box_count(person, SEALED_DAMAGED), 2);
    buf_done(&message);
    buf_done(&answer);
}

static void test_who(void **state)
{
    assert_int_equal(take_from(issue(authority, KEY_PERSON, KEY_OBSERVE, JOB, -60, 60), JOB), SEALED_FINE);
    assert_int_equal(take_from(issue(authority, KEY_PERSON, KEY_OBSERVE, "climate-*", -60, 60), JOB), SEALED_FINE);
    assert_int_equal(take_from(issue(stranger, KEY_PERSON, KEY_RIGHTS, "*", -60, 60), JOB), SEALED_FOREIGN);
    assert_int_equal(take_from(issue(authority, KEY_PERSON, KEY_RIGHTS, "other*", -60, 60), "other-1"),
                     SEALED_OTHER_JOB);
    assert_int_equal(take_from(issue(authority, KEY_PERSON, KEY_RIGHTS, "*", -60, 60), "other-1"), SEALED_OTHER_JOB);
    assert_int_equal(take_from(issue(authority, KEY_JOB, 0, JOB, -60, 60), JOB), SEALED_RIGHTS);
}

/* A certificate that our authority's name is on, but somebody else's signature. */
static void test_forged(void **state)
{
    struct key_about about = {
        .kind = KEY_PERSON, .rights = KEY_RIGHTS, .name = "mallory", .job = "*", .from = now - 60, .until = now + 60};
    struct key *forged = issue(stranger, KEY_PERSON, KEY_RIGHTS, "*", -60, 60);
    X509_free(forged->cert);
    forged->cert = cert_new(&about, forged->private_key, authority->cert, stranger->private_key);
    assert_int_equal(take_from(forged, JOB), SEALED_FORGED);
    /* somebody who got a valid message puts their own text behind it, or the address of another in it */
    struct key mixed = *own;
    mixed.private_key = stranger->private_key;
    struct sealed_box bent = *person;
    struct buf message = BUF_INIT;
    bent.key = &mixed;
    assert_int_equal(put(&bent, "kill", now + 60, &message), 0);
    assert_int_equal(open_by(job, &message, now), SEALED_FORGED);
    buf_done(&message);
}

/* A receiver cannot pass a message on to another one as if it had been meant for it. */
static void test_passed_on(void **state)
{
    struct buf message = BUF_INIT, again = BUF_INIT, plain = BUF_INIT;
    struct sealed_box *second = box_new(job_key, JOB);
    const char *encapsulated;
    struct address to = {.cert = NULL};
    uint8_t fresh_key[KEY_BYTES];
    size_t len = KEY_BYTES;
    assert_int_equal(put(person, "x", now + 60, &message), 0);
    assert_true(message_decrypt(job, span_of(message.data, message.len), &plain, &encapsulated));
    EVP_PKEY *fresh = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    assert_int_equal(EVP_PKEY_get_raw_public_key(fresh, fresh_key, &len), 1);
    memcpy(to.public_key, second->public_key, KEY_BYTES);
    assert_true(message_seal(job, &to, span_of(plain.data, plain.len), fresh, fresh_key, &again));
    assert_int_equal(open_by(second, &again, now), SEALED_FORGED);
    /* nor is one of an earlier end of the same job taken: its key is gone with it */
    assert_int_equal(open_by(second, &message, now), SEALED_DAMAGED);
    EVP_PKEY_free(fresh);
    sealed_box_free(second);
    buf_done(&message);
    buf_done(&again);
    buf_done(&plain);
}

static void test_when(void **state)
{
    struct buf message = BUF_INIT;
    assert_int_equal(put(person, "x", now + 60, &message), 0);
    assert_int_equal(open_by(job, &message, now + 61), SEALED_HOUR);
    assert_int_equal(open_by(job, &message, now + 60 - SEALED_WINDOW_SECONDS - 1), SEALED_HOUR);
    assert_int_equal(open_by(job, &message, now), SEALED_FINE);
    assert_int_equal(open_by(job, &message, now), SEALED_REPEATED);
    assert_int_equal(open_by(job, &message, now + 60), SEALED_REPEATED);
    /* hours later, by both clocks: only the certificate is too old */
    assert_int_equal(put(person, "x", now + 3600, &message), 0);
    assert_int_equal(open_by(job, &message, now + 3599), SEALED_FINE);
    struct key *old = issue(authority, KEY_PERSON, KEY_RIGHTS, "*", -60, 30);
    struct sealed_box *box = box_new(old, JOB);
    assert_int_equal(put(box, "x", now + 60, &message), 0);
    assert_int_equal(open_by(job, &message, now + 31), SEALED_EXPIRED);
    sealed_box_free(box);
    key_free(old);
    /* and a job's key that has expired gets no message */
    assert_int_equal(put(person, "x", now + 3601, &message), -EKEYEXPIRED);
    struct err err;
    old = issue(authority, KEY_PERSON, KEY_RIGHTS, "*", -60, -30);
    assert_int_equal(sealed_box_new(&box, old, JOB, "", &err), -EKEYEXPIRED);
    key_free(old);
    old = issue(authority, KEY_PERSON, KEY_RIGHTS, "*", 50, 60);
    assert_int_equal(sealed_box_new(&box, old, JOB, "", &err), -EKEYEXPIRED);
    key_free(old);
    buf_done(&message);
}

static void test_full(void **state)
{
    struct nonces nonces = {.count = 0};
    uint8_t next[16] = {0};
    for (uint32_t i = 0; i < 1000; i++) {
        memcpy(next, &i, sizeof i);
        assert_int_equal(nonces_add(&nonces, next, i % 8, now + (i < 10 ? 5 : 60), now, 1000), 0);
        assert_int_equal(nonces_add(&nonces, next, 8, now + 60, now, 1000), -EEXIST);
    }
    next[15] = 1;
    assert_int_equal(nonces_add(&nonces, next, 8, now + 60, now, 1000), -ENOSPC);
    for (uint8_t i = 1; i <= 10; i++) {
        next[15] = i;
        assert_int_equal(nonces_add(&nonces, next, 8, now + 60, now + 6, 1000), 0);
    }
    next[15] = 11;
    assert_int_equal(nonces_add(&nonces, next, 8, now + 60, now + 6, 1000), -ENOSPC);
    /* the clock is set back: what had expired does not come to life again */
    memset(next, 0, sizeof next);
    assert_int_equal(nonces_add(&nonces, next, 8, now + 5, now, 2000), -ESTALE);
    assert_int_equal(nonces_add(&nonces, next, 8, now + 4, now, 2000), -ESTALE);
    nonces_done(&nonces);
}

/* Whoever has a key cannot use up what those of other keys need. */
static void test_shares(void **state)
{
    struct nonces nonces = {.count = 0};
    uint8_t next[16] = {0};
    uint32_t i = 0;
    (void)state;
    for (int code = 0; !code; i++) {
        memcpy(next, &i, sizeof i);
        code = nonces_add(&nonces, next, 1, now + 60, now, 1000);
        assert_true(i < 500 ? code == 0 : code == -ENOSPC);
    }
    for (; i <= 750; i++) {
        memcpy(next, &i, sizeof i);
        assert_int_equal(nonces_add(&nonces, next, 2, now + 60, now, 1000), 0);
    }
    next[15] = 1;
    assert_int_equal(nonces_add(&nonces, next, 2, now + 60, now, 1000), -ENOSPC);
    assert_int_equal(nonces_add(&nonces, next, 3, now + 60, now, 1000), 0);
    next[15] = 2; /* later its messages have expired */
    assert_int_equal(nonces_add(&nonces, next, 1, now + 120, now + 61, 1000), 0);
    nonces_done(&nonces);
}

static void check_damaged(struct sealed_box *box, const struct buf *message)
{
    if (open_by(box, message, now) == SEALED_FINE)
        fail();
}

/* Outside nothing is believed: all is DAMAGED. Inside, it is never FINE. */
static void test_damage(void **state)
{
    struct buf message = BUF_INIT, plain = BUF_INIT, copy = BUF_INIT;
    const char *encapsulated;
    struct span text;
    struct sealed_sender sender;
    assert_int_equal(put(person, "x", now + 60, &message), 0);
    for (size_t i = 0; i < message.len; i++) {
        struct buf cut = {.data = message.data, .len = i};
        assert_int_equal(open_by(job, &cut, now), SEALED_DAMAGED);
        message.data[i] ^= (char)(1 << i % 8);
        assert_int_equal(open_by(job, &message, now), SEALED_DAMAGED);
        message.data[i] ^= (char)(1 << i % 8);
    }
    assert_true(message_decrypt(job, span_of(message.data, message.len), &plain, &encapsulated));
    for (size_t i = 0; i < plain.len; i++) {
        struct span cut = span_of(plain.data, i);
        assert_int_not_equal(message_open(job, cut, encapsulated, now, NULL, &text, &sender), SEALED_FINE);
        plain.data[i] ^= (char)(1 << i % 8);
        struct span whole = span_of(plain.data, plain.len);
        assert_int_not_equal(message_open(job, whole, encapsulated, now, NULL, &text, &sender), SEALED_FINE);
        plain.data[i] ^= (char)(1 << i % 8);
    }
    check_damaged(person, &message);
    assert_int_equal(open_by(job, &message, now), SEALED_FINE);
    /* addresses */
    buf_append(&copy, job_address.ptr, job_address.len);
    for (size_t i = 0; i < copy.len; i++) {
        uint8_t unused[16];
        copy.data[i] ^= (char)(1 << i % 7);
        buf_clear(&message);
        assert_true(sealed_put(person, span_of(copy.data, copy.len), NULL, now, span_str(""), &message, unused, NULL) <
                    0);
        assert_true(sealed_put(person, span_of(copy.data, i), NULL, now, span_str(""), &message, unused, NULL) < 0);
        assert_int_equal(message.len, 0);
        copy.data[i] ^= (char)(1 << i % 7);
    }
    buf_done(&message);
    buf_done(&plain);
    buf_done(&copy);
}

static void test_limits(void **state)
{
    struct buf message = BUF_INIT;
    _cleanup_(freep) char *text = calloc(1, SEALED_TEXT_BYTES + 1);
    struct span most = span_of(text, SEALED_TEXT_BYTES), more = span_of(text, SEALED_TEXT_BYTES + 1);
    assert_int_equal(sealed_put(person, job_address, NULL, now, most, &message, nonce, NULL), 0);
    assert_true(message.len <= SEALED_MESSAGE_BYTES);
    assert_int_equal(open_by(job, &message, now), SEALED_FINE);
    assert_int_equal(sealed_put(person, job_address, NULL, now, more, &message, nonce, NULL), -EMSGSIZE);
    /* to whom: not to people, nor to the job of somebody else, nor to another job */
    assert_int_equal(sealed_put(person, person_address, NULL, now, most, &message, nonce, NULL), -EACCES);
    struct sealed_box *second = box_new(own, "other");
    assert_int_equal(sealed_put(second, job_address, NULL, now, most, &message, nonce, NULL), -EACCES);
    sealed_box_free(second);
    struct key *foreign = issue(stranger, KEY_PERSON, KEY_RIGHTS, "*", -60, 60);
    second = box_new(foreign, JOB);
    assert_int_equal(sealed_put(second, job_address, NULL, now, most, &message, nonce, NULL), -EPERM);
    sealed_box_free(second);
    key_free(foreign);
    struct err err;
    assert_int_equal(sealed_box_new(&second, authority, JOB, "", &err), -EINVAL);
    assert_int_equal(sealed_box_new(&second, job_key, "other", "", &err), -EACCES);
    buf_done(&message);
}

static size_t hex_bytes(const char *text, uint8_t *ret_bytes)
{
    size_t len = strlen(text) / 2;
    for (size_t i = 0; i < len; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1]};
        ret_bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return len;
}

/* The first example of RFC 9180, A.1.1: its ciphers have keys of 16 bytes. */
static void test_example(void **state)
{
    uint8_t sender[32], receiver[32], to[32], from[32], key[16], base_nonce[12], sealed[64];
    struct hpke seals, opens;
    _cleanup_(buf_done) struct buf out = BUF_INIT, back = BUF_INIT;
    hex_bytes("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736", sender);
    hex_bytes("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8", receiver);
    hex_bytes("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d", to);
    hex_bytes("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431", from);
    hex_bytes("4531685d41d65f03dc48f6b8302c05b0", key);
    hex_bytes("56d890e5accaaf011cff4b7d", base_nonce);
    size_t len =
        hex_bytes("f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a", sealed);
    EVP_PKEY *ours = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, sender, 32);
    EVP_PKEY *others = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, receiver, 32);
    struct span info = span_str("Ode on a Grecian Urn"), aad = span_str("Count-0");
    assert_true(hpke_setup(&seals, ours, to, true, info, 16));
    assert_memory_equal(seals.key, key, 16);
    assert_memory_equal(seals.nonce, base_nonce, 12);
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
    EVP_PKEY_free(ours);
    EVP_PKEY_free(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_passed_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_when, setup, teardown),
        cmocka_unit_test(test_example),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_shares),
        cmocka_unit_test_setup_teardown(test_damage, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
