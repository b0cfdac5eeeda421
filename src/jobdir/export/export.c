/* SPDX-License-Identifier: Apache-2.0 */
/* What the formats share. */
#include "jobdir/export/export.h"
#include "jobdir/text/text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"

enum { FLUSH = 1 << 16 };

static const struct export_format *const formats[] = {&export_chrome,     &export_speedscope,     &export_folded,
                                                      &export_folded_cpu, &export_folded_waiting, &export_csv,
                                                      &export_messages,   &export_spacetime};

const struct export_format *export_format_at(size_t index)
{
    return index < sizeof formats / sizeof *formats ? formats[index] : NULL;
}

const struct export_format *export_format_find(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

/* Programs read the text as it is; a terminal is a person's, and obeys some of it. */
static void escape_for_terminal(struct buf *text)
{
    _cleanup_(buf_done) struct buf shown = BUF_INIT;
    for (char *rest = text->data, *line; rest && (line = strsep(&rest, "\n"));) {
        text_show(&shown, line);
        if (rest)
            buf_putc(&shown, '\n');
    }
    buf_clear(text);
    buf_append(text, shown.data, shown.len);
}

void export_flush(struct exporter *exporter, bool all)
{
    struct buf *text = &exporter->text;
    if (text->failed && !exporter->failed) {
        exporter->failed = true;
        exporter->error = ENOMEM;
    }
    if (text->len < (all ? 1 : FLUSH))
        return;
    if (isatty(fileno(exporter->out)))
        escape_for_terminal(text);
    if (!exporter->failed && fwrite(text->data, 1, text->len, exporter->out) != text->len) {
        exporter->failed = true;
        exporter->error = errno;
    }
    buf_clear(text);
}

uint64_t export_ns(const struct exporter *exporter, uint64_t ticks)
{
    if (exporter->messages) {
        int64_t ns = timeline_ns(&exporter->messages->timeline, exporter->number, ticks);
        return ns > 0 ? (uint64_t)ns : 0;
    }
    uint64_t wall = trace_wall_ns(exporter->trace, ticks);
    return wall > exporter->start_ns ? wall - exporter->start_ns : 0;
}

void export_put_field(struct buf *out, const char *text, size_t len)
{
    bool plain = true;
    for (size_t i = 0; i < len && plain; i++)
        plain = text[i] != '"' && text[i] != ',' && text[i] != '\n' && text[i] != '\r';
    if (plain && !(len && (text[0] == ' ' || text[len - 1] == ' '))) {
        buf_append(out, text, len);
        return;
    }
    buf_putc(out, '"');
    for (const char *end = text + len; text < end;) {
        const char *quote = memchr(text, '"', (size_t)(end - text));
        size_t part = quote ? (size_t)(quote - text) + 1 : (size_t)(end - text);
        buf_append(out, text, part);
        if (quote)
            buf_putc(out, '"');
        text += part;
    }
    buf_putc(out, '"');
}

const char *export_program(const struct trace *trace)
{
    const char *exe = trace_value(trace, "exe");
    return exe && *exe ? text_base(exe) : "?";
}
