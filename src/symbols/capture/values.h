/* SPDX-License-Identifier: Apache-2.0 */
/* Inside symbols: what the writers of values of all kinds of types share. */
#ifndef SCRY_SYMBOLS_CAPTURE_VALUES_H
#define SCRY_SYMBOLS_CAPTURE_VALUES_H

#include "symbols/capture/internal.h"

enum { DIMENSIONS = 8 };
#define UNKNOWN_COUNT UINT64_MAX

struct array {
    Dwarf_Die element;
    const uint64_t *counts;
    unsigned dimensions;
    uint64_t stride; /* of the outermost */
};

void layout_put(struct emitter *emitter, const char *text);
void layout_put_missing(struct emitter *emitter, enum place_kind kind);
/* Whether all of its bytes are available. */
bool place_is_there(const struct place *place, uint64_t size);
bool type_is_scalar(Dwarf_Die *type);
bool layout_put_scalar(struct emitter *emitter, Dwarf_Die *type, uint64_t size);
/* Text of `total` characters. */
void emit_text(struct emitter *emitter, const struct place *place, uint64_t total);
/* A text of Fortran, whose length may be known only to the program. */
void emit_fortran_text(struct emitter *emitter, Dwarf_Die *type, const struct place *place);
/* An array of which only the program knows where it is, or how many elements it has. */
void emit_fortran_array(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                        unsigned nest);
void emit_array(struct emitter *emitter, const struct array *array_of, const struct place *place, unsigned depth,
                unsigned nest);

#endif
