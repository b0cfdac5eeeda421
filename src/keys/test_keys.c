/* SPDX-License-Identifier: Apache-2.0 */
/* Key files and the authority's directory: what is read and refused, and the list of revoked keys. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/system/file.h"
#include "keys/authority.h"
#include "keys/internal.h"
#include "keys/sealed.h"

static char home[] = "/tmp/test-keys-XXXXXX", dir[PATH_MAX], file[PATH_MAX];
static struct err err;

static const char *at(const char *name)
{
    static char path[PATH_MAX];
    assert_int_equal(authority_path(name, path, sizeof path, NULL), 0);
    return path;
}

static int setup(void **state)
{
    if (!mkdtemp(home))
        return -1;
    setenv("XDG_CONFIG_HOME", home, 1);
    snprintf(dir, sizeof dir, "%s/scry/keys", home);
    snprintf(file, sizeof file, "%s/file.pem", home);
    assert_int_equal(authority_init("ada", &err), 0);
    assert_string_equal(at(""), dir);
    return 0;
}

static int teardown(void **state)
{
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static struct key_about issue(enum key_kind kind, const char *name, const char *job)
{
    struct key_about about = {
        .kind = kind, .rights = KEY_OBSERVE | KEY_CONTROL, .from = time(NULL), .until = time(NULL) + 99};
    struct key_about issued;
    unlink(file);
    snprintf(about.name, sizeof about.name, "%s", name);
    snprintf(about.job, sizeof about.job, "%s", job);
    if (authority_issue(&about, file, &issued, &err) < 0)
        fail_msg("%s", err.text);
    return issued;
}

static void test_file(void **state)
{
    _cleanup_(key_freep) struct key *key = NULL;
    struct key_about about, issued = issue(KEY_PERSON, "caf\xc3\xa9 \"1\"", "a b/[%]*?");
    struct stat st;
    assert_int_equal(key_read(file, &key, &err), 0);
    key_about(key, &about);
    assert_string_equal(about.name, "caf\xc3\xa9 \"1\"");
    assert_string_equal(about.job, "a b/[%]*?");
    assert_string_equal(about.owner, "ada");
    assert_string_equal(about.serial, issued.serial);
    assert_int_equal(about.rights, KEY_OBSERVE | KEY_CONTROL);
    assert_int_equal(about.kind, KEY_PERSON);
    assert_true(about.is_private);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* never in the place of another one, and then nothing was issued */
    struct issued *list;
    size_t count, more, damaged;
    assert_int_equal(authority_list(&list, &count, &damaged, &err), 0);
    free(list);
    assert_int_equal(authority_issue(&about, file, &issued, &err), -EEXIST);
    assert_int_equal(authority_list(&list, &more, &damaged, &err), 0);
    free(list);
    assert_int_equal(more, count);
    /* others may read it */
    struct key *other;
    chmod(file, 0640);
    assert_int_equal(key_read(file, &other, &err), -EACCES);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_int_equal(key_read("/nonexistent", &other, &err), -ENOENT);
    assert_int_equal(key_read(home, &other, &err), -EBADMSG);
    assert_int_equal(key_read("/dev/zero", &other, &err), -EBADMSG);
}

/* Cut anywhere, and with each byte changed: an error, or the same key. */
static void test_damage(void **state)
{
    _cleanup_(freep) char *text = NULL;
    _cleanup_(key_freep) struct key *key = NULL;
    struct key_about issued = issue(KEY_PERSON, "laptop", "*"), about;
    size_t len, whole = 0;
    assert_int_equal(file_read(file, &text, &len), 0);
    for (size_t i = 0; i < len; i++) {
        struct key *cut = NULL, *flipped = NULL;
        if (key_read_text(span_of(text, i), &cut, &err) == 0) {
            key_about(cut, &about);
            whole += about.is_private && i + 1 < len;
        }
        text[i] ^= (char)(1 << i % 7);
        if (key_read_text(span_of(text, len), &flipped, &err) == 0) {
            key_about(flipped, &about);
            assert_string_equal(about.serial, issued.serial);
            assert_int_equal(about.rights, issued.rights);
        }
        text[i] ^= (char)(1 << i % 7);
        key_free(cut);
        key_free(flipped);
    }
    assert_int_equal(whole, 0);
    assert_int_equal(key_read_text(span_of(text, len), &key, &err), 0);
}

