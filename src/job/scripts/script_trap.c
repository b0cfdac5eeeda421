/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/scripts.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "jobdir/layers/starter.h"

enum { DEPTH_MOST = 4, COMMANDS_MOST = 500, PARTS_MOST = 64 };

/* A part of the script that is executed in traps: an action, or a function with its name. */
struct part {
    struct span name; /* of the function; empty: an action */
    struct span text;
    bool outside; /* it is called outside of them, too */
};

struct search {
    struct span script;
    json_t *names;
    unsigned commands; /* that were looked at */
    struct part parts[PARTS_MOST];
    size_t part_count; /* may be more than have room: then what stands elsewhere is not known */
};

/* What is left of a text. */
struct words {
    const char *at, *end;
};

static struct words words_of(struct span text)
{
    return (struct words){text.ptr, text.ptr + text.len};
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool ends_command(char c)
{
    return c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' || c == '`';
}

/* ">&2", "2>&1", "&>log": it is part of a word. */
static bool is_redirection(const char *start, const char *at, const char *end)
{
    return *at == '&' && ((at > start && strchr("<>", at[-1])) || (at + 1 < end && at[1] == '>'));
}

/* Behind the quote that closes the one at `at`, or the end. */
static const char *quote_end(const char *at, const char *end)
{
    char quote = *at++;
    while (at < end && *at != quote)
        at += quote == '"' && *at == '\\' && at + 1 < end ? 2 : 1;
    return at < end ? at + 1 : end;
}

/* The next word of the same command, with its quotes; empty: the command has no more. */
static struct span word_next(struct words *words)
{
    const char *end = words->end, *at = words->at;
    while (at < end && (is_blank(*at) || (*at == '\\' && at + 1 < end && at[1] == '\n')))
        at += *at == '\\' ? 2 : 1;
    const char *start = at;
    if (at < end && *at == '#') { /* a comment */
        while (at < end && *at != '\n')
            at++;
        start = at;
    }
    while (at < end && !is_blank(*at) && (!ends_command(*at) || is_redirection(start, at, end)))
        at = *at == '\'' || *at == '"' ? quote_end(at, end) : at + (*at == '\\' && at + 1 < end ? 2 : 1);
    words->at = at;
    return span_of(start, (size_t)(at - start));
}

static bool is_one_of(struct span word, const char *const *list)
{
    for (size_t i = 0; list[i]; i++)
        if (span_is(word, list[i]))
            return true;
    return false;
}

/* The name of the next command, before which others and variables may stand; its other words are left in `words`. false: there is none. */
static bool command_next(struct words *words, struct span *ret_name)
{
    static const char *const before[] = {"{",     "}",     "!",  "then", "do",   "else",    "if",   "elif",
                                         "while", "until", "fi", "done", "time", "command", "exec", NULL};
    while (words->at < words->end) {
        struct span word = word_next(words);
        if (!word.len) {
            words->at += words->at < words->end ? 1 : 0;
            continue;
        }
        if (memchr(word.ptr, '=', word.len) || is_one_of(word, before))
            continue;
        *ret_name = word;
        return true;
    }
    return false;
}

/* ---- functions ---- */

/* From behind the name in "NAME ()" or "function NAME" at the beginning of a line to the brace that ends this line, or begins a later one. */
static struct span function_body(struct span script, struct span name)
{
    static const char function[] = "function ";
    const char *end = script.ptr + script.len;
    for (const char *line = script.ptr, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *at = line, *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        while (at < stop && is_blank(*at))
            at++;
        bool named = (size_t)(stop - at) > strlen(function) && memcmp(at, function, strlen(function)) == 0;
        at += named ? strlen(function) : 0;
        if ((size_t)(stop - at) < name.len || memcmp(at, name.ptr, name.len) != 0)
            continue;
        at += name.len;
        while (at < stop && is_blank(*at))
            at++;
        if (!named && (at == stop || *at != '('))
            continue;
        while (stop > at && isspace((unsigned char)stop[-1]))
            stop--;
        if (stop > at && stop[-1] == '}')
            return span_of(at, (size_t)(stop - at));
        while (next < end && *next != '}') {
            newline = memchr(next, '\n', (size_t)(end - next));
            next = newline ? newline + 1 : end;
        }
        return span_of(at, (size_t)(next - at));
    }
    return span_of(NULL, 0);
}

/* ---- commands ---- */

static bool is_file_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.ptr[i]) && (!name.ptr[i] || !strchr("._+-/", name.ptr[i])))
            return false;
    return name.len && *name.ptr != '-';
}

static void add_name(json_t *names, struct span name)
{
    size_t index;
    json_t *known;
    const char *slash = memrchr(name.ptr, '/', name.len);
    struct span base = slash ? span_of(slash + 1, (size_t)(name.ptr + name.len - slash - 1)) : name;
    json_array_foreach(names, index, known)
    {
        if (span_is(base, json_string_value(known)))
            return;
    }
    if (base.len && index < SCRIPT_TRAP_COMMANDS)
        json_array_append_new(names, json_stringn(base.ptr, base.len));
}

static void add_part(struct search *search, struct span name, struct span text)
{
    for (size_t i = 0; i < search->part_count && i < PARTS_MOST; i++)
        if (search->parts[i].text.ptr == text.ptr)
            return;
    if (search->part_count < PARTS_MOST)
        search->parts[search->part_count] = (struct part){.name = name, .text = text};
    search->part_count += search->part_count <= PARTS_MOST;
}

/* A function with its name, which stands before its body. */
static void add_function(struct search *search, struct span name, struct span body)
{
    const char *start = body.ptr;
    while (is_blank(start[-1]))
        start--;
    add_part(search, name, span_of(start - name.len, (size_t)(body.ptr - start) + name.len + body.len));
}

static void add_commands(struct search *search, struct span text, unsigned depth)
{
    static const char *const builtins[] = {
        ".",        ":",       "[",       "[[",     "break",  "case", "cd",       "continue", "declare", "echo",
        "esac",     "eval",    "exit",    "export", "false",  "for",  "function", "in",       "jobs",    "kill",
        "let",      "local",   "popd",    "printf", "pushd",  "pwd",  "read",     "return",   "set",     "shift",
        "shopt",    "source",  "test",    "trap",   "true",   "type", "umask",    "unset",    "wait",    "select",
        "readonly", "typeset", "builtin", "disown", "ulimit", "hash", "alias",    "getopts",  NULL};
    struct words words = words_of(text);
    struct span name;
    while (search->commands++ < COMMANDS_MOST && command_next(&words, &name)) {
        struct span body = is_file_name(name) ? function_body(search->script, name) : span_of(NULL, 0);
        if (body.len && depth < DEPTH_MOST) {
            add_function(search, name, body);
            add_commands(search, body, depth + 1);
        }
        if (!body.len && is_file_name(name) && !is_one_of(name, builtins))
            add_name(search->names, name);
        while (word_next(&words).len)
            ;
    }
}

/* ---- what stands elsewhere in the script ---- */

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* Whether the name stands as a word where it is not only for traps. */
static bool is_outside(const struct search *search, struct span name)
{
    const char *at = search->script.ptr, *end = at + search->script.len;
    while (name.len && (at = memmem(at, (size_t)(end - at), name.ptr, name.len)) != NULL) {
        const char *behind = at + name.len;
        bool inside = (at > search->script.ptr && is_of_name(at[-1])) || (behind < end && is_of_name(*behind));
        for (size_t i = 0; i < search->part_count && !inside; i++) {
            const struct part *part = &search->parts[i];
            inside = !part->outside && at >= part->text.ptr && behind <= part->text.ptr + part->text.len;
            behind = inside ? part->text.ptr + part->text.len : behind;
        }
        if (!inside)
            return true;
        at = behind;
    }
    return false;
}

/* A new reference; NULL: none of them. */
static json_t *names_of_traps_only(struct search *search)
{
    json_t *only = json_array(), *name;
    size_t index;
    bool changed = search->part_count <= PARTS_MOST;
    while (changed) { /* what a function calls that is called outside of traps is so, too */
        changed = false;
        for (size_t i = 0; i < search->part_count; i++) {
            struct part *part = &search->parts[i];
            bool outside = !part->outside && part->name.len && is_outside(search, part->name);
            part->outside |= outside;
            changed |= outside;
        }
    }
    json_array_foreach(search->names, index, name)
    {
        const char *text = json_string_value(name);
        if (text && search->part_count <= PARTS_MOST && !is_outside(search, span_of(text, strlen(text))))
            json_array_append(only, name);
    }
    if (json_array_size(only))
        return only;
    json_decref(only);
    return NULL;
}

static struct span without_quotes(struct span word)
{
    bool quoted = word.len > 1 && (*word.ptr == '\'' || *word.ptr == '"');
    return quoted ? span_of(word.ptr + 1, word.len - 2) : word;
}

struct script_trap script_trap_find(const char *text, size_t len)
{
    static const char *const events[] = {"EXIT", "0", "ERR", "exit", "err", NULL};
    struct search search = {.script = span_of(text, len), .names = json_array()};
    struct script_trap trap = {0};
    struct words words = words_of(search.script);
    struct span name, word;
    while (command_next(&words, &name)) {
        struct span action = word_next(&words);
        bool of_end = false;
        if (span_is(action, "--"))
            action = word_next(&words);
        while ((word = word_next(&words)).len)
            of_end |= is_one_of(word, events);
        if (!span_is(name, "trap") || !of_end || !action.len)
            continue;
        add_part(&search, span_of(NULL, 0), action);
        add_commands(&search, without_quotes(action), 0);
    }
    if (json_array_size(search.names)) {
        trap.commands = json_incref(search.names);
        trap.only = names_of_traps_only(&search);
    }
    json_decref(search.names);
    return trap;
}

void script_trap_done(struct script_trap *trap)
{
    json_decref(trap->commands);
    json_decref(trap->only);
    *trap = (struct script_trap){0};
}

/* ---- commands whose status is tested ---- */

enum { LIST_MOST = 32, HERE_MOST = 4, NESTED_MOST = 64, WORD_MOST = 200 };

/* The commands of a list (a && b || c) or of the one that is over, whose status may still be asked for. */
struct list {
    struct span command[LIST_MOST];
    size_t count;
};

struct tests {
    struct words words;
    json_t *tested, *others, *piped, *either; /* texts of commands; either: by || alone, silenced, or only told */
    struct list now, over;
    struct span
        closed; /* the last command of a group that has just ended, which may go on in a pipeline; empty: none */
    struct outer {
        struct list list;
        bool in_word;  /* a substitution: words of its command may follow */
        bool assigned; /* to a variable: the command's status is that of the last one in it */
    } outer[NESTED_MOST];
    size_t depth;
    const char *start;
    struct span here[HERE_MOST]; /* ends of here documents that begin on the next line */
    size_t here_count;
    bool condition; /* between if, while, until and their then, do */
    bool negated;
};

static bool is_plain(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._+-/,:=@%", c));
}

/* The word without quotes that stand around all of it; empty: it is only known when it is executed, or is too long to be kept. */
static struct span plain_word(struct span word)
{
    bool quoted = word.len > 2 && (*word.ptr == '\'' || *word.ptr == '"') && word.ptr[word.len - 1] == *word.ptr;
    struct span inner = quoted ? span_of(word.ptr + 1, word.len - 2) : word;
    for (size_t i = 0; i < inner.len; i++) {
        char c = inner.ptr[i];
        bool as_it_is = quoted && c && c != *word.ptr && (*word.ptr == '\'' || !strchr("$`\\!", c));
        if (!is_plain(c) && !as_it_is)
            return span_of(NULL, 0);
    }
    return inner.len <= WORD_MOST ? inner : span_of(NULL, 0);
}

