/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building a capture program and, at the same time, the text of its layout. The emitter knows at each moment how many
 * bytes are certainly emitted at the level where it is. When a level ends, it fills in how much comes after what had to
 * know that (struct fixup).
 */
#include <string.h>

#include "symbols/capture/internal.h"

enum {
    FIELD_TEXT = 32768, /* bytes, at most */
    FIELD_CODE = 8192,
    FIELD_TEXT_LEAST = 512, /* also of a field that comes late */
    FIELD_CODE_LEAST = 128,
    RECORD_TEXT = 16, /* bytes for all fields, for each byte of a record: more of them would hardly ever be filled */
    RECORD_CODE = 4,
    LAYOUT_LIMIT = 200000,
    OFF_LIMIT = 1 << 30,
    DIRECT_ABOVE = 1024, /* bytes */
};

void emitter_init(struct emitter *emitter, const struct capture_options *options, struct type_index *types, bool direct)
{
    *emitter = (struct emitter){.options = options, .types = types, .direct = direct, .temps = CAPTURE_TEMP};
    struct capture_head head = {.version = CAPTURE_VERSION};
    buf_append(&emitter->code, &head, sizeof head);
}

void emitter_done(struct emitter *emitter)
{
    buf_done(&emitter->code);
    buf_done(&emitter->text);
}

struct emitter_mark emitter_mark(struct emitter *emitter)
{
    emitter->merge_from = emitter->code.len;
    return (struct emitter_mark){
        .code = emitter->code.len,
        .text = emitter->text.len,
        .text_seen = emitter->text_seen,
        .code_seen = emitter->code_seen,
        .text_shared = emitter->text_shared,
        .minimum = emitter->minimum,
        .blocks = emitter->blocks,
        .temps = emitter->temps,
        .scratch = emitter->scratch,
        .fixup_count = emitter->fixup_count,
        .wants_xmm = emitter->wants_xmm,
        .failed = emitter->failed,
        .merge_from = emitter->merge_from,
    };
}

static void truncate_to(struct buf *buf, size_t len)
{
    if (buf->len <= len)
        return;
    buf->len = len;
    buf->data[len] = 0;
}

void emitter_reset(struct emitter *emitter, const struct emitter_mark *mark)
{
    emitter->cut |= emitter->failed && !mark->failed;
    truncate_to(&emitter->code, mark->code);
    truncate_to(&emitter->text, mark->text);
    emitter->text_seen = mark->text_seen;
    emitter->code_seen = mark->code_seen;
    emitter->text_shared = mark->text_shared;
    emitter->minimum = mark->minimum;
    emitter->blocks = mark->blocks;
    emitter->temps = mark->temps;
    emitter->scratch = mark->scratch;
    emitter->fixup_count = mark->fixup_count;
    emitter->wants_xmm = mark->wants_xmm;
    emitter->failed = mark->failed;
    emitter->merge_from = mark->merge_from;
}

void emitter_be_generous(struct emitter *emitter)
{
    emitter->generous = true;
    emitter->text_limit = emitter->text.len + FIELD_TEXT;
    emitter->code_limit = emitter->code.len + FIELD_CODE;
}

void emitter_saw(struct emitter *emitter, size_t text, size_t code)
{
    if (emitter->text_seen < text)
        emitter->text_seen = text;
    if (emitter->code_seen < code)
        emitter->code_seen = code;
}

/* `after` of the instructions since `from` is what is emitted at this level behind them. */
void emit_fixups(struct emitter *emitter, unsigned from)
{
    for (unsigned i = from; i < emitter->fixup_count; i++) {
        struct capture_insn insn;
        char *at = emitter->code.data + emitter->fixups[i].at;
        memcpy(&insn, at, sizeof insn);
        unsigned after = emitter->minimum - emitter->fixups[i].minimum;
        insn.off = (int32_t)(after < UINT16_MAX ? after : UINT16_MAX);
        memcpy(at, &insn, sizeof insn);
    }
    emitter->fixup_count = from;
}

bool emitter_finish(struct emitter *emitter)
{
    if (emitter->failed || emitter->code.failed || emitter->text.failed)
        return false;
    emit_fixups(emitter, 0);
    struct capture_head head = {.version = CAPTURE_VERSION,
                                .flags = emitter->wants_xmm ? CAPTURE_XMM_USED : 0,
                                .minimum = (uint16_t)emitter->minimum,
                                .temps = (uint8_t)(emitter->temps_used ? emitter->temps_used : 1),
                                .scratch = (uint8_t)(emitter->scratch_used ? emitter->scratch_used : 8)};
    memcpy(emitter->code.data, &head, sizeof head);
    return emitter->minimum <= UINT16_MAX && capture_check(emitter->code.data, emitter->code.len);
}

