/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/capture/containers.h"

#include <ctype.h>
#include <dwarf.h>
#include <stdio.h>
#include <string.h>

/*
 * The C++ library's containers: a row for each and library, with the members that lead to what is in it. Members are
 * looked for by name in the class, its bases and its members, so rows hold from one version to the next as long as the
 * names do; a class that has other ones is an ordinary class. Sources: the headers of libstdc++ 12 and libc++ 14.
 */

/* A row for libstdc++ comes before the one for libc++. What is special comes before what is general. */
static const struct container containers[] = {
    {"basic_string", CONTAINER_STRING, OWNS, {"_M_p", "_M_string_length", "_M_local_buf"}},
    {"basic_string", CONTAINER_SHORT_STRING, OWNS, {"__r_"}},
    {"basic_string_view", CONTAINER_TEXT, 0, {"_M_str", "_M_len"}},
    {"basic_string_view", CONTAINER_TEXT, 0, {"__data", "__size"}},
    {"basic_string_view", CONTAINER_TEXT, 0, {"__data_", "__size_"}},
    {"vector",
     CONTAINER_BIT_RANGE,
     OWNS,
     {"_M_start._M_p", "_M_finish._M_p", "_M_start._M_offset", "_M_finish._M_offset"}},
    {"vector", CONTAINER_BITS, OWNS | OF_BOOL, {"__begin_", "__size_", "__cap_alloc_.__value_"}},
    {"vector", CONTAINER_RANGE, OWNS, {"_M_start", "_M_finish", "_M_end_of_storage"}},
    {"vector", CONTAINER_RANGE, OWNS, {"__begin_", "__end_", "__end_cap_.__value_"}},
    {"span", CONTAINER_COUNTED, 0, {"_M_ptr", "_M_extent_value"}},
    {"span", CONTAINER_COUNTED, 0, {"__data", "__size"}},
    {"span", CONTAINER_COUNTED, 0, {"__data_", "__size_"}},
    {"initializer_list", CONTAINER_COUNTED, 0, {"_M_array", "_M_len"}},
    {"initializer_list", CONTAINER_COUNTED, 0, {"__begin_", "__size_"}},
    {"deque", CONTAINER_DEQUE, OWNS, {"_M_start", "_M_finish"}},
    {"deque", CONTAINER_BLOCKS, OWNS, {"__map_.__begin_", "__map_.__end_", "__start_", "__size_.__value_"}},

    /* what nodes are like: the value behind so many bytes, links at */
    {"list", CONTAINER_LIST, OWNS | CIRCLE, {"_M_next", "_M_size"}, 16, {0}},
    {"list", CONTAINER_LIST, OWNS | CIRCLE, {"_M_next"}, 16, {0}},
    {"list", CONTAINER_LIST, OWNS | CIRCLE, {"__end_.__next_", "__size_alloc_.__value_"}, 16, {8}},
    {"forward_list", CONTAINER_LIST, OWNS, {"_M_next"}, 8, {0}},
    {"forward_list", CONTAINER_LIST, OWNS, {"__before_begin_.__next_"}, 8, {0}},
#define HASHED(name, more) \
    {name, CONTAINER_LIST, OWNS | (more), {"_M_before_begin._M_nxt", "_M_element_count"}, 8, {0}}, \
    { \
        name, CONTAINER_LIST, OWNS | (more), {"__p1_.__next_", "__p2_.__value_"}, 16, \
        { \
            0 \
        } \
    }
    HASHED("unordered_map", KEYED),
    HASHED("unordered_multimap", KEYED),
    HASHED("unordered_set", 0),
    HASHED("unordered_multiset", 0),
#define TREE(name, more) \
    {name, CONTAINER_TREE, OWNS | (more), {"_M_header", "_M_header._M_left", "_M_header._M_parent", "_M_node_count"}, \
     32,   {16, 24, 8}}, \
    { \
        name, CONTAINER_TREE, OWNS | (more), {"__pair1_", "__begin_node_", "__pair1_.__left_", "__pair3_.__value_"}, \
            25, \
        { \
            0, 8, 16 \
        } \
    }
    TREE("map", KEYED),
    TREE("multimap", KEYED),
    TREE("set", 0),
    TREE("multiset", 0),

    {"optional", CONTAINER_OPTIONAL, 0, {"_M_payload._M_payload", "_M_engaged"}},
    {"optional", CONTAINER_OPTIONAL, 0, {"__val_", "__engaged_"}},
    {"variant", CONTAINER_VARIANT, 0, {"_M_u", "_M_index"}},
    {"variant", CONTAINER_VARIANT, 0, {"__data", "__index"}},
    {"tuple", CONTAINER_TUPLE, 0, {"~_Head_base<%u", "_M_head_impl"}},
    {"tuple", CONTAINER_TUPLE, 0, {"~__tuple_leaf<%u", "__value_"}},
    {"function", CONTAINER_FUNCTION, OWNS, {"_M_manager", "_M_invoker", "_M_functor"}},
    {"function", CONTAINER_VIRTUAL_FUNCTION, OWNS, {"__f_.__f_"}},
    {"unique_ptr", CONTAINER_POINTER, OWNS, {"~_Head_base<0._M_head_impl"}},
    {"unique_ptr", CONTAINER_POINTER, OWNS, {"__ptr_.__value_"}},
    {"weak_ptr", CONTAINER_WEAK, OWNS, {"_M_ptr", "_M_pi"}, 4, {8}},
    {"weak_ptr", CONTAINER_WEAK, OWNS, {"__ptr_", "__cntrl_"}, 8, {8}},
    {"shared_ptr", CONTAINER_POINTER, OWNS, {"_M_ptr"}},
    {"shared_ptr", CONTAINER_POINTER, OWNS, {"__ptr_"}},
    {"reference_wrapper", CONTAINER_POINTER, 0, {"_M_data"}},
    {"reference_wrapper", CONTAINER_POINTER, 0, {"__f_"}},
    {"array", CONTAINER_FIELD, 0, {"_M_elems"}},
    {"array", CONTAINER_FIELD, 0, {"__elems_"}},
    {"atomic", CONTAINER_FIELD, 0, {"_M_i"}},
    {"atomic", CONTAINER_FIELD, 0, {"_M_p"}},
    {"atomic", CONTAINER_FIELD, 0, {"__a_value"}},
    {"stack", CONTAINER_FIELD, 0, {"c"}},
    {"queue", CONTAINER_FIELD, 0, {"c"}},
    {"priority_queue", CONTAINER_FIELD, 0, {"c"}},
};