/* The words that it begins with and that are known, one blank between them. A new reference; NULL: the first is none. */
static json_t *command_text(struct span command)
{
    struct words words = words_of(command);
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    for (struct span word; (word = plain_word(word_next(&words))).len;) {
        if (text.len)
            buf_putc(&text, ' ');
        buf_append(&text, word.ptr, word.len);
    }
    return text.len && !text.failed ? json_stringn(text.data, text.len) : NULL;
}

static void list_take(struct list *list, json_t *texts)
{
    for (size_t i = 0; i < list->count && json_array_size(texts) < SCRIPT_TESTED_MOST; i++) {
        json_t *text = command_text(list->command[i]);
        if (text)
            json_array_append_new(texts, text);
    }
    list->count = 0;
}

/* Its errors are thrown away: they are expected. */
static bool is_silenced(struct span command)
{
    static const char *const words[] = {"2>/dev/null",  "2> /dev/null",    "&>/dev/null",
                                        "&> /dev/null", ">/dev/null 2>&1", "> /dev/null 2>&1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (memmem(command.ptr, command.len, words[i], strlen(words[i])))
            return true;
    return false;
}

/* Nobody asks for their status. */
static void list_leave(struct tests *tests, struct list *list)
{
    struct list expected = {0}, others = {0};
    for (size_t i = 0; i < list->count; i++) {
        struct list *to = is_silenced(list->command[i]) ? &expected : &others;
        to->command[to->count++] = list->command[i];
    }
    struct list either = expected;
    list_take(&either, tests->either);
    list_take(&expected, tests->tested);
    list_take(&others, tests->others);
    list->count = 0;
}

static void list_end(struct tests *tests)
{
    tests->closed = span_of(NULL, 0);
    list_leave(tests, &tests->over);
    if (tests->negated)
        list_take(&tests->now, tests->tested);
    tests->negated = false;
    tests->over = tests->now;
    tests->now.count = 0;
}

static void add_piped(struct tests *tests, struct span command)
{
    json_t *text = command.len ? command_text(command) : NULL;
    if (text && json_array_size(tests->piped) < SCRIPT_TESTED_MOST &&
        !is_silenced(span_of(command.ptr, (size_t)(tests->words.at - command.ptr))))
        json_array_append(tests->piped, text);
    json_decref(text);
}

/* Of a pipeline the last one is asked. */
static void pipe_on(struct tests *tests)
{
    struct list stage = {.count = tests->now.count > 0};
    add_piped(tests, tests->closed);
    tests->closed = span_of(NULL, 0);
    if (!stage.count)
        return;
    stage.command[0] = tests->now.command[--tests->now.count];
    add_piped(tests, stage.command[0]);
    list_leave(tests, &stage);
}

static void skip_here(struct tests *tests)
{
    struct words *words = &tests->words;
    for (size_t i = 0; i < tests->here_count; i++)
        for (bool found = false; !found && words->at < words->end;) {
            const char *newline = memchr(words->at, '\n', (size_t)(words->end - words->at));
            const char *stop = newline ? newline : words->end, *line = words->at;
            while (line < stop && *line == '\t')
                line++;
            found = (size_t)(stop - line) == tests->here[i].len &&
                    memcmp(line, tests->here[i].ptr, tests->here[i].len) == 0;
            words->at = newline ? newline + 1 : words->end;
        }
    tests->here_count = 0;
}

/* "<<END", or "<<" before it. */
static void see_here(struct tests *tests, struct span word)
{
    for (size_t i = 0; i + 1 < word.len && tests->here_count < HERE_MOST; i++) {
        if (word.ptr[i] != '<' || word.ptr[i + 1] != '<')
            continue;
        i += 2;
        if (i < word.len && word.ptr[i] == '<') /* a string */
            return;
        i += i < word.len && word.ptr[i] == '-';
        struct span end = i < word.len ? span_of(word.ptr + i, word.len - i) : word_next(&tests->words);
        bool quoted = end.len > 2 && strchr("'\"", *end.ptr);
        end = quoted ? span_of(end.ptr + 1, end.len - 2) : end;
        end = end.len > 1 && *end.ptr == '\\' ? span_of(end.ptr + 1, end.len - 1) : end;
        tests->here[tests->here_count++] = end;
        return;
    }
}

/* What is no command, but words of one that has begun. */
static void skip_words(struct tests *tests)
{
    for (struct span word; (word = word_next(&tests->words)).len;)
        see_here(tests, word);
}

/* What stands between two words. */
static void see_end_of_word(struct tests *tests)
{
    struct words *words = &tests->words;
    char c = *words->at++, next = words->at < words->end ? *words->at : 0;
    if (c == '\n') {
        list_end(tests);
        skip_here(tests);
    } else if (c == ';' || (c == '&' && next != '&')) {
        list_end(tests);
        if (c == '&') /* nobody waits for it here */
            list_leave(tests, &tests->over);
    } else if (c == '|' && next != '|') {
        words->at += next == '&';
        pipe_on(tests);
    } else if (c == '|') {
        words->at++;
        struct list now = tests->now;
        list_take(&now, tests->either);
        list_take(&tests->now, tests->tested);
    } else if (c == '&') {
        words->at++;
    } else if (c == '(' && next == ')') { /* a function */
        words->at++;
        tests->now.count -= tests->now.count > 0;
    } else if (c == '(' && tests->depth < NESTED_MOST) {
        list_leave(tests, &tests->over);
        bool in_word = words->at - 1 > tests->start && strchr("$<>=", words->at[-2]);
        bool assigned = words->at - 2 > tests->start && words->at[-2] == '$' && words->at[-3] == '=';
        tests->outer[tests->depth++] = (struct outer){tests->now, in_word, assigned};
        tests->now.count = 0;
    } else if (c == ')' && tests->depth) {
        list_end(tests);
        struct span last = tests->over.count ? tests->over.command[tests->over.count - 1] : span_of(NULL, 0);
        tests->closed = last;
        const struct outer *outer = &tests->outer[--tests->depth];
        bool assigned = outer->assigned && last.len && outer->list.count < LIST_MOST;
        tests->over.count -= assigned;
        list_leave(tests, &tests->over);
        tests->now = outer->list;
        if (assigned)
            tests->now.command[tests->now.count++] = last;
        else if (tests->outer[tests->depth].in_word && tests->now.count)
            skip_words(tests);
    } else if (c == ')') { /* a pattern of case */
        tests->now.count = 0;
    }
}

static bool is_assignment(struct span word)
{
    size_t name = 0;
    while (name < word.len && (isalnum((unsigned char)word.ptr[name]) || word.ptr[name] == '_'))
        name++;
    return name && name < word.len && word.ptr[name] == '=';
}

static bool asks_status(struct span word)
{
    return memmem(word.ptr, word.len, "$?", 2) || memmem(word.ptr, word.len, "PIPESTATUS", strlen("PIPESTATUS"));
}

/* true: no command begins with it, but one may behind it. */
static bool see_reserved(struct tests *tests, struct span word)
{
    static const char *const begins[] = {"if", "elif", "while", "until", NULL}, *const over[] = {"then", "do", NULL};
    static const char *const others[] = {"else", "fi", "done", "esac", "{", "}", "time", "command", "exec", NULL};
    bool condition = is_one_of(word, begins);
    if (is_one_of(word, over) && tests->condition)
        list_take(&tests->over, tests->tested);
    if (is_one_of(word, over))
        tests->condition = false;
    tests->condition |= condition;
    tests->negated |= span_is(word, "!");
    if (is_assignment(word) && asks_status(word))
        list_take(&tests->over, tests->tested);
    if (span_is(word, "}") && tests->over.count)
        tests->closed = tests->over.command[tests->over.count - 1];
    return condition || is_assignment(word) || is_one_of(word, over) || is_one_of(word, others) || span_is(word, "!");
}

/* The words of a command. */
static void see_command(struct tests *tests, struct span first)
{
    static const char *const loops[] = {"for", "select", "case", "function", NULL}, *const tells[] = {"echo", "printf",
                                                                                                      NULL};
    const char *end = first.ptr + first.len;
    for (struct span word = first; word.len; word = word_next(&tests->words)) {
        struct list told = tests->over;
        if (asks_status(word) && is_one_of(first, tells))
            list_take(&told, tests->either);
        if (asks_status(word))
            list_take(&tests->over, tests->tested);
        see_here(tests, word);
        end = word.ptr + word.len;
    }
    if (!is_one_of(first, loops) && tests->now.count < LIST_MOST)
        tests->now.command[tests->now.count++] = span_of(first.ptr, (size_t)(end - first.ptr));
}

/* Whether one of them begins with the other. */
static bool is_like(const char *one, const char *other)
{
    size_t len = strlen(one), more = strlen(other), least = len < more ? len : more;
    return strncmp(one, other, least) == 0 && (len == more || (len < more ? other : one)[least] == ' ');
}

/* Those of the texts that stand in no other way, each once. A new reference. */
static json_t *texts_alone(const json_t *texts, const json_t *others)
{
    json_t *only = json_array(), *one, *other;
    size_t i, k;
    json_array_foreach(texts, i, one)
    {
        bool alone = true;
        json_array_foreach(others, k, other) alone &= !is_like(json_string_value(one), json_string_value(other));
        json_array_foreach(only, k, other) alone &= !json_equal(one, other);
        if (alone)
            json_array_append(only, one);
    }
    return only;
}

struct script_tested script_tested_find(const char *text, size_t len)
{
    struct script_tested found = {.piped = json_array()};
    struct tests *tests = calloc(1, sizeof *tests);
    if (!tests)
        return found;
    *tests = (struct tests){.words = words_of(span_of(text, len)),
                            .tested = json_array(),
                            .others = json_array(),
                            .either = json_array(),
                            .piped = found.piped,
                            .start = text};
    while (tests->words.at < tests->words.end) {
        struct span word = word_next(&tests->words);
        if (!word.len && tests->words.at < tests->words.end)
            see_end_of_word(tests);
        else if (word.len && !see_reserved(tests, word))
            see_command(tests, word);
    }
    list_end(tests);
    list_leave(tests, &tests->over);
    if (json_array_size(tests->others) >= SCRIPT_TESTED_MOST)
        json_array_clear(tests->tested);
    found.commands = texts_alone(tests->tested, tests->others);
    found.conditions = texts_alone(found.commands, tests->either);
    json_decref(tests->tested);
    json_decref(tests->others);
    json_decref(tests->either);
    free(tests);
    return found;
}

void script_tested_done(struct script_tested *tested)
{
    json_decref(tested->commands);
    json_decref(tested->conditions);
    json_decref(tested->piped);
    *tested = (struct script_tested){0};
}

/* ---- signals that it sends ---- */

static bool is_self(const char *word)
{
    static const char *const texts[] = {"$$", "-$$", "$BASHPID", "0"};
    word += *word == '"';
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strncmp(word, texts[i], strlen(texts[i])) == 0 &&
            (!word[strlen(texts[i])] || word[strlen(texts[i])] == '"'))
            return true;
    return false;
}

