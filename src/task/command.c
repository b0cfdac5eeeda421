/* SPDX-License-Identifier: Apache-2.0 */
#include "task/command.h"

#include <stdio.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "jobdir/text/text.h"
#include "options/options.h"
#include "task/spec.h"

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
