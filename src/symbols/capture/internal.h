/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside symbols: what the compiler of captures is made of. From the bottom up:
 *
 *     dwarf_types          questions about types, and their names
 *     emit                 programs and layouts: places and types in, instructions and text out
 *     dwarf_location       where DWARF says that something is
 *     abi                  in which registers arguments and results are passed (System V, x86-64)
 *     variables            functions, inlined instances, variables in scope
 *     statics              variables at fixed addresses
 *     site                 where variables and results are at hooks and calls (site.h)
 *     types, arrays        values of types
 *     containers, elements the C++ library's containers (containers.h)
 *     memo                 fields, and what pointers lead to, compiled once
 *     indexes              expressions of conditions
 *     compile              all of them together
 */
#ifndef SCRY_SYMBOLS_CAPTURE_INTERNAL_H
#define SCRY_SYMBOLS_CAPTURE_INTERNAL_H

#include <elfutils/libdw.h>
#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uthash.h>

#include "base/data/buf.h"
#include "shm/capture.h"
#include "symbols/capture/compile.h"
#include "symbols/code/code.h"
#include "symbols/code/track.h"

/* ---- dwarf_types.c ---- */

enum type_kind {
    TYPE_NONE, /* void, or nothing that we know */
    TYPE_SIGNED,
    TYPE_UNSIGNED,
    TYPE_CHAR, /* by its encoding signed or not: type_is_signed() */
    TYPE_BOOL,
    TYPE_FLOAT,
    TYPE_COMPLEX,
    TYPE_ENUM,
    TYPE_POINTER,
    TYPE_REFERENCE,
    TYPE_MEMBER_POINTER,
    TYPE_ARRAY,
    TYPE_STRUCT,
    TYPE_UNION,
    TYPE_FUNCTION,
    TYPE_OTHER, /* its bytes */
};

/* What was found out of the types of a file (dwarf), each at first need. */
struct type_index {
    Dwarf *dwarf;
    struct type_definition *definitions;
    bool definitions_known;
    struct name_unit *units;
};

/* The type of a variable, member, pointee ...; false: none (void). Through abstract origins. */
bool type_of(Dwarf_Die *die, Dwarf_Die *ret_type);
/* Without const, volatile and names: what it is. */
bool type_strip(Dwarf_Die *type, Dwarf_Die *ret_type);
/* What strings of these are made of: 0 no wide characters, 1 UTF-16, 2 UTF-32. C has only names for them. */
unsigned type_wide(Dwarf_Die *type);
enum type_kind type_kind_of(Dwarf_Die *stripped);
bool type_is_signed(Dwarf_Die *stripped);
/* Size in bytes; 0: unknown. */
uint64_t type_size(Dwarf_Die *type);
const char *die_name(Dwarf_Die *die); /* through abstract origins; NULL */
bool die_flag(Dwarf_Die *die, unsigned attribute);
bool die_number(Dwarf_Die *die, unsigned attribute, uint64_t *ret_number);
/* Its unit's language, in which arguments are passed by address, and indices begin at 1. */
bool die_is_fortran(Dwarf_Die *die);
/* The value of an enumeration's enumerator. */
bool type_enumerator(Dwarf_Die *type, const char *name, size_t length, uint64_t *ret_value);
/* The argument of a template: the index-th type. */
bool type_template_argument(Dwarf_Die *stripped, unsigned index, Dwarf_Die *ret_type);
/* For a declaration, the definition somewhere in the file, where there is one. */
bool type_complete(struct type_index *index, Dwarf_Die *stripped, Dwarf_Die *ret_type);
void type_index_done(struct type_index *index);
/* True for classes that are not copied as bytes: passed and returned by address (Itanium C++ ABI, 3.1.1). */
bool type_is_nontrivial(Dwarf_Die *stripped);
/* True for types whose objects are gone once they were destroyed. */
bool type_has_destructor(Dwarf_Die *type);

/* ---- dwarf_types.c ---- */

/* As in the source: "const struct point *", "const std::vector<geo::Point> &". index: for scopes of names; NULL:
 * without them. */
void type_put_name(struct type_index *index, Dwarf_Die *type, bool there_is_one, struct buf *out);

/* ---- containers.c ---- */

/* Classes of the C++ library that are shown as what is in them (capture/containers.h); NULL: it is none. Also of some
 * that are only declared. */
