/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions: of C++, Rust and Fortran as people write them, their parts, and globs that are tried on them. All of it is linear
 * in time but for the backtracking of a glob's last star: no pattern is expensive.
 */
#ifndef SCRY_SYMBOLS_INDEX_NAMES_H
#define SCRY_SYMBOLS_INDEX_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/data/buf.h"

/* Appends a name or a declaration as demanglers and compilers have it, without what the C++ library adds to it:
 * "std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, ...>" becomes
 * "std::vector<std::string>". What it does not understand is left as it is. */
void cxx_name_put(struct buf *out, const char *name);

/* Appends "ocean::fact" of gfortran's symbol "__ocean_MOD_fact". False: it is no such symbol, and nothing is appended.
 */
bool fortran_name_put(struct buf *out, const char *name);

/* Appends "<mine::Grid as mine::Solve>::step" of rustc's symbol "_ZN42_$LT$mine..Grid$u20$as$u20$mine..Solve$GT$4step17h<16 digits>E"
 * (its newer ones, "_R...", are others). False: likewise. */
bool rust_name_put(struct buf *out, const char *name);

/* * ? [a-z] [!a-z] and backslash; a [ that is never closed is a letter. */
bool glob_matches(const char *glob, struct span text);
/* The first [ that nobody closes, where that is most likely a mistake: not in "operator[" or "[]". NULL: there is none.
 */
const char *glob_unclosed(const char *glob);

/* If an operator's name begins at `at` ("operator<"): where it ends; else `at`. */
size_t name_operator_end(struct span name, size_t at);
/* The last part of a name, behind the last :: that is not inside <> () {} []. */
struct span name_last_part(struct span name);
/* Without the template arguments at its end: "f<int>" is "f", "operator<" stays. */
struct span name_without_template(struct span name);
/* Without what the compiler adds to the names of clones: ".constprop.0", ".part.3", ".cold" ... */
struct span name_without_clone(struct span name);
/* All three: "a::f<int> [clone]" is "f". Whatever a name without wildcards matches has the same as it. */
struct span name_short(struct span name);

#endif
