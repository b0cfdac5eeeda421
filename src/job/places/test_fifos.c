/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/places/fifos.h"

/* Where a script, or a command, opens the FIFO p. */
static void test_fifos(void **state)
{
    static const struct {
        const char *script;
        enum fifo_use reads, writes;
    } rows[] = {
        {"rm -f p q; mkfifo p q\n( read x < p; echo a > q ) &\n", FIFO_OPENED, FIFO_UNNAMED},
        {"exec 3<q 4>\"$dir/p\"", FIFO_UNNAMED, FIFO_OPENED},
        {"cat /tmp/x/p > q", FIFO_OPENED, FIFO_NAMED},
        {"cat q >>p", FIFO_UNNAMED, FIFO_OPENED},
        {"cat pp p.c xp <q", FIFO_UNNAMED, FIFO_UNNAMED},
        {"echo p", FIFO_UNNAMED, FIFO_UNNAMED},
        {"os.mkfifo('p')\nopen('p', 'w').write('x')\n", FIFO_UNNAMED, FIFO_OPENED},
        {"with open(\"p\") as f:\n", FIFO_OPENED, FIFO_NAMED},
        {"exec 3<>p", FIFO_UNNAMED, FIFO_OPENED},
        {"p", FIFO_OPENED, FIFO_NAMED},
        {"", FIFO_UNNAMED, FIFO_UNNAMED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int command = 0; command < 2; command++) {
            const char *text = rows[i].script, *given = command ? text : "", *script = command ? "" : text;
            if (fifo_use_in(given, script, "dir/p", false) != rows[i].reads ||
                fifo_use_in(given, script, "p", true) != rows[i].writes)
                fail_msg("%s", text);
        }
}

/* Given to a script as an argument: it may write to that if it writes to what it is given. */
static void test_given(void **state)
{
    static const struct {
        const char *command, *script;
        enum fifo_use writes;
    } rows[] = {
        {"python3 x.py q p", "import sys\nwith open(sys.argv[1], 'r') as f:\n  with open(out, \"w\") as g:\n",
         FIFO_OPENED},
        {"python3 x.py q p", "with open(inn) as f:\n  open('x.log', 'w')\n", FIFO_NAMED},
        {"python3 x.py q", "open(out, 'w')\n", FIFO_UNNAMED},
        {"bash x.sh q ./p", "cat <$1 > \"$2\"\n", FIFO_OPENED},
        {"bash x.sh q ./p", "cat $1 >log 2>&1\n", FIFO_NAMED},
        {"bash x.sh", "python3 x.py q p\necho >$log\n", FIFO_NAMED},
        {"solve p q", "", FIFO_NAMED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (fifo_use_in(rows[i].command, rows[i].script, "p", true) != rows[i].writes)
            fail_msg("%s: %s", rows[i].command, rows[i].script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fifos), cmocka_unit_test(test_given)};
    return cmocka_run_group_tests_name("why fifos", tests, NULL, NULL);
}
