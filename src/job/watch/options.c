/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobdir/text/hide_args.h"
#include "jobdir/text/text.h"

/* Keeps a setting for the monitor: the last value, or all values of options that add up. */
static int keep_setting(struct run_options *options, const struct option_row *row, const char *value, struct err *err)
{
    struct run_setting *setting = options->settings, *end = setting + options->setting_count;
    while (setting < end && strcmp(setting->key, row->name) != 0)
        setting++;
    if (setting == end && options->setting_count == RUN_SETTINGS)
        return err_set(err, -E2BIG, "too many settings");
    const char *before = setting < end ? setting->value : NULL;
    if (!row->argument && !*value)
        value = "yes";
    if (before && (row->flags & OPTION_MANY) && strcmp(before, "off") != 0 && strcmp(value, "off") != 0)
        value = arena_printf(&options->memory, "%s %s", before, value);
    if (!value)
        return err_set(err, -ENOMEM, "out of memory");
    *setting = (struct run_setting){row->name, value};
    options->setting_count += setting == end;
    return 0;
}

/* Events that happen only where scry's library is. */
static int check_rules(const struct run_options *options, struct err *err)
{
    static const char *const events[] = {"ct_function_called", "ct_function_returned", "thread_has_started_lib_call",
                                         "thread_has_ended_lib_call"};
    for (size_t i = 0; options->trace_off && options->mpi == RUN_MPI_OFF && i < options->rule_count; i++) {
        const char *rule = options->rules[i] + strspn(options->rules[i], " \t\n");
        for (size_t k = 0; k < sizeof events / sizeof *events; k++)
            if (strncmp(rule, events[k], strlen(events[k])) == 0)
                return err_set(
                    err, -EINVAL,
                    "--rule: %s cannot happen: with --trace off and --mpi off nothing is loaded into the job; "
                    "leave out one of them",
                    events[k]);
    }
    return 0;
}

/* The observer's arguments become its name, so what it needs of them is copied. */
static const char *keep_text(struct run_options *options, const char *text)
{
    return arena_dup(&options->memory, text, strlen(text));
}

/* The key of the job is not for the job: it leaves the environment, and /proc/PID/environ. Whoever reads the file has
 * another working directory. */
static const char *take_key(struct run_options *options, const struct options *given)
{
    const char *text = options_text(given, "key");
    const char *kept = text && *text ? keep_text(options, text) : NULL;
    char here[PATH_MAX];
    if (kept && *kept != '/' && strncmp(kept, "-----BEGIN", strlen("-----BEGIN")) != 0 && getcwd(here, sizeof here))
        kept = arena_printf(&options->memory, "%s/%s", here, kept);
    char *variable = getenv("SCRY_KEY");
    if (variable)
        explicit_bzero(variable, strlen(variable));
    unsetenv("SCRY_KEY");
    return kept;
}

/* user:PASSWORD@ becomes user:***@. */
static void hide_password(char *word)
{
    char *from = strstr(word, "://");
    size_t len = from ? strcspn(from + 3, "/?") : 0;
    char *at = from ? memrchr(from + 3, '@', len) : NULL;
    char *colon = at ? memchr(from + 3, ':', (size_t)(at - from) - 3) : NULL;
    if (colon)
        memset(colon + 1, '*', (size_t)(at - colon) - 1);
}

/* Where the job is published. The password is hidden in the word it came from: the command line of scry run is seen by
 * all users, and its environment by the job. */
static int take_broker(struct run_options *options, const char *word, struct err *err)
{
    struct broker_url *url = arena_alloc(&options->memory, sizeof *url);
    struct err why = {0};
    if (!url)
        return err_set(err, -ENOMEM, "out of memory");
    int code = broker_url_parse(word, url, &why);
    if (code < 0)
        return err_set(err, code, "--broker: %s", why.text);
    if (url->job[0])
        return err_set(err, -EINVAL, "--broker: leave out the job, '%s': a new one has its own id", url->job);
    options->broker = url;
    hide_password((char *)word);
    unsetenv("SCRY_BROKER");
    return 0;
}

