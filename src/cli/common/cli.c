/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "base/system/log.h"
#include "jobdir/text/text.h"

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
static char **arguments(const struct options *options, char *path, struct arena *memory)
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
    char **argv = arguments(options, path, &memory);
    if (argv)
        execv(path, argv);
    log_error("%s: %s", path, strerror(errno));
    arena_done(&memory);
    return EXIT_USAGE;
}

int cli_usage_error(const struct options *options, const char *format, ...)
{
    const char *command = command_rows[options->command].name;
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