json_t *script_kills_find(const char *text, size_t len)
{
    json_t *kills = json_array(), *each;
    struct words words = words_of(span_of(text, len));
    struct span name, word;
    json_int_t line = 1;
    const char *counted = text;
    while (json_array_size(kills) < SCRIPT_KILLS_MOST && command_next(&words, &name)) {
        json_t *argv = json_pack("[s%]", name.ptr, name.len);
        bool self = false, known = false;
        size_t index;
        while ((word = word_next(&words)).len) {
            json_t *argument = json_stringn(word.ptr, word.len);
            self |= argument && is_self(json_string_value(argument));
            json_array_append_new(argv, argument);
        }
        for (; counted < name.ptr; counted++)
            line += *counted == '\n';
        int signo = starter_kill_signal(argv);
        json_decref(argv);
        json_array_foreach(kills, index, each)
        {
            known |= json_integer_value(json_object_get(each, "signal")) == signo &&
                     json_is_true(json_object_get(each, "self")) == self;
        }
        if (signo && !known)
            json_array_append_new(kills,
                                  json_pack("{s:I, s:i, s:b}", "line", line, "signal", signo, "self", (int)self));
    }
    if (json_array_size(kills))
        return kills;
    json_decref(kills);
    return NULL;
}

/* ---- what it prints ---- */