bool run_option_is_for_parts(const char *name)
{
    static const char *const own[] = {"output",   "name",           "quiet",    "anyway",    "config",  "log",
                                      "key",      "broker",         "keep-for", "keep-size", "part-of", "tee",
                                      "tee-size", "publish-output", "metric",   NULL};
    return !text_is_one(name, own);
}

/* What a part on another node is to do as the job does. Values that a shell could not hand on are left out. */
static const char *words_for_parts(struct run_options *options, const struct options *given)
{
    struct buf words = BUF_INIT;
    for (size_t i = 0; i < given->count; i++) {
        const struct option_given *each = &given->given[i];
        if (!strpbrk(each->text, "\t\n") && run_option_is_for_parts(each->row->name))
            buf_printf(&words, "%s--%s%s%s", words.len ? "\t" : "", each->row->name, *each->text ? "=" : "",
                       each->text);
    }
    const char *kept = words.data && !words.failed ? keep_text(options, words.data) : "";
    buf_done(&words);
    return kept;
}

/* ID:DIR */
static int take_part(struct run_options *options, const char *text, struct err *err)
{
    const char *colon = strchr(text, ':');
    if (!colon || colon == text || colon[1] != '/')
        return err_set(err, -EINVAL, "--part-of: expected ID:DIR, the job's id and the absolute path of its directory");
    options->part_of = arena_printf(&options->memory, "%.*s", (int)(colon - text), text);
    options->home = keep_text(options, colon + 1);
    return 0;
}

/* A job is found by it: what names another thing would never find it. */
_Static_assert((int)HIDE_ARGS_GROUPS == (int)OPTION_REGEX_GROUPS, "of --hide-args");

static int check_name(const char *name, struct err *err)
{
    if (!*name)
        return err_set(err, -EINVAL, "--name: it is empty");
    return *name == '@' ? err_set(err, -EINVAL,
                                  "--name: '%s' cannot be a name: what begins with @ is the last job or a broker", name)
                        : 0;
}

int run_options_take(struct run_options *ret_options, const struct options *given, struct err *err)
{
    *ret_options = (struct run_options){
        .command = given->words,
        .dir = options_text(given, "output"),
        .name = options_given(given, "name") ? options_text(given, "name") : "",
        .hide_args = options_text(given, "hide-args"),
        .log_level = options_text(given, "log-level"),
        .quiet = options_on(given, "quiet"),
        .crash_stack = options_on(given, "crash-stack"),
        .files = options_on(given, "files"),
        .syscalls = options_on(given, "syscalls"),
        .anyway = options_on(given, "anyway"),
        .sample_seconds = options_seconds(given, "sample"),
        .profile_given = options_given(given, "profile"),
        .profile_hz = (unsigned)options_number(given, "profile"),
        .max_bytes = options_number(given, "max-size"),
        .tee = options_on(given, "tee"),
        .tee_bytes = options_number(given, "tee-size"),
        .publish_output = options_on(given, "publish-output"),
        .mpi = (enum run_mpi)options_number(given, "mpi"),
        .script = (enum run_script)options_number(given, "script"),
        .script_given = options_given(given, "script"),
        .stall_seconds = options_seconds(given, "mpi-stall"),
        .still_seconds = options_seconds(given, "stall"),
        .trace_off = options_given(given, "trace") && !options_on(given, "trace"),
    };
    const char *rule, *log, *metric;
    int code = options_given(given, "name") ? check_name(options_text(given, "name"), err) : 0;
    if (code < 0)
        return code;
    ret_options->key = take_key(ret_options, given);
    for (size_t at = 0; (rule = options_next(given, "rule", &at));) {
        if (ret_options->rule_count == RUN_RULES)
            return err_set(err, -E2BIG, "--rule: at most %d rules", RUN_RULES);
        ret_options->rules[ret_options->rule_count++] = rule;
    }
    for (size_t at = 0; (log = options_next(given, "log", &at));) {
        if (ret_options->log_count == RUN_LOGS)
            return err_set(err, -E2BIG, "--log: at most %d", RUN_LOGS);
        ret_options->logs[ret_options->log_count++] = keep_text(ret_options, log);
    }
    for (size_t at = 0; (metric = options_next(given, "metric", &at));) {
        if (ret_options->metric_count == RUN_METRICS)
            return err_set(err, -E2BIG, "--metric: at most %d", RUN_METRICS);
        ret_options->metrics[ret_options->metric_count++] = keep_text(ret_options, metric);
    }
    ret_options->log_patterns = keep_text(ret_options, options_text(given, "log-patterns"));
    ret_options->for_parts = words_for_parts(ret_options, given);
    const char *part = options_text(given, "part-of");
    if (part && take_part(ret_options, part, err) < 0)
        return err->code;
    const char *broker = part ? NULL : options_text(given, "broker"); /* the job publishes its parts */
    int taken = broker && *broker ? take_broker(ret_options, broker, err) : 0;
    if (taken < 0)
        return taken;
    if (ret_options->memory.failed)
        return err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < given->count; i++) {
        const struct option_row *row = given->given[i].row;
        code = row->flags & OPTION_MONITOR ? keep_setting(ret_options, row, given->given[i].text, err) : 0;
        if (code < 0)
            return code;
        ret_options->trace_wanted |= (row->flags & OPTION_TRACING) != 0;
    }
    if (ret_options->mpi == RUN_MPI_OFF)
        ret_options->loaded = ret_options->trace_off ? "nothing" : "functions";
    return check_rules(ret_options, err);
}

