/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols/python: str objects, as UTF-8. */
#ifndef SCRY_SYMBOLS_PYTHON_TEXT_H
#define SCRY_SYMBOLS_PYTHON_TEXT_H

#include "base/data/arena.h"
#include "symbols/python/python.h"

/* A copy in `arena`, of at most `most` bytes: what is longer ends in "...". NULL: it is no str, or cannot be read.
 * Surrogates that stand for bytes of a file's name (PEP 383) become those bytes. */
const char *python_text(const struct python_program *program, const struct python_memory *memory, struct arena *arena,
                        uint64_t address, size_t most);

#endif
