/* SPDX-License-Identifier: Apache-2.0 */
/* What one instruction does to what is known of registers and of the stack; of capture_track.c. */
#ifndef SCRY_SYMBOLS_CAPTURE_STEP_H
#define SCRY_SYMBOLS_CAPTURE_STEP_H

#include "symbols/capture_internal.h"
#include "symbols/capture_x86_64.h"

enum { RSP = 7, RBP = 6, XMM0 = 16 }; /* of track.values */

void track_step(struct track *track, const struct insn *insn);
void track_called(struct track *track); /* a function was called: what it need not keep is unknown */
void track_store(struct track *track, struct tracked address, unsigned size, struct tracked value);

static inline bool same(struct tracked a, struct tracked b)
{
    return a.kind == b.kind && a.base == b.base && a.size == b.size && a.add == b.add && a.mask == b.mask;
}

static inline bool is_address(struct tracked value)
{
    return value.kind == TRACK_REGISTER && value.size == 8 && value.base < 16 && !value.mask;
}

static inline bool overlaps(const struct track_slot *slot, unsigned base, int64_t offset, unsigned size)
{
    return slot->base == base && slot->offset < offset + (int64_t)size && offset < slot->offset + slot->size;
}

#endif
