/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/jobs/watch_status.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "cli/common/now.h"
#include "jobdir/text/text.h"

enum {
    EACH = 2,      /* scripts, Python programs, sources of progress */
    ROWS_LEFT = 6, /* for records: a terminal with less than this above has no status */
    COLUMNS_MIN = 20
};

void watch_status_start(struct watch_status *status, int fd, bool colours)
{
    const char *terminal = getenv("TERM");
    if (!isatty(fd) || !terminal || !*terminal || strcmp(terminal, "dumb") == 0)
        return;
    status->on = job_model_init(&status->model, 0) == 0;
    status->colours = colours;
}

void watch_status_done(struct watch_status *status)
{
    if (status->on)
        job_model_done(&status->model);
    status->on = false;
}

void watch_status_erase(struct watch_status *status, struct buf *out)
{
    if (status->drawn)
        buf_printf(out, "\033[%zuA\r\033[J", status->drawn);
    status->drawn = 0;
}

static void put_line(struct watch_status *status, struct buf *out, const char *text, size_t columns)
{
    buf_puts(out, status->colours ? TEXT_FAINT : "");
    buf_append(out, text, text_fit(text, strlen(text), columns));
    buf_puts(out, status->colours ? TEXT_PLAIN "\n" : "\n");
    status->drawn++;
}

void watch_status_draw(struct watch_status *status, struct buf *out, size_t rows, size_t columns, double seconds)
{
    struct now_line lines[NOW_LINES];
    if (!status->on || columns < COLUMNS_MIN)
        return;
    size_t count = now_lines(&status->model, EACH, lines), room = rows > ROWS_LEFT ? rows - ROWS_LEFT : 0;
    if (!count || room < 2)
        return;
    _cleanup_(buf_done) struct buf head = BUF_INIT;
    for (size_t i = 0; i < (columns < 24 ? columns : 24); i++)
        buf_puts(&head, "-");
    buf_puts(&head, " now at ");
    text_seconds(&head, seconds);
    put_line(status, out, head.data ? head.data : "", columns - 1);
    for (size_t i = 0; i < count && i + 1 < room; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        now_text(&text, &lines[i], seconds);
        put_line(status, out, text.data ? text.data : "", columns - 1); /* the last column may wrap */
    }
}
