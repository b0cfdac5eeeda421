/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/grow.h"
#include "job/logs/patterns.h"
#include "job/logs/words.h"

enum { TEXT_ROOM = LINE_MOST + 8 };

static size_t found_count(const struct log_expressions *expressions)
{
    return log_pattern_count + expressions->given_count;
}

/* The index-th of those that log_matcher.found has. */
static struct log_expression *expression_at(const struct log_expressions *expressions, size_t index)
{
    return index < log_pattern_count ? &expressions->built_in[index] : &expressions->given[index - log_pattern_count];
}

void log_match_forget_given(struct log_matcher *matcher)
{
    matcher->given = 0;
    for (size_t i = log_pattern_count; i < matcher->found_room; i++)
        matcher->found[i] = (struct log_found){0};
}

void log_expressions_done(struct log_expressions *expressions)
{
    for (size_t i = 0; i < expressions->given_count; i++)
        log_regex_free(expressions->given[i].regex);
    for (size_t i = 0; expressions->built_in && i < log_pattern_count; i++)
        log_regex_free(expressions->built_in[i].regex);
    free(expressions->given);
    free(expressions->built_in);
    free(expressions->text);
    words_free(expressions->words);
    *expressions = (struct log_expressions){0};
}

/* What the built-in patterns need, but their expressions. */
static bool prepare(struct log_expressions *expressions, bool built_in)
{
    if (!expressions->text)
        expressions->text = malloc(TEXT_ROOM);
    if (!expressions->built_in)
        expressions->built_in = calloc(log_pattern_count, sizeof *expressions->built_in);
    if (built_in && !expressions->words) {
        const char *words[WORDS_ROWS];
        for (size_t i = 0; i < log_pattern_count; i++)
            words[i] = log_patterns[i].words;
        expressions->words = words_new(words, log_pattern_count);
    }
    return expressions->text && expressions->built_in && (expressions->words || !built_in);
}

static void compile_row(struct log_expression *expression, size_t row)
{
    if (expression->name)
        return; /* also if it failed: no memory */
    expression->name = log_patterns[row].name;
    expression->severity = log_patterns[row].severity;
    if (log_regex_new(&expression->regex, log_patterns[row].expression, NULL) < 0)
        expression->regex = NULL;
}

/* A line that is looked at. */
struct line {
    const char *bytes;
    size_t len;
    bool cut;
    int64_t number;
    uint64_t now_ns;
};

static bool does_match(struct log_matcher *matcher, struct log_expression *expression, const struct line *line)
{
    if (!expression->regex || expression->too_long >= TOO_LONG_MOST)
        return false;
    enum log_match match = log_regex_match(expression->regex, line->bytes, line->len);
    if (match != LOG_MATCH_TOO_LONG)
        return match == LOG_MATCH_YES;
    const struct log_sink *sink = matcher->expressions->sink;
    if (++expression->too_long == 1)
        sink->note(sink->ctx, NOTE(log_pattern_slow, .pattern = expression->name, .file = matcher->file));
    else if (expression->too_long == TOO_LONG_MOST)
        sink->note(sink->ctx, NOTE(log_pattern_off, .pattern = expression->name, .lines = TOO_LONG_MOST));
    return false;
}

/* NULs would end the text. They are written as other bytes are that are no text (jobdir/text).
 * Returns whether all has room. */
static bool copy_text(char *text, const struct line *line)
{
    static const char nul[] = "\\x00";
    size_t used = 0, i = 0;
    for (; i < line->len && used + strlen(nul) < TEXT_ROOM; i++) {
        if (line->bytes[i])
            text[used++] = line->bytes[i];
        else
            used += (size_t)sprintf(text + used, "%s", nul);
    }
    text[used] = 0;
    return i == line->len;
}

static void put_progress(struct log_matcher *matcher, struct log_found *found, uint64_t now_ns, bool end)
{
    const struct log_sink *sink = matcher->expressions->sink;
    if (progress_due(&found->progress, now_ns, end))
        sink->put(sink->ctx,
                  RECORD(progress, .source = matcher->file, .done = found->progress.done,
                         .total = found->progress.total, .left_seconds = progress_left_seconds(&found->progress)));
}

