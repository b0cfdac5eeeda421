/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/shell.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MOST = 256, HERE_MOST = 16, WORD_MOST = 64 };

/* What the scanner is in. */
enum inside {
    IN_SUBSHELL,     /* ( ) */
    IN_SUBSTITUTION, /* $( ), <( ), in a word */
    IN_GROUP,        /* { } */
    IN_IF,
    IN_LOOP,
    IN_CASE_HEAD, /* until "in" */
    IN_CASE_PATTERN,
    IN_CASE_COMMANDS,
    IN_TEST,       /* [[ ]] */
    IN_WORDS,      /* ( ) of an array or a pattern */
    IN_ARITHMETIC, /* (( )) */
    IN_PARAMETER,  /* ${ } */
    IN_QUOTES,     /* " " */
};

struct here_document {
    char end[WORD_MOST];
    bool tabs;
};

struct scan {
    struct shell_commands *commands;
    const char *text, *at, *end;
    uint32_t line, first_line; /* 0: no command has begun */
    enum inside inside[DEPTH_MOST];
    unsigned parens[DEPTH_MOST]; /* open ones of IN_ARITHMETIC and IN_CASE_PATTERN */
    size_t depth;
    struct here_document here[HERE_MOST];
    size_t here_count;
    bool start;   /* a word here may be a reserved one */
    bool more;    /* the command goes on on the next line */
    bool target;  /* the next word is what < or > is followed by */
    bool name;    /* the next word is the name of a function */
    bool no_room; /* out of memory */
};

static char peek(const struct scan *scan, size_t ahead)
{
    return scan->at + ahead < scan->end ? scan->at[ahead] : 0;
}

static bool push(struct scan *scan, enum inside inside)
{
    if (scan->depth == DEPTH_MOST)
        return false;
    scan->parens[scan->depth] = 0;
    scan->inside[scan->depth++] = inside;
    return true;
}

static bool is_in(const struct scan *scan, enum inside inside)
{
    return scan->depth && scan->inside[scan->depth - 1] == inside;
}

static bool pop(struct scan *scan, enum inside inside)
{
    if (!is_in(scan, inside))
        return false;
    scan->depth--;
    return true;
}

/* ---- words ---- */

static bool ends_word(char c)
{
    return strchr(" \t\n;&|<>()", c) != NULL; /* also 0 */
}

/* Behind an opening quote: goes behind the closing one. */
static bool skip_to(struct scan *scan, char close, bool escapes)
{
    for (; scan->at < scan->end; scan->at++) {
        if (*scan->at == '\n')
            scan->line++;
        if (escapes && *scan->at == '\\' && scan->at + 1 < scan->end) {
            scan->at++;
            scan->line += *scan->at == '\n';
        } else if (*scan->at == close) {
            scan->at++;
            return true;
        }
    }
    return false;
}

/* What may stand in a word, also in double quotes. false: not understood; *ret_was: there was such a thing. */
static bool take_expansion(struct scan *scan, bool *ret_was)
{
    *ret_was = true;
    char c = peek(scan, 0), next = peek(scan, 1);
    if (c == '\\' && scan->at + 1 < scan->end) {
        scan->line += next == '\n';
        scan->at += 2;
        return true;
    }
    if (c == '`') {
        scan->at++;
        return skip_to(scan, '`', true);
    }
    if (c == '$' && (next == '(' || next == '{')) {
        bool sum = next == '(' && peek(scan, 2) == '(';
        scan->at += sum ? 3 : 2;
        if (!push(scan, sum ? IN_ARITHMETIC : next == '(' ? IN_SUBSTITUTION : IN_PARAMETER))
            return false;
        scan->parens[scan->depth - 1] = 2;
        scan->start = true;
        return true;
    }
    *ret_was = false;
    return true;
}

static bool take_quote(struct scan *scan, bool *ret_was)
{
    *ret_was = true;
    char c = peek(scan, 0);
    bool dollar = c == '$' && peek(scan, 1) == '\'';
    if (c == '\'' || dollar) {
        scan->at += dollar ? 2 : 1;
        return skip_to(scan, '\'', dollar);
    }
    if (c == '"') {
        scan->at++;
        return push(scan, IN_QUOTES);
    }
    *ret_was = false;
    return true;
}

