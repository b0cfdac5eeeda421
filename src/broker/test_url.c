/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/system/dirs.h"
#include "base/system/file.h"
#include "broker/url.h"

static char dir[64];
static struct broker_url url;
static struct err err;

static int setup(void **state)
{
    snprintf(dir, sizeof dir, "/tmp/scry-test-url-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    setenv("XDG_CONFIG_HOME", dir, 1);
    setenv("SCRY_RUNTIME_DIR", dir, 1);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static void parse(const char *word)
{
    err.text[0] = 0;
    int code = broker_url_parse(word, &url, &err);
    if (code < 0)
        fail_msg("%s: %s", word, err.text);
}

static void fails(const char *word, int code, const char *part)
{
    assert_int_equal(broker_url_parse(word, &url, &err), code);
    if (!strstr(err.text, part))
        fail_msg("%s: %s", word, err.text);
}

static void urls_by_their_beginning(void **state)
{
    static const char *const are[] = {"mqtt://a",   "mqtts://", "unix:/x",   "local",
                                      "local//a/b", "@site",    "@site/a/b", "@last2"};
    static const char *const none[] = {"",    "@",      "@last",    "locals",  "local/x",
                                       "job", "/local", "http://x", "mqtt:/x", "./mqtt://x"};
    for (size_t i = 0; i < sizeof are / sizeof *are; i++)
        assert_true(broker_url_is(are[i]));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(broker_url_is(none[i]));
}

static void parts_of_urls(void **state)
{
    parse("mqtt://host");
    assert_false(url.tls);
    assert_int_equal(url.place_count, 1);
    assert_string_equal(url.places[0].host, "host");
    assert_int_equal(url.places[0].port, 1883);
    assert_string_equal(url.owner, "");
    parse("mqtts://u%40x:p%3a%2Fw@a,b:99,[::1]:7,[fe80::2]/ann/20%2f1?ca=/c%20a&cert=/b&key=/k");
    assert_true(url.tls);
    assert_string_equal(url.user, "u@x");
    assert_string_equal(url.password, "p:/w");
    assert_int_equal(url.place_count, 4);
    assert_int_equal(url.places[0].port, 8883);
    assert_int_equal(url.places[1].port, 99);
    assert_string_equal(url.places[2].host, "::1");
    assert_int_equal(url.places[2].port, 7);
    assert_string_equal(url.places[3].host, "fe80::2");
    assert_string_equal(url.owner, "ann");
    assert_string_equal(url.job, "20/1");
    assert_string_equal(url.ca, "/c a");
    parse("unix:/run/b.sock//ann/@last");
    assert_int_equal(url.place_count, 0);
    assert_string_equal(url.path, "/run/b.sock");
    assert_string_equal(url.job, "@last");
    parse("local//ann");
    assert_true(url.local);
    assert_string_equal(url.owner, "ann");
    assert_string_equal(url.path + strlen(dir), "/broker.sock");
}

static void shown_without_the_password(void **state)
{
    char text[512];
    parse("mqtt://u:secret@host,b:99/ann/job");
    broker_url_show(&url, text, sizeof text);
    assert_string_equal(text, "mqtt://u@host,b:99/ann/job");
    parse("unix:/b.sock//ann");
    broker_url_show(&url, text, sizeof text);
    assert_string_equal(text, "unix:/b.sock//ann");
}

static void handed_over_whole(void **state)
{
    static const char *const words[] = {
        "mqtts://u%40x:p%3a%2Fw%01@a,b:99,[::1]:7/ann/20%2f1?ca=/c%20a&cert=/b&key=/k%26", "unix:/b.sock//a%20b/j",
        "local//ann", "mqtt://h"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        parse(words[i]);
        struct broker_url first = url;
        struct buf text = BUF_INIT;
        broker_url_put(&text, &url);
        parse(text.data);
        struct buf again = BUF_INIT;
        broker_url_put(&again, &url);
        assert_string_equal(text.data, again.data);
        assert_string_equal(first.password, url.password);
        assert_string_equal(first.key, url.key);
        assert_string_equal(first.owner, url.owner);
        assert_string_equal(first.job, url.job);
        assert_string_equal(first.places[0].host, url.places[0].host);
        buf_done(&text);
        buf_done(&again);
    }
}

static void bad_urls_are_explained(void **state)
{
    fails("unix:/", -EINVAL, "ends with a slash");
    fails("unix:/run/b.sock///ann", -EINVAL, "names a job, but not its owner");
    fails("unix:/run/b.sock/", -EINVAL, "/run/b.sock/ ends with a slash");
    fails("http://x", -EINVAL, "not by http://");
    fails("host", -EINVAL, "mqtt://HOST");
    fails("mqtt://", -EINVAL, "no host");
    fails("mqtt://a,,b", -EINVAL, "no host");
    fails("mqtt://a:0", -EINVAL, "1 to 65535");
    fails("mqtt://a:65536", -EINVAL, "1 to 65535");
    fails("mqtt://a:x", -EINVAL, "1 to 65535");
    fails("mqtt://a:", -EINVAL, "1 to 65535");
    fails("mqtt://::1", -EINVAL, "brackets");
    fails("mqtt://[::1", -EINVAL, "[ADDRESS]:PORT");
    fails("mqtt://[::1]7", -EINVAL, "[ADDRESS]:PORT");
    fails("mqtt://a b", -EINVAL, "blank");
    fails("mqtt://u:%zz@a", -EINVAL, "hexadecimal");
    fails("mqtt://u:%00@a", -EINVAL, "zero byte");
    fails("mqtt://@a", -EINVAL, "no user");
    fails("mqtt://:p@a", -EINVAL, "no user");
    fails("mqtt://a/o/j/k", -EINVAL, "OWNER/JOB");
    fails("mqtt://a//j", -EINVAL, "owner");
    fails("mqtt://a?ca=/x", -EINVAL, "mqtts://");
    fails("mqtts://a?cert=/x", -EINVAL, "both");
    fails("mqtts://a?cert=/x&key=/y", -EINVAL, "ca=FILE");
    fails("mqtts://a?ca=x", -EINVAL, "absolute");
    fails("mqtts://a?cb=/x", -EINVAL, "cb");
    fails("unix:x", -EINVAL, "absolute");
    fails("unix:/"
          "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"
          "90",
          -EINVAL, "107");
    char word[4096];
    snprintf(word, sizeof word, "mqtt://%0300d", 1);
    fails(word, -EINVAL, "longer");
    snprintf(word, sizeof word, "mqtt://%0300d@a", 1);
    fails(word, -EINVAL, "longer");
    fails("mqtt://a,b,c,d,e,f,g,h,i", -EINVAL, "8 hosts");
}

static void write_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/scry", dir);
    assert_int_equal(dirs_make(path, 0700), 0);
    snprintf(path, sizeof path, "%s/scry/%s", dir, name);
    assert_int_equal(file_replace(path, text, strlen(text), mode), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void names_of_brokers(void **state)
{
    fails("@site", -ENOENT, "NAME URL");
    write_file("brokers",
               "# comment\n\n  site\tmqtts://u@h1,h2 ca=ca.pem password=pw\nplain mqtt://h\r\nloop @plain\nempty\n"
               "bad mqtt://h what=x\nsecret mqtt://u:p@h\n",
               0644);
    write_file("pw", "geheim\nsecond line\n", 0600);
    struct buf text = BUF_INIT;
    assert_int_equal(broker_url_names(&text, &err), 0);
    assert_string_equal(text.data, "site plain loop empty bad secret ");
    buf_done(&text);
    parse("@site/ann/j1");
    assert_string_equal(url.places[1].host, "h2");
    assert_string_equal(url.password, "geheim");
    assert_string_equal(url.ca + strlen(dir), "/scry/ca.pem");
    assert_string_equal(url.owner, "ann");
    parse("@plain");
    assert_string_equal(url.places[0].host, "h");
    fails("@lst", -ENOENT, "@lst: did you mean @last? A line of ");
    fails("@other", -ENOENT, "it has site, plain, loop");
    fails("@loop", -EINVAL, "line 5");
    fails("@empty", -EINVAL, "line 6");
    fails("@bad", -EINVAL, "what");
    fails("@secret", -EACCES, "chmod 600");
    write_file("pw", "geheim\n", 0640);
    fails("@site", -EACCES, "chmod 600");
    write_file("pw", "\n", 0600);
    fails("@site", -EINVAL, "first line");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_by_their_beginning),    cmocka_unit_test(parts_of_urls),
        cmocka_unit_test(shown_without_the_password), cmocka_unit_test(handed_over_whole),
        cmocka_unit_test(bad_urls_are_explained),     cmocka_unit_test(names_of_brokers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
