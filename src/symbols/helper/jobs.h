/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: the jobs of the program scry-symbols (symbols/client/helper.h) that read a request from standard input, and say in
 * their files what that is. Each returns 0 if it is done. */
#ifndef SCRY_SYMBOLS_HELPER_JOBS_H
#define SCRY_SYMBOLS_HELPER_JOBS_H

#include <stdio.h>
#include <sys/types.h>

#include "symbols/capture/internal.h"

int helper_compile(FILE *in, FILE *out);
int stacks_main(FILE *in, FILE *out);
int places_main(FILE *in, FILE *out);
int patches_main(FILE *in, FILE *out);
int variable_main(FILE *in, FILE *out);

/* Begins the time for one function, or for one file of that size: 60 s, and 1 s more for each 16 MB. */
void helper_guard(unsigned long long bytes);

/* ---- variables of a process, for `variable` and `stacks` ---- */

enum { VARIABLE_MODULES = 1024, VARIABLE_FRAMES = 256, VARIABLE_REGISTERS = 17 };

struct variable_module {
    char *path;
    uint64_t bias;
    bool program, tried;
    bool agent;                        /* no part of the program: only for unwinding */
    struct capture_compiler *compiler; /* opened at first need; NULL: no debug information */
};

struct variable_frame {
    uint64_t pc, cfa;
    struct capture_frame registers;
    bool known;       /* the registers, those that calls destroy only of the innermost */
    uint32_t unknown; /* but not these: bits by DWARF numbers; their values are no addresses */
    bool innermost;
};

/* What is asked for. */
struct variable_job {
    pid_t pid;
    struct capture_options options;
    struct variable_module modules[VARIABLE_MODULES];
    size_t module_count;
    struct variable_frame frames[VARIABLE_FRAMES];
    size_t frame_count;
    char *name, *write;
};

/* A variable that was found. */
struct variable_found {
    struct variable_module *module;
    const struct variable_frame *frame; /* NULL: at a fixed address */
    Dwarf_Die die, function;
    uint64_t pc; /* in the file */
};

enum { VARIABLE_SCOPES = 32 };
/* What is around the place of a frame, innermost first: inlined calls, then the function with the code. */
size_t variable_scopes(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                       Dwarf_Die ret_scopes[VARIABLE_SCOPES]);
/* Parameters and locals of a scope, as lines `value FRAME NAME TYPE TEXT`. */
void variable_list(struct variable_job *job, const struct variable_found *at, Dwarf_Die *scope, size_t frame,
                   struct buf *out);

/* Programs read the memory of this process from now on. */
void variable_read_process(pid_t pid);
/* Only this copy of some of it. */
void variable_read_copy(uint64_t address, const void *bytes, size_t size);

#endif
