/* SPDX-License-Identifier: Apache-2.0 */
#include "task/spec.h"

#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "job/logs/patterns.h"
#include "job/watch/options.h"
#include "jobdir/text/text.h"
#include "options/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

enum member_type {
    MEMBER_TEXT,
    MEMBER_WORD,  /* a text that becomes a word of some program's command line, and must not look like an option */
    MEMBER_HOST,  /* of letters, digits and ._-@:[] */
    MEMBER_PATH,  /* absolute */
    MEMBER_COUNT, /* an integer */
    MEMBER_FLAG,
    MEMBER_CHOICE,
    MEMBER_TEXTS, /* a list; `most` is of its length */
    MEMBER_HOSTS,
    MEMBER_FILES,     /* a list of names of uploaded files */
    MEMBER_VARIABLES, /* an object of texts */
    MEMBER_OBJECT,
};

enum { TEXT_BYTES = 4096, ARGUMENT_BYTES = 100 << 10, MOST_WORDS = 4096, MOST_FILES = 1000 };

struct member {
    const char *name;
    enum member_type type;
    bool or_null;
    double least, most;    /* of numbers; of texts the bytes, of lists how many */
    const char *otherwise; /* as JSON; NULL: it must be given */
    const char *choices;   /* "a|b" */
    const struct member *of;
};

#define YEAR_SECONDS (366.0 * 86400)
#define MOST_BYTES 9007199254740992.0 /* 2^53: every reader of JSON has it exactly */

/* clang-format off */
static const struct member launch_members[] = {
    {"by", MEMBER_CHOICE, .otherwise = "\"mpirun\"", .choices = "mpirun|slurm|ssh|plain"},
    {"hosts", MEMBER_HOSTS, .otherwise = "[]", .most = MOST_WORDS},
    {"partition", MEMBER_HOST, .or_null = true, .otherwise = "null", .least = 1, .most = 255},
    {"options", MEMBER_TEXTS, .otherwise = "[]", .most = MOST_WORDS},
    {0}};

static const struct member collect_members[] = {
    {"functions", MEMBER_TEXTS, .otherwise = "[]", .most = MOST_WORDS},
    {"arguments", MEMBER_FLAG, .otherwise = "false"},
    {"logs", MEMBER_TEXTS, .otherwise = "[]", .most = MOST_WORDS},
    {"mpi", MEMBER_CHOICE, .otherwise = "\"trace\"", .choices = "auto|off|stats|trace|messages"},
    {0}};

static const struct member limit_members[] = {
    {"seconds", MEMBER_COUNT, .otherwise = "3600", .least = 0, .most = YEAR_SECONDS},
    {"memory_bytes", MEMBER_COUNT, .otherwise = "0", .least = 0, .most = MOST_BYTES},
    {"disk_bytes", MEMBER_COUNT, .otherwise = "2147483648", .least = 1 << 20, .most = MOST_BYTES},
    {0}};

static const struct member members[] = {
    {"name", MEMBER_TEXT, .otherwise = "\"\"", .most = 200},
    {"program", MEMBER_WORD, .least = 1, .most = TEXT_BYTES - 1},
    {"arguments", MEMBER_TEXTS, .otherwise = "[]", .most = MOST_WORDS},
    {"directory", MEMBER_PATH, .or_null = true, .otherwise = "null", .most = TEXT_BYTES - 1},
    {"environment", MEMBER_VARIABLES, .otherwise = "{}", .most = MOST_WORDS},
    {"files", MEMBER_FILES, .otherwise = "[]", .most = MOST_FILES},
    {"build", MEMBER_TEXT, .or_null = true, .otherwise = "null", .least = 1, .most = ARGUMENT_BYTES},
    {"processes", MEMBER_COUNT, .otherwise = "1", .least = 1, .most = 1000000},
    {"launch", MEMBER_OBJECT, .otherwise = "{}", .of = launch_members},
    {"collect", MEMBER_OBJECT, .otherwise = "{}", .of = collect_members},
    {"repeat", MEMBER_COUNT, .otherwise = "1", .least = 1, .most = 1000},
    {"series", MEMBER_HOST, .or_null = true, .otherwise = "null", .least = 1, .most = 127},
    {"limits", MEMBER_OBJECT, .otherwise = "{}", .of = limit_members},
    {0}};
/* clang-format on */

/* ---- reading ---- */

