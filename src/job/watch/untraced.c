/* SPDX-License-Identifier: Apache-2.0 */
#include "job/watch/untraced.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/data/buf.h"
#include "base/data/cleanup.h"
#include "job/launch/program.h"
#include "job/record/recorder.h"

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
static void look(struct program *ret_program, const char *command, const char *directory)
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
        look(&program, command->text, directory);
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
