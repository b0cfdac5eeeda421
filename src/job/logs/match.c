/* SPDX-License-Identifier: Apache-2.0 */
#include "job/logs/match.h"

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"
#include "symbols/python/python.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line that announces a message, and what may be that (struct log_pattern). */
enum log_head_part { LOG_HEAD, LOG_HEAD_THEN, LOG_HEAD_OTHERWISE, LOG_HEAD_PARTS };

char *lines_room(struct lines *lines, size_t *ret_room)
{
    if (!lines->bytes)
        lines->bytes = malloc(LINES_ROOM);
    *ret_room = LINES_ROOM - lines->len;
    return lines->bytes ? lines->bytes + lines->len : NULL;
}

static bool is_end(char c)
{
    return c == '\n' || c == '\r';
}

/* Behind the last end of a line in bytes[from...len]; from: there is none. */
static size_t behind_last(const char *bytes, size_t from, size_t len)
{
    while (len > from && !is_end(bytes[len - 1]))
        len--;
    return len;
}

/* In steps, so that blocks with only one of the two are not searched to their ends for the other again and again. */
static size_t first_end(const char *bytes, size_t from, size_t len)
{
    enum { STEP = 256 };
    for (; from < len; from += STEP) {
        size_t step = len - from < STEP ? len - from : STEP;
        const char *newline = memchr(bytes + from, '\n', step);
        const char *end = memchr(bytes + from, '\r', newline ? (size_t)(newline - bytes) - from : step);
        end = end ? end : newline;
        if (end)
            return (size_t)(end - bytes);
    }
    return len;
}

void lines_take(struct lines *lines, size_t len, lines_fn *each, void *ctx)
{
    size_t start = 0, old = lines->len, end = old + len;
    if (lines->passing) {
        start = first_end(lines->bytes, 0, end);
        lines->passing = start == end;
    }
    size_t whole = behind_last(lines->bytes, start > old ? start : old, end);
    if (whole > start && whole > old) {
        each(ctx, lines->bytes + start, whole - start, false);
        start = whole;
    }
    while (end - start >= LINE_MOST && !lines->bytes[start])
        start++; /* a hole is not the beginning of a line */
    if (end - start >= LINE_MOST) {
        each(ctx, lines->bytes + start, LINE_MOST, true);
        lines->passing = true;
        start = end;
    }
    memmove(lines->bytes, lines->bytes + start, end - start);
    lines->len = end - start;
}

void lines_end(struct lines *lines, lines_fn *each, void *ctx)
{
    if (lines->len)
        each(ctx, lines->bytes, lines->len, false);
    lines_reset(lines, false);
}

void lines_reset(struct lines *lines, bool inside)
{
    lines->len = 0;
    lines->passing = inside;
}

void lines_rest(struct lines *lines)
{
    if (lines->len)
        return;
    free(lines->bytes);
    lines->bytes = NULL;
}

void lines_done(struct lines *lines)
{
    free(lines->bytes);
    *lines = (struct lines){0};
}

struct line_place line_at(const char *bytes, size_t len, size_t at)
{
    size_t start = behind_last(bytes, 0, at), end = first_end(bytes, at, len);
    return (struct line_place){bytes + start, end - start, end + (end < len)};
}

