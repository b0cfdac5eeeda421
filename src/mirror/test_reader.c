/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader says, and whether it goes on, when its connection is lost. There is no broker. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mirror/reader.h"

static const char wrong[] = "localhost: certificate verify failed", away[] = "Connection refused";
static struct reader reader;
static bool in_vain, been_up;
static FILE *said;

bool __wrap_link_is_in_vain(const struct link *link);
bool __wrap_link_is_in_vain(const struct link *link)
{
    return in_vain;
}

bool __wrap_link_has_been_up(const struct link *link);
bool __wrap_link_has_been_up(const struct link *link)
{
    return been_up;
}

/* Loses the connection; what it has said, and whether all is over. */
static void lose(const char *why, bool is_in_vain, const char *expect, bool expect_over)
{
    char text[512] = "";
    in_vain = is_in_vain;
    fflush(stdout);
    int out = dup(STDOUT_FILENO);
    rewind(said);
    assert_int_equal(ftruncate(fileno(said), 0), 0);
    dup2(fileno(said), STDOUT_FILENO);
    bool over = reader_lost(&reader, why);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out);
    assert_true(pread(fileno(said), text, sizeof text - 1, 0) >= 0);
    text[strcspn(text, "\n")] = 0;
    assert_string_equal(text, expect);
    assert_int_equal(over, expect_over);
}

static int begin(void **state)
{
    reader = (struct reader){.via = "mqtts://localhost"};
    said = tmpfile();
    return said ? loop_new(&reader.loop) : -1;
}

static int end(void **state)
{
    loop_free(reader.loop);
    fclose(said);
    return 0;
}

/* Whoever was never connected has the wrong URL, or it is not that broker. */
static void test_never_connected(void **state)
{
    been_up = false;
    lose(away, false, "", false);
    lose(wrong, true, "error the broker mqtts://localhost: localhost: certificate verify failed", true);
    assert_int_equal(reader.status, 1);
}

/* After hours of following it may be somebody's work on the broker: it is said once, and tried again. */
static void test_was_connected(void **state)
{
    been_up = true;
    lose(away, false, "", false);
    lose(wrong, true, "note the broker mqtts://localhost: localhost: certificate verify failed; it is tried again",
         false);
    lose(wrong, true, "", false);
    lose(away, false, "", false);
    lose(wrong, true, "note the broker mqtts://localhost: localhost: certificate verify failed; it is tried again",
         false);
    assert_int_equal(reader.status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_never_connected, begin, end),
        cmocka_unit_test_setup_teardown(test_was_connected, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
