/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index of one ELF file: its functions with names, places in the source and sizes, sorted by address, in a file
 * under $XDG_CACHE_HOME/scry/symbols ($SCRY_CACHE_DIR instead of $XDG_CACHE_HOME; 0700) named by build-id (without
 * one: by device, inode, size and time of change). Built once by the helper scry-symbols (elfutils), then mapped:
 * opening one costs the same for 1 MB and 500 MB of debug information. This header is the reading side: plain code, no
 * elfutils (link index_dep), safe on any bytes (a cut or foreign file is -EBADMSG and built again), usable inside the
 * monitor.
 *
 * Addresses in an index are the file's own (as linked). A process adds the bias of the mapping (struct module).
 */
#ifndef SCRY_SYMBOLS_INDEX_INDEX_H
#define SCRY_SYMBOLS_INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/data/err.h"

struct index;

enum index_flag {
    INDEX_HAS_HOOKS = 1, /* the file calls __cyg_profile_func_enter */
    INDEX_HAS_DWARF = 2, /* it, or its separate debug file, has debug information */
    INDEX_STATIC = 4,    /* no dynamic loader: nothing can be preloaded */
    INDEX_NEEDS_ASAN = 8,
    INDEX_OWN_HOOKS = 16, /* it defines __cyg_profile_func_enter itself: of a program, a preloaded one is not called */
};

struct index_function { /* strings borrowed from the index */
    uint64_t address, size;
    const char *name;    /* demangled, with the parameters left out: "ns::Class::method"; of C the name */
    const char *full;    /* the same with the parameters: "ns::Class::method(int) const"; of C the name */
    const char *linkage; /* as in the symbol table */
    const char *file;    /* of the definition, with its directory, without detours (".."); "" unknown */
    uint32_t line;       /* 0: unknown */
    uint64_t die;        /* offset of its debug information; 0: none */
};

/* The cached index of a file. -ENOENT: there is none yet, or debug information was installed since it was built;
 * -EBADMSG: damaged; both: run `scry-symbols index` and try again. -ENOEXEC: no ELF file. */
int index_open(struct index **ret_index, const char *elf_path, struct err *err);
/* The same by a key from index_key(). */
int index_open_key(struct index **ret_index, const char *key, struct err *err);
/* An index wherever it is, as in the helper's answer `memory`. */
int index_open_file(struct index **ret_index, const char *path, const char *key, struct err *err);
void index_close(struct index *index); /* NULL is fine */

enum { INDEX_KEY_SIZE = 96 };
/* Of an ELF file: fit for a file name. Stripped and complete files of one build-id have different keys. */
int index_key(const char *elf_path, char ret_key[INDEX_KEY_SIZE], struct err *err);
/* Whether its symbol table has hooks that the file defines itself: a program's calls go to these, and to nobody else.
 * false also where that cannot be seen. */
bool elf_has_own_hooks(const char *elf_path);
/* Whether it calls hooks that another file has: what is loaded into the process gets its calls. Likewise. */
bool elf_calls_hooks(const char *elf_path);
/* Whether MPI is linked into it, so that nobody else gets its calls. Likewise. */
bool elf_has_own_mpi(const char *elf_path);

unsigned index_flags(const struct index *index);
const char *index_problem(const struct index *index); /* why there is less than there could be; "" */
size_t index_count(const struct index *index);
void index_at(const struct index *index, size_t i, struct index_function *ret_function); /* by address */
/* The function that holds an address. false: none. */
bool index_find(const struct index *index, uint64_t address, struct index_function *ret_function);
/* By name (demangled or linkage); the first, and how many in all. */
size_t index_find_name(const struct index *index, const char *name, struct index_function *ret_first);
/* One after the other, in order of address; *cursor is 0 at first. With "::" before it, a name means those whose last
 * part it is, without template arguments and what compilers add to the names of clones. false: no more. */
bool index_next_named(const struct index *index, const char *name, size_t *cursor, size_t *ret_i);

/* ---- the ELF files mapped into a process ---- */

struct module {
    char path[4096]; /* to open it, where needed through the process's own view of the files; "": see problem */
    char name[256];  /* for people: base name */
    uint64_t bias, start, end;
    bool is_program;             /* the program itself, not a library */
    char key[INDEX_KEY_SIZE];    /* "": unusable, see problem */
    char loaded[INDEX_KEY_SIZE]; /* the build-id in memory, in hexadecimal digits; "": it has none, or cannot be read */
    char problem[128];           /* "the file was replaced while it ran", ... ; "" */
};

/* From /proc/PID/maps, by address; the caller frees the array. The build-id in memory is compared with the file's.
 * -ESRCH, -EACCES. Nothing of the process is stopped. */
int modules_read(pid_t pid, struct module **ret_modules, size_t *ret_count, struct err *err);
/* The library that scry loads into programs (libscry-agent.so). */
bool module_is_agent(const struct module *module);
/* The module that holds an address of the process; NULL: none. */
const struct module *module_find(const struct module *modules, size_t count, uint64_t address);

/* ---- which functions match ---- */

/*
 * A selection: items separated by blanks or commas (but for those inside parentheses and angle brackets), each
 *
 *     fn:GLOB, or GLOB alone   functions by name
 *     file:GLOB                by source file: the whole path, or its end after any /
 *     lib:GLOB                 by base name of the library or program they are in
 *     addr:LOW-HIGH            by address in the process, hexadecimal, HIGH not included
 *     all                      every function of the program and its libraries
 *
 * or any of them with ! in front, which excludes. Chosen: what some item without ! matches (none given: the program
 * itself) and no item with ! matches.
 *
 * Globs: * ? [a-z] [!a-z]; a backslash takes the next character as it is; a [ that is not closed is an error, but for
 * the name "operator[]" and "[]"; * also matches / and ::. A function's glob is tried on the demangled name and on the
 * linkage name. Without :: in it it also matches the last part of a name: solve is ns::Class::solve, too. Without < it
 * also matches instances of templates: solve is solve<int>, too. With ( it is compared with the name and its
 * parameters, as demangled: solve(int, char const*). Clones made by the compiler (.part.0, .constprop.0, .cold ...) go
 * with their function unless the glob has a dot.
 */
struct selection;
/* -EINVAL with err: the item, where it stands, and what is expected; -E2BIG: more than SELECTION_ITEMS. */
int selection_parse(struct selection **ret_selection, const char *text, struct err *err);
void selection_free(struct selection *selection);
/* `module` may be NULL: an unknown one. A function without a name (in no index) has the name "". */
bool selection_matches(const struct selection *selection, const struct module *module,
                       const struct index_function *function);
/* The same, and an item that chooses it says so by the function's name without wildcards, or names the library. */
bool selection_names(const struct selection *selection, const struct module *module,
                     const struct index_function *function);
bool selection_has_names(const struct selection *selection); /* is there such an item? */
/* May it match functions that are in no index (all, lib:, addr:, fn:*, the default)? */
bool selection_wants_unknown(const struct selection *selection, const struct module *module);
/* If it only has names without wildcards: the functions of an index that may match, sorted, in an array to be freed, so
 * that a million others need not be read. false: it may match any. */
bool selection_candidates(const struct selection *selection, const struct index *index, size_t **ret_list,
                          size_t *ret_count);
enum { SELECTION_ITEMS = 4096, SELECTION_TEXT = 1 << 20 };

#endif