const struct container *type_container(Dwarf_Die *stripped);
/* Whether objects are gone, with what was in them, once they were destroyed. NULL: false. */
bool container_owns(const struct container *container);
/* A container from which an element follows directly: the pointer is at an offset, as a smart pointer's is, or a
 * vector's (`indexed`), if that is what is wanted. */
bool container_pointer(Dwarf_Die *stripped, bool indexed, uint64_t *ret_offset, Dwarf_Die *ret_element);

/* ---- capture/emit.c ---- */

struct fixup {
    size_t at; /* of the instruction in code */
    unsigned minimum;
};

struct emitter;
struct place;
/* Fortran: what an attribute of a type (the length of a text, the bound of an array) is where the field is captured,
 * for the object at a place: the number of the value. -1: it is not available. */
typedef int emit_attribute_fn(void *ctx, struct emitter *emitter, Dwarf_Die *type, unsigned attribute,
                              const struct place *object);

typedef int share_text_fn(void *ctx, const char *text, size_t size, uint32_t *ret_id); /* capture/memo.c */

/* The pieces of programs of one compiler, for all emitters with its options. */
struct memo {
    struct memo_entry *entries;
    size_t used; /* bytes */
};
void memo_done(struct memo *memo);

struct emitter {
    const struct capture_options *options;
    struct memo *memo; /* NULL: nothing is kept */
    struct buf code;   /* head and instructions */
    struct buf text;   /* layout */
    unsigned minimum;
    unsigned blocks;
    unsigned temps, scratch; /* next free */
    unsigned temps_used, scratch_used;
    size_t merge_from; /* earlier instructions are left alone */
    struct fixup fixups[512];
    unsigned fixup_count;
    bool wants_xmm, direct;
    bool failed;   /* too much for one program */
    bool cut;      /* with more room there would be more */
    bool generous; /* the limits are not the field's, but what any field could have */
    bool doubtful; /* memory is read that may not be there: only inside blocks */
    uint64_t here; /* where in the file v[PC] points to when the program runs; 0: it runs in one process only */
    struct type_index *types;      /* NULL: none */
    size_t text_limit, code_limit; /* of what is being emitted */
    size_t text_seen, code_seen;   /* the most that was held against them */
    size_t text_shared;            /* what the parts come to by which fields name theirs */
    share_text_fn *part_id;        /* numbers of parts; NULL: the text is whole */
    void *part_ctx;
    emit_attribute_fn *attribute; /* of the field's types; NULL: there is nobody to ask */
    void *attribute_ctx;
};

struct emitter_mark {
    size_t code, text, merge_from;
    size_t text_seen, code_seen, text_shared;
    unsigned minimum, blocks, temps, scratch, fixup_count;
    bool wants_xmm, failed;
};

void emitter_init(struct emitter *emitter, const struct capture_options *options, struct type_index *types,
                  bool direct);
void emitter_done(struct emitter *emitter);
struct emitter_mark emitter_mark(struct emitter *emitter);
void emitter_reset(struct emitter *emitter, const struct emitter_mark *mark);
/* For a while, as much as any field may have from here on. */
void emitter_be_generous(struct emitter *emitter);
void emitter_saw(struct emitter *emitter, size_t text, size_t code);
/* Writes the head; false: there is no such program (too large). */
bool emitter_finish(struct emitter *emitter);

unsigned emit_temp(struct emitter *emitter); /* number of a free value */
void emit(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n, int64_t off);
void emit_constant(struct emitter *emitter, unsigned r, uint64_t value);
/* v[...] = the 8 bytes of a place or fewer, zero-extended; the number of the value. -1: it is not available. */
int emit_load(struct emitter *emitter, const struct place *place, unsigned size);
/* Instructions with a status byte that is followed by nothing certain: STRING, and those with a count. */
void emit_expecting(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n);
void emit_counted(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n, unsigned count, uint64_t stride);
/* A block with a status byte: begin returns what end wants. */
struct emitter_block {
    size_t at, body;
    unsigned minimum, fixups;
};
struct emitter_block emit_block_begin(struct emitter *emitter, enum capture_op op, unsigned r,
                                      const struct capture_operand *operand);
/* What the instructions since the fixup `from` have to know of what came behind them at their level. */
void emit_fixups(struct emitter *emitter, unsigned from);
void emit_block_end(struct emitter *emitter, struct emitter_block block);
/* A number for conditions: nine bytes; in between eight are emitted. */
struct emitter_block emit_number_begin(struct emitter *emitter);
void emit_number_end(struct emitter *emitter, struct emitter_block block, unsigned type);

