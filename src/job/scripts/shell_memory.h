/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_MEMORY_H
#define SCRY_JOB_SCRIPTS_SHELL_MEMORY_H

#include "job/scripts/script_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

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
bool shell_now_fits(const struct shell_now *now, const struct script_text *text);

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
enum shell_source shell_source_of(const char *args, size_t len);

/* What the kernel says of the descriptor. false: it is no open regular file. */
bool shell_position(pid_t pid, int fd, struct stat *ret_stat, uint64_t *ret_position);
/* Its name; of a removed file the one that it had. Writes at most `size` bytes, with the NUL. */
void shell_script_path(pid_t pid, int fd, const struct stat *stat, char *ret_path, size_t size);
/* "/proc/PID/fd/FD" */
enum { SHELL_FD_PATH = 64 };
void shell_fd_path(char path[SHELL_FD_PATH], pid_t pid, int fd);

#endif
