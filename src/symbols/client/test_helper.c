/* SPDX-License-Identifier: Apache-2.0 */
/* The helper's language at both ends, and the helper itself: what it builds, what it refuses. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/system/dirs.h"
#include "symbols/client/helper.h"
#include "symbols/client/client.h"
#include "symbols/index/index.h"
#include "symbols/capture/test_support.h"

/* ---- the language ---- */
static void test_lines(void **state)
{
    struct buf out = BUF_INIT;
    char *fields[HELPER_FIELDS], line[200];
    helper_line(&out, "word", "a\tb", "", "c\\d\n", NULL);
    assert_string_equal(out.data, "word\ta\\tb\t\tc\\\\d\\n\n");
    snprintf(line, sizeof line, "%s", out.data);
    line[strlen(line) - 1] = 0;
    assert_int_equal(helper_split(line, fields), 4);
    assert_string_equal(fields[0], "word");
    assert_string_equal(fields[1], "a\tb");
    assert_string_equal(fields[2], "");
    assert_string_equal(fields[3], "c\\d\n");
    snprintf(line, sizeof line, "%s", "a\\x");
    assert_int_equal(helper_split(line, fields), -EBADMSG);
    snprintf(line, sizeof line, "%s", "a\\");
    assert_int_equal(helper_split(line, fields), -EBADMSG);
    memset(line, '\t', HELPER_FIELDS);
    line[HELPER_FIELDS] = 0;
    assert_int_equal(helper_split(line, fields), -EBADMSG);
    snprintf(line, sizeof line, "%s", "");
    assert_int_equal(helper_split(line, fields), 1);
    uint64_t number;
    assert_true(helper_number("18446744073709551615", 0, UINT64_MAX, &number) && number == UINT64_MAX);
    assert_false(helper_number("18446744073709551616", 0, UINT64_MAX, &number));
    assert_false(helper_number("", 0, 9, &number) || helper_number("-1", 0, 9, &number) ||
                 helper_number(" 1", 0, 9, &number) || helper_number("1x", 0, 9, &number) ||
                 helper_number("10", 0, 9, &number));
    assert_true(helper_address("0xfFf", &number) && number == 0xfff);
    assert_false(helper_address("fff", &number) || helper_address("0x", &number) || helper_address("0x-1", &number));
    buf_done(&out);
}