static bool is_member(Dwarf_Die *die)
{
    return dwarf_tag(die) == DW_TAG_member && !die_flag(die, DW_AT_external) && !die_flag(die, DW_AT_declaration);
}

static bool is_called(Dwarf_Die *die, const char *name, size_t length)
{
    if (*name == '~') { /* a base class, whose first argument is a number, perhaps with a suffix */
        Dwarf_Die type;
        const char *base = dwarf_tag(die) == DW_TAG_inheritance && type_of(die, &type) ? die_name(&type) : NULL;
        return base && strncmp(base, name + 1, length - 1) == 0 && !isdigit((unsigned char)base[length - 1]);
    }
    const char *there = is_member(die) ? dwarf_diename(die) : NULL;
    return there && strlen(there) == length && memcmp(there, name, length) == 0;
}

enum { NEST = 16 };

/* The nearest of that name: in the class itself, then in what is in it, in order. Adds where it is. */
static bool container_find(Dwarf_Die *type, const char *name, size_t length, unsigned nest, Dwarf_Die *ret_type,
                           uint64_t *offset)
{
    Dwarf_Die stripped, first, child;
    uint64_t bit, bits;
    if (nest > NEST || !type_strip(type, &stripped) || dwarf_child(&stripped, &first) != 0)
        return false;
    child = first;
    do
        if (is_called(&child, name, length) && member_position(&child, &bit, &bits) && type_of(&child, ret_type)) {
            *offset += bit / 8;
            return true;
        }
    while (dwarf_siblingof(&child, &child) == 0);
    child = first;
    do {
        Dwarf_Die inner;
        uint64_t at = *offset;
        if ((dwarf_tag(&child) != DW_TAG_inheritance && !is_member(&child)) || !type_of(&child, &inner) ||
            !type_strip(&inner, &inner) || !member_position(&child, &bit, &bits))
            continue;
        enum type_kind kind = type_kind_of(&inner);
        at += bit / 8;
        if ((kind == TYPE_STRUCT || kind == TYPE_UNION) &&
            container_find(&inner, name, length, nest + 1, ret_type, &at)) {
            *offset = at;
            return true;
        }
    } while (dwarf_siblingof(&child, &child) == 0);
    return false;
}

