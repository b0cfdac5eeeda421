/* SPDX-License-Identifier: Apache-2.0 */
/* Containers with any number of elements: texts, arrays, bits, blocks of elements, nodes (capture/containers.c). */
#include <dwarf.h>

#include "symbols/capture/containers.h"

enum {
    NEST_LIMIT = 40,
    TEMPS_NEEDED = 14, /* of one container */
    BLOCKS_NEEDED = 6,
    CHAIN_LIMIT = 1000, /* nodes */
    SHORT_ROOM = 22,    /* libc++: bytes of characters in a string itself, without the end */
    LOCAL_ROOM = 15,    /* libstdc++ */
    WORD_BITS = 64,
};
#define UNKNOWN_MANY (UINT64_C(1) << 33) /* more than were counted: shown as the most that a count can be */

/* ---- elements ---- */

/* The alignment of a type; false: it is not known what all of it is made of. */
static bool alignment(struct container_job *job, Dwarf_Die *type, uint64_t *ret_align)
{
    Dwarf_Die stripped;
    struct abi_type abi;
    if (!type_strip(type, &stripped))
        return false;
    if (!type_complete(job->emitter->types, &stripped, &stripped)) {
        *ret_align = 8;
        return container_characters(&stripped) && type_container(&stripped);
    }
    abi_classify(&stripped, &abi);
    *ret_align = abi.align ? abi.align : 1;
    return abi_is_whole(&stripped);
}

static uint64_t aligned(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) / align * align;
}

struct element {
    Dwarf_Die first, second; /* keys and values, or only the first */
    uint64_t second_at, size;
    uint64_t align;
};

static bool class_of_strings_is_declared(struct container_job *job, Dwarf_Die *type, uint64_t *ret_size)
{
    Dwarf_Die stripped;
    const struct container *container = type_strip(type, &stripped) ? type_container(&stripped) : NULL;
    if (!container || type_size(&stripped) != 0)
        return false;
    *ret_size = container->shape == CONTAINER_SHORT_STRING ? 24 : 32;
    return true;
}

static uint64_t size_of(struct container_job *job, Dwarf_Die *type)
{
    Dwarf_Die stripped;
    uint64_t size;
    if (class_of_strings_is_declared(job, type, &size))
        return size;
    return type_strip(type, &stripped) && type_complete(job->emitter->types, &stripped, &stripped)
               ? type_size(&stripped)
               : 0;
}

static bool element_of(struct container_job *job, struct element *ret)
{
    uint64_t align = 1;
    if (!type_template_argument(job->type, 0, &ret->first) || !alignment(job, &ret->first, &ret->align))
        return false;
    ret->size = size_of(job, &ret->first);
    if (!(job->container->flags & KEYED))
        return ret->size > 0;
    if (!type_template_argument(job->type, 1, &ret->second) || !alignment(job, &ret->second, &align))
        return false;
    ret->second_at = aligned(ret->size, align);
    ret->align = align > ret->align ? align : ret->align;
    return ret->size > 0 && size_of(job, &ret->second) > 0;
}

/* A class of the program's own: shown as far as pointers are followed, for such classes may hold each other. */
static bool takes_depth(Dwarf_Die *type)
{
    Dwarf_Die stripped;
    return type_strip(type, &stripped) && type_kind_of(&stripped) == TYPE_STRUCT && !type_container(&stripped);
}

bool container_too_deep(struct container_job *job, bool takes)
{
    const struct emitter *emitter = job->emitter;
    return (takes && job->depth == 0) || emitter->blocks >= CAPTURE_BLOCKS - BLOCKS_NEEDED || job->nest > NEST_LIMIT ||
           emitter->temps + TEMPS_NEEDED > CAPTURE_TEMP + CAPTURE_TEMPS;
}

static void emit_element(struct container_job *job, struct element *element, const struct place *place, bool takes)
{
    unsigned depth = takes ? job->depth - 1 : job->depth;
    bool keyed = job->container->flags & KEYED;
    layout_put(job->emitter, keyed ? "m{:" : "");
    emit_type(job->emitter, &element->first, place, depth, job->nest + 1);
    if (!keyed)
        return;
    struct place second = place_at(place, element->second_at);
    layout_put(job->emitter, ",:");
    emit_type(job->emitter, &element->second, &second, depth, job->nest + 1);
    layout_put(job->emitter, "}");
}

