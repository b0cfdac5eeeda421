/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of scripts, and where a shell is by its position. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/data/buf.h"
#include "job/scripts/scripts.h"
#include "job/scripts/shell.h"

/* Each command of these texts, as "first-last". */
static const struct {
    const char *text, *commands;
} cases[] = {
    {"", ""},
    {"\n\n# only\n", ""},
    {"a\nb\n", "1-1 2-2"},
    {"#!/bin/bash\n\na; b & c\n# x\nd", "3-3 5-5"},
    {"a \\\n b\nc\n", "1-2 3-3"},
    {"a |\n\n b\nc &&\n# no end\nd ||\ne\nf\n", "1-3 4-7 8-8"},
    {"echo 'a\nb' \"c\n$(d\ne)\" $'f\\'\ng'\nh\n", "1-5 6-6"},
    {"if a; then\nb\nelif c\nthen d\nelse\ne\nfi\nx\n", "1-7 8-8"},
    {"for i in 1 2; do\na\ndone\nwhile read x\ndo b; done <if\nx\n", "1-3 4-5 6-6"},
    {"for ((i = 0; i < (3); i++)); do\na\ndone\n(( x = 1 <<\n2 ))\nb\n", "1-3 4-5 6-6"},
    {"f() {\n a\n}\nf ()\n{\n b; }\nfunction g\n{ c\n}\nfunction h() (\n d )\nx\n", "1-3 4-6 7-9 10-11 12-12"},
    {"case $x in\na|b) c;;\n(d) if e; then f; fi ;;\n@(g|h)*) (i);&\n*) j\nesac\nx\n", "1-6 7-7"},
    {"case x in esac\nx\n", "1-1 2-2"},
    {"cat <<E <<-'F G'\n$(\nE\n a\n\tF G\nx\n", "1-5 6-6"},
    {"cat <<<E\nx\n", "1-1 2-2"},
    {"a=$(cat <<E\n)'\nE\n)\nx\n", "1-4 5-5"},
    {"a=(1 2\nif\n3)\nx\n", "1-3 4-4"},
    {"[[ a =~ ^(b|c)$ &&\n d < e ]]\nx\n", "1-2 3-3"},
    {"echo ${a:-'}'} ${b#\"}\"} `c\nd` $((1 +\n(2))) done\nx\n", "1-3 4-4"},
    {"echo $(a) done; echo } fi\nx\n", "1-1 2-2"},
    {"a &> b &\nx 2>&1 >|y\nz\n", "1-1 2-2 3-3"},
    {"diff <(a\nb) >(c)\nx\n", "1-2 3-3"},
    {"{ a; }; { { b\n} }\nx\n", "1-2 3-3"},
    {"! a && time b\n((a)\nb )\nx\n", "1-1 2-3 4-4"},
    {"echo a#b '#' \\# # '\nx\n", "1-1 2-2"},
    {"a\nfi\nb\n", "1-1"},
    {"a\n\"b\nc\n", "1-1"},
    {"a\nb \\", "1-1 2-2"},
};

static void test_commands(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script_source *text = script_source_new(cases[i].text, strlen(cases[i].text));
        struct buf found = BUF_INIT;
        for (size_t k = 0; k < text->commands.count; k++)
            buf_printf(&found, "%s%u-%u", k ? " " : "", text->commands.list[k].first_line,
                       text->commands.list[k].last_line);
        if (strcmp(found.len ? found.data : "", cases[i].commands) != 0)
            fail_msg("%s\nhas '%s', not '%s'", cases[i].text, found.data, cases[i].commands);
        buf_done(&found);
        script_source_free(text);
    }
}

/* Ends are offsets behind the newline, and any beginning of a script is safe. */
static void test_cut(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t len = 0; len <= strlen(cases[i].text); len++) {
            struct script_source *text = script_source_new(cases[i].text, len);
            for (size_t k = 0; k < text->commands.count; k++) {
                const struct shell_command *command = &text->commands.list[k];
                assert_true(command->end <= len && command->first_line <= command->last_line);
                assert_int_equal(script_line_before(text, command->end), command->last_line);
                assert_ptr_equal(script_command_ending(text, command->end), command);
            }
            script_source_free(text);
        }
}