bool container_member(Dwarf_Die *type, const char *path, Dwarf_Die *ret_type, uint64_t *ret_offset)
{
    Dwarf_Die at = *type;
    uint64_t offset = 0;
    for (const char *name = path; *name;) {
        size_t length = strcspn(name, ".");
        Dwarf_Die next;
        if (!container_find(&at, name, length, 0, &next, &offset))
            return false;
        at = next;
        name += length + (name[length] == '.');
    }
    *ret_type = at;
    *ret_offset = offset;
    return true;
}

/* Of a class that is only declared here, as clang has those that the library instantiates, the name has to do. */
static const struct container *container_declared(const char *name)
{
    bool libcxx = strstr(name, "std::__1::") || strstr(name, "std::__ndk1::");
    return strncmp(name, "basic_string<", 13) != 0 ? NULL : &containers[libcxx ? 1 : 0];
}

/* A member's path with a number in it. */
static void container_path(char *ret_path, size_t size, const char *member, unsigned number)
{
    const char *mark = strstr(member, "%u");
    if (mark)
        snprintf(ret_path, size, "%.*s%u%s", (int)(mark - member), member, number, mark + 2);
    else
        snprintf(ret_path, size, "%s", member);
}

const struct container *type_container(Dwarf_Die *stripped)
{
    enum type_kind kind = type_kind_of(stripped);
    const char *name = kind == TYPE_STRUCT ? die_name(stripped) : NULL;
    size_t length = name ? strcspn(name, "<") : 0;
    Dwarf_Die type;
    uint64_t offset;
    if (!name || !name[length])
        return NULL;
    if (die_flag(stripped, DW_AT_declaration))
        return container_declared(name);
    for (size_t i = 0; i < sizeof containers / sizeof *containers; i++) {
        const struct container *container = &containers[i];
        char first[64];
        if (strlen(container->name) != length || memcmp(container->name, name, length) != 0)
            continue;
        container_path(first, sizeof first, container->members[0], 0);
        bool found = container_member(stripped, first, &type, &offset);
        if (found && container->flags & OF_BOOL)
            found = type_template_argument(stripped, 0, &type) && type_strip(&type, &type) &&
                    type_kind_of(&type) == TYPE_BOOL;
        if (found && container->shape == CONTAINER_LIST && container->members[1])
            found = container_member(stripped, container->members[1], &type, &offset);
        if (found)
            return container;
    }
    return NULL;
}

unsigned container_characters(Dwarf_Die *stripped)
{
    static const struct {
        const char *name;
        unsigned size;
    } characters[] = {{"char,", 1}, {"wchar_t,", 4}, {"char16_t,", 2}, {"char32_t,", 4}, {"char8_t,", 1}};
    const char *name = die_name(stripped);
    name = name ? name + strcspn(name, "<") : "";
    for (size_t i = 0; *name && i < sizeof characters / sizeof *characters; i++)
        if (strncmp(name + 1, characters[i].name, strlen(characters[i].name)) == 0)
            return characters[i].size;
    return 0;
}

bool container_owns(const struct container *container)
{
    return container && container->flags & OWNS;
}

bool container_pointer(Dwarf_Die *stripped, bool indexed, uint64_t *ret_offset, Dwarf_Die *ret_element)
{
    const struct container *container = type_container(stripped);
    Dwarf_Die member, argument;
    return container && container->shape == (indexed ? CONTAINER_RANGE : CONTAINER_POINTER) &&
           container_member(stripped, container->members[0], &member, ret_offset) &&
           type_template_argument(stripped, 0, ret_element) && type_strip(ret_element, &argument) &&
           type_kind_of(&argument) != TYPE_ARRAY;
}

/*
 * The C++ library's containers as what is in them. They may not have been made yet, or be destroyed: before anything is
 * shown, what their members say of each other must agree (require()), or the whole is CAPTURE_ODD. Each is a block of
 * its own, so that a bad one costs nothing else. Here are those with one value or a few; capture/elements.c has those
 * with any number.
 */

