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
    uint32_t value, temps, scratch, blocks, depth, nest;
};

struct memo_entry {
    struct memo_key key;
    bool failed;                 /* it was too much for what was left then */
    bool cut;                    /* with more room there would be more */
    bool generous;               /* failed: arrays took more than they do where less is left */
    size_t text_left, code_left; /* failed */
    size_t text_need, code_need; /* so much has to be left */
    unsigned temps_used, scratch_used;
    size_t code_size, text_size;
    UT_hash_handle hh;
    char bytes[]; /* code, text */
};

static size_t left(size_t limit, size_t used)
{
    return limit > used ? limit - used : 0;
}

static unsigned more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static void remember(struct memo *memo, const struct memo_entry *what, const char *code, const char *text)
{
    size_t size = sizeof *what + what->code_size + what->text_size;
    struct memo_entry *entry = memo->used + size <= MEMO_LIMIT ? malloc(size) : NULL, *before = NULL;
    if (!entry)
        return;
    memo->used += size;
    *entry = *what;
    if (what->code_size)
        memcpy(entry->bytes, code, what->code_size);
    if (what->text_size)
        memcpy(entry->bytes + what->code_size, text, what->text_size);
    HASH_REPLACE(hh, memo->entries, key, sizeof entry->key, entry, before);
    free(before);
}

static void repeat(struct emitter *emitter, const struct memo_entry *entry)
{
    emitter_saw(emitter, emitter->text.len + entry->text_need, emitter->code.len + entry->code_need);
    buf_append(&emitter->code, entry->bytes, entry->code_size);
    buf_append(&emitter->text, entry->bytes + entry->code_size, entry->text_size);
    emitter->temps_used = more(emitter->temps_used, entry->temps_used);
    emitter->scratch_used = more(emitter->scratch_used, entry->scratch_used);
}

/* ---- fields ---- */

struct field_key { /* no padding: it is compared as bytes */
    uintptr_t type;
    int64_t offset;
    uint64_t constant;
    uint8_t kind, base, frame, size;
    uint32_t depth;
};

struct field_entry {
    struct field_key key;
    bool failed, wants_xmm;
    size_t text_room, code_room; /* failed: so much was left; else so much has to be */
    unsigned minimum;            /* bytes of the record, likewise */
    unsigned temps_used, scratch_used, fixup_count;
    size_t code_size, text_size, text_shared;
    UT_hash_handle hh;
    char bytes[]; /* fixups, from the field's beginning on; code, text */
};

static struct field_key field_key(const Dwarf_Die *type, const struct place *place, unsigned depth)
{
    return (struct field_key){.type = (uintptr_t)type->addr,
                              .offset = place->offset,
                              .constant = place->constant,
                              .kind = (uint8_t)place->kind,
                              .base = place->base,
                              .frame = place->frame,
                              .size = (uint8_t)place->size,
                              .depth = depth};
}

static void repeat_field(struct emitter *emitter, const struct field_entry *entry)
{
    const struct fixup *fixups = (const struct fixup *)(const void *)entry->bytes;
    const char *code = entry->bytes + entry->fixup_count * sizeof *fixups;
    for (unsigned i = 0; i < entry->fixup_count; i++)
        emitter->fixups[emitter->fixup_count++] =
            (struct fixup){emitter->code.len + fixups[i].at, emitter->minimum + fixups[i].minimum};
    buf_append(&emitter->code, code, entry->code_size);
    buf_append(&emitter->text, code + entry->code_size, entry->text_size);
    emitter->minimum += entry->minimum;
    emitter->text_shared += entry->text_shared;
    emitter->temps_used = more(emitter->temps_used, entry->temps_used);
    emitter->scratch_used = more(emitter->scratch_used, entry->scratch_used);
    emitter->wants_xmm |= entry->wants_xmm;
}

