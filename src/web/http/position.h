/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a reader of a job's records is: for the job, and for each of its parts on other nodes, how far it has read. As
 * text it is the id of an event: OFFSET, then ,HASH:OFFSET for each part, in base 36, where HASH is of the part's name.
 * So it says what comes next also to a server that was started again.
 */
#ifndef SCRY_WEB_HTTP_POSITION_H
#define SCRY_WEB_HTTP_POSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/data/buf.h"

enum { POSITION_PARTS = 400, POSITION_TEXT = 8 << 10 };

struct position {
    size_t count;
    struct position_part {
        uint32_t name; /* hash; of the job itself 0 */
        uint64_t offset;
    } parts[POSITION_PARTS];
};

/* false: it is no such text; then nothing is known. */
bool position_parse(struct span text, struct position *ret_position);
uint64_t position_of(const struct position *position, uint32_t name); /* 0: nothing was read of it */
void position_put(struct buf *out, uint32_t name, uint64_t offset, bool first);
uint32_t position_name(const char *part); /* never 0 */

#endif
