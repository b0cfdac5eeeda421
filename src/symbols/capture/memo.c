/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of programs, compiled once. The same types stand behind the variables of most functions of a program, and
 * going through them takes nearly all of the time. What a pointer leads to is the same again where the same registers
 * are free: it names no addresses, and its jumps are lengths. A field is the same again where the variable lies in the
 * same place, as it does at most calls that one function makes.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/capture/values.h"

enum { MEMO_LIMIT = 128 << 20 /* bytes */ };

struct memo_key { /* no padding: it is compared as bytes */
    uintptr_t type;
    int64_t offset; /* the place */
    uint64_t constant;
    uint8_t kind, base, frame, size;
    uint8_t temps, scratch, blocks, field; /* field: else what a pointer leads to */
    uint32_t depth, nest;
};

struct room {
    size_t text, code, bytes;
};

struct memo_entry {
    struct memo_key key;
    bool failed, wants_xmm;
    bool generous;    /* failed: arrays took more than they do where less is left */
    struct room room; /* so much it takes; failed: so much was left, and it was too little */
    unsigned minimum, temps_used, scratch_used, fixup_count;
    size_t code_size, text_size, text_shared;
    UT_hash_handle hh;
    char content[]; /* fixups, from the piece's beginning on; code, text */
};

static size_t left(size_t limit, size_t used)
{
    return limit > used ? limit - used : 0;
}

static unsigned more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static struct room room_at(const struct emitter *emitter, size_t text, size_t code, unsigned minimum)
{
    return (struct room){left(emitter->text_limit, text), left(emitter->code_limit, code),
                         left(emitter->options->bytes, minimum)};
}

static struct room room_now(const struct emitter *emitter)
{
    return room_at(emitter, emitter->text.len, emitter->code.len, emitter->minimum);
}

static bool is_within(const struct room *small, const struct room *large)
{
    return small->text <= large->text && small->code <= large->code && small->bytes <= large->bytes;
}

static size_t size_of(const struct memo_entry *entry)
{
    return sizeof *entry + entry->fixup_count * sizeof(struct fixup) + entry->code_size + entry->text_size;
}

/* What was emitted since `from`, or that it failed. */
static void remember(struct emitter *emitter, struct memo_entry *what, const struct emitter_mark *from)
{
    struct memo *memo = emitter->memo;
    if (!what->failed) {
        what->fixup_count = emitter->fixup_count - from->fixup_count;
        what->code_size = emitter->code.len - from->code;
        what->text_size = emitter->text.len - from->text;
    }
    size_t size = size_of(what);
    struct memo_entry *entry = memo->used + size <= MEMO_LIMIT ? malloc(size) : NULL, *before = NULL;
    if (!entry)
        return;
    *entry = *what;
    char *to = entry->content;
    for (unsigned i = 0; i < entry->fixup_count; i++, to += sizeof(struct fixup)) {
        const struct fixup *fixup = &emitter->fixups[from->fixup_count + i];
        memcpy(to, &(struct fixup){fixup->at - from->code, fixup->minimum - from->minimum}, sizeof *fixup);
    }
    if (entry->code_size)
        memcpy(to, emitter->code.data + from->code, entry->code_size);
    if (entry->text_size)
        memcpy(to + entry->code_size, emitter->text.data + from->text, entry->text_size);
    HASH_REPLACE(hh, memo->entries, key, sizeof entry->key, entry, before);
    memo->used += size - (before ? size_of(before) : 0);
    free(before);
}

static void repeat(struct emitter *emitter, const struct memo_entry *entry)
{
    const char *from = entry->content;
    emitter_saw(emitter, emitter->text.len + entry->room.text, emitter->code.len + entry->room.code);
    for (unsigned i = 0; i < entry->fixup_count; i++, from += sizeof(struct fixup)) {
        struct fixup *fixup = &emitter->fixups[emitter->fixup_count++];
        memcpy(fixup, from, sizeof *fixup);
        fixup->at += emitter->code.len;
        fixup->minimum += emitter->minimum;
    }
    buf_append(&emitter->code, from, entry->code_size);
    buf_append(&emitter->text, from + entry->code_size, entry->text_size);
    emitter->minimum += entry->minimum;
    emitter->text_shared += entry->text_shared;
    emitter->temps_used = more(emitter->temps_used, entry->temps_used);
    emitter->scratch_used = more(emitter->scratch_used, entry->scratch_used);
    emitter->wants_xmm |= entry->wants_xmm;
}

static const struct memo_entry *find(struct memo *memo, const struct memo_key *key)
{
    struct memo_entry *entry = NULL;
    if (memo)
        HASH_FIND(hh, memo->entries, key, sizeof *key, entry);
    return entry;
}

/* Repeats it if it fits. */
static enum memo_answer answer(struct emitter *emitter, const struct memo_entry *entry)
{
    struct room now = room_now(emitter);
    if (!entry)
        return MEMO_NOTHING;
    if (entry->failed)
        return is_within(&now, &entry->room) && (emitter->generous || !entry->generous) ? MEMO_TOO_MUCH : MEMO_NOTHING;
    if (!is_within(&entry->room, &now)) /* arrays of a field may take less */
        return entry->key.field ? MEMO_NOTHING : MEMO_TOO_MUCH;
    if (emitter->fixup_count + entry->fixup_count > sizeof emitter->fixups / sizeof(struct fixup))
        return MEMO_NOTHING;
    repeat(emitter, entry);
    return MEMO_DONE;
}

