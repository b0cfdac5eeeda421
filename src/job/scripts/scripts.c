/* SPDX-License-Identifier: Apache-2.0 */
#include "job/scripts/scripts.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/grow.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "base/system/file.h"
#include "base/system/proc_file.h"
#include "job/scripts/shell.h"
#include "jobdir/layers/starter.h"
#include "jobdir/text/text.h"
#include "shm/waits.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { LINE_TIMES_MOST = 4096, LINE_TIMES_SHOWN = 20 };

struct line_times {
    struct line_time {
        uint32_t first_line, last_line;
        bool exact; /* one command */
        uint64_t ns;
    } * list;
    size_t count, room;
};

void place_move(struct place *place, const struct script_source *text, size_t position)
{
    size_t before = place->exact ? place->position : place->done;
    const struct shell_command *command = script_command_ending(text, position);
    place->position = position;
    place->exact = false;
    place->first_line = place->last_line = 0;
    if (position == 0 || !text->line_count || position > text->len) {
        place->done = 0;
        return;
    }
    /* At the end of the file only one command may be meant. */
    if (command && (position < text->len || script_line_before(text, before) + 1 >= command->first_line)) {
        place->exact = true;
        place->done = text->lines[command->first_line - 1];
        place->first_line = command->first_line;
        place->last_line = command->last_line;
        return;
    }
    if (before > position) /* the file was changed, or it was no such shell */
        before = 0;
    place->done = before;
    place->first_line = script_line_before(text, before) + 1;
    place->last_line = script_line_before(text, position);
    if (place->first_line > place->last_line) /* it has come to the end: a trap at exit, perhaps */
        place->first_line = place->last_line = 0;
}

/* How long a shell was in which lines of its script, as seen from outside. */

/* What has no room is left out. */
static void line_times_add(struct line_times *times, const struct place *place, uint64_t ns)
{
    if (!place->first_line)
        return;
    for (size_t i = times->count; i--;)
        if (times->list[i].first_line == place->first_line && times->list[i].last_line == place->last_line) {
            times->list[i].ns += ns;
            return;
        }
    if (times->count < LINE_TIMES_MOST && GROW(times->list, times->count, times->room))
        times->list[times->count++] = (struct line_time){place->first_line, place->last_line, place->exact, ns};
}

static int by_time(const void *left, const void *right)
{
    const struct line_time *one = left, *other = right;
    if (one->ns != other->ns)
        return one->ns < other->ns ? 1 : -1;
    return one->first_line < other->first_line ? -1 : one->first_line > other->first_line;
}

static json_t *line_json(const struct line_time *line, const struct script_source *text, const char *file)
{
    json_t *object = json_object();
    json_object_set_new(object, "file", text_json(file));
    json_object_set_new(object, "line", json_integer(line->first_line));
    if (line->last_line != line->first_line)
        json_object_set_new(object, "last_line", json_integer(line->last_line));
    struct buf command = BUF_INIT;
    if (line->exact)
        script_command_show(&command, text, line->first_line, line->last_line);
    if (command.len && !command.failed)
        json_object_set_new(object, "command", text_json(command.data));
    buf_done(&command);
    json_object_set_new(object, "seconds", json_real((double)line->ns / NS_PER_SECOND));
    return object;
}

/* As script_end.lines: those of most time first. A new reference; NULL: there are none, or no memory. */
static json_t *line_times_json(struct line_times *times, const struct script_source *text, const char *file)
{
    if (!times->count)
        return NULL;
    qsort(times->list, times->count, sizeof *times->list, by_time);
    json_t *list = json_array();
    for (size_t i = 0; i < times->count && i < LINE_TIMES_SHOWN; i++)
        json_array_append_new(list, line_json(&times->list[i], text, file));
    return list;
}

static void line_times_done(struct line_times *times)
{
    free(times->list);
    *times = (struct line_times){0};
}

