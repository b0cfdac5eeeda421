/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of a file and of its functions (x86-64): its hooks, what calls what, which stack slots are written, and
 * whether a jump may stand at its beginning. Borrows the file's memory.
 */
#ifndef SCRY_SYMBOLS_CODE_CODE_H
#define SCRY_SYMBOLS_CODE_CODE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/err.h"

struct hook_site {
    uint64_t address;  /* of the call */
    uint64_t returns;  /* address behind it */
    uint64_t function; /* its first argument; 0: could not be seen */
    bool exit, jump;
    bool patched; /* there is no hook: the function's first instruction, or where it has returned */
};

struct code_site {
    uint64_t behind; /* the instruction */
    uint64_t target;
};

struct code_sites { /* by target */
    struct code_site *items;
    size_t count;
};

struct stack_access { /* an instruction that accesses [base + offset] */
    uint64_t address;
    int32_t offset;
    uint16_t size; /* 0: takes the address */
    uint8_t base;  /* DWARF number */
    bool writes;   /* or takes the address */
    int32_t depth; /* base rsp: from there to the canonical frame address; 0: not known */
    uint64_t call; /* where the call that comes next returns to; 0: there is none */
    uint64_t used; /* behind the next instruction that may write to an address: a call or a store; 0: there is none */
};

struct code_section {
    uint64_t address, size;
    const uint8_t *bytes;
};

struct hook_slot { /* in the GOT */
    uint64_t address;
    bool exit;
};

enum elf_returns {
    RETURNS_NO,    /* or something else */
    RETURNS_MAYBE, /* what the function returns, or nothing */
    RETURNS_YES,   /* what the function returns: only parameters are not passed any more */
};

struct elf_clone {
    uint64_t address;
    enum elf_returns returns;
};

struct elf_code {
    struct code_section sections[64], constants[16]; /* what the program executes; what it never writes to */
    size_t section_count, constant_count;
    struct hook_slot *slots;
    size_t slot_count;
    uint64_t enter, exit;     /* addresses of hooks that are in the file itself; 0: none */
    struct elf_clone *clones; /* whose interface the compiler changed (.isra, .constprop, .part), and cold parts */
    size_t clone_count;
    bool want_globals; /* set before reading */
    uint64_t *globals; /* functions that other files may call; sorted */
    size_t global_count, global_room;
    struct code_sites calls;     /* all direct calls; read at first need, as the next */
    struct code_sites addresses; /* where an address of code is loaded, other than from memory */
    bool sites_known;
    uint64_t *pointers; /* elf_code_read_pointers: addresses of code that stand in data, or that symbols have, sorted */
    size_t pointer_count;
};

int elf_code_read(struct elf_code *code, Elf *elf, struct err *err);
/* The symbols of another file for the same code: a separate debug file. */
void elf_code_read_symbols(struct elf_code *code, Elf *elf);
bool elf_code_is_clone(const struct elf_code *code, uint64_t address);
enum elf_returns elf_code_returns(const struct elf_code *code, uint64_t address);
/* Whether other files may call it, with want_globals: then its interface is what its type says. */
bool elf_code_is_global(const struct elf_code *code, uint64_t address);
void elf_code_done(struct elf_code *code);
/* Addresses of code that stand anywhere in the file's data: of functions, of the labels that a computed goto jumps to; and those of
 * symbols. 0 or -ENOMEM. */
int elf_code_read_pointers(struct elf_code *code, Elf *elf);
/* Bytes at an address and how many are left; NULL: no code there. */
const uint8_t *elf_code_at(const struct elf_code *code, uint64_t address, size_t *ret_left);
/* The same of constants. */
const uint8_t *elf_code_constant(const struct elf_code *code, uint64_t address, size_t *ret_left);
/* The direct calls of a function in the whole file. */
size_t elf_code_calls(struct elf_code *code, uint64_t target, const struct code_site **ret_calls);
/* Where its address is loaded, as the hooks' first argument is. */
size_t elf_code_addresses(struct elf_code *code, uint64_t target, const struct code_site **ret_addresses);

struct function_code { /* what decoding a function's ranges found */
    struct hook_site *hooks;
    size_t hook_count;
    struct stack_access *accesses;
    size_t access_count;
    uint64_t *indirect; /* return addresses of indirect calls */
    size_t indirect_count;
};

struct address_range {
    uint64_t low, high;
};
int function_code_read(struct function_code *function, const struct elf_code *code, const struct address_range *ranges,
                       size_t count);
