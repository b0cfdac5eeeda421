/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer leads to, compiled once: the same types stand behind the arguments of most functions of a program, and
 * going through them takes nearly all of the time. A piece of program is the same again where the same registers are
 * free: it names no addresses, and its jumps are lengths.
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

/* What the pointer leads to, within the limits that are set. True: it is the same wherever no less is left. */
static bool make(struct emitter *emitter, Dwarf_Die *type, unsigned depth, unsigned nest, struct memo_entry *made)
{
    struct place target = {.kind = PLACE_MEMORY, .base = (uint8_t)made->key.value};
    size_t text = emitter->text.len, code = emitter->code.len;
    size_t text_seen = emitter->text_seen, code_seen = emitter->code_seen;
    unsigned temps_used = emitter->temps_used, scratch_used = emitter->scratch_used;
    unsigned fixups = emitter->fixup_count;
    made->text_left = left(emitter->text_limit, text);
    made->code_left = left(emitter->code_limit, code);
    made->generous = emitter->generous;
    emitter->temps_used = emitter->scratch_used = 0;
    emitter->text_seen = text;
    emitter->code_seen = code;
    emit_type(emitter, type, &target, depth, nest);
    bool too_much = emitter->text_seen > emitter->text_limit || emitter->code_seen > emitter->code_limit;
    made->failed = emitter->failed || emitter->code.failed || emitter->text.failed;
    made->text_need = emitter->text_seen - text;
    made->code_need = emitter->code_seen - code;
    made->temps_used = emitter->temps_used;
    made->scratch_used = emitter->scratch_used;
    made->text_size = made->failed ? 0 : emitter->text.len - text;
    made->code_size = made->failed ? 0 : emitter->code.len - code;
    emit_fixups(emitter, fixups);
    emitter_saw(emitter, text_seen, code_seen);
    emitter->temps_used = more(emitter->temps_used, temps_used);
    emitter->scratch_used = more(emitter->scratch_used, scratch_used);
    return too_much || !made->failed; /* it may have failed by what came before it */
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
    }
    else if (make(emitter, type, depth, nest, &made) && memo)
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
}