static void test_show(void **state)
{
    static const char source[] = "a  \\\n\tb \n";
    struct script_source *text = script_source_new(source, sizeof source - 1);
    struct buf out = BUF_INIT;
    script_command_show(&out, text, 1, 2);
    assert_string_equal(out.data, "a  \\ ...");
    script_command_show(&out, text, 2, 3); /* there is no such line */
    assert_string_equal(out.data, "a  \\ ...");
    script_source_free(text);
    char lots[1000];
    memset(lots, 'x', sizeof lots);
    text = script_source_new(lots, sizeof lots);
    buf_clear(&out);
    script_command_show(&out, text, 1, 1);
    assert_int_equal(out.len, SCRIPT_COMMAND_BYTES + 4);
    script_source_free(text);
    buf_done(&out);
}

static void test_source(void **state)
{
    static const struct {
        const char *args; /* with a blank for each NUL */
        enum shell_source source;
        const char *text;
    } lines[] = {
        {"bash", SHELL_FROM_INPUT},
        {"bash x", SHELL_FROM_FILE, "x"},
        {"bash -e -- x y", SHELL_FROM_FILE, "x"},
        {"sh -ec x", SHELL_FROM_OPTION, "x"},
        {"sh -s x", SHELL_FROM_INPUT},
        {"bash -o errexit", SHELL_FROM_INPUT},
        {"bash -eo pipefail x", SHELL_FROM_FILE, "x"},
        {"bash --rcfile a", SHELL_FROM_INPUT},
        {"bash -", SHELL_FROM_INPUT},
        {"bash --posix x", SHELL_FROM_FILE, "x"},
        {"bash -o", SHELL_FROM_INPUT},
        {"bash -c -e x y", SHELL_FROM_OPTION, "x"},
        {"bash -c", SHELL_FROM_OPTION},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char args[64];
        size_t len = strlen(lines[i].args) + 1;
        memcpy(args, lines[i].args, len);
        for (size_t at = 0; at < len; at++)
            args[at] = args[at] == ' ' ? '\0' : args[at];
        const char *text;
        enum shell_source source = shell_source_of(args, len, &text);
        if (source != lines[i].source || strcmp(text ? text : "", lines[i].text ? lines[i].text : "") != 0)
            fail_msg("%s: %s", lines[i].args, text);
    }
}

/* The names of the programs in a script's traps, and those that stand nowhere else. */
static const struct {
    const char *script, *names, *only;
} traps[] = {
    {"", "", ""},
    {"set -e\nrm x\n", "", ""},
    {"trap 'rm -f \"$tmp\"; /usr/bin/tar x | gzip' EXIT\n", "rm tar gzip", "rm tar gzip"},
    {"trap \"rm x\" INT\ntrap -- 'rmdir y' 0\n# trap 'mv a b' EXIT\n", "rmdir", "rmdir"},
    {"trap 'echo failed; cd /; X=1 notify; exit 3' ERR\n", "notify", "notify"},
    {"cleanup() { nosuch 2>/dev/null; rmdir w; }\nfunction other {\n rm x\n}\ntrap cleanup EXIT INT\n", "nosuch rmdir",
     "nosuch rmdir"},
    {"cleanup ()\n{\n  if [ -d w ]; then\n    rm -r w\n  fi\n  for i in a b; do other $i; done\n}\nother() { mv $1 "
     "$(date +%s); "
     "}\nif true; then trap cleanup EXIT; fi\ncp a b\n",
     "rm mv date", "rm mv date"},
    {"f() { f; f; rm; g; }\ng() { f; g; g; }\ntrap f EXIT\n", "rm", "rm"},
    {"trap - EXIT\ntrap '' EXIT\n", "", ""},
    {"a; trap './sweep.sh \\\n -a' EXIT", "sweep.sh", "sweep.sh"},
    {"trap 'rm EXIT", "", ""},
    {"trap 'echo \"$0\" >&2; du -s /tmp >&2; ls &>log; wc x& tail y' ERR\n", "du ls wc tail", "du ls wc tail"},
    {"trap 'rm x; du y' EXIT\nx=\"$(/usr/bin/du -s .)\"\nrmdir z\n", "rm du", "rm"},
    {"g() { mv a b; }\nf() { rm x; g; }\nh() { ls y; }\ntrap 'f; h' EXIT\nh\n", "rm mv ls", "rm mv"},
    {"g() { mv a b; }\nf() { rm x; g; }\ntrap f EXIT\nif ! make; then f; fi\n", "rm mv", ""},
};

