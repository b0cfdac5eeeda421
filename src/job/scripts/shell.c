/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/shell.h"

#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/proc_file.h"
#include "job/observe/script_rings.h"
#include "jobdir/text/text.h"
#include "symbols/python/python.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static bool shell_scan(struct shell_commands *commands, const char *text, size_t len);

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

enum { BASH_FD = 255, DASH_FD = 10, DASH_FD_LAST = 19, ARGUMENTS = 4096, FDINFO = 512 };

static const char deleted[] = " (deleted)";

/* Returns its length. */
static size_t read_link(const char *link, char *ret_path, size_t size)
{
    ssize_t len = readlink(link, ret_path, size - 1);
    len = len < 0 ? 0 : len;
    ret_path[len] = 0;
    return (size_t)len;
}

static size_t without_deleted(char *path, size_t len)
{
    size_t mark = sizeof deleted - 1;
    if (len > mark && strcmp(path + len - mark, deleted) == 0)
        path[len -= mark] = 0;
    return len;
}

static enum shell_kind kind_of(pid_t pid)
{
    char link[PROC_PATH_SIZE], program[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    without_deleted(program, read_link(link, program, sizeof program));
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    if (strncmp(name, "bash", 4) == 0 || strcmp(name, "rbash") == 0)
        return SHELL_BASH;
    return strcmp(name, "dash") == 0 ? SHELL_DASH : SHELL_NONE;
}

enum shell_source shell_source_of(const char *args, size_t len, const char **ret_text)
{
    const char *end = args + len, *arg = args + strnlen(args, len) + 1;
    bool commands = false;
    *ret_text = NULL;
    for (; arg < end; arg += strnlen(arg, (size_t)(end - arg)) + 1) {
        bool is_long = strncmp(arg, "--", 2) == 0;
        if ((*arg != '-' && *arg != '+') || strcmp(arg, "-") == 0 || strcmp(arg, "--") == 0) {
            if (*arg == '-')
                arg += strlen(arg) + 1;
            *ret_text = arg < end ? arg : NULL;
            return commands ? SHELL_FROM_OPTION : *ret_text ? SHELL_FROM_FILE : SHELL_FROM_INPUT;
        }
        commands |= !is_long && *arg == '-' && strchr(arg, 'c');
        if (!commands && !is_long && *arg == '-' && strchr(arg, 's'))
            return SHELL_FROM_INPUT;
        if (strcmp(arg, "--rcfile") == 0 || strcmp(arg, "--init-file") == 0 ||
            (!is_long && (strchr(arg, 'o') || strchr(arg, 'O'))))
            arg += strnlen(arg, (size_t)(end - arg)) + 1; /* the next one is its value */
        if (arg >= end)
            break;
    }
    return commands ? SHELL_FROM_OPTION : SHELL_FROM_INPUT;
}

void shell_fd_path(char path[SHELL_FD_PATH], pid_t pid, int fd)
{
    snprintf(path, SHELL_FD_PATH, "/proc/%d/fd/%d", pid, fd);
}

/* Flags are as of open(2). */
static bool read_fdinfo(pid_t pid, int fd, uint64_t *ret_position, unsigned *ret_flags)
{
    char name[32], text[FDINFO];
    snprintf(name, sizeof name, "fdinfo/%d", fd);
    if (proc_file_read(pid, 0, name, text, sizeof text, &(size_t){0}) < 0)
        return false;
    const char *flags = strstr(text, "\nflags:");
    *ret_position = proc_field(text, "pos");
    *ret_flags = flags ? (unsigned)strtoul(flags + strlen("\nflags:"), NULL, 8) : 0;
    return flags != NULL;
}

bool shell_position(pid_t pid, int fd, struct stat *ret_stat, uint64_t *ret_position)
{
    char path[SHELL_FD_PATH];
    unsigned flags;
    shell_fd_path(path, pid, fd);
    return read_fdinfo(pid, fd, ret_position, &flags) && (flags & O_ACCMODE) == O_RDONLY &&
           (fd == 0 || flags & O_CLOEXEC) && stat(path, ret_stat) == 0 && S_ISREG(ret_stat->st_mode);
}

struct shell_script shell_find(pid_t pid)
{
    struct shell_script script = {kind_of(pid), -1};
    struct stat stat;
    uint64_t position;
    char args[ARGUMENTS];
    size_t len = 0;
    if (script.kind == SHELL_NONE)
        return script;
    if (script.kind == SHELL_BASH) {
        struct rlimit files = {.rlim_cur = RLIM_INFINITY};
        int fd = BASH_FD;
        if (prlimit(pid, RLIMIT_NOFILE, NULL, &files) == 0 && files.rlim_cur <= (rlim_t)BASH_FD)
            fd = (int)files.rlim_cur - 1;
        if (shell_position(pid, fd, &stat, &position)) {
            script.fd = fd;
            return script;
        }
    }
    if (proc_file_read(pid, 0, "cmdline", args, sizeof args, &len) < 0 || len == 0)
        return script;
    enum shell_source source = shell_source_of(args, len, &(const char *){NULL});
    if (source == SHELL_FROM_INPUT && shell_position(pid, 0, &stat, &position))
        script.fd = 0;
    for (int fd = DASH_FD; source == SHELL_FROM_FILE && script.kind == SHELL_DASH && fd <= DASH_FD_LAST; fd++)
        if (script.fd < 0 && shell_position(pid, fd, &stat, &position))
            script.fd = fd;
    return script;
}

void shell_script_path(pid_t pid, int fd, const struct stat *stat, char *ret_path, size_t size)
{
    char link[SHELL_FD_PATH];
    shell_fd_path(link, pid, fd);
    size_t len = read_link(link, ret_path, size);
    if (stat->st_nlink == 0)
        without_deleted(ret_path, len);
}

enum { PAGE = 4096, LINE_BYTES = 1024 };

static uint64_t program_base(pid_t pid)
{
    char link[PROC_PATH_SIZE], path[PATH_MAX];
    proc_path(link, pid, 0, "exe");
    ssize_t len = readlink(link, path, sizeof path - 1);
    struct proc_maps maps;
    uint64_t base = 0;
    if (len < 0 || proc_maps_read(pid, &maps) < 0)
        return 0;
    path[len] = 0;
    for (size_t i = 0; i < maps.count && !base; i++)
        if (maps.maps[i].offset == 0 && strcmp(maps.maps[i].path, path) == 0)
            base = maps.maps[i].start;
    proc_maps_done(&maps);
    return base;
}

void shell_memory_find(struct shell_memory *ret_memory, pid_t pid)
{
    *ret_memory = (struct shell_memory){.known = false};
    struct python_memory memory = python_memory_of(&pid);
    struct exports exports;
    uint64_t base = program_base(pid);
    if (!base || exports_open(&exports, &memory, base) < 0)
        return;
    ret_memory->line = exports_find(&exports, "line_number_for_err_trap");
    ret_memory->depth = exports_find(&exports, "variable_context");
    ret_memory->sourced = exports_find(&exports, "sourcelevel");
    ret_memory->function = exports_find(&exports, "this_shell_function");
    ret_memory->printed = exports_find(&exports, "the_printed_command_except_trap");
    ret_memory->known =
        ret_memory->line && ret_memory->depth && ret_memory->sourced && ret_memory->function && ret_memory->printed;
}

static bool read_text(const struct python_memory *memory, uint64_t address, char ret_text[SHELL_TEXT])
{
    size_t size = SHELL_TEXT - 1, first = PAGE - address % PAGE;
    first = first < size ? first : size;
    memset(ret_text, 0, SHELL_TEXT);
    if (!address || python_get(memory, address, ret_text, first) < 0)
        return false;
    return memchr(ret_text, 0, first) || first == size ||
           python_get(memory, address + first, ret_text + first, size - first) == 0;
}

struct words {
    int32_t line, depth, sourced, unused; /* no holes: they are compared as bytes */
    uint64_t function, printed;
};

static bool read_words(const struct shell_memory *at, const struct python_memory *memory, struct words *ret_words)
{
    memset(ret_words, 0, sizeof *ret_words);
    const struct python_part parts[] = {
        {at->line, &ret_words->line, sizeof ret_words->line},
        {at->depth, &ret_words->depth, sizeof ret_words->depth},
        {at->sourced, &ret_words->sourced, sizeof ret_words->sourced},
        {at->function, &ret_words->function, sizeof ret_words->function},
        {at->printed, &ret_words->printed, sizeof ret_words->printed},
    };
    return memory->read(memory->ctx, parts, sizeof parts / sizeof *parts) == 0;
}

static bool read_now(const struct python_memory *memory, const struct words *words, struct shell_now *ret_now)
{
    uint64_t name;
    if (words->line <= 0 || words->depth < 0 || words->sourced < 0 ||
        !read_text(memory, words->printed, ret_now->command))
        return false;
    ret_now->function[0] = 0;
    if (words->depth && (!words->function || python_get(memory, words->function, &name, sizeof name) < 0 ||
                         !read_text(memory, name, ret_now->function)))
        return false;
    ret_now->line = (uint32_t)words->line;
    ret_now->depth = (uint32_t)words->depth;
    ret_now->sourced = (uint32_t)words->sourced;
    return true;
}

int shell_memory_read(const struct shell_memory *at, pid_t pid, struct shell_now *ret_now)
{
    struct python_memory memory = python_memory_of(&pid);
    struct words words, again;
    if (!at->known)
        return -EAGAIN;
    if (!read_words(at, &memory, &words))
        return -ESRCH;
    bool whole = read_now(&memory, &words, ret_now);
    if (!read_words(at, &memory, &again))
        return -ESRCH;
    return whole && memcmp(&words, &again, sizeof words) == 0 ? 0 : -EAGAIN;
}

/* With one blank for any blanks, and without line ends that a backslash removes. Returns the length. */
static size_t squeeze(char *out, size_t size, const char *from, size_t len)
{
    size_t used = 0;
    for (size_t i = 0; i < len && used < size - 1; i++) {
        if (from[i] == '\\' && i + 1 < len && from[i + 1] == '\n') {
            i++;
            continue;
        }
        bool blank = from[i] == ' ' || from[i] == '\t';
        if (!blank || (used && out[used - 1] != ' '))
            out[used++] = blank ? ' ' : from[i];
    }
    out[used] = 0;
    return used;
}

/* Can a command begin here in the line? */
static bool may_begin(const char *line, const char *at)
{
    static const char *const before[] = {"then", "do", "else", "elif", "if", "while", "until", "time"};
    const char *end = at;
    while (end > line && end[-1] == ' ')
        end--;
    if (end == line || strchr(";|&({`!)", end[-1]))
        return true;
    const char *word = end;
    while (word > line && word[-1] != ' ')
        word--;
    size_t len = (size_t)(end - word);
    for (size_t i = 0; end < at && i < sizeof before / sizeof *before; i++)
        if (strlen(before[i]) == len && memcmp(word, before[i], len) == 0)
            return true;
    return end < at && memchr(word, '=', len); /* a variable for the command */
}

bool shell_now_fits(const struct shell_now *now, const struct script_source *text)
{
    char wanted[SHELL_TEXT], there[LINE_BYTES];
    if (now->line == 0 || now->line > text->line_count)
        return false;
    /* bash prints redirections in its own way */
    size_t len = squeeze(wanted, sizeof wanted, now->command, strcspn(now->command, "<>&\n"));
    bool cut = now->command[strcspn(now->command, "<>&\n")] != 0;
    while (len && ((cut && wanted[len - 1] >= '0' && wanted[len - 1] <= '9') || wanted[len - 1] == ' '))
        wanted[--len] = 0;
    size_t start = text->lines[now->line - 1], rest = text->len - start;
    squeeze(there, sizeof there, text->text + start, rest < sizeof there ? rest : sizeof there);
    size_t line = strcspn(there, "\n");
    for (const char *at = there; len && (at = strstr(at, wanted)) && at <= there + line; at++)
        if (may_begin(there, at) && strchr(" ;|&)}`\n<>0123456789", at[len]))
            return true;
    return false;
}

enum {
    LINES_SHOWN = 200,
    OFTEN = 200,          /* records of lines of one shell: then one a second, */
    SELDOM = 2000,        /* then one in ten seconds */
    FAILURES_MOST = 2000, /* of a shell */
};

/* A shell with its subshells. */
struct script {
    pid_t pid;
    char *file; /* NULL: it has not begun */
    uint64_t began_ns, record_ns, now_ns;
    unsigned records, failures;
    uint32_t now; /* the sum of the line that was told last, or where it was found */
    UT_hash_handle hh;
};

struct shell_inside {
    struct observer *observer;
    struct script_rings *rings;
    struct script *scripts; /* hash by pid */
    pid_t ending;           /* the process that ends; 0: none */
    bool told;              /* a script_end of it */
    int32_t status;         /* its status, as $? */
    double end;             /* and when, in seconds since the start of the job */
};

/* ---- records ---- */

static struct line_fields line_of(const struct script_event *event, char *texts[3])
{
    texts[0] = script_text_copy(&event->texts[SCRIPT_FILE]);
    texts[1] = script_text_copy(&event->texts[SCRIPT_FUNCTION]);
    texts[2] = script_text_copy(&event->texts[SCRIPT_COMMAND]);
    return (struct line_fields){.pid = event->pid,
                                .language = "bash",
                                .file = texts[0] ? texts[0] : "",
                                .line = event->line,
                                .function = texts[1] && *texts[1] ? texts[1] : NULL,
                                .command = texts[2] && *texts[2] ? texts[2] : NULL};
}

static bool is_due(struct script *script, uint64_t now_ns)
{
    uint64_t gap = script->records < OFTEN ? 0 : (script->records < SELDOM ? 1 : 10) * (uint64_t)NS_PER_SECOND;
    if (script->record_ns + gap > now_ns)
        return false;
    script->records++;
    script->record_ns = now_ns;
    return true;
}

static void on_line(struct shell_inside *inside, struct script *script, const struct script_event *event)
{
    char *texts[3];
    if (!is_due(script, clock_now_ns()))
        return;
    struct line_fields at = line_of(event, texts);
    observe_put(inside->observer, RECORD(script_line, .at = at, .how = "inside",
                                         .time = observe_seconds(inside->observer, event->time_ns)));
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

/* "1 0" as [1, 0]; NULL: none. A new reference. */
static json_t *stages_of(const struct script_event *event)
{
    _cleanup_(freep) char *text = script_text_copy(&event->texts[SCRIPT_MESSAGE]);
    json_t *stages = text && *text ? json_array() : NULL;
    char *rest = NULL;
    for (const char *word = text ? strtok_r(text, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest))
        json_array_append_new(stages, json_integer(atoi(word)));
    return stages;
}

static void on_failed(struct shell_inside *inside, struct script *script, const struct script_event *event)
{
    char *texts[3];
    if (script->failures++ >= FAILURES_MOST)
        return;
    struct line_fields at = line_of(event, texts);
    json_t *stack = event->frame_count ? script_frames_json(event) : NULL, *stages = stages_of(event);
    observe_put(inside->observer, RECORD(command_failed, .at = at, .status = event->status, .stack = stack,
                                         .stages = stages, .seconds = (double)event->duration_ns / NS_PER_SECOND,
                                         .time = observe_seconds(inside->observer, event->time_ns)));
    json_decref(stack);
    json_decref(stages);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

static void on_record(void *ctx, struct script_rings_ring *ring, const struct script_event *event)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own;
    if (!script)
        return;
    if (event->kind == SCRIPT_STARTED && !script->file && event->texts[SCRIPT_FILE].size) {
        script->file = script_text_copy(&event->texts[SCRIPT_FILE]);
        script->began_ns = event->time_ns;
    } else if (event->kind == SCRIPT_LINE) {
        on_line(inside, script, event);
    } else if (event->kind == SCRIPT_FAILED) {
        on_failed(inside, script, event);
    } else if (event->kind == SCRIPT_STEPPED_ASIDE) {
        script_rings_note_aside(inside->rings, ring, event);
    }
}

/* ---- sums ---- */

struct line {
    uint32_t index;
    uint64_t total_ns;
};

static int by_time(const void *left, const void *right)
{
    const struct line *one = left, *other = right;
    if (one->total_ns != other->total_ns)
        return one->total_ns < other->total_ns ? 1 : -1;
    return one->index < other->index ? -1 : one->index > other->index;
}

static struct line *lines_of(const struct script_rings_ring *ring, size_t *ret_count)
{
    uint32_t sums = script_view_sums(ring->view);
    struct line *lines = calloc(sums ? sums : 1, sizeof *lines);
    struct script_sum_copy sum;
    *ret_count = 0;
    for (uint32_t i = 0; lines && i < sums; i++)
        if (script_view_sum(ring->view, i, false, &sum) && sum.kind == SCRIPT_SUM_LINE && sum.count)
            lines[(*ret_count)++] = (struct line){i, sum.total_ns};
    if (lines)
        qsort(lines, *ret_count, sizeof *lines, by_time);
    return lines;
}

static json_t *lines_json(const struct script_rings_ring *ring)
{
    struct script_sum_copy sum;
    char command[SCRIPT_NAME_MOST];
    size_t count;
    _cleanup_(freep) struct line *lines = lines_of(ring, &count);
    json_t *list = json_array();
    for (size_t i = 0; lines && i < count && i < LINES_SHOWN; i++) {
        if (!script_view_sum(ring->view, lines[i].index, true, &sum))
            continue;
        script_view_command(ring->view, lines[i].index, command);
        json_t *row = json_pack("{s:o, s:i, s:I, s:I, s:f}", "file", text_json(sum.file), "line", (int)sum.line,
                                "count", (json_int_t)sum.count, "failed", (json_int_t)sum.failed, "seconds",
                                (double)sum.total_ns / NS_PER_SECOND);
        if (command[0])
            json_object_set_new(row, "command", text_json(command));
        json_array_append_new(list, row);
    }
    return list;
}

/* Not each line comes as a record: where it stays is told anyway. */
static void on_looked(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own;
    struct script_sum_copy sum;
    if (!script)
        return;
    uint32_t now = script_view_now(ring->view);
    uint64_t now_ns = clock_now_ns();
    if (now != script->now) {
        script->now = now;
        script->now_ns = now_ns;
        return;
    }
    if (!script->now_ns || now_ns - script->now_ns < NS_PER_SECOND || script->record_ns > script->now_ns ||
        !script_view_sum(ring->view, now, true, &sum) || !is_due(script, now_ns))
        return;
    script->now_ns = 0; /* told; which of the line's commands it is, is not known */
    observe_put(inside->observer, RECORD(script_line,
                                         .at = {.pid = ring->pid,
                                                .language = "bash",
                                                .file = sum.file,
                                                .line = sum.line,
                                                .function = sum.function[0] ? sum.function : NULL},
                                         .how = "inside", .time = -1));
}

/* ---- a shell ---- */

static void on_began(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = calloc(1, sizeof *script), *before;
    ring->own = script;
    if (!script)
        return;
    *script = (struct script){.pid = ring->pid, .now = UINT32_MAX};
    HASH_FIND_INT(inside->scripts, &ring->pid, before);
    if (before)
        HASH_DEL(inside->scripts, before); /* its end is told, too: the process executes something else */
    HASH_ADD_INT(inside->scripts, pid, script);
}

static void on_ended(void *ctx, struct script_rings_ring *ring)
{
    struct shell_inside *inside = ctx;
    struct script *script = ring->own, *found;
    if (!script)
        return;
    HASH_FIND_INT(inside->scripts, &script->pid, found);
    if (found == script)
        HASH_DEL(inside->scripts, script);
    if (script->file) {
        json_t *lines = lines_json(ring);
        bool known = inside->ending == script->pid;
        inside->told |= known;
        double began = observe_seconds(inside->observer, script->began_ns);
        double end = known ? inside->end : observe_seconds(inside->observer, clock_now_ns());
        observe_put(inside->observer,
                    RECORD(script_end, .pid = script->pid, .file = script->file, .status = known ? inside->status : -1,
                           .seconds = end > began ? end - began : 0, .how = "inside", .lines = lines));
        json_decref(lines);
    }
    uint64_t dropped = ring->view->ring->dropped, sums = ring->view->ring->sums_dropped;
    if (dropped || sums || ring->view->damaged)
        observe_note(inside->observer,
                     NOTE(script_dropped, .pid = (uint64_t)ring->pid, .file = script->file ? script->file : "",
                          .records = dropped + ring->view->damaged, .sums = sums));
    free(script->file);
    free(script);
}

static const struct script_rings_use use = {
    .language = "bash", .began = on_began, .record = on_record, .looked = on_looked, .ended = on_ended};

/* ---- all of them ---- */

struct shell_inside *shell_inside_new(struct observer *observer, struct err *err)
{
    struct shell_inside *inside = calloc(1, sizeof *inside);
    if (!inside) {
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    inside->observer = observer;
    inside->rings = script_rings_new(observer, &use, inside, err);
    if (inside->rings)
        return inside;
    free(inside);
    return NULL;
}

bool shell_inside_has(const struct shell_inside *inside, pid_t pid)
{
    struct script *script = NULL;
    if (inside)
        HASH_FIND_INT(inside->scripts, &pid, script);
    return script && script->file;
}

void shell_inside_process(struct shell_inside *inside, pid_t pid)
{
    if (inside)
        script_rings_process_changed(inside->rings, pid, false);
}

bool shell_inside_process_ended(struct shell_inside *inside, const struct observed_process *process)
{
    if (!inside)
        return false;
    int status = process->status;
    inside->status = status < 0 ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    inside->end = process->end;
    inside->ending = process->pid;
    inside->told = false;
    script_rings_process_changed(inside->rings, process->pid, true);
    inside->ending = 0;
    return inside->told;
}

void shell_inside_free(struct shell_inside *inside)
{
    if (!inside)
        return;
    script_rings_free(inside->rings);
    free(inside);
}
