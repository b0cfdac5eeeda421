/* SPDX-License-Identifier: Apache-2.0 */
#include "job/python/stack_json.h"

#include <string.h>

#include "base/system/proc_file.h"
#include "jobdir/text/text.h"

static json_t *frames_json(const struct python_thread *thread, size_t most)
{
    json_t *frames = json_array();
    for (size_t i = 0; i < thread->count && i < most; i++) {
        const struct python_frame *frame = &thread->frames[i];
        json_t *row = json_pack("{s:o, s:o}", "function", text_json(frame->function), "file", text_json(frame->file));
        if (row && frame->line >= 0)
            json_object_set_new(row, "line", json_integer(frame->line));
        if (!row || json_array_append_new(frames, row) < 0) {
            json_decref(frames);
            return NULL;
        }
    }
    return frames;
}

json_t *python_stacks_json(const struct python_stacks *stacks, pid_t pid, const char *name)
{
    json_t *threads = json_array();
    size_t room = STACK_JSON_FRAMES;
    for (size_t i = 0; threads && i < stacks->count; i++) {
        const struct python_thread *thread = &stacks->threads[i];
        char comm[64];
        json_t *row = json_pack("{s:i, s:o}", "tid", (int)thread->tid, "frames", frames_json(thread, room));
        if (!row || json_array_append_new(threads, row) < 0) {
            json_decref(threads);
            return NULL;
        }
        proc_comm(pid, thread->tid, comm, sizeof comm);
        if (*comm && strcmp(comm, name) != 0)
            json_object_set_new(row, "name", text_json(comm));
        if (thread->moved)
            json_object_set_new(row, "moved", json_true());
        if (thread->cut || thread->count > room)
            json_object_set_new(row, "cut", json_true());
        room -= thread->count < room ? thread->count : room;
    }
    return threads;
}
