/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options.h"

#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/data/number.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "lang/request.h"
#include "symbols/index/index.h"

#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Values of options, by their types. */

struct span option_word(const struct option_row *row, size_t index)
{
    const char *at = row->words;
    for (; index; index--)
        at += strcspn(at, " ") + (at[strcspn(at, " ")] != 0);
    return span_of(at, strcspn(at, " "));
}

/* The index of a text among the row's words; -1: none. */
static int find_word(const struct option_row *row, struct span text, bool any_case)
{
    struct span word;
    for (size_t i = 0; (word = option_word(row, i)).len; i++)
        if (word.len == text.len && (any_case ? strncasecmp(word.ptr, text.ptr, word.len) == 0 : span_eq(word, text)))
            return (int)i;
    return -1;
}

static bool parse_switch(const char *text, bool *ret_on)
{
    static const struct option_row switches = {.words = "no yes off on false true 0 1"};
    int found = *text ? find_word(&switches, span_str(text), true) : 1; /* alone it is on */
    *ret_on = found % 2 == 1;
    return found >= 0;
}

static bool parse_choice(const struct option_row *row, const char *text, uint64_t *ret_number)
{
    int found = find_word(row, span_str(text), false);
    *ret_number = found < 0 ? 0 : (uint64_t)found;
    return found >= 0 || (!*text && row->flags & OPTION_OPTIONAL);
}

/* Flags may also be written as in C: OMIS_DEBUG. */
static bool parse_choices(const struct option_row *row, const char *text, uint64_t *ret_bits)
{
    for (*ret_bits = 0;; text += strspn(text, ", ")) {
        text += strncasecmp(text, "omis_", 5) == 0 ? 5 : 0;
        size_t len = strcspn(text, ", ");
        int found = find_word(row, span_of(text, len), true);
        if (found < 0)
            return false;
        *ret_bits |= UINT64_C(1) << found;
        text += len;
        if (!*text)
            return true;
    }
}

static bool in_range(const struct option_row *row, double number)
{
    return number >= row->least && (row->most == 0 || number <= row->most);
}

