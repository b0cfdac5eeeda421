/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/common/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
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
