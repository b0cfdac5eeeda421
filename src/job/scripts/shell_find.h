/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a process a shell that executes a script, and by which descriptor does it read that? By /proc alone. bash has a
 * script open as descriptor 255 (below its limit of open files), dash as 10 or the next free one, both closed on exec;
 * children that they fork close it. A script from standard input is read by descriptor 0. Commands of -c are no script.
 */
#ifndef SCRY_JOB_SCRIPTS_SHELL_FIND_H
#define SCRY_JOB_SCRIPTS_SHELL_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

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