/* Without quotes, as far as it is known. false: what is behind it is not. */
static bool put_known(struct buf *out, struct span word, bool format)
{
    char quote = 0;
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        if ((c == '"' || c == '\'') && (!quote || quote == c)) {
            quote = quote ? 0 : c;
            continue;
        }
        if (!c || c == '\n' || c == '\\' || (quote != '\'' && strchr("$`", c)) || (!quote && strchr("*?[{~!", c)) ||
            (format && c == '%') || out->len >= SCRIPT_PRINTS_BYTES)
            return false;
        buf_putc(out, c);
    }
    return true;
}

/* "-n" of echo. */
static bool is_option(struct span word)
{
    size_t i = 1;
    while (i < word.len && strchr("neE", word.ptr[i]))
        i++;
    return word.len > 1 && *word.ptr == '-' && i == word.len;
}

/* It prints something that is not known. */
static void add_unknown(json_t *prints)
{
    size_t index;
    const json_t *each;
    json_array_foreach(prints, index, each)
    {
        if (!*json_string_value(each))
            return;
    }
    json_array_append_new(prints, json_string(""));
}

static void add_print(json_t *prints, struct words *words, bool format)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    struct span word = word_next(words);
    while (!format && is_option(word))
        word = word_next(words);
    for (bool known = true; word.len; word = word_next(words)) {
        bool quoted = memchr(word.ptr, '"', word.len) || memchr(word.ptr, '\'', word.len);
        if (!known || (!quoted && (memchr(word.ptr, '>', word.len) || memchr(word.ptr, '<', word.len))))
            continue; /* the file that may stand behind it is a word like others */
        if (text.len)
            buf_putc(&text, ' ');
        known = put_known(&text, word, format) && !format;
    }
    if (text.len >= SCRIPT_PRINTS_LEAST && !text.failed)
        json_array_append_new(prints, json_stringn(text.data, text.len));
    else
        add_unknown(prints);
}

