/* SPDX-License-Identifier: Apache-2.0 */
#include "jobdir/text/text.h"
#include "task/far.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data/cleanup.h"
#include "base/system/dirs.h"
#include "task/estimate.h"
#include "task/spec.h"

typedef unsigned long long number;

/* Its files have reached the other machine; all of it is here. Empty, and made or renamed where a disk is full, too. */
#define SENT "runs/.%llu.sent"
#define HERE "runs/.%llu.here"
/* What comes is put there first. */
#define COMES "runs/.%llu.comes"

const char *far_log_of_output(const char *log, bool *ret_is_err)
{
    *ret_is_err = strncmp(log, "stderr=", 7) == 0;
    return *ret_is_err || strncmp(log, "stdout=", 7) == 0 ? log + 7 : NULL;
}

/* `ssh HOST sh -c SCRIPT`, whatever the login shell there is. */
static void put_ssh(struct buf *out, const struct task *task, const struct buf *script)
{
    _cleanup_(buf_done) struct buf command = BUF_INIT;
    const char *host = json_string_value(json_array_get(task_member(task->spec, "launch.hosts"), 0));
    const char *ssh = getenv("SCRY_SSH"); /* as everywhere in scry (link/way.c) */
    buf_puts(&command, "sh -c ");
    text_quote(&command, script->data ? script->data : "");
    text_quote(out, ssh && *ssh ? ssh : "ssh");
    buf_puts(out, " -o BatchMode=yes -o ServerAliveInterval=15 ");
    text_quote(out, host ? host : "localhost");
    buf_putc(out, ' ');
    text_quote(out, command.data ? command.data : "");
    if (script->failed || command.failed)
        out->failed = true;
}

/* What each script there begins with. */
static void put_begin(struct buf *far, const struct task *task)
{
    buf_printf(far, "umask 077; t=$HOME/.cache/scry/tasks/%s; ", task->id);
}

/* The number of its scry run, or "": it is over. A number alone may be somebody else's by now. */
static void put_find(struct buf *far, uint64_t run)
{
    buf_printf(far,
               "alive() { p=$(cat \"$t/runs/%llu.pid\" 2>/dev/null) && [ -n \"$p\" ] && "
               "tr '\\0' ' ' 2>/dev/null <\"/proc/$p/cmdline\" | grep -q \"runs/%llu[\\\" ]\"; }; ",
               (number)run, (number)run);
}

/* The numbers of those that say by their environment that they are of the task, wherever they went: as says_it_is has it at
 * home (process.c). */
static void put_left(struct buf *far, const struct task *task)
{
    buf_printf(far,
               "left() { for e in $(grep -lzx SCRY_TASK=%s /proc/[0-9]*/environ 2>/dev/null); do "
               "c=$(cat \"${e%%/environ}/comm\" 2>/dev/null); e=${e#/proc/}; "
               "case $c in scry|scry-*|job-*|'') ;; *) echo \"${e%%/environ}\" ;; esac; done; }; ",
               task->id);
}

void far_put_limits(struct buf *far, const struct task *task)
{
    enum { UNIT = 512, KB = 1024 }; /* of ulimit, by POSIX; -d is no part of it */
    uint64_t memory = task_number(task->spec, "limits.memory_bytes");
    buf_printf(far, "ulimit -f %llu; ", (number)(task_number(task->spec, "limits.disk_bytes") / UNIT));
    if (memory)
        buf_printf(far, "ulimit -d %llu; ", (number)(memory / KB));
}

static void put_environment(struct buf *far, const struct task *task)
{
    const char *name;
    json_t *value;
    buf_printf(far, "export SCRY_TASK=%s", task->id);
    json_object_foreach(task_member(task->spec, "environment"), name, value)
    {
        buf_printf(far, " %s=", name);
        text_quote(far, json_string_value(value));
    }
    buf_puts(far, "; ");
}