/* So many, but none of them. */
static void emit_count(struct container_job *job, unsigned count)
{
    layout_put(job->emitter, "vr1");
    emit_counted(job->emitter, CAPTURE_ITEMS, constant(job, CAPTURE_LOWEST_ADDR), 0, count, 1);
}

/* Says where the next element is; instructions that go on behind it are emitted by `step`. */
typedef void locate_fn(struct container_job *job, const void *how, unsigned index, struct place *ret_place);
typedef void step_fn(struct container_job *job, const void *how);

static unsigned elements_wanted(struct container_job *job)
{
    unsigned array = job->emitter->options->array;
    return array < CHAIN_LIMIT ? array : CHAIN_LIMIT;
}

/* All elements: `count` is the value with their number. stride: from one to the next of what begins at v[begin]; 0: it
 * is an index, which begins at 0. */
static void emit_loop(struct container_job *job, struct element *element, unsigned begin, uint64_t stride,
                      unsigned count, locate_fn *locate, step_fn *step, const void *how)
{
    struct emitter *emitter = job->emitter;
    bool takes = takes_depth(&element->first) || ((job->container->flags & KEYED) && takes_depth(&element->second));
    if (container_too_deep(job, takes)) {
        emit_count(job, count);
        return;
    }
    struct emitter_mark mark = emitter_mark(emitter);
    struct capture_operand operand = {.stride = stride ? (uint32_t)stride : 1,
                                      .max = (uint16_t)elements_wanted(job),
                                      .count = (uint8_t)count,
                                      .indexed = stride == 0};
    layout_put(emitter, "v");
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_LOOP, begin, &operand);
    struct place at = {.kind = PLACE_MEMORY, .base = (uint8_t)begin};
    if (locate)
        locate(job, how, begin, &at);
    emit_element(job, element, &at, takes);
    bool nothing = emitter->minimum == 0;
    if (step)
        step(job, how);
    emit_block_end(emitter, block);
    if (nothing) {
        emitter_reset(emitter, &mark);
        emit_count(job, count);
    }
}

/* One after the other, from v[begin] on. */
static bool emit_contiguous(struct container_job *job, unsigned begin, unsigned count)
{
    struct emitter *emitter = job->emitter;
    struct element element;
    Dwarf_Die stripped;
    if (!element_of(job, &element) || element.size >= CAPTURE_ITEM_LIMIT || !type_strip(&element.first, &stripped))
        return false;
    struct emitter_mark mark = emitter_mark(emitter);
    layout_put(emitter, "v");
    if (type_is_scalar(&stripped) && layout_put_scalar(emitter, &stripped, element.size))
        emit_counted(emitter, CAPTURE_ITEMS, begin, emitter->options->array, count, element.size);
    else {
        emitter_reset(emitter, &mark);
        emit_loop(job, &element, begin, element.size, count, NULL, NULL, NULL);
    }
    return true;
}

/* ---- texts ---- */

static bool emit_characters(struct container_job *job, unsigned pointer, unsigned length, bool ends)
{
    struct emitter *emitter = job->emitter;
    unsigned size = container_characters(job->type);
    if (size == 1) {
        layout_put(emitter, "S");
        emit_counted(emitter, CAPTURE_BYTES, pointer, emitter->options->string, length, 1);
        return true;
    }
    if (size == 0 || !ends)
        return size != 0 && emit_contiguous(job, pointer, length);
    struct place value = {.kind = PLACE_REGISTER, .base = (uint8_t)pointer};
    layout_put(emitter, "s");
    emit_bytes(emitter, &value, 8);
    emit_expecting(emitter, CAPTURE_STRING, pointer, CAPTURE_STRING_N(emitter->options->string, size == 2 ? 1 : 2));
    return true;
}