unsigned emit_temp(struct emitter *emitter)
{
    if (emitter->temps == CAPTURE_TEMP + CAPTURE_TEMPS) {
        emitter->failed = true;
        return CAPTURE_TEMP;
    }
    if (emitter->temps_used < emitter->temps + 1 - CAPTURE_TEMP)
        emitter->temps_used = emitter->temps + 1 - CAPTURE_TEMP;
    return emitter->temps++;
}

/* Copies of adjacent memory become one. */
static bool emit_merged(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n, int64_t off)
{
    struct capture_insn last;
    size_t len = emitter->code.len;
    if ((op != CAPTURE_MEM && op != CAPTURE_READ) || len < emitter->merge_from + sizeof last || len < 2 * sizeof last)
        return false;
    char *at = emitter->code.data + len - sizeof last;
    memcpy(&last, at, sizeof last);
    if (last.op != op || last.r != r || last.off + (int64_t)last.n != off || last.n + n > UINT16_MAX)
        return false;
    last.n = (uint16_t)(last.n + n);
    memcpy(at, &last, sizeof last);
    return true;
}

void emit(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n, int64_t off)
{
    if (off > OFF_LIMIT || off < -OFF_LIMIT || n > UINT16_MAX || emitter->code.failed ||
        emitter->code.len / sizeof(struct capture_insn) >= CAPTURE_INSNS - 4) {
        emitter->failed = true;
        return;
    }
    if (op == CAPTURE_XMM || op == CAPTURE_XREG)
        emitter->wants_xmm = true;
    if (emit_merged(emitter, op, r, n, off))
        return;
    struct capture_insn insn = {(uint8_t)op, (uint8_t)r, (uint16_t)n, (int32_t)off};
    buf_append(&emitter->code, &insn, sizeof insn);
}

static void emit_word(struct emitter *emitter, const void *word)
{
    buf_append(&emitter->code, word, 8);
    emitter->merge_from = emitter->code.len;
}

void emit_constant(struct emitter *emitter, unsigned r, uint64_t value)
{
    emit(emitter, CAPTURE_CONST, r, 0, 0);
    emit_word(emitter, &value);
}

void emit_counted(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n, unsigned count, uint64_t stride)
{
    struct capture_operand operand = {.stride = (uint32_t)stride, .count = (uint8_t)count};
    emit_expecting(emitter, op, r, n);
    emit_word(emitter, &operand);
}

void emit_expecting(struct emitter *emitter, enum capture_op op, unsigned r, unsigned n)
{
    if (emitter->fixup_count == sizeof emitter->fixups / sizeof emitter->fixups[0]) {
        emitter->failed = true;
        return;
    }
    emitter->minimum += 1;
    emitter->fixups[emitter->fixup_count++] = (struct fixup){emitter->code.len, emitter->minimum};
    emit(emitter, op, r, n, 0);
}

struct emitter_block emit_block_begin(struct emitter *emitter, enum capture_op op, unsigned r,
                                      const struct capture_operand *operand)
{
    size_t at = emitter->code.len;
    emit_expecting(emitter, op, r, 0);
    if (operand)
        emit_word(emitter, operand);
    struct emitter_block block = {at, emitter->code.len, emitter->minimum, emitter->fixup_count};
    emitter->minimum = 0;
    if (++emitter->blocks > CAPTURE_BLOCKS - 2)
        emitter->failed = true;
    emitter->merge_from = emitter->code.len;
    return block;
}

void emit_block_end(struct emitter *emitter, struct emitter_block block)
{
    emit(emitter, CAPTURE_END, 0, 0, 0);
    emit_fixups(emitter, block.fixups);
    emitter->minimum = block.minimum;
    emitter->blocks--;
    emitter->merge_from = emitter->code.len;
    struct capture_insn insn;
    size_t count = (emitter->code.len - block.body) / sizeof insn;
    if (emitter->failed || emitter->code.failed || count > UINT16_MAX) {
        emitter->failed = true;
        return;
    }
    memcpy(&insn, emitter->code.data + block.at, sizeof insn);
    insn.n = (uint16_t)count;
    memcpy(emitter->code.data + block.at, &insn, sizeof insn);
}