/* In quotes, ${ } and (( )), where nothing but their end counts. */
static bool take_quoted(struct scan *scan)
{
    bool was, fine = take_expansion(scan, &was);
    if (!fine || was)
        return fine;
    enum inside inside = scan->inside[scan->depth - 1];
    bool in_quotes = inside == IN_QUOTES || (scan->depth > 1 && scan->inside[scan->depth - 2] == IN_QUOTES);
    if (inside != IN_QUOTES && (!in_quotes || *scan->at == '"'))
        fine = take_quote(scan, &was);
    if (!fine || was)
        return fine;
    char c = *scan->at++;
    unsigned *parens = &scan->parens[scan->depth - 1];
    scan->line += c == '\n';
    if (inside == IN_ARITHMETIC)
        *parens += (c == '(') - (c == ')');
    if ((inside == IN_QUOTES && c == '"') || (inside == IN_PARAMETER && c == '}') ||
        (inside == IN_ARITHMETIC && *parens == 0))
        scan->depth--;
    scan->start = false;
    return true;
}

/* ---- reserved words ---- */

static const struct reserved {
    const char *word;
    enum { OPENS, CLOSES, GOES_ON } does;
    enum inside inside;
} reserved[] = {
    {"if", OPENS, IN_IF},       {"for", OPENS, IN_LOOP},   {"while", OPENS, IN_LOOP}, {"until", OPENS, IN_LOOP},
    {"select", OPENS, IN_LOOP}, {"{", OPENS, IN_GROUP},    {"[[", OPENS, IN_TEST},    {"case", OPENS, IN_CASE_HEAD},
    {"fi", CLOSES, IN_IF},      {"done", CLOSES, IN_LOOP}, {"}", CLOSES, IN_GROUP},   {"then", GOES_ON, 0},
    {"else", GOES_ON, 0},       {"elif", GOES_ON, 0},      {"do", GOES_ON, 0},        {"!", GOES_ON, 0},
    {"time", GOES_ON, 0},
};

static bool is_word(const char *word, size_t len, const char *other)
{
    return strlen(other) == len && memcmp(word, other, len) == 0;
}

/* false: not understood; *ret_was: it was one. */
static bool take_reserved(struct scan *scan, const char *word, size_t len, bool *ret_was)
{
    *ret_was = true;
    if (is_word(word, len, "esac") && (is_in(scan, IN_CASE_COMMANDS) || is_in(scan, IN_CASE_PATTERN))) {
        scan->depth--;
        return true;
    }
    if (is_word(word, len, "function")) {
        scan->name = scan->more = true;
        scan->start = false;
        return true;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (is_word(word, len, reserved[i].word)) {
            scan->start = reserved[i].inside != IN_CASE_HEAD && reserved[i].inside != IN_TEST;
            if (reserved[i].does == OPENS)
                return push(scan, reserved[i].inside);
            return reserved[i].does == GOES_ON || pop(scan, reserved[i].inside);
        }
    *ret_was = false;
    return true;
}

/* A word of plain characters, or the plain beginning of one. */
static bool take_word(struct scan *scan)
{
    const char *word = scan->at;
    while (scan->at < scan->end && !ends_word(*scan->at) && !strchr("\\`$'\"", *scan->at))
        scan->at++;
    size_t len = (size_t)(scan->at - word);
    scan->at += !len; /* a lone backslash at the end */
    bool whole = ends_word(peek(scan, 0)), was = false;
    if (is_in(scan, IN_TEST)) {
        if (whole && is_word(word, len, "]]")) {
            scan->depth--;
            scan->start = true;
        }
        return true;
    }
    if (is_in(scan, IN_CASE_HEAD)) {
        if (whole && is_word(word, len, "in")) {
            scan->inside[scan->depth - 1] = IN_CASE_PATTERN;
            scan->start = true;
        }
        return true;
    }
    if (is_in(scan, IN_CASE_PATTERN) && (!whole || !is_word(word, len, "esac")))
        return true;
    if (is_in(scan, IN_WORDS))
        return true;
    bool target = scan->target;
    scan->target = false;
    if (scan->name && whole) { /* the body follows */
        scan->name = false;
        scan->start = true;
        return true;
    }
    if (whole && scan->start && !target) {
        scan->more = false;
        bool fine = take_reserved(scan, word, len, &was);
        if (!fine || was)
            return fine;
    }
    if (!target) {
        scan->start = false;
        scan->more = false;
    }
    return true;
}

/* ---- operators ---- */

static bool take_here(struct scan *scan)
{
    if (scan->here_count == HERE_MOST)
        return false;
    struct here_document *here = &scan->here[scan->here_count++];
    size_t len = 0;
    scan->at += 2;
    here->tabs = peek(scan, 0) == '-';
    scan->at += here->tabs;
    while (peek(scan, 0) == ' ' || peek(scan, 0) == '\t')
        scan->at++;
    for (char quote = 0; scan->at < scan->end && (quote || !ends_word(*scan->at)); scan->at++) {
        char c = *scan->at;
        if (c == '\n')
            return false;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
            continue;
        }
        if (c == '\\' && quote != '\'')
            continue;
        if (len == WORD_MOST - 1)
            return false;
        here->end[len++] = c;
    }
    here->end[len] = 0;
    return true;
}

