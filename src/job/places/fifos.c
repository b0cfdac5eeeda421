/* SPDX-License-Identifier: Apache-2.0 */
#include "job/places/fifos.h"

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
#include "job/places/sandboxed_child.h"
#include "job/places/blocked.h"
#include "job/scripts/shell.h"
#include "jobdir/layers/starter.h"
#include "jobdir/mpi/thread_wait.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

enum { ARGUMENTS = 16384, SCRIPT_BYTES = 256 << 10, PROCESSES_MOST = 256, USERS_SHOWN = 3, SHOWN = 8 };

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

static const char *const write_modes[] = {"\"w", "'w", "\"a", "'a", "O_WRONLY", NULL};

/* As an argument: of what makes or removes it, or names it only, that says nothing. Else a mode that follows says it; without one it is
 * probably read, but a program may write to what it is given, too. */
static enum fifo_use use_of_argument(const char *text, const char *at, bool writes)
{
    static const char *const others[] = {"mkfifo", "mknod", "rm ", "unlink", "remove", "echo", "printf", "chmod", NULL};
    const char *start = at;
    while (start > text && !strchr("\n;&|", start[-1]))
        start--;
    if (has_one_of(span_of(start, (size_t)(at - start)), others))
        return FIFO_UNNAMED;
    if (has_one_of(span_of(at, strcspn(at, "\n")), write_modes))
        return writes ? FIFO_OPENED : FIFO_UNNAMED;
    return writes ? FIFO_NAMED : FIFO_OPENED;
}

static enum fifo_use use_in_text(const char *text, const char *path, bool writes)
{
    const char *name = text_base(path), *before;
    size_t len = strlen(name);
    enum fifo_use most = FIFO_UNNAMED;
    for (const char *at = text; len && (at = strstr(at, name)) != NULL; at += len) {
        if (is_of_name(at[len]) || (at > text && is_of_name(at[-1])))
            continue;
        for (before = at; before > text && !isspace((unsigned char)before[-1]) && !strchr("<>;&|()", before[-1]);)
            before--; /* its directory, and a quote */
        while (before > text && (before[-1] == ' ' || before[-1] == '\t'))
            before--;
        char redirection = before > text && (before[-1] == '<' || before[-1] == '>') ? before[-1] : '\0';
        enum fifo_use use = redirection ? redirection == (writes ? '>' : '<') ? FIFO_OPENED : FIFO_UNNAMED
                                        : use_of_argument(text, at, writes);
        most = use > most ? use : most;
    }
    return most;
}

/* Whether a script writes to a file whose name it does not have itself: open(name, "w"), > "$2". */
static bool writes_to_given(const char *script)
{
    for (size_t i = 0; write_modes[i]; i++)
        for (const char *at = script; (at = strstr(at, write_modes[i])) != NULL; at++) {
            const char *start = at;
            while (start > script && !strchr("(\n", start[-1]))
                start--;
            if (!memchr(start, '"', (size_t)(at - start)) && !memchr(start, '\'', (size_t)(at - start)))
                return true;
        }
    for (const char *at = script; (at = strchr(at, '>')) != NULL;)
        if (*(at += strspn(at, "> \"")) == '$')
            return true;
    return false;
}