enum {
    SHELLS_MOST = 4096,
    TRIES = 3,             /* looks in which a shell may still open its script */
    OFTEN = 200,           /* records of one shell: then one a second, */
    SELDOM = 2000,         /* then one in ten seconds */
    RECORDS_A_SECOND = 20, /* of lines */
    LOOK_SHARE = 500,      /* of a processor: one of so many */
    LOOKS_MOST = 1000,     /* into scripts for what they say, and records of that; the command may come after these */
    TRAP_BYTES = 1 << 20,  /* of the script */
};

struct shell {
    pid_t pid, parent;
    enum shell_kind kind;
    int fd;         /* by which it reads its script; -1: not found */
    unsigned tries; /* looks in which that was not found */
    char *path;
    struct script_key key;
    struct script_source *text;
    struct place place; /* by the position in the file */
    struct place spot;  /* what is reported: the same, or a line in it, or in a function */
    char function[SHELL_TEXT];
    struct shell_memory memory;
    bool seen;                   /* place is set */
    bool unreported;             /* it has changed since the last record */
    bool inside;                 /* its script was told of from inside, and so is the end */
    bool executed;               /* it was another program before: it has not begun with its process */
    double start;                /* seconds since the start of the job */
    uint64_t records, record_ns; /* of lines: how many, and when the last one was */
    uint64_t seen_ns;            /* the beginning of what is not in times yet */
    struct line_times times;
    UT_hash_handle hh;
};

/* What the text of a script, or of -c, says; NULL: nothing. */
struct script_says {
    struct script_trap trap;
    struct script_tested tested;
    json_t *kills, *prints;
};

struct failed {
    pid_t pid;
    UT_hash_handle hh;
};

struct scripts {
    struct observer *observer;
    struct shell_inside *inside; /* NULL: nothing is told from inside */
    struct shell *shells;        /* hash by pid */
    struct script_sources texts;
    struct loop_source *timer;
    uint64_t pause_ns;          /* until the next look */
    uint64_t allowed_ns;        /* from which time on a record is allowed */
    unsigned looks;             /* scripts that were read for what they say, and records of that */
    struct script_key says_key; /* the last of these, */
    struct script_says says;    /* and what it says */
    struct failed *failed;      /* what started something that failed; hash by pid */
};

static const char *language(const struct shell *shell)
{
    return shell->kind == SHELL_BASH ? "bash" : "sh";
}

/* ---- records ---- */

static void put_line(struct scripts *scripts, struct shell *shell, uint64_t now)
{
    struct observer *observer = scripts->observer;
    uint64_t each = NS_PER_SECOND / RECORDS_A_SECOND;
    if (observer->options->script == RUN_SCRIPT_LINES && shell_inside_has(scripts->inside, shell->pid)) {
        shell->unreported = false;
        return;
    }
    if (scripts->allowed_ns > now + NS_PER_SECOND)
        return; /* a later look has it, if it is still there */
    uint64_t gap = shell->records < OFTEN ? 0 : (shell->records < SELDOM ? 1 : 10) * (uint64_t)NS_PER_SECOND;
    if (shell->record_ns + gap > now)
        return; /* a loop */
    shell->records++;
    shell->record_ns = now;
    scripts->allowed_ns = (scripts->allowed_ns > now ? scripts->allowed_ns : now) + each;
    struct buf command = BUF_INIT;
    const struct place *place = &shell->spot;
    if (place->exact)
        script_command_show(&command, shell->text, place->first_line, place->last_line);
    observe_put(observer, RECORD(script_line,
                                 .at = {.pid = shell->pid,
                                        .language = language(shell),
                                        .file = shell->path,
                                        .line = place->first_line ? (int64_t)place->first_line : -1,
                                        .function = shell->function[0] ? shell->function : NULL,
                                        .command = command.len && !command.failed ? command.data : NULL},
                                 .last_line = place->last_line > place->first_line ? (int64_t)place->last_line : -1,
                                 .how = "outside", .time = observe_seconds(observer, shell->seen_ns)));
    buf_done(&command);
    shell->unreported = false;
}

/* ---- a shell ---- */

static void shell_clear(struct scripts *scripts, struct shell *shell)
{
    script_source_put(&scripts->texts, shell->text);
    line_times_done(&shell->times);
    free(shell->path);
    shell->text = NULL;
    shell->path = NULL;
    shell->fd = -1;
    shell->seen = shell->unreported = shell->inside = false;
    shell->place = shell->spot = (struct place){0};
}