void run_options_done(struct run_options *options)
{
    arena_done(&options->memory);
}

static const struct option_row *find_setting(const char *key, const char *value, struct option_value *ret_value,
                                             struct err *err)
{
    const struct option_row *row = option_find_setting(key, err);
    if (!row)
        return NULL;
    if (!*value && row->type != OPTION_SELECTION) { /* an empty selection: the program's own functions */
        err_set(err, -EINVAL, "%s: expected a value", key);
        return NULL;
    }
    return option_parse(row, value, key, ret_value, err) == 0 ? row : NULL;
}

int run_setting_check(const char *key, const char *value, struct err *err)
{
    struct option_value parsed;
    return find_setting(key, value, &parsed, err) ? 0 : err->code;
}

int run_setting_change(struct run_options *options, const char *key, const char *value, struct err *err)
{
    struct option_value parsed;
    const struct option_row *row = find_setting(key, value, &parsed, err);
    if (!row)
        return err->code;
    char *kept = arena_dup(&options->memory, value, strlen(value));
    if (!kept)
        return err_set(err, -ENOMEM, "out of memory");
    bool log = strcmp(key, "log") == 0, off = log && strcmp(value, "off") == 0;
    if (log && !off && options->log_count == RUN_LOGS)
        return err_set(err, -E2BIG, "log: at most %d", RUN_LOGS);
    if (off)
        options->log_count = 0;
    else if (log)
        options->logs[options->log_count++] = kept;
    else if (strcmp(key, "log-patterns") == 0)
        options->log_patterns = kept;
    else if (strcmp(key, "sample") == 0)
        options->sample_seconds = parsed.seconds;
    else if (strcmp(key, "stall") == 0)
        options->still_seconds = parsed.seconds;
    else if (strcmp(key, "max-size") == 0)
        options->max_bytes = parsed.number;
    else if (strcmp(key, "mpi") == 0)
        options->mpi = (enum run_mpi)parsed.number;
    else if (strcmp(key, "trace") == 0)
        options->trace_off = !parsed.on;
    for (size_t i = 0; i < options->setting_count; i++)
        if (strcmp(options->settings[i].key, key) == 0)
            options->settings[i] = options->settings[--options->setting_count]; /* it replaces all values */
    return row->flags & OPTION_MONITOR ? keep_setting(options, row, kept, err) : 0;
}