static bool parse_number(const struct option_row *row, const char *text, uint64_t *ret_number)
{
    char *end;
    if (row->words)
        text = strcmp(text, "off") == 0 ? "0" : strcmp(text, "auto") == 0 ? row->otherwise : text;
    errno = 0;
    *ret_number = strtoull(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && !errno && in_range(row, (double)*ret_number);
}

static bool parse_seconds(const struct option_row *row, const char *text, double *ret_seconds)
{
    char *end;
    *ret_seconds = strtod(text, &end);
    return end != text && (!*end || strcmp(end, "s") == 0) && in_range(row, *ret_seconds);
}

static bool parse_moment(const char *text, uint64_t *ret_ns)
{
    static const struct option_row any = {.most = 1e9};
    double seconds;
    if (time_parse(text, ret_ns))
        return true;
    if (!parse_seconds(&any, text, &seconds))
        return false;
    *ret_ns = (uint64_t)(seconds * NS_PER_SECOND);
    return true;
}

static int check_selection(const char *text, struct err *why)
{
    struct selection *selection;
    int code = selection_parse(&selection, text, why);
    if (code == 0)
        selection_free(selection);
    return code;
}

/* The monitor judges events and actions. Here only the form is checked: a conditional request. */
static int check_request(const char *text, struct err *why)
{
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct request request;
    int code = request_parse(&arena, span_str(text), &request, why);
    return code < 0 || request.event ? code : err_set(why, -EINVAL, "it needs an event before the colon");
}

static int check_regex(const char *text, struct err *why)
{
    regex_t regex;
    char said[200];
    int code = regcomp(&regex, text, REG_EXTENDED);
    if (code) {
        regerror(code, &regex, said, sizeof said);
        return err_set(why, -EINVAL, "%s", said);
    }
    size_t groups = regex.re_nsub;
    regfree(&regex);
    return groups <= OPTION_REGEX_GROUPS
               ? 0
               : err_set(why, -EINVAL, "more than %d groups in parentheses", OPTION_REGEX_GROUPS);
}

static bool parse(const struct option_row *row, const char *text, struct option_value *value, struct err *why)
{
    switch (row->type) {
    case OPTION_SWITCH:
        return parse_switch(text, &value->on);
    case OPTION_TEXT:
        return true;
    case OPTION_LIST:
    case OPTION_DIR:
    case OPTION_FILE:
        return *text && in_range(row, (double)strlen(text));
    case OPTION_NUMBER:
        return parse_number(row, text, &value->number);
    case OPTION_SECONDS:
        return parse_seconds(row, text, &value->seconds);
    case OPTION_TIME:
        return time_parse(text, &value->number);
    case OPTION_MOMENT:
        return parse_moment(text, &value->number);
    case OPTION_SIZE:
        return size_parse(text, &value->number) && in_range(row, (double)value->number);
    case OPTION_CHOICE:
        return parse_choice(row, text, &value->number);
    case OPTION_CHOICES:
        return parse_choices(row, text, &value->number);
    case OPTION_SELECTION:
        value->on = strcmp(text, "off") != 0;
        return !value->on || check_selection(text, why) == 0;
    case OPTION_REQUEST:
        return check_request(text, why) == 0;
    case OPTION_REGEX:
        value->on = *text && strcmp(text, "off") != 0;
        return !value->on || check_regex(text, why) == 0;
    }
    return false;
}

/* "drop, wait or flight" */
static void put_words(struct buf *out, const struct option_row *row)
{
    struct span word;
    for (size_t i = 0; (word = option_word(row, i)).len; i++)
        buf_printf(out, "%s%.*s", i == 0 ? "" : option_word(row, i + 1).len ? ", " : " or ", SPAN_ARG(word));
}

static void put_expected(struct buf *out, const struct option_row *row)
{
    static const char *const expected[] = {
        [OPTION_SWITCH] = "yes or no",
        [OPTION_DIR] = "the name of a directory",
        [OPTION_FILE] = "the name of a file",
        [OPTION_TIME] = "a time such as 500us, 2ms or 1s",
        [OPTION_MOMENT] = "a time such as 0.5 (seconds), 20ms or 5us",
        [OPTION_SIZE] = "a size such as 500M or 20G",
        [OPTION_SELECTION] = "functions such as 'fn:solve*', 'file:ocean.c', '!fn:get_*' or off",
        [OPTION_REQUEST] = "'EVENT : ACTIONS'",
        [OPTION_REGEX] = "a POSIX extended regular expression or off",
    };
    if (row->expected || expected[row->type])
        buf_puts(out, row->expected ? row->expected : expected[row->type]);
    else
        put_words(out, row);
    if (row->type == OPTION_CHOICES)
        buf_puts(out, ", with commas between them");
}

int option_parse(const struct option_row *row, const char *text, const char *from, struct option_value *ret_value,
                 struct err *err)
{
    struct err why = {0};
    struct option_value value = {0};
    const char *colon = from ? ": " : "";
    from = from ? from : "";
    if (parse(row, text, &value, &why)) {
        *ret_value = value;
        return 0;
    }
    _cleanup_(buf_done) struct buf expected = BUF_INIT;
    put_expected(&expected, row);
    return err_set(err, -EINVAL, "%s%sexpected %s%s%.200s%s, not '%.100s%s'", from, colon,
                   expected.data ? expected.data : "", *why.text ? " (" : "", why.text, *why.text ? ")" : "", text,
                   strlen(text) > 100 ? "..." : "");
}

/* Where options come from: the command line, the environment, a file. */

enum { ENVIRONMENT_NAME_SIZE = 64 };
enum { FROM_COMMAND_LINE, FROM_ENVIRONMENT, FROM_FILE }; /* in the order of precedence */

/* ---- rows ---- */

static bool is_of(const struct option_row *row, enum command command)
{
    return row->commands & 1u << command;
}

const struct option_row *option_find(enum command command, const char *name, size_t len)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (is_of(row, command) && strlen(row->name) == len && memcmp(row->name, name, len) == 0)
            return row;
    return NULL;
}

static const struct option_row *find_letter(enum command command, char letter)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (is_of(row, command) && row->letter == letter)
            return row;
    return NULL;
}

const struct option_row *option_find_monitor(const char *key)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (row->flags & OPTION_MONITOR && strcmp(row->name, key) == 0)
            return row;
    return NULL;
}

const struct option_row *option_find_setting(const char *key, struct err *err)
{
    struct fuzzy_match meant = {.distance = FUZZY_NONE};
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        if (!(row->flags & OPTION_SETTING))
            continue;
        if (strcmp(row->name, key) == 0)
            return row;
        fuzzy_match_try(&meant, key, strlen(key), row->name);
    }
    err_set(err, -ENOENT, "there is no setting %s%s%s%s: `scry set --help` lists them", key,
            *meant.text ? " (did you mean " : "", meant.text, *meant.text ? "?)" : "");
    return NULL;
}