/* Its script is over. status: as of wait(2), -1: unknown. */
static void script_ended(struct scripts *scripts, struct shell *shell, double end, int32_t status)
{
    uint64_t end_ns = scripts->observer->start_ns + (uint64_t)(end * NS_PER_SECOND); /* reported later than it was */
    if (shell->fd < 0 || !shell->seen || shell->inside || shell_inside_has(scripts->inside, shell->pid))
        return;
    line_times_add(&shell->times, &shell->spot, end_ns > shell->seen_ns ? end_ns - shell->seen_ns : 0);
    int32_t code = status < 0 ? -1 : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    observe_put(scripts->observer, RECORD(script_end, .pid = shell->pid, .file = shell->path, .status = code,
                                          .seconds = end > shell->start ? end - shell->start : 0, .how = "outside",
                                          .lines = line_times_json(&shell->times, shell->text, shell->path)));
}

/* A shell that was forked has its parent's script open for a moment, until it closes it or executes something. */
static bool is_copy(const struct scripts *scripts, const struct shell *shell, const struct script_key *key,
                    uint64_t position)
{
    struct shell *parent;
    HASH_FIND_INT(scripts->shells, &shell->parent, parent);
    return parent && parent->fd == shell->fd && parent->seen && script_key_same(&parent->key, key) &&
           (position == parent->place.position || shell->fd == 0);
}

static bool open_text(struct scripts *scripts, struct shell *shell, const struct stat *stat)
{
    char link[SHELL_FD_PATH], path[PATH_MAX];
    shell_fd_path(link, shell->pid, shell->fd);
    struct script_source *text = script_source_get(&scripts->texts, link, stat);
    script_source_put(&scripts->texts, shell->text);
    shell->text = text;
    if (text && !shell->path) {
        shell_script_path(shell->pid, shell->fd, stat, path, sizeof path);
        shell->path = strdup(path);
    }
    return text && shell->path;
}

/* It has no script open: it was closed, or the process executes something else, or has ended. */
static void lost(struct scripts *scripts, struct shell *shell)
{
    struct shell_script found = shell_find(shell->pid);
    if (proc_letter(shell->pid, 0) == 0 || proc_letter(shell->pid, 0) == 'Z')
        return; /* its end comes, with the status */
    double now = observe_seconds(scripts->observer, clock_now_ns());
    script_ended(scripts, shell, now, -1);
    shell_clear(scripts, shell);
    shell->kind = found.kind;
    shell->executed = true;
    shell->start = now;
    shell->tries = 0;
}

/* In its memory stands the line, which has to agree with all else that is known. A shell that ends has its script open
 * for longer than its memory: then it is where it was, unless it has `moved` in the file. true: it is elsewhere, or new. */
static bool look_closer(struct shell *shell, bool moved)
{
    struct shell_now now;
    int code = shell->kind == SHELL_BASH ? shell_memory_read(&shell->memory, shell->pid, &now) : -EAGAIN;
    if (code == -ESRCH && shell->seen && !moved)
        return false;
    struct place spot = shell->place;
    const struct place *place = &shell->place;
    bool fits = code == 0 && !now.sourced && shell_now_fits(&now, shell->text);
    bool outer = fits && now.line >= place->first_line && now.line <= place->last_line; /* and a call of a function */
    fits = fits && (outer || now.depth);
    if (fits) {
        spot.first_line = spot.last_line = now.line;
        spot.exact = true;
    }
    const char *function = fits && !outer ? now.function : "";
    if (shell->seen && spot.first_line == shell->spot.first_line && spot.last_line == shell->spot.last_line &&
        strcmp(function, shell->function) == 0)
        return false;
    uint64_t time = clock_now_ns();
    if (shell->seen)
        line_times_add(&shell->times, &shell->spot, time - shell->seen_ns);
    bool changed = !shell->seen || spot.first_line;
    shell->spot = spot;
    snprintf(shell->function, sizeof shell->function, "%s", function);
    shell->seen_ns = time;
    shell->seen = true;
    shell->unreported |= changed;
    return changed;
}