/* Also what a trap prints; in_trap: this is the action of one. */
static void add_prints(json_t *prints, struct span text, bool in_trap)
{
    static const char *const tells[] = {"echo", "printf", NULL}, *const unknown[] = {".",    "source", "eval",    "pwd",
                                                                                     "type", "times",  "declare", NULL};
    struct words words = words_of(text);
    struct span name;
    while (json_array_size(prints) < SCRIPT_PRINTS_MOST && command_next(&words, &name)) {
        if (is_one_of(name, tells))
            add_print(prints, &words, span_is(name, "printf"));
        else if (is_one_of(name, unknown))
            add_unknown(prints);
        else if (span_is(name, "trap") && !in_trap)
            add_prints(prints, without_quotes(word_next(&words)), true);
        while (word_next(&words).len)
            ;
    }
}

json_t *script_prints_find(const char *text, size_t len)
{
    json_t *prints = json_array();
    add_prints(prints, span_of(text, len), false);
    if (json_array_size(prints) >= SCRIPT_PRINTS_MOST) /* there may be more */
        add_unknown(prints);
    if (json_array_size(prints))
        return prints;
    json_decref(prints);
    return NULL;
}

/* ---- where its output goes ---- */

const char *const script_passing[] = {"cat", "tee", "ts", "sed", "tail", "head", "stdbuf", "unbuffer", NULL};