static int option_unknown(enum command command, const char *text, size_t len, struct err *err)
{
    struct fuzzy_match meant = {.distance = FUZZY_NONE};
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++)
        if (is_of(row, command))
            fuzzy_match_try(&meant, text, len, row->name);
    return err_set(err, -EINVAL, "unknown option --%.*s%s%s%s", (int)(len < FUZZY_SIZE ? len : FUZZY_SIZE), text,
                   *meant.text ? " (did you mean --" : "", meant.text, *meant.text ? "?)" : "");
}

/* ---- one option ---- */

int option_check_empty(const struct option_row *row, const char *text, const char *from, struct err *err)
{
    if (row->type == OPTION_SELECTION && !text[strspn(text, " \t\n,")]) /* mostly a variable that is not set */
        return err_set(err, -EINVAL,
                       "%s: it selects nothing: name functions, such as 'fn:solve*' or 'file:ocean.c', or leave it "
                       "out for all of the program's own (off: none)",
                       from);
    return 0;
}

static const struct option_given *find_given(const struct options *options, const struct option_row *row)
{
    for (size_t i = options->count; i > 0; i--)
        if (options->given[i - 1].row == row)
            return &options->given[i - 1];
    return NULL;
}

static int options_add(struct options *options, const struct option_row *row, const char *text, unsigned source,
                       const char *from, struct err *err)
{
    enum { STEP = 16 };
    const struct option_given *before = find_given(options, row);
    struct option_given given = {.row = row, .text = text, .source = source};
    int code = option_check_empty(row, text, from, err);
    if (code < 0 || (before && before->source < source))
        return code;
    code = option_parse(row, text, from, &given.value, err);
    if (code < 0)
        return code;
    if (options->count % STEP == 0) {
        struct option_given *more = arena_alloc(&options->memory, (options->count + STEP) * sizeof *more);
        if (!more)
            return err_set(err, -ENOMEM, "out of memory");
        if (options->count)
            memcpy(more, options->given, options->count * sizeof *more);
        options->given = more;
    }
    options->given[options->count++] = given;
    options->lists |= source == FROM_COMMAND_LINE && row->flags & OPTION_LISTS && strcmp(text, "list") == 0;
    options->help |= given.value.on && strcmp(row->name, "help") == 0;
    return 0;
}

/* ---- the command line ---- */

/* "--" is the end of the options, and most likely the value before it was forgotten, as it was before another option.
 * `--trace=--` can be had. */
static bool is_value(enum command command, const char *word)
{
    if (!word || strncmp(word, "--", 2) != 0)
        return word;
    return word[2] && !option_find(command, word + 2, strcspn(word + 2, "="));
}

static int needs_value(const struct option_row *row, const char *from, struct err *err)
{
    return err_set(err, -EINVAL, "%s needs a value: %s %s", from, from, row->argument);
}

static int parse_long(struct options *options, char **argv, int *at, struct err *err)
{
    const char *text = argv[*at] + strlen("--"), *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    const struct option_row *row = option_find(options->command, text, len);
    if (!row)
        return option_unknown(options->command, text, len, err);
    const char *value = equals ? equals + 1 : "";
    char from[FUZZY_SIZE];
    snprintf(from, sizeof from, "--%s", row->name);
    if (row->argument && !equals && !(row->flags & OPTION_OPTIONAL)) {
        if (!is_value(options->command, argv[*at + 1]))
            return needs_value(row, from, err);
        value = argv[++*at];
    }
    return options_add(options, row, value, FROM_COMMAND_LINE, from, err);
}

/* "-q", "-qo DIR", "-oDIR" */
static int parse_letters(struct options *options, char **argv, int *at, struct err *err)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option_row *row = find_letter(options->command, *letter);
        char from[] = {'-', *letter, 0};
        if (!row)
            return err_set(err, -EINVAL, "unknown option %s", from);
        const char *value = !row->argument ? "" : letter[1] ? letter + 1 : argv[++*at];
        if (!is_value(options->command, value))
            return needs_value(row, from, err);
        int code = options_add(options, row, value, FROM_COMMAND_LINE, from, err);
        if (code < 0 || row->argument)
            return code;
    }
    return 0;
}

static int parse_arguments(struct options *options, int argc, char **argv, struct err *err)
{
    bool only_before = command_rows[options->command].words == WORDS_COMMAND, over = false;
    options->words = argv + 1;
    for (int at = 1; at < argc; at++) {
        if (over || argv[at][0] != '-' || !argv[at][1]) {
            if (only_before) {
                options->words = argv + at;
                options->word_count = (size_t)(argc - at);
                return 0;
            }
            options->words[options->word_count++] = argv[at];
            continue;
        }
        if (strcmp(argv[at], "--") == 0) {
            over = true;
            continue;
        }
        int code = argv[at][1] == '-' ? parse_long(options, argv, &at, err) : parse_letters(options, argv, &at, err);
        if (code < 0 || options->help)
            return code;
    }
    if (options->word_count)
        options->words[options->word_count] = NULL;
    else
        options->words = argv + argc;
    return 0;
}