static void check_refused(const char *text, const char *why)
{
    struct key *key;
    assert_int_equal(key_read_text(span_str(text), &key, &err), -EBADMSG);
    if (!strstr(err.text, why))
        fail_msg("%s", err.text);
}

static void test_text(void **state)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    _cleanup_(key_freep) struct key *authority = NULL, *one = NULL, *two = NULL;
    struct key_about about = {.kind = KEY_JOB, .job = "*", .from = time(NULL), .until = time(NULL) + 9};
    assert_int_equal(authority_read(&authority, &err), 0);
    assert_int_equal(key_issue(authority, &about, &one, &err), 0);
    assert_int_equal(key_issue(authority, &about, &two, &err), 0);
    check_refused("", "no certificate");
    check_refused("scry", "no certificate");
    check_refused("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "damaged");
    check_refused("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
                  "without a password");
    /* keys that do not belong together */
    struct key mixed = *one;
    mixed.private_key = two->private_key;
    assert_int_equal(key_put_text(&mixed, false, &text), 0);
    check_refused(text.data, "does not belong");
    /* a leaf as authority: nobody signs with a key that is none for it */
    buf_clear(&text);
    mixed = (struct key){.cert = one->cert, .authority = two->cert};
    assert_int_equal(key_put_text(&mixed, true, &text), 0);
    check_refused(text.data, "none of scry's");
    /* limits, and names */
    about.until = time(NULL) + 100000 * 3600L;
    assert_int_equal(key_issue(authority, &about, &two, &err), -EKEYEXPIRED);
    about = (struct key_about){.kind = KEY_PERSON, .rights = KEY_MEMORY, .name = "x", .job = "*", .until = time(NULL)};
    assert_int_equal(key_issue(authority, &about, &two, &err), -EINVAL);
    about.rights = KEY_OBSERVE;
    snprintf(about.name, sizeof about.name, "a\nb");
    assert_int_equal(key_issue(authority, &about, &two, &err), -EINVAL);
    snprintf(about.name, sizeof about.name, "\xff");
    assert_int_equal(key_issue(authority, &about, &two, &err), -EINVAL);
    about.name[0] = 0;
    assert_int_equal(key_issue(authority, &about, &two, &err), -EINVAL);
}

static void test_init_again(void **state)
{
    _cleanup_(freep) char *before = NULL, *after = NULL;
    size_t len;
    assert_int_equal(file_read(at("own.pem"), &before, &len), 0);
    assert_int_equal(authority_init("mallory", &err), -EEXIST);
    assert_int_equal(file_read(at("own.pem"), &after, &len), 0);
    assert_string_equal(before, after);
    /* an authority's key that others may read is used by nobody */
    struct key *key;
    chmod(at("authority.key"), 0644);
    assert_int_equal(authority_read(&key, &err), -EACCES);
    chmod(at("authority.key"), 0600);
}