/* Says where something is; instructions that find it out are emitted. May be called twice. */
typedef void emit_locate_fn(void *ctx, struct emitter *emitter, struct place *ret_place);
/* One field at the top: name, type and the instructions for it; what does not fit is left out and marked as such. */
void emit_field(struct emitter *emitter, const char *name, Dwarf_Die *type, emit_locate_fn *locate, void *ctx);

/* ---- capture/memo.c ---- */

/* The value of a field, if it was kept: emitted, or known to be more than there is room for. */
enum memo_answer { MEMO_NOTHING, MEMO_DONE, MEMO_TOO_MUCH };
enum memo_answer memo_field(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth);
/* Keeps what was emitted since `from`, when the emitter had seen nothing yet; or that it does not fit. */
void memo_field_keep(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth,
                     const struct emitter_mark *from, bool fits);

/* capture/types.c. depth: levels of pointers that are followed; nest: what it is inside of. */
void emit_type(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth, unsigned nest);
/* A block for what v[value] points to. */
void emit_followed(struct emitter *emitter, Dwarf_Die *type, unsigned value, unsigned depth, unsigned nest);
/* The bytes of a scalar as they are. */
void emit_bytes(struct emitter *emitter, const struct place *place, uint64_t size);
/* `bits` bits from bit `bit` of a place on, as a number of the type. */
void emit_bit_field(struct emitter *emitter, Dwarf_Die *type, const struct place *place, uint64_t bit, uint64_t bits);
/* In the order in which they lie in memory, the slowest first; UNKNOWN_COUNT where only the program knows. */
unsigned array_dimensions(Dwarf_Die *array, uint64_t *ret_counts, unsigned max);
/* Where a member is in its class: false if that is not a constant. Bit fields: *ret_bits is not 0. */
bool member_position(Dwarf_Die *member, uint64_t *ret_bit, uint64_t *ret_bits);
void emit_name(struct buf *text, const char *name);
void emit_quoted(struct buf *text, const char *name);
struct place place_at(const struct place *place, uint64_t offset); /* a part of memory */
/* Registers, constants and pieces as memory: spilled to scratch. */
struct place emit_place_in_memory(struct emitter *emitter, const struct place *place, uint64_t size);

/* ---- capture/abi.c ---- */

enum abi_class { ABI_NONE, ABI_INTEGER, ABI_SSE, ABI_SSEUP, ABI_MEMORY, ABI_X87, ABI_BY_ADDRESS };

struct abi_type {
    enum abi_class classes[2]; /* of the eightbytes; [0] is MEMORY, X87 or BY_ADDRESS for the whole */
    uint64_t size, align;
    uint8_t used[2]; /* bytes of the eightbytes that members have */
    bool wide;       /* 16 bytes of one vector register */
    bool aggregate;
    bool align_given; /* it is not worked out by the members */
    bool uncertain;   /* compilers differ, or it is not known what it is */
    bool on_x87;      /* as a result, though it is passed in memory */
};

void abi_classify(Dwarf_Die *type, struct abi_type *ret);
/* Whether all is known that size and alignment follow from: no member is of a class that is only declared. */
bool abi_is_whole(Dwarf_Die *type);

enum { ABI_LOST_INTEGERS = 1, ABI_LOST_FLOATS = 2, ABI_LOST_STACK = 4 };

struct abi_arguments { /* passing one after the other */
    unsigned integers, floats;
    uint64_t stack; /* bytes, from the first argument on the stack */
    bool clang;
    unsigned lost; /* of which it is not certain which ones are taken: ABI_LOST_ */
};

struct abi_place {
    bool unknown;    /* the ABI does not say it */
    bool doubted;    /* and what DWARF says of registers has been seen to be wrong */
    bool in_memory;  /* at stack */
    bool by_address; /* its address is in `registers[0]`, or at stack */
    uint64_t stack;  /* offset from rsp at the function's first instruction */
    unsigned count;  /* registers: DWARF numbers, 16-31 xmm */
    uint8_t registers[2];
    uint8_t used[2]; /* bytes in each */
    bool wide;       /* the one register has all */
    uint64_t size;
};