/* How many \n there are. */
static uint64_t lines_count(const char *bytes, size_t len)
{
    uint64_t count = 0;
    for (const char *at = bytes, *end = bytes + len; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        count++;
    return count;
}

#define MINUTE_NS (60 * (uint64_t)NS_PER_SECOND)

/* A bucket of `most` that fills up in `period_ns` is kept as the moment at which it is full. */
static uint64_t after_one(uint64_t full_ns, uint64_t now_ns, uint64_t period_ns, uint64_t most)
{
    return (full_ns > now_ns ? full_ns : now_ns) + period_ns / most;
}

bool fold_take(struct fold *fold, uint64_t now_ns, uint64_t *ret_folded)
{
    uint64_t second = after_one(fold->second_ns, now_ns, NS_PER_SECOND, FOLD_SECOND_MOST);
    uint64_t minute = after_one(fold->minute_ns, now_ns, MINUTE_NS, FOLD_MINUTE_MOST);
    if (second > now_ns + NS_PER_SECOND || minute > now_ns + MINUTE_NS) {
        fold->folded++;
        fold->last_ns = now_ns;
        return false;
    }
    fold->second_ns = second;
    fold->minute_ns = minute;
    *ret_folded = fold->folded;
    fold->folded = 0;
    return true;
}

/* The lines without a record that are to be reported now, for none has followed for a minute; `end`: in any case. */
static uint64_t fold_rest(struct fold *fold, uint64_t now_ns, bool end)
{
    if (!fold->folded || (!end && now_ns < fold->last_ns + MINUTE_NS))
        return 0;
    uint64_t rest = fold->folded;
    fold->folded = 0;
    return rest;
}

enum {
    TEXT_ROOM = LINE_MOST + 8,
    ROWS_MOST = 4096,   /* of a line that the built-in patterns look at: what they look for stands at its beginning */
    HEAD_MOST = 1024,   /* of a line that announces a message */
    LAST_COLUMNS = 140, /* of that, where the last of several messages stands behind it */
    OTHER_LINES = 4,    /* that may still be the message, after one that is taken if there is none */
    LABEL_MOST = 40,    /* "[node7:4711] " */
    FEW_LINES = 100,
    LONG_RESTS = 20,
};

static size_t found_count(const struct log_expressions *expressions)
{
    return log_pattern_count + expressions->given_count;
}

/* The index-th of those that log_matcher.found has. */
static struct log_expression *expression_at(const struct log_expressions *expressions, size_t index)
{
    return index < log_pattern_count ? &expressions->built_in[index] : &expressions->given[index - log_pattern_count];
}

void log_matcher_done(struct log_matcher *matcher)
{
    free(matcher->found);
    free(matcher->head.text);
    free(matcher->metrics);
    matcher->found = NULL;
    matcher->metrics = NULL;
    matcher->head = (struct log_head){0};
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
    for (size_t i = 0; expressions->heads && i < LOG_HEAD_PARTS * log_pattern_count; i++)
        log_regex_free(expressions->heads[i].regex);
    log_regex_free(expressions->harmless.regex);
    free(expressions->given);
    free(expressions->built_in);
    free(expressions->heads);
    free(expressions->text);
    free(expressions->plain);
    words_free(expressions->words);
    *expressions = (struct log_expressions){0};
}

/* What the built-in patterns need, but their expressions. */
static bool prepare(struct log_expressions *expressions, bool built_in)
{
    if (!expressions->text)
        expressions->text = malloc(TEXT_ROOM);
    if (!expressions->plain)
        expressions->plain = malloc(LINE_MOST);
    if (!expressions->built_in)
        expressions->built_in = calloc(log_pattern_count, sizeof *expressions->built_in);
    if (!expressions->heads)
        expressions->heads = calloc(LOG_HEAD_PARTS * log_pattern_count, sizeof *expressions->heads);
    if (built_in && !expressions->words) {
        const char *words[WORDS_ROWS];
        for (size_t i = 0; i < log_pattern_count; i++)
            words[i] = log_patterns[i].words;
        expressions->words = words_new(words, log_pattern_count);
    }
    return expressions->text && expressions->plain && expressions->built_in && expressions->heads &&
           (expressions->words || !built_in);
}

static struct log_expression *compiled(struct log_expression *expression, const struct log_pattern *row,
                                       const char *text)
{
    if (expression->name)
        return expression; /* also if it failed: no memory */
    expression->name = row ? row->name : "harmless";
    expression->severity = row ? row->severity : LOG_SEVERITY_DEBUG;
    if (log_regex_new(&expression->regex, text, NULL) < 0)
        expression->regex = NULL;
    return expression;
}

/* Without the expression of what is harmless, that would be errors: it is never switched off. */
static bool does_match(struct log_matcher *matcher, struct log_expression *expression, const struct log_line *line)
{
    bool stays = expression == &matcher->expressions->harmless;
    if (!expression->regex || (expression->too_long >= TOO_LONG_MOST && !stays))
        return false;
    enum log_match match = log_regex_match(expression->regex, line->bytes, line->len);
    if (match != LOG_MATCH_TOO_LONG)
        return match == LOG_MATCH_YES;
    const struct log_sink *sink = matcher->expressions->sink;
    if (++expression->too_long == 1)
        sink->note(sink->ctx, NOTE(log_pattern_slow, .pattern = expression->name, .file = matcher->file));
    else if (expression->too_long == TOO_LONG_MOST && !stays)
        sink->note(sink->ctx, NOTE(log_pattern_off, .pattern = expression->name, .lines = TOO_LONG_MOST));
    return false;
}

/* NULs would end the text. They are written as other bytes are that are no text (jobdir/text).
 * Returns whether all has room. */
static bool copy_text(char *text, const struct log_line *line)
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

static void put_progress(struct log_matcher *matcher, struct log_progress *progress, uint64_t now_ns, bool end)
{
    const struct log_sink *sink = matcher->expressions->sink;
    if (log_progress_due(progress, now_ns, end))
        sink->put(sink->ctx, RECORD(progress, .source = matcher->file, .done = progress->done, .total = progress->total,
                                    .left_seconds = progress->total > 0 ? log_progress_left_seconds(progress) : -1));
}

static void put_metrics(struct log_matcher *matcher, uint64_t now_ns, bool end)
{
    const struct log_sink *sink = matcher->expressions->sink;
    struct metric_record told;
    for (size_t i = 0; matcher->metrics && i < matcher->metrics->used; i++)
        if (log_metric_tell(&matcher->metrics->all[i], matcher->file, now_ns, end, &told))
            sink->put(sink->ctx, RECORD_metric, &told);
}

/* The number that the first group of the expression has. */
static void take_metric(struct log_matcher *matcher, const char *name, const struct log_regex *regex,
                        const struct log_line *line)
{
    double value;
    if (log_regex_first_number(regex, line->bytes, &value) &&
        (matcher->metrics || (matcher->metrics = calloc(1, sizeof *matcher->metrics))))
        log_metric_take(matcher->metrics, name, value);
}

void log_match_progress(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len)
{
    enum { LINES_LOOKED = 8, LINE_LOOKED = 256, LINES_OVER = 1000 };
    bool progress = true, metrics = true;
    for (size_t i = 0; i < matcher->expressions->given_count; i++) {
        const struct log_expression *given = &matcher->expressions->given[i];
        progress &= !given->regex || given->metric;
        metrics &= !given->metric;
    }
    metrics = metrics && (matcher->metrics || (matcher->metrics = calloc(1, sizeof *matcher->metrics)));
    struct line_place places[LINES_LOOKED];
    size_t count = 0;
    for (size_t end = len, over = 0; end > 0 && count < LINES_LOOKED && over < LINES_OVER;) {
        places[count] = line_at(bytes, len, end - 1);
        end = (size_t)(places[count].start - bytes);
        size_t behind = end + places[count].len;
        bool drawn_over = behind + 1 < len && bytes[behind] == '\r' && bytes[behind + 1] != '\n';
        if (!places[count].len || drawn_over) /* of a bar, but its last state */
            over++;
        else
            count++;
    }
    while (count-- > 0) {
        char text[LINE_LOOKED];
        size_t line_len = places[count].len < sizeof text - 1 ? places[count].len : sizeof text - 1;
        if (log_is_own(places[count].start, line_len))
            continue;
        memcpy(text, places[count].start, line_len);
        line_len = log_take_colours(text, line_len);
        text[line_len] = 0;
        if (progress)
            log_said_take(&matcher->said, now_ns, text);
        if (metrics)
            log_metrics_parse(matcher->metrics, text);
    }
    put_progress(matcher, &matcher->said.progress, now_ns, false);
}

static void record(struct log_matcher *matcher, size_t index, const struct log_line *line)
{
    struct log_expressions *expressions = matcher->expressions;
    const struct log_expression *expression = expression_at(expressions, index);
    struct log_found *found = &matcher->found[index];
    double done, total;
    uint64_t folded = 0;
    if (expression->metric) {
        take_metric(matcher, expression->metric, expression->regex, line);
        return;
    }
    if (log_regex_number(expression->regex, line->bytes, "n", &done) &&
        log_regex_number(expression->regex, line->bytes, "total", &total)) {
        log_progress_take(&found->progress, line->now_ns, done, total);
        put_progress(matcher, &found->progress, line->now_ns, false);
    }
    if (!fold_take(&found->fold, line->now_ns, &folded))
        return;
    json_t *fields = log_regex_fields(expression->regex, line->bytes);
    bool whole = copy_text(expressions->text, line) && !line->cut;
    const struct log_sink *sink = expressions->sink;
    sink->put(sink->ctx,
              RECORD(log, .file = matcher->file, .pattern = expression->name,
                     .level = log_severity_names[expression->severity], .text = expressions->text, .text_cut = !whole,
                     .line = line->number, .folded = folded, .fields = fields, .place = line->place,
                     .above = line->above, .written = sink->seconds ? sink->seconds(sink->ctx, line->now_ns) : 0));
    json_decref(fields);
}

static void match_given(struct log_matcher *matcher, const struct log_line *line)
{
    for (uint64_t rest = matcher->given; rest; rest &= rest - 1) {
        size_t index = (size_t)__builtin_ctzll(rest);
        if (does_match(matcher, &matcher->expressions->given[index], line))
            record(matcher, log_pattern_count + index, line);
    }
}

/* ---- the built-in patterns ---- */

static bool matches_row(struct log_matcher *matcher, size_t row, const struct log_line *line)
{
    return does_match(matcher,
                      compiled(&matcher->expressions->built_in[row], &log_patterns[row], log_patterns[row].expression),
                      line);
}

/* What the line is about: of the rows that match, the first of the most severe ones. log_pattern_count: none. */
static size_t find_row(struct log_matcher *matcher, const struct log_line *line)
{
    uint64_t rows = words_rows(matcher->expressions->words, line->bytes, line->len) & matcher->rows;
    size_t best = log_pattern_count;
    for (; rows; rows &= rows - 1) {
        size_t row = (size_t)__builtin_ctzll(rows);
        bool better = best == log_pattern_count || log_patterns[row].severity < log_patterns[best].severity;
        if (better && matches_row(matcher, row, line))
            best = row;
    }
    return best;
}

/* What a launcher has put before the lines of a rank: "[2] ", "[node7:4711] ", "[1,0]<stderr>:", "2: ". */
static size_t label_len(const struct log_line *line)
{
    size_t most = line->len < LABEL_MOST ? line->len : LABEL_MOST, at = 0;
    const char *bytes = line->bytes, *end = most && *bytes == '[' ? memchr(bytes, ']', most) : NULL;
    if (end) {
        at = (size_t)(end - bytes) + 1;
        static const char stream[] = "<stderr>";
        if (line->len - at >= sizeof stream - 1 && memcmp(bytes + at, stream, sizeof stream - 1) == 0)
            at += sizeof stream - 1;
        at += at < line->len && bytes[at] == ':';
    } else {
        while (at < most && bytes[at] >= '0' && bytes[at] <= '9')
            at++;
        if (!at || at == line->len || bytes[at++] != ':')
            return 0;
    }
    return at + (at < line->len && bytes[at] == ' ');
}

static bool matches_part(struct log_matcher *matcher, size_t row, enum log_head_part part, const struct log_line *line)
{
    const struct log_pattern *pattern = &log_patterns[row];
    const char *const parts[LOG_HEAD_PARTS] = {pattern->head, pattern->then, pattern->otherwise};
    return parts[part] &&
           does_match(matcher,
                      compiled(&matcher->expressions->heads[LOG_HEAD_PARTS * row + part], pattern, parts[part]), line);
}

/* The length of the blank, or of the piece of a box (U+2500 to U+257F), that the bytes begin with; 0: they do not. */
static size_t blank_len(const char *bytes, size_t len)
{
    static const char pieces[] = "\xe2\x94\x80";
    if (len && (*bytes == ' ' || *bytes == '\t'))
        return 1;
    bool piece = len >= strlen(pieces) && bytes[0] == pieces[0] && (bytes[1] == '\x94' || bytes[1] == '\x95');
    return piece ? strlen(pieces) : 0;
}

/* Whether it is in a box, as rich draws it. */
static bool in_box(const char *bytes, size_t len)
{
    return blank_len(bytes, len) > 1;
}

/* Takes blanks and a box off both ends. */
static void take_blanks(const char **bytes, size_t *len)
{
    for (size_t blank; (blank = blank_len(*bytes, *len)) > 0; *len -= blank)
        *bytes += blank;
    for (size_t back = 1, most = 3; back <= most && back <= *len;) {
        bool blank = blank_len(*bytes + *len - back, back) == back;
        *len -= blank ? back : 0;
        back = blank ? 1 : back + 1;
    }
}

/* Of a traceback of Python: '  File "run.py", line 3, in step', or in a box '│ run.py:3 in step'. */
static void take_place(struct log_head *head, const struct log_line *line)
{
    char text[sizeof head->place + 64], file[sizeof head->place - 10], number[10];
    static const char in[] = " in ";
    const char *at = text;
    bool box = false;
    snprintf(text, sizeof text, "%.*s", (int)line->len, line->bytes);
    for (size_t blank; *at && ((blank = blank_len(at, strlen(at))) > 0 || *at == '|' || *at == '+');) {
        box |= *at != ' ';
        at += blank ? blank : 1;
    }
    const char *name = strstr(at, in);
    if (at == text || (sscanf(at, "File \"%245[^\"]\", line %9[0-9]", file, number) != 2 &&
                       !(box && name && sscanf(at, "%245[^][(){}: ]:%9[0-9]", file, number) == 2)))
        return;
    /* Cython has only names in its package: what a library called is of that */
    head->library = !python_is_own_code(file) ||
                    (*file != '/' && ((name && strchr(name, '.')) ||
                                      (head->library && (strstr(file, ".pyx") || strstr(file, ".pxi")))));
    if (!head->library)
        snprintf(head->place, sizeof head->place, "%s:%s", file, number);
}

/* 'At line 11 of file a.f90 (unit = 10)' of gfortran. */
static void take_fortran_place(struct log_head *head, const struct log_line *line)
{
    static const char begin[] = "At line ", middle[] = " of file ", unit[] = " (unit = ";
    if (line->len < sizeof begin || memcmp(line->bytes, begin, sizeof begin - 1) != 0)
        return;
    const char *number = line->bytes + sizeof begin - 1, *end = line->bytes + line->len;
    const char *name = memmem(number, (size_t)(end - number), middle, sizeof middle - 1);
    if (!name)
        return;
    size_t digits = (size_t)(name - number);
    name += sizeof middle - 1;
    const char *stop = memmem(name, (size_t)(end - name), unit, sizeof unit - 1);
    size_t length = (size_t)((stop ? stop : end) - name);
    if (length + digits + 2 <= sizeof head->place)
        snprintf(head->place, sizeof head->place, "%.*s:%.*s", (int)length, name, (int)digits, number);
}

/* 'src/model.f90:7:4:' of gfortran, which stands above the line of the source and its error. */
static bool take_compiled_place(struct log_head *head, const struct log_line *line)
{
    enum { LINES_BETWEEN = 4 };
    static const char *const errors[] = {"Error: ", "Fatal Error: "};
    size_t at = line->at;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (line->len > strlen(errors[i]) && memcmp(line->bytes, errors[i], strlen(errors[i])) == 0)
            for (size_t k = 0; k <= LINES_BETWEEN && at; k++) {
                struct line_place above = line_at(line->block, line->at, at - 1);
                char text[sizeof head->place + 1], name[sizeof head->place - 20], number[10];
                int used = 0;
                snprintf(text, sizeof text, "%.*s", (int)above.len, above.start);
                at = (size_t)(above.start - line->block);
                if (sscanf(text, "%235[^:| ]:%9[0-9]:%*9[0-9]:%n", name, number, &used) != 2 || !used || text[used])
                    continue;
                snprintf(head->place, sizeof head->place, "%s:%s", name, number);
                return true;
            }
    return false;
}

/* The first line of a block follows the last one of the block before. */
static void take_above(struct log_matcher *matcher, const struct log_line *line)
{
    struct line_place above = line->at ? line_at(line->block, line->at, line->at - 1)
                                       : (struct line_place){matcher->above, matcher->above_len, 0};
    size_t len = above.len < LOG_ABOVE_MOST ? above.len : LOG_ABOVE_MOST;
    memcpy(matcher->head.above, above.start, len);
    matcher->head.above[len] = '\0';
}

static void head_set(struct log_head *head, size_t row, const struct log_line *line)
{
    head->row = row;
    head->number = line->number;
    head->now_ns = line->now_ns;
    head->lines = log_patterns[row].lines;
    head->other.len = 0;
    head->other_recorded = false;
}

/* It announces a message: then it is no record before that comes. */
static bool begin_head(struct log_matcher *matcher, size_t row, const struct log_line *line)
{
    struct log_head *head = &matcher->head;
    if (head->lines || line->len > HEAD_MOST || line->cut || !matches_part(matcher, row, LOG_HEAD, line))
        return false;
    if (!head->text &&
        !(head->text = malloc(3 * HEAD_MOST + 1))) /* its message stands behind it, another one behind that */
        return false;
    memcpy(head->text, line->bytes, line->len);
    head->len = line->len;
    head->label_len = label_len(line);
    head_set(head, row, line);
    head->place[0] = '\0';
    head->library = false;
    struct log_line rest = *line;
    rest.bytes += head->label_len;
    rest.len -= head->label_len;
    take_place(head, &rest);
    take_fortran_place(head, &rest);
    take_above(matcher, line);
    return true;
}

/* With its message, or what may be that, or without. Rows that nobody wants are none of it. */
static void end_head(struct log_matcher *matcher, const struct log_line *message)
{
    static const char told[] =
        "CalledProcessError: Command "; /* of Python: something failed, which may have said why */
    struct log_head *head = &matcher->head;
    if (!message && head->other.len && !head->other_recorded)
        message = &head->other;
    struct log_line line = {head->text, head->len, false, head->number, head->now_ns};
    size_t row = head->row;
    head->lines = 0;
    if (message) {
        const char *bytes = message->bytes;
        size_t len = message->len < HEAD_MOST ? message->len : HEAD_MOST, used = head->len;
        line.cut = message->cut || len < message->len;
        if (log_patterns[row].message) {
            used = head->label_len;
            line.number = message->number;
        } else {
            const char *text = head->text;
            bool boxed = in_box(text, used);
            take_blanks(&text, &used);
            used = log_patterns[row].take == LOG_TAKE_LAST ? text_fit(text, used, LAST_COLUMNS) : used;
            memmove(head->text, text, used);
            if (used && (boxed || log_patterns[row].take) && isalnum((unsigned char)head->text[used - 1]))
                head->text[used++] = ':';
            if (used)
                head->text[used++] = ' ';
        }
        take_blanks(&bytes, &len);
        memmove(head->text + used, bytes, len);
        line.len = used + len;
        line.now_ns = message->now_ns;
        size_t found = find_row(matcher, &line), other = 0;
        while (log_patterns[row].message && strcmp(log_patterns[other].name, log_patterns[row].message) != 0)
            other++;
        row = log_patterns[row].message && matcher->rows >> other & 1 ? other : row;
        row = found < log_pattern_count && log_patterns[found].severity <= log_patterns[row].severity ? found : row;
    }
    if (!message) { /* "RuntimeError: " */
        while (line.len > 1 && line.bytes[line.len - 1] == ' ')
            line.len--;
        line.len -= line.len > 1 && line.bytes[line.len - 1] == ':';
    }
    const struct log_expression *expression =
        compiled(&matcher->expressions->built_in[row], &log_patterns[row], log_patterns[row].expression);
    line.place = *head->place ? head->place : NULL;
    line.above = *head->above && memmem(line.bytes, line.len, told, sizeof told - 1) ? head->above : NULL;
    if (matcher->rows >> row & 1)
        record(matcher, expression->regex ? row : head->row, &line);
}

/* Behind the first `from` bytes of what was kept. */
static void keep_other(struct log_head *head, const struct log_line *line, size_t from)
{
    char *room = head->text + 2 * HEAD_MOST;
    size_t len = line->len < HEAD_MOST - from ? line->len : HEAD_MOST - from;
    memcpy(room + from, line->bytes, len);
    head->other = *line;
    head->other.cut = line->cut || len < line->len;
    head->other.len = from + len;
    head->other.bytes = room;
}

/* One of several lines with its message (enum log_take). */
static void take_part(struct log_head *head, struct log_line line)
{
    static const char between[] = {':', ' '}, listed[] = {',', ' '};
    const struct log_pattern *pattern = &log_patterns[head->row];
    size_t from = pattern->take == LOG_TAKE_ALL ? head->other.len : 0;
    while (line.len && (*line.bytes == ' ' || *line.bytes == '\t')) {
        line.bytes++;
        line.len--;
    }
    if (from && from + sizeof between > HEAD_MOST)
        return;
    if (from) {
        memcpy(head->text + 2 * HEAD_MOST + from, isdigit((unsigned char)*head->other.bytes) ? listed : between,
               sizeof between);
        from += sizeof between;
    }
    keep_other(head, &line, from);
}

/* The message of a traceback may announce one itself: it is empty, or of a notebook. What it says goes on with the traceback's place. */
static bool goes_on(struct log_matcher *matcher, const struct log_line *message)
{
    struct log_head *head = &matcher->head;
    size_t row = log_patterns[head->row].otherwise ? find_row(matcher, message) : log_pattern_count;
    if (row == log_pattern_count || row == head->row || head->label_len + message->len > HEAD_MOST ||
        !matches_part(matcher, row, LOG_HEAD, message))
        return false;
    memcpy(head->text + head->label_len, message->bytes, message->len);
    head->len = head->label_len + message->len;
    head_set(head, row, message);
    if (log_patterns[row].message)
        head->place[0] = '\0'; /* of what ran it */
    return true;
}

/* A line while a message is awaited: that, or a part of it; kept as what may be it; another one of this program, of which
 * only errors of another kind count then; one of others. */
enum awaited { AWAITED_TAKEN, AWAITED_KEPT, AWAITED_ANOTHER, AWAITED_NOTHING };

static enum awaited take_message(struct log_matcher *matcher, const struct log_line *line)
{
    struct log_head *head = &matcher->head;
    const struct log_pattern *pattern = &log_patterns[head->row];
    if (!head->lines || line->len < head->label_len || memcmp(line->bytes, head->text, head->label_len) != 0)
        return AWAITED_NOTHING;
    struct log_line rest = *line;
    rest.bytes += head->label_len;
    rest.len -= head->label_len;
    take_place(head, &rest);
    if (matches_part(matcher, head->row, LOG_HEAD_THEN, &rest)) {
        bool more = pattern->take != LOG_TAKE_ALL || head->other.len;
        size_t part = LOG_HEAD_PARTS * head->row + LOG_HEAD_THEN;
        size_t text = more ? log_regex_text(matcher->expressions->heads[part].regex) : 0;
        rest.bytes += text;
        rest.len -= text;
        if (pattern->take)
            take_part(head, rest);
        else if (!goes_on(matcher, &rest))
            end_head(matcher, &rest);
        return AWAITED_TAKEN;
    }
    /* lines of a program's text stand in a traceback; a group of exceptions has tracebacks in it */
    bool inside = (pattern->otherwise || pattern->take) && rest.len &&
                  (memchr(" \t|+", *rest.bytes, 4) || in_box(rest.bytes, rest.len));
    if (pattern->take && !inside && (head->other.len || pattern->take == LOG_TAKE_LAST)) {
        end_head(matcher, NULL);
        return AWAITED_NOTHING;
    }
    if (pattern->otherwise && !inside && matches_part(matcher, head->row, LOG_HEAD, &rest)) {
        end_head(matcher, NULL); /* the next one */
        return AWAITED_NOTHING;
    }
    if (!head->other.len && matches_part(matcher, head->row, LOG_HEAD_OTHERWISE, &rest)) {
        keep_other(head, &rest, 0);
        head->lines = head->lines < OTHER_LINES ? head->lines : OTHER_LINES;
        return AWAITED_KEPT;
    }
    if (--head->lines == 0)
        end_head(matcher, NULL);
    return inside ? AWAITED_TAKEN : AWAITED_ANOTHER;
}

size_t log_take_colours(char *bytes, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '\033') {
            bytes[used++] = bytes[i];
        } else if (i + 1 < len && bytes[i + 1] == '[') {
            for (i += 2; i < len && (bytes[i] < '@' || bytes[i] > '~');)
                i++;
        }
    }
    return used;
}

