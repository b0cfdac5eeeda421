/* SPDX-License-Identifier: Apache-2.0 */
/* Signed messages: what a reader with a key believes, and every way to change one. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "keys/authority.h"
#include "keys/signed.h"

#define JOB "20261123T063000-node1-4711-ab12"
static char home[] = "/tmp/scry-test-signed-XXXXXX";
static const char state_text[] = "{\"job\":\"" JOB "\",\"last_seq\":7}";
static const char lines_text[] = "{\"seq\":6,\"type\":\"log\"}\n{\"seq\":7,\"type\":\"log\"}\n";
static struct key *job_key;
static struct signed_readers_key *reader;

/* An authority of the user's name in a home of its own; the keys that it makes. */
static void move_to(const char *name, const char *user)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", home, name);
    setenv("XDG_CONFIG_HOME", path, 1);
    unsetenv("SCRY_KEY");
    assert_int_equal(authority_init(user, NULL), 0);
}

static int setup(void **state)
{
    struct err err = {0};
    assert_non_null(mkdtemp(home));
    move_to("stranger", "ann");
    move_to("own", "ann");
    assert_int_equal(key_for_job(JOB, NULL, &job_key, &err), 0);
    assert_int_equal(signed_key_new(&reader, &err), 0);
    return 0;
}

static int teardown(void **state)
{
    char command[100];
    signed_key_free(reader);
    key_free(job_key);
    snprintf(command, sizeof command, "rm -r %s", home);
    return system(command);
}

static struct buf put(const struct key *key, const char *kind, const char *job, const char *text)
{
    struct buf message = BUF_INIT;
    buf_puts(&message, text);
    assert_int_equal(signed_put(key, kind, job, 7, &message), 0);
    assert_true(message.len < strlen(text) + SIGNED_ROOM);
    return message;
}

static enum signed_by check(const struct buf *message, const char *kind, struct span *ret_text)
{
    return signed_check(reader, "ann", JOB, kind, span_of(message->data, message->len), ret_text);
}

static void test_there_and_back(void **state)
{
    struct span text;
    struct buf object = put(job_key, "state", JOB, state_text), lines = put(job_key, "records", JOB, lines_text);
    assert_int_equal(check(&object, "state", &text), SIGNED_JOB);
    assert_true(span_eq(text, span_of(object.data, object.len)));
    assert_memory_equal(object.data, state_text,
                        strlen(state_text) - 1); /* readers without signatures find all of it */
    assert_int_equal(check(&lines, "records", &text), SIGNED_JOB);
    assert_true(span_is(text, lines_text));
    const char *last = lines.data + strlen(lines_text);
    assert_int_equal(strncmp(last, "{\"type\":\"signature\",\"seq\":7,\"t\":0,", 34), 0);
    assert_ptr_equal(strchr(last, '\n'), lines.data + lines.len - 1);
    buf_done(&object);
    buf_done(&lines);
}

/* What is not signed is known to be so by its owner's key alone. */
static void test_without(void **state)
{
    struct span text, plain = span_str(lines_text);
    struct buf lines = put(job_key, "records", JOB, lines_text), none = BUF_INIT;
    assert_int_equal(signed_check(reader, "ann", JOB, "records", plain, &text), SIGNED_NOT);
    assert_true(span_eq(text, plain));
    assert_int_equal(signed_check(reader, "bob", JOB, "records", plain, &text), SIGNED_UNKNOWN);
    assert_int_equal(signed_check(NULL, "ann", JOB, "records", plain, &text), SIGNED_UNKNOWN);
    assert_int_equal(signed_check(NULL, "ann", JOB, "records", span_of(lines.data, lines.len), &text), SIGNED_UNKNOWN);
    assert_true(span_eq(text, plain)); /* nobody reads the signature as a record */
    assert_int_equal(signed_check(reader, "ann", JOB, "state", span_of("", 0), &text), SIGNED_NOT);
    assert_int_equal(signed_put(job_key, "state", JOB, 0, &none), -EINVAL);
    buf_done(&lines);
}