static int spec_error(struct err *err, const char *path, const char *expected, const json_t *given)
{
    _cleanup_(freep) char *text = given ? json_dumps(given, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    return err_set(err, -EINVAL, "%s: expected %s, not %.100s", path, expected, text ? text : "nothing");
}

static bool is_word(const char *text, const char *more)
{
    for (const char *at = text; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr(more, *at))
            return false;
    return *text && *text != '-';
}

int task_file_name_check(const char *name, struct err *err)
{
    bool bad = !*name || *name == '.' || *name == '-' || strlen(name) > TASK_FILE_NAME_BYTES;
    for (const char *at = name; *at; at++)
        bad = bad || *at == '/' || *at == '\\' || (unsigned char)*at < ' ' || *at == 127;
    if (bad)
        return err_set(err, -EINVAL,
                       "a file of a task has a name of 1 to %d bytes, without / \\ and control characters, that begins "
                       "with neither . nor -; not '%.100s'",
                       TASK_FILE_NAME_BYTES, name);
    return 0;
}

static int check_text(const struct member *member, const char *path, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);
    char expected[128];
    if (!text || json_string_length(value) != strlen(text) || strlen(text) > member->most ||
        strlen(text) < member->least) {
        snprintf(expected, sizeof expected, "a text of %s %.0f bytes%s", member->least > 0 ? "1 to" : "at most",
                 member->most, member->or_null ? ", or null" : "");
        return spec_error(err, path, expected, value);
    }
    if (member->type == MEMBER_WORD && *text == '-')
        return spec_error(err, path, "a program, not an option", value);
    if (member->type == MEMBER_PATH && *text != '/')
        return spec_error(err, path, "an absolute path, or null", value);
    if (member->type == MEMBER_HOST && !is_word(text, "._-@:[]"))
        return spec_error(err, path, "a name of letters, digits and ._-@:[]", value);
    return 0;
}

static int check_count(const struct member *member, const char *path, const json_t *value, struct err *err)
{
    char expected[96];
    double number = (double)json_integer_value(value);
    if (json_is_integer(value) && number >= member->least && number <= member->most)
        return 0;
    snprintf(expected, sizeof expected, "a whole number from %.0f to %.0f", member->least, member->most);
    return spec_error(err, path, expected, value);
}

static int check_choice(const struct member *member, const char *path, const json_t *value, struct err *err)
{
    const char *text = json_string_value(value);
    size_t len = text ? strlen(text) : 0;
    for (const char *at = member->choices; len && at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, text, len) == 0 && (at[len] == '|' || !at[len]))
            return 0;
    return spec_error(err, path, member->choices, value);
}

