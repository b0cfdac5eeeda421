/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/functions.h"

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "base/data/hash.h"
#include "base/system/clock.h"
#include "client/client.h"
#include "client/decode.h"
#include "job/launch/program.h"
#include "jobdir/text/text.h"
#include "lang/results.h"
#include "shm/waits.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { FUNCTIONS_LISTED = 10 };

enum { COMMANDS = 256, PROGRAMS = 8 /* named */ };

struct command {
    char *text; /* a path, or a name to be found */
    uint64_t processes;
    UT_hash_handle hh;
};

struct found {
    char path[PATH_MAX];
    const char *obstacle;
    uint64_t processes;
};

struct untraced {
    struct command *commands;
};

void untraced_add(struct untraced **untraced, const char *name, const char *command, const char *directory)
{
    struct untraced *all = *untraced;
    struct command *known;
    _cleanup_(buf_done) struct buf text = BUF_INIT;
    if (!all && !(all = *untraced = calloc(1, sizeof *all)))
        return;
    if (command && *command != '/' && strchr(command, '/') && directory)
        buf_printf(&text, "%s/", directory);
    buf_puts(&text, command ? command : name);
    if (text.failed)
        return;
    HASH_FIND_STR(all->commands, text.data, known);
    if (!known && HASH_COUNT(all->commands) < COMMANDS && (known = calloc(1, sizeof *known))) {
        known->text = strdup(text.data);
        if (!known->text) {
            free(known);
            return;
        }
        HASH_ADD_KEYPTR(hh, all->commands, known->text, strlen(known->text), known);
    }
    if (known)
        known->processes++;
}

void untraced_free(struct untraced *untraced)
{
    struct command *command, *next;
    if (!untraced)
        return;
    HASH_ITER(hh, untraced->commands, command, next)
    {
        HASH_DEL(untraced->commands, command);
        free(command->text);
        free(command);
    }
    free(untraced);
}

/* Of two programs of that name, takes the one without an agent. The kernel may cut names; then they are not found. */
static void look_at_program(struct program *ret_program, const char *command, const char *directory)
{
    char path[PATH_MAX];
    program_look(ret_program, command);
    if (!ret_program->obstacle && !strchr(command, '/') &&
        snprintf(path, sizeof path, "%s/%s", directory, command) < (int)sizeof path)
        program_look(ret_program, path);
}

static size_t find_all(const struct untraced *untraced, const char *directory, struct found *found)
{
    size_t count = 0;
    for (const struct command *command = untraced->commands; command; command = command->hh.next) {
        struct program program;
        size_t i = 0;
        look_at_program(&program, command->text, directory);
        if (!program.obstacle)
            continue;
        while (i < count && strcmp(found[i].path, program.path) != 0)
            i++;
        if (i == count) {
            snprintf(found[count].path, sizeof found[count].path, "%s", program.path);
            found[count++].obstacle = program.obstacle;
        }
        found[i].processes += command->processes;
    }
    return count;
}

void untraced_note(struct untraced *untraced, struct recorder *recorder, const char *directory)
{
    _cleanup_(freep) struct found *found = untraced ? calloc(HASH_COUNT(untraced->commands), sizeof *found) : NULL;
    size_t count = found ? find_all(untraced, directory, found) : 0;
    for (size_t i = 0; i < count && i < PROGRAMS; i++)
        recorder_note(recorder, NOTE(untraced, .program = found[i].path, .processes = found[i].processes,
                                     .reason = found[i].obstacle));
    if (count > PROGRAMS)
        recorder_note(recorder, NOTE(more_untraced, .programs = count - PROGRAMS));
}

enum {
    ROWS = 100,         /* asked of each process */
    KNOWN_MOST = 20000, /* more are not looked at */
    SHARE = 20,         /* the monitor may work on it for one part of so many of the time */
};

struct known_function {
    uint64_t calls, self_ns;  /* at the last answer */
    uint64_t added, added_ns; /* since the last record */
    const char *name;         /* in key */
    UT_hash_handle hh;
    char key[];
};

struct known_process {
    struct known_function *functions; /* hash by key */
    uint32_t round;                   /* the last answer that had it */
    UT_hash_handle hh;
    char token[];
};

