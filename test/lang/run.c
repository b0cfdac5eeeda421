/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs program / input / output triples against the request language. A file holds cases separated by empty lines; a
 * line that starts with '%' is a comment, the last one before a case is its name. Each case has three lines:
 *
 *     request              or: values, or: check SIGNATURE; with a "c-escapes " before it, the input line is first read
 *     : print( [ 0x10 ] )      like the inside of a C string, so that newlines and NULs can be written down
 *     :print([16])         the canonical form; for `check`, the arguments as a handler gets them;
 *                          or "!CODE MESSAGE", CODE being EINVAL, ERANGE or E2BIG
 *
 * What is accepted must also come out again when its canonical form is read. Output: TAP.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "lang/request.h"
#include "lang/signature.h"

enum { CASE_LINES = 3 };

struct test {
    const char *file;
    unsigned line; /* of the program */
    struct span name, lines[CASE_LINES];
    unsigned count;
};

static unsigned number, failures;

static const char *code_name(int code)
{
    return code == -EINVAL ? "EINVAL" : code == -ERANGE ? "ERANGE" : code == -E2BIG ? "E2BIG" : "another error";
}

static void print_values(struct buf *out, const struct value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i)
            buf_putc(out, ',');
        value_print(out, &values[i]);
    }
}

static int run_check(struct arena *arena, const char *signature_text, struct span input, struct buf *out,
                     struct err *err)
{
    struct signature signature;
    struct request request;
    const struct value *args;
    int code = signature_parse(arena, signature_text, &signature, err);
    if (code == 0)
        code = request_parse(arena, input, &request, err);
    if (code < 0)
        return code;
    const struct call_text *call = &request.actions[0];
    if (signature_check(&signature, call->name, call->args, call->argc, arena, &args, err) != CHECK_OK)
        return err->code;
    print_values(out, args, signature.param_count);
    return 0;
}

/* Runs one program; 0 and its output, or the error. -ENOENT: there is no such program. */
static int run_program(struct arena *arena, const char *program, struct span input, struct buf *out, struct err *err)
{
    if (strcmp(program, "request") == 0) {
        struct request request;
        int code = request_parse(arena, input, &request, err);
        if (code == 0)
            request_print(out, &request);
        return code;
    }
    if (strcmp(program, "values") == 0) {
        const struct value *values;
        size_t count;
        int code = values_parse(arena, input, &values, &count, err);
        if (code == 0)
            print_values(out, values, count);
        return code;
    }
    if (strncmp(program, "check ", 6) == 0)
        return run_check(arena, program + 6, input, out, err);
    return err_set(err, -ENOENT, "there is no program '%s'", program);
}

/* The line as the inside of a C string. */
static struct span unescape(struct arena *arena, struct span line)
{
    char *copy = arena_alloc(arena, line.len + 1), *out = copy;
    for (const char *at = line.ptr, *end = at + line.len; at < end; at++) {
        if (*at != '\\' || at + 1 == end) {
            *out++ = *at;
            continue;
        }
        at++;
        const char *letters = "nrtvf0", *found = strchr(letters, *at);
        *out++ = found ? "\n\r\t\v\f\0"[found - letters] : *at;
    }
    return span_of(copy, (size_t)(out - copy));
}

/* What is printed for the input: the output, or "!CODE MESSAGE". */
static int evaluate(struct arena *arena, const char *program, struct span input, struct buf *out)
{
    struct err err = {0};
    int code = run_program(arena, program, input, out, &err);
    if (code < 0)
        buf_printf(out, "!%s %s", code_name(code), err.text);
    return code;
}

static void run_test(const struct test *test)
{
    struct arena arena = ARENA_INIT;
    struct buf out = BUF_INIT, again = BUF_INIT;
    const char *program = arena_dup(&arena, test->lines[0].ptr, test->lines[0].len);
    struct span input = test->lines[1];
    if (strncmp(program, "c-escapes ", 10) == 0) {
        program += 10;
        input = unescape(&arena, input);
    }
    const char *problem = NULL;
    if (test->count != CASE_LINES) {
        problem = "a case has three lines";
    } else {
        int code = evaluate(&arena, program, input, &out);
        if (!span_eq(span_of(out.data, out.len), test->lines[2]))
            problem = "got something else";
        else if (code == 0 && strncmp(program, "check ", 6) != 0 &&
                 (evaluate(&arena, program, span_of(out.data, out.len), &again) < 0 ||
                  !span_eq(span_of(out.data, out.len), span_of(again.data, again.len))))
            problem = "the canonical form is read differently";
    }
    const char *base = strrchr(test->file, '/') ? strrchr(test->file, '/') + 1 : test->file;
    printf("%sok %u - %s:%u %.*s\n", problem ? "not " : "", ++number, base, test->line, SPAN_ARG(test->name));
    if (problem) {
        failures++;
        printf("# %s:%u: %s\n#  program: %s\n#  input: %.*s\n#  expected: %.*s\n#  got: %s\n", test->file, test->line,
               problem, program, SPAN_ARG(test->lines[1]), SPAN_ARG(test->lines[2]), out.data ? out.data : "");
    }
    buf_done(&out);
    buf_done(&again);
    arena_done(&arena);
}

static void run_file(const char *path)
{
    _cleanup_(freep) char *text = NULL;
    size_t len;
    int code = file_read(path, &text, &len);
    if (code < 0) {
        printf("not ok %u - %s: %s\n", ++number, path, strerror(-code));
        failures++;
        return;
    }
    struct test test = {.file = path};
    unsigned line_number = 0;
    for (char *at = text, *end = text + len; at <= end;) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        struct span line = span_of(at, (size_t)((newline ? newline : end) - at));
        at = newline ? newline + 1 : end + 1;
        line_number++;
        if (line.len && line.ptr[0] == '%' && test.count == 0) {
            size_t skip = line.len > 1 && line.ptr[1] == ' ' ? 2 : 1;
            test.name = span_of(line.ptr + skip, line.len - skip);
        } else if (line.len) {
            if (test.count == 0)
                test.line = line_number;
            if (test.count < CASE_LINES)
                test.lines[test.count] = line;
            test.count++;
        }
        if (!line.len || at > end) {
            if (test.count)
                run_test(&test);
            test = (struct test){.file = path, .name = test.count ? span_of(NULL, 0) : test.name};
        }
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_file(argv[i]);
    printf("1..%u\n", number);
    return failures || !number;
}
