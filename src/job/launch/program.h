/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a command before it runs: will the dynamic loader load a library into it? Reads only the file itself, so
 * what a script starts is not known. Safe on any bytes.
 */
#ifndef SCRY_JOB_LAUNCH_PROGRAM_H
#define SCRY_JOB_LAUNCH_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

#include "base/data/buf.h"

struct program {
    char path[PATH_MAX];  /* as execvp finds it; "": not found */
    bool is_elf;          /* else a script, or unknown */
    const char *obstacle; /* why nothing can be loaded into it, for people; NULL: nothing known */
    const char *remedy;   /* with obstacle */
    char sanitizer[128];  /* the library of the address sanitizer that it needs ("libasan.so.8"); "" */
    bool gfortran;        /* it needs the run-time library of gfortran */
    char run_path[1024];  /* where it looks for libraries, $ORIGIN replaced; "" */
};

/* `command` as given to execvp. */
void program_look(struct program *ret_program, const char *command);

/* Appends why execvp(3) could not execute the command, with its name: "run.sh may not be executed: chmod +x run.sh".
 * code: -errno. */
void program_explain(struct buf *out, const char *command, int code);

/* Of a file that is there: "name: its interpreter /opt/python is not there", if that is so. */
bool program_explain_interpreter(struct buf *out, const char *name, const char *path);

/* What an ELF file offers for tracing. What cannot be read is absent. */
struct program_symbols {
    bool hooks, own_hooks; /* calls go to the loaded library; calls stay in the file */
    bool names, debug;     /* a table of symbols; debug information, for values, files and lines */
};
void program_symbols(struct program_symbols *ret_symbols, const char *path);

/* The path of the library that the loader finds under that name; the name itself if not found. */
void program_library(const struct program *program, const char *name, char *ret_path, int size);

#endif