/* true: it is elsewhere, or new. */
static bool look_at(struct scripts *scripts, struct shell *shell)
{
    struct stat stat;
    uint64_t position;
    if (shell->fd < 0) {
        if (shell->tries++ >= TRIES)
            return false;
        struct shell_script found = shell_find(shell->pid);
        shell->kind = found.kind;
        shell->fd = found.fd;
        if (shell->fd < 0)
            return false;
    }
    if (!shell_position(shell->pid, shell->fd, &stat, &position)) {
        lost(scripts, shell);
        return false;
    }
    struct script_key key = script_key_of(&stat);
    bool same_file = shell->seen && key.device == shell->key.device && key.inode == shell->key.inode;
    if (shell->seen && !same_file) {
        lost(scripts, shell);
        return false;
    }
    if (!shell->seen && is_copy(scripts, shell, &key, position)) {
        shell->fd = -1;
        return false;
    }
    bool same = same_file && script_key_same(&key, &shell->key);
    if (!same && !open_text(scripts, shell, &stat)) {
        shell_clear(scripts, shell);
        return false;
    }
    if (!shell->seen && shell->kind == SHELL_BASH)
        shell_memory_find(&shell->memory, shell->pid);
    bool moved = !same || position != shell->place.position;
    if (shell->kind == SHELL_BASH && moved)
        place_move(&shell->place, shell->text, position);
    shell->place.position = position;
    shell->key = key;
    return look_closer(shell, moved);
}

/* ---- all of them ---- */

static void scripts_look(void *ctx)
{
    struct scripts *scripts = ctx;
    uint64_t start = clock_now_ns();
    bool changed = false;
    for (struct shell *shell = scripts->shells; shell; shell = shell->hh.next) {
        shell->inside |= shell_inside_has(scripts->inside, shell->pid);
        changed |= look_at(scripts, shell);
        if (shell->unreported)
            put_line(scripts, shell, start);
    }
    uint64_t took = clock_now_ns() - start, longest = SCRIPTS_SELDOM_NS;
    double sample_ns = scripts->observer->options->sample_seconds * NS_PER_SECOND;
    longest = sample_ns < SCRIPTS_LOOK_NS     ? SCRIPTS_LOOK_NS
              : sample_ns < SCRIPTS_SELDOM_NS ? (uint64_t)sample_ns
                                              : longest;
    scripts->pause_ns = changed ? SCRIPTS_LOOK_NS : scripts->pause_ns * 2 < longest ? scripts->pause_ns * 2 : longest;
    if (scripts->pause_ns < took * LOOK_SHARE)
        scripts->pause_ns = took * LOOK_SHARE;
    if (scripts->shells)
        loop_set_timer(scripts->timer, scripts->pause_ns, 0);
}

