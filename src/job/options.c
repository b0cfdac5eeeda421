/* SPDX-License-Identifier: Apache-2.0 */
#include "job/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dirs.h"
#include "base/near.h"
#include "base/units.h"
#include "job/hide_args.h"
#include "lang/request.h"
#include "symbols/index.h"

enum { ENVIRONMENT_NAME_SIZE = 64 };
static const uint64_t DEFAULT_MAX_BYTES = UINT64_C(2) << 30;
static const double SAMPLE_MIN_SECONDS = 0.01, SAMPLE_MAX_SECONDS = 86400;

typedef const char *apply_fn(struct run_options *options, const char *value); /* NULL, or what was expected */

enum option_use {
    FOR_RUN = 1,     /* an option of scry run */
    FOR_SET = 2,     /* scry set can change it */
    FOR_MONITOR = 4, /* passed on to the monitor as a setting of the job */
    MANY = 8,        /* values add up */
    TRACING = 16,    /* given: the person expects a trace */
};

struct option_row {
    const char *name;     /* long form, without the dashes; also in the file and, in capitals, in the environment */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    apply_fn *apply;      /* NULL: known, but this version cannot do it */
    const char *doc;
    unsigned use; /* enum option_use */
};

static const char *set_dir(struct run_options *options, const char *value)
{
    options->dir = value;
    return *value ? NULL : "the name of a directory";
}

static const char *set_name(struct run_options *options, const char *value)
{
    options->name = value;
    return NULL;
}

static const char *set_config(struct run_options *options, const char *value)
{
    options->config = value;
    return *value ? NULL : "the name of a file";
}

static const char *set_hide_args(struct run_options *options, const char *value)
{
    static char why[ERR_TEXT_SIZE];
    struct err err = {0};
    options->hide_args = value;
    if (hide_args_check(value, &err) == 0)
        return NULL;
    snprintf(why, sizeof why, "a POSIX extended regular expression or off (%.200s)", err.text);
    return why;
}

static const char *set_sample(struct run_options *options, const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= SAMPLE_MIN_SECONDS) || !(seconds <= SAMPLE_MAX_SECONDS))
        return "seconds, from 0.01 to 86400";
    options->sample_seconds = seconds;
    return NULL;
}

static const char *set_max_size(struct run_options *options, const char *value)
{
    return size_parse(value, &options->max_bytes) ? NULL : "a size such as 500M or 2G";
}

static const char *set_keep_for(struct run_options *options, const char *value)
{
    uint64_t ns;
    options->keep_for = value;
    return time_parse(value, &ns) ? NULL : "an age such as 12h, 30d or 8w";
}

static const char *set_keep_size(struct run_options *options, const char *value)
{
    uint64_t bytes;
    options->keep_size = value;
    return size_parse(value, &bytes) ? NULL : "a size such as 500M or 20G";
}

/* The value of a switch: given without one, it is on. */
static const char *set_switch(bool *ret_switch, const char *value)
{
    static const char *const on[] = {"", "1", "yes", "on", "true"}, *const off[] = {"0", "no", "off", "false"};
    for (size_t i = 0; i < sizeof on / sizeof *on; i++)
        if (strcmp(value, on[i]) == 0) {
            *ret_switch = true;
            return NULL;
        }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (strcmp(value, off[i]) == 0) {
            *ret_switch = false;
            return NULL;
        }
    return "yes or no";
}

static const char *set_quiet(struct run_options *options, const char *value)
{
    return set_switch(&options->quiet, value);
}

static const char *set_crash_stack(struct run_options *options, const char *value)
{
    return set_switch(&options->crash_stack, value);
}

static const char *set_help(struct run_options *options, const char *value)
{
    return set_switch(&options->help, value);
}

static bool is_count(const char *value, uint64_t most)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*value))
        return false;
    unsigned long long number = strtoull(value, &end, 10);
    return !*end && !errno && number <= most;
}

static bool is_one_of(const char *value, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(value, *words) == 0)
            return true;
    return false;
}

static const char *set_trace(struct run_options *options, const char *value)
{
    static char why[ERR_TEXT_SIZE];
    struct selection *selection;
    struct err err = {0};
    if (strcmp(value, "off") == 0) {
        options->trace_off = true;
        return NULL;
    }
    options->trace_off = false;
    if (selection_parse(&selection, value, &err) < 0) {
        snprintf(why, sizeof why, "functions such as 'fn:solve*', 'file:ocean.c', '!fn:get_*' or off (%.200s)",
                 err.text);
        return why;
    }
    selection_free(selection);
    return NULL;
}

