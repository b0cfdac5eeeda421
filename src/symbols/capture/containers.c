/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C++ library's containers as what is in them. They may not have been made yet, or be destroyed: before anything is
 * shown, what their members say of each other must agree (require()), or the whole is CAPTURE_ODD. Each is a block of
 * its own, so that a bad one costs nothing else. Here are those with one value or a few; capture/elements.c has those
 * with any number.
 */
#include <string.h>

#include "symbols/capture/container_values.h"

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
