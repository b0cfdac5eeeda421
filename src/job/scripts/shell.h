/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_H
#define SCRY_JOB_SCRIPTS_SHELL_H

#include "base/data/buf.h"
#include "job/observe/observe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <uthash.h>

/*
 * Where the commands of a shell script begin and end: of those that stand in no other one, as a shell reads them before
 * it executes them. A function, a loop, a list with && is one command. This is a scanner, not the shell's parser: it
 * knows quotes, substitutions, here documents, compound commands. Aliases and the like can fool it, so whoever uses it
 * compares the ends with where the shell really stopped to read (scripts.h). Pure; safe on any bytes.
 */

struct shell_command {
    uint32_t first_line, last_line; /* from 1 */
    size_t end;                     /* offset behind the newline after its last line */
};

struct shell_commands {
    struct shell_command *list; /* ascending */
    size_t count, room;
};

/*
 * The text of a script, its lines, and the commands in it: read once, and shared by all shells that execute the same
 * file. Not thread-safe.
 */

enum {
    SCRIPT_TEXT_BYTES = 10 << 20, /* of longer scripts the lines are not known */
    SCRIPT_TEXT_TOTAL = 64 << 20, /* of all together */
    SCRIPT_COMMAND_BYTES = 200,   /* of a command's text; the rest is cut */
};

struct script_key { /* a file that was changed is another one */
    uint64_t device, inode, size, modified_ns;
};

struct script_source {
    struct script_key key;
    char *text; /* NULL: not known */
    size_t len;
    size_t *lines; /* the offset of each line's beginning */
    size_t line_count, line_room;
    struct shell_commands commands;
    unsigned users;
    UT_hash_handle hh;
};

struct script_sources {
    struct script_source *all; /* those with users */
    size_t bytes;
};

struct script_key script_key_of(const struct stat *stat);
bool script_key_same(const struct script_key *one, const struct script_key *other);

/* The text behind `path`, a regular file of which `stat` is; one more user. NULL: out of memory. What cannot be read,
 * or is too much, has no text. */
struct script_source *script_source_get(struct script_sources *texts, const char *path, const struct stat *stat);
void script_source_put(struct script_sources *texts, struct script_source *text); /* NULL is fine */
/* The same of bytes at hand, for nobody else. */
struct script_source *script_source_new(const char *bytes, size_t len);
void script_source_free(struct script_source *text);

/* The line in which the byte before `offset` is, from 1; 0: none is. */
uint32_t script_line_before(const struct script_source *text, size_t offset);
/* The command that ends there. NULL: none does, as far as is known. */
const struct shell_command *script_command_ending(const struct script_source *text, size_t offset);
/* Appends the text of a command in these lines: the first line. "..." is in the place of the rest. */
void script_command_show(struct buf *out, const struct script_source *text, uint32_t first_line, uint32_t last_line);

/*
 * What bash says in its own memory, read from outside: the line of the simple command that it began last, also within
 * functions and loops. It needs the right to look into the process (ptrace(2), Yama); nothing is stopped. bash exports
 * these variables for its loadable commands: line_number_for_err_trap, variable_context (depth of functions),
 * sourcelevel, this_shell_function, the_printed_command_except_trap. All is hostile, and may change meanwhile.
 */

struct shell_memory {
    bool known;
    uint64_t line, depth, sourced, function, printed; /* addresses */
};

/* !known: another shell, another version, or we may not look. */
void shell_memory_find(struct shell_memory *ret_memory, pid_t pid);

enum { SHELL_TEXT = 256 };
struct shell_now {
    uint32_t line, depth, sourced;
    char function[SHELL_TEXT]; /* the innermost; "": none */
    char command[SHELL_TEXT];  /* as bash prints it; cut */
};
/* -ESRCH: it has no memory any more, for it ends or executes something; -EAGAIN: nothing is known, or it changed while
 * it was read. */
int shell_memory_read(const struct shell_memory *memory, pid_t pid, struct shell_now *ret_now);

/* Does the script have this command in this line? If not, the line is one of another file. */
bool shell_now_fits(const struct shell_now *now, const struct script_source *text);

/*
 * Is a process a shell that executes a script, and by which descriptor does it read that? By /proc alone. bash has a
 * script open as descriptor 255 (below its limit of open files), dash as 10 or the next free one, both closed on exec;
 * children that they fork close it. A script from standard input is read by descriptor 0. Commands of -c are no script.
 */

enum shell_kind { SHELL_NONE, SHELL_BASH, SHELL_DASH };

struct shell_script {
    enum shell_kind kind;
    int fd; /* -1: no script, at least not yet */
};

/* SHELL_NONE: another program, or we may not look. */
struct shell_script shell_find(pid_t pid);

/* The arguments, one behind the other, each with its NUL: is the script an argument, or does standard input have it? */
enum shell_source { SHELL_FROM_FILE, SHELL_FROM_INPUT, SHELL_FROM_OPTION };
/* *ret_text: the script's name, or behind -c the commands; NULL: none. */
enum shell_source shell_source_of(const char *args, size_t len, const char **ret_text);

/* What the kernel says of the descriptor. false: it is no open regular file. */
bool shell_position(pid_t pid, int fd, struct stat *ret_stat, uint64_t *ret_position);
/* Its name; of a removed file the one that it had. Writes at most `size` bytes, with the NUL. */
void shell_script_path(pid_t pid, int fd, const struct stat *stat, char *ret_path, size_t size);
/* "/proc/PID/fd/FD" */
enum { SHELL_FD_PATH = 64 };
void shell_fd_path(char path[SHELL_FD_PATH], pid_t pid, int fd);

/*
 * bash shells as the library inside tells of them (src/bash, --script calls and lines): commands that failed, lines,
 * and at the end how often and how long each line was executed. A part of the source in scripts.h.
 */

struct shell_inside;

/* NULL with err. */
struct shell_inside *shell_inside_new(struct observer *observer, struct err *err);
/* Does it tell of the script of that process, and so of its end? NULL is fine: no. */
bool shell_inside_has(const struct shell_inside *inside, pid_t pid);
/* It has another name, so it executes something else perhaps. NULL is fine. */
void shell_inside_process(struct shell_inside *inside, pid_t pid);
/* true: it has told the end of that process's script. NULL is fine: no. */
bool shell_inside_process_ended(struct shell_inside *inside, const struct observed_process *process);
void shell_inside_free(struct shell_inside *inside);

#endif