static const char *set_stall(struct run_options *options, const char *value)
{
    char *end;
    double seconds = strtod(value, &end);
    if (end == value || *end || !(seconds >= 0) || !(seconds <= SAMPLE_MAX_SECONDS))
        return "seconds, up to 86400; 0: never";
    options->stall_seconds = seconds;
    return NULL;
}

static const char *set_mpi(struct run_options *options, const char *value)
{
    static const char *const words[] = {"auto", "off", "stats", "trace", "messages"}; /* enum run_mpi */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(value, words[i]) == 0) {
            options->mpi = (enum run_mpi)i;
            return NULL;
        }
    return "auto, off, stats, trace or messages";
}

static const char *check_switch(struct run_options *options, const char *value)
{
    bool on;
    return set_switch(&on, value);
}

/* Names are the monitor's to judge. */
static const char *check_list(struct run_options *options, const char *value)
{
    return *value ? NULL : "a list of names, all or none";
}

static const char *check_parts(struct run_options *options, const char *value)
{
    static const char *const words[] = {"1", "2", "4", "8", "16", "32", "64", NULL};
    return is_one_of(value, words) ? NULL : "1, 2, 4, 8, 16, 32 or 64";
}

static const char *check_depth(struct run_options *options, const char *value)
{
    return is_count(value, 16) ? NULL : "a number of pointer levels from 0 to 16";
}

static const char *check_items(struct run_options *options, const char *value)
{
    return is_count(value, 1000) ? NULL : "a number of elements from 0 to 1000";
}

static const char *check_bytes(struct run_options *options, const char *value)
{
    return is_count(value, 3000) ? NULL : "a number of bytes from 0 to 3000";
}

static const char *check_time(struct run_options *options, const char *value)
{
    uint64_t ns;
    return time_parse(value, &ns) ? NULL : "a time such as 500us, 2ms or 1s";
}

static const char *check_files(struct run_options *options, const char *value)
{
    return *value && strlen(value) <= 1000 ? NULL : "source files such as 'solver*.c,model.h', or off";
}

static const char *check_count(struct run_options *options, const char *value)
{
    return is_count(value, UINT32_MAX) ? NULL : "a number (0: no limit)";
}

static const char *check_buffer(struct run_options *options, const char *value)
{
    uint64_t bytes;
    bool fits = size_parse(value, &bytes) && bytes >= UINT64_C(1) << 20 && bytes <= UINT64_C(64) << 30;
    return fits ? NULL : "a size from 1M to 64G";
}

static const char *check_overflow(struct run_options *options, const char *value)
{
    static const char *const words[] = {"drop", "wait", "flight", NULL};
    return is_one_of(value, words) ? NULL : "drop, wait or flight";
}

static const char *check_reader(struct run_options *options, const char *value)
{
    static const char *const words[] = {"direct", "syscall", "victim", NULL};
    return is_one_of(value, words) ? NULL : "direct, syscall or victim";
}

/* Events and actions are the monitor's to judge; what can be seen from here is that it is a conditional request. */
static const char *add_rule(struct run_options *options, const char *value)
{
    static char why[ERR_TEXT_SIZE];
    _cleanup_(arena_done) struct arena arena = ARENA_INIT;
    struct request request;
    struct err err = {0};
    if (request_parse(&arena, span_str(value), &request, &err) < 0) {
        snprintf(why, sizeof why, "'EVENT : ACTIONS' (%.200s)", err.text);
        return why;
    }
    if (!request.event)
        return "'EVENT : ACTIONS', with an event before the colon";
    if (options->rule_count == RUN_RULES)
        return "at most 64 rules";
    options->rules[options->rule_count++] = value;
    return NULL;
}

