/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tasks/state.h"

#include "jobdir/text/text.h"

const char *tasks_text_of(const json_t *json, const char *member)
{
    const char *text = json_string_value(json_object_get(json, member));
    return text ? text : "";
}

double tasks_number_of(const json_t *json, const char *member)
{
    const json_t *value = json_object_get(json, member);
    return json_is_number(value) ? json_number_value(value) : -1;
}

void tasks_put_progress(struct buf *out, const json_t *json)
{
    double share = tasks_number_of(json, "progress"), left = tasks_number_of(json, "left_seconds");
    if (share >= 0)
        buf_printf(out, ", %.0f %%", (double)(int)(share * 100));
    if (left >= 0) {
        buf_puts(out, ", ");
        text_seconds(out, left);
        buf_puts(out, " left");
    }
}

void tasks_put_state(struct buf *out, const struct task_store *store, const json_t *task)
{
    const char *why = tasks_text_of(json_object_get(task, "error"), "text"), *elsewhere = task_elsewhere(store, task);
    const char *waits = tasks_text_of(task, "waits_for");
    buf_puts(out, tasks_text_of(task, "state"));
    if (elsewhere && task_is_active(task)) {
        buf_puts(out, " on ");
        text_show(out, elsewhere);
    }
    tasks_put_progress(out, task);
    if (*waits) {
        buf_puts(out, ", waiting for: ");
        text_show(out, waits);
    }
    if (*why)
        buf_puts(out, ": ");
    text_show(out, why);
}