/* ---- the environment, and the file ---- */

static int read_environment(struct options *options, struct err *err)
{
    for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
        char name[ENVIRONMENT_NAME_SIZE];
        if (!is_of(row, options->command) || !(row->flags & OPTION_ENVIRONMENT))
            continue;
        int len = snprintf(name, sizeof name, "SCRY_%s", row->name);
        for (int at = 0; at < len; at++)
            name[at] = name[at] == '-' ? '_' : (char)toupper((unsigned char)name[at]);
        const char *value = getenv(name);
        int code = value && *value ? options_add(options, row, value, FROM_ENVIRONMENT, name, err) : 0;
        if (code < 0)
            return code;
    }
    return 0;
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        text[--len] = 0;
    return text;
}

static int read_line(struct options *options, const char *path, char *line, unsigned number, struct err *err)
{
    char from[256];
    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    line += strspn(line, "-");
    size_t len = strcspn(line, "= \t");
    const struct option_row *row =
        len == 1 ? find_letter(options->command, *line) : option_find(options->command, line, len);
    char *value = trim(line + len);
    if (*value == '=')
        value = trim(value + 1);
    snprintf(from, sizeof from, "%.180s line %u: %.*s", path, number, (int)(len < 40 ? len : 40), line);
    if (!row || !(row->flags & (OPTION_ENVIRONMENT | OPTION_IN_FILE)) || row->flags & OPTION_NOT_IN_FILE)
        return err_set(err, -EINVAL, "%s: no option of scry %s", from, command_rows[options->command].name);
    if (row->argument && !*value)
        return err_set(err, -EINVAL, "%s needs a value", from);
    return options_add(options, row, value, FROM_FILE, from, err);
}

static int read_file(struct options *options, const char *path, struct err *err)
{
    _cleanup_(freep) char *bytes = NULL;
    int code = file_read(path, &bytes, NULL);
    if (code < 0)
        return err_errno(err, code, "cannot read the options in %s", path);
    char *text = arena_dup(&options->memory, bytes, strlen(bytes));
    if (!text)
        return err_set(err, -ENOMEM, "out of memory");
    unsigned number = 0;
    for (char *line; code == 0 && (line = strsep(&text, "\n"));)
        code = read_line(options, path, line, ++number, err);
    return code;
}

static int check_words(const struct options *options, struct err *err)
{
    const struct command_row *row = &command_rows[options->command];
    bool jobs = row->words == WORDS_JOBS || row->words == WORDS_SETTINGS;
    const char *excess = row->excess ? row->excess : jobs ? "one job at a time" : NULL;
    if (options->word_count > row->most)
        return err_set(err, -EINVAL, "unexpected argument %s%s%s", options->words[row->most], excess ? ": " : "",
                       excess ? excess : "");
    if (options->word_count < row->least)
        return err_set(err, -EINVAL, "%s", row->missing ? row->missing : "name a job (@last is the latest)");
    return 0;
}

int options_parse(struct options *ret_options, enum command command, int argc, char **argv, struct err *err)
{
    *ret_options = (struct options){.command = command, .argv = argv};
    int code = parse_arguments(ret_options, argc, argv, err);
    if (code < 0 || ret_options->help)
        return code;
    if ((code = read_environment(ret_options, err)) < 0)
        return code;
    const struct option_row *config = option_find(command, "config", strlen("config"));
    const struct option_given *file = config ? find_given(ret_options, config) : NULL;
    if (file && (code = read_file(ret_options, file->text, err)) < 0)
        return code;
    return ret_options->lists ? 0 : check_words(ret_options, err);
}

void options_done(struct options *options)
{
    arena_done(&options->memory);
}

/* ---- what was given ---- */

static struct option_given options_get(const struct options *options, const char *name)
{
    const struct option_row *row = option_find(options->command, name, strlen(name));
    if (!row)
        abort();
    const struct option_given *given = find_given(options, row);
    struct option_given otherwise = {.row = row, .text = row->otherwise};
    if (!given && row->otherwise && option_parse(row, row->otherwise, row->name, &otherwise.value, NULL) < 0)
        abort();
    return given ? *given : otherwise;
}

bool options_given(const struct options *options, const char *name)
{
    return find_given(options, options_get(options, name).row) != NULL;
}

bool options_on(const struct options *options, const char *name)
{
    return options_get(options, name).value.on;
}