static const struct option_row rows[] = {
    {"output", 'o', "DIR", set_dir, "the job directory (default: a new one)", FOR_RUN},
    {"name", 0, "NAME", set_name, "a name for people", FOR_RUN},
    {"quiet", 'q', NULL, set_quiet, "print neither the job's id nor the summary", FOR_RUN},
    {"sample", 0, "SECONDS", set_sample, "between two looks at node and processes (default 1)", FOR_RUN | FOR_SET},
    {"crash-stack", 0, NULL, set_crash_stack, "a backtrace at a crash (by ptrace: no gdb meanwhile)", FOR_RUN},
    {"hide-args", 0, "REGEX", set_hide_args, "in the recorded command line, besides passwords; off", FOR_RUN},
    {"max-size", 0, "SIZE", set_max_size, "of the directory; then recording stops (default 2G)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"trace", 0, "SEL", set_trace, "functions: fn:GLOB file:GLOB lib:GLOB !SEL all; off",
     FOR_RUN | FOR_SET | FOR_MONITOR | MANY | TRACING},
    {"args", 0, NULL, check_switch, "with the values of arguments and results",
     FOR_RUN | FOR_SET | FOR_MONITOR | TRACING},
    {"locals", 0, NULL, check_switch, "with the values of local variables", FOR_RUN | FOR_SET | FOR_MONITOR | TRACING},
    {"statics", 0, "FILES", check_files, "with static variables of source files: GLOB,GLOB",
     FOR_RUN | FOR_SET | FOR_MONITOR | TRACING},
    {"count-only", 0, NULL, check_switch, "count calls and times, record none singly", FOR_RUN | FOR_SET | FOR_MONITOR},
    {"depth", 0, "N", check_depth, "levels of pointers that values follow (default 1)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"array-items", 0, "N", check_items, "elements of an array that are shown (default 8)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"string-bytes", 0, "N", check_bytes, "bytes of a text that are shown (default 64)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"min-time", 0, "T", check_time, "shorter calls leave no record: 500us, 2ms", FOR_RUN | FOR_SET | FOR_MONITOR},
    {"max-depth", 0, "N", check_count, "calls deeper than that leave no record", FOR_RUN | FOR_SET | FOR_MONITOR},
    {"rate", 0, "N", check_count, "recorded calls a second of one function, at most", FOR_RUN | FOR_SET | FOR_MONITOR},
    {"buffer", 0, "SIZE", check_buffer, "of records not yet on disk, per process (default 64M)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"overflow", 0, "HOW", check_overflow, "when that is full: drop (default), wait, flight",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"read-by", 0, "HOW", check_reader, "values are read by: direct (default), syscall, victim",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"on", 0, NULL, check_switch, "no: nothing is recorded until it is yes again", FOR_SET | FOR_MONITOR},
    {"mpi", 0, "HOW", set_mpi, "of MPI: auto (default), off, stats, trace, messages", FOR_RUN | FOR_SET | FOR_MONITOR},
    {"mpi-metrics", 0, "LIST", check_list, "a list, see scry-run(1); all (default), none",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"mpi-resolution", 0, "N", check_parts, "parts of a doubling, of distributions (default 8)",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"mpi-distributions", 0, "LIST", check_list, "calls: MPI_*send; all (default), none",
     FOR_RUN | FOR_SET | FOR_MONITOR},
    {"mpi-stall", 0, "SECONDS", set_stall, "ranks that stand still so long are told (default 60)", FOR_RUN},
    {"rule", 0, "REQUEST", add_rule, "'EVENT : ACTIONS', a conditional request for the job", FOR_RUN | MANY},
    {"keep-for", 0, "AGE", set_keep_for, "remove jobs that ended longer ago: 30d, 8w", FOR_RUN},
    {"keep-size", 0, "SIZE", set_keep_size, "remove the oldest jobs while all take more: 20G", FOR_RUN},
    {"config", 0, "FILE", set_config, "more of these options, one a line", FOR_RUN},
    {"help", 'h', NULL, set_help, "this text", FOR_RUN},
    {"log", 0, "FILE=REGEX", NULL, NULL, FOR_RUN},
    {"script", 0, "HOW", NULL, NULL, FOR_RUN},
    {"broker", 0, "URL", NULL, NULL, FOR_RUN},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct option_row *find_long(const char *name, size_t len)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].use & FOR_RUN) && strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

static const struct option_row *find_letter(char letter)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].letter == letter)
            return &rows[i];
    return NULL;
}

/* What the monitor is told: the last value, or of options whose values add up, all of them. */
static int keep_setting(struct run_options *options, const struct option_row *row, const char *value, struct err *err)
{
    struct run_setting *setting = options->settings, *end = setting + options->setting_count;
    while (setting < end && setting->key != row->name)
        setting++;
    if (setting == end && options->setting_count == RUN_SETTINGS)
        return err_set(err, -E2BIG, "too many settings");
    const char *before = setting < end ? setting->value : NULL;
    if (!row->argument && !*value)
        value = "yes";
    if (before && (row->use & MANY) && strcmp(before, "off") != 0 && strcmp(value, "off") != 0) {
        size_t size = strlen(before) + strlen(value) + 2;
        char *both = arena_alloc(&options->memory, size);
        if (!both)
            return err_set(err, -ENOMEM, "out of memory");
        snprintf(both, size, "%s %s", before, value);
        value = both;
    }
    *setting = (struct run_setting){row->name, value};
    options->setting_count += setting == end;
    return 0;
}