static bool begins_with_one(const char *bytes, size_t len, const char *const *begins, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (len >= strlen(begins[i]) && memcmp(bytes, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

bool log_is_own(const char *bytes, size_t len)
{
    static const char *const begins[] = {"scry: ", "scry run: "};
    return begins_with_one(bytes, len, begins, sizeof begins / sizeof *begins);
}

/* How Open MPI's launcher explains what may have happened where a rank left without MPI_Finalize: nothing that did. */
static bool is_explanation(const char *bytes, size_t len)
{
    static const char *const begins[] = {
        "1. this process did not call \"init\" before ",
        "the job did. This can cause a job to hang ",
        "for all processes to call \"init\". By rule, ",
        "then ALL processes must call \"init\" ",
        "2. this process called \"init\", but exited ",
        "By rule, all processes that call \"init\" ",
        "exiting or it will be considered an \"abnormal ",
        "3. this process called \"MPI_Abort\" or ",
        "orte_create_session_dirs is set to false. ",
        "detect that the abort call was an abnormal ",
        "error message you will receive is this one.",
        "This may have caused other processes in the application to be",
        "terminated by signals sent by mpi",
        "You can avoid this message by specifying -quiet on the mpi",
    };
    return begins_with_one(bytes, len, begins, sizeof begins / sizeof *begins);
}

bool log_is_of_launcher(const char *bytes, size_t len)
{
    enum { RULE_LEAST = 20 };
    static const char *const begins[] = {
        /* Open MPI */
        "Primary job  terminated normally, but ", "a non-zero exit code. Per user-direction, the job has been aborted.",
        "the job to be terminated. The first process to do so was:", "  Process name: [[",
        "  Exit code:    ", "MPI_ABORT was invoked on rank ", "with errorcode ",
        "NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.",
        "You may or may not see output from other processes, depending on", "exactly when Open MPI kills them.",
        /* MPICH, Intel MPI */
        "=   BAD TERMINATION OF ", "=   PID ", "=   RANK ",
        "=   EXIT CODE: ", "=   KILLED BY SIGNAL: ", "=   CLEANING UP REMAINING PROCESSES",
        "=   YOU CAN IGNORE THE BELOW ", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: ",
        "This typically refers to a problem with your application.",
        "Please see the FAQ page for debugging suggestions",
        /* Slurm */
        "srun: Terminating ", "srun: Job step aborted: ", "slurmstepd: error: *** "};
    static const char *const within[] = {" noticed that process rank ",
                                         " has exited due to process rank ",
                                         " exiting improperly. There are ",
                                         ": application called MPI_Abort(",
                                         " to 0 to see all help / error messages",
                                         " sent help message help-mpi-",
                                         " ORTE_ERROR_LOG: ",
                                         ": Exited with exit code ",
                                         " detected that one or more processes exited with non-zero status"};
    if (len >= RULE_LEAST && (bytes[0] == '-' || bytes[0] == '=')) {
        size_t same = 0;
        while (same < len && bytes[same] == bytes[0])
            same++;
        if (same == len)
            return true;
    }
    if (is_explanation(bytes, len) || begins_with_one(bytes, len, begins, sizeof begins / sizeof *begins))
        return true;
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (memmem(bytes, len, within[i], strlen(within[i])))
            return true;
    return false;
}

bool log_is_of_trace(const char *bytes, size_t len)
{
    size_t depth = 0;
    while (depth < len && bytes[depth] == '+')
        depth++;
    return depth && depth + 1 < len && bytes[depth] == ' ' && bytes[depth + 1] != ' ';
}

bool log_is_of_keys(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i += 2) /* not ^^, which points at a place in the line above */
        if (i + 1 == len || bytes[i] != '^' || bytes[i + 1] < '@' || bytes[i + 1] > '_' || bytes[i + 1] == '^')
            return false;
    return len;
}

static void match_rows(struct log_matcher *matcher, struct log_line line)
{
    struct log_expressions *expressions = matcher->expressions;
    if (log_is_own(line.bytes, line.len) || is_explanation(line.bytes, line.len))
        return;
    if (memchr(line.bytes, '\033', line.len)) {
        memcpy(expressions->plain, line.bytes, line.len);
        line.bytes = expressions->plain;
        line.len = log_take_colours(expressions->plain, line.len);
    }
    struct log_line begin = line;
    if (begin.len > ROWS_MOST) {
        begin.len = ROWS_MOST;
        begin.cut = true;
    }
    size_t head_row = matcher->head.row;
    enum awaited awaited = take_message(matcher, &begin);
    if (awaited == AWAITED_TAKEN)
        return;
    size_t row = find_row(matcher, &begin);
    if (awaited != AWAITED_NOTHING && row < log_pattern_count &&
        (row == head_row || log_patterns[row].severity != LOG_SEVERITY_ERROR ||
         matches_part(matcher, row, LOG_HEAD, &begin))) /* "PETSC ERROR:" says nothing by itself */
        return;
    if (row == log_pattern_count || does_match(matcher, compiled(&expressions->harmless, NULL, log_harmless), &begin) ||
        begin_head(matcher, row, &begin))
        return;
    matcher->head.other_recorded |= awaited == AWAITED_KEPT;
    struct log_head compiled_at;
    if (take_compiled_place(&compiled_at, &begin))
        line.place = compiled_at.place;
    record(matcher, row, &line);
}

/* The next byte of a line that may match: in a word of a pattern, or what may part one. */
static size_t find_next(const struct words *words, const char *bytes, size_t len, size_t from)
{
    size_t word = words_find(words, bytes, len, from);
    const char *escape = memchr(bytes + from, '\033', word - from);
    return escape ? (size_t)(escape - bytes) : word;
}

void log_match_lines(struct log_matcher *matcher, uint64_t now_ns, const char *bytes, size_t len, bool cut)
{
    struct log_expressions *expressions = matcher->expressions;
    if (!prepare(expressions, matcher->rows != 0))
        return;
    if (!GROW_ZERO_TO(matcher->found, found_count(expressions), matcher->found_room))
        return;
    size_t counted = 0, at = matcher->given || matcher->rows ? 0 : len;
    if (matcher->rows)
        log_match_progress(matcher, now_ns, bytes, len);
    while (at < len) {
        if (!matcher->given && !matcher->head.lines && (at = find_next(expressions->words, bytes, len, at)) == len)
            break;
        struct line_place place = line_at(bytes, len, at);
        struct log_line line = {
            place.start, place.len, cut, -1, now_ns, .block = bytes, .at = (size_t)(place.start - bytes)};
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
            match_rows(matcher, line);
        at = place.next;
    }
    if (matcher->line >= 0)
        matcher->line += (int64_t)lines_count(bytes + counted, len - counted);
    struct line_place last = len ? line_at(bytes, len, len - 1) : (struct line_place){bytes, 0, 0};
    matcher->above_len = last.len < LOG_ABOVE_MOST ? last.len : LOG_ABOVE_MOST;
    memcpy(matcher->above, last.start, matcher->above_len);
}

void log_match_rest(struct log_matcher *matcher, uint64_t now_ns, bool end)
{
    const struct log_sink *sink = matcher->expressions->sink;
    /* what has many lines may come slowly: a sanitizer looks for names */
    uint64_t rests = matcher->head.lines > FEW_LINES ? LONG_RESTS : 2;
    if (matcher->head.lines && (end || now_ns > matcher->head.now_ns + rests * LOGS_REST_MS * WAITS_NS_PER_MS))
        end_head(matcher, NULL);
    put_progress(matcher, &matcher->said.progress, now_ns, end);
    put_metrics(matcher, now_ns, end);
    for (size_t i = 0; i < matcher->found_room && i < found_count(matcher->expressions); i++) {
        struct log_found *found = &matcher->found[i];
        const struct log_expression *expression = expression_at(matcher->expressions, i);
        put_progress(matcher, &found->progress, now_ns, end);
        uint64_t rest = fold_rest(&found->fold, now_ns, end);
        if (rest)
            sink->put(sink->ctx, RECORD(log_folded, .file = matcher->file, .pattern = expression->name,
                                        .level = log_severity_names[expression->severity], .lines = rest));
    }
}
