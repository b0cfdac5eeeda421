/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: the hook sites and calls of a function that is compiled, and where its variables are there. */
#ifndef SCRY_SYMBOLS_CAPTURE_SITE_H
#define SCRY_SYMBOLS_CAPTURE_SITE_H

#include "symbols/capture/internal.h"

enum { PARAMETERS_MAX = 128, RANGES_MAX = 64 };

/* What is common to all sites of a function. */
struct job {
    struct capture_compiler *compiler;
    const struct capture_output *output;
    uint32_t *layout_id;
    uint64_t address; /* of the function that was asked for */
    Dwarf_Die function;
    const struct function_code *code;
    const char *const *params;
    unsigned param_count;
};

/* One site: what is in scope, and how it is found. */
struct site {
    struct job *job;
    enum capture_site_kind kind;
    uint64_t pc;      /* where DWARF is asked */
    uint64_t returns; /* its address for the agent */
    Dwarf_Die function, scope;
    const struct function_code *code;
    struct track track;
    struct track_nodes nodes; /* of an exit hook's track */
    bool tracked;
    enum elf_returns is_left; /* whether the function returns behind this exit hook, by the rules of its type */
    bool by_clang, optimised;
    bool unused_are_garbage; /* callers pass anything for parameters that the function does not use */
    int32_t depth;           /* from rsp to the canonical frame address; 0: not known */
    bool nowhere;            /* the scope's variables are not to be found at this place */
    uint32_t unknown;        /* of a frame: registers, bits by DWARF numbers */
    bool patched;            /* no hook: at the function's first instruction, or where it has returned */
    bool is_changed;         /* then: it may not be called as its type says */
    bool is_other;           /* and: nor as the ABI says */
    uint32_t reads;          /* at the former: track_reads(), of optimised code by clang */
    bool frame, innermost;   /* of a thread that is inspected: registers that calls destroy are only the innermost's */
    struct emitter *emitter;
    unsigned fields;
    struct buf used_names; /* of the list that is written, each with its end */
    /* the parameters' places by the ABI, in order; none for inlined instances and clones */
    Dwarf_Die parameters[PARAMETERS_MAX];
    struct abi_place places[PARAMETERS_MAX];
    const char *names[PARAMETERS_MAX]; /* NULL: none */
    unsigned parameter_count;
    bool by_abi;
};

struct variable {
    struct site *site;
    Dwarf_Die *die;
    const struct abi_place *abi; /* NULL: only DWARF */
};

/* The compiler and its options. */
void site_judge(struct site *site);
/* At a hook: the scope, what is known of registers, the parameters. */
void site_at_hook(struct site *site, const struct hook_site *hook);
/* A frame of a thread: pc is in the instruction that is executed. site->emitter is set before. */
void site_in_frame(struct site *site, struct job *job, uint64_t pc, bool innermost);
/* A function's code, which is decoded once and stays until codes are limited or done with. NULL: no memory. */
const struct function_code *site_code(struct capture_compiler *compiler, Dwarf_Die *function);
/* Drops all if they are too many. */
void site_codes_limit(struct capture_compiler *compiler);
void site_codes_done(struct capture_compiler *compiler);
/* Lists the parameters in scope and gives them their places by the ABI. */
void site_find_parameters(struct site *site, bool by_abi);
/* Functions for emit_field(), with a struct variable and a struct site. Reads are emitted where it takes some. */
void site_locate_variable(void *ctx, struct emitter *emitter, struct place *ret_place);
void site_locate_result(void *ctx, struct emitter *emitter, struct place *ret_place);
/* `size` low bytes of a value that was followed from where the program runs. False: it is not available. */
bool site_place_of(const struct track *track, struct tracked value, unsigned size, struct emitter *emitter,
                   struct place *ret_place);
/* capture/arrays.c: what the code behind an entry hook is about to write to a variable that was not set before. */
bool site_locate_bound(const struct site *site, struct emitter *emitter, Dwarf_Die *variable, struct place *ret_place);
/* The same of `size` bytes of the frame, at most 8: where what is stored there first comes from. */
bool site_locate_stored(const struct site *site, struct emitter *emitter, const struct place *slot, unsigned size,
                        struct place *ret_place);

#endif