/* A pipeline, or what groups some; the files that it writes to, from the program's stage on. */
struct flow {
    char close;  /* ')', or 'w' for a word; '-': that of the script itself */
    bool wanted; /* the program is in it, in this stage or before; */
    bool inside; /* or was, in another pipeline of the same group */
    bool passes; /* what stands between it and here passes on what it reads */
};

struct flows {
    const char *const *names;
    json_t *outputs;
    struct flow flow[NESTED_MOST];
    size_t depth;
};

static const char *base_of(struct span word, size_t *ret_len)
{
    const char *slash = word.len ? memrchr(word.ptr, '/', word.len) : NULL;
    const char *base = slash ? slash + 1 : word.ptr;
    *ret_len = word.len - (size_t)(base - word.ptr);
    return base;
}

static bool has_base(struct span word, const char *const *names)
{
    size_t len;
    const char *base = base_of(word, &len);
    for (size_t i = 0; len && names[i]; i++)
        if (strlen(names[i]) == len && memcmp(names[i], base, len) == 0)
            return true;
    return false;
}

static void add_output(struct flows *flows, struct span word, bool words)
{
    struct span file = plain_word(word);
    if (file.len && *file.ptr != '&' && json_array_size(flows->outputs) < SCRIPT_OUTPUTS_MOST)
        json_array_append_new(flows->outputs,
                              json_pack("{s:s%, s:b}", "file", file.ptr, file.len, "words", (int)words));
}