enum {
    ALTERNATIVES = 64,
    VIRTUAL_CALL = 6 * 8, /* libc++: where operator() is among a function object's virtual functions */
};

/* ---- one value, or none ---- */

static struct emitter_block begin_alternative(struct container_job *job)
{
    layout_put(job->emitter, ":?");
    return emit_block_begin(job->emitter, CAPTURE_TRY, 1, NULL);
}

static bool emit_optional(struct container_job *job)
{
    struct place value;
    Dwarf_Die type;
    if (!type_template_argument(job->type, 0, &type) || !member_at(job, job->container->members[0], &value, NULL))
        return false;
    layout_put(job->emitter, "^nullopt{");
    struct emitter_block block = begin_alternative(job);
    int engaged = load(job, 1);
    if (engaged < 0)
        return false;
    require_that(job, (unsigned)engaged, CAPTURE_AT_MOST, constant(job, 1));
    require(job, (unsigned)engaged, CAPTURE_ABSENT);
    emit_type(job->emitter, &type, &value, job->depth, job->nest + 1);
    emit_block_end(job->emitter, block);
    layout_put(job->emitter, "}");
    return true;
}

static bool emit_variant(struct container_job *job)
{
    struct place values, index_at;
    Dwarf_Die type, index_type;
    unsigned count = 0;
    if (!member_at(job, job->container->members[0], &values, NULL) ||
        !member_at(job, job->container->members[1], &index_at, &index_type))
        return false;
    while (count < ALTERNATIVES && type_template_argument(job->type, count, &type))
        count++;
    uint64_t size = type_size(&index_type), none = size < 8 ? (UINT64_C(1) << size * 8) - 1 : UINT64_MAX;
    layout_put(job->emitter, "^valueless{");
    for (unsigned i = 0; i < count && type_template_argument(job->type, i, &type); i++) {
        unsigned temps = job->emitter->temps;
        layout_put(job->emitter, i > 0 ? "," : "");
        struct emitter_block block = begin_alternative(job);
        int index = emit_load(job->emitter, &index_at, (unsigned)size);
        if (index < 0)
            return false;
        if (i == 0) {
            unsigned good = compare(job, (unsigned)index, CAPTURE_AT_MOST, constant(job, count - 1));
            alu(job, good, CAPTURE_OR, compare(job, (unsigned)index, CAPTURE_EQUAL, constant(job, none)));
            require(job, good, CAPTURE_ODD);
        }
        require(job, alu_n(job, (unsigned)index, CAPTURE_EQUAL, i), CAPTURE_ABSENT);
        job->emitter->temps = temps;
        emit_type(job->emitter, &type, &values, job->depth, job->nest + 1);
        emit_block_end(job->emitter, block);
    }
    layout_put(job->emitter, "}");
    return count > 0;
}

static bool emit_function(struct container_job *job)
{
    layout_put(job->emitter, "^empty{");
    struct emitter_block block = begin_alternative(job);
    int any = load(job, 0), code, target;
    if (any < 0)
        return false;
    require(job, (unsigned)any, CAPTURE_ABSENT);
    if (job->container->shape == CONTAINER_FUNCTION) {
        code = load(job, 1);
        target = load(job, 2);
    } else {
        code = (int)load_from(job, load_from(job, (unsigned)any, 0, 8), VIRTUAL_CALL, 8);
        target = (int)load_from(job, (unsigned)any, 8, 8);
    }
    if (code < 0 || target < 0)
        return false;
    struct place caller = {.kind = PLACE_REGISTER, .base = (uint8_t)code};
    struct place value = {.kind = PLACE_REGISTER, .base = (uint8_t)target};
    layout_put(job->emitter, "g");
    emit_bytes(job->emitter, &caller, 8);
    emit_bytes(job->emitter, &value, 8);
    emit_block_end(job->emitter, block);
    layout_put(job->emitter, "}");
    return true;
}

/* ---- others ---- */

