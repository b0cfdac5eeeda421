/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pointers lead to is the same in most programs of a file, and nearly all of their bytes. It is given out once,
 * and the programs say where it is: they come to a twentieth.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "symbols/capture/internal.h"
#include "symbols/layout/refs.h"

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
    struct share_entry *entry, *next;
    HASH_ITER(hh, *known, entry, next)
    {
        HASH_DEL(*known, entry);
        free(entry);
    }
}
