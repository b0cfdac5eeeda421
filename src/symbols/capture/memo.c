/* SPDX-License-Identifier: Apache-2.0 */
#include "base/data/hash.h"
#include "symbols/capture/internal.h"
#include "symbols/layout/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

/*
 * What pointers lead to is the same in most programs of a file, and nearly all of their bytes. It is given out once,
 * and the programs say where it is: they come to a twentieth.
 */

enum {
    LEAST = 4,       /* instructions of a block that is worth it */
    LEAST_TEXT = 64, /* bytes */
};

struct share_entry {
    uint32_t id;
    size_t size;
    UT_hash_handle hh;
    char code[];
};

int share_text(const char *text, share_text_fn *id_of, void *ctx, struct buf *out)
{
    const char *group, *end;
    while ((group = layout_group(text)) && (end = layout_group_end(group))) {
        uint32_t part;
        size_t size = (size_t)(end - group);
        buf_append(out, text, (size_t)(group - text));
        text = end;
        if (size < LEAST_TEXT) {
            buf_append(out, group, size);
            continue;
        }
        int r = id_of(ctx, group, size, &part);
        if (r < 0)
            return r;
        buf_printf(out, "@%" PRIu32 ";", part);
    }
    buf_puts(out, text);
    return out->failed ? -ENOMEM : 0;
}

int share_number(const char *text, uint32_t id, struct buf *out)
{
    const char *at;
    char *end;
    while ((at = layout_ref(text))) {
        uint32_t part = (uint32_t)strtoul(at + 1, &end, 10);
        buf_append(out, text, (size_t)(at - text));
        buf_printf(out, "@%" PRIu32 ";", id - part);
        text = end + 1;
    }
    buf_puts(out, text);
    return out->failed ? -ENOMEM : 0;
}

static int block_id(struct share_entry **known, const char *code, size_t size, const struct capture_output *output,
                    uint64_t *ret_id)
{
    struct share_entry *entry;
    HASH_FIND(hh, *known, code, size, entry);
    if (!entry) {
        entry = malloc(sizeof *entry + size);
        if (!entry)
            return -ENOMEM;
        memcpy(entry->code, code, size);
        entry->size = size;
        entry->id = output->block(output->ctx, code, size);
        HASH_ADD_KEYPTR(hh, *known, entry->code, size, entry);
    }
    *ret_id = entry->id;
    return 0;
}

/* The block that begins at `at` has become shorter. */
static void set_length(struct buf *code, size_t at, size_t body)
{
    struct capture_insn insn;
    memcpy(&insn, code->data + at, sizeof insn);
    insn.n = (uint16_t)((code->len - body) / sizeof insn);
    memcpy(code->data + at, &insn, sizeof insn);
}

int share_blocks(struct share_entry **known, struct buf *code, const struct capture_output *output)
{
    struct buf shorter = BUF_INIT;
    struct { /* that are open, in what is made */
        size_t at, body;
    } blocks[CAPTURE_BLOCKS];
    unsigned depth = 0;
    int r = 0;
    buf_append(&shorter, code->data, sizeof(struct capture_head));
    for (size_t pc = sizeof(struct capture_head); pc < code->len && r == 0 && !shorter.failed;) {
        struct capture_insn insn;
        memcpy(&insn, code->data + pc, sizeof insn);
        size_t size = capture_is_long(insn.op) ? 2 * sizeof insn : sizeof insn, at = shorter.len;
        if (insn.op == CAPTURE_FOLLOW && insn.n >= LEAST) {
            uint64_t id;
            r = block_id(known, code->data + pc + size, insn.n * sizeof insn, output, &id);
            insn.op = CAPTURE_SHARED;
            buf_append(&shorter, &insn, sizeof insn);
            buf_append(&shorter, &id, sizeof id);
            pc += size + insn.n * sizeof insn;
            continue;
        }
        buf_append(&shorter, code->data + pc, size);
        pc += size;
        if (insn.op == CAPTURE_END)
            set_length(&shorter, blocks[depth - 1].at, blocks[depth - 1].body), depth--;
        else if (insn.op == CAPTURE_TRY || insn.op == CAPTURE_FOLLOW || insn.op == CAPTURE_NUMBER ||
                 insn.op == CAPTURE_LOOP) {
            blocks[depth].at = at;
            blocks[depth++].body = shorter.len;
        }
    }
    if (r == 0 && shorter.failed)
        r = -ENOMEM;
    if (r == 0) {
        buf_clear(code);
        buf_append(code, shorter.data, shorter.len);
    }
    buf_done(&shorter);
    return r;
}