void far_put_start(struct buf *out, const struct task *task, uint64_t run, const char *line)
{
    _cleanup_(buf_done) struct buf far = BUF_INIT;
    const char *directory = task_text(task->spec, "directory");
    json_t *log;
    size_t i;
    buf_puts(out, "tar -C ");
    text_quote(out, task->dir);
    buf_puts(out, "/files -cf - . | ");
    put_begin(&far, task);
    buf_puts(&far, "mkdir -p \"$t/files\" \"$t/runs\" && tar -C \"$t/files\" -xf -");
    put_ssh(out, task, &far);
    buf_puts(out, " && : >");
    text_quote(out, task->dir);
    buf_printf(out, "/" SENT " && exec ", (number)run);
    buf_clear(&far);
    put_begin(&far, task);
    buf_puts(&far, "PATH=$PATH:$HOME/.local/bin; ");
    put_environment(&far, task);
    far_put_limits(&far, task);
    buf_puts(&far, "cd ");
    if (directory)
        text_quote(&far, directory);
    else
        buf_puts(&far, "\"$t/files\"");
    buf_printf(
        &far, " && rm -rf \"$t/runs/%llu\" && echo $$ >\"$t/runs/%llu.pid\" && exec scry run --output=\"$t/runs/%llu\"",
        (number)run, (number)run, (number)run);
    json_array_foreach(task_member(task->spec, "collect.logs"), i, log)
    {
        bool err;
        const char *regex = far_log_of_output(json_string_value(log), &err);
        if (!regex)
            continue;
        buf_printf(&far, " --log=\"$t/runs/%llu.%s\"=", (number)run, err ? "err" : "out");
        text_quote(&far, regex);
    }
    buf_printf(&far, " %s >\"$t/runs/%llu.out\" 2>\"$t/runs/%llu.err\"", line, (number)run, (number)run);
    put_ssh(out, task, &far);
}

/* KB of the disk that may be taken so that a part of it, here a twentieth or a hundredth, stays for others. */
#define ROOM \
    "room() { df -Pk . | awk -v part=\"$1\" 'END {n = NR > 1 ? $4 - $2 / part : 2 ^ 50; printf \"%%d\", (n > 0 ? n : " \
    "0)}'; }; "

/* The last file of the archive says that nothing is missing: what ssh and tar say would not. How large the archive is comes
 * before it: tar knows that without reading a file, if /dev/null is to have it.
 *
 * Whoever is on that host says what is in the archive, and how large it is. So it comes into a directory of its own, with our
 * rights, and no more than there is room for; of it only files and directories go to the task's, never through a link: neither
 * one that came with a run before, nor one of the user's. */
