/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/why/fifos.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "base/system/wait_world.h"
#include "job/places/aside.h"
#include "job/places/blocked.h"
#include "job/scripts/shell.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { ARGUMENTS = 16384, SCRIPT_BYTES = 256 << 10, PROCESSES_MOST = 256, OPENERS_SHOWN = 3, SHOWN = 8 };

/* ---- who may open one ---- */

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("._-", c));
}

static bool has_one_of(struct span text, const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        if (memmem(text.ptr, text.len, words[i], strlen(words[i])))
            return true;
    return false;
}

/* As an argument: of what makes or removes it, or names it only, that says nothing; else it is read, unless what follows names a mode. */
static bool is_argument_of(const char *text, const char *at, bool writes)
{
    static const char *const others[] = {"mkfifo", "mknod", "rm ", "unlink", "remove", "echo", "printf", "chmod", NULL};
    static const char *const modes[] = {"\"w", "'w", "\"a", "'a", "O_WRONLY", NULL};
    const char *start = at;
    while (start > text && !strchr("\n;&|", start[-1]))
        start--;
    return !has_one_of(span_of(start, (size_t)(at - start)), others) &&
           has_one_of(span_of(at, strcspn(at, "\n")), modes) == writes;
}

bool fifo_is_opened_in(const char *text, const char *path, bool writes)
{
    const char *name = text_base(path), *before;
    size_t len = strlen(name);
    for (const char *at = text; len && (at = strstr(at, name)) != NULL; at += len) {
        if (is_of_name(at[len]) || (at > text && is_of_name(at[-1])))
            continue;
        for (before = at; before > text && !isspace((unsigned char)before[-1]) && !strchr("<>;&|()", before[-1]);)
            before--; /* its directory, and a quote */
        while (before > text && (before[-1] == ' ' || before[-1] == '\t'))
            before--;
        char redirection = before > text && (before[-1] == '<' || before[-1] == '>') ? before[-1] : '\0';
        if (redirection ? redirection == (writes ? '>' : '<') : is_argument_of(text, at, writes))
            return true;
    }
    return false;
}

static void put_script(struct buf *out, pid_t pid, const char *script)
{
    char cwd[PROC_PATH_SIZE], path[PATH_MAX + PROC_PATH_SIZE];
    proc_path(cwd, pid, 0, "cwd/");
    snprintf(path, sizeof path, "%s%s", *script == '/' ? "" : cwd, script);
    FILE *file = file_open_plain(path);
    char *room = file ? buf_reserve(out, SCRIPT_BYTES + 1) : NULL;
    size_t got = room ? fread(room, 1, SCRIPT_BYTES, file) : 0;
    if (room)
        room[got] = '\0';
    out->len += got;
    if (file)
        fclose(file);
}

/* Its command line, and its script's text, if it is an interpreter's. */
static void put_text(struct buf *out, pid_t pid)
{
    char args[ARGUMENTS], link[PROC_PATH_SIZE], program[PATH_MAX], path[PATH_MAX];
    size_t len;
    const char *script;
    proc_path(link, pid, 0, "exe");
    ssize_t got = readlink(link, program, sizeof program - 1);
    program[got < 0 ? 0 : got] = 0;
    const char *name = text_base(program);
    if (proc_file_read(pid, 0, "cmdline", args, sizeof args, &len) < 0 || !len)
        return;
    bool is_file = shell_source_of(args, len, &script) == SHELL_FROM_FILE;
    snprintf(path, sizeof path, "%s", is_file ? script : "");
    for (size_t i = 0; i + 1 < len; i++)
        args[i] = args[i] ? args[i] : ' ';
    buf_puts(out, args);
    buf_putc(out, '\n');
    if (is_file &&
        (starter_of(name) == STARTER_SHELL || strncmp(name, "python", 6) == 0 || strncmp(name, "perl", 4) == 0))
        put_script(out, pid, path);
}

struct question {
    const pid_t *pids;
    size_t count;
    pid_t own;
    const char *path;
    bool writes;
};

static json_t *find_openers(const void *ctx)
{
    const struct question *question = ctx;
    json_t *list = json_array();
    for (size_t i = 0; i < question->count; i++) {
        _cleanup_(buf_done) struct buf text = BUF_INIT;
        if (question->pids[i] == question->own)
            continue;
        put_text(&text, question->pids[i]);
        if (text.len && !text.failed && fifo_is_opened_in(text.data, question->path, question->writes))
            json_array_append_new(list, json_integer(question->pids[i]));
    }
    return list;
}