struct emitter_block emit_number_begin(struct emitter *emitter)
{
    struct emitter_block block = {emitter->code.len, 0, emitter->minimum, emitter->fixup_count};
    emit(emitter, CAPTURE_NUMBER, 0, 0, 0);
    block.body = emitter->code.len;
    emitter->blocks++;
    return block;
}

void emit_number_end(struct emitter *emitter, struct emitter_block block, unsigned type)
{
    emitter->minimum = block.minimum;
    block.minimum += 9;
    emit_block_end(emitter, block);
    if (emitter->failed)
        return;
    int32_t off = (int32_t)type;
    memcpy(emitter->code.data + block.at + offsetof(struct capture_insn, off), &off, sizeof off);
}

/* ---- places ---- */

struct place place_at(const struct place *place, uint64_t offset)
{
    struct place at = *place;
    at.offset += (int64_t)offset;
    return at;
}

/* What lies far above the stack pointer may be beyond the stack's end if the debug information is wrong. */
static bool reads_directly(const struct emitter *emitter, const struct place *place)
{
    return emitter->direct && place->frame && place->base < CAPTURE_TEMP && place->offset < DIRECT_ABOVE;
}

void emit_bytes(struct emitter *emitter, const struct place *place, uint64_t size)
{
    if (size == 0 || size > UINT16_MAX) {
        emitter->failed |= size != 0;
        return;
    }
    emitter->minimum += (unsigned)size;
    switch (place->kind) {
    case PLACE_MEMORY:
        if (!place->frame && emitter->blocks == 0)
            emitter->doubtful = true;
        emit(emitter, reads_directly(emitter, place) ? CAPTURE_MEM : CAPTURE_READ, place->base, (unsigned)size,
             place->offset);
        break;
    case PLACE_REGISTER:
        emit(emitter, place->base < CAPTURE_TEMP ? CAPTURE_REG : CAPTURE_VALUE, place->base, (unsigned)size,
             place->offset);
        break;
    case PLACE_XMM:
        emit(emitter, CAPTURE_XMM, place->base, (unsigned)size, place->offset);
        break;
    case PLACE_CONSTANT: {
        unsigned temp = emit_temp(emitter);
        emit_constant(emitter, temp, place->constant);
        emit(emitter, CAPTURE_VALUE, temp, (unsigned)size, 0);
        break;
    }
    default:
        emitter->failed = true;
    }
}

int emit_load(struct emitter *emitter, const struct place *place, unsigned size)
{
    unsigned temp;
    switch (place->kind) {
    case PLACE_REGISTER:
        if (place->offset == 0)
            return place->base;
        if (place->offset < 0 || place->offset > 7)
            return -1;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LEA, temp, place->base, 0);
        emit_constant(emitter, emit_temp(emitter), (uint64_t)place->offset * 8);
        emit(emitter, CAPTURE_ALU, temp, CAPTURE_SHR, temp + 1);
        return (int)temp;
    case PLACE_XMM:
        if (place->offset != 0 && place->offset != 8)
            return -1;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_XREG, temp, place->base, place->offset / 8);
        return (int)temp;
    case PLACE_CONSTANT:
        temp = emit_temp(emitter);
        emit_constant(emitter, temp, place->constant);
        return (int)temp;
    case PLACE_MEMORY:
        if (size == 0 || size > 8)
            return -1;
        if (!place->frame && emitter->blocks == 0)
            emitter->doubtful = true;
        temp = emit_temp(emitter);
        emit(emitter, CAPTURE_LOAD, temp, size << 8 | place->base, place->offset);
        return (int)temp;
    default:
        return -1;
    }
}

static void mark_missing(struct place *place, uint64_t from, uint64_t size)
{
    for (uint64_t i = from; i < from + size && i < SCRATCH_BITS; i++)
        place->missing[i / 64] |= UINT64_C(1) << i % 64;
}