/* libstdc++: { pointer, length, union { 16 bytes, capacity } } */
static bool emit_string(struct container_job *job)
{
    unsigned characters = container_characters(job->type);
    int pointer = word_at(job, 0, 8), length = word_at(job, 8, 8), capacity = word_at(job, 16, 8);
    if (pointer < 0 || length < 0 || characters == 0)
        return false;
    if (capacity >= 0 && !job->place->scratch) {
        unsigned room = (unsigned)capacity, local = copy_of(job, (unsigned)pointer);
        alu(job, local, CAPTURE_EQUAL, address_at(job, 16));
        unsigned elsewhere = is_not(job, copy_of(job, local));
        alu(job, room, CAPTURE_MUL, elsewhere);
        alu(job, room, CAPTURE_ADD, alu_n(job, local, CAPTURE_MUL, LOCAL_ROOM / characters));
        require_that(job, (unsigned)length, CAPTURE_AT_MOST, room);
    }
    return emit_characters(job, (unsigned)pointer, (unsigned)length, true);
}

/* libc++: a long one is { capacity and 1, length, pointer }, a short one { length * 2, characters } */
static bool emit_short_string(struct container_job *job)
{
    unsigned characters = container_characters(job->type);
    int first = word_at(job, 0, 8), length = word_at(job, 8, 8), pointer = word_at(job, 16, 8);
    if (first < 0 || length < 0 || pointer < 0 || characters == 0)
        return false;
    unsigned is_long = alu_n(job, copy_of(job, (unsigned)first), CAPTURE_AND, 1);
    unsigned is_short = is_not(job, copy_of(job, is_long));
    unsigned own = address_at(job, characters), short_length = copy_of(job, (unsigned)first);
    unsigned room = alu_n(job, (unsigned)first, CAPTURE_AND, ~UINT64_C(1));
    alu_n(job, alu_n(job, short_length, CAPTURE_AND, 0xff), CAPTURE_SHR, 1);
    alu(job, (unsigned)pointer, CAPTURE_MUL, is_long);
    alu(job, (unsigned)pointer, CAPTURE_ADD, alu(job, own, CAPTURE_MUL, is_short));
    alu(job, (unsigned)length, CAPTURE_MUL, is_long);
    alu(job, (unsigned)length, CAPTURE_ADD, alu(job, short_length, CAPTURE_MUL, is_short));
    alu(job, room, CAPTURE_MUL, is_long);
    alu(job, room, CAPTURE_ADD, alu_n(job, is_short, CAPTURE_MUL, SHORT_ROOM / characters));
    require_that(job, (unsigned)length, CAPTURE_AT_MOST, room);
    return emit_characters(job, (unsigned)pointer, (unsigned)length, true);
}

static bool emit_text_view(struct container_job *job)
{
    int pointer = load(job, 0), length = load(job, 1);
    return pointer >= 0 && length >= 0 && emit_characters(job, (unsigned)pointer, (unsigned)length, false);
}

/* ---- arrays ---- */

static bool emit_range(struct container_job *job)
{
    struct element element;
    int begin = load(job, 0), end = load(job, 1), room = load(job, 2);
    if (begin < 0 || end < 0 || !element_of(job, &element))
        return false;
    require_that(job, (unsigned)begin, CAPTURE_AT_MOST, (unsigned)end);
    if (room >= 0)
        require_that(job, (unsigned)end, CAPTURE_AT_MOST, (unsigned)room);
    alu(job, (unsigned)end, CAPTURE_SUB, (unsigned)begin);
    require(job, is_not(job, alu_n(job, copy_of(job, (unsigned)end), CAPTURE_MOD, element.size)), CAPTURE_ODD);
    alu_n(job, (unsigned)end, CAPTURE_DIV, element.size);
    return emit_contiguous(job, (unsigned)begin, (unsigned)end);
}

