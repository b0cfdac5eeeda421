/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/layers/test_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "jobdir/text/fields.h"

struct job_model model;
static int next_seq;

int set_up(void **state)
{
    next_seq = 0;
    return job_model_init(&model, 100);
}

int tear_down(void **state)
{
    job_model_done(&model);
    return 0;
}

void put(json_t *record)
{
    assert_non_null(record);
    json_object_set_new(record, "seq", json_integer(next_seq++));
    job_model_apply(&model, record);
    json_decref(record);
}

void put_warning(double seconds, struct note note)
{
    json_t *record = note_json(&note);
    json_object_set_new(record, "type", json_string("warning"));
    json_object_set_new(record, "t", json_real(seconds));
    put(record);
}

void put_matched(double seconds, const char *pattern, const char *level, const char *text)
{
    PUT("{s:s, s:f, s:s, s:s, s:s, s:s, s:i, s:i}", "type", "log", "t", seconds, "file", "stderr", "pattern", pattern,
        "level", level, "text", text, "line", 7, "folded", 0);
}

void put_log(double seconds, const char *level, const char *text)
{
    put_matched(seconds, "some", level, text);
}

void put_disk_of(double seconds, const char *path, int total, int left)
{
    PUT("{s:s, s:f, s:f, s:[{s:s, s:i, s:i, s:i, s:i}]}", "type", "health", "t", seconds, "seconds", 1.0, "filesystems",
        "path", path, "total_bytes", total, "free_bytes", left, "inodes", 100, "free_inodes", 50);
}

void put_disk(double seconds, int total, int left)
{
    put_disk_of(seconds, "/work", total, left);
}

void put_exception_of(double seconds, int pid, int tid, const char *name, const char *message)
{
    PUT("{s:s, s:f, s:i, s:i, s:s, s:s, s:s, s:s, s:i, s:b, s:[{s:s, s:s, s:i}]}", "type", "python_exception", "t",
        seconds, "pid", pid, "tid", tid, "name", name, "message", message, "file", "/home/u/steer.py", "function",
        "step", "line", 12, "caught", 0, "traceback", "function", "step", "file", "steer.py", "line", 12);
}

void put_exception(double seconds, int pid, const char *name, const char *message)
{
    put_exception_of(seconds, pid, pid, name, message);
}

void put_failure(double seconds, int pid, int line, int status)
{
    PUT("{s:s, s:f, s:i, s:s, s:s, s:i, s:s, s:i}", "type", "command_failed", "t", seconds, "pid", pid, "language",
        "bash", "file", "/home/u/job.sh", "line", line, "command", "make all", "status", status);
}

json_t *chain_of(const char *text)
{
    json_t *chain = json_loads(text, 0, NULL);
    assert_non_null(chain);
    return chain;
}