/* Writes one piece to scratch at `at`; what has no place is marked. */
static void emit_spill(struct emitter *emitter, const struct piece *piece, unsigned at, uint64_t from,
                       struct place *whole)
{
    struct place place = {.kind = piece->kind,
                          .base = piece->base,
                          .offset = piece->offset,
                          .constant = piece->constant,
                          .frame = piece->kind == PLACE_MEMORY && piece->frame};
    if (place.kind == PLACE_OPTIMISED_OUT || place.kind == PLACE_NOT_AVAILABLE || place.kind == PLACE_PIECES) {
        mark_missing(whole, from, piece->size);
        return;
    }
    for (unsigned done = 0; done < piece->size; done += 8) {
        unsigned size = piece->size - done < 8 ? piece->size - done : 8;
        if ((place.kind == PLACE_REGISTER || place.kind == PLACE_CONSTANT) && done > 0) {
            mark_missing(whole, from + done, piece->size - done);
            return;
        }
        struct place part = place_at(&place, done);
        int value = emit_load(emitter, &part, size);
        if (value < 0)
            mark_missing(whole, from + done, size);
        else
            emit(emitter, CAPTURE_SPILL, (unsigned)value, 0, at + done);
    }
}

struct place emit_place_in_memory(struct emitter *emitter, const struct place *place, uint64_t size)
{
    struct place memory = {.kind = PLACE_MEMORY, .frame = true, .scratch = true};
    struct piece whole = {.kind = place->kind,
                          .base = place->base,
                          .offset = place->offset,
                          .constant = place->constant,
                          .size = (uint32_t)size};
    const struct piece *pieces = place->kind == PLACE_PIECES ? place->pieces : &whole;
    unsigned count = place->kind == PLACE_PIECES ? place->piece_count : 1;
    uint64_t room = (size + 15) / 8 * 8;
    if (size > CAPTURE_SCRATCH_SIZE || emitter->scratch + room > CAPTURE_SCRATCH_SIZE) {
        memory.kind = PLACE_NOT_AVAILABLE;
        return memory;
    }
    unsigned at = emitter->scratch;
    emitter->scratch += (unsigned)room;
    if (emitter->scratch_used < emitter->scratch)
        emitter->scratch_used = emitter->scratch;
    uint64_t from = 0;
    /* each spill writes 8 bytes: in order, so that a piece overwrites what the one before wrote too much */
    for (unsigned i = 0; i < count && from < size; i++) {
        struct piece piece = pieces[i];
        if (piece.size > size - from)
            piece.size = (uint32_t)(size - from);
        emit_spill(emitter, &piece, at + (unsigned)from, from, &memory);
        from += piece.size;
    }
    mark_missing(&memory, from, size - from);
    unsigned temp = emit_temp(emitter);
    emit(emitter, CAPTURE_SCRATCH, temp, 0, at);
    memory.base = (uint8_t)temp;
    return memory;
}

/* ---- text ---- */

void emit_quoted(struct buf *text, const char *name)
{
    buf_putc(text, '"');
    for (const char *p = name; *p; p++) {
        if ((unsigned char)*p < 0x20)
            continue;
        if (*p == '"' || *p == '\\')
            buf_putc(text, '\\');
        buf_putc(text, *p);
    }
    buf_putc(text, '"');
}

void emit_name(struct buf *text, const char *name)
{
    for (const char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
              strchr("_$~<>.", *p))) {
            emit_quoted(text, name);
            return;
        }
    buf_puts(text, name);
}

/* ---- fields ---- */

static void field_once(struct emitter *emitter, Dwarf_Die *type, bool in_block, unsigned depth, emit_locate_fn *locate,
                       void *ctx)
{
    struct place place = {.kind = PLACE_NOT_AVAILABLE};
    struct emitter_block block = {0};
    if (in_block) {
        buf_putc(&emitter->text, '?');
        block = emit_block_begin(emitter, CAPTURE_TRY, 0, NULL);
    }
    emitter->attribute = NULL;
    locate(ctx, emitter, &place);
    emit_type(emitter, type, &place, depth, 0);
    if (in_block)
        emit_block_end(emitter, block);
}

/* Where a field has to end that begins at `from`. */
static size_t end_of_field(size_t from, size_t most, size_t least, size_t record)
{
    size_t room = record > from ? record - from : 0;
    return from + (room > most ? most : room > least ? room : least);
}

/* The text since `from` with its parts by their numbers. */
static void share_field(struct emitter *emitter, size_t from)
{
    struct buf shared = BUF_INIT;
    size_t size = emitter->text.len - from;
    if (!emitter->part_id || emitter->text.failed)
        return;
    if (share_text(emitter->text.data + from, emitter->part_id, emitter->part_ctx, &shared) == 0) {
        truncate_to(&emitter->text, from);
        buf_append(&emitter->text, shared.data, shared.len);
        emitter->text_shared += size - shared.len;
    } else
        emitter->failed = true;
    buf_done(&shared);
}