static void test_answers(void **state)
{
    static const char text[] = "ok\tkey\tfile\n"
                               "memory\tkey\tf\\ti\t/proc/1/fd/2\tno room\n"
                               "failed\tfile\twhy\n"
                               "failed\twhy\n"
                               "a newer word\tthat nobody knows\n"
                               "layout\t7\targs(n:i4)\n"
                               "site\tentry\t0x1f\t7\t00aAff\n"
                               "site\tunwind\t0x1f\t0\t\n"
                               "params\texit\t0x20\t01\n"
                               "param-problem\texit\t0x20\tp->x\tmember\t4\tx\n"
                               "lines-only\t0x20\n"
                               "missing\t0x20\tx.dwo\n"
                               "problem\t0x20\tgone\n"
                               "value\tint\t0x30\t4\t5\n"
                               "value\t2\tn\tint\t5\n"
                               "written\tint\t5\t6\n"
                               "process\t12\ta.out\t\n"
                               "stack\t3\t1\t1\tworker\n"
                               "frame\tpython\tf\tf.py\t7\t\n"
                               "place\t0x20\t0x28\t9\n"
                               "inlined\tg\tg.h\t3\t11\n"
                               "done\n";
    static const enum helper_answer_kind kinds[] = {
        HELPER_OK,    HELPER_MEMORY,   HELPER_FAILED,        HELPER_FAILED,     HELPER_LAYOUT,  HELPER_SITE,
        HELPER_SITE,  HELPER_PARAMS,   HELPER_PARAM_PROBLEM, HELPER_LINES_ONLY, HELPER_MISSING, HELPER_PROBLEM,
        HELPER_VALUE, HELPER_VARIABLE, HELPER_WRITTEN,       HELPER_PROCESS,    HELPER_STACK,   HELPER_FRAME,
        HELPER_PLACE, HELPER_INLINED,  HELPER_DONE};
    for (size_t piece = 1; piece < sizeof text; piece = piece * 2 + 1) {
        struct helper_reader reader = {0};
        struct helper_answer answer;
        size_t count = 0;
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            helper_feed(&reader, text + at, sizeof text - 1 - at < piece ? sizeof text - 1 - at : piece);
            while (helper_next(&reader, &answer, NULL) == 1) {
                assert_int_equal(answer.kind, kinds[count]);
                if (answer.kind == HELPER_STACK)
                    assert_true(answer.id == 3 && answer.size == 1 && answer.first);
                if (answer.kind == HELPER_FRAME)
                    assert_true(answer.id == 7 && strcmp(answer.file, "f.py") == 0 && !*answer.path);
                if (answer.kind == HELPER_PLACE)
                    assert_true(answer.address == 0x20 && answer.size == 0x28 && answer.id == 9);
                if (answer.kind == HELPER_INLINED)
                    assert_true(answer.id == 3 && answer.size == 11 && strcmp(answer.name, "g") == 0);
                if (count == 1) {
                    assert_string_equal(answer.file, "f\ti");
                    assert_string_equal(answer.path, "/proc/1/fd/2");
                    assert_string_equal(answer.text, "no room");
                }
                if (count == 2 || count == 3) {
                    assert_string_equal(answer.text, "why");
                    assert_string_equal(answer.file, count == 2 ? "file" : "");
                }
                if (count == 5) {
                    assert_int_equal(answer.site, HELPER_ENTRY);
                    assert_int_equal(answer.address, 0x1f);
                    assert_int_equal(answer.id, 7);
                    assert_int_equal(answer.code_size, 3);
                    assert_memory_equal(answer.code, "\x00\xaa\xff", 3);
                }
                if (count == 6)
                    assert_int_equal(answer.code_size, 0);
                if (count == 8) {
                    assert_int_equal(answer.site, HELPER_EXIT);
                    assert_string_equal(answer.text, "p->x");
                    assert_int_equal(answer.problem.kind, NUMBER_NO_MEMBER);
                    assert_int_equal(answer.problem.at, 4);
                    assert_string_equal(answer.problem.name, "x");
                }
                if (count == 12)
                    assert_int_equal(answer.size, 4);
                if (count == 13) {
                    assert_int_equal(answer.id, 2);
                    assert_string_equal(answer.name, "n");
                }
                count++;
            }
        }
        assert_int_equal(count, sizeof kinds / sizeof *kinds);
        helper_reader_done(&reader);
    }
}

static void test_wrong_answers(void **state)
{
    static const char *const wrong[] = {
        "ok\tkey\n",
        "ok\tkey\tfile\tmore\n",
        "layout\tx\ty\n",
        "layout\t4294967296\ty\n",
        "site\tentry\t1\t1\t00\n",
        "site\tentry\t0x1\t1\t0\n",
        "site\tentry\t0x1\t1\t0g\n",
        "site\tnever\t0x1\t1\t00\n",
        "problem\tx\ty\n",
        "done\tx\n",
        "ok\tkey\tfi\\le\n",
    };
    struct helper_answer answer;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct helper_reader reader = {0};
        struct err err = {0};
        helper_feed(&reader, wrong[i], strlen(wrong[i]));
        assert_int_equal(helper_next(&reader, &answer, &err), -EBADMSG);
        assert_true(err.text[0] != 0);
        helper_feed(&reader, "done\n", 5);
        assert_int_equal(helper_next(&reader, &answer, NULL), -EBADMSG);
        helper_reader_done(&reader);
    }
    /* a line without end */
    struct helper_reader reader = {0};
    char block[4096];
    int r = 0;
    memset(block, 'x', sizeof block);
    for (size_t i = 0; i <= HELPER_LINE / sizeof block && r == 0; i++) {
        helper_feed(&reader, block, sizeof block);
        r = helper_next(&reader, &answer, NULL);
    }
    assert_int_equal(r, -EBADMSG);
    helper_reader_done(&reader);
    helper_feed(&reader, "do\0ne\n", 6);
    assert_int_equal(helper_next(&reader, &answer, NULL), -EBADMSG);
    helper_reader_done(&reader);
}

/* ---- the program ---- */
struct helper {
    pid_t pid;
    int in, out;
    struct helper_reader reader;
};

