/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the head of each record (shm/record.h), for those who read packets. */
#ifndef SCRY_SHM_RECORD_SHAPE_H
#define SCRY_SHM_RECORD_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/record.h"

static const struct record_shape {
    uint8_t fixed; /* bytes */
    bool bytes;    /* the last two of them say how many more follow */
} record_shapes[RECORD_IDS] = {
    [RECORD_ENTRY] = {4, false},
    [RECORD_EXIT] = {0, false},
    [RECORD_EXIT_OF] = {12, false},
    [RECORD_ENTRY_VALUES] = {10, true},
    [RECORD_EXIT_VALUES] = {18, true},
    [RECORD_CALLER_VALUES] = {6, true},
    [RECORD_UNWOUND] = {4, false},
    [RECORD_LOST] = {4, false},
    [RECORD_STACK] = {8, false},
    [RECORD_SIGNAL] = {24, false},
    [RECORD_MARK] = {2, true},
    [RECORD_THINNED] = {4, false},
    [RECORD_MESSAGE] = {sizeof(struct record_message), false},
};

#endif
