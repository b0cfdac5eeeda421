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

enum { ENVIRONMENT_NAME_SIZE = 64 };
static const uint64_t DEFAULT_MAX_BYTES = UINT64_C(2) << 30;
static const double SAMPLE_MIN_SECONDS = 0.01, SAMPLE_MAX_SECONDS = 86400;

typedef const char *apply_fn(struct run_options *options, const char *value); /* NULL, or what was expected */

struct option_row {
    const char *name;     /* long form, without the dashes; also in the file and, in capitals, in the environment */
    char letter;          /* 0: none */
    const char *argument; /* NULL: a switch */
    apply_fn *apply;      /* NULL: known, but this version cannot do it */
    const char *doc;
};

bool size_parse(const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMGTP";
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || errno || !(value >= 0) || !isfinite(value))
        return false;
    while (*end == ' ')
        end++;
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*end || value >= ldexp(1, 63))
        return false;
    *ret_bytes = (uint64_t)value;
    return true;
}

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

static const struct option_row rows[] = {
    {"output", 'o', "DIR", set_dir, "the job directory (default: a new one)"},
    {"name", 0, "NAME", set_name, "a name for people"},
    {"quiet", 'q', NULL, set_quiet, "print neither the job's id nor the summary"},
    {"sample", 0, "SECONDS", set_sample, "between two looks at node and processes (default 1)"},
    {"crash-stack", 0, NULL, set_crash_stack, "a backtrace at a crash (by ptrace: no gdb meanwhile)"},
    {"max-size", 0, "SIZE", set_max_size, "of the directory; then recording stops (default 2G)"},
    {"config", 0, "FILE", set_config, "more of these options, one a line"},
    {"help", 'h', NULL, set_help, "this text"},
    {"trace", 0, "SEL", NULL, NULL},
    {"args", 0, NULL, NULL, NULL},
    {"locals", 0, NULL, NULL, NULL},
    {"depth", 0, "N", NULL, NULL},
    {"min-time", 0, "T", NULL, NULL},
    {"max-depth", 0, "N", NULL, NULL},
    {"buffer", 0, "SIZE", NULL, NULL},
    {"overflow", 0, "HOW", NULL, NULL},
    {"mpi", 0, "HOW", NULL, NULL},
    {"log", 0, "FILE=REGEX", NULL, NULL},
    {"script", 0, "HOW", NULL, NULL},
    {"broker", 0, "URL", NULL, NULL},
    {"rule", 0, "REQUEST", NULL, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

static const struct option_row *find_long(const char *name, size_t len)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
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

/* Sources are read in the order of their precedence: what has a value keeps it. */
static int apply(struct run_options *options, const struct option_row *row, const char *value, const char *from,
                 bool override, struct err *err)
{
    uint64_t bit = UINT64_C(1) << (row - rows);
    if (!row->apply)
        return err_set(err, -EINVAL, "%s: not available in this version (%s)", from, SCRY_VERSION);
    if ((options->given & bit) && !override)
        return 0;
    const char *expected = row->apply(options, value);
    if (expected)
        return err_set(err, -EINVAL, "%s: expected %s, not '%s'", from, expected, value);
    options->given |= bit;
    return 0;
}

static int parse_long(struct run_options *options, int argc, char **argv, int *at, struct err *err)
{
    const char *text = argv[*at] + 2, *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    const struct option_row *row = find_long(text, len);
    char from[80];
    snprintf(from, sizeof from, "--%.*s", (int)(len < 64 ? len : 64), text);
    if (!row)
        return err_set(err, -EINVAL, "unknown option %s: `scry run --help` lists them", from);
    const char *value = equals ? equals + 1 : "";
    if (row->argument && !equals && row->apply) {
        if (*at + 1 >= argc)
            return err_set(err, -EINVAL, "%s needs a value: %s %s", from, from, row->argument);
        value = argv[++*at];
    } else if (!row->argument && equals && row->apply == set_help) {
        return err_set(err, -EINVAL, "%s takes no value", from);
    }
    return apply(options, row, value, from, true, err);
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
        int code = apply(options, row, value, from, true, err);
        if (code < 0 || row->argument)
            return code;
    }
    return 0;
}

static int read_environment(struct run_options *options, struct err *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        char name[ENVIRONMENT_NAME_SIZE];
        if (rows[i].apply == set_help)
            continue;
        int len = snprintf(name, sizeof name, "SCRY_%s", rows[i].name);
        for (int at = 0; at < len; at++)
            name[at] = name[at] == '-' ? '_' : (char)toupper((unsigned char)name[at]);
        const char *value = getenv(name);
        if (!value || !*value)
            continue;
        int code = apply(options, &rows[i], value, name, false, err);
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
    return apply(options, row, value, from, false, err);
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
    *ret_options = (struct run_options){.sample_seconds = 1, .max_bytes = DEFAULT_MAX_BYTES, .name = ""};
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
    int code = read_environment(ret_options, err);
    if (code == 0 && ret_options->config)
        code = read_config(ret_options, err);
    if (code < 0)
        return code;
    if (at >= argc)
        return err_set(err, -EINVAL, "no command: scry run [OPTION...] [--] COMMAND [ARG...]");
    ret_options->command = argv + at;
    return 0;
}

void run_options_done(struct run_options *options)
{
    arena_done(&options->memory);
}

void run_options_help(struct buf *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        char form[48];
        if (!rows[i].apply)
            continue;
        snprintf(form, sizeof form, "%c%c%s--%s%s%s", rows[i].letter ? '-' : ' ', rows[i].letter ? rows[i].letter : ' ',
                 rows[i].letter ? ", " : "  ", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        buf_printf(out, "  %-24s %s\n", form, rows[i].doc);
    }
}
