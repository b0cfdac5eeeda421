/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/line_times.h"

#include <stdlib.h>

#include "base/data/grow.h"
#include "base/system/clock.h"
#include "jobdir/text/text.h"

void line_times_add(struct line_times *times, const struct place *place, uint64_t ns)
{
    if (!place->first_line)
        return;
    for (size_t i = times->count; i--;)
        if (times->list[i].first_line == place->first_line && times->list[i].last_line == place->last_line) {
            times->list[i].ns += ns;
            return;
        }
    if (times->count < LINE_TIMES_MOST && GROW(times->list, times->count, times->room))
        times->list[times->count++] = (struct line_time){place->first_line, place->last_line, place->exact, ns};
}

static int by_time(const void *left, const void *right)
{
    const struct line_time *one = left, *other = right;
    if (one->ns != other->ns)
        return one->ns < other->ns ? 1 : -1;
    return one->first_line < other->first_line ? -1 : one->first_line > other->first_line;
}

static json_t *line_json(const struct line_time *line, const struct script_text *text, const char *file)
{
    json_t *object = json_object();
    json_object_set_new(object, "file", text_json(file));
    json_object_set_new(object, "line", json_integer(line->first_line));
    if (line->last_line != line->first_line)
        json_object_set_new(object, "last_line", json_integer(line->last_line));
    struct buf command = BUF_INIT;
    if (line->exact)
        script_command_show(&command, text, line->first_line, line->last_line);
    if (command.len && !command.failed)
        json_object_set_new(object, "command", text_json(command.data));
    buf_done(&command);
    json_object_set_new(object, "seconds", json_real((double)line->ns / NS_PER_SECOND));
    return object;
}

json_t *line_times_json(struct line_times *times, const struct script_text *text, const char *file)
{
    if (!times->count)
        return NULL;
    qsort(times->list, times->count, sizeof *times->list, by_time);
    json_t *list = json_array();
    for (size_t i = 0; i < times->count && i < LINE_TIMES_SHOWN; i++)
        json_array_append_new(list, line_json(&times->list[i], text, file));
    return list;
}

void line_times_done(struct line_times *times)
{
    free(times->list);
    *times = (struct line_times){0};
}