static void start(struct helper *helper, const char *const *arguments)
{
    char path[PATH_MAX];
    struct err err = {0};
    char *argv[8] = {path};
    int in[2], out[2];
    if (dirs_libexec("scry-symbols", path, sizeof path, &err) < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; arguments[i]; i++)
        argv[i + 1] = (char *)arguments[i];
    *helper = (struct helper){0};
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    helper->pid = fork();
    if (helper->pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execv(path, argv);
        _exit(99);
    }
    close(in[0]);
    close(out[1]);
    helper->in = in[1];
    helper->out = out[0];
}

/* The next answer; false at the end of what it says. */
static bool next(struct helper *helper, struct helper_answer *ret_answer)
{
    for (;;) {
        struct err err = {0};
        char bytes[4096];
        int r = helper_next(&helper->reader, ret_answer, &err);
        if (r < 0)
            fail_msg("%s", err.text);
        if (r > 0)
            return true;
        ssize_t got = read(helper->out, bytes, sizeof bytes);
        assert_true(got >= 0);
        if (got == 0)
            return false;
        helper_feed(&helper->reader, bytes, (size_t)got);
    }
}

static int finish(struct helper *helper)
{
    int status;
    close(helper->in);
    close(helper->out);
    helper_reader_done(&helper->reader);
    assert_int_equal(waitpid(helper->pid, &status, 0), helper->pid);
    return status;
}

static void test_index(void **state)
{
    struct helper helper;
    struct helper_answer answer;
    struct index *index;
    char key[INDEX_KEY_SIZE];
    support_run("echo 'int main(void) { return 0; }' >prog.c && cc -g -o prog prog.c");
    start(&helper, (const char *const[]){"index", "./prog", "./missing", "prog.c", "./prog", NULL});
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_OK);
    assert_string_equal(answer.file, "./prog");
    assert_int_equal(index_key("prog", key, NULL), 0);
    assert_string_equal(answer.key, key);
    assert_int_equal(index_open_key(&index, key, NULL), 0);
    index_close(index);
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_FAILED);
    assert_string_equal(answer.file, "./missing");
    assert_non_null(strstr(answer.text, "No such file"));
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_FAILED);
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_OK);
    assert_false(next(&helper, &answer));
    assert_int_equal(finish(&helper), 0);
}

/* No cache: the index can be taken from the helper as long as it waits. */
static void test_memory(void **state)
{
    struct helper helper;
    struct helper_answer answer;
    struct index *index;
    struct index_function function;
    support_run("echo 'int main(void) { return 0; }' >prog.c && cc -g -o prog prog.c");
    support_write("file", "", 0);
    char here[PATH_MAX], place[PATH_MAX + 16];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(place, sizeof place, "%s/file", here);
    setenv("SCRY_CACHE_DIR", place, 1);
    start(&helper, (const char *const[]){"index", "./prog", NULL});
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_MEMORY);
    assert_non_null(strstr(answer.text, place));
    assert_int_equal(index_open_file(&index, answer.path, answer.key, NULL), 0);
    assert_int_equal(finish(&helper), 0);
    assert_int_equal(index_find_name(index, "main", &function), 1);
    index_close(index);
}

/* Any number at once: each gives a whole index. */
static void test_at_once(void **state)
{
    enum { HELPERS = 6 };
    struct helper helpers[HELPERS];
    struct helper_answer answer;
    struct index *index;
    support_run("echo 'int main(void) { return 0; }' >prog.c && cc -g -o prog prog.c");
    for (int i = 0; i < HELPERS; i++)
        start(&helpers[i], (const char *const[]){"index", "./prog", NULL});
    for (int i = 0; i < HELPERS; i++) {
        assert_true(next(&helpers[i], &answer));
        assert_int_equal(answer.kind, HELPER_OK);
        assert_int_equal(index_open(&index, "prog", NULL), 0);
        index_close(index);
        assert_int_equal(finish(&helpers[i]), 0);
    }
    support_run("test $(ls -A cache/scry/symbols | wc -l) = 1");
}