static void check_names(const char *script, const json_t *names, const char *expected)
{
    struct buf found = BUF_INIT;
    size_t index;
    json_t *name;
    json_array_foreach(names, index, name) buf_printf(&found, "%s%s", index ? " " : "", json_string_value(name));
    if (strcmp(found.len ? found.data : "", expected) != 0)
        fail_msg("%s\nhas '%s', not '%s'", script, found.data, expected);
    buf_done(&found);
}

static void test_traps(void **state)
{
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        for (size_t len = 0; len <= strlen(traps[i].script); len++) { /* any beginning is safe */
            char *script = strndup(traps[i].script, len);
            struct script_trap trap = script_trap_find(script, len);
            if (len == strlen(traps[i].script)) {
                check_names(script, trap.commands, traps[i].names);
                check_names(script, trap.only, traps[i].only);
            }
            script_trap_done(&trap);
            free(script);
        }
    static const char binary[] = "trap '\0rm x' EXIT"; /* behind a script may stand what it unpacks */
    struct script_trap trap = script_trap_find(binary, sizeof binary - 1);
    assert_null(trap.only);
    script_trap_done(&trap);
}

static void test_tested(void **state)
{
    static const struct {
        const char *script, *commands, *conditions;
    } scripts[] = {
        {"solver a || true\nother b\n", "solver a"},
        {"./solver >log 2>&1 || { echo no; exit 1; }\n", "./solver"},
        {"if ! solver a; then echo no; fi", "solver a", "solver a"},
        {"if a 1; b 2; then c 3; fi\n", "b 2", "b 2"},
        {"while ! ping -c 1 host >/dev/null\ndo\n sleep 1\ndone\n", "ping -c 1 host", "ping -c 1 host"},
        {"a && b && c || d\n", "a b c"},
        {"a && b\n", ""},
        {"a | b || c\n", "b"},
        {"! a | b\n", "b", "b"},
        {"a x\nrc=$?\nb y\n", "a x", "a x"},
        {"a x; if [ $? -ne 0 ]; then b; fi\n", "a x", "a x"},
        {"a x || true\na y\n", "a x"},
        {"a x || true\na $1\n", ""}, /* it may be the same */
        {"a x || true\na x y\n", ""},
        {"a \"$1\" || true\n", "a"},
        {"\"$a\" b || true\n", ""},
        {"f() { a; }\nf || true\n", "f"},
        {"cat <<END\na || true\nEND\nb || true\n", "b"},
        {"case x in\na) b || true;;\nesac\n", "b"},
        {"for i in 1 2; do a $i || break; done\n", "a"},
        {"(a; b) || true\n", ""},
        {"x=$(a 1) && b || c\n", "a 1 b"},
        {"x=$(a; b 1) || x=none\n", "b 1"},
        {"x=$(a | b 1) || x=none\n", "b 1"},
        {"echo $(a 1) || b\n", "echo"},
        {"x=$(a 1)\n", ""},
        {"a & b || c\n", "b"},
        {"# a || b\nLC_ALL=C a || c # d\n", "a"},
        {"cp $(find . -name x) to || true\n", "cp"},
        {"a \\\n  b || c\n", "a b"},
        {"if a x; then b; fi\na x || true\n", "a x"},
        {"p -c \"import numpyx\" || echo; p -c 'print(\"$x\")'\n", "p -c import numpyx"},
        {"p -c 'a b' || c\np -c 'a'\n", ""}, /* it may be the same */
        {"p \"$x y\" || c\n", "p"},
        {"p 'a'\"b c\" || c\n", "p"},
        {"rm x 2>/dev/null\na y >/dev/null 2>&1; b > /dev/null\n", "rm x a y"}, /* errors are expected */
        {"rm x 2>/dev/null\nrm x\n", ""},
        {"a x; echo $?; b; exit $?\n", "a x b", "b"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        for (size_t len = 0; len <= strlen(scripts[i].script); len++) { /* any beginning is safe */
            char *script = strndup(scripts[i].script, len);
            struct script_tested tested = script_tested_find(script, len);
            if (len == strlen(scripts[i].script)) {
                check_names(script, tested.commands, scripts[i].commands);
                check_names(script, tested.conditions, scripts[i].conditions ? scripts[i].conditions : "");
            }
            script_tested_done(&tested);
            free(script);
        }
}

static void test_piped(void **state)
{
    static const struct {
        const char *script, *commands;
    } scripts[] = {
        {"a; a || b\nb && c\n", ""},
        {"set -o pipefail\ngzip -dc x | sort -n | tail\n", "gzip -dc x sort -n"},
        {"ls /x* 2>/dev/null | sort | tail\n", "sort"}, /* it may fail */
        {"x=$(a 1 | b)\n", "a 1"},
        {"a |& b\n", "a"},
        {"for i in 1 2; do a; done | b\n", ""},
        {"( a 1; b 2 ) 2>&1 | tee log\n{ c; d 3; } | e\n(f)\ng | h\n", "b 2 d 3 g"},
        {"x=$(a)\nb | c\n", "b"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct script_tested tested = script_tested_find(scripts[i].script, strlen(scripts[i].script));
        check_names(scripts[i].script, tested.piped, scripts[i].commands);
        script_tested_done(&tested);
    }
}

/* Where, which signal, and whether to itself. */
static void test_kills(void **state)
{
    static const struct {
        const char *script, *kills;
    } scripts[] = {
        {"a\n(sleep 1; kill -9 $c) &\nkill -KILL $d\n", "2 9 0;"},
        {"/bin/kill -s KILL 12\nkill 13\n", "1 9 0;2 15 0;"},
        {"if ! kill -0 $p; then\n echo; fi\n", ""},
        {"kill -n 2 -- -12\nkill -TERM $$; kill -15 \"$BASHPID\"\n", "1 2 0;2 15 1;"},
        {"kill -$S 12; kill -l; kill\n", ""},
        {"pkill -9 -f solver\npkill -u me x\nkillall -s INT x\n", "1 9 0;2 15 0;3 2 0;"},
        {"kill -9 0", "1 9 1;"},
        {"echo kill -9 0 # kill -9 $$\nskill x", ""},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        for (size_t len = 0; len <= strlen(scripts[i].script); len++) { /* any beginning is safe */
            struct buf found = BUF_INIT;
            size_t index;
            char *script = strndup(scripts[i].script, len);
            json_t *kills = script_kills_find(script, len), *kill;
            json_array_foreach(kills, index, kill) buf_printf(
                &found, "%d %d %d;", (int)json_integer_value(json_object_get(kill, "line")),
                (int)json_integer_value(json_object_get(kill, "signal")), json_is_true(json_object_get(kill, "self")));
            if (len == strlen(scripts[i].script))
                assert_string_equal(found.data ? found.data : "", scripts[i].kills);
            json_decref(kills);
            free(script);
            buf_done(&found);
        }
}

/* How what it prints itself begins. */
static void test_prints(void **state)
{
    static const struct {
        const char *script, *texts;
    } scripts[] = {
        {"echo \"error: foo\" >&2\n./solver\n", "error: foo"},
        {"echo -n no mesh; echo \"step $i of\" 3 && echo 'a'\necho \"$x\"", "no mesh step  "}, /* one "" for both */
        {"printf 'ended: %d\\n' 3 >log\nprintf \"%s\" x\n", "ended:  "},
        {". ./tools.sh; echo done\n", " done"},
        {"./solver echo no\ngrep x\n# echo no\n", ""},
        {"if ! a; then echo done with it | tee log; fi", "done with it"},
        {"echo \"$1\" no\n", ""},
        {"trap 'echo bye now' EXIT; trap \"rm x; echo it was cleaned; trap 'echo no' 0\" ERR\n",
         "bye now it was cleaned"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        for (size_t len = 0; len <= strlen(scripts[i].script); len++) { /* any beginning is safe */
            char *script = strndup(scripts[i].script, len);
            json_t *prints = script_prints_find(script, len);
            if (len == strlen(scripts[i].script))
                check_names(script, prints, scripts[i].texts);
            json_decref(prints);
            free(script);
        }
}

/* Where it has the output of "solver" written; '!': not as that wrote it. */
static void test_outputs(void **state)
{
    static const struct {
        const char *script, *files;
    } scripts[] = {
        {"./solver > out.txt\n", "out.txt "},
        {"/opt/bin/solver -n 4 >>\"a b\" 2>err 3>x 2>&1\nls > y\n", "a b err "},
        {"./solver | cat > out.txt\n", "out.txt "},
        {"ls | ./solver 2>&1 |\n tee -a log 'log 2' | grep x > n.txt\n", "log log 2 !n.txt "},
        {"./solver |& sed s/x/y/ &> a 2> b; cat < c > d", "a "},
        {"./solver | awk '{ print > \"no\" }' | tee z", "!z "},
        {"(sleep 2; ./solver) | cat >out", "out "},
        {"for i in 1 2; do\n ./prepare > p; time ./solver $i\ndone > loop.txt 2>&1\n", "loop.txt "},
        {"if ./prepare; then { A=1 ./solver; ls; } > g; fi | tee h", "g h "},
        {"case $x in a) ./solver >q ;; esac\nls >r\n", "q "},
        {"./solver || echo failed > mark\n./solver && ls > list\n./solver & ls > l\n", ""},
        {"python3 solver > \"$OUT\"; ./solver > $OUT/x; ./resolver > y\n", ""},
        {"# ./solver > out\necho './solver > out'\n./solver > /dev/null\n", "/dev/null "},
        {"nohup mpirun -n 4 ./solver > m \\\n 2>&1 &\nwait\n", "m "},
    };
    static const char *const names[] = {"solver", NULL};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        for (size_t len = 0; len <= strlen(scripts[i].script); len++) { /* any beginning is safe */
            struct buf found = BUF_INIT;
            size_t index;
            char *script = strndup(scripts[i].script, len);
            json_t *outputs = script_outputs_find(script, len, names), *each;
            json_array_foreach(outputs, index, each)
                buf_printf(&found, "%s%s ", json_is_true(json_object_get(each, "words")) ? "" : "!",
                           json_string_value(json_object_get(each, "file")));
            if (len == strlen(scripts[i].script))
                assert_string_equal(found.data ? found.data : "", scripts[i].files);
            json_decref(outputs);
            free(script);
            buf_done(&found);
        }
}

static void check_place(const struct place *place, uint32_t first, uint32_t last, bool exact)
{
    assert_int_equal(place->first_line, first);
    assert_int_equal(place->last_line, last);
    assert_int_equal(place->exact, exact);
}

static void test_place(void **state)
{
    static const char source[] = "a\nb\nif c\nthen d; fi\ne\nf\n";
    size_t end = sizeof source - 1;
    struct script_source *text = script_source_new(source, end);
    struct place place = {0};
    place_move(&place, text, 0); /* it has not begun */
    check_place(&place, 0, 0, false);
    place_move(&place, text, end); /* it has read ahead, and executes what starts no process */
    check_place(&place, 1, 6, false);
    place_move(&place, text, 4);
    check_place(&place, 2, 2, true);
    place_move(&place, text, end);
    check_place(&place, 3, 6, false);
    place_move(&place, text, 7); /* no command ends there */
    check_place(&place, 3, 3, false);
    place_move(&place, text, 20);
    check_place(&place, 3, 4, true);
    place_move(&place, text, 22);
    check_place(&place, 5, 5, true);
    place_move(&place, text, end); /* only one is left */
    check_place(&place, 6, 6, true);
    place_move(&place, text, end + 1); /* it was cut */
    check_place(&place, 0, 0, false);
    script_source_free(text);
}

/* What bash prints is the command that stands there, or it is of another file. */
static void test_fits(void **state)
{
    static const char source[] = "f() { cat \"$x\"; }\n  ls   -l \\\n -a >x\necho a 2>&1 | sort\n";
    static const struct {
        uint32_t line;
        const char *command;
        bool fits;
    } commands[] = {
        {1, "cat \"$x\"", true},
        {1, "ca", false},
        {1, "at \"$x\"", false},
        {2, "ls -l -a > x", true},
        {3, "ls -l -a > x", false},
        {4, "echo a 2>&1", true},
        {4, "sort", true},
        {4, "echo", true},
        {5, "sort", false},
        {0, "sort", false},
        {4, "", false},
        {4, "2>&1", false},
        {2, "-a", false},
        {4, "a", false},
        {UINT32_MAX, "ls", false},
    };
    struct script_source *text = script_source_new(source, sizeof source - 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct shell_now now = {.line = commands[i].line};
        strcpy(now.command, commands[i].command);
        if (shell_now_fits(&now, text) != commands[i].fits)
            fail_msg("line %u: %s", commands[i].line, commands[i].command);
    }
    script_source_free(text);
}

/* Waits until bash says that it is at the line. */
static int wait_for_line(const struct shell_memory *memory, pid_t pid, uint32_t line)
{
    struct shell_now now = {0};
    for (int i = 0; i < 30000; i++) {
        if (shell_memory_read(memory, pid, &now) == 0 && now.line == line)
            return 0;
        usleep(1000);
    }
    return -1;
}

/* A zombie is what a shell is soon after it lost its memory. */
static void test_memory_goes(void **state)
{
    struct shell_memory memory = {0};
    struct shell_now now;
    siginfo_t end;
    int held[2];
    assert_int_equal(pipe(held), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(held[0], 0);
        close(held[1]);
        execl("/bin/bash", "bash", "-c", ":\nread line\n:", (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    assert_int_equal(shell_memory_read(&memory, pid, &now), -EAGAIN);
    for (int i = 0; i < 30000 && !memory.known; i++, usleep(1000))
        shell_memory_find(&memory, pid);
    if (memory.known) /* we may look */
        assert_int_equal(wait_for_line(&memory, pid, 2), 0);
    close(held[1]);
    close(held[0]);
    assert_int_equal(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT), 0);
    if (memory.known)
        assert_int_equal(shell_memory_read(&memory, pid, &now), -ESRCH);
    else
        skip();
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),    cmocka_unit_test(test_cut),   cmocka_unit_test(test_show),
        cmocka_unit_test(test_source),      cmocka_unit_test(test_place), cmocka_unit_test(test_fits),
        cmocka_unit_test(test_memory_goes), cmocka_unit_test(test_traps), cmocka_unit_test(test_tested),
        cmocka_unit_test(test_piped),       cmocka_unit_test(test_kills), cmocka_unit_test(test_prints),
        cmocka_unit_test(test_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
