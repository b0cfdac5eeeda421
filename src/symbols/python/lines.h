/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside symbols/python: the line of an instruction, from the table that a code object has (CPython's
 * Objects/lnotab_notes.txt, InternalDocs/code_objects.md).
 */
#ifndef SCRY_SYMBOLS_PYTHON_LINES_H
#define SCRY_SYMBOLS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

enum python_lines {
    PYTHON_LINES_LNOTAB,    /* 3.9: co_lnotab */
    PYTHON_LINES_RANGES,    /* 3.10: co_linetable */
    PYTHON_LINES_LOCATIONS, /* since 3.11: co_linetable with columns */
};

/* `at`: offset of the instruction in bytes; < 0: before the first. -1: none, or the table is damaged. */
int64_t python_line(enum python_lines kind, const uint8_t *table, size_t size, int64_t first_line, int64_t at);

#endif