void share_done(struct share_entry **known)
{
    HASH_FREE_ALL(*known);
}

/*
 * Pieces of programs, compiled once. The same types stand behind the variables of most functions of a program, and
 * going through them takes nearly all of the time. What a pointer leads to is the same again where the same registers
 * are free: it names no addresses, and its jumps are lengths. A field is the same again where the variable lies in the
 * same place, as it does at most calls that one function makes.
 */

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

static size_t room_left(size_t limit, size_t used)
{
    return limit > used ? limit - used : 0;
}

static unsigned room_is_more(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static struct room room_at(const struct emitter *emitter, size_t text, size_t code, unsigned minimum)
{
    return (struct room){room_left(emitter->text_limit, text), room_left(emitter->code_limit, code),
                         room_left(emitter->options->bytes, minimum)};
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
static void memo_add(struct emitter *emitter, struct memo_entry *what, const struct emitter_mark *from)
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

static void memo_repeat(struct emitter *emitter, const struct memo_entry *entry)
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
    emitter->temps_used = room_is_more(emitter->temps_used, entry->temps_used);
    emitter->scratch_used = room_is_more(emitter->scratch_used, entry->scratch_used);
    emitter->wants_xmm |= entry->wants_xmm;
}

static const struct memo_entry *memo_find(struct memo *memo, const struct memo_key *key)
{
    struct memo_entry *entry = NULL;
    if (memo)
        HASH_FIND(hh, memo->entries, key, sizeof *key, entry);
    return entry;
}

/* Repeats it if it fits. */
static enum memo_answer memo_say(struct emitter *emitter, const struct memo_entry *entry)
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
    memo_repeat(emitter, entry);
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
    return memo_say(emitter, memo_find(emitter->memo, &key));
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
        memo_add(emitter, &what, from);
}

/* ---- what pointers lead to ---- */

/* Within the limits that are set, and remembers it. A key without type: not to be remembered. */
static void pointee_compile(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest,
                            struct memo_entry *made)
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
        memo_add(emitter, made, &from);
    emitter->cut |= before.cut;
    emitter_saw(emitter, before.text_seen, before.code_seen);
    emitter->temps_used = room_is_more(emitter->temps_used, before.temps_used);
    emitter->scratch_used = room_is_more(emitter->scratch_used, before.scratch_used);
}

/* Makes it as if it were the first of its field, so that nobody has to do it again who has more left, and takes it
 * back: what is left here may be too little. */
static void pointee_compile_first(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest,
                                  struct memo_entry *made)
{
    struct emitter_mark mark = emitter_mark(emitter);
    struct emitter before = *emitter; /* only its figures */
    emitter_be_generous(emitter);
    pointee_compile(emitter, type, depth, nest, made);
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
    if (memo && !memo_find(memo, &made.key) && !emitter->generous && memo->used < MEMO_LIMIT)
        pointee_compile_first(emitter, type, depth, nest, &made);
    enum memo_answer known = memo_say(emitter, memo_find(memo, &made.key));
    if (known == MEMO_TOO_MUCH) {
        emitter_saw(emitter, emitter->text_limit + 1, 0);
        emitter->failed = true;
    } else if (known == MEMO_NOTHING)
        pointee_compile(emitter, type, depth, nest, &made);
    emit_block_end(emitter, block);
}

void memo_done(struct memo *memo)
{
    HASH_FREE_ALL(memo->entries);
}