/* Sources are read in the order of their precedence: what has a value from an earlier one keeps it. */
static int apply(struct run_options *options, const struct option_row *row, const char *value, const char *from,
                 struct err *err)
{
    uint64_t bit = UINT64_C(1) << (row - rows);
    if (row->apply == set_trace && !value[strspn(value, " \t\n,")]) /* mostly a variable that is not set */
        return err_set(err, -EINVAL,
                       "%s: it selects nothing: name functions, such as 'fn:solve*' or 'file:ocean.c', or leave it "
                       "out for all of the program's own (off: none)",
                       from);
    if (!row->apply)
        return err_set(err, -EINVAL, "%s: not available in this version (%s)", from, SCRY_VERSION);
    if (options->fixed & bit)
        return 0;
    const char *expected = row->apply(options, value);
    if (expected)
        return err_set(err, -EINVAL, "%s: expected %s, not '%.100s%s'", from, expected, value,
                       strlen(value) > 100 ? "..." : "");
    options->given |= bit;
    if (row->use & TRACING)
        options->trace_wanted = true;
    return row->use & FOR_MONITOR ? keep_setting(options, row, value, err) : 0;
}

static int parse_long(struct run_options *options, int argc, char **argv, int *at, struct err *err)
{
    const char *text = argv[*at] + 2, *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    const struct option_row *row = find_long(text, len);
    char from[80];
    snprintf(from, sizeof from, "--%.*s", (int)(len < 64 ? len : 64), text);
    if (!row) {
        struct near_word meant = {.distance = NEAR_NONE};
        for (size_t i = 0; i < ROWS; i++)
            if ((rows[i].use & FOR_RUN) && rows[i].apply)
                near_take(&meant, text, len, rows[i].name);
        return err_set(err, -EINVAL, "unknown option %s%s%s%s: `scry run --help` lists them", from,
                       *meant.text ? " (did you mean --" : "", meant.text, *meant.text ? "?)" : "");
    }
    const char *value = equals ? equals + 1 : "";
    if (row->argument && !equals && row->apply) {
        if (*at + 1 >= argc)
            return err_set(err, -EINVAL, "%s needs a value: %s %s", from, from, row->argument);
        value = argv[++*at];
    } else if (!row->argument && equals && row->apply == set_help) {
        return err_set(err, -EINVAL, "%s takes no value", from);
    }
    return apply(options, row, value, from, err);
}

static int parse_letters(struct run_options *options, int argc, char **argv, int *at, struct err *err)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option_row *row = find_letter(*letter);
        char from[] = {'-', *letter, 0};
        if (!row)
            return err_set(err, -EINVAL, "unknown option %s: `scry run --help` lists them", from);
        const char *value = "";
        if (row->argument) {
            value = letter + 1;
            if (!*value && ++*at >= argc)
                return err_set(err, -EINVAL, "%s needs a value: %s %s", from, from, row->argument);
            if (!*value)
                value = argv[*at];
        }
        int code = apply(options, row, value, from, err);
        if (code < 0 || row->argument)
            return code;
    }
    return 0;
}