static int check_list(const struct member *member, const char *path, const json_t *value, struct err *err)
{
    static const struct member item = {"", MEMBER_TEXT, .most = ARGUMENT_BYTES},
                               host = {"", MEMBER_HOST, .least = 1, .most = 255};
    char at[160], expected[64];
    size_t i;
    json_t *each;
    snprintf(expected, sizeof expected, "a list of at most %.0f texts", member->most);
    if (!json_is_array(value) || (double)json_array_size(value) > member->most)
        return spec_error(err, path, expected, value);
    json_array_foreach(value, i, each)
    {
        snprintf(at, sizeof at, "%s[%zu]", path, i);
        int code = check_text(member->type == MEMBER_HOSTS ? &host : &item, at, each, err);
        if (code == 0 && member->type == MEMBER_FILES)
            code = task_file_name_check(json_string_value(each), err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int check_variables(const struct member *member, const char *path, const json_t *value, struct err *err)
{
    static const struct member item = {"", MEMBER_TEXT, .most = ARGUMENT_BYTES};
    const char *name;
    json_t *each;
    char at[256];
    if (!json_is_object(value) || (double)json_object_size(value) > member->most)
        return spec_error(err, path, "an object of texts", value);
    json_object_foreach((json_t *)value, name, each)
    {
        snprintf(at, sizeof at, "%s.%.100s", path, name);
        if (!is_word(name, "_") || isdigit((unsigned char)*name))
            return err_set(err, -EINVAL, "%s: a variable's name has letters, digits and _", at);
        int code = check_text(&item, at, each, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int check_object(const struct member *of, const char *path, const json_t *given, json_t **ret, struct err *err);

/* *ret: the checked value, a new reference. */
static int check_member(const struct member *member, const char *path, const json_t *value, json_t **ret,
                        struct err *err)
{
    int code = 0;
    if (member->type == MEMBER_OBJECT)
        return check_object(member->of, path, value, ret, err);
    if (!(member->or_null && json_is_null(value)))
        switch (member->type) {
        case MEMBER_COUNT:
            code = check_count(member, path, value, err);
            break;
        case MEMBER_FLAG:
            code = json_is_boolean(value) ? 0 : spec_error(err, path, "true or false", value);
            break;
        case MEMBER_CHOICE:
            code = check_choice(member, path, value, err);
            break;
        case MEMBER_TEXTS:
        case MEMBER_HOSTS:
        case MEMBER_FILES:
            code = check_list(member, path, value, err);
            break;
        case MEMBER_VARIABLES:
            code = check_variables(member, path, value, err);
            break;
        default:
            code = check_text(member, path, value, err);
        }
    if (code == 0 && !(*ret = json_deep_copy(value)))
        return err_set(err, -ENOMEM, "out of memory");
    return code;
}

/* No member but those of the table. */
static int check_names(const struct member *of, const char *path, const json_t *given, struct err *err)
{
    const char *name;
    json_t *each;
    json_object_foreach((json_t *)given, name, each)
    {
        struct fuzzy_match meant = {.distance = FUZZY_NONE};
        const struct member *member = of;
        while (member->name && strcmp(member->name, name) != 0)
            fuzzy_match_try(&meant, name, strlen(name), member++->name);
        if (!member->name)
            return err_set(err, -EINVAL, "%s has no member '%.64s'%s%s%s", *path ? path : "a task", name,
                           *meant.text ? " (did you mean " : "", meant.text, *meant.text ? "?)" : "");
    }
    return 0;
}

static int check_object(const struct member *of, const char *path, const json_t *given, json_t **ret, struct err *err)
{
    char inner[128];
    if (!json_is_object(given))
        return spec_error(err, *path ? path : "a task", "an object", given);
    int code = check_names(of, path, given, err);
    json_t *whole = code == 0 ? json_object() : NULL;
    for (const struct member *member = of; code == 0 && member->name; member++) {
        json_t *value = json_object_get(given, member->name), *made = NULL, *checked = NULL;
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", member->name);
        if (!value && !member->otherwise)
            code = err_set(err, -EINVAL, "%s is missing: a task needs it", inner);
        else if (!value)
            value = made = json_loads(member->otherwise, JSON_DECODE_ANY, NULL);
        if (code == 0)
            code = check_member(member, inner, value, &checked, err);
        json_decref(made);
        if (code == 0 && json_object_set_new(whole, member->name, checked) < 0)
            code = err_set(err, -ENOMEM, "out of memory");
    }
    if (code < 0)
        json_decref(whole);
    else
        *ret = whole;
    return code;
}

/* What members have to do with each other. */
static int check_whole(const json_t *spec, struct err *err)
{
    enum { LEAST_MEMORY = 1 << 20 }; /* with less, nothing can be executed */
    const char *by = task_text(spec, "launch.by");
    uint64_t memory = task_number(spec, "limits.memory_bytes");
    if (strcmp(by, "plain") == 0 && task_number(spec, "processes") != 1)
        return err_set(err, -EINVAL, "processes: plain starts one process: launch it by mpirun");
    if (strcmp(by, "ssh") == 0 && json_array_size(task_member(spec, "launch.hosts")) != 1)
        return err_set(err, -EINVAL, "launch.hosts: ssh needs exactly one host, where the program runs");
    if (memory && memory < LEAST_MEMORY)
        return err_set(err, -EINVAL, "limits.memory_bytes: expected 0 for no limit, or at least %d", LEAST_MEMORY);
    return 0;
}

int task_spec_check(const json_t *given, json_t **ret_spec, struct err *err)
{
    int code = check_object(members, "", given, ret_spec, err);
    if (code < 0)
        return code;
    bool alone = strcmp(task_text(*ret_spec, "launch.by"), "plain") == 0;
    if (alone && !json_object_get(json_object_get(given, "collect"), "mpi")) /* most have none: that is no warning */
        json_object_set_new(json_object_get(*ret_spec, "collect"), "mpi", json_string("auto"));
    _cleanup_(freep) char *text = json_dumps(*ret_spec, JSON_INDENT(1));
    if (text && strlen(text) <= TASK_TEXT_BYTES)
        code = check_whole(*ret_spec, err);
    else
        code = err_set(err, text ? -EINVAL : -ENOMEM, "a task takes more than %d bytes", TASK_TEXT_BYTES);
    if (code < 0) {
        json_decref(*ret_spec);
        *ret_spec = NULL;
    }
    return code;
}

/* ---- a new one ---- */

/* What a way to launch would leave out without a word. */
static int check_ways(const json_t *spec, struct err *err)
{
    static const struct {
        const char *by, *member, *what;
    } rows[] = {
        {"plain", "launch.hosts", "plain starts the program here: launch it by mpirun, ssh or slurm, or name no hosts"},
        {"plain", "launch.options", "plain has no launcher that could take them: launch it by mpirun or slurm"},
        {"plain", "launch.partition", "only Slurm has partitions: launch it by slurm, or name none"},
        {"ssh", "launch.partition", "only Slurm has partitions: launch it by slurm, or name none"},
        {"mpirun", "launch.partition", "only Slurm has partitions: launch it by slurm, or name none"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = task_member(spec, rows[i].member);
        if (strcmp(task_text(spec, "launch.by"), rows[i].by) == 0 && (json_is_string(value) || json_array_size(value)))
            return err_set(err, -EINVAL, "%s: %s", rows[i].member, rows[i].what);
    }
    const char *name = task_text(spec, "name");
    return *name == '@'
               ? err_set(err, -EINVAL,
                         "name: '%.100s' cannot be a name: what begins with @ is the last job or a broker", name)
               : 0;
}

/* As `scry run --trace` takes them. */
static int check_selections(const json_t *spec, struct err *err)
{
    const struct option_row *row = option_find(COMMAND_RUN, "trace", strlen("trace"));
    struct option_value value;
    json_t *each;
    size_t i;
    int code = 0;
    json_array_foreach(task_member(spec, "collect.functions"), i, each)
    {
        const char *text = json_string_value(each);
        code = code < 0 ? code : option_check_empty(row, text, "collect.functions", err);
        code = code < 0 ? code : option_parse(row, text, "collect.functions", &value, err);
    }
    return code;
}

/* As `scry run --log` takes it; `stdout` and `stderr` are names of files to that. */
static int check_log(const char *text, struct err *err)
{
    struct log_rule rule = {0};
    struct log_regex *regex = NULL;
    int code = log_rule_parse(&rule, text, err);
    if (code == 0 && rule.expression)
        code = log_regex_new(&regex, rule.expression, err);
    log_regex_free(regex);
    log_rule_done(&rule);
    return code;
}

static int check_logs(const json_t *spec, struct err *err)
{
    const json_t *logs = task_member(spec, "collect.logs");
    json_t *each;
    size_t i;
    if (json_array_size(logs) > RUN_LOGS)
        return err_set(err, -EINVAL, "collect.logs: expected a list of at most %d texts, not of %zu", RUN_LOGS,
                       json_array_size(logs));
    json_array_foreach(logs, i, each)
    {
        struct err why = {0};
        int code = check_log(json_string_value(each), &why);
        if (code < 0)
            return err_set(err, code, "collect.logs[%zu]: %.150s: %s", i, json_string_value(each), why.text);
    }
    return 0;
}

int task_spec_check_new(const json_t *given, json_t **ret_spec, struct err *err)
{
    int code = task_spec_check(given, ret_spec, err);
    if (code < 0)
        return code;
    code = check_ways(*ret_spec, err);
    code = code < 0 ? code : check_selections(*ret_spec, err);
    code = code < 0 ? code : check_logs(*ret_spec, err);
    if (code < 0) {
        json_decref(*ret_spec);
        *ret_spec = NULL;
    }
    return code;
}

/* ---- a checked one ---- */

json_t *task_member(const json_t *spec, const char *member)
{
    const char *dot = strchr(member, '.');
    if (!dot)
        return json_object_get(spec, member);
    char outer[32];
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - member), member);
    return json_object_get(json_object_get(spec, outer), dot + 1);
}

const char *task_text(const json_t *spec, const char *member)
{
    return json_string_value(task_member(spec, member));
}

uint64_t task_number(const json_t *spec, const char *member)
{
    return (uint64_t)json_integer_value(task_member(spec, member));
}

bool task_flag(const json_t *spec, const char *member)
{
    return json_is_true(task_member(spec, member));
}

enum put_how {
    PUT_TEXT,
    PUT_COUNT,
    PUT_SECONDS,
    PUT_FLAG,
    PUT_COMMAS,    /* a list as one value */
    PUT_EACH,      /* an option for each of a list */
    PUT_VARIABLES, /* an option for each member */
};

/* In the order of `scry submit --help`. What needs more than its own member is put by hand. */
static const struct row {
    const char *option, *member;
    enum put_how how;
} rows[] = {
    {"by", "launch.by", PUT_TEXT},
    {"hosts", "launch.hosts", PUT_COMMAS},
    {"partition", "launch.partition", PUT_TEXT},
    {"launcher", "launch.options", PUT_EACH},
    {"trace", "collect.functions", PUT_EACH},
    {"args", "collect.arguments", PUT_FLAG},
    {"log", "collect.logs", PUT_EACH},
    {"repeat", "repeat", PUT_COUNT},
    {"build", "build", PUT_TEXT},
    {"env", "environment", PUT_VARIABLES},
    {"limit-time", "limits.seconds", PUT_SECONDS},
    {"limit-memory", "limits.memory_bytes", PUT_COUNT},
    {"limit-space", "limits.disk_bytes", PUT_COUNT},
};

static void put_option(struct buf *out, const char *option, const char *before, const char *value)
{
    _cleanup_(buf_done) struct buf word = BUF_INIT;
    buf_printf(&word, "--%s=%s%s", option, before, value);
    buf_putc(out, ' ');
    text_word(out, word.data ? word.data : "");
    if (word.failed)
        out->failed = true;
}

/* Is it what scry submit takes if the option is not given? */
static bool is_default(const char *option, const char *text)
{
    const struct option_row *row = option_find(COMMAND_SUBMIT, option, strlen(option));
    struct option_value given, otherwise;
    if (!row || !row->otherwise)
        return row && row->type == OPTION_SIZE && strcmp(text, "0") == 0; /* no limit is none */
    if (row->type == OPTION_CHOICE || row->type == OPTION_LIST)
        return strcmp(text, row->otherwise) == 0;
    return option_parse(row, text, NULL, &given, NULL) == 0 &&
           option_parse(row, row->otherwise, NULL, &otherwise, NULL) == 0 && given.number == otherwise.number;
}

static void put_number(struct buf *out, const struct row *row, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%llu%s", (unsigned long long)number, row->how == PUT_SECONDS ? "s" : "");
    if (!is_default(row->option, text))
        put_option(out, row->option, "", text);
}

static void put_row(struct buf *out, const struct row *row, const json_t *spec)
{
    json_t *value = task_member(spec, row->member), *each;
    _cleanup_(buf_done) struct buf list = BUF_INIT;
    const char *text = json_string_value(value), *name;
    size_t i;
    switch (row->how) {
    case PUT_TEXT:
        if (text && !is_default(row->option, text))
            put_option(out, row->option, "", text);
        break;
    case PUT_COUNT:
    case PUT_SECONDS:
        put_number(out, row, (uint64_t)json_integer_value(value));
        break;
    case PUT_FLAG:
        if (json_is_true(value))
            buf_printf(out, " --%s", row->option);
        break;
    case PUT_COMMAS:
        json_array_foreach(value, i, each) buf_printf(&list, "%s%s", i ? "," : "", json_string_value(each));
        if (list.len)
            put_option(out, row->option, "", list.data);
        break;
    case PUT_EACH:
        json_array_foreach(value, i, each) put_option(out, row->option, "", json_string_value(each));
        break;
    case PUT_VARIABLES:
        json_object_foreach(value, name, each)
        {
            buf_clear(&list);
            buf_printf(&list, "%s=", name);
            put_option(out, row->option, list.data ? list.data : "", json_string_value(each));
        }
    }
}

void task_command(struct buf *out, const json_t *spec, const char *files)
{
    const char *by = task_text(spec, "launch.by"), *directory = task_text(spec, "directory");
    const char *name = task_text(spec, "name"), *program = task_text(spec, "program"),
               *mpi = task_text(spec, "collect.mpi");
    json_t *copied = task_member(spec, "files"), *each;
    size_t i;
    bool far = strcmp(by, "ssh") == 0, among_files = far || json_array_size(copied);
    _cleanup_(buf_done) struct buf before = BUF_INIT;
    buf_printf(out, "scry submit -n %llu", (unsigned long long)task_number(spec, "processes"));
    if (strcmp(name, text_base(program)) != 0)
        put_option(out, "name", "", name);
    if (directory || !among_files)
        put_option(out, "directory", "", directory ? directory : "");
    if (files)
        buf_printf(&before, "%s/", files);
    json_array_foreach(copied, i, each)
        put_option(out, "file", before.data ? before.data : "", json_string_value(each));
    if (!far) /* there nothing is handed on but that */
        buf_puts(out, " --env-only");
    if (strcmp(mpi, strcmp(by, "plain") == 0 ? "auto" : "trace") != 0) /* what is otherwise depends (spec.c) */
        put_option(out, "mpi", "", mpi);
    for (i = 0; i < sizeof rows / sizeof *rows; i++)
        put_row(out, &rows[i], spec);
    buf_puts(out, " -- ");
    text_word(out, program);
    json_array_foreach(task_member(spec, "arguments"), i, each)
    {
        buf_putc(out, ' ');
        text_word(out, json_string_value(each));
    }
}