void abi_next(struct abi_arguments *arguments, const struct abi_type *type, struct abi_place *ret_place);
/* Whether the first register has the address to which the result is to be written. */
bool abi_has_hidden_pointer(const struct abi_type *result);
/* Registers of a result: 0 rax, 1 rdx, 16 xmm0, 17 xmm1; by_address: rax has its address; none if it is not known.
 * False: on the x87 stack. */
bool abi_result(const struct abi_type *type, struct abi_place *ret_place);

/* ---- capture/variables.c ---- */

struct capture_compiler {
    struct capture_options options;
    uint64_t bias;
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf *dwarf;
    Dwarf_Addr dwarf_bias; /* addresses in DWARF + dwarf_bias = addresses in the file */
    Dwarf_Addr cfi_bias[2];
    Dwarf_CFI *cfi[2];
    struct elf_code code;
    struct unit_entry *units; /* sorted; made at first need */
    size_t unit_count;
    bool units_known;
    struct type_index types;
    struct static_entry *statics;
    struct memo memo;
    struct share_entry *shared; /* blocks that were given out */
    struct layout_entry *layouts;
    struct site_entry *call_sites;  /* that were given out */
    struct code_entry *codes;       /* functions that were decoded */
    size_t codes_size;              /* bytes */
    struct content_entry *contents; /* scopes that were read */
    size_t contents_size;
};

/* The function that holds an address of the file. */
bool scopes_function(struct capture_compiler *compiler, uint64_t address, Dwarf_Die *ret_function);
/* The file of this address was compiled with -g1: lines, at most functions, too, but no variables and types. `function`
 * NULL: scopes_function() found none. */
bool scopes_lines_only(struct capture_compiler *compiler, uint64_t address, Dwarf_Die *function);
/* Why nothing is known of an address whose unit lies in a file of its own. False: it is not so. */
bool scopes_put_missing(struct capture_compiler *compiler, uint64_t address, struct buf *out);
uint64_t scopes_entry(struct capture_compiler *compiler, Dwarf_Die *function);
void scopes_done(struct capture_compiler *compiler);
size_t scopes_ranges(struct capture_compiler *compiler, Dwarf_Die *function, struct address_range *ret_ranges,
                     size_t max);

/* ---- capture/variables.c ---- */

/* Both are instances of one function. */
bool scopes_same(Dwarf_Die *a, Dwarf_Die *b);
/* What is around an inlined instance that holds pc: another one, or the function itself. */
void scopes_around(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *inlined,
                   Dwarf_Die *ret_around);
/* The inlined instance of `origin` (a concrete or abstract function) around pc in function; `any`: the innermost of
 * whatever. False: none. */
bool scopes_inlined(struct capture_compiler *compiler, Dwarf_Die *function, uint64_t pc, Dwarf_Die *origin,
                    Dwarf_Die *ret_inlined);
/* name: NULL for what has none. */
typedef void scopes_variable_fn(void *ctx, Dwarf_Die *variable, const char *name);
/* Parameters, in order; those of a C++ parameter pack to which the compiler gives no names are called "...". */
void scopes_parameters(struct capture_compiler *compiler, Dwarf_Die *scope, scopes_variable_fn *fn, void *ctx);
/* Local variables in scope at pc, outer ones first, without what an inner one hides. */
void scopes_locals(struct capture_compiler *compiler, Dwarf_Die *scope, uint64_t pc, scopes_variable_fn *fn, void *ctx);

/* What was read of scopes; variables_limit() drops it if it is too much. */
void variables_limit(struct capture_compiler *compiler);
void variables_done(struct capture_compiler *compiler);

/* ---- dwarf_location.c ---- */

struct location {
    struct capture_compiler *compiler;
    struct emitter *emitter;
    Dwarf_Die *function; /* whose frame base counts */
    uint64_t pc;         /* in the file */
    bool caller;         /* registers that calls destroy are not there */
    uint32_t unknown;    /* nor are these: bits by DWARF numbers */
    bool no_xmm;         /* nor are vector registers */
    bool start;          /* pc is a function's first instruction, and what counts is before its first statement */
    const struct place *object; /* in memory, that an attribute of a type is asked for; NULL: none */
    const struct track *entry;  /* for entry values; NULL: none */
    bool is_list;               /* set: the location was of a list, so it holds at this pc */
    bool constant;              /* set: no location but a value */
};