struct row {
    const char *name, *file;
    uint64_t line, calls;
    int64_t self_ns; /* -1: calls are only counted */
};
static const struct decode_field row_fields[] = {DECODE(struct row, name),    DECODE(struct row, file),
                                                 DECODE(struct row, line),    DECODE(struct row, calls),
                                                 DECODE(struct row, self_ns), {0}};

static struct known_process *find_process(struct function_watch *functions, const char *token)
{
    struct known_process *process;
    HASH_FIND_STR(functions->processes, token, process);
    if (process)
        return process;
    size_t size = strlen(token) + 1;
    process = calloc(1, sizeof *process + size);
    if (!process)
        return NULL;
    memcpy(process->token, token, size);
    HASH_ADD_STR(functions->processes, token, process);
    return process;
}

/* *ret_is_new: it was not known. NULL: too many, or no memory. */
static struct known_function *known_function_find(struct function_watch *functions, struct known_process *process,
                                                  const struct row *row, bool *ret_is_new)
{
    _cleanup_(buf_done) struct buf key = BUF_INIT;
    buf_printf(&key, "%s:%llu ", row->file, (unsigned long long)row->line);
    size_t name_at = key.len;
    buf_puts(&key, row->name);
    if (key.failed)
        return NULL;
    struct known_function *known;
    HASH_FIND(hh, process->functions, key.data, key.len, known);
    *ret_is_new = !known;
    if (known || functions->known >= KNOWN_MOST)
        return known;
    known = calloc(1, sizeof *known + key.len + 1);
    if (!known)
        return NULL;
    memcpy(known->key, key.data, key.len + 1);
    known->name = known->key + name_at;
    HASH_ADD_KEYPTR(hh, process->functions, known->key, key.len, known);
    functions->known++;
    return known;
}

static void take_row(struct function_watch *functions, struct known_process *process, const struct row *row,
                     bool from_here)
{
    bool is_new;
    struct known_function *known = known_function_find(functions, process, row, &is_new);
    uint64_t self_ns = row->self_ns > 0 ? (uint64_t)row->self_ns : 0;
    if (!known)
        return;
    if (!is_new || !from_here) {
        known->added += row->calls > known->calls ? row->calls - known->calls : 0;
        known->added_ns += self_ns > known->self_ns ? self_ns - known->self_ns : 0;
    }
    known->calls = row->calls;
    known->self_ns = self_ns;
}

/* Of a process of which as many functions are known as were asked for, one that is new may have been called before. */
static void take_process(struct function_watch *functions, struct omis_reader *reader)
{
    const char *token = omis_reader_object(reader, 0);
    const struct omis_value *rows = omis_item(omis_reader_values(reader), 0);
    struct known_process *process = token ? find_process(functions, token) : NULL;
    struct decoder decoder;
    struct row row;
    if (!process)
        return;
    process->round = functions->round; /* also of one that cannot tell them now */
    if (!rows)
        return;
    decoder_init(&decoder, CT_PROFILE_ROW, 0, row_fields);
    size_t count = decoder_rows(&decoder, rows);
    bool from_here = functions->from_here || HASH_COUNT(process->functions) >= ROWS;
    for (size_t i = 0; i < count; i++) {
        decode(&decoder, rows, i, &row);
        take_row(functions, process, &row, from_here);
    }
}

/* ---- the record ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct known_function *const *)a)->name, (*(struct known_function *const *)b)->name);
}

static int by_self(const void *a, const void *b)
{
    const struct known_function *left = *(struct known_function *const *)a, *right = *(struct known_function *const *)b;
    if (left->added_ns != right->added_ns)
        return left->added_ns < right->added_ns ? 1 : -1;
    if (left->added != right->added)
        return left->added < right->added ? 1 : -1;
    return by_name(a, b);
}

/* The same function of several processes becomes one. Returns how many are left. */
static size_t merge(struct known_function **list, size_t count)
{
    size_t used = 0;
    qsort(list, count, sizeof *list, by_name);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(list[used]->name, list[i]->name) != 0) {
            list[++used] = list[i];
            continue;
        }
        list[used]->added += list[i]->added;
        list[used]->added_ns += list[i]->added_ns;
    }
    return count ? used + 1 : 0;
}