static void skip_here(struct scan *scan)
{
    for (size_t i = 0; i < scan->here_count; i++) {
        size_t want = strlen(scan->here[i].end);
        for (bool found = false; !found && scan->at < scan->end;) {
            const char *line = scan->at, *newline = memchr(line, '\n', (size_t)(scan->end - line));
            const char *stop = newline ? newline : scan->end;
            while (scan->here[i].tabs && line < stop && *line == '\t')
                line++;
            found = (size_t)(stop - line) == want && memcmp(line, scan->here[i].end, want) == 0;
            scan->at = newline ? newline + 1 : scan->end;
            scan->line += newline != NULL;
        }
    }
    scan->here_count = 0;
}

/* A newline in a place where commands are. */
static void take_newline(struct scan *scan)
{
    uint32_t last = scan->line;
    bool there = scan->at < scan->end; /* else it is missing at the end of the file */
    scan->at += there;
    scan->line += there;
    if (scan->here_count) {
        skip_here(scan);
        last = scan->line - (scan->at[-1] == '\n');
    }
    scan->start = !is_in(scan, IN_CASE_HEAD);
    scan->target = false;
    if (scan->depth || scan->more || !scan->first_line)
        return;
    if (!GROW(scan->commands->list, scan->commands->count, scan->commands->room)) {
        scan->no_room = true;
        return;
    }
    scan->commands->list[scan->commands->count++] =
        (struct shell_command){scan->first_line, last, (size_t)(scan->at - scan->text)};
    scan->first_line = 0;
}

/* ( where it is no beginning of a substitution. */
static bool take_open(struct scan *scan)
{
    char before = scan->at > scan->text ? scan->at[-1] : '\n';
    bool in_word = !ends_word(before);
    if (is_in(scan, IN_TEST) || is_in(scan, IN_CASE_HEAD)) {
        scan->at++;
        return true;
    }
    if (is_in(scan, IN_CASE_PATTERN)) {
        scan->parens[scan->depth - 1] += in_word;
        scan->at++;
        return true;
    }
    if (is_in(scan, IN_WORDS) || (in_word && strchr("=?*+@!", before))) {
        scan->at++;
        return push(scan, IN_WORDS);
    }
    size_t close = 1;
    while (peek(scan, close) == ' ' || peek(scan, close) == '\t')
        close++;
    if (peek(scan, close) == ')') { /* a function: its body follows */
        scan->at += close + 1;
        scan->start = scan->more = true;
        return true;
    }
    bool sum = peek(scan, 1) == '(';
    scan->at += sum ? 2 : 1;
    scan->more = false;
    if (!push(scan, sum ? IN_ARITHMETIC : IN_SUBSHELL))
        return false;
    scan->parens[scan->depth - 1] = 2;
    scan->start = true;
    return true;
}