/* Where a variable is. Instructions that find it out are emitted; emitter->doubtful is set if they read memory. */
void location_variable(struct location *location, Dwarf_Die *variable, struct place *ret_place);
/* The canonical frame address at pc as register + offset. */
bool location_cfa(struct capture_compiler *compiler, uint64_t pc, uint8_t *ret_base, int64_t *ret_offset);
/* Fills in the depths of a function's accesses. */
void location_depths(struct capture_compiler *compiler, struct function_code *function);
/* The program that emits the caller's registers. False: the call frame information does not say it. */
bool location_unwind(struct capture_compiler *compiler, uint64_t pc, struct emitter *emitter);
/* An expression of DWARF as a place. */
void location_evaluate(struct location *location, const Dwarf_Op *ops, size_t count, Dwarf_Attribute *attribute,
                       struct place *ret_place);

/* ---- capture/indexes.c ---- */

/* Finds a variable by name; instructions that find out where it is are emitted. */
typedef bool numbers_find_fn(void *ctx, struct emitter *emitter, const char *name, size_t length, Dwarf_Die *ret_type,
                             struct place *ret_place);
/* Emits the nine bytes of an expression, or of `sizeof(...)`; indexes are calculated. False: it is not one, or of
 * nothing we know: CODE_MISSING was emitted and the reason is in *ret_problem. */
bool numbers_emit(struct emitter *emitter, const char *expression, numbers_find_fn *find, void *ctx,
                  struct number_problem *ret_problem);
/* What an expression means: where, and of which type; `address`: & was in front. Reads are emitted. Indexes are
 * integers. */
struct resolved {
    Dwarf_Die type;
    struct place place;
    uint64_t bit, bits; /* of a bit field: from the place's first byte on; bits 0: none */
    bool address;
};
bool numbers_resolve(struct emitter *emitter, const char *expression, numbers_find_fn *find, void *ctx,
                     struct resolved *ret_resolved, struct err *err);

/* ---- capture/memo.c ---- */

/* Appends a text with parts of it by their numbers: `id_of` gives the number of a part. 0 or -errno. */
int share_text(const char *text, share_text_fn *id_of, void *ctx, struct buf *out);
/* Appends such a text as that of layout `id` (symbols/layout/layout.h). 0 or -ENOMEM. */
int share_number(const char *text, uint32_t id, struct buf *out);
/* Takes the blocks of a finished program out that others may have, too; what is left is shorter. 0 or -ENOMEM. */
int share_blocks(struct share_entry **known, struct buf *code, const struct capture_output *output);
void share_done(struct share_entry **known);

/* ---- capture/compile.c ---- */

struct layout_entry { /* layouts that were given out */
    char *text;
    uint32_t id;
    UT_hash_handle hh;
};

struct site_entry {
    uint64_t address;
    UT_hash_handle hh;
};

/* As capture_compiler_new(), also for files without debug information: for their call frame information. */
int capture_compiler_open(struct capture_compiler **ret_compiler, const char *elf_path, uint64_t bias,
                          const struct capture_options *options, struct err *err);
/* Static variables that a function is captured with: of the source files in options.statics. */
struct site;
typedef void statics_fn(void *ctx, Dwarf_Die *variable, const char *name);
void statics_each(struct site *site, statics_fn *fn); /* ctx: the site */
/* A variable at a fixed address. */
bool variable_is_static(Dwarf_Die *variable);

/* ---- statics.c ---- */

bool die_is_named(Dwarf_Die *die, const char *name, size_t length);
/* The static variable NAME (DW_TAG_variable), or the type of the enumerator NAME (DW_TAG_enumeration_type), of the
 * unit, or of all units (NULL); NAME may have scopes, and file.c: or function: in front. */
bool statics_find(struct capture_compiler *compiler, Dwarf_Die *unit, int tag, const char *name, size_t length,
                  Dwarf_Die *ret_die);
/* That of a function. */
bool statics_find_in(Dwarf_Die *function, int tag, const char *name, size_t length, Dwarf_Die *ret_die);
void statics_done(struct capture_compiler *compiler);

/* Inside symbols: what the writers of values of all kinds of types share. */

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
/* A text of Fortran, whose length may be known only to the program. */
void emit_fortran_text(struct emitter *emitter, Dwarf_Die *type, const struct place *place);
/* An array of which only the program knows where it is, or how many elements it has. */
void emit_fortran_array(struct emitter *emitter, Dwarf_Die *type, const struct place *place, unsigned depth,
                        unsigned nest);
void emit_array(struct emitter *emitter, const struct array *array_of, const struct place *place, unsigned depth,
                unsigned nest);

#endif