/* ">file", "2>>file", "&>file", or the next word is the file. false: it is none. */
static bool see_output(struct flows *flows, struct words *words, struct span word, bool own)
{
    const struct flow *flow = &flows->flow[flows->depth];
    const char *more = memchr(word.ptr, '>', word.len), *end = word.ptr + word.len;
    if (!more || more > word.ptr + 1)
        return false;
    bool errors = more > word.ptr && *word.ptr == '2';
    if (more > word.ptr && !errors && *word.ptr != '1' && *word.ptr != '&')
        return true;
    while (more < end && *more == '>')
        more++;
    struct span file = more < end ? span_of(more, (size_t)(end - more)) : word_next(words);
    if (flow->wanted && (own || !errors))
        add_output(flows, file, flow->passes);
    return true;
}

/* A command with its words. own: it is the program itself. */
static void see_stage(struct flows *flows, struct words *words, struct span name)
{
    static const char *const tees[] = {"tee", NULL};
    struct flow *flow = &flows->flow[flows->depth];
    bool reads = flow->wanted, own = has_base(name, flows->names), tee = reads && has_base(name, tees);
    if (reads)
        flow->passes &= has_base(name, script_passing);
    struct words ahead = *words;
    for (struct span word = name; !reads && word.len; word = word_next(&ahead)) /* "time ./solver", "python3 fit.py" */
        own |= has_base(word, flows->names);
    if (!reads && own)
        flow->wanted = flow->inside = flow->passes = true;
    for (struct span word; (word = word_next(words)).len;)
        if (!see_output(flows, words, word, own) && tee && *word.ptr != '-')
            add_output(flows, word, flow->passes);
}