static void refused(const char *request, const char *said)
{
    struct helper helper;
    struct helper_answer answer;
    start(&helper, (const char *const[]){"compile", NULL});
    assert_int_equal(write(helper.in, request, strlen(request)), strlen(request));
    close(helper.in);
    helper.in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_FAILED);
    if (!strstr(answer.text, said))
        fail_msg("'%s' was answered by: %s", request, answer.text);
    assert_false(next(&helper, &answer));
    int status = finish(&helper);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void test_refused(void **state)
{
    refused("", "'end'");
    refused("end", "line 1");
    refused("pid\t1\n", "'end'");
    refused("pid\t0\nend\n", "line 1 of the request: expected 'pid PID'");
    refused("pid\t1\ndepth\t17\nend\n", "line 2 of the request: expected 'depth 0..16'");
    refused("bytes\t15\nend\n", "bytes 16..4096");
    refused("depth 3\nend\n", "'depth 3' is not known");
    refused("want\teverything\nend\n", "want args|locals|caller|result|exit-args|patched");
    refused("function\t0x10\nend\n", "after a module");
    refused("module\t/x\t12\nend\n", "module PATH 0xBIAS");
    refused("module\t/x\t0x0\nfunction\t10\nend\n", "function 0xADDRESS");
    refused("param\ta\tb\nend\n", "param EXPRESSION");
    refused("\\q\nend\n", "line 1");
}

/* Nothing can be said of the functions at 0x10 and 0x20, and why. */
static void check_problems(struct helper *helper, const char *why)
{
    struct helper_answer answer;
    for (uint64_t address = 0x10; address <= 0x20; address += 0x10) {
        assert_true(next(helper, &answer));
        assert_int_equal(answer.kind, HELPER_PROBLEM);
        assert_int_equal(answer.address, address);
        assert_true(answer.text[0] != 0);
        assert_non_null(strstr(answer.text, why));
        assert_true(next(helper, &answer));
        assert_true(answer.kind == HELPER_FUNCTION && answer.address == address);
    }
}

static void test_compile(void **state)
{
    struct helper helper;
    struct helper_answer answer;
    struct buf request = BUF_INIT;
    helper_compile_begin(&request, &(struct helper_compile){.pid = getpid(),
                                                            .depth = 99,
                                                            .bytes = 1,
                                                            .array = 4,
                                                            .string = 16,
                                                            .args = true,
                                                            .locals = true,
                                                            .caller = true,
                                                            .result = true,
                                                            .layout = 5});
    helper_compile_module(&request, "/no such\tfile", 0x1000);
    helper_compile_function(&request, 0x10);
    helper_compile_param(&request, "n");
    helper_compile_param(&request, "p->x");
    helper_compile_function(&request, 0x20);
    helper_compile_end(&request);
    assert_false(request.failed);
    start(&helper, (const char *const[]){"compile", NULL});
    assert_int_equal(write(helper.in, request.data, request.len), request.len);
    check_problems(&helper, "");
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_DONE);
    assert_false(next(&helper, &answer));
    assert_int_equal(finish(&helper), 0);
    buf_done(&request);
}

/* Each program without -g is said to be one; the next one is compiled all the same. */
static void test_compile_without_debug(void **state)
{
    struct helper helper;
    struct helper_answer answer;
    struct buf request = BUF_INIT;
    support_run("echo 'int main(void) { return 0; }' >prog.c && cc -g0 -o prog prog.c && cp prog other");
    helper_compile_begin(&request, &(struct helper_compile){.pid = getpid(), .args = true});
    helper_compile_module(&request, "./prog", 0);
    helper_compile_function(&request, 0x10);
    helper_compile_module(&request, "./other", 0);
    helper_compile_function(&request, 0x20);
    helper_compile_end(&request);
    assert_false(request.failed);
    start(&helper, (const char *const[]){"compile", NULL});
    assert_int_equal(write(helper.in, request.data, request.len), request.len);
    check_problems(&helper, "has no debug information: compile with -g");
    assert_true(next(&helper, &answer));
    assert_int_equal(answer.kind, HELPER_DONE);
    assert_false(next(&helper, &answer));
    assert_int_equal(finish(&helper), 0);
    buf_done(&request);
}

static void test_usage(void **state)
{
    struct helper helper;
    start(&helper, (const char *const[]){"nonsense", NULL});
    int status = finish(&helper);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test_setup_teardown(test_index, support_enter, support_leave),
        cmocka_unit_test_setup_teardown(test_memory, support_enter, support_leave),
        cmocka_unit_test_setup_teardown(test_at_once, support_enter, support_leave),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_compile),
        cmocka_unit_test_setup_teardown(test_compile_without_debug, support_enter, support_leave),
        cmocka_unit_test(test_usage),
    };
    return cmocka_run_group_tests_name("helper", tests, NULL, NULL);
}