static bool number_of_template(Dwarf_Die *type, uint64_t *ret_number)
{
    Dwarf_Die child;
    if (dwarf_child(type, &child) != 0)
        return false;
    do
        if (dwarf_tag(&child) == DW_TAG_template_value_parameter)
            return die_number(&child, DW_AT_const_value, ret_number) && *ret_number != UINT64_MAX;
    while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

static bool emit_items(struct container_job *job)
{
    uint64_t number;
    int begin = load(job, 0), count = load(job, 1);
    if (count < 0 && number_of_template(job->type, &number))
        count = (int)constant(job, number);
    return begin >= 0 && count >= 0 && emit_contiguous(job, (unsigned)begin, (unsigned)count);
}

/* ---- bits ---- */

struct bits {
    unsigned words, from;
};

static bool emit_bits(struct container_job *job, const struct bits *bits, unsigned count)
{
    struct emitter *emitter = job->emitter;
    unsigned index = constant(job, 0);
    if (container_too_deep(job, false)) {
        emit_count(job, count);
        return true;
    }
    struct capture_operand operand = {
        .stride = 1, .max = (uint16_t)elements_wanted(job), .count = (uint8_t)count, .indexed = true};
    layout_put(emitter, "vb1");
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_LOOP, index, &operand);
    unsigned bit = compare(job, index, CAPTURE_ADD, bits->from);
    unsigned at = alu_n(job, alu_n(job, copy_of(job, bit), CAPTURE_DIV, WORD_BITS), CAPTURE_MUL, 8);
    unsigned word = load_from(job, alu(job, at, CAPTURE_ADD, bits->words), 0, 8);
    alu_n(job, bit, CAPTURE_MOD, WORD_BITS);
    alu_n(job, alu(job, word, CAPTURE_SHR, bit), CAPTURE_AND, 1);
    struct place value = {.kind = PLACE_REGISTER, .base = (uint8_t)word};
    emit_bytes(emitter, &value, 1);
    emit_block_end(emitter, block);
    return true;
}

static bool emit_bit_range(struct container_job *job)
{
    int begin = load(job, 0), end = load(job, 1), from = load(job, 2), to = load(job, 3);
    if (begin < 0 || end < 0 || from < 0 || to < 0)
        return false;
    require_that(job, (unsigned)begin, CAPTURE_AT_MOST, (unsigned)end);
    alu_n(job, alu(job, (unsigned)end, CAPTURE_SUB, (unsigned)begin), CAPTURE_MUL, 8);
    alu(job, (unsigned)end, CAPTURE_ADD, (unsigned)to);
    require_that(job, (unsigned)from, CAPTURE_AT_MOST, (unsigned)end);
    alu(job, (unsigned)end, CAPTURE_SUB, (unsigned)from);
    struct bits bits = {(unsigned)begin, (unsigned)from};
    return emit_bits(job, &bits, (unsigned)end);
}

static bool emit_bit_items(struct container_job *job)
{
    int begin = load(job, 0), count = load(job, 1), room = load(job, 2);
    if (begin < 0 || count < 0 || room < 0)
        return false;
    require_that(job, (unsigned)count, CAPTURE_AT_MOST, alu_n(job, (unsigned)room, CAPTURE_MUL, WORD_BITS));
    struct bits bits = {(unsigned)begin, constant(job, 0)};
    return emit_bits(job, &bits, (unsigned)count);
}

/* ---- blocks: a table of pointers to arrays of the same length ---- */

struct blocks {
    unsigned table, from;
    uint64_t length, size;
};

static void locate_in_block(struct container_job *job, const void *how, unsigned index, struct place *ret_place)
{
    const struct blocks *blocks = how;
    unsigned at = compare(job, index, CAPTURE_ADD, blocks->from), in = copy_of(job, at);
    alu_n(job, alu_n(job, at, CAPTURE_DIV, blocks->length), CAPTURE_MUL, 8);
    unsigned block = load_from(job, alu(job, at, CAPTURE_ADD, blocks->table), 0, 8);
    alu_n(job, alu_n(job, in, CAPTURE_MOD, blocks->length), CAPTURE_MUL, blocks->size);
    ret_place->base = (uint8_t)alu(job, block, CAPTURE_ADD, in);
    job->emitter->temps = block + 1;
}

