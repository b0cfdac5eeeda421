/* SPDX-License-Identifier: Apache-2.0 */
/* The program `scry`: a table of commands. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/near.h"
#include "base/stack.h"
#include "jobdir/text.h"

#ifndef SCRY_VERSION
#define SCRY_VERSION "unknown"
#endif

static int cmd_help(int argc, char **argv);
static int cmd_version(int argc, char **argv);

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *description;
} commands[] = {
#ifdef HAVE_CMD_RUN
    {"run", cmd_run, "Run a job and follow it; the exit status is the command's own"},
#endif
#ifdef HAVE_CMD_EXEC
    {"exec", cmd_exec, "Run one program of a job inside any launcher"},
#endif
#ifdef HAVE_CMD_PS
    {"ps", cmd_ps, "List jobs and their processes"},
#endif
#ifdef HAVE_CMD_TOP
    {"top", cmd_top, "Watch a job live"},
#endif
#ifdef HAVE_CMD_WHY
    {"why", cmd_why, "Say what keeps a job from going on, and who keeps whom waiting"},
#endif
#ifdef HAVE_CMD_SET
    {"set", cmd_set, "Change what a running job records"},
#endif
#ifdef HAVE_CMD_REPORT
    {"report", cmd_report, "Show what a run was"},
#endif
#ifdef HAVE_CMD_REPLAY
    {"replay", cmd_replay, "Show the recorded calls in the order of time"},
#endif
#ifdef HAVE_CMD_EXPORT
    {"export", cmd_export, "Write a job's trace for other programs"},
#endif
#ifdef HAVE_CMD_RM
    {"rm", cmd_rm, "Remove what was recorded of jobs that are over"},
#endif
    {"omis", cmd_omis, "Speak the monitor's request language: one shot, a pipe, or a shell"},
    {"monitor", cmd_monitor, "Run the monitor of this node (others start it when needed)"},
    {"doctor", cmd_doctor, "Show what works on this machine, what does not, and why"},
    {"help", cmd_help, "Show this list, or the help of one command"},
    {"version", cmd_version, "Show the version"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static void print_usage(FILE *out)
{
    fputs("Usage: scry COMMAND [ARGUMENT...]\n\n"
          "See what a job does on machines that you cannot look into.\n\nCommands:\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].description);
    fputs("\n`scry COMMAND --help` tells more and gives an example.\n", out);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    struct near_word meant = {.distance = NEAR_NONE};
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        near_take(&meant, name, strlen(name), commands[i].name);
    text_show(&shown, name);
    fprintf(stderr, "scry: there is no command \"%s\"%s%s%s; `scry help` lists them\n", shown.data ? shown.data : "",
            *meant.text ? " (did you mean " : "", meant.text, *meant.text ? "?)" : "");
    return EXIT_USAGE;
}

/* What the command's help says, malloc'ed; NULL: it could not be had. */
static char *help_of(const struct command *command)
{
    char name[NEAR_WORD_SIZE], option[] = "--help", *text = NULL;
    size_t len = 0;
    snprintf(name, sizeof name, "%s", command->name);
    char *arguments[] = {name, option, NULL};
    FILE *before = stdout, *memory = open_memstream(&text, &len);
    if (!memory)
        return NULL;
    stdout = memory;
    command->run(2, arguments);
    stdout = before;
    fclose(memory);
    return text;
}

int cli_unknown_option(const char *name, const char *option)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz-";
    const struct command *command = find_command(name);
    _cleanup_(freep) char *help = command ? help_of(command) : NULL;
    struct near_word meant = {.distance = NEAR_NONE};
    for (const char *at = help; at && (at = strstr(at, "--"));) {
        char known[NEAR_WORD_SIZE];
        size_t len = strspn(at, letters);
        snprintf(known, sizeof known, "%.*s", (int)(len < sizeof known ? len : 0), at);
        if (len > strlen("--"))
            near_take(&meant, option, strcspn(option, "="), known);
        at += len;
    }
    if (!*meant.text)
        return cli_usage_error(name, "unknown %s %s", *option == '-' ? "option" : "argument", option);
    return cli_usage_error(name, "unknown option %s (did you mean %s?)", option, meant.text);
}

static int cmd_help(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (argc > 2)
        return cli_usage_error("help", "one command at a time, not also %s", argv[2]);
    if (!name || strcmp(name, "--help") == 0 || strcmp(name, "help") == 0 || strcmp(name, "version") == 0) {
        print_usage(stdout);
        return 0;
    }
    const struct command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    char option[] = "--help";
    char *arguments[] = {argv[1], option, NULL};
    return command->run(2, arguments);
}

static int cmd_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
        return cli_usage_error("version", "unexpected argument %s", argv[1]);
    puts("scry " SCRY_VERSION);
    return 0;
}

bool cli_color(int fd)
{
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(fd) && !(no_color && *no_color) && !(terminal && strcmp(terminal, "dumb") == 0);
}

size_t cli_columns(void)
{
    struct winsize size = {0};
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0)
        return 0;
    return size.ws_col;
}

void cli_log_error(const struct err *err)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    text_show(&shown, err->text);
    log_error("%s", shown.data ? shown.data : "");
}

const char *cli_option(int argc, char **argv, int *at, const char *name)
{
    size_t len = strlen(name);
    const char *argument = argv[*at];
    if (strncmp(argument, name, len) != 0 || (argument[len] && argument[len] != '='))
        return NULL;
    return argument[len] ? argument + len + 1 : *at + 1 < argc ? argv[++*at] : "";
}

bool cli_number(const char *text, int least, int *ret_number)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (!*text || *end || number < least || number > INT_MAX)
        return false;
    *ret_number = (int)number;
    return true;
}

int cli_usage_error(const char *command, const char *format, ...)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT, shown = BUF_INIT;
    va_list args;
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    text_show(&shown, text.data ? text.data : ""); /* what somebody typed, or pasted, may hold anything */
    fprintf(stderr, "scry %s: %s; see `scry %s --help`\n", command, shown.data ? shown.data : "", command);
    return EXIT_USAGE;
}

/* Answers that could not be written, to a full disk for instance, are no success. */
static int check_output(int status)
{
    bool failed_before = ferror(stdout); /* then errno is about something else by now */
    errno = 0;
    if (fflush(stdout) == 0 && !failed_before)
        return status;
    fprintf(stderr, "scry: cannot write to standard output%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    return status ? status : EXIT_ERRORS;
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
    const struct command *command = find_command(name);
    if (!command)
        return unknown_command(name);
    return check_output(command->run(argc - 1, argv + 1));
}

int main(int argc, char **argv)
{
    return stack_run(run, argc, argv);
}
