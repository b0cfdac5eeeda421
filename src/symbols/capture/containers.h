/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_CAPTURE_CONTAINERS_H
#define SCRY_SYMBOLS_CAPTURE_CONTAINERS_H

#include "symbols/capture/values.h"

/* Inside symbols: containers of the C++ library, found and captured. */

/* What the members of a row are. */
enum container_shape {
    CONTAINER_STRING,           /* pointer, length, the string's own room for short ones */
    CONTAINER_SHORT_STRING,     /* bytes whose first bit says how they are meant */
    CONTAINER_TEXT,             /* pointer, length */
    CONTAINER_RANGE,            /* begin, end, end of the room */
    CONTAINER_COUNTED,          /* begin, number; or the number is an argument of the template */
    CONTAINER_BIT_RANGE,        /* words: begin, end; bits in them: begin, end */
    CONTAINER_BITS,             /* begin, number, words that there is room for */
    CONTAINER_DEQUE,            /* iterators: begin, end */
    CONTAINER_BLOCKS,           /* table of blocks: begin, end; first element, number */
    CONTAINER_LIST,             /* first node, number (NULL: to be counted) */
    CONTAINER_TREE,             /* the node before all, first in order, root, number */
    CONTAINER_OPTIONAL,         /* value, whether there is one */
    CONTAINER_VARIANT,          /* values, which */
    CONTAINER_TUPLE,            /* base of the %u-th, value in it */
    CONTAINER_FUNCTION,         /* 0: none; function that calls it */
    CONTAINER_VIRTUAL_FUNCTION, /* object with virtual functions */
    CONTAINER_POINTER,          /* pointer */
    CONTAINER_WEAK,             /* pointer, its counts */
    CONTAINER_FIELD,            /* the value itself */
};

enum container_flag {
    OWNS = 1,    /* what is in it: neither copied as bytes nor there when it was destroyed */
    KEYED = 2,   /* entries are keys and values */
    CIRCLE = 4,  /* the last node leads back to the first member's place */
    OF_BOOL = 8, /* only if its elements are */
};

struct container {
    const char *name; /* of the template */
    enum container_shape shape;
    unsigned flags;
    const char *members[4]; /* names with dots between; ~ before the beginning of a base class's */
    uint8_t head;           /* of nodes: bytes before the value; CONTAINER_WEAK: size of the count */
    uint8_t links[3];       /* the next node; of trees left, right, parent; CONTAINER_WEAK: the count */
};

/* Where a member is, looked for in bases and members, too. False: there is none, or not at a fixed place. */
bool container_member(Dwarf_Die *type, const char *path, Dwarf_Die *ret_type, uint64_t *ret_offset);
/* Bytes of a string's characters; 0: of another kind. */
unsigned container_characters(Dwarf_Die *stripped);
/* The pointer at a place, of which it is known what it points to. */
void emit_pointer(struct emitter *emitter, Dwarf_Die *pointee, bool there_is_one, const struct place *place,
                  bool reference, unsigned depth, unsigned nest);
/* A class that type_container() knows. */
void emit_container(struct emitter *emitter, const struct container *container, Dwarf_Die *type,
                    const struct place *place, unsigned depth, unsigned nest);

#endif