static void test_revoked(void **state)
{
    _cleanup_(key_freep) struct key *job_key = NULL, *laptop = NULL;
    _cleanup_(sealed_box_freep) struct sealed_box *job = NULL, *person = NULL;
    _cleanup_(buf_done) struct buf first = BUF_INIT, second = BUF_INIT, address = BUF_INIT, message = BUF_INIT,
                                   room = BUF_INIT;
    struct key_about issued = issue(KEY_PERSON, "lost", "*"), about;
    struct span text;
    struct sealed_sender sender;
    uint8_t nonce[16];
    assert_int_equal(key_read(file, &laptop, &err), 0);
    assert_int_equal(key_for_job("job-1", NULL, &job_key, &err), 0);
    assert_int_equal(sealed_box_new(&job, job_key, "job-1", "", &err), 0);
    assert_int_equal(sealed_box_new(&person, laptop, "job-1", "", &err), 0);
    sealed_address(job, &address);
    struct span to = span_of(address.data, address.len);
    assert_int_equal(authority_revoked(&first, &err), -ENOENT);
    assert_int_equal(authority_revoke("nobody", &about, &err), -ENOENT);
    assert_int_equal(authority_revoke("lost", &about, &err), 0);
    assert_string_equal(about.serial, issued.serial);
    assert_int_equal(authority_revoke("lost", &about, &err), 1);
    assert_int_equal(authority_revoked(&first, &err), 0);
    assert_int_equal(authority_revoke("00112233445566778899aabbccddeeff", &about, &err), 0);
    assert_int_equal(authority_revoked(&second, &err), 0);
    assert_int_equal(sealed_put(person, to, NULL, time(NULL), span_str("x"), &message, nonce, &err), 0);
    assert_int_equal(sealed_box_revoke(job, span_of(second.data, second.len), &err), 0);
    assert_int_equal(sealed_box_revoke(job, span_of(first.data, first.len), &err), -ESTALE);
    assert_int_equal(sealed_box_revoke(job, span_of(second.data, second.len), &err), 0);
    assert_int_equal(sealed_open(job, span_of(message.data, message.len), time(NULL), NULL, &room, &text, &sender),
                     SEALED_REVOKED);
    /* a job that begins later finds the list itself */
    _cleanup_(sealed_box_freep) struct sealed_box *later = NULL;
    assert_int_equal(sealed_box_new(&later, job_key, "job-1", "", &err), 0);
    buf_clear(&address);
    buf_clear(&message);
    sealed_address(later, &address);
    assert_int_equal(
        sealed_put(person, span_of(address.data, address.len), NULL, time(NULL), span_str("x"), &message, nonce, &err),
        0);
    assert_int_equal(sealed_open(later, span_of(message.data, message.len), time(NULL), NULL, &room, &text, &sender),
                     SEALED_REVOKED);
    /* a list that is damaged, or of another authority with the same name */
    for (size_t i = 0; i < second.len; i += 5) {
        second.data[i] ^= 1;
        int code = sealed_box_revoke(job, span_of(second.data, second.len), &err);
        if (code != -EBADMSG && code != -EPERM && i > 25 && i < second.len - 24)
            fail_msg("byte %zu: %d", i, code);
        second.data[i] ^= 1;
    }
    char other[] = "/tmp/test-keys-XXXXXX";
    assert_non_null(mkdtemp(other));
    setenv("XDG_CONFIG_HOME", other, 1);
    assert_int_equal(authority_init("ada", &err), 0);
    assert_int_equal(authority_revoke("own", &about, &err), 0);
    buf_clear(&first);
    assert_int_equal(authority_revoked(&first, &err), 0);
    assert_int_equal(sealed_box_revoke(job, span_of(first.data, first.len), &err), -EPERM);
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", other);
    assert_int_equal(system(command), 0);
    setenv("XDG_CONFIG_HOME", home, 1);
}

static void test_for_job(void **state)
{
    _cleanup_(key_freep) struct key *key = NULL;
    _cleanup_(freep) char *text = NULL;
    struct key_about about;
    size_t len;
    assert_int_equal(key_for_job("job-2", NULL, &key, &err), 0);
    key_about(key, &about);
    assert_string_equal(about.job, "job-2");
    assert_true(about.kind == KEY_JOB && about.is_private && about.until > time(NULL) + 7 * 24 * 3600);
    key_free(key);
    key = NULL;
    issue(KEY_JOB, "", "job-*");
    assert_int_equal(file_read(file, &text, &len), 0);
    assert_int_equal(key_for_job("job-3", file, &key, &err), 0);
    key_free(key);
    key = NULL;
    assert_int_equal(key_for_job("job-3", text, &key, &err), 0);
    struct key *none, *own;
    assert_int_equal(key_own(&own, &err), 0);
    key_free(own);
    setenv("SCRY_KEY", text, 1);
    assert_int_equal(key_own(&none, &err), -EINVAL);
    assert_non_null(strstr(err.text, "a key of a person is needed, and this is one of a job"));
    setenv("SCRY_KEY", at("own.pem"), 1);
    assert_int_equal(key_own(&own, &err), 0);
    key_free(own);
    unsetenv("SCRY_KEY");
    assert_int_equal(key_for_job("other", text, &none, &err), -EINVAL);
    assert_int_equal(key_for_job("job-3", at("own.pem"), &none, &err), -EINVAL);
    assert_int_equal(key_for_job("job-3", "-----BEGIN x", &none, &err), -EBADMSG);
    assert_int_equal(key_for_job("job-3", "/nonexistent", &none, &err), -ENOENT);
    setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
    assert_int_equal(key_own(&none, &err), -ENOENT);
    assert_int_equal(key_for_job("job-3", NULL, &none, &err), -ENOENT);
    setenv("XDG_CONFIG_HOME", home, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file),    cmocka_unit_test(test_damage),  cmocka_unit_test(test_text),
        cmocka_unit_test(test_revoked), cmocka_unit_test(test_for_job), cmocka_unit_test(test_init_again),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