uint64_t options_number(const struct options *options, const char *name)
{
    return options_get(options, name).value.number;
}

double options_seconds(const struct options *options, const char *name)
{
    return options_get(options, name).value.seconds;
}

const char *options_text(const struct options *options, const char *name)
{
    return options_get(options, name).text;
}

const char *options_next(const struct options *options, const char *name, size_t *at)
{
    const struct option_row *row = options_get(options, name).row;
    while (*at < options->count)
        if (options->given[(*at)++].row == row)
            return options->given[*at - 1].text;
    return NULL;
}

/* What --help prints. */

enum { COLUMNS = 80, WIDEST_FORM = 24 };

/* Puts the words of the text, with further lines starting at `column`, where the current line has arrived. */
static void put_wrapped(struct buf *out, const char *text, size_t column)
{
    size_t at = column;
    for (size_t len; (len = strcspn(text, " ")) > 0; text += len + (text[len] == ' ')) {
        if (at > column && at + 1 + len > COLUMNS) {
            buf_printf(out, "\n%*s", (int)column, "");
            at = column;
        }
        buf_printf(out, "%s%.*s", at > column ? " " : "", (int)len, text);
        at += len + (at > column);
    }
    buf_putc(out, '\n');
}

/* As it is typed: an option, or a setting. */
static void put_option_form(struct buf *out, const struct option_row *row, bool setting)
{
    const char *argument = row->argument ? row->argument : "";
    if (setting)
        buf_printf(out, "%s=%s", row->name, row->argument ? argument : "yes|no");
    else if (row->flags & OPTION_OPTIONAL)
        buf_printf(out, "    --%s[=%s]", row->name, argument);
    else
        buf_printf(out, "%c%c%s--%s%s%s", row->letter ? '-' : ' ', row->letter ? row->letter : ' ',
                   row->letter ? ", " : "  ", row->name, *argument ? " " : "", argument);
}

static bool is_shown(const struct option_row *row, enum command command, bool setting)
{
    return setting ? row->flags & OPTION_SETTING : row->commands & 1u << command && !(row->flags & OPTION_EXPERT);
}

static void put_rows(struct buf *out, enum command command, bool setting)
{
    size_t width = 0;
    for (int printing = 0; printing < 2; printing++)
        for (const struct option_row *row = option_rows; row < option_rows + option_row_count; row++) {
            _cleanup_(buf_done) struct buf form = BUF_INIT, text = BUF_INIT;
            if (!is_shown(row, command, setting))
                continue;
            put_option_form(&form, row, setting);
            if (!printing) {
                width = form.len > width && form.len <= WIDEST_FORM ? form.len : width;
                continue;
            }
            buf_printf(out, "  %-*s", (int)width, form.data ? form.data : "");
            buf_printf(out, form.len > width ? "\n%*s" : "%*s", form.len > width ? (int)width + 4 : 2, "");
            buf_puts(&text, row->help);
            if (row->otherwise)
                buf_printf(&text, " (default %s)", row->otherwise);
            put_wrapped(out, text.data ? text.data : "", width + 4);
        }
}

const char *command_typed(enum command command, const char *word)
{
    const char *alias = command_rows[command].alias;
    return alias && word && strcmp(alias, word) == 0 ? alias : command_rows[command].name;
}

void options_help(struct buf *out, enum command command)
{
    const struct command_row *row = &command_rows[command];
    for (size_t i = 0; i < sizeof row->usage / sizeof *row->usage && row->usage[i]; i++)
        buf_printf(out, "%s scry %s%s%s\n", i ? "      " : "Usage:", row->name, *row->usage[i] ? " " : "",
                   row->usage[i]);
    buf_printf(out, "\n%s", row->about);
    if (row->words == WORDS_JOBS || row->words == WORDS_SETTINGS)
        buf_puts(out, "JOB is a job's id or the beginning of one that no other has, its name (the\n"
                      "newest job of that name), @last, or a job directory; or that of a job at a\n"
                      "broker: mqtt://HOST/USER/JOB, local//USER/JOB, @BROKER/USER/JOB.\n");
    if (row->words == WORDS_SETTINGS) {
        buf_putc(out, '\n');
        put_rows(out, command, true);
    }
    buf_putc(out, '\n');
    put_rows(out, command, false);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_rows[i].flags & OPTION_EXPERT && option_rows[i].commands & 1u << command) {
            buf_printf(out, "\nMore options, which few need: scry-%s(1).\n", row->name);
            break;
        }
    if (row->notes)
        buf_printf(out, "\n%s", row->notes);
    if (row->example)
        buf_printf(out, "\nExample: %s\n", row->example);
}
