/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: what lines.c and core.c share of elfutils' libdwfl. */
#ifndef SCRY_SYMBOLS_INDEX_LINES_INTERNAL_H
#define SCRY_SYMBOLS_INDEX_LINES_INTERNAL_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stdint.h>
#include <uthash.h>

#include "symbols/index/lines.h"

struct line_path {
    const char *directory, *file; /* as the debug information has them */
    char *path;
    UT_hash_handle hh;
};

struct lines {
    Dwfl *dwfl;
    struct scopes *scopes;   /* of the units and modules that were asked for */
    struct line_path *paths; /* that were looked at */
    struct {
        uint64_t start, end;
        char *name;
    } symbol;              /* the last that was found */
    pid_t pid;             /* of lines_open_process */
    bool attached;         /* to its state; what follows is of the thread that is inspected */
    Dwarf_Word sp, pc, bp; /* bp 0: not known */
    const struct lines_thread *thread;
    bool sampled; /* all its registers are known, as thread->registers has them */
};

/* A core file's stacks are named with a struct lines of their own, which has a dwfl and nothing else. */
int location_find(struct lines *lines, uint64_t addr, struct line_location *ret_location);
void location_forget(struct lines *lines); /* what was kept for the next one */

/* ---- scopes.c ---- */

/* A function, inlined or not, or a unit. */
struct scope {
    Dwarf_Die die;
    int32_t parent; /* the function around it; -1: none */
    bool nested;    /* in a function, a type or a namespace */
};
struct scopes;

bool scope_is_function(Dwarf_Die *die);
/* The unit of an address, NULL: there is none. *all begins as NULL, and is freed by scopes_free. */
Dwarf_Die *scope_unit(struct scopes **all, Dwfl_Module *module, uint64_t addr, Dwarf_Addr *ret_bias);
/* The innermost function at an address of the unit (without the bias), NULL: none; and the one around a function. */
const struct scope *scope_find(struct scopes **all, Dwarf_Die *unit, uint64_t addr, const struct scopes **ret_scopes);
const struct scope *scope_parent(const struct scopes *scopes, const struct scope *scope);
void scopes_free(struct scopes **all);

/* Debug information is looked for beside the file and under /usr/lib/debug only. */
void symbols_stay_local(void);

#endif