size_t fifo_openers(const pid_t *pids, size_t count, pid_t own, const char *path, bool writes, pid_t *ret_pids,
                    size_t most)
{
    const struct question question = {pids, count, own, path, writes};
    json_t *list = aside_run(find_openers, &question, WHERE_TIMEOUT_MS), *pid;
    size_t index, found = 0;
    json_array_foreach(list, index, pid)
    {
        if (found < most)
            ret_pids[found++] = (pid_t)json_integer_value(pid);
    }
    json_decref(list);
    return found;
}

/* ---- a job that waits for them ---- */

static bool is_one_of(pid_t pid, const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

/* One that is to be opened: that of a process. */
struct wanted {
    pid_t pid;
    char *path;
    bool writes;
};

/* Whether the process waits for a FIFO to be opened, or only for others of the job. ret_wanted->path NULL: for those. Adds the time
 * for which it has run: it runs until it waits. */
static bool waits_for_fifo(pid_t pid, const pid_t *pids, size_t count, struct wanted *ret_wanted, uint64_t *ran_ns)
{
    struct blocked *threads;
    size_t found;
    struct wait_thread ran = wait_look_thread(pid, pid);
    if (!ran.timed || blocked_read(pid, &threads, &found, NULL) < 0)
        return false;
    bool good = found == 1 && (threads[0].fifo || (threads[0].only_these && threads[0].waits_count));
    for (size_t i = 0; good && i < threads[0].waits_count; i++)
        good = is_one_of(threads[0].waits_for[i], pids, count);
    *ret_wanted = (struct wanted){pid, good ? TAKE_PTR(threads[0].fifo) : NULL, threads[0].fifo_writes};
    *ran_ns += ran.ran_ns;
    blocked_free(threads, found);
    return good;
}

static void wanted_done(struct wanted *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(wanted[i].path);
}

/* What those wait for that wait for FIFOs; 0: not all of them wait. There is room for as many as there are processes. */
static size_t find_wanted(struct wanted *ret_wanted, const pid_t *pids, size_t count, uint64_t *ret_ran_ns)
{
    size_t found = 0;
    *ret_ran_ns = 0;
    for (size_t i = 0; i < count && count <= PROCESSES_MOST; i++) {
        if (!waits_for_fifo(pids[i], pids, count, &ret_wanted[found], ret_ran_ns)) {
            wanted_done(ret_wanted, found);
            return 0;
        }
        found += ret_wanted[found].path != NULL;
    }
    return found;
}

static void put_wanted(struct buf *out, const struct wanted *wanted, const pid_t *pids, size_t count)
{
    pid_t openers[OPENERS_SHOWN];
    char name[64];
    size_t found = *wanted->path
                       ? fifo_openers(pids, count, wanted->pid, wanted->path, wanted->writes, openers, OPENERS_SHOWN)
                       : 0;
    buf_puts(out, "  nobody has opened ");
    text_show(out, *wanted->path ? wanted->path : "it");
    buf_puts(out, wanted->writes ? " for writing" : " for reading");
    for (size_t i = 0; i < found; i++) {
        proc_comm(openers[i], 0, name, sizeof name);
        buf_printf(out, "%sprocess %d (", i ? ", " : "; that stands in the script or the command of ", openers[i]);
        text_show(out, name);
        buf_putc(out, ')');
    }
    buf_puts(out, found ? "\n" : "; no process of this job has that in its script or its command\n");
}

void why_fifos_text(struct buf *out, const pid_t *pids, size_t count)
{
    uint64_t before_ns, now_ns;
    _cleanup_(freep) struct wanted *wanted = calloc(count + 1, sizeof *wanted);
    _cleanup_(freep) struct wanted *again = calloc(count + 1, sizeof *again);
    size_t found = wanted && again ? find_wanted(wanted, pids, count, &before_ns) : 0;
    if (!found)
        return;
    wait_poll(NULL, 0, LOCKS_BETWEEN_MS);
    size_t still = find_wanted(again, pids, count, &now_ns);
    if (still == found && now_ns == before_ns) {
        buf_printf(out, "stuck: all of its processes wait, %zu of them until somebody opens a FIFO\n", found);
        for (size_t i = 0; i < found && i < SHOWN; i++)
            put_wanted(out, &wanted[i], pids, count);
    }
    wanted_done(wanted, found);
    wanted_done(again, still);
}