static bool take_close(struct scan *scan)
{
    scan->at++;
    scan->start = true;
    if (is_in(scan, IN_TEST) || is_in(scan, IN_CASE_HEAD))
        return true;
    if (is_in(scan, IN_CASE_PATTERN)) {
        unsigned *parens = &scan->parens[scan->depth - 1];
        if (*parens)
            --*parens;
        else
            scan->inside[scan->depth - 1] = IN_CASE_COMMANDS;
        return true;
    }
    if (pop(scan, IN_WORDS) || pop(scan, IN_SUBSTITUTION)) {
        scan->start = false;
        return true;
    }
    return pop(scan, IN_SUBSHELL);
}

static bool take_separator(struct scan *scan)
{
    char c = *scan->at++, next = peek(scan, 0);
    if (is_in(scan, IN_TEST) || is_in(scan, IN_WORDS) || is_in(scan, IN_CASE_PATTERN))
        return true;
    if (c == ';' && (next == ';' || next == '&') && is_in(scan, IN_CASE_COMMANDS)) {
        while (peek(scan, 0) == ';' || peek(scan, 0) == '&')
            scan->at++;
        scan->inside[scan->depth - 1] = IN_CASE_PATTERN;
    } else {
        scan->more = c == '|' || (c == '&' && next == '&');
        scan->at += (c == '|' && (next == '|' || next == '&')) || (c == '&' && next == '&');
        if (c == '&' && next == '>') { /* &> file */
            scan->at++;
            scan->target = true;
            scan->start = false;
            return true;
        }
    }
    scan->start = true;
    return true;
}

static bool take_redirection(struct scan *scan)
{
    char c = *scan->at, next = peek(scan, 1);
    if (is_in(scan, IN_TEST) || is_in(scan, IN_CASE_PATTERN)) {
        scan->at++;
        return true;
    }
    if (next == '(') { /* <( ) */
        scan->at += 2;
        scan->start = true;
        return push(scan, IN_SUBSTITUTION);
    }
    if (c == '<' && next == '<' && peek(scan, 2) != '<')
        return take_here(scan);
    while (peek(scan, 0) && strchr("<>&|", peek(scan, 0)))
        scan->at++;
    scan->target = true;
    return true;
}

/* ---- all of it ---- */

static bool take_one(struct scan *scan)
{
    bool was;
    char c = *scan->at;
    if (is_in(scan, IN_QUOTES) || is_in(scan, IN_PARAMETER) || is_in(scan, IN_ARITHMETIC))
        return take_quoted(scan);
    if (c == ' ' || c == '\t') {
        scan->at++;
        return true;
    }
    if (c == '\n') {
        take_newline(scan);
        return !scan->no_room;
    }
    if (c == '#' && (scan->at == scan->text || ends_word(scan->at[-1]))) {
        while (scan->at < scan->end && *scan->at != '\n')
            scan->at++;
        return true;
    }
    if (c == '\\' && peek(scan, 1) == '\n') {
        scan->at += 2;
        scan->line++;
        return true;
    }
    if (!scan->first_line)
        scan->first_line = scan->line;
    if (c == '(')
        return take_open(scan);
    if (c == ')')
        return take_close(scan);
    if (c == ';' || c == '&' || c == '|')
        return take_separator(scan);
    if (c == '<' || c == '>')
        return take_redirection(scan);
    bool start = scan->start;
    scan->start = false;
    if (!take_expansion(scan, &was) || (!was && !take_quote(scan, &was)) || c == 0)
        return false;
    if (was || c == '$') {
        scan->at += !was;
        scan->more = scan->name = scan->target = false;
        return true;
    }
    scan->start = start;
    return take_word(scan);
}

/* Appends the commands up to the first that is not understood or not complete. false: out of memory. */
static bool shell_scan(struct shell_commands *commands, const char *text, size_t len)
{
    struct scan scan = {.commands = commands, .text = text, .at = text, .end = text + len, .line = 1, .start = true};
    while (scan.at < scan.end)
        if (!take_one(&scan))
            return !scan.no_room;
    if (!scan.depth && !scan.more && len && text[len - 1] != '\n') /* no newline at the end */
        take_newline(&scan);
    return !scan.no_room;
}

/* ---- the text of a script ---- */

