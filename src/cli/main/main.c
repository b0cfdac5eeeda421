/* SPDX-License-Identifier: Apache-2.0 */
/* The program `scry`: reads a command's options by their table, and calls it. */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/err.h"
#include "base/system/log.h"
#include "base/system/own_memory.h"
#include "cli/common/cli.h"
#include "job/run/supervise.h"
#include "jobdir/text/text.h"

/* ---- libraries that are loaded when they are needed: late_x86_64.S ---- */

struct late {
    void *to; /* where a call goes */
    const char *name, *library;
};

void *late_find(struct late *late);

/* In the place of one that is not there. All constructors return pointers: their callers take it for a lack of memory. */
static void *late_absent(void)
{
    return NULL;
}

/* Also in two threads at once. The library stays for good. */
void *late_find(struct late *late)
{
    void *library = dlopen(late->library, RTLD_LAZY | RTLD_LOCAL), *found = library ? dlsym(library, late->name) : NULL;
    if (!found) {
        void *(*absent)(void) = late_absent;
        __builtin_memcpy(&found, &absent, sizeof found);
    }
    __atomic_store_n(&late->to, found, __ATOMIC_RELEASE);
    return found;
}

/* ---- commands ---- */

static int cmd_help(const struct options *options);
static int cmd_version(const struct options *options);

/* clang-format off */
static int (*const functions[COMMANDS])(const struct options *options) = {
    [COMMAND_RUN] = cmd_run,
    [COMMAND_EXEC] = cmd_exec,
    [COMMAND_SUBMIT] = cmd_submit,
    [COMMAND_TASK] = cmd_task,
    [COMMAND_PS] = cmd_ps,
    [COMMAND_TOP] = cmd_top,
    [COMMAND_WATCH] = cmd_watch,
    [COMMAND_LOGS] = cmd_logs,
    [COMMAND_WHY] = cmd_why,
    [COMMAND_SNAPSHOT] = cmd_snapshot,
    [COMMAND_SET] = cmd_set,
    [COMMAND_STOP] = cmd_stop,
    [COMMAND_SIGNAL] = cmd_signal,
    [COMMAND_REPORT] = cmd_report,
    [COMMAND_DIFF] = cmd_diff,
    [COMMAND_REPLAY] = cmd_replay,
    [COMMAND_EXPORT] = cmd_export,
    [COMMAND_RM] = cmd_rm,
    [COMMAND_PUBLISH] = cmd_publish,
    [COMMAND_RECORD] = cmd_record,
    [COMMAND_SITE] = cmd_site,
    [COMMAND_SERVE] = cmd_serve,
    [COMMAND_OMIS] = cmd_omis,
    [COMMAND_MONITOR] = cmd_monitor,
    [COMMAND_LINK] = cmd_link,
    [COMMAND_KEYS] = cmd_keys,
    [COMMAND_BROKER] = cmd_broker,
    [COMMAND_DOCTOR] = cmd_doctor,
    [COMMAND_HELP] = cmd_help,
    [COMMAND_VERSION] = cmd_version,
};
/* clang-format on */

static void print_usage(FILE *out)
{
    fputs("Usage: scry COMMAND [ARGUMENT...]\n\n"
          "See what a job does on machines that you cannot look into.\n\nCommands:\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++) {
        const struct command_row *row = &command_rows[i];
        fprintf(out, "%s  %-9s %s\n", i == COMMAND_EXEC ? "\nFor launchers, sites and tools:\n" : "", row->name,
                row->description);
        if (row->alias)
            fprintf(out, "  %-9s The same as scry %s\n", row->alias, row->name);
    }
    fputs("\n`scry COMMAND --help` shows details and an example.\n", out);
}

/* What other tools call it. */
static const char *command_meant(const char *name)
{
    static const char *const meant[][2] = {
        {"attach", "top"}, {"cancel", "stop"},    {"compare", "diff"}, {"info", "report"},
        {"jobs", "ps"},    {"kill", "stop"},      {"list", "ps"},      {"log", "logs"},
        {"ls", "ps"},      {"profile", "report"}, {"show", "report"},  {"stat", "report"},
        {"status", "ps"},  {"summary", "report"}, {"tail", "logs"},    {"trace", "run"},
    };
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (strcmp(meant[i][0], name) == 0)
            return meant[i][1];
    return NULL;
}

static bool is_named(const struct command_row *row, const char *name)
{
    return strcmp(row->name, name) == 0 || (row->alias && strcmp(row->alias, name) == 0);
}