/* libstdc++: iterators are { element, its block's begin, end, place in the table } */
static bool emit_deque(struct container_job *job)
{
    enum { BLOCK_BYTES = 512 };
    static const char *const names[] = {"_M_start._M_cur",  "_M_start._M_first",  "_M_start._M_node",
                                        "_M_finish._M_cur", "_M_finish._M_first", "_M_finish._M_node"};
    struct element element;
    int v[6];
    if (!element_of(job, &element))
        return false;
    for (unsigned i = 0; i < 6; i++)
        if ((v[i] = load_member(job, names[i])) < 0)
            return false;
    unsigned from = (unsigned)v[0], first = (unsigned)v[1], table = (unsigned)v[2], to = (unsigned)v[3];
    struct blocks blocks = {table, from, element.size < BLOCK_BYTES ? BLOCK_BYTES / element.size : 1, element.size};
    for (unsigned i = 0; i < 2; i++) { /* both iterators are what the table says */
        unsigned temps = job->emitter->temps;
        unsigned cur = (unsigned)v[3 * i], begin = (unsigned)v[3 * i + 1], node = (unsigned)v[3 * i + 2];
        unsigned there = load_from(job, node, 0, 8);
        require_that(job, there, CAPTURE_EQUAL, begin);
        require_that(job, begin, CAPTURE_AT_MOST, cur);
        alu(job, cur, CAPTURE_SUB, begin);
        alu_n(job, cur, CAPTURE_DIV, element.size);
        require_that(job, cur, CAPTURE_AT_MOST, constant(job, blocks.length));
        job->emitter->temps = temps;
    }
    unsigned last = (unsigned)v[5];
    require_that(job, table, CAPTURE_AT_MOST, last);
    alu_n(job, alu(job, last, CAPTURE_SUB, table), CAPTURE_DIV, 8);
    alu_n(job, last, CAPTURE_MUL, blocks.length);
    alu(job, to, CAPTURE_ADD, last);
    require_that(job, from, CAPTURE_AT_MOST, to);
    alu(job, to, CAPTURE_SUB, from);
    job->emitter->temps = to + 1;
    emit(job->emitter, CAPTURE_LEA, first, table, 0); /* values that are no longer needed make room */
    emit_constant(job->emitter, table, 0);
    blocks.table = first;
    emit_loop(job, &element, table, 0, to, locate_in_block, NULL, &blocks);
    return true;
}

/* libc++ */
static bool emit_blocks(struct container_job *job)
{
    enum { BLOCK_BYTES = 4096, SMALL = 256, FEW = 16 };
    struct element element;
    int table = load(job, 0), end = load(job, 1), from = load(job, 2), count = load(job, 3);
    if (table < 0 || end < 0 || from < 0 || count < 0 || !element_of(job, &element))
        return false;
    struct blocks blocks = {(unsigned)table, (unsigned)from, element.size < SMALL ? BLOCK_BYTES / element.size : FEW,
                            element.size};
    require_that(job, (unsigned)table, CAPTURE_AT_MOST, (unsigned)end);
    alu_n(job, alu(job, (unsigned)end, CAPTURE_SUB, (unsigned)table), CAPTURE_DIV, 8);
    alu_n(job, (unsigned)end, CAPTURE_MUL, blocks.length);
    require_that(job, (unsigned)count, CAPTURE_AT_MOST, (unsigned)end);
    unsigned temps = job->emitter->temps;
    unsigned behind = compare(job, (unsigned)count, CAPTURE_ADD, (unsigned)from);
    require_that(job, behind, CAPTURE_AT_MOST, (unsigned)end);
    job->emitter->temps = temps;
    emit_constant(job->emitter, (unsigned)end, 0);
    emit_loop(job, &element, (unsigned)end, 0, (unsigned)count, locate_in_block, NULL, &blocks);
    return true;
}

/* ---- nodes ---- */

struct nodes {
    unsigned node, end;
    uint64_t value_at;
};

static void locate_in_node(struct container_job *job, const void *how, unsigned index, struct place *ret_place)
{
    const struct nodes *nodes = how;
    if (job->container->shape == CONTAINER_TREE) {
        unsigned temps = job->emitter->temps;
        require(job, is_not(job, compare(job, nodes->node, CAPTURE_EQUAL, nodes->end)), CAPTURE_ODD);
        job->emitter->temps = temps;
    }
    ret_place->base = (uint8_t)nodes->node;
    ret_place->offset = (int64_t)nodes->value_at;
}

static void step_node(struct container_job *job, const void *how)
{
    const struct nodes *nodes = how;
    const uint8_t *links = job->container->links;
    if (job->container->shape == CONTAINER_TREE)
        emit(job->emitter, CAPTURE_NEXT, nodes->node, nodes->end, links[0] | links[1] << 8 | links[2] << 16);
    else
        emit(job->emitter, CAPTURE_LOAD, nodes->node, 8U << 8 | nodes->node, links[0]);
}

static bool emit_nodes(struct container_job *job, struct nodes *nodes, unsigned count)
{
    struct element element;
    if (!element_of(job, &element))
        return false;
    nodes->value_at = aligned(job->container->head, element.align);
    emit_loop(job, &element, constant(job, 0), 0, count, locate_in_node, step_node, nodes);
    return true;
}

