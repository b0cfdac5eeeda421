/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command looked at before it runs: is it a program that the dynamic loader will load a library into? Only the file
 * itself is looked at; what a script starts is not known. Safe on any bytes.
 */
#ifndef SCRY_JOB_PROGRAM_H
#define SCRY_JOB_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

struct program {
    char path[PATH_MAX];  /* as execvp finds it; "": it does not */
    bool is_elf;          /* otherwise a script, or nothing that can be said */
    const char *obstacle; /* why nothing can be loaded into it, for people; NULL: nothing known */
    const char *remedy;   /* with obstacle */
    char sanitizer[128];  /* the library of the address sanitizer that it needs ("libasan.so.8"); "" */
    char run_path[1024];  /* where it looks for libraries, $ORIGIN replaced; "" */
};

/* `command` as given to execvp. */
void program_look(struct program *ret_program, const char *command);

/* What an ELF file has for whom wants to trace it. What cannot be read has nothing. */
struct program_symbols {
    bool hooks, own_hooks; /* calls are handed to whoever is loaded; they stay in the file */
    bool names, debug;     /* a table of symbols; debug information, for values, files and lines */
};
void program_symbols(struct program_symbols *ret_symbols, const char *path);

/* The path of the library it will load under that name, or the name itself where that is not found. */
void program_library(const struct program *program, const char *name, char *ret_path, int size);

#endif