static void record(struct log_matcher *matcher, size_t index, const struct line *line)
{
    struct log_expressions *expressions = matcher->expressions;
    const struct log_expression *expression = expression_at(expressions, index);
    struct log_found *found = &matcher->found[index];
    double done, total;
    uint64_t folded = 0;
    if (log_regex_number(expression->regex, line->bytes, "n", &done) &&
        log_regex_number(expression->regex, line->bytes, "total", &total)) {
        progress_take(&found->progress, line->now_ns, done, total);
        put_progress(matcher, found, line->now_ns, false);
    }
    if (!fold_take(&found->fold, line->now_ns, &folded))
        return;
    json_t *fields = log_regex_fields(expression->regex, line->bytes);
    bool whole = copy_text(expressions->text, line) && !line->cut;
    expressions->sink->put(expressions->sink->ctx,
                           RECORD(log, .file = matcher->file, .pattern = expression->name,
                                  .level = log_severity_names[expression->severity], .text = expressions->text,
                                  .text_cut = !whole, .line = line->number, .folded = folded, .fields = fields));
    json_decref(fields);
}

static void match_given(struct log_matcher *matcher, const struct line *line)
{
    for (uint64_t rest = matcher->given; rest; rest &= rest - 1) {
        size_t index = (size_t)__builtin_ctzll(rest);
        if (does_match(matcher, &matcher->expressions->given[index], line))
            record(matcher, log_pattern_count + index, line);
    }
}

/* The first row that matches is what the line is about. */
static void match_rows(struct log_matcher *matcher, uint64_t rows, const struct line *line)
{
    static const char own[] = "scry: ", log[] = "scry run: ";
    if ((line->len >= sizeof own && memcmp(line->bytes, own, sizeof own - 1) == 0) ||
        (line->len >= sizeof log && memcmp(line->bytes, log, sizeof log - 1) == 0))
        return; /* what scry run itself writes to standard error */
    for (uint64_t rest = rows & matcher->rows; rest; rest &= rest - 1) {
        size_t row = (size_t)__builtin_ctzll(rest);
        struct log_expression *expression = &matcher->expressions->built_in[row];
        compile_row(expression, row);
        if (does_match(matcher, expression, line)) {
            record(matcher, row, line);
            return;
        }
    }
}

void log_match_lines(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len, bool cut)
{
    struct log_expressions *expressions = matcher->expressions;
    if (!prepare(expressions, matcher->rows != 0))
        return;
    if (!GROW_ZERO_TO(matcher->found, found_count(expressions), matcher->found_room))
        return;
    size_t counted = 0, at = 0;
    while (at < len) {
        if (!matcher->given && (at = words_find(expressions->words, bytes, len, at)) == len)
            break;
        struct line_place place = line_at(bytes, len, at);
        struct line line = {place.start, place.len, cut, -1, now_ns};
        for (; line.len && !*line.bytes; line.len--)
            line.bytes++; /* a hole: the file was made empty, and its writer went on where it was */
        if (line.len > LINE_MOST) {
            line.len = LINE_MOST;
            line.cut = true;
        }
        if (matcher->line >= 0) {
            size_t start = (size_t)(place.start - bytes);
            matcher->line += (int64_t)lines_count(bytes + counted, start - counted);
            counted = start;
            line.number = matcher->line + 1;
        }
        match_given(matcher, &line);
        if (matcher->rows)
            match_rows(matcher, words_rows(expressions->words, line.bytes, line.len), &line);
        at = place.next;
    }
    if (matcher->line >= 0)
        matcher->line += (int64_t)lines_count(bytes + counted, len - counted);
}

void log_match_rest(struct log_matcher *matcher, uint64_t now_ns, bool end)
{
    const struct log_sink *sink = matcher->expressions->sink;
    for (size_t i = 0; i < matcher->found_room && i < found_count(matcher->expressions); i++) {
        struct log_found *found = &matcher->found[i];
        const struct log_expression *expression = expression_at(matcher->expressions, i);
        put_progress(matcher, found, now_ns, end);
        uint64_t rest = fold_rest(&found->fold, now_ns, end);
        if (rest)
            sink->put(sink->ctx, RECORD(log_folded, .file = matcher->file, .pattern = expression->name,
                                        .level = log_severity_names[expression->severity], .lines = rest));
    }
}