static void *scripts_start(struct observer *observer, struct err *err)
{
    struct shell_inside *inside = NULL;
    if (observer->options->script == RUN_SCRIPT_OFF)
        return NULL;
    if (observer->options->script >= RUN_SCRIPT_CALLS && !(inside = shell_inside_new(observer, err)))
        return NULL;
    struct scripts *scripts = calloc(1, sizeof *scripts);
    if (scripts)
        scripts->timer = loop_add_timer(observer->loop, 3600 * (uint64_t)NS_PER_SECOND, 0, scripts_look, scripts);
    if (!scripts || !scripts->timer) {
        shell_inside_free(inside);
        free(scripts);
        err_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    scripts->observer = observer;
    scripts->inside = inside;
    scripts->pause_ns = SCRIPTS_LOOK_NS;
    return scripts;
}

/* It begins, or has executed something; its parent is at another command, perhaps. */
static void on_process(void *state, const struct observed_process *process)
{
    struct scripts *scripts = state;
    struct shell *shell;
    HASH_FIND_INT(scripts->shells, &process->pid, shell);
    if (!shell && HASH_COUNT(scripts->shells) < SHELLS_MOST && shell_find(process->pid).kind != SHELL_NONE) {
        shell = calloc(1, sizeof *shell);
        if (!shell)
            return;
        shell->pid = process->pid;
        shell->fd = -1;
        HASH_ADD_INT(scripts->shells, pid, shell);
    }
    if (shell) {
        shell->inside |= shell_inside_has(scripts->inside, shell->pid);
        shell->parent = process->ppid;
        shell->tries = 0;
        if (!shell->executed)
            shell->start = process->start;
    }
    shell_inside_process(scripts->inside, process->pid);
    if (scripts->shells) {
        scripts->pause_ns = SCRIPTS_LOOK_NS;
        loop_set_timer(scripts->timer, SCRIPTS_SOON_NS, 0);
    }
}

static void remove_shell(struct scripts *scripts, struct shell *shell)
{
    HASH_DEL(scripts->shells, shell);
    shell_clear(scripts, shell);
    free(shell);
}

static struct script_says script_says_find(const char *text, size_t len)
{
    return (struct script_says){script_trap_find(text, len), script_tested_find(text, len),
                                script_kills_find(text, len), script_prints_find(text, len)};
}

static void script_says_done(struct script_says *says)
{
    script_trap_done(&says->trap);
    script_tested_done(&says->tested);
    json_decref(says->kills);
    json_decref(says->prints);
    *says = (struct script_says){0};
}

/* Its text behind -c, in *ret_text, or the script's path; *ret_text: its name. SHELL_FROM_INPUT: neither is known. */
static enum shell_source find_source(const struct command_fields *command, struct buf *args, const char **ret_text,
                                     char ret_path[PATH_MAX])
{
    const char *text, *word;
    size_t index;
    json_t *each;
    json_array_foreach(command->argv, index, each)
    {
        word = json_string_value(each);
        buf_append(args, word ? word : "", word ? strlen(word) + 1 : 1);
    }
    if (!args->len || args->failed)
        return SHELL_FROM_INPUT;
    enum shell_source source = shell_source_of(args->data, args->len, &text);
    if (!text || source == SHELL_FROM_INPUT)
        return SHELL_FROM_INPUT;
    *ret_text = text;
    if (source == SHELL_FROM_OPTION)
        return source;
    if (*text != '/' && !command->cwd)
        return SHELL_FROM_INPUT;
    int len = *text == '/' ? snprintf(ret_path, PATH_MAX, "%s", text)
                           : snprintf(ret_path, PATH_MAX, "%s/%s", command->cwd, text);
    return len < 0 || len >= PATH_MAX ? SHELL_FROM_INPUT : source;
}

bool script_text_of(struct buf *out, const struct command_fields *command)
{
    _cleanup_(buf_done) struct buf args = BUF_INIT;
    _cleanup_(freep) char *bytes = NULL;
    char path[PATH_MAX];
    const char *text;
    size_t len = 0;
    enum shell_source source = find_source(command, &args, &text, path);
    if (source == SHELL_FROM_OPTION)
        buf_puts(out, text);
    else if (source == SHELL_FROM_FILE && file_read_plain(path, &bytes, &len) == 0 && len <= TRAP_BYTES)
        buf_append(out, bytes, len);
    return out->len && !out->failed;
}

/* *ret_file: the script's name; NULL: it is none. false: what it says is not known. Pass *ret_says to script_says_done. */
static bool find_says(struct scripts *scripts, const struct observed_process *process, struct script_says *ret_says,
                      struct buf *args, const char **ret_file)
{
    struct shell *parent;
    const char *text;
    struct stat stat_of;
    char path[PATH_MAX];
    enum shell_source source = find_source(process->command, args, &text, path);
    if (source == SHELL_FROM_OPTION) {
        *ret_says = script_says_find(text, strlen(text));
        return true;
    }
    if (source != SHELL_FROM_FILE || stat(path, &stat_of) < 0 || stat_of.st_size > TRAP_BYTES)
        return false;
    struct script_key key = script_key_of(&stat_of);
    HASH_FIND_INT(scripts->shells, &process->ppid, parent);
    if (!script_key_same(&key, &scripts->says_key)) {
        scripts->looks++;
        struct script_source *script = script_source_get(&scripts->texts, path, &stat_of);
        script_says_done(&scripts->says);
        if (script && script->text)
            scripts->says = script_says_find(script->text, script->len);
        script_source_put(&scripts->texts, script);
        scripts->says_key = key;
    }
    const struct script_says *says = &scripts->says;
    *ret_file = text;
    const struct script_tested *tested = &says->tested;
    *ret_says = (struct script_says){
        .tested = {json_incref(tested->commands), json_incref(tested->conditions), json_incref(tested->piped)},
        .kills = json_incref(says->kills),
        .prints = json_incref(says->prints)};
    if (!(parent && parent->seen && script_key_same(&key, &parent->key))) /* its fork: that has no traps */
        ret_says->trap = (struct script_trap){json_incref(says->trap.commands), json_incref(says->trap.only)};
    return true;
}

/* Whether something failed that it had started. */
static bool has_failed_below(struct scripts *scripts, const struct observed_process *process)
{
    struct failed *failed;
    HASH_FIND_INT(scripts->failed, &process->pid, failed);
    bool found = failed != NULL;
    if (failed)
        HASH_DEL(scripts->failed, failed);
    free(failed);
    HASH_FIND_INT(scripts->failed, &process->ppid, failed);
    if (process->status > 0 && !failed && HASH_COUNT(scripts->failed) < SHELLS_MOST &&
        (failed = calloc(1, sizeof *failed)) != NULL) {
        failed->pid = process->ppid;
        HASH_ADD_INT(scripts->failed, pid, failed);
    }
    return found;
}

/* What a script that failed starts after that; of one in which something failed where it sent signals, or that it expected that. It is
 * looked for when it is over: most are too short to be seen before. */
static void put_says(struct scripts *scripts, const struct observed_process *process)
{
    const struct command_fields *command = process->command;
    bool failed = process->status > 0, below = has_failed_below(scripts, process);
    struct observer *observer = scripts->observer;
    struct script_says says = {0};
    _cleanup_(buf_done) struct buf args = BUF_INIT;
    const char *file = NULL;
    if ((!failed && !below) || !command || !starter_is_shell(process->name, command->argv) ||
        (scripts->looks >= LOOKS_MOST && process->pid != observer->root) ||
        !find_says(scripts, process, &says, &args, &file))
        return;
    scripts->looks += says.trap.commands || says.tested.commands || says.kills;
    if (says.trap.commands)
        observe_put(observer,
                    RECORD(script_trap, .pid = process->pid, .commands = says.trap.commands, .only = says.trap.only));
    if (says.tested.commands && below)
        observe_put(observer,
                    RECORD(script_tested, .pid = process->pid, .commands = says.tested.commands,
                           .conditions = says.tested.conditions, .piped = says.tested.piped, .prints = says.prints));
    if (says.kills)
        observe_put(observer, RECORD(script_kills, .pid = process->pid, .file = file, .kills = says.kills));
    script_says_done(&says);
}

static void on_process_ended(void *state, const struct observed_process *process)
{
    struct scripts *scripts = state;
    struct shell *shell;
    HASH_FIND_INT(scripts->shells, &process->pid, shell);
    bool told = shell_inside_process_ended(scripts->inside, process);
    put_says(scripts, process);
    if (!shell)
        return;
    if (!told)
        script_ended(scripts, shell, process->end, process->status);
    remove_shell(scripts, shell);
}

static void on_end(void *state)
{
    struct scripts *scripts = state;
    struct shell *shell, *next;
    HASH_ITER(hh, scripts->shells, shell, next)
    {
        script_ended(scripts, shell, observe_seconds(scripts->observer, clock_now_ns()), -1);
        remove_shell(scripts, shell);
    }
    shell_inside_free(scripts->inside);
    loop_remove(scripts->timer);
    script_says_done(&scripts->says);
    struct failed *failed, *after;
    HASH_ITER(hh, scripts->failed, failed, after)
    {
        HASH_DEL(scripts->failed, failed);
        free(failed);
    }
    free(scripts);
}

const struct observe_source scripts_source = {
    .name = "scripts",
    .start = scripts_start,
    .process = on_process,
    .process_ended = on_process_ended,
    .end = on_end,
};