enum memo_answer memo_field(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth)
{
    struct field_key key = field_key(type, place, depth);
    struct field_entry *entry;
    HASH_FIND(hh, emitter->memo->fields, &key, sizeof key, entry);
    if (!entry)
        return MEMO_NOTHING;
    size_t text = left(emitter->text_limit, emitter->text.len), code = left(emitter->code_limit, emitter->code.len);
    unsigned bytes = emitter->options->bytes - emitter->minimum, fixups = sizeof emitter->fixups / sizeof(struct fixup);
    if (entry->failed)
        return text <= entry->text_room && code <= entry->code_room && bytes <= entry->minimum ? MEMO_TOO_MUCH
                                                                                               : MEMO_NOTHING;
    if (text < entry->text_room || code < entry->code_room || bytes < entry->minimum ||
        emitter->fixup_count + entry->fixup_count > fixups)
        return MEMO_NOTHING;
    repeat_field(emitter, entry);
    return MEMO_DONE;
}

static void keep_field(struct memo *memo, const struct field_entry *what, const struct emitter *emitter,
                       const struct emitter_mark *from)
{
    size_t head = what->fixup_count * sizeof(struct fixup),
           size = sizeof *what + head + what->code_size + what->text_size;
    struct field_entry *entry = memo->used + size <= MEMO_LIMIT ? malloc(size) : NULL, *before = NULL;
    if (!entry)
        return;
    memo->used += size;
    *entry = *what;
    for (unsigned i = 0; i < what->fixup_count; i++) {
        const struct fixup *fixup = &emitter->fixups[from->fixup_count + i];
        const struct fixup moved = {fixup->at - from->code, fixup->minimum - from->minimum};
        memcpy(entry->bytes + i * sizeof moved, &moved, sizeof moved);
    }
    if (what->code_size)
        memcpy(entry->bytes + head, emitter->code.data + from->code, what->code_size);
    if (what->text_size)
        memcpy(entry->bytes + head + what->code_size, emitter->text.data + from->text, what->text_size);
    HASH_REPLACE(hh, memo->fields, key, sizeof entry->key, entry, before);
    if (before)
        memo->used -=
            sizeof *before + before->fixup_count * sizeof(struct fixup) + before->code_size + before->text_size;
    free(before);
}

void memo_field_keep(struct emitter *emitter, const Dwarf_Die *type, const struct place *place, unsigned depth,
                     const struct emitter_mark *from, bool fits)
{
    struct field_entry what = {.key = field_key(type, place, depth), .failed = !fits};
    if (fits) {
        what.text_room = emitter->text_seen - from->text;
        what.code_room = emitter->code_seen - from->code;
        what.code_size = emitter->code.len - from->code;
        what.text_size = emitter->text.len - from->text;
        what.text_shared = emitter->text_shared - from->text_shared;
        what.minimum = emitter->minimum - from->minimum;
        what.temps_used = emitter->temps_used;
        what.scratch_used = emitter->scratch_used;
        what.fixup_count = emitter->fixup_count - from->fixup_count;
        what.wants_xmm = emitter->wants_xmm;
    } else {
        what.text_room = left(emitter->text_limit, from->text);
        what.code_room = left(emitter->code_limit, from->code);
        what.minimum = emitter->options->bytes - from->minimum;
    }
    if (!fits || !emitter->cut)
        keep_field(emitter->memo, &what, emitter, from);
}

/* ---- what pointers lead to ---- */

static bool does_fit(const struct emitter *emitter, const struct memo_entry *entry)
{
    return !entry->failed && emitter->text.len + entry->text_need <= emitter->text_limit &&
           emitter->code.len + entry->code_need <= emitter->code_limit;
}

static bool is_too_much(const struct emitter *emitter, const struct memo_entry *entry)
{
    if (!entry->failed)
        return !does_fit(emitter, entry);
    if (entry->generous && !emitter->generous)
        return false;
    return left(emitter->text_limit, emitter->text.len) <= entry->text_left &&
           left(emitter->code_limit, emitter->code.len) <= entry->code_left;
}

