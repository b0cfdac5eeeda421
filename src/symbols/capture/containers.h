/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SCRY_SYMBOLS_CAPTURE_CONTAINERS_H
#define SCRY_SYMBOLS_CAPTURE_CONTAINERS_H

#include "symbols/capture/internal.h"

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

/*
 * Inside symbols: a container while its capture is made, and the instructions that its members are compared and
 * computed with, on values of the capture program.
 */

struct container_job {
    struct emitter *emitter;
    const struct container *container;
    Dwarf_Die *type;
    const struct place *place;
    unsigned depth, nest;
};

/* capture/elements.c: those with elements, one after the other. False: what leads to them is not available. */
bool emit_elements_of(struct container_job *job);
/* Whether there is no room for what is in it; `takes`: it is of the program's own classes. */
bool container_too_deep(struct container_job *job, bool takes);

static inline unsigned constant(struct container_job *job, uint64_t value)
{
    unsigned temp = emit_temp(job->emitter);
    emit_constant(job->emitter, temp, value);
    return temp;
}

static inline unsigned copy_of(struct container_job *job, unsigned value)
{
    unsigned temp = emit_temp(job->emitter);
    emit(job->emitter, CAPTURE_LEA, temp, value, 0);
    return temp;
}

/* v[a] = v[a] alu v[b] */
static inline unsigned alu(struct container_job *job, unsigned a, enum capture_alu kind, unsigned b)
{
    emit(job->emitter, CAPTURE_ALU, a, kind, b);
    return a;
}

/* The same with a number. */
static inline unsigned alu_n(struct container_job *job, unsigned a, enum capture_alu kind, uint64_t number)
{
    unsigned temps = job->emitter->temps;
    alu(job, a, kind, constant(job, number));
    job->emitter->temps = temps;
    return a;
}

static inline unsigned is_not(struct container_job *job, unsigned value)
{
    return alu_n(job, value, CAPTURE_EQUAL, 0);
}

/* Both are left alone. */
static inline unsigned compare(struct container_job *job, unsigned a, enum capture_alu kind, unsigned b)
{
    return alu(job, copy_of(job, a), kind, b);
}

static inline void require(struct container_job *job, unsigned value, enum capture_status otherwise)
{
    emit(job->emitter, CAPTURE_REQUIRE, value, otherwise, 0);
}

static inline void require_that(struct container_job *job, unsigned a, enum capture_alu kind, unsigned b)
{
    unsigned temps = job->emitter->temps;
    require(job, compare(job, a, kind, b), CAPTURE_ODD);
    job->emitter->temps = temps;
}

static inline unsigned load_from(struct container_job *job, unsigned base, int64_t offset, unsigned size)
{
    unsigned temp = emit_temp(job->emitter);
    emit(job->emitter, CAPTURE_LOAD, temp, size << 8 | base, offset);
    return temp;
}

/* Of a row; false: the class has no such member, or what of it is known does not include that. */
static inline bool member_at(struct container_job *job, const char *path, struct place *ret_place, Dwarf_Die *ret_type)
{
    uint64_t offset;
    Dwarf_Die type;
    if (!path || !container_member(job->type, path, &type, &offset))
        return false;
    *ret_place = place_at(job->place, offset);
    if (ret_type)
        *ret_type = type;
    uint64_t size = type_size(&type);
    return place_is_there(ret_place, size < 8 ? size : 8);
}

/* Of the whole object: the word at an offset. -1: it is not available. */
static inline int word_at(struct container_job *job, uint64_t offset, unsigned size)
{
    struct place at = place_at(job->place, offset);
    return place_is_there(&at, size) ? emit_load(job->emitter, &at, size) : -1;
}

static inline int load_member(struct container_job *job, const char *path)
{
    struct place at;
    Dwarf_Die type;
    if (!member_at(job, path, &at, &type))
        return -1;
    uint64_t size = type_size(&type);
    return emit_load(job->emitter, &at, size > 8 ? 8 : (unsigned)size);
}

static inline int load(struct container_job *job, unsigned index)
{
    return load_member(job, job->container->members[index]);
}

static inline unsigned address_at(struct container_job *job, uint64_t offset)
{
    unsigned temp = emit_temp(job->emitter);
    emit(job->emitter, CAPTURE_LEA, temp, job->place->base, job->place->offset + (int64_t)offset);
    return temp;
}

#endif