void far_put_gather(struct buf *out, const struct task *task, uint64_t run)
{
    _cleanup_(buf_done) struct buf far = BUF_INIT;
    put_begin(&far, task);
    put_find(&far, run);
    put_left(&far, task);
    buf_printf(
        &far,
        "{ cd \"$t\" 2>/dev/null && [ -e runs/%llu.pid ]; } || { printf '%%0%dd' 0; exit 1; }; "
        "while alive; do sleep 1; done && "
        "{ i=0; while [ -e runs/%llu.stop ] && [ $((i += 1)) -le 20 ] && l=$(left) && [ -n \"$l\" ]; do "
        "kill -KILL $l; done; : >runs/%llu.whole; } && "
        "list() { find runs files -maxdepth 0 -print0; find files -type f -newer runs/%llu.pid -print0; find runs/%llu "
        "runs/%llu.out runs/%llu.err -print0 2>/dev/null; find runs/%llu.whole -print0; } && "
        "n=$(list | LC_ALL=C tar --no-recursion --null -T - --totals -cf /dev/null 2>&1 | "
        "sed -n 's/^Total bytes written: \\([0-9]*\\).*/\\1/p') && printf '%%0%dd' \"${n:-0}\" && "
        "list | tar --no-recursion --null -T - -cf -",
        (number)run, TASK_BYTES_DIGITS, (number)run, (number)run, (number)run, (number)run, (number)run, (number)run,
        (number)run, TASK_BYTES_DIGITS);
    buf_puts(out, "cd ");
    text_quote(out, task->dir);
    buf_puts(out, " && ");
    put_ssh(out, task, &far);
    buf_printf(
        out,
        " | { i=" COMES "; head -c %d >" TASK_BYTES_FILE "; n=$(sed 's/^0*//' " TASK_BYTES_FILE "); " ROOM
        /* shells compute with what is no number, too, and some execute it */
        "case $n in '' | *[!0-9]* | ????????????????*) exit 1 ;; esac; "
        "r=$(room 20); if [ $((n / 1024)) -gt $r ]; then echo \"it takes $((n >> 20)) MB, and of the disk here no "
        "more than $((r >> 10)) MB may be used\" >&2; exit 1; fi; "
        "rm -rf $i; mkdir $i && LC_ALL=C dd bs=64k iflag=fullblock,count_bytes count=$((r * 1024)) status=progress "
        "2>>" TASK_BYTES_FILE " | tar --no-same-owner --no-same-permissions -C $i -xf - runs files && "
        "[ -e $i/runs/%llu.whole ]; e=$?; find $i ! -type f ! -type d -exec rm -f {} +; "
        /* a file system may have no links, and here may be one where a directory comes */
        "for l in -l ''; do cp -a $l --remove-destination $i/. . && break; done 2>$i.err || e=1; rm -rf $i; "
        "[ $e -eq 0 ] || { if [ $(room 100) -eq 0 ]; then echo 'the disk here is full'; elif [ -s $i.err ]; then cat "
        "$i.err; else echo 'the connection was lost'; fi; exit 1; } >&2; rm -f $i.err; } "
        "&& mv runs/%llu.whole " HERE " && rm -f " TASK_BYTES_FILE " " SENT " && ",
        (number)run, TASK_BYTES_DIGITS, (number)run, (number)run, (number)run, (number)run, (number)run, (number)run,
        (number)run, (number)run);
    buf_clear(&far);
    put_begin(&far, task);
    buf_printf(&far, "cd \"$t\" && rm -rf files runs/%llu runs/%llu.*; rmdir runs; cd .. && rmdir \"$t\"", (number)run,
               (number)run);
    put_ssh(out, task, &far);
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

/* What is no child of scry run's own, all below it, and what says by its environment that it is of the task; `p` is the number
 * of scry run, or a word. */
#define BELOW \
    "ps -e -o pid= -o ppid= -o comm= | awk -v r=$p -v l=\"$(left)\" '{up[$1] = $2; name[$1] = $3} END {n = split(l, " \
    "w); " \
    "d[r] = 1; for (i = 1; i <= n; i++) if (w[i] in up) d[w[i]] = 1; do {more = 0; " \
    "for (i in up) if (!(i in d) && up[i] in d && !(up[i] == r && name[i] ~ /^job-/)) {d[i] = 1; more = 1}} while " \
    "(more); for (i in d) if (i != r && !(up[i] == r && name[i] ~ /^job-/)) print i}'"

void far_put_signal(struct buf *out, const struct task *task, uint64_t run, const char *signal)
{
    _cleanup_(buf_done) struct buf far = BUF_INIT;
    put_begin(&far, task);
    put_find(&far, run);
    put_left(&far, task);
    buf_printf(&far, "[ ! -d \"$t/runs\" ] || : >\"$t/runs/%llu.stop\"; ", (number)run);
    if (strcmp(signal, "KILL") == 0)
        buf_puts(&far, "alive || p=none; kill -KILL $(" BELOW ")");
    else
        buf_printf(&far, "alive && kill -%s $p", signal);
    put_ssh(out, task, &far);
}