/* Of another job, of another kind, by another authority, by a person, with a key for other jobs. */
static void test_passed_on(void **state)
{
    struct span text;
    struct key *key, *owns;
    struct buf message = put(job_key, "state", JOB, state_text);
    struct span whole = span_of(message.data, message.len);
    assert_int_equal(signed_check(reader, "ann", JOB "0", "state", whole, &text), SIGNED_NOT);
    assert_int_equal(check(&message, "beat", &text), SIGNED_NOT);
    buf_done(&message);
    message = put(job_key, "state", "other", state_text);
    assert_int_equal(signed_check(reader, "ann", "other", "state", span_of(message.data, message.len), &text),
                     SIGNED_NOT);
    buf_done(&message);
    assert_int_equal(key_own(&owns, NULL), 0);
    message = put(owns, "state", JOB, state_text);
    assert_int_equal(check(&message, "state", &text), SIGNED_NOT);
    buf_done(&message);
    char path[200];
    snprintf(path, sizeof path, "%s/stranger", home);
    setenv("XDG_CONFIG_HOME", path, 1);
    assert_int_equal(key_for_job(JOB, NULL, &key, NULL), 0);
    message = put(key, "state", JOB, state_text);
    assert_int_equal(check(&message, "state", &text), SIGNED_NOT);
    buf_done(&message);
    key_free(key);
    key_free(owns);
}

/* Each octet, and each end. What is cut or joined is not the job's, or is what the job said. */
static void test_changed(void **state)
{
    struct span text;
    for (int kind = 0; kind < 2; kind++) {
        const char *name = kind ? "records" : "state", *plain = kind ? lines_text : state_text;
        struct buf message = put(job_key, name, JOB, plain);
        for (size_t i = 0; i < message.len; i++) {
            char before = message.data[i];
            message.data[i] ^= 1;
            if (check(&message, name, &text) == SIGNED_JOB && kind) /* within the signature's own line */
                assert_true(span_is(text, plain));
            else if (i < strlen(plain) - 1)
                assert_int_equal(check(&message, name, &text), SIGNED_NOT);
            message.data[i] = before;
            assert_int_equal(signed_check(reader, "ann", JOB, name, span_of(message.data, i), &text), SIGNED_NOT);
        }
        buf_done(&message);
    }
    /* a line in place of the signature's, with that in it, and one before it */
    struct buf message = put(job_key, "records", JOB, lines_text), bent = BUF_INIT;
    const char *names = strstr(message.data, "\"certificate\"");
    buf_printf(&bent, "%s{\"type\":\"log\",\"seq\":8,%.*s", lines_text, (int)(message.data + message.len - names),
               names);
    assert_int_equal(check(&bent, "records", &text), SIGNED_NOT);
    buf_clear(&bent);
    buf_printf(&bent, "{\"seq\":8}\n%.*s", (int)message.len, message.data);
    assert_int_equal(check(&bent, "records", &text), SIGNED_NOT);
    buf_done(&bent);
    buf_done(&message);
}

static void test_revoked(void **state)
{
    struct span text;
    struct key_about about, revoked;
    struct key *key;
    char path[200];
    snprintf(path, sizeof path, "%s/own", home);
    setenv("XDG_CONFIG_HOME", path, 1);
    assert_int_equal(key_for_job(JOB, NULL, &key, NULL), 0);
    struct buf message = put(key, "state", JOB, state_text);
    assert_int_equal(check(&message, "state", &text), SIGNED_JOB);
    key_about(key, &about);
    assert_int_equal(authority_revoke(about.serial, &revoked, NULL), 0);
    struct signed_readers_key *fresh;
    assert_int_equal(signed_key_new(&fresh, NULL), 0);
    assert_int_equal(signed_check(fresh, "ann", JOB, "state", span_of(message.data, message.len), &text), SIGNED_NOT);
    signed_key_free(fresh);
    for (time_t until = time(NULL) + 3; check(&message, "state", &text) != SIGNED_NOT;) { /* who knew it looks again */
        assert_true(time(NULL) < until);
        usleep(10000);
    }
    buf_done(&message);
    key_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_without), cmocka_unit_test(test_passed_on),
        cmocka_unit_test(test_changed),        cmocka_unit_test(test_revoked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