/* COMMANDS, after logging that there is no such command. */
static enum command find_command(const char *name)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    struct fuzzy_match meant = {.distance = FUZZY_NONE};
    for (size_t i = 0; i < COMMANDS; i++) {
        if (is_named(&command_rows[i], name))
            return (enum command)i;
        fuzzy_match_try(&meant, name, strlen(name), command_rows[i].name);
    }
    if (command_meant(name))
        snprintf(meant.text, sizeof meant.text, "%s", command_meant(name)); /* better than what is spelled like it */
    text_show(&shown, name);
    fprintf(stderr, "scry: there is no command \"%s\"%s%s%s; `scry help` lists them\n", shown.data ? shown.data : "",
            *meant.text ? " (did you mean " : "", meant.text, *meant.text ? "?)" : "");
    return COMMANDS;
}

/* A job, or options, where the command is wanted. false: it is neither. */
static bool explain_order(char **argv)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char **at = argv;
    if (strcmp(argv[0], "@last") == 0) {
        fputs("scry: @last is a job, not a command: scry report @last\n", stderr);
        return true;
    }
    for (enum command found = COMMANDS; argv[0][0] == '-' && found == COMMANDS && *++at;)
        for (enum command i = 0; i < COMMANDS && found == COMMANDS; i++)
            found = is_named(&command_rows[i], *at) ? i : COMMANDS;
    if (at == argv || !*at)
        return false;
    text_show(&text, *at);
    for (char **word = argv; *word; word++) {
        if (word == at)
            continue;
        buf_putc(&text, ' ');
        text_show(&text, *word);
    }
    fprintf(stderr, "scry: options stand behind the command: scry %s\n", text.data ? text.data : "");
    return true;
}

static int print_help(enum command command)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    options_help(&text, command);
    fputs(text.data ? text.data : "", stdout);
    return 0;
}

static int cmd_help(const struct options *options)
{
    enum command command = options->word_count ? find_command(options->words[0]) : COMMAND_HELP;
    if (command == COMMANDS)
        return EXIT_USAGE;
    if (command != COMMAND_HELP)
        return print_help(command);
    print_usage(stdout);
    return 0;
}

static int cmd_version(const struct options *options)
{
    puts("scry " SCRY_VERSION);
    return 0;
}

/* Output that could not be written, for instance to a full disk, is an error. */
static int check_output(int status)
{
    bool failed_before = ferror(stdout); /* then errno is from something else */
    errno = 0;
    if (fflush(stdout) == 0 && !failed_before)
        return status;
    int why = cli_print_errno() ? cli_print_errno() : errno;
    fprintf(stderr, "scry: cannot write to standard output%s%s\n", why ? ": " : "", why ? strerror(why) : "");
    return status ? status : EXIT_ERRORS;
}

/* The command of `scry run --anyway ... -- COMMAND`, whose other options are wrong; or NULL. */
static char **find_command_anyway(char **argv)
{
    bool anyway = false;
    for (; *argv && strcmp(*argv, "--") != 0; argv++)
        anyway = anyway || strcmp(*argv, "--anyway") == 0;
    return anyway && argv[0] && argv[1] ? argv + 1 : NULL;
}

static int run_command(enum command command, int argc, char **argv)
{
    static char program[32]; /* the log's */
    struct options options;
    struct err err = {0};
    int status;
    snprintf(program, sizeof program, "scry %s", command_typed(command, argv[0]));
    log_open(program, 0);
    if (options_parse(&options, command, argc, argv, &err) < 0) {
        status = cli_usage_error(&options, "%s", err.text);
        if (command == COMMAND_RUN) {
            char **words = find_command_anyway(argv);
            status = words ? cmd_run_alone(words) : JOB_FAILED_BEFORE_START; /* other codes are the job's own */
        }
    } else {
        if (!options.help && option_find(command, "record", 6) && options_given(&options, "record"))
            setenv("SCRY_RECORD", options_text(&options, "record"), 1); /* for scry-record */
        status = options.help ? print_help(command) : functions[command](&options);
    }
    options_done(&options);
    return status;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    if (explain_order(argv + 1))
        return EXIT_USAGE;
    enum command command = find_command(name);
    return command == COMMANDS ? EXIT_USAGE : check_output(run_command(command, argc - 1, argv + 1));
}

int main(int argc, char **argv)
{
    return stack_run(run, argc, argv);
}
