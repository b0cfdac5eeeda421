/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/cli.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/clock.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "base/system/process.h"
#include "jobdir/record/spool.h"
#include "jobdir/text/fields.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static pid_t pager; /* 0: none */

/* NULL: no pager; "": less. */
static const char *pager_wanted(void)
{
    const char *own = getenv("SCRY_PAGER"), *terminal = getenv("TERM");
    const char *command = own ? own : getenv("PAGER");
    if (!command)
        return terminal && strcmp(terminal, "dumb") == 0 ? NULL : "";
    return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

void pager_start(void)
{
    const char *command = isatty(STDOUT_FILENO) ? pager_wanted() : NULL;
    if (!command)
        return;
    const char *less = "command -v less >/dev/null && exec less; exec cat";
    char shell[] = "sh", option[] = "-c", *argv[] = {shell, option, (char *)(*command ? command : less), NULL};
    int ends[3];
    fflush(stdout);
    setenv("LESS", "FRX", 0); /* end if it fits, colours, leave it on the screen */
    const struct spawn spawn = {
        .path = "/bin/sh", .argv = argv, .in = SPAWN_PIPE, .out = SPAWN_SAME, .error = SPAWN_SAME};
    if (spawn_piped(&spawn, &pager, ends) < 0) {
        pager = 0;
        return;
    }
    dup2(ends[0], STDOUT_FILENO);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN); /* if it ends, so do we */
    signal(SIGINT, SIG_IGN);  /* ^C at the terminal is for the pager */
}

int pager_end(int status)
{
    if (!pager)
        return status;
    bool cut = fflush(stdout) != 0 || ferror(stdout);
    close(STDOUT_FILENO);
    child_reap(pager);
    pager = 0;
    __fpurge(stdout); /* nobody reads the rest */
    clearerr(stdout);
    return cut ? 0 : status;
}

static const char gone[] = "\r\033[K";

/* Removes the line, and lets the signal end the command as if it were not handled. */
static void end_of(int signo)
{
    ssize_t written = write(STDERR_FILENO, gone, sizeof gone - 1);
    (void)written;
    raise(signo); /* blocked here, and by now as it was: SA_RESETHAND */
}

static void signal_handle(int signo)
{
    struct sigaction before;
    if (sigaction(signo, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL)
        sigaction(signo, &(struct sigaction){.sa_handler = end_of, .sa_flags = (int)SA_RESETHAND}, NULL);
}

void progress_begin(struct progress *progress, const char *what)
{
    *progress =
        (struct progress){.what = what, .next_ns = clock_now_ns() + NS_PER_SECOND, .off = !isatty(STDERR_FILENO)};
}

static bool is_due(struct progress *progress)
{
    uint64_t now_ns = progress->off ? 0 : clock_now_ns();
    if (progress->off || now_ns < progress->next_ns)
        return false;
    if (!progress->shown) {
        signal_handle(SIGINT);
        signal_handle(SIGTERM);
    }
    progress->shown = true;
    progress->next_ns = now_ns + NS_PER_SECOND / 10;
    return true;
}

void progress_show(void *ctx, double share)
{
    struct progress *progress = ctx;
    if (is_due(progress))
        fprintf(stderr, "\r%s: %3.0f %%", progress->what, 100 * (share < 1 ? share : 1));
}

void progress_say(struct progress *progress, const char *text)
{
    if (is_due(progress))
        fprintf(stderr, "\r%s\033[K", text);
}

void progress_end(struct progress *progress)
{
    if (progress->shown)
        fputs(gone, stderr);
    progress->shown = false;
    progress->off = true;
}

/* Each log is one more, until they are off. */
static void setting_keep(json_t *settings, const char *key, json_t *value)
{
    const char *text = json_string_value(value), *before = json_string_value(json_object_get(settings, key));
    if (text && before && strcmp(key, "log") == 0 && strcmp(text, "off") != 0 && strcmp(before, "off") != 0)
        json_object_set_new(settings, key, json_sprintf("%s %s", before, text));
    else
        json_object_set(settings, key, value);
}

void settings_read(const char *path, json_t *settings)
{
    struct spool_reader reader;
    if (spool_reader_open(&reader, path, NULL) < 0)
        return;
    for (json_t *record; (record = spool_reader_next(&reader)); json_decref(record)) {
        const char *type = member_text(record, "type");
        if (strcmp(type, "tracing") == 0)
            json_object_update(settings, json_object_get(record, "settings"));
        const char *key = json_string_value(json_object_get(record, "key"));
        if (strcmp(type, "setting") == 0 && key && json_is_true(json_object_get(record, "taken")))
            setting_keep(settings, key, json_object_get(record, "value"));
    }
    spool_reader_close(&reader);
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

/* The command line anew: reading it has moved its words to the front. NULL: out of memory. */
static char **program_arguments(const struct options *options, char *path, struct arena *memory)
{
    size_t count = 0;
    char **argv = arena_alloc(memory, (options->count + options->word_count + 3) * sizeof *argv);
    if (!argv)
        return NULL;
    argv[count++] = path;
    for (size_t i = 0; i < options->count; i++) {
        const struct option_given *given = &options->given[i];
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        bool alone = !*given->text && (!given->row->argument || given->row->flags & OPTION_OPTIONAL);
        buf_printf(&text, "--%s%s%s", given->row->name, alone ? "" : "=", given->text);
        argv[count++] = arena_dup(memory, text.data, text.len);
    }
    argv[count++] = arena_dup(memory, "--", 2);
    for (size_t i = 0; i < options->word_count; i++)
        argv[count++] = options->words[i];
    argv[count] = NULL;
    return memory->failed ? NULL : argv;
}

int cli_become(const struct options *options, const char *program)
{
    char path[PATH_MAX];
    struct err err;
    struct arena memory = {0};
    if (dirs_libexec(program, path, sizeof path, &err) < 0) {
        cli_log_error(&err);
        return EXIT_USAGE;
    }
    char **argv = program_arguments(options, path, &memory);
    if (argv)
        execv(path, argv);
    log_error("%s: %s", path, strerror(errno));
    arena_done(&memory);
    return EXIT_USAGE;
}

int cli_usage_error(const struct options *options, const char *format, ...)
{
    const char *command = command_typed(options->command, options->argv ? options->argv[0] : NULL);
    _cleanup_(buf_done) struct buf text = BUF_INIT, shown = BUF_INIT;
    va_list args;
    va_start(args, format);
    buf_vprintf(&text, format, args);
    va_end(args);
    text_show(&shown, text.data ? text.data : ""); /* what somebody typed, or pasted, may hold anything */
    fprintf(stderr, "scry %s: %s; see `scry %s --help`\n", command, shown.data ? shown.data : "", command);
    return EXIT_USAGE;
}

static int print_errno;

void cli_print(const char *text, size_t size)
{
    errno = 0;
    if ((fwrite(text, 1, size, stdout) < size || fflush(stdout) != 0) && !print_errno)
        print_errno = errno;
}

int cli_print_errno(void)
{
    return print_errno;
}

bool cli_wait_for_more(int changes)
{
    struct pollfd inputs[2] = {{.fd = changes, .events = POLLIN}, {.fd = STDOUT_FILENO}};
    char drained[4096];
    if (poll(inputs, 2, JOBS_WATCH_MS) > 0 && inputs[0].revents)
        while (read(changes, drained, sizeof drained) > 0)
            continue;
    return !(inputs[1].revents & (POLLERR | POLLNVAL));
}