/* ---- fields ---- */

static struct memo_key field_key(const Dwarf_Die *type, const struct place *place, unsigned depth)
{
    return (struct memo_key){.type = (uintptr_t)type->addr,
                             .offset = place->offset,
                             .constant = place->constant,
                             .kind = (uint8_t)place->kind,
                             .base = place->base,
                             .frame = place->frame,
                             .size = (uint8_t)place->size,
                             .field = 1,
                             .depth = depth};
}

enum memo_answer memo_field(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth)
{
    struct memo_key key = field_key(type, place, depth);
    return answer(emitter, find(emitter->memo, &key));
}

void memo_field_keep(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth,
                     const struct emitter_mark *from, bool fits)
{
    struct memo_entry what = {.key = field_key(type, place, depth), .failed = !fits};
    if (fits) {
        what.minimum = emitter->minimum - from->minimum;
        what.room = (struct room){emitter->text_seen - from->text, emitter->code_seen - from->code, what.minimum};
        what.text_shared = emitter->text_shared - from->text_shared;
        what.temps_used = emitter->temps_used;
        what.scratch_used = emitter->scratch_used;
        what.wants_xmm = emitter->wants_xmm;
    } else
        what.room = room_at(emitter, from->text, from->code, from->minimum);
    if (!fits || !emitter->cut)
        remember(emitter, &what, from);
}

/* ---- what pointers lead to ---- */

/* Within the limits that are set, and remembers it. A key without type: not to be remembered. */
static void make(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest, struct memo_entry *made)
{
    struct place target = {.kind = PLACE_MEMORY, .base = made->key.base};
    struct emitter before = *emitter; /* only its figures */
    struct emitter_mark from = emitter_mark(emitter);
    made->room = room_now(emitter);
    made->generous = emitter->generous;
    emitter->temps_used = emitter->scratch_used = 0;
    emitter->cut = false;
    emitter->text_seen = from.text;
    emitter->code_seen = from.code;
    emit_type(emitter, type, &target, depth, nest);
    bool too_much = emitter->text_seen > emitter->text_limit || emitter->code_seen > emitter->code_limit;
    made->failed = emitter->failed || emitter->code.failed || emitter->text.failed;
    if (!made->failed)
        made->room = (struct room){emitter->text_seen - from.text, emitter->code_seen - from.code, 0};
    made->temps_used = emitter->temps_used;
    made->scratch_used = emitter->scratch_used;
    emit_fixups(emitter, from.fixup_count);
    /* it may have failed by what came before it; where more is left arrays may take more */
    if (emitter->memo && made->key.type && (made->failed ? too_much : !emitter->cut || emitter->generous))
        remember(emitter, made, &from);
    emitter->cut |= before.cut;
    emitter_saw(emitter, before.text_seen, before.code_seen);
    emitter->temps_used = more(emitter->temps_used, before.temps_used);
    emitter->scratch_used = more(emitter->scratch_used, before.scratch_used);
}

/* Makes it as if it were the first of its field, so that nobody has to do it again who has more left, and takes it
 * back: what is left here may be too little. */
static void make_first(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest, struct memo_entry *made)
{
    struct emitter_mark mark = emitter_mark(emitter);
    struct emitter before = *emitter; /* only its figures */
    emitter_be_generous(emitter);
    make(emitter, type, depth, nest, made);
    emitter_reset(emitter, &mark);
    emitter->generous = false;
    emitter->cut = before.cut;
    emitter->text_limit = before.text_limit;
    emitter->code_limit = before.code_limit;
    emitter->temps_used = before.temps_used;
    emitter->scratch_used = before.scratch_used;
}

void emit_followed(struct emitter *emitter, Dwarf_Die *type, unsigned value, unsigned depth, unsigned nest)
{
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_FOLLOW, value, NULL);
    /* how long texts and arrays of Fortran are is asked of the variable */
    struct memo *memo = emitter->failed || die_is_fortran(type) ? NULL : emitter->memo;
    struct memo_entry made = {.key = {.type = memo ? (uintptr_t)type->addr : 0,
                                      .kind = PLACE_MEMORY,
                                      .base = (uint8_t)value,
                                      .temps = (uint8_t)emitter->temps,
                                      .scratch = (uint8_t)emitter->scratch,
                                      .blocks = (uint8_t)emitter->blocks,
                                      .depth = depth,
                                      .nest = nest}};
    if (memo && !find(memo, &made.key) && !emitter->generous && memo->used < MEMO_LIMIT)
        make_first(emitter, type, depth, nest, &made);
    enum memo_answer known = answer(emitter, find(memo, &made.key));
    if (known == MEMO_TOO_MUCH) {
        emitter_saw(emitter, emitter->text_limit + 1, 0);
        emitter->failed = true;
    } else if (known == MEMO_NOTHING)
        make(emitter, type, depth, nest, &made);
    emit_block_end(emitter, block);
}

void memo_done(struct memo *memo)
{
    struct memo_entry *entry, *next;
    HASH_ITER(hh, memo->entries, entry, next)
    {
        HASH_DEL(memo->entries, entry);
        free(entry);
    }
}
