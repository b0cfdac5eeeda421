/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ and Fortran as people write them. */
#ifndef SCRY_SYMBOLS_INDEX_CXX_NAMES_H
#define SCRY_SYMBOLS_INDEX_CXX_NAMES_H

#include <stdbool.h>

#include "base/data/buf.h"

/* Appends a name or a declaration as demanglers and compilers have it, without what the C++ library adds to it:
 * "std::vector<std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >, ...>" becomes
 * "std::vector<std::string>". What it does not understand is left as it is. */
void cxx_name_put(struct buf *out, const char *name);

/* Appends "ocean::fact" of gfortran's symbol "__ocean_MOD_fact". False: it is no such symbol, and nothing is appended.
 */
bool fortran_name_put(struct buf *out, const char *name);

#endif