static void record(struct function_watch *functions, struct known_function **list, size_t count, uint64_t now_ns)
{
    uint64_t calls = 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < count; i++)
        calls += list[i]->added;
    count = merge(list, count);
    qsort(list, count, sizeof *list, by_self);
    for (size_t i = 0; i < count && i < FUNCTIONS_LISTED; i++)
        json_array_append_new(rows, json_pack("{s:o, s:I, s:I}", "name", text_json(list[i]->name), "calls",
                                              (json_int_t)list[i]->added, "self_ns", (json_int_t)list[i]->added_ns));
    uint64_t since = functions->recorded_ns ? functions->recorded_ns : functions->recorder->start_ns;
    double seconds = now_ns > since ? (double)(now_ns - since) / NS_PER_SECOND : 0;
    functions->recorded_ns = now_ns;
    recorder_put(functions->recorder, RECORD(functions, .seconds = seconds, .calls = calls, .list = rows));
    json_decref(rows);
}

/* Records what was added. What is not recorded yet stays for the next time. */
static void add_up(struct function_watch *functions, uint64_t now_ns)
{
    size_t count = 0;
    bool called = false;
    _cleanup_(freep) struct known_function **list = calloc(functions->known + 1, sizeof *list);
    for (struct known_process *process = list ? functions->processes : NULL; process; process = process->hh.next)
        for (struct known_function *each = process->functions; each; each = each->hh.next)
            if (each->added || each->added_ns) {
                list[count++] = each;
                called |= each->added > 0;
            }
    bool is_long = now_ns - functions->recorded_ns >= (uint64_t)FUNCTIONS_QUIET_S * NS_PER_SECOND;
    if (!count || !(called || is_long))
        return;
    record(functions, list, count, now_ns);
    for (struct known_process *process = functions->processes; process; process = process->hh.next)
        for (struct known_function *each = process->functions; each; each = each->hh.next)
            each->added = each->added_ns = 0;
}

static void forget(struct function_watch *functions, struct known_process *process)
{
    functions->known -= HASH_COUNT(process->functions);
    HASH_FREE_ALL(process->functions);
    HASH_DEL(functions->processes, process);
    free(process);
}

/* Processes that are not among the answers have ended. */
static void forget_ended(struct function_watch *functions)
{
    struct known_process *process, *next;
    HASH_ITER(hh, functions->processes, process, next)
    if (process->round != functions->round)
        forget(functions, process);
}

void functions_take(struct function_watch *functions, Omis_reply reply, uint64_t now_ns)
{
    _cleanup_(omis_reader_freep) struct omis_reader *reader = omis_reader_new(reply);
    int more = omis_reader_find(reader, 1);
    if (!more && omis_reader_error(reader))
        return; /* refused: nothing is known of any process */
    functions->round++;
    for (; more; more = omis_reader_next(reader))
        take_process(functions, reader);
    functions->from_here = false;
    add_up(functions, now_ns);
    forget_ended(functions);
}

/* ---- the question ---- */

static void on_reply(Omis_reply reply, void *param)
{
    struct function_watch *functions = param;
    uint64_t now = clock_now_ns(), took = now - functions->asked_ns;
    functions->asking = false;
    functions_take(functions, reply, now);
    omis_reply_free(reply);
    uint64_t least = functions->processes ? FUNCTIONS_LEAST_NS : (uint64_t)FUNCTIONS_EMPTY_S * NS_PER_SECOND;
    functions->next_ns = functions->asked_ns + (took * SHARE > least ? took * SHARE : least);
}

void functions_ask(struct function_watch *functions)
{
    static char text[64];
    uint64_t now = clock_now_ns();
    if (functions->asking || now < functions->next_ns)
        return;
    int len = snprintf(text, sizeof text, ":ct_get_profile([],%d)", ROWS);
    functions->asking = true;
    functions->asked_ns = now;
    Omis_reply at_once = client_request(span_of(text, (size_t)len), on_reply, functions, 0);
    if (at_once) /* the connection is lost: watch.c finds out */
        omis_reply_free(at_once);
}

void functions_lost(struct function_watch *functions)
{
    functions_done(functions);
    functions->from_here = true;
}

void functions_done(struct function_watch *functions)
{
    struct known_process *process, *next;
    HASH_ITER(hh, functions->processes, process, next)
    forget(functions, process);
    functions->asking = false;
}