static void put_type_name(struct emitter *emitter, Dwarf_Die *type)
{
    struct buf words = BUF_INIT;
    type_put_name(emitter->types, type, true, &words);
    if (words.data && !words.failed)
        emit_quoted(&emitter->text, words.data);
    buf_done(&words);
}

/* True if it fits. */
static bool field_at_depth(struct emitter *emitter, Dwarf_Die *type, unsigned depth, emit_locate_fn *locate, void *ctx)
{
    struct emitter_mark mark = emitter_mark(emitter);
    emitter->doubtful = emitter->cut = false;
    field_once(emitter, type, false, depth, locate, ctx);
    if (emitter->doubtful) {
        emitter_reset(emitter, &mark);
        field_once(emitter, type, true, depth, locate, ctx);
    }
    bool fits = !emitter->failed && emitter->minimum <= emitter->options->bytes &&
                emitter->text.len + emitter->text_shared < LAYOUT_LIMIT;
    if (fits) {
        share_field(emitter, mark.text);
        put_type_name(emitter, type);
    } else
        emitter_reset(emitter, &mark);
    return fits;
}

/* Whether finding the place takes no instructions, so that it says all about the field but its type. */
static bool is_plain(struct emitter *emitter, emit_locate_fn *locate, void *ctx, struct place *ret_place)
{
    struct emitter_mark mark = emitter_mark(emitter);
    *ret_place = (struct place){.kind = PLACE_NOT_AVAILABLE};
    locate(ctx, emitter, ret_place);
    bool plain = emitter->code.len == mark.code && ret_place->kind != PLACE_PIECES && ret_place->size <= UINT8_MAX;
    emitter_reset(emitter, &mark);
    return plain;
}

static void locate_found(void *ctx, struct emitter *emitter, struct place *ret_place)
{
    *ret_place = *(const struct place *)ctx;
}

static void emit_value(struct emitter *emitter, Dwarf_Die *type, emit_locate_fn *locate, void *ctx)
{
    struct emitter_mark mark = emitter_mark(emitter);
    struct place place;
    bool fits = false, plain = emitter->memo && !die_is_fortran(type) && is_plain(emitter, locate, ctx, &place);
    if (plain) {
        locate = locate_found;
        ctx = &place;
    }
    for (unsigned depth = emitter->options->depth + 1; depth-- > 0 && !fits;) { /* classes grow fast */
        enum memo_answer known = plain ? memo_field(emitter, type, &place, depth) : MEMO_NOTHING;
        fits = known == MEMO_DONE || (known == MEMO_NOTHING && field_at_depth(emitter, type, depth, locate, ctx));
        if (plain && known == MEMO_NOTHING)
            memo_field_keep(emitter, type, &place, depth, &mark, fits);
    }
    if (!fits) {
        buf_putc(&emitter->text, 'k');
        put_type_name(emitter, type);
    }
}

void emit_field(struct emitter *emitter, const char *name, Dwarf_Die *type, emit_locate_fn *locate, void *ctx)
{
    if (emitter->text.len > 0 && emitter->text.data[emitter->text.len - 1] != '(')
        buf_putc(&emitter->text, ',');
    emit_name(&emitter->text, name);
    buf_putc(&emitter->text, ':');
    size_t text = emitter->text.len, code = emitter->code.len, bytes = emitter->options->bytes;
    size_t texts = bytes * RECORD_TEXT > emitter->text_shared ? bytes * RECORD_TEXT - emitter->text_shared : 0;
    unsigned temps = emitter->temps, scratch = emitter->scratch;
    unsigned temps_used = emitter->temps_used, scratch_used = emitter->scratch_used;
    bool wants_xmm = emitter->wants_xmm;
    emitter->text_limit = end_of_field(text, FIELD_TEXT, FIELD_TEXT_LEAST, texts);
    emitter->code_limit = end_of_field(code, FIELD_CODE, FIELD_CODE_LEAST, bytes * RECORD_CODE);
    emitter->text_seen = text;
    emitter->code_seen = code;
    emitter->temps_used = emitter->scratch_used = 0;
    emitter->wants_xmm = false;
    emit_value(emitter, type, locate, ctx);
    emitter->temps = temps;
    emitter->scratch = scratch;
    emitter->temps_used = emitter->temps_used > temps_used ? emitter->temps_used : temps_used;
    emitter->scratch_used = emitter->scratch_used > scratch_used ? emitter->scratch_used : scratch_used;
    emitter->wants_xmm |= wants_xmm;
}
