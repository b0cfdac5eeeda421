/* SPDX-License-Identifier: Apache-2.0 */
#include "job/crash.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "jobdir/text.h"

static void explain_one(const struct job *job, json_t *crash)
{
    _cleanup_(freep) char *core = NULL;
    char note[256];
    const char *name = json_string_value(json_object_get(crash, "name"));
    pid_t pid = (pid_t)json_integer_value(json_object_get(crash, "pid"));
    int signo = (int)json_integer_value(json_object_get(crash, "signal"));
    if (!json_is_true(json_object_get(crash, "core_dumped")))
        return;
    trouble_find_core(pid, name ? name : "*", job->cwd, signo, (time_t)(job->info.started_ns / 1000000000u), &core,
                      note, sizeof note);
    if (core)
        json_object_set_new(crash, "core", text_json(core));
    if (*note)
        json_object_set_new(crash, "note", text_json(note));
}

void crash_explain(struct job *job)
{
    size_t index;
    json_t *crash;
    json_array_foreach(job->recorder.model.crashes, index, crash) explain_one(job, crash);
}
