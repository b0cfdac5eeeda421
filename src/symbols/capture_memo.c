/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pointer leads to, compiled once: the same types stand behind the arguments of most functions of a program, and
 * going through them takes nearly all of the time. A piece of program is the same again where the same registers are
 * free: it names no addresses, and its jumps are lengths.
 */
#include <stdlib.h>
#include <string.h>

#include "symbols/capture_values.h"

enum { MEMO_LIMIT = 128 << 20 /* bytes */ };

struct memo_key { /* no padding: it is compared as bytes */
    uintptr_t type;
    uint32_t value, temps, scratch, blocks, depth, nest;
};

struct memo_entry {
    struct memo_key key;
    bool failed;                 /* it was too much for what was left then */
    size_t text_left, code_left; /* failed */
    unsigned temps_used, scratch_used;
    size_t code_size, text_size;
    UT_hash_handle hh;
    char bytes[]; /* code, text */
};

static size_t left(size_t limit, size_t used)
{
    return limit > used ? limit - used : 0;
}

static void remember(struct memo *memo, const struct memo_entry *what, const char *code, const char *text)
{
    size_t size = sizeof *what + what->code_size + what->text_size;
    struct memo_entry *entry = memo->used + size <= MEMO_LIMIT ? malloc(size) : NULL;
    if (!entry)
        return;
    memo->used += size;
    *entry = *what;
    if (what->code_size)
        memcpy(entry->bytes, code, what->code_size);
    if (what->text_size)
        memcpy(entry->bytes + what->code_size, text, what->text_size);
    HASH_ADD(hh, memo->entries, key, sizeof entry->key, entry);
}

static void repeat(struct emitter *emitter, const struct memo_entry *entry)
{
    if (entry->failed) {
        emitter->failed = true;
        return;
    }
    buf_append(&emitter->code, entry->bytes, entry->code_size);
    buf_append(&emitter->text, entry->bytes + entry->code_size, entry->text_size);
    if (emitter->temps_used < entry->temps_used)
        emitter->temps_used = entry->temps_used;
    if (emitter->scratch_used < entry->scratch_used)
        emitter->scratch_used = entry->scratch_used;
}

void emit_followed(struct emitter *emitter, Dwarf_Die *type, unsigned value, unsigned depth, unsigned nest)
{
    struct place target = {.kind = PLACE_MEMORY, .base = (uint8_t)value};
    struct emitter_block block = emit_block_begin(emitter, CAPTURE_FOLLOW, value, NULL);
    struct memo_entry made = {
        .key = {(uintptr_t)type->addr, value, emitter->temps, emitter->scratch, emitter->blocks, depth, nest},
        .text_left = left(emitter->text_limit, emitter->text.len),
        .code_left = left(emitter->code_limit, emitter->code.len)};
    struct memo_entry *entry = NULL;
    /* how long texts and arrays of Fortran are is asked of the variable */
    struct memo *memo = emitter->failed || die_is_fortran(type) ? NULL : emitter->memo;
    if (memo)
        HASH_FIND(hh, memo->entries, &made.key, sizeof made.key, entry);
    bool none = entry && entry->failed && made.text_left <= entry->text_left && made.code_left <= entry->code_left;
    if (none || (entry && !entry->failed && entry->text_size < made.text_left && entry->code_size < made.code_left)) {
        repeat(emitter, entry);
        emit_block_end(emitter, block);
        return;
    }
    size_t text = emitter->text.len;
    unsigned temps_used = emitter->temps_used, scratch_used = emitter->scratch_used;
    bool trimmed = emitter->trimmed;
    emitter->temps_used = emitter->scratch_used = 0;
    emitter->trimmed = false;
    emit_type(emitter, type, &target, depth, nest);
    made.temps_used = emitter->temps_used;
    made.scratch_used = emitter->scratch_used;
    if (emitter->temps_used < temps_used)
        emitter->temps_used = temps_used;
    if (emitter->scratch_used < scratch_used)
        emitter->scratch_used = scratch_used;
    bool too_much = emitter->text.len > emitter->text_limit || emitter->code.len > emitter->code_limit;
    emit_block_end(emitter, block);
    made.failed = emitter->failed || emitter->code.failed || emitter->text.failed;
    if (made.failed && !too_much)
        memo = NULL; /* for a reason that may not be there the next time */
    if (!made.failed) {
        made.code_size = emitter->code.len - sizeof(struct capture_insn) /* its end */ - block.body;
        made.text_size = emitter->text.len - text;
    }
    if (memo && !entry && !emitter->trimmed)
        remember(memo, &made, emitter->code.data + block.body, emitter->text.data + text);
    emitter->trimmed |= trimmed;
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
