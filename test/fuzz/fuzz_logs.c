/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Logs of any bytes. The first byte says in which pieces the rest arrives; whatever they are, the same lines come out,
 * and the same number of them matches. Whatever an expression of a built-in pattern matches has one of its words.
 */
#include <string.h>

#include "fuzz.h"
#include "job/logs/match.h"
#include "job/logs/patterns.h"

struct seen {
    struct log_matcher matcher;
    struct buf bytes;
    uint64_t lines[WORDS_ROWS];
};
static struct seen *now_seen;

static void on_lines(void *ctx, const char *bytes, size_t len, bool cut)
{
    struct seen *seen = ctx;
    fuzz_expect(len && len <= LINES_ROOM);
    buf_append(&seen->bytes, bytes, len);
    log_match_lines(&seen->matcher, 0, bytes, len, cut);
}

static void count(const char *pattern, uint64_t lines)
{
    for (size_t i = 0; i < log_pattern_count; i++)
        now_seen->lines[i] += strcmp(log_patterns[i].name, pattern) == 0 ? lines : 0;
}

static void put(void *ctx, enum record_type type, const void *row)
{
    const struct log_record *log = row;
    const struct log_folded_record *folded = row;
    if (type == RECORD_log) {
        fuzz_expect(strlen(log->text) <= LINE_MOST + 8 && log->line > 0);
        count(log->pattern, 1 + log->folded);
    } else if (type == RECORD_log_folded) {
        count(folded->pattern, folded->lines);
    }
}

static void note(void *ctx, struct note said)
{
}

static const struct log_sink sink = {NULL, put, note};
static struct log_expressions expressions = {.sink = &sink};
static struct log_regex *regexes[WORDS_ROWS];

static void read_all(const uint8_t *data, size_t size, size_t piece, struct seen *seen)
{
    struct lines lines = {0};
    seen->matcher = (struct log_matcher){.file = "f", .expressions = &expressions, .rows = LOG_PATTERNS_ALL};
    now_seen = seen;
    for (size_t at = 0; at < size;) {
        size_t room = 0;
        char *to = lines_room(&lines, &room);
        fuzz_expect(to && room >= LINES_ROOM / 2);
        size_t take = size - at < piece ? size - at : piece;
        take = take < room ? take : room;
        memcpy(to, data + at, take);
        lines_take(&lines, take, on_lines, seen);
        at += take;
    }
    lines_end(&lines, on_lines, seen);
    log_match_rest(&seen->matcher, 0, true);
    lines_done(&lines);
    log_matcher_done(&seen->matcher);
}

static void check_words(const char *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        struct line_place line = line_at(bytes, len, at);
        uint64_t rows = words_rows(expressions.words, line.start, line.len);
        for (size_t i = 0; i < log_pattern_count; i++)
            fuzz_expect(rows >> i & 1 || log_regex_match(regexes[i], line.start, line.len) != LOG_MATCH_YES);
        fuzz_expect(line.next > at);
        at = line.next;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > LINE_MOST)
        return 0;
    for (size_t i = 0; !regexes[i] && i < log_pattern_count; i++)
        fuzz_expect(log_regex_new(&regexes[i], log_patterns[i].expression, NULL) == 0);
    struct seen whole = {0}, pieces = {0};
    read_all(data + 1, size - 1, size, &whole);
    read_all(data + 1, size - 1, (size_t)data[0] + 1, &pieces);
    fuzz_expect(!whole.bytes.failed && whole.bytes.len == size - 1 && pieces.bytes.len == size - 1);
    fuzz_expect(memcmp(whole.bytes.data, data + 1, size - 1) == 0);
    fuzz_expect(memcmp(pieces.bytes.data, data + 1, size - 1) == 0);
    fuzz_expect(memcmp(whole.lines, pieces.lines, sizeof whole.lines) == 0);
    check_words(whole.bytes.data, whole.bytes.len);
    buf_done(&whole.bytes);
    buf_done(&pieces.bytes);
    return 0;
}