enum fifo_use fifo_use_in(const char *command, const char *script, const char *path, bool writes)
{
    enum fifo_use given = use_in_text(command, path, writes), own = use_in_text(script, path, writes);
    if (given == FIFO_NAMED && writes_to_given(script))
        return FIFO_OPENED;
    return own > given ? own : given;
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
static enum fifo_use use_of(pid_t pid, const char *fifo, bool writes)
{
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    char args[ARGUMENTS], link[PROC_PATH_SIZE], program[PATH_MAX], path[PATH_MAX];
    size_t len;
    const char *script;
    proc_path(link, pid, 0, "exe");
    ssize_t got = readlink(link, program, sizeof program - 1);
    program[got < 0 ? 0 : got] = 0;
    const char *name = text_base(program);
    if (proc_file_read(pid, 0, "cmdline", args, sizeof args, &len) < 0 || !len)
        return FIFO_UNNAMED;
    bool is_file = shell_source_of(args, len, &script) == SHELL_FROM_FILE;
    snprintf(path, sizeof path, "%s", is_file ? script : "");
    for (size_t i = 0; i + 1 < len; i++)
        args[i] = args[i] ? args[i] : ' ';
    if (is_file &&
        (starter_of(name) == STARTER_SHELL || strncmp(name, "python", 6) == 0 || strncmp(name, "perl", 4) == 0))
        put_script(&text, pid, path);
    return fifo_use_in(args, text.len && !text.failed ? text.data : "", fifo, writes);
}

struct question {
    const pid_t *pids;
    size_t count;
    const char *path;
    bool writes;
};

static json_t *find_users(const void *ctx)
{
    const struct question *question = ctx;
    json_t *list = json_array();
    for (size_t i = 0; i < question->count; i++) {
        enum fifo_use use = use_of(question->pids[i], question->path, question->writes);
        if (use != FIFO_UNNAMED)
            json_array_append_new(list, json_pack("[i, i]", (int)question->pids[i], (int)use));
    }
    return list;
}

size_t fifo_users(const pid_t *pids, size_t count, const char *path, bool writes, struct fifo_user *ret_users)
{
    const struct question question = {pids, count, path, writes};
    json_t *list = sandboxed_child_run(find_users, &question, WHERE_TIMEOUT_MS), *user;
    size_t index, found = 0;
    json_array_foreach(list, index, user)
    {
        if (found < count)
            ret_users[found++] = (struct fifo_user){(pid_t)json_integer_value(json_array_get(user, 0)),
                                                    (enum fifo_use)json_integer_value(json_array_get(user, 1))};
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
    bool writes, open; /* for writing; its processes that have opened it wait, too */
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
    *ret_wanted =
        (struct wanted){pid, good ? TAKE_PTR(threads[0].fifo) : NULL, threads[0].fifo_writes, threads[0].fifo_open};
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

static void put_user(struct buf *out, const struct fifo_user *user, const struct wanted *wanted)
{
    _cleanup_(buf_done) struct buf blocked = BUF_INIT;
    char name[64];
    proc_comm(user->pid, 0, name, sizeof name);
    buf_printf(out, "    process %d (", user->pid);
    text_show(out, name);
    buf_puts(out, user->use == FIFO_OPENED ? wanted->writes ? ") would write to it, by its script or command"
                                                            : ") would read it, by its script or command"
                                           : ") names it in its script or command");
    if (user->pid == wanted->pid)
        buf_puts(out, ", but is the one that waits here");
    else if (blocked_put(&blocked, user->pid, user->pid) && !blocked.failed)
        buf_printf(out, ", but %s", blocked.data);
    buf_putc(out, '\n');
}

/* Those that open it so; if there are none, those that name it. A child of a shell has the text of its parent, so the one that waits
 * counts only where nobody else has it. */
static void put_wanted(struct buf *out, const struct wanted *wanted, const pid_t *pids, size_t count)
{
    _cleanup_(freep) struct fifo_user *users = calloc(count + 1, sizeof *users);
    _cleanup_(buf_done) struct buf lines = BUF_INIT;
    size_t found = users && *wanted->path ? fifo_users(pids, count, wanted->path, wanted->writes, users) : 0;
    size_t shown = 0;
    if (wanted->open) {
        buf_puts(out, "  nobody that has opened ");
        text_show(out, wanted->path);
        buf_puts(out, wanted->writes ? " could write to it now\n" : " could read it now\n");
        return;
    }
    for (int pass = 0; pass < 3 && !shown; pass++)
        for (size_t i = 0; i < found && shown < USERS_SHOWN; i++)
            if (users[i].use == (pass < 2 ? FIFO_OPENED : FIFO_NAMED) && (users[i].pid == wanted->pid) == (pass == 1)) {
                put_user(&lines, &users[i], wanted);
                shown++;
            }
    buf_puts(out, "  nobody has opened ");
    text_show(out, *wanted->path ? wanted->path : "it");
    buf_puts(out, wanted->writes ? " for writing" : " for reading");
    buf_puts(out, shown ? "\n" : "; no process of this job has that in its script or its command\n");
    buf_append(out, lines.data, lines.len);
}

/* Those that wait for FIFOs, where all processes wait, and none has run between two looks: 0: it is not so. */
static size_t find_settled(struct wanted *ret_wanted, const pid_t *pids, size_t count)
{
    uint64_t before_ns, now_ns;
    _cleanup_(freep) struct wanted *again = calloc(count + 1, sizeof *again);
    size_t found = again ? find_wanted(ret_wanted, pids, count, &before_ns) : 0;
    if (!found)
        return 0;
    wait_poll(NULL, 0, LOCKS_BETWEEN_MS);
    size_t still = find_wanted(again, pids, count, &now_ns);
    wanted_done(again, still);
    if (still == found && now_ns == before_ns)
        return found;
    wanted_done(ret_wanted, found);
    return 0;
}

void fifos_text(struct buf *out, const pid_t *pids, size_t count)
{
    _cleanup_(freep) struct wanted *wanted = calloc(count + 1, sizeof *wanted);
    size_t found = wanted ? find_settled(wanted, pids, count) : 0;
    bool open = false;
    for (size_t i = 0; i < found; i++)
        open |= wanted[i].open;
    if (found)
        buf_printf(out, "stuck: all of its processes wait, %zu of them until somebody %s a FIFO\n", found,
                   open ? "uses" : "opens");
    for (size_t i = 0; i < found && i < SHOWN; i++)
        put_wanted(out, &wanted[i], pids, count);
    wanted_done(wanted, found);
}

void fifos_line(struct buf *out, const pid_t *pids, size_t count)
{
    _cleanup_(freep) struct wanted *wanted = calloc(count + 1, sizeof *wanted);
    size_t found = wanted ? find_settled(wanted, pids, count) : 0;
    if (found) {
        buf_printf(out, "all of its processes wait until somebody %s ",
                   !wanted->open    ? "opens"
                   : wanted->writes ? "writes to"
                                    : "reads");
        text_show(out, *wanted->path ? wanted->path : "a FIFO");
        buf_puts(out, wanted->open ? "" : wanted->writes ? " for writing" : " for reading");
    }
    wanted_done(wanted, found);
}
