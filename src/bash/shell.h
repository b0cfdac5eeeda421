/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_BASH_SHELL_H
#define SCRY_BASH_SHELL_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/script_ring.h"

/*
 * What of bash is read: variables and functions that it exports, looked up in the running shell, and its commands. These
 * have had this shape since bash 4 (command.h, variables.h of bash). Only for the shell's one thread, where it is about
 * to execute a command. Nothing changes what the shell knows.
 */

enum { SHELL_INVERTED = 0x04, SHELL_IGNORED = 0x08 }; /* "!"; its failure ends no shell with set -e: a condition */
enum { SHELL_NO_PIPE = -1 };
/* running_trap: the number of the signal and one; that is 0 for the exit, and behind those of all signals and DEBUG for errors */
enum { SHELL_EXIT_TRAP = 1, SHELL_ERROR_TRAP = NSIG + 2 };

struct shell_word {
    char *text;
    int flags;
};
struct shell_words {
    struct shell_words *next;
    struct shell_word *word;
};
struct shell_leaf { /* of all types but a connection, and a few that are not looked into */
    int flags, line;
    struct shell_words *words; /* of a simple command */
};
struct shell_connection {
    int ignore;
    struct shell_command *first, *second;
    int connector;
};
struct shell_command {
    uint32_t type; /* enum shell_command_type */
    int flags, line;
    void *redirects;
    union {
        struct shell_leaf *leaf;
        struct shell_connection *connection;
    } value;
};

typedef int shell_execute_fn(struct shell_command *command, int asynchronous, int pipe_in, int pipe_out, void *fds);

struct shell {
    int *interactive_shell, *running_trap, *variable_context, *last_command_exit_value;
    void *(*find_variable)(const char *name);
    char *(*array_reference)(void *array, intptr_t index);
    shell_execute_fn *execute;
    size_t execute_size;
    char *version; /* "5.2" */
};
extern struct shell shell;

/* Is the program a bash? Then *ret_why is NULL, and shell is filled in; or the reason why this one cannot be followed. */
bool shell_find(const char **ret_why);
/* Of FUNCNAME, BASH_SOURCE or BASH_LINENO; 0: the innermost. NULL: none. Valid until the shell executes something. */
const char *shell_caller(const char *array, long index);
/* The statuses of the last pipeline's commands, with spaces. false: none failed, nor was left by the one behind it
 * (SIGPIPE), or they are not known. */
bool shell_stages(char *out, size_t size);
/* The words of a simple command as they are written, of a pipeline those of its last command. Returns the length; at
 * most `size`, *ret_cut: there is more. */
size_t shell_command_text(const struct shell_command *command, char *out, size_t size);
/* The same of all commands of a pipeline, with " | " between them; "...": one that is no simple command. */
size_t shell_pipeline_text(const struct shell_command *command, char *out, size_t size);
/* The simple command, or the like, of which that is: of a pipeline its last one. NULL: it is none. */
const struct shell_command *shell_command_leaf(const struct shell_command *command);

/*
 * Leads all calls of a function of the program to another one of ours. The function's first instructions are moved to a
 * page near it, and a jump takes their place. Only those are moved that save registers and make room on the stack: they
 * mean the same anywhere, and no compiler jumps between them.
 *
 * To be called while the process has one thread, which is not in the function. Async-signal-safe.
 */

/* How many bytes of the code would be moved, of the first `size`; 0: it cannot be done. *ret_skip: before them stands a
 * mark for indirect jumps, which stays. */
size_t patch_measure(const unsigned char *code, size_t size, size_t *ret_skip);
/* NULL, and *ret_original is what does what the function did; or the reason why nothing was changed. */
const char *patch_function(void *function, size_t size, void *ours, void **ret_original);

/*
 * What is counted and written of the shell's commands, in a ring that the shell and its subshells share. All of it is
 * async-signal-safe, and allocates nothing.
 */

enum { TALLY_TEXT = 256 };

struct tally_place {
    struct script_sum *sum; /* NULL: no room */
    uint64_t key;
    uint32_t file, function; /* offsets in texts; 0: none */
    int32_t line;
};

/* false: nothing is written, for good. */
bool tally_open(const char *directory);
/* This bash is not followed. After tally_open. */
void tally_refuse(const char *why);
/* The sum of a line. Names are as bash has them; `text` is the command. false: no file. */
bool tally_place(const char *file, const char *function, int32_t line, const char *text, uint32_t size,
                 struct tally_place *ret_place);
/* The script begins there. */
void tally_started(const struct tally_place *place);
/* The shell is there now; `put`: as a record, too, unless there were many lately. */
void tally_now(const struct tally_place *place, const char *text, uint32_t size, uint64_t now_ns, bool put);
void tally_ended(const struct tally_place *place, bool count, uint64_t ns);
/* It failed: of each line only the first times come as records. stages: the statuses of a pipeline's commands, with spaces; NULL. */
void tally_failed(const struct tally_place *place, const char *text, uint32_t size, int status, const char *stages,
                  uint64_t ns);

#endif
