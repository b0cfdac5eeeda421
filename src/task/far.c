/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"
#include "task/far.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/pause.h"
#include "task/estimate.h"
#include "task/spec.h"

typedef unsigned long long number;

/* Its files have reached the other machine; all of it is here. Empty, and made or renamed where a disk is full, too (near.sh). */
#define SENT "runs/.%llu.sent"
#define HERE "runs/.%llu.here"

static const char far_sh[] =
#include "task/far.sh.inc"
    ;
static const char near_sh[] =
#include "task/near.sh.inc"
    ;

const char *far_log_of_output(const char *log, bool *ret_is_err)
{
    *ret_is_err = strncmp(log, "stderr=", 7) == 0;
    return *ret_is_err || strncmp(log, "stdout=", 7) == 0 ? log + 7 : NULL;
}

void far_put_limits(struct buf *far, const struct task *task)
{
    enum { UNIT = 512, KB = 1024 }; /* of ulimit, by POSIX; -d is no part of it */
    uint64_t memory = task_number(task->spec, "limits.memory_bytes");
    buf_printf(far, "ulimit -f %llu; ", (number)(task_number(task->spec, "limits.disk_bytes") / UNIT));
    if (memory)
        buf_printf(far, "ulimit -d %llu; ", (number)(memory / KB));
}

/* What is executed there, up to a call. */
static void far_begin(struct buf *ret_script, const struct task *task, uint64_t run)
{
    buf_printf(ret_script, "%sbegin %s %llu %g; ", far_sh, task->id, (number)run, time_hasten(1000) / 1e3);
}

/* `sh -c SCRIPT`, for whatever login shell there is: to each of them all is plain between these single quotes. */
static void put_line(struct buf *out, const struct buf *script)
{
    _cleanup_(buf_done) struct buf line = BUF_INIT;
    buf_puts(&line, "sh -c 'eval \"$(printf %b \"$1\")\"' sh '");
    for (size_t i = 0; i < script->len; i++)
        buf_printf(&line, strchr("\n\\!'", script->data[i]) ? "\\0%03o" : "%c", (unsigned char)script->data[i]);
    buf_putc(&line, '\'');
    buf_putc(out, ' ');
    text_quote(out, line.data ? line.data : "");
    if (script->failed || line.failed)
        out->failed = true;
}

/* The same for a function, with its arguments. */
static void put_call(struct buf *out, const struct task *task, uint64_t run, const char *call)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    far_begin(&script, task, run);
    buf_puts(&script, call);
    put_line(out, &script);
}

/* What is executed here, up to the arguments of a call. */
static void near_begin(struct buf *out, const struct task *task, uint64_t run, const char *call)
{
    const char *host = json_string_value(json_array_get(task_member(task->spec, "launch.hosts"), 0));
    const char *ssh = getenv("SCRY_SSH"); /* as everywhere in scry (link/transport.c) */
    buf_printf(out, "%sbegin ", near_sh);
    text_quote(out, task->dir);
    buf_printf(out, " %llu ", (number)run);
    text_quote(out, ssh && *ssh ? ssh : "ssh");
    buf_putc(out, ' ');
    text_quote(out, host ? host : "localhost");
    buf_printf(out, "; %s", call);
}

static void put_environment(struct buf *out, const struct task *task)
{
    const char *name;
    json_t *value;
    buf_printf(out, " env SCRY_TASK=%s", task->id);
    json_object_foreach(task_member(task->spec, "environment"), name, value)
    {
        buf_printf(out, " %s=", name);
        text_quote(out, json_string_value(value));
    }
}

void far_put_start(struct buf *out, const struct task *task, uint64_t run, const char *line)
{
    _cleanup_(buf_done) struct buf script = BUF_INIT;
    const char *directory = task_text(task->spec, "directory");
    json_t *log;
    size_t i;
    far_begin(&script, task, run);
    buf_puts(&script, "PATH=$PATH:$HOME/.local/bin; ");
    far_put_limits(&script, task);
    buf_puts(&script, "start ");
    text_quote(&script, directory ? directory : "");
    put_environment(&script, task);
    buf_puts(&script, " scry run --output=\"$t/runs/$run\"");
    json_array_foreach(task_member(task->spec, "collect.logs"), i, log)
    {
        bool err;
        const char *regex = far_log_of_output(json_string_value(log), &err);
        if (!regex)
            continue;
        buf_printf(&script, " --log=\"$t/runs/$run.%s\"=", err ? "err" : "out");
        text_quote(&script, regex);
    }
    buf_printf(&script, " %s", line);
    near_begin(out, task, run, "start");
    put_call(out, task, run, "receive");
    put_line(out, &script);
}

void far_put_gather(struct buf *out, const struct task *task, uint64_t run)
{
    char send[32];
    snprintf(send, sizeof send, "send %d", TASK_BYTES_DIGITS);
    near_begin(out, task, run, "gather");
    buf_printf(out, " %d", TASK_BYTES_DIGITS);
    put_call(out, task, run, send);
    put_call(out, task, run, "remove");
}

enum far_came far_came(const struct task *task, uint64_t run)
{
    char path[PATH_MAX + 64], digits[TASK_BYTES_DIGITS + 1] = "";
    snprintf(path, sizeof path, "%s/" HERE, task->dir, (number)run);
    if (access(path, F_OK) == 0)
        return FAR_WHOLE;
    snprintf(path, sizeof path, "%s/" TASK_BYTES_FILE, task->dir, (number)run);
    _cleanup_(fclosep) FILE *file = file_open_plain(path);
    if (file && fread(digits, 1, TASK_BYTES_DIGITS, file) == TASK_BYTES_DIGITS)
        return strspn(digits, "0") < TASK_BYTES_DIGITS ? FAR_PART : FAR_NOTHING;
    snprintf(path, sizeof path, "%s/" SENT, task->dir, (number)run);
    return access(path, F_OK) == 0 ? FAR_SILENT : FAR_NOTHING;
}

void far_put_signal(struct buf *out, const struct task *task, uint64_t run, const char *signal, const char *stop)
{
    char end[64];
    snprintf(end, sizeof end, "end %s %s", signal, stop ? stop : "");
    near_begin(out, task, run, "far");
    put_call(out, task, run, end);
}
