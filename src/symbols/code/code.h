/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instructions of a file and of its functions (x86-64): its hooks, what calls what, which stack slots are written.
 * Borrows the file's memory.
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
    struct code_sites calls;     /* all direct calls; read at first need, as the next */
    struct code_sites addresses; /* where an address of code is loaded, other than from memory */
    bool sites_known;
};

int elf_code_read(struct elf_code *code, Elf *elf, struct err *err);
/* The symbols of another file for the same code: a separate debug file. */
void elf_code_read_symbols(struct elf_code *code, Elf *elf);
bool elf_code_is_clone(const struct elf_code *code, uint64_t address);
enum elf_returns elf_code_returns(const struct elf_code *code, uint64_t address);
void elf_code_done(struct elf_code *code);
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

#endif