void function_code_done(struct function_code *function);

/* ---- jumps at the beginning of functions (patch.c) ---- */

/*
 * Whether a jump may stand at the beginning of a function, of a program that nobody has prepared for it, and what becomes of
 * the instructions in its place: they are executed elsewhere, in a stub within 2 GiB, which then goes back.
 *
 *     function: endbr64                       function: endbr64
 *               push %rbp                               jmp stub           5 bytes
 *               mov 0x2ea5(%rip),%rax                   ...                the rest of what was moved: never executed
 *               ...                                     ...
 *                                             stub:     what is to be done, keeping all registers and flags
 *                                                       push %rbp
 *                                                       mov ADJUSTED(%rip),%rax
 *                                                       jmp back
 *
 * A jump, never a call: a call would write over the red zone of leaf functions that were entered by another way. Nothing may
 * come to the middle of the moved instructions: neither a branch of the function, nor a jump by a table, nor the return
 * of a call among them. And nothing within the function may come back to its beginning as the head of a loop, for each
 * turn would look like a call. Where that cannot be excluded the function is left alone, and why is said.
 *
 * What is done there, and where the function returns, has to keep all general registers: within a file callers know which
 * ones a function changes, and have values in the others (gcc -fipa-ra). Cold parts (NAME.cold) are jumped to: no functions.
 *
 * Reads the file only; what is done in the process is another's matter. Pure. After: relocation of whole functions (Dyninst), a
 * call at an entry (uftrace -P), jump pads (GDB's fast tracepoints).
 */

enum {
    PATCH_JUMP = 5,        /* bytes of a jump to 32 bits */
    PATCH_MOVED_MOST = 24, /* bytes that are moved: the jump, and the rest of an instruction */
    PATCH_PARTS_MOST = 5,  /* instructions */
    PATCH_STUB_MOST = 96,  /* bytes of what patch_emit writes */
};

enum patch_answer {
    PATCH_CAN,
    PATCH_SHORT,     /* its instructions have no room for a jump */
    PATCH_BRANCH,    /* a branch, or a table of branches, leads into the bytes of the jump */
    PATCH_LOOP,      /* its beginning is the head of a loop */
    PATCH_CALL,      /* a call among the moved instructions would return between them */
    PATCH_LOOKS,     /* it looks at its own return address, as setjmp does */
    PATCH_STAYS,     /* an instruction that cannot be executed elsewhere */
    PATCH_UNDECODED, /* its bytes are no instructions that are known */
    PATCH_ANSWERS
};
/* For people: "its beginning is the head of a loop"; of PATCH_CAN "". */
extern const char *const patch_reasons[PATCH_ANSWERS];

enum patch_kind {
    PATCH_COPY,        /* as it is */
    PATCH_RELATIVE,    /* memory at a distance from itself */
    PATCH_GOTO,        /* jmp */
    PATCH_CONDITIONAL, /* jcc */
    PATCH_CALLS        /* call, the last one: its return address stays that of the function */
};

struct patch_part { /* one instruction */
    enum patch_kind kind;
    uint8_t at, length; /* in patch.bytes */
    uint8_t field;      /* PATCH_RELATIVE: where its 32 bits are; PATCH_CONDITIONAL: where its condition is */
    uint64_t target;    /* of all but PATCH_COPY */
};

struct patch {
    uint64_t address; /* of the jump: behind an endbr64 */
    uint8_t length;   /* of the moved instructions, at least PATCH_JUMP */
    uint8_t bytes[PATCH_MOVED_MOST];
    uint8_t part_count;
    struct patch_part parts[PATCH_PARTS_MOST];
};

/* Of the function with these ranges, whose first begins where it is entered; `room`: bytes behind that range that belong to nobody
 * (padding), which a jump may cover. Other ranges are its cold parts. After elf_code_read_pointers. */
enum patch_answer patch_plan(struct patch *ret_patch, const struct elf_code *code, const struct address_range *ranges,
                             size_t count, size_t room);

/* The moved instructions as they have to be at `at`, and the jump back, as if the function stood at its address plus `bias`. Returns how
 * many bytes; 0: something is out of reach of 32 bits. */
size_t patch_emit(const struct patch *patch, uint64_t bias, uint64_t at, uint8_t ret_bytes[PATCH_STUB_MOST]);

/* The bytes of a jump from `from` to `to`. false: out of reach. */
bool patch_jump(uint64_t from, uint64_t to, uint8_t ret_bytes[PATCH_JUMP]);

#endif