/* The number of nodes up to the end must be the one that the list says, as far as they are looked at. */
static bool emit_list(struct container_job *job)
{
    struct place first;
    if (!member_at(job, job->container->members[0], &first, NULL))
        return false;
    int node = emit_load(job->emitter, &first, 8), count = job->container->members[1] ? load(job, 1) : -1;
    if (node < 0 || (count < 0 && job->container->members[1]) || job->place->scratch)
        return false;
    unsigned limit = elements_wanted(job) + 1, end = constant(job, 0), links = copy_of(job, (unsigned)node);
    if (job->container->flags & CIRCLE) /* to the node that the first member is a link of */
        emit(job->emitter, CAPTURE_LEA, end, first.base, first.offset - job->container->links[0]);
    emit(job->emitter, CAPTURE_CHAIN, links, end << 10 | limit, job->container->links[0]);
    unsigned most = constant(job, limit), whole;
    if (count < 0) {
        count = (int)links;
        whole = compare(job, links, CAPTURE_EQUAL, most);
        alu(job, links, CAPTURE_ADD, alu_n(job, whole, CAPTURE_MUL, UNKNOWN_MANY));
    } else { /* the lesser of the two */
        whole = compare(job, (unsigned)count, CAPTURE_AT_MOST, most);
        unsigned expected = compare(job, (unsigned)count, CAPTURE_MUL, whole);
        alu(job, is_not(job, whole), CAPTURE_MUL, most);
        alu(job, expected, CAPTURE_ADD, whole);
        require_that(job, expected, CAPTURE_EQUAL, links);
    }
    struct nodes nodes = {.node = (unsigned)node};
    job->emitter->temps = (unsigned)(count > node ? count : node) + 1;
    return emit_nodes(job, &nodes, (unsigned)count);
}

/* The root leads back to the node before all, and there is one if there are elements. */
static bool emit_tree(struct container_job *job)
{
    struct place end_at, root_at;
    if (!member_at(job, job->container->members[0], &end_at, NULL) ||
        !member_at(job, job->container->members[2], &root_at, NULL) || job->place->scratch)
        return false;
    int first = load(job, 1), count = load(job, 3);
    if (first < 0 || count < 0)
        return false;
    unsigned end = emit_temp(job->emitter), temps = job->emitter->temps, parent = job->container->links[2];
    emit(job->emitter, CAPTURE_LEA, end, end_at.base, end_at.offset);
    int root = emit_load(job->emitter, &root_at, 8);
    unsigned empty = is_not(job, copy_of(job, (unsigned)root));
    unsigned none = is_not(job, copy_of(job, (unsigned)count));
    require_that(job, empty, CAPTURE_EQUAL, none);
    /* without a root, its own place is read, which holds 0 */
    unsigned at = emit_temp(job->emitter);
    emit(job->emitter, CAPTURE_LEA, at, root_at.base, root_at.offset - parent);
    alu(job, at, CAPTURE_MUL, empty);
    unsigned back = load_from(job, alu(job, at, CAPTURE_ADD, (unsigned)root), parent, 8);
    unsigned expected = compare(job, end, CAPTURE_MUL, is_not(job, empty));
    require_that(job, back, CAPTURE_EQUAL, expected);
    job->emitter->temps = temps;
    struct nodes nodes = {.node = (unsigned)first, .end = end};
    return emit_nodes(job, &nodes, (unsigned)count);
}

bool emit_elements_of(struct container_job *job)
{
    switch (job->container->shape) {
    case CONTAINER_STRING:
        return emit_string(job);
    case CONTAINER_SHORT_STRING:
        return emit_short_string(job);
    case CONTAINER_TEXT:
        return emit_text_view(job);
    case CONTAINER_RANGE:
        return emit_range(job);
    case CONTAINER_COUNTED:
        return emit_items(job);
    case CONTAINER_BIT_RANGE:
        return emit_bit_range(job);
    case CONTAINER_BITS:
        return emit_bit_items(job);
    case CONTAINER_DEQUE:
        return emit_deque(job);
    case CONTAINER_BLOCKS:
        return emit_blocks(job);
    case CONTAINER_LIST:
        return emit_list(job);
    case CONTAINER_TREE:
        return emit_tree(job);
    default:
        return false;
    }
}
