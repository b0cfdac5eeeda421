/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From debug information to capture programs (shm/capture.h) and layouts (symbols/layout/layout.h): what the helper
 * does for `compile`. Linked into short-lived programs only.
 *
 * Why programs, and not what DWARF says: where a hook is, the compiler may not have written the slots yet that DWARF
 * describes, or describes a value by what only the caller knows while it sits in a register. So calling convention,
 * instructions before the hook and location lists are put together. A wrong value is worse than none: a slot that is not
 * written yet is never read, and if one parameter contradicts the convention, it is believed for none of them.
 */
#ifndef SCRY_SYMBOLS_CAPTURE_COMPILE_H
#define SCRY_SYMBOLS_CAPTURE_COMPILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/err.h"
#include "symbols/client/client.h"

struct capture_options {
    unsigned depth, bytes, array, string; /* as in symbols/client/helper.h */
    bool args, locals, caller, result;
    bool exit_args;      /* at exits: the arguments as they are then */
    const char *statics; /* at exits: static variables of source files that match one of these globs; NULL: none */
    bool patched;        /* functions without hooks: as if called at their first instruction, and by their return */
};

struct capture_compiler; /* one ELF file with its debug information */

/* 0 or -errno with err: -ENODATA without debug information. *ret_compiler is untouched on failure. */
int capture_compiler_new(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                         const struct capture_options *options, struct err *err);
void capture_compiler_free(struct capture_compiler *compiler);

/* ENTRY and EXIT: hooks, by their return address. CALL: a call, by its return address: runs on the caller's registers.
 * UNWIND: at an entry hook; has no layout and emits the caller's registers as in capture_frame.gpr. The hook of
 * an inlined function gets the call of the function around it: its own caller has a CALL one byte before the hook's
 * return address, and UNWIND emits the registers as they are. Entry and exit hooks that were jumped to (tail calls)
 * return to the caller: they have no site.
 *
 * Of a function without hooks of its own, with options.patched: ENTRY at its first instruction, of which it is the address,
 * with rsp as it is there: at the return address. EXIT at the address behind that, which no other site has: right behind
 * the return, with registers as they are then, but rsp at the place of the return address. In both gpr[16] is
 * the site's address, in the process. What is not in the frame any more at the exit, variables and parameters, is not
 * available, nor are results on the x87 stack. No CALL, no UNWIND.
 *
 * There neither a call has fixed what the interface is, nor has anything been stored. So arguments are where the ABI
 * passes them, if nobody can have changed that: gcc renames what it changes, LLVM may change all that is local in the file,
 * and leaves out results of such functions. Debug information alone is only believed where it tells what a variable was before the
 * function's first statement from what it is behind it. */
enum capture_site_kind { CAPTURE_ENTRY, CAPTURE_EXIT, CAPTURE_CALL, CAPTURE_UNWIND };

struct capture_output { /* called for each thing compiled; borrowed */
    void *ctx;
    void (*layout)(void *ctx, uint32_t id, const char *text);
    void (*site)(void *ctx, enum capture_site_kind kind, uint64_t address, uint32_t layout, const void *code,
                 size_t size);
    void (*params)(void *ctx, enum capture_site_kind kind, uint64_t address, const void *code, size_t size);
    /* An expression is no number at a site. */
    void (*param_problem)(void *ctx, enum capture_site_kind kind, uint64_t address, const char *expression,
                          const struct number_problem *problem);
    void (*lines_only)(void *ctx, uint64_t address); /* a function: its file was compiled with -g1 */
    /* The file that has its debug information is not there, or of another build: for people. */
    void (*missing)(void *ctx, uint64_t address, const char *text);
    void (*problem)(void *ctx, uint64_t address, const char *text); /* something else, for people */
    /* A block that programs have in common (CAPTURE_SHARED); returns its number, which stands in them for where it is.
     * NULL: they are whole. */
    uint32_t (*block)(void *ctx, const void *code, size_t size);
};

/* Compiles the hook sites of one function (address in the file) and, with options.caller, the call sites in it. Layout
 * ids are taken from *layout_id on; equal layouts share one. 0 or -errno; what could not be done for parts of it
 * goes to the callbacks for problems. */
int capture_compile_function(struct capture_compiler *compiler, uint64_t address, const char *const *params,
                             unsigned param_count, uint32_t *layout_id, const struct capture_output *output,
                             struct err *err);

#endif
