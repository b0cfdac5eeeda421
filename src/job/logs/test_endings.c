/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endings of programs, from the lines that they write to the reason that is given: endings.txt has them, and harmless texts.
 * Of endings a few may be missed, of harmless texts none may be taken for an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "job/logs/match.h"
#include "job/logs/patterns.h"
#include "jobdir/layers/last.h"
#include "jobdir/record/model.h"

enum { LEAST_PERCENT = 97, LEAST_CASES = 100 };
static const double ENDED_SECONDS = 100, SAID_SECONDS = 99.9;

static struct job_model model;

static void put_said(void *ctx, enum record_type type, const void *row)
{
    json_t *record = record_json(type, row);
    assert_non_null(record);
    json_object_set_new(record, "t", json_real(SAID_SECONDS));
    job_model_apply(&model, record);
    json_decref(record);
}

static void note_said(void *ctx, struct note note)
{
}

/* The last line, whatever it says: of a program that is not said to have given up with it, for it has told of a step before. */
static void put_last(const struct buf *lines)
{
    const char *end = lines->data + lines->len - 1, *line = end;
    while (line > lines->data && line[-1] != '\n')
        line--;
    json_t *list = json_pack("[ss%]", "step 1", line, (size_t)(end - line));
    if (list) /* not of text that is none */
        put_said(NULL, RECORD_log_last, &(struct log_last_record){.file = "stderr", .lines = list});
    json_decref(list);
}

/* What the reason of a program is that wrote this and ended with 1; *ret_errors: lines that count as errors. */
static void find_reason(struct buf *out, const struct buf *lines, uint64_t *ret_errors)
{
    static const struct log_sink sink = {NULL, put_said, note_said};
    struct log_expressions expressions = {.sink = &sink};
    struct log_matcher matcher = {.file = "stderr", .expressions = &expressions, .rows = LOG_PATTERNS_ALL};
    assert_int_equal(job_model_init(&model, 100), 0);
    log_match_lines(&matcher, NS_PER_SECOND, lines->data, lines->len, false);
    log_match_rest(&matcher, NS_PER_SECOND, true);
    put_last(lines);
    json_t *chain = json_pack("[{s:i, s:s, s:f, s:i, s:n}]", "pid", 10, "name", "model", "end_seconds", ENDED_SECONDS,
                              "exit_code", 1, "signal");
    const struct job_end end = {.model = &model, .chain = chain, .exit_code = 1, .seconds = ENDED_SECONDS};
    struct cause cause;
    cause_find(&end, &cause);
    if (cause.note.kind != NOTE_NONE)
        note_text(out, &cause.note);
    *ret_errors = model.layers.levels[LINE_ERROR];
    cause_done(&cause);
    json_decref(chain);
    log_matcher_done(&matcher);
    log_expressions_done(&expressions);
    job_model_done(&model);
}

/* \e, \r and \\ in a line of the file. */
static void put_line(struct buf *out, const char *line)
{
    for (; *line; line++) {
        if (*line == '\\' && line[1] == 'e')
            buf_putc(out, '\033');
        else if (*line == '\\' && line[1] == 'r')
            buf_putc(out, '\r');
        else {
            buf_putc(out, *line);
            continue;
        }
        line++;
    }
    buf_putc(out, '\n');
}

struct counts {
    unsigned endings, right, harmless, taken;
};

static void judge(struct counts *counts, const char *name, const struct buf *lines, const char *expected)
{
    _cleanup_(buf_done) struct buf reason = BUF_INIT;
    uint64_t errors;
    find_reason(&reason, lines, &errors);
    const char *text = reason.data ? reason.data : "";
    bool right = *expected ? strstr(text, expected) != NULL : !*text && !errors;
    if (!right)
        print_message("%s: \"%s\" (%u errors)%s%s\n", name, text, (unsigned)errors, *expected ? " is not " : "",
                      expected);
    counts->endings += *expected != 0;
    counts->right += *expected && right;
    counts->harmless += !*expected;
    counts->taken += !*expected && !right;
}

static void test_endings(void **state)
{
    static const char head[] = "### ", foot[] = "=>";
    const char *path = getenv("SCRY_TEST_ENDINGS");
    FILE *file = path ? fopen(path, "re") : NULL;
    assert_non_null(file);
    char line[4096], name[100] = "";
    _cleanup_(buf_done) struct buf lines = BUF_INIT;
    struct counts counts = {0};
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, head, sizeof head - 1) == 0) {
            snprintf(name, sizeof name, "%.90s", line + sizeof head - 1);
            buf_clear(&lines);
        } else if (*name && strncmp(line, foot, sizeof foot - 1) == 0 && (line[2] == ' ' || !line[2])) {
            judge(&counts, name, &lines, line[2] ? line + 3 : "");
            *name = 0;
        } else if (*name) {
            put_line(&lines, line);
        }
    }
    fclose(file);
    print_message("%u of %u endings have the right reason, %u of %u harmless texts are taken for errors\n",
                  counts.right, counts.endings, counts.taken, counts.harmless);
    assert_true(counts.endings >= LEAST_CASES && counts.harmless >= LEAST_CASES);
    assert_true(counts.right * 100 >= counts.endings * LEAST_PERCENT);
    assert_int_equal(counts.taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endings),
    };
    return cmocka_run_group_tests_name("endings", tests, NULL, NULL);
}
