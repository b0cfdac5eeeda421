/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ct/job_object.h"

#include <string.h>

#include "monitor/engine/monitor.h"
#include "monitor/engine/object.h"
#include "monitor/recorder/agents.h"

const char JOB_CLASS[] = "job_j";

struct span job_object_id(struct span dir)
{
    while (dir.len > 1 && dir.ptr[dir.len - 1] == '/')
        dir.len--;
    size_t from = dir.len;
    while (from && dir.ptr[from - 1] != '/')
        from--;
    return span_of(dir.ptr + from, dir.len - from);
}

static const char *dir_of(const struct scry_object *object)
{
    return ((const struct job_object *)object->data)->dir;
}

struct scry_object *job_object_find(struct monitor *monitor, struct span name)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, JOB_CLASS) &&
            (span_is(name, dir_of(object)) || span_eq(name, job_object_id(span_str(dir_of(object)))) ||
             span_is(name, object->token)))
            return object;
    return NULL;
}

bool job_object_is(struct monitor *monitor, const struct scry_object *object, struct span name)
{
    const char *home =
        object_is(object, JOB_CLASS) && monitor->agents ? agents_job_home(monitor->agents, dir_of(object)) : NULL;
    return object == job_object_find(monitor, name) ||
           (home && (span_is(name, home) || span_eq(name, job_object_id(span_str(home)))));
}

struct tool *job_tool(struct monitor *monitor, const char *dir)
{
    for (struct scry_object *object = monitor->objects; object; object = object->hh.next)
        if (object_is(object, JOB_CLASS) && strcmp(dir_of(object), dir) == 0)
            return object->owner;
    return NULL;
}

const char *job_directory(struct monitor *monitor, struct span name)
{
    const struct scry_object *found = job_object_find(monitor, name);
    return found ? dir_of(found) : NULL;
}