/* What the pointer leads to, within the limits that are set. True: it is the same wherever as much is left. */
static bool make(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest, struct memo_entry *made)
{
    struct place target = {.kind = PLACE_MEMORY, .base = (uint8_t)made->key.value};
    size_t text = emitter->text.len, code = emitter->code.len;
    size_t text_seen = emitter->text_seen, code_seen = emitter->code_seen;
    unsigned temps_used = emitter->temps_used, scratch_used = emitter->scratch_used;
    unsigned fixups = emitter->fixup_count;
    bool cut = emitter->cut;
    made->text_left = left(emitter->text_limit, text);
    made->code_left = left(emitter->code_limit, code);
    made->generous = emitter->generous;
    emitter->temps_used = emitter->scratch_used = 0;
    emitter->cut = false;
    emitter->text_seen = text;
    emitter->code_seen = code;
    emit_type(emitter, type, &target, depth, nest);
    bool too_much = emitter->text_seen > emitter->text_limit || emitter->code_seen > emitter->code_limit;
    made->failed = emitter->failed || emitter->code.failed || emitter->text.failed;
    made->cut = emitter->cut && !emitter->generous;
    made->text_need = emitter->text_seen - text;
    made->code_need = emitter->code_seen - code;
    made->temps_used = emitter->temps_used;
    made->scratch_used = emitter->scratch_used;
    made->text_size = made->failed ? 0 : emitter->text.len - text;
    made->code_size = made->failed ? 0 : emitter->code.len - code;
    emit_fixups(emitter, fixups);
    emitter->cut |= cut;
    emitter_saw(emitter, text_seen, code_seen);
    emitter->temps_used = more(emitter->temps_used, temps_used);
    emitter->scratch_used = more(emitter->scratch_used, scratch_used);
    /* it may have failed by what came before it */
    return made->failed ? too_much : !made->cut;
}

static struct memo_entry *find(struct memo *memo, const struct memo_key *key)
{
    struct memo_entry *entry = NULL;
    if (memo)
        HASH_FIND(hh, memo->entries, key, sizeof *key, entry);
    return entry;
}

/* Makes it as if it were the first of its field, so that nobody has to do it again who has more left, and takes it
 * back: what is left here may be too little. */
static void make_first(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest, struct memo_entry *made)
{
    struct emitter_mark mark = emitter_mark(emitter);
    struct emitter before = *emitter; /* only its figures */
    emitter_be_generous(emitter);
    if (make(emitter, type, depth, nest, made))
        remember(emitter->memo, made, emitter->code.data + mark.code, emitter->text.data + mark.text);
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
    struct memo_entry made = {
        .key = {(uintptr_t)type->addr, value, emitter->temps, emitter->scratch, emitter->blocks, depth, nest}};
    /* how long texts and arrays of Fortran are is asked of the variable */
    struct memo *memo = emitter->failed || die_is_fortran(type) ? NULL : emitter->memo;
    struct memo_entry *entry = find(memo, &made.key);
    if (memo && !entry && !emitter->generous && memo->used < MEMO_LIMIT) {
        make_first(emitter, type, depth, nest, &made);
        entry = find(memo, &made.key);
    }
    size_t text = emitter->text.len;
    if (entry && does_fit(emitter, entry))
        repeat(emitter, entry);
    else if (entry && is_too_much(emitter, entry)) {
        emitter_saw(emitter, emitter->text_limit + 1, 0);
        emitter->failed = true;
    } else if (make(emitter, type, depth, nest, &made) && memo)
        remember(memo, &made, emitter->code.data + block.body, emitter->text.data + text);
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
    struct field_entry *field, *next_field;
    HASH_ITER(hh, memo->fields, field, next_field)
    {
        HASH_DEL(memo->fields, field);
        free(field);
    }
}
