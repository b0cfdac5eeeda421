/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units whose debug information lies in a file of its own (DWARF 5, 3.1.2; gcc and clang -gsplit-dwarf): the program
 * has a skeleton with the addresses and lines, the .dwo file beside the object all the rest.
 */
#ifndef SCRY_SYMBOLS_INDEX_DWARF_UNITS_H
#define SCRY_SYMBOLS_INDEX_DWARF_UNITS_H

#include <elfutils/libdw.h>
#include <stdbool.h>

#include "base/data/buf.h"

/* What a unit describes: of a skeleton what is in its file, of others the unit itself. False: the file is not there, or
 * not the one that belongs to the program. */
bool unit_content(Dwarf_Die *unit, Dwarf_Die *ret_content);
/* Where the file of a skeleton should be; "": the unit does not say. */
void unit_put_file(Dwarf_Die *skeleton, struct buf *out);
/* Why the content is not available: one line. program: the path of the file with the skeleton. */
void unit_put_missing(Dwarf_Die *skeleton, const char *program, struct buf *out);

#endif