struct script_key script_key_of(const struct stat *stat)
{
    return (struct script_key){stat->st_dev, stat->st_ino, (uint64_t)stat->st_size,
                               (uint64_t)stat->st_mtim.tv_sec * 1000000000 + (uint64_t)stat->st_mtim.tv_nsec};
}

bool script_key_same(const struct script_key *one, const struct script_key *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

/* false: not readable; then there is no text. The time of the last access stays, where the file is ours. */
static bool read_all(struct script_source *text, const char *path, size_t size)
{
    enum { HOW = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };
    _cleanup_(closep) int fd = open(path, HOW | O_NOATIME);
    if (fd < 0 && errno == EPERM)
        fd = open(path, HOW);
    text->text = fd < 0 ? NULL : malloc(size + 1);
    while (text->text && text->len < size) {
        ssize_t got = pread(fd, text->text + text->len, size - text->len, (off_t)text->len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        text->len += (size_t)got;
    }
    return text->text != NULL;
}

/* What does not fit into memory is not known. */
static void find_lines(struct script_source *text)
{
    size_t at = 0;
    while (at < text->len) {
        if (!GROW(text->lines, text->line_count, text->line_room))
            return;
        text->lines[text->line_count++] = at;
        const char *newline = memchr(text->text + at, '\n', text->len - at);
        at = newline ? (size_t)(newline - text->text) + 1 : text->len;
    }
    shell_scan(&text->commands, text->text, text->len);
}

struct script_source *script_source_get(struct script_sources *texts, const char *path, const struct stat *stat)
{
    struct script_key key = script_key_of(stat);
    struct script_source *text;
    HASH_FIND(hh, texts->all, &key, sizeof key, text);
    if (text) {
        text->users++;
        return text;
    }
    text = calloc(1, sizeof *text);
    if (!text)
        return NULL;
    text->key = key;
    text->users = 1;
    if (S_ISREG(stat->st_mode) && stat->st_size > 0 && stat->st_size <= SCRIPT_TEXT_BYTES &&
        texts->bytes + (size_t)stat->st_size <= SCRIPT_TEXT_TOTAL && read_all(text, path, (size_t)stat->st_size)) {
        find_lines(text);
        texts->bytes += text->len;
    }
    HASH_ADD(hh, texts->all, key, sizeof text->key, text);
    return text;
}

void script_source_put(struct script_sources *texts, struct script_source *text)
{
    if (!text || --text->users)
        return;
    HASH_DEL(texts->all, text);
    texts->bytes -= text->len;
    script_source_free(text);
}

struct script_source *script_source_new(const char *bytes, size_t len)
{
    struct script_source *text = calloc(1, sizeof *text);
    if (text && (text->text = malloc(len + 1))) {
        memcpy(text->text, bytes, len);
        text->len = len;
        find_lines(text);
    }
    return text;
}

void script_source_free(struct script_source *text)
{
    if (!text)
        return;
    free(text->text);
    free(text->lines);
    free(text->commands.list);
    free(text);
}

uint32_t script_line_before(const struct script_source *text, size_t offset)
{
    size_t low = 0, high = text->line_count;
    while (low < high) { /* how many begin before it */
        size_t middle = (low + high) / 2;
        if (text->lines[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

const struct shell_command *script_command_ending(const struct script_source *text, size_t offset)
{
    size_t low = 0, high = text->commands.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct shell_command *command = &text->commands.list[middle];
        if (command->end == offset)
            return command;
        if (command->end < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void script_command_show(struct buf *out, const struct script_source *text, uint32_t first_line, uint32_t last_line)
{
    if (!first_line || last_line > text->line_count || first_line > last_line)
        return;
    static const char blanks[] = " \t\r\n";
    const char *at = text->text + text->lines[first_line - 1];
    const char *end = text->text + (first_line < text->line_count ? text->lines[first_line] : text->len);
    while (at < end && strchr(blanks, *at))
        at++;
    while (end > at && strchr(blanks, end[-1]))
        end--;
    bool cut = end - at > SCRIPT_COMMAND_BYTES;
    buf_append(out, at, cut ? SCRIPT_COMMAND_BYTES : (size_t)(end - at));
    if (cut || last_line > first_line)
        buf_puts(out, " ...");
}
