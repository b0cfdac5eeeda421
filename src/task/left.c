/* SPDX-License-Identifier: Apache-2.0 */
#include "task/left.h"

#include <stdio.h>
#include <string.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "jobdir/text/text.h"

json_t *task_left_new(void)
{
    return json_pack("{s:i, s:[]}", "processes", 0, "names");
}

uint64_t task_left_count(const json_t *left)
{
    return (uint64_t)json_integer_value(json_object_get(left, "processes"));
}

void task_left_add(json_t *left, const char *name)
{
    enum { NAMES = 8 };
    json_t *names = json_object_get(left, "names"), *text = text_json(name), *each;
    bool known = false;
    size_t i;
    json_object_set_new(left, "processes", json_integer((json_int_t)task_left_count(left) + 1));
    json_array_foreach(names, i, each) known = known || json_equal(each, text);
    if (known || json_array_size(names) >= NAMES)
        json_decref(text);
    else
        json_array_append_new(names, text);
}

/* Lines with a name each. Whoever is on that machine wrote them. */
static json_t *read_names(const char *path)
{
    enum { MOST = 100000 };
    char name[64];
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    json_t *left = task_left_new();
    while (file && task_left_count(left) < MOST && fgets(name, sizeof name, file)) {
        name[strcspn(name, "\n")] = 0;
        task_left_add(left, name);
    }
    return left;
}

void task_left_note_far(const struct task *task, uint64_t run)
{
    char path[PATH_MAX + 64];
    json_t *phases = json_object_get(task->state, "phases"), *phase, *of = NULL;
    size_t i;
    snprintf(path, sizeof path, "%s/runs/.%llu.left", task->dir, (unsigned long long)run);
    json_t *left = read_names(path);
    json_array_foreach(phases, i, phase)
    {
        const char *name = json_string_value(json_object_get(phase, "phase"));
        if (name && strcmp(name, "run") == 0 && (uint64_t)json_integer_value(json_object_get(phase, "run")) == run)
            of = phase;
    }
    if (of && task_left_count(left))
        json_object_set(of, "left_behind", left);
    json_decref(left);
}
