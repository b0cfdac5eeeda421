/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints. */
#include <stdio.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "options/options.h"

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
static void put_form(struct buf *out, const struct option_row *row, bool setting)
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
            put_form(&form, row, setting);
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
