/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code addresses of many processes: each place of a module is looked for once, whatever the address at which
 * a process has loaded that. */
#ifndef SCRY_SYMBOLS_HELPER_STACK_NAMES_H
#define SCRY_SYMBOLS_HELPER_STACK_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/data/arena.h"
#include "symbols/index/lines.h"

struct stack_name {
    const char *function, *file, *module; /* "": not known */
    unsigned line;                        /* 0: not known */
    const struct stack_name *outer;       /* the function whose code this inlined one is a part of; NULL: none */
};

struct stack_names {
    struct arena arena;
    struct stack_name_entry *entries;
};

/* The innermost function at an address. NULL: it is in no module, or out of memory. */
const struct stack_name *stack_name_of(struct stack_names *names, struct lines *lines, uint64_t addr);
void stack_names_done(struct stack_names *names);

#endif
