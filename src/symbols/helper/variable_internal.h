/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: variables of a process, shared by variable*.c. */
#ifndef SCRY_SYMBOLS_HELPER_VARIABLE_INTERNAL_H
#define SCRY_SYMBOLS_HELPER_VARIABLE_INTERNAL_H

#include <sys/types.h>

#include "symbols/capture/internal.h"
#include "symbols/layout/layout.h"

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

/* ---- variable_find.c ---- */

struct capture_compiler *variable_compiler(struct variable_job *job, struct variable_module *module);
/* Registers of outer frames, by call frame information. */
void variable_unwind(struct variable_job *job);
/* By name; `file.c:` or `function:` in front chooses a static one. */
bool variable_find(struct variable_job *job, const char *name, size_t length, struct variable_found *ret_found);
/* The scope of a frame: false: no debug information there. */
bool variable_scope(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                    Dwarf_Die *ret_scope);
/* Where it is; instructions are emitted. `set`: only if it has its value there. */
void variable_locate(const struct variable_found *found, struct emitter *emitter, struct place *ret_place);
void variable_locate_set(const struct variable_found *found, struct emitter *emitter, struct place *ret_place);

/* ---- variable_list.c ---- */

enum { VARIABLE_SCOPES = 32 };
/* What is around the place of a frame, innermost first: inlined calls, then the function with the code. */
size_t variable_scopes(struct variable_job *job, const struct variable_frame *frame, struct variable_found *ret_at,
                       Dwarf_Die ret_scopes[VARIABLE_SCOPES]);
/* Parameters and locals of a scope, as lines `value FRAME NAME TYPE TEXT`. */
void variable_list(struct variable_job *job, const struct variable_found *at, Dwarf_Die *scope, size_t frame,
                   struct buf *out);

/* ---- variable_memory.c ---- */

/* Programs read the memory of this process from now on. */
void variable_read_process(pid_t pid);
/* Only this copy of some of it. */
void variable_read_copy(uint64_t address, const void *bytes, size_t size);
bool variable_reads_copy(void);
int variable_read(void *dst, uint64_t address, size_t size); /* a capture_read_fn */
int variable_write(uint64_t address, const void *bytes, size_t size);
/* Runs a finished emitter and shows the result part of its layout. False: it could not be read. */
bool variable_show(struct variable_job *job, struct emitter *emitter, const struct variable_frame *frame,
                   struct buf *ret_text);
/* Runs what emits a single number of eight bytes. */
bool variable_number(struct emitter *emitter, const struct variable_frame *frame, uint64_t *ret_number);

/* ---- variable_write.c ---- */

/* The bytes of a value given as text. 0 or -EINVAL. */
int variable_encode(Dwarf_Die *type, const char *text, uint8_t *ret_bytes, size_t size, struct err *err);

#endif