static void flow_open(struct flows *flows, char close)
{
    if (flows->depth + 1 < NESTED_MOST)
        flows->flow[++flows->depth] = (struct flow){.close = close};
}

static void flow_close(struct flows *flows, char close)
{
    const struct flow inner = flows->flow[flows->depth];
    if (!flows->depth || inner.close != close)
        return;
    struct flow *outer = &flows->flow[--flows->depth];
    if (inner.inside && !outer->wanted)
        outer->wanted = outer->inside = outer->passes = true;
}

/* What parts two commands: one of them reads from the other, or not. */
static void see_parting(struct flows *flows, struct words *words)
{
    struct flow *flow = &flows->flow[flows->depth];
    bool pipe = *words->at == '|' && !(words->at + 1 < words->end && words->at[1] == '|');
    char c = *words->at++;
    if (pipe) {
        words->at += words->at < words->end && *words->at == '&'; /* "|&" */
        while (words->at < words->end && isspace((unsigned char)*words->at))
            words->at++;
    } else if (c == '(') {
        flow_open(flows, ')');
    } else if (c == ')') {
        flow_close(flows, ')');
    } else if (c != '`') {
        flow->wanted = false;
    }
}

json_t *script_outputs_find(const char *text, size_t len, const char *const *names)
{
    static const char *const opens[] = {"{", "for", "while", "until", "if", "case", "select", NULL};
    static const char *const closes[] = {"}", "done", "fi", "esac", NULL};
    static const char *const between[] = {"!", "then", "do", "else", "elif", "time", "exec", "in", NULL};
    struct flows *flows = calloc(1, sizeof *flows);
    struct words words = words_of(span_of(text, len));
    if (!flows)
        return NULL;
    *flows = (struct flows){.names = names, .outputs = json_array(), .flow = {{.close = '-'}}};
    while (words.at < words.end) {
        struct span word = word_next(&words);
        if (!word.len && words.at < words.end)
            see_parting(flows, &words);
        else if (is_one_of(word, opens))
            flow_open(flows, 'w');
        else if (is_one_of(word, closes))
            flow_close(flows, 'w');
        else if (word.len && !see_output(flows, &words, word, true) && !is_one_of(word, between) &&
                 !memchr(word.ptr, '=', word.len))
            see_stage(flows, &words, word);
    }
    json_t *outputs = flows->outputs;
    free(flows);
    if (json_array_size(outputs))
        return outputs;
    json_decref(outputs);
    return NULL;
}