static bool emit_tuple(struct container_job *job)
{
    Dwarf_Die base, member;
    char path[64];
    layout_put(job->emitter, "{");
    for (unsigned i = 0; i < ALTERNATIVES; i++) { /* gcc leaves out some templates' arguments */
        uint64_t offset, inside = 0;
        container_path(path, sizeof path, job->container->members[0], i);
        if (!container_member(job->type, path, &base, &offset))
            break;
        if (!container_member(&base, job->container->members[1], &member, &inside))
            member = base; /* of an empty class, which it is itself */
        struct place at = place_at(job->place, offset + inside);
        layout_put(job->emitter, i > 0 ? ",:" : ":");
        emit_type(job->emitter, &member, &at, job->depth, job->nest + 1);
    }
    layout_put(job->emitter, "}");
    return true;
}

static bool emit_smart_pointer(struct container_job *job)
{
    struct place at;
    Dwarf_Die type, stripped;
    if (!type_template_argument(job->type, 0, &type) || !member_at(job, job->container->members[0], &at, NULL))
        return false;
    bool array = type_strip(&type, &stripped) && type_kind_of(&stripped) == TYPE_ARRAY;
    emit_pointer(job->emitter, &type, !array, &at, false, job->depth, job->nest);
    return true;
}

/* The counts are { virtual functions, owners }: libc++ counts owners from -1 on. */
static bool emit_weak_pointer(struct container_job *job)
{
    struct emitter *emitter = job->emitter;
    layout_put(emitter, "^expired{");
    unsigned temps = emitter->temps;
    struct emitter_block block = begin_alternative(job);
    int counts = load(job, 1);
    if (counts < 0)
        return false;
    require(job, (unsigned)counts, CAPTURE_ABSENT);
    unsigned owners = load_from(job, (unsigned)counts, job->container->links[0], job->container->head);
    require(job, is_not(job, alu_n(job, owners, CAPTURE_EQUAL, job->container->head == 8 ? UINT64_MAX : 0)),
            CAPTURE_ABSENT);
    emitter->temps = temps;
    bool good = emit_smart_pointer(job);
    emit_block_end(emitter, block);
    layout_put(emitter, "}");
    return good;
}

static bool emit_only_field(struct container_job *job)
{
    struct place at;
    Dwarf_Die type;
    uint64_t offset;
    if (!container_member(job->type, job->container->members[0], &type, &offset))
        return false;
    at = place_at(job->place, offset);
    emit_type(job->emitter, &type, &at, job->depth, job->nest + 1);
    return true;
}

static bool emit_shape(struct container_job *job)
{
    switch (job->container->shape) {
    case CONTAINER_OPTIONAL:
        return emit_optional(job);
    case CONTAINER_VARIANT:
        return emit_variant(job);
    case CONTAINER_TUPLE:
        return emit_tuple(job);
    case CONTAINER_FUNCTION:
    case CONTAINER_VIRTUAL_FUNCTION:
        return emit_function(job);
    case CONTAINER_POINTER:
        return emit_smart_pointer(job);
    case CONTAINER_WEAK:
        return emit_weak_pointer(job);
    case CONTAINER_FIELD:
        return emit_only_field(job);
    default:
        return emit_elements_of(job);
    }
}

/* Those that check themselves want a block around them. */
static bool wants_block(enum container_shape shape)
{
    return shape <= CONTAINER_TREE && shape != CONTAINER_TEXT && shape != CONTAINER_COUNTED;
}

void emit_container(struct emitter *emitter, const struct container *container, Dwarf_Die *type,
                    const struct place *place, unsigned depth, unsigned nest)
{
    struct container_job job = {emitter, container, type, place, depth, nest};
    struct emitter_mark mark = emitter_mark(emitter);
    unsigned temps = emitter->temps;
    bool block_wanted = wants_block(container->shape), good = !container_too_deep(&job, false);
    if (good) {
        struct emitter_block block = {0};
        if (block_wanted) {
            layout_put(emitter, "?");
            block = emit_block_begin(emitter, CAPTURE_TRY, 1, NULL);
        }
        good = emit_shape(&job);
        if (block_wanted && good)
            emit_block_end(emitter, block);
    }
    if (!good) {
        bool failed = emitter->failed;
        emitter_reset(emitter, &mark);
        emitter->failed = failed;
        layout_put_missing(emitter, place->missing[0] || place->missing[1] ? PLACE_OPTIMISED_OUT : PLACE_NOT_AVAILABLE);
    }
    emitter->temps = temps;
}