static int read_environment(struct run_options *options, struct err *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        char name[ENVIRONMENT_NAME_SIZE];
        if (rows[i].apply == set_help || !(rows[i].use & FOR_RUN) || strcmp(rows[i].name, "log") == 0)
            continue; /* SCRY_LOG has been how much scry tells of itself for longer */
        int len = snprintf(name, sizeof name, "SCRY_%s", rows[i].name);
        for (int at = 0; at < len; at++)
            name[at] = name[at] == '-' ? '_' : (char)toupper((unsigned char)name[at]);
        const char *value = getenv(name);
        if (!value || !*value)
            continue;
        int code = apply(options, &rows[i], value, name, err);
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

static int read_config_line(struct run_options *options, char *line, unsigned number, struct err *err)
{
    char from[256];
    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    line += strspn(line, "-");
    size_t len = strcspn(line, "= \t");
    const struct option_row *row = len == 1 ? find_letter(*line) : find_long(line, len);
    char *value = trim(line + len);
    if (*value == '=')
        value = trim(value + 1);
    snprintf(from, sizeof from, "%.180s line %u: %.*s", options->config, number, (int)(len < 40 ? len : 40), line);
    if (!row || row->apply == set_help || row->apply == set_config)
        return err_set(err, -EINVAL, "%s: no option of scry run", from);
    if (row->argument && row->apply && !*value)
        return err_set(err, -EINVAL, "%s needs a value", from);
    return apply(options, row, value, from, err);
}

static int read_config(struct run_options *options, struct err *err)
{
    _cleanup_(freep) char *bytes = NULL;
    int code = file_read(options->config, &bytes, NULL);
    if (code < 0)
        return err_errno(err, code, "cannot read the options in %s", options->config);
    char *text = arena_dup(&options->memory, bytes, strlen(bytes));
    if (!text)
        return err_set(err, -ENOMEM, "out of memory");
    unsigned number = 0;
    for (char *line; code == 0 && (line = strsep(&text, "\n"));)
        code = read_config_line(options, line, ++number, err);
    return code;
}

int run_options_parse(struct run_options *ret_options, int argc, char **argv, struct err *err)
{
    *ret_options =
        (struct run_options){.sample_seconds = 1, .stall_seconds = 60, .max_bytes = DEFAULT_MAX_BYTES, .name = ""};
    int at = 1;
    for (; at < argc && argv[at][0] == '-' && argv[at][1]; at++) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        int code = argv[at][1] == '-' ? parse_long(ret_options, argc, argv, &at, err)
                                      : parse_letters(ret_options, argc, argv, &at, err);
        if (code < 0)
            return code;
        if (ret_options->help)
            return 0;
    }
    ret_options->fixed = ret_options->given;
    int code = read_environment(ret_options, err);
    ret_options->fixed = ret_options->given;
    if (code == 0 && ret_options->config)
        code = read_config(ret_options, err);
    if (code < 0)
        return code;
    if (at >= argc)
        return err_set(err, -EINVAL, "no command: scry run [OPTION...] [--] COMMAND [ARG...]");
    ret_options->command = argv + at;
    if (ret_options->mpi == RUN_MPI_OFF)
        ret_options->loaded = ret_options->trace_off ? "nothing" : "functions";
    return 0;
}

void run_options_done(struct run_options *options)
{
    arena_done(&options->memory);
}

static void put_row(struct buf *out, const char *form, const char *doc)
{
    enum { FORM = 24 };
    if (strlen(form) > FORM)
        buf_printf(out, "  %s\n  %-*s %s\n", form, FORM, "", doc);
    else
        buf_printf(out, "  %-*s %s\n", FORM, form, doc);
}

void run_options_help(struct buf *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        char form[48];
        if (!rows[i].apply || !(rows[i].use & FOR_RUN))
            continue;
        snprintf(form, sizeof form, "%c%c%s--%s%s%s", rows[i].letter ? '-' : ' ', rows[i].letter ? rows[i].letter : ' ',
                 rows[i].letter ? ", " : "  ", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        put_row(out, form, rows[i].doc);
    }
}

void run_settings_help(struct buf *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        char form[48];
        if (!(rows[i].use & FOR_SET))
            continue;
        snprintf(form, sizeof form, "%s=%s", rows[i].name, rows[i].argument ? rows[i].argument : "yes|no");
        put_row(out, form, rows[i].doc);
    }
}

static const struct option_row *find_setting(const char *key, const char *value, struct err *err)
{
    struct run_options scratch = {.name = ""};
    for (size_t i = 0; i < ROWS; i++) {
        if (!(rows[i].use & FOR_SET) || strcmp(rows[i].name, key) != 0)
            continue;
        bool empty = !*value && rows[i].apply != set_trace; /* no selection: the program's own functions */
        const char *expected = empty ? "a value" : rows[i].apply(&scratch, value);
        if (!expected)
            return &rows[i];
        err_set(err, -EINVAL, "%s: expected %s, not '%.100s%s'", key, expected, value,
                strlen(value) > 100 ? "..." : "");
        return NULL;
    }
    struct near_word meant = {.distance = NEAR_NONE};
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].use & FOR_SET)
            near_take(&meant, key, strlen(key), rows[i].name);
    err_set(err, -ENOENT, "there is no setting %s%s%s%s: `scry set --help` lists them", key,
            *meant.text ? " (did you mean " : "", meant.text, *meant.text ? "?)" : "");
    return NULL;
}

int run_setting_check(const char *key, const char *value, struct err *err)
{
    return find_setting(key, value, err) ? 0 : err->code;
}

int run_setting_change(struct run_options *options, const char *key, const char *value, struct err *err)
{
    const struct option_row *row = find_setting(key, value, err);
    if (!row)
        return err->code;
    char *kept = arena_dup(&options->memory, value, strlen(value));
    if (!kept)
        return err_set(err, -ENOMEM, "out of memory");
    row->apply(options, kept);
    for (size_t i = 0; i < options->setting_count; i++)
        if (options->settings[i].key == row->name)
            options->settings[i] =
                options->settings[--options->setting_count]; /* it replaces, also where values add up */
    return row->use & FOR_MONITOR ? keep_setting(options, row, kept, err) : 0;
}
